"""The private methods and attributes of Faust and aiokafka that the safe transport stands on.

Each is held by name and signature: an upgrade that moves one fails here, not at night.
"""

import inspect
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any, cast

import faust
import mode.threads
import pytest
from aiokafka.consumer import group_coordinator
from aiokafka.structs import ConsumerRecord
from faust.transport import consumer as base
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from streams.app import AppSettings, SafeApp, build_app
from streams.faust_transport import (
    SafeConsumer,
    SafeConsumerThread,
    SafeProducer,
    SafeTransport,
    SafeWorkerThread,
)
from streams.limits import FETCH_WAIT_MS

OVERRIDDEN = [
    (SafeConsumer, base.Consumer, "getmany", "(self, timeout)"),
    (SafeConsumer, driver.Consumer, "_new_consumer_thread", "(self)"),
    (
        SafeConsumerThread,
        driver.AIOKafkaConsumerThread,
        "_create_worker_consumer",
        "(self, transport)",
    ),
    (SafeConsumerThread, driver.AIOKafkaConsumerThread, "stop", "(self)"),
    (SafeConsumerThread, driver.AIOKafkaConsumerThread, "on_thread_stop", "(self)"),
    (SafeWorkerThread, mode.threads.WorkerThread, "stop", "(self)"),
    (SafeConsumer, driver.Consumer, "_to_message", "(self, tp, record)"),
    (SafeConsumer, base.Consumer, "ack", "(self, message)"),
    (SafeConsumer, base.Consumer, "_new_offset", "(self, tp)"),
    (SafeConsumer, base.Consumer, "_commit_offsets", "(self, offsets, start_new_transaction)"),
    (SafeConsumer, driver.Consumer, "seek_to_committed", "(self)"),
    (SafeConsumer, base.Consumer, "on_partitions_revoked", "(self, revoked)"),
    (SafeConsumer, base.Consumer, "on_partitions_assigned", "(self, assigned, generation_id)"),
    (SafeProducer, driver.Producer, "send_soon", "(self, fut)"),
    (SafeProducer, driver.Producer, "flush", "(self)"),
    (SafeProducer, driver.Producer, "_settings_extra", "(self)"),
    (SafeApp, faust.App, "_new_transport", "(self)"),
    (SafeApp, faust.App, "_new_producer_transport", "(self)"),
    (SafeApp, faust.App, "_on_agent_error", "(self, agent, exc)"),
    (SafeApp, faust.App, "_producer_flush", "(self, logger)"),
    (SafeApp, faust.App, "_on_rebalance_when_stopped", "(self)"),
    (SafeApp, faust.App, "_create_directories", "(self)"),
]


def parameters(function: object) -> str:
    """The names of a function's parameters, as in its signature."""
    assert callable(function)
    return f"({', '.join(inspect.signature(function).parameters)})"


@pytest.mark.parametrize(("ours", "theirs", "name", "expected"), OVERRIDDEN)
def test_every_overridden_method_is_there_as_expected(
    ours: type, theirs: type, name: str, expected: str
) -> None:
    """What we override exists in Faust with the parameters we know, and we take the same."""
    assert name in vars(ours)
    original = inspect.unwrap(getattr(theirs, name))
    assert parameters(original) == expected
    assert parameters(inspect.unwrap(getattr(ours, name))) == expected
    assert inspect.iscoroutinefunction(original) == inspect.iscoroutinefunction(vars(ours)[name])


@pytest.mark.parametrize(
    "ours",
    [SafeConsumer, SafeConsumerThread, SafeWorkerThread, SafeProducer, SafeApp, SafeTransport],
)
def test_nothing_private_is_overridden_without_being_held(ours: type) -> None:
    """An override that is not in the list above would be held by nobody."""
    held = {name for one, _, name, _ in OVERRIDDEN if one is ours}
    inherited = {name for parent in ours.__mro__[1:] for name in vars(parent)}
    overridden = {
        name
        for name, value in vars(ours).items()
        if inspect.isfunction(value) and name in inherited
    }
    assert overridden - {"__init__"} == held


