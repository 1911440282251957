"""The safe transport on the real broker: nothing that was not handled is ever committed."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from faust.exceptions import ProducerSendError
from faust.types import StreamT

from ledger.log.port import Record
from streams.agents import EventDeadlineError, add_agent
from streams.app import AppEndedError, SafeApp, StandstillError
from streams.limits import STREAM_BUFFER_EVENTS_MAX
from tests.integration.faust_kit import POLL_SECONDS, Workshop, until, workshop
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

POISON = b"poison"
RESTORED = 120
"""Rows that are made again, one each time something is looked at: for some seconds."""


def batches(topic: str, seen: list[bytes], *, deadline_ms: int = 5_000) -> Callable[..., None]:
    """An agent as the product builds it, which fails on poison."""

    async def handle(records: Sequence[Record]) -> None:
        for record in records:
            if record.value == POISON:
                raise RuntimeError("this escapes the agent")
            seen.append(record.value)

    return lambda app: add_agent(app, topic, handle, deadline_ms=deadline_ms)


def one_by_one(topic: str, seen: list[bytes]) -> Callable[..., None]:
    """A plain Faust agent that knows nothing of our rules and fails on poison."""

    async def handle(stream: StreamT[bytes]) -> None:
        async for value in stream:
            if value == POISON:
                raise RuntimeError("this escapes the agent")
            seen.append(value)

    return lambda app: app.agent(app.topic(topic, value_serializer="raw"), name=topic)(handle)


Agent = Callable[[str, list[bytes]], Callable[[SafeApp], None]]


@pytest.mark.case("C145")
@pytest.mark.parametrize("agent", [batches, one_by_one])
@pytest.mark.parametrize("commit_interval_ms", [50, 60_000])
async def test_c145_an_agent_that_raises_skips_nothing(
    servers: Addresses, agent: Agent, commit_interval_ms: int
) -> None:
    """C145: the event that raised and the one behind it are both handled after the restart, whether
    or not a commit came between.
    """
    async with workshop(servers.kafka_bootstrap) as shop:
        before: list[bytes] = []
        failing = shop.start(agent(shop.topic, before), commit_interval_ms=commit_interval_ms)
        await shop.put(b"1110", b"1111")
        await until(lambda: before == [b"1110", b"1111"], "the first two are handled")
        if commit_interval_ms == 50:
            await shop.committed_becomes(2)
        await shop.put(POISON, b"1113")
        assert isinstance(await failing.ended(), AppEndedError)
        assert failing.app.safe_consumer.poisoned_by is not None
        assert (await shop.committed() or 0) <= 2

        after: list[bytes] = []

        async def handle(records: Sequence[Record]) -> None:
            after.extend(record.value for record in records)

        shop.start(lambda app: add_agent(app, shop.topic, handle, deadline_ms=5_000))
        await until(lambda: b"1113" in after, "the events behind it are handled")
        assert POISON in after
        await shop.committed_becomes(4)


async def test_an_agent_cancelled_in_the_middle_skips_nothing(servers: Addresses) -> None:
    """An event whose handling was cut off is not committed, though Faust acknowledges it."""
    async with workshop(servers.kafka_bootstrap) as shop:
        begun = asyncio.Event()

        async def handle(_: Sequence[Record]) -> None:
            begun.set()
            await asyncio.Event().wait()

        running = shop.start(lambda app: add_agent(app, shop.topic, handle, deadline_ms=5_000))
        await shop.put(b"half done")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await begun.wait()
        for agent in running.app.agents.values():
            for actor in agent._actors:
                actor.actor_task.cancel()
        assert isinstance(await running.ended(), AppEndedError)
        assert await shop.committed() is None


async def test_a_commit_never_passes_an_event_at_work(servers: Addresses) -> None:
    """With events done out of order the offset stays below the first that is not, then moves on."""
    async with workshop(servers.kafka_bootstrap) as shop:
        release, done = asyncio.Event(), set[bytes]()

        def add(app: SafeApp) -> None:
            async def handle(stream: StreamT[bytes]) -> None:
                async for value in stream:
                    if value == b"0":
                        await release.wait()
                    done.add(value)

            topic = app.topic(shop.topic, value_serializer="raw")
            app.agent(topic, name=shop.topic, concurrency=2)(handle)

        running = shop.start(add, commit_interval_ms=50)
        await shop.put(*(str(number).encode() for number in range(6)))
        await until(lambda: len(done) == 5, "all but the first are done")
        commits = running.app.monitor.commit_latency
        seen = len(commits)
        await until(lambda: len(commits) >= seen + 3, "three more commits are tried")
        assert await shop.committed() is None
        release.set()
        await shop.committed_becomes(6)


async def test_an_agent_that_is_behind_gets_everything_once_and_in_order(
    servers: Addresses,
) -> None:
    """More than a queue holds, over two partitions: what has no room is kept back, nothing else is,
    and all of it comes when there is room again.
    """
    async with workshop(servers.kafka_bootstrap, partitions=2) as shop:
        release, seen = asyncio.Event(), defaultdict[int, list[int]](list)

        async def handle(records: Sequence[Record]) -> None:
            for record in records:
                seen[record.partition].append(record.offset)
            await release.wait()

        shop.start(lambda app: add_agent(app, shop.topic, handle, deadline_ms=PATIENCE_MS))
        count = STREAM_BUFFER_EVENTS_MAX + 500
        await asyncio.gather(
            *(
                shop.producer.send_and_wait(shop.topic, b"event", partition=partition)
                for partition in range(2)
                for _ in range(count)
            )
        )
        await until(lambda: bool(seen), "the first are at work")
        queues = [topic.queue for topic in shop.running[0].app.topics]
        await until(lambda: any(queue.full() for queue in queues), "there is no room left")
        release.set()
        whole = list(range(count))
        await until(lambda: all(seen[part][-1:] == [count - 1] for part in range(2)), "all came")
        assert (seen[0], seen[1]) == (whole, whole)
        await shop.committed_becomes(count, 0)
        await shop.committed_becomes(count, 1)


async def test_a_rebalance_commits_before_it_gives_up(servers: Addresses) -> None:
    """What one member handled is not handled again because another joins or leaves."""
    async with workshop(servers.kafka_bootstrap, partitions=4) as shop:
        handled: list[tuple[int, int]] = []

        async def handle(records: Sequence[Record]) -> None:
            handled.extend((record.partition, record.offset) for record in records)

        def add(app: SafeApp) -> None:
            add_agent(app, shop.topic, handle, deadline_ms=5_000)

        # A member that is missed, as on a busy machine, is another case.
        calm = {"commit_interval_ms": 600_000, "session_timeout_ms": 80_000}
        first = shop.start(add, **calm)
        for number in range(200):
            await shop.put(b"x", partition=number % 4)
        await until(lambda: len(handled) >= 200, "the first member handles all")
        second = shop.start(add, **calm)
        await until(
            lambda: len(_assigned(first.app)) == len(_assigned(second.app)) == 2,
            "the partitions are shared",
        )
        for number in range(200):
            await shop.put(b"y", partition=number % 4)
        await until(lambda: len(set(handled)) == 400, "both handle what came")
        await first.stopped()
        await until(lambda: len(_assigned(second.app)) == 4, "the second has all of them")
        for partition in range(4):
            await shop.put(b"z", partition=partition)
        await until(lambda: len(set(handled)) == 404, "the second handles the rest")
        assert len(handled) == 404


async def test_a_partition_without_a_commit_is_read_from_its_beginning(servers: Addresses) -> None:
    """When partitions change hands Faust throws its buffers away and seeks to what was committed;
    where nothing was, it must not go on behind what it has thrown away.
    """
    async with workshop(servers.kafka_bootstrap, partitions=2) as shop:
        handled: list[tuple[int, int]] = []

        async def handle(records: Sequence[Record]) -> None:
            handled.extend((record.partition, record.offset) for record in records)

        def add(app: SafeApp) -> None:
            add_agent(app, shop.topic, handle, deadline_ms=5_000)

        only = shop.start(add, commit_interval_ms=600_000)
        await shop.put(b"a", b"b", partition=0)
        await until(lambda: len(handled) == 2, "what came is handled and not committed")
        await only.app.safe_consumer.perform_seek()
        await until(lambda: handled.count((0, 0)) == 2, "it is read again")


def _assigned(app: SafeApp) -> set[object]:
    return set(app.safe_consumer.assignment()) if app.safe_consumer.is_member() else set()


async def test_flush_waits_for_what_was_handed_over(servers: Addresses) -> None:
    """When flush returns, every message handed over before it is on the broker."""
    async with workshop(servers.kafka_bootstrap) as shop:
        seen: list[bytes] = []
        running = shop.start(batches(shop.topic, seen))
        await shop.put(b"ready")
        await until(lambda: seen == [b"ready"], "the app is ready")
        topic = running.app.topic(shop.topic, value_serializer="raw")
        sent = topic.send_soon(value=b"first")
        for number in range(1_999):
            sent = topic.send_soon(value=b"%d " % number * 200)
        await running.app.producer.flush()
        (end,) = (
            await running.app.safe_consumer.highwaters(*running.app.safe_consumer.assignment())
        ).values()
        assert end == 2_001
        assert sent.done()


async def test_flush_raises_when_a_message_is_lost(servers: Addresses) -> None:
    """An offset that follows from a lost message is not committed: flush does not return."""
    async with workshop(servers.kafka_bootstrap) as shop:
        seen: list[bytes] = []
        running = shop.start(batches(shop.topic, seen))
        await shop.put(b"ready")
        await until(lambda: seen == [b"ready"], "the app is ready")
        topic = running.app.topic(shop.topic, value_serializer="raw")
        lost = topic.send_soon(value=b"x" * 2_000_000)
        with pytest.raises(ProducerSendError):
            await running.app.producer.flush()
        assert isinstance(await running.ended(), AppEndedError)
        assert not lost.done()


async def test_trouble_is_tried_again_in_place(servers: Addresses) -> None:
    """While something is away the event waits and the others behind it too; then all are handled in
    order.
    """
    async with workshop(servers.kafka_bootstrap) as shop:
        handled: list[bytes] = []
        failures = 0

        async def handle(records: Sequence[Record]) -> None:
            nonlocal failures
            if failures < 3:
                failures += 1
                raise ConnectionRefusedError("the database is away")
            handled.extend(record.value for record in records)

        shop.start(lambda app: add_agent(app, shop.topic, handle, deadline_ms=10_000))
        await shop.put(b"a", b"b", b"c")
        await until(lambda: handled == [b"a", b"b", b"c"], "all are handled in order")
        assert failures == 3


async def test_trouble_that_lasts_ends_the_process_and_skips_nothing(servers: Addresses) -> None:
    """An event that cannot be handled before its deadline is left to the next process."""
    async with workshop(servers.kafka_bootstrap) as shop:

        async def handle(_: Sequence[Record]) -> None:
            raise ConnectionRefusedError("the database is away")

        running = shop.start(lambda app: add_agent(app, shop.topic, handle, deadline_ms=300))
        await shop.put(b"a")
        ended = await running.ended()
        assert isinstance(ended, AppEndedError)
        assert isinstance(ended.__cause__, EventDeadlineError)
        assert await shop.committed() is None


async def test_an_app_that_makes_something_again_before_its_events_moves(
    servers: Addresses,
) -> None:
    """Its one batch takes far longer than an app may stand still, and is handled to its end."""
    async with workshop(servers.kafka_bootstrap) as shop:
        made, handled = 0, list[bytes]()

        async def handle(records: Sequence[Record]) -> None:
            nonlocal made
            while made < RESTORED:
                made += 1
                await asyncio.sleep(POLL_SECONDS)
            handled.extend(record.value for record in records)

        def add(app: SafeApp) -> None:
            app.made_again = lambda: made
            add_agent(app, shop.topic, handle, deadline_ms=500)

        running = shop.start(add, stalled_after_ms=2_000)
        await shop.put(b"behind it")
        await until(lambda: handled == [b"behind it"] or running.task.done(), "it is handled")
        assert not running.task.done()
        await shop.committed_becomes(1)


async def test_a_group_that_does_not_take_us_in_ends_the_process(servers: Addresses) -> None:
    """An error of the group's coordinator, which Faust never asks for, ends the app."""
    async with workshop(servers.kafka_bootstrap) as shop:
        async with _Stranger(shop):
            running = shop.start(batches(shop.topic, []))
            ended = await running.ended()
        assert isinstance(ended, StandstillError)


class _Stranger:
    """A member of the group that shares partitions out in another way than the app can."""

    def __init__(self, shop: Workshop) -> None:
        self._consumer = AIOKafkaConsumer(
            shop.topic,
            bootstrap_servers=shop.bootstrap,
            group_id=shop.settings().group,
            partition_assignment_strategy=[RangePartitionAssignor],
        )

    async def __aenter__(self) -> None:
        await self._consumer.start()

    async def __aexit__(self, *_: object) -> None:
        await self._consumer.stop()