USED = [
    (driver.AIOKafkaConsumerThread, "seek_to_beginning", "(self, partitions)"),
    (base.Consumer, "stop_flow", "(self)"),
    (base.Consumer, "commit", "(self, topics, start_new_transaction)"),
    (driver.Consumer, "highwaters", "(self, partitions)"),
    (driver.Consumer, "assignment", "(self)"),
    (base.Consumer, "track_message", "(self, message)"),
    (faust.Stream, "noack", "(self)"),
    (faust.Stream, "events", "(self)"),
]
"""What the overrides, the watchdog and the agents call and no override holds."""


@pytest.mark.parametrize(("theirs", "name", "expected"), USED)
def test_every_method_that_is_called_is_there_as_expected(
    theirs: type, name: str, expected: str
) -> None:
    """What we stand on without overriding it has the parameters we give it."""
    assert parameters(inspect.unwrap(getattr(theirs, name))) == expected


def test_what_is_read_of_private_attributes_is_there() -> None:
    """The thread of the consumer, its own consumer, the buffer of the producer, the app's state."""
    assert "self._thread" in inspect.getsource(driver.Consumer)
    assert "self._consumer" in inspect.getsource(driver.AIOKafkaConsumerThread)
    assert "buffer" in inspect.getsource(driver.Producer)
    assert hasattr(faust.App, "rebalancing")
    assert "consumer_generation_id" in inspect.getsource(base)


def test_the_versions_are_those_that_were_measured() -> None:
    """Every release changed delivery before, so the pins move only with new measurements."""
    assert version("faust-streaming") == "0.15.3"
    assert version("mode-streaming") == "0.7.1"
    assert version("aiokafka") == "0.14.0"


@pytest.fixture
async def app() -> AsyncIterator[SafeApp]:
    """Build an app that is never started; its consumer has made a loop for its thread already."""
    app = build_app(AppSettings("127.0.0.1:1,127.0.0.1:2", "guards"))
    yield app
    app.safe_consumer._thread.thread_loop.close()


async def test_the_bookkeeping_of_acknowledgements_is_where_we_read_it(app: SafeApp) -> None:
    """Acknowledged offsets and the committed one are kept by partition under the names we use."""
    consumer = app.safe_consumer
    for name in ("_acked", "_acked_index", "_committed_offset", "_unacked_messages", "_thread"):
        assert hasattr(consumer, name)
    source = inspect.getsource(base.Consumer)
    assert "acked_index.add(offset)" in source
    assert "self._unacked_messages.discard(message)" in source
    assert "set_read_offset(tp, offset)" in source
    assert "if self._n_acked >= commit_every" in source
    assert "self._buffered_partitions.add(tp)" in source


PLACE = TP("t.events", 0)


async def fetched(app: SafeApp, offset: int) -> tuple[Any, Any]:
    """The queue of an agent that has taken a partition over up to offset 0, and a message of it."""
    topic = app.topic(PLACE.topic, key_serializer="raw", value_serializer="raw")
    channel: Any = aiter(topic)
    conductor: Any = app.topics
    conductor._update_tp_index({PLACE})
    conductor._update_callback_map()
    app.flow_control.resume()
    consumer = app.safe_consumer
    consumer.resume_flow()
    consumer._read_offset[PLACE] = 0
    record = ConsumerRecord(*PLACE, offset, 1, 0, b"key", b"value", None, 3, 5, [])
    return channel.queue, consumer._to_message(PLACE, record)


async def test_what_can_be_taken_is_handed_over_without_waiting(app: SafeApp) -> None:
    """A callback that waited where we say it does not would hold up a change of the group."""
    queue, message = await fetched(app, 1)
    assert app.safe_consumer._can_be_taken(PLACE, 1)
    with pytest.raises(StopIteration):
        app.safe_consumer.callback(message).send(None)  # type: ignore[attr-defined]
    assert queue.get_nowait().message is message


async def test_no_fetch_is_kept_longer_than_ours(app: SafeApp) -> None:
    """The client that Faust makes is given our time, and hands it on to what fetches."""
    thread = cast("SafeConsumerThread", app.safe_consumer._thread)
    transport = cast("SafeTransport", app.transport)
    consumer: Any = thread._create_worker_consumer(transport)
    await consumer.stop()
    assert consumer._fetch_max_wait_ms == FETCH_WAIT_MS
    assert "fetch_max_wait_ms=self._fetch_max_wait_ms" in inspect.getsource(type(consumer))


async def test_the_thread_is_asked_to_end_and_waited_for_where_we_do_it(app: SafeApp) -> None:
    """Faust waits for it on the loop of the app, tells by an event that it has begun, and ends the
    client behind the queue of calls; aiokafka by itself waits for its part in the group.
    """
    thread = app.safe_consumer._thread
    assert thread.Worker is SafeWorkerThread
    source = inspect.getsource(mode.threads.ServiceThread.stop)
    assert "if self._started.is_set():" in source
    assert "self._thread.stop()" in source
    source = inspect.getsource(driver.AIOKafkaConsumerThread.on_thread_stop)
    assert "await super().on_thread_stop()" in source
    assert "await self._consumer.stop()" in source
    assert "await self._coordination_task" in inspect.getsource(
        group_coordinator.GroupCoordinator.close
    )
    assert "self.consumer.close()" in inspect.getsource(faust.App._on_rebalance_when_stopped)


async def test_what_its_agent_must_wait_for_goes_the_way_of_faust(app: SafeApp) -> None:
    """Flow that is stopped, a full queue, a change of topics, a commit that is due, and a gap."""
    queue, _ = await fetched(app, 1)
    consumer, topics = app.safe_consumer, cast("Any", app.topics)

    def can_be_taken() -> bool:
        return consumer._can_be_taken(PLACE, 1)

    assert can_be_taken()
    app.flow_control.suspend()
    assert not can_be_taken()
    app.flow_control.resume()
    consumer.stop_flow()
    assert not can_be_taken()
    consumer.resume_flow()
    async with topics._tp_to_callback_lock:
        assert not can_be_taken()
    for number in range(queue.maxsize):
        queue.put_nowait(number)
    assert not can_be_taken()
    queue.get_nowait()
    assert can_be_taken()
    consumer._n_acked = app.conf.broker_commit_every
    assert not can_be_taken()
    consumer._n_acked = 0
    for before in (None, 1, -1):
        consumer._read_offset[PLACE] = before
        assert not can_be_taken()


def test_the_coordinator_keeps_its_error_where_we_read_it() -> None:
    """The pending error, the routine and the generation of the group have the names we use."""
    source = inspect.getsource(group_coordinator)
    for name in (
        "self._pending_exception = exc",
        "self._coordination_task = ",
        "self.generation =",
    ):
        assert name in source
    assert driver.DEFAULT_GENERATION_ID == -1


async def test_the_app_is_built_from_explicit_settings(app: SafeApp) -> None:
    """Nothing that loses events by default is left at its default."""
    conf = app.conf
    assert [str(url) for url in conf.broker] == ["kafka://127.0.0.1:1", "kafka://127.0.0.1:2"]
    assert str(conf.agent_supervisor) == str(mode.CrashingSupervisor)
    assert str(conf.processing_guarantee) == "ProcessingGuarantee.AT_LEAST_ONCE"
    assert conf.consumer_auto_offset_reset == "earliest"
    assert (conf.key_serializer, conf.value_serializer) == ("raw", "raw")
    assert conf.stream_wait_empty is True
    assert conf.topic_disable_leader is True
    assert conf.topic_allow_declare is False
    assert conf.web_enabled is False
    assert conf.stream_publish_on_commit is False
    assert not app.tables.keys()


async def test_the_producer_is_idempotent_and_waits_for_all_replicas(app: SafeApp) -> None:
    """Whatever Faust sends is acknowledged by every replica in sync, once."""
    producer = app.producer
    assert isinstance(producer, SafeProducer)
    settings = {**producer._settings_default(), **producer._settings_extra()}
    assert settings["acks"] == "all"
    assert settings["enable_idempotence"] is True
