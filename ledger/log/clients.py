"""The life of a Kafka client: started within a deadline, ended within one, and seen to be alive.

Guarantees that ending a client ends all that it runs, whether the broker answers or not, and never
looks like a cancellation of whoever ends it. aiokafka by itself waits for ever for the last batches
of a producer, raises CancelledError out of a consumer's end while the broker is away, and gives no
records back once its fetching task has died; what is private to it is touched here alone.
"""

import asyncio
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    ProducerClosed,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka.protocol.metadata import MetadataRequest

from ledger.core.errors import LedgerError
from ledger.log.login import refusal
from ledger.log.record_batches import read_any_header_names
from ledger.log.trouble import LogRefusedError, LogUnreachableError

START_DEADLINE_SECONDS = 30.0
CLOSE_DEADLINE_SECONDS = 5.0
_NO_RIGHTS: Final = (ClusterAuthorizationFailedError, TopicAuthorizationFailedError)
_NOT_THERE: Final = {UnknownTopicOrPartitionError.errno, TopicAuthorizationFailedError.errno}
_CUT_TRIES_MAX = 8
_CUT_SECONDS = 0.1
_GIVEN_UP_SECONDS = 3.0
"""How long the start of a client that is given up may take to come to its end, on a busy machine
too; with what ends it afterwards it fits what a process has to end in.
"""
_TASKS_OF_CONSUMERS: Final = (
    "_coordination_task",
    "_heartbeat_task",
    "_commit_refresh_task",
    "_reset_committed_task",
    "_fetch_task",
)


async def start(
    client: AIOKafkaProducer | AIOKafkaConsumer,
    options: Mapping[str, Any],
    *,
    deadline_seconds: float = START_DEADLINE_SECONDS,
) -> None:
    """Start a client that was made with these options; one that does not start is ended.

    Raises LogUnreachableError, LogRefusedError.
    """
    read_any_header_names()
    try:
        async with asyncio.timeout(deadline_seconds):
            await to_its_end(client.start())
    except BaseException as failure:
        await end(client)
        if not isinstance(failure, KafkaError | TimeoutError):
            raise
        raise await not_started(failure, options) from failure


async def to_its_end(start: Coroutine[Any, Any, None]) -> None:
    """Wait for the start of a client, and let it come to its end also when it is given up: aiokafka
    forgets the connection on which it asks first, open as it is, when it is cut there.
    """
    starting = asyncio.ensure_future(start)
    try:
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await asyncio.wait({starting}, timeout=_GIVEN_UP_SECONDS)
        starting.cancel()
        await asyncio.wait({starting}, timeout=_CUT_SECONDS)
        if starting.done() and not starting.cancelled():
            starting.exception()  # an error that nobody else will hear
        raise


async def meet(client: AIOKafkaClient, *, answer_seconds: float) -> None:
    """Have a bare client learn of its cluster from the first address that answers; each step at an
    address has so long. It ends by itself, and is not to be cut: the connection would stay open.

    Raises KafkaError, OSError.
    """
    kept = client._request_timeout_ms  # noqa: SLF001 - one for everything, and calls have their own
    client._request_timeout_ms = round(answer_seconds * 1000)  # noqa: SLF001 - as above
    try:
        await client.bootstrap()
    finally:
        client._request_timeout_ms = kept  # noqa: SLF001 - as above


def ask_about(consumer: AIOKafkaConsumer, topics: Collection[str]) -> None:
    """Have a consumer that holds no partitions ask about these topics: by itself it asks the broker
    for all that there are, whosoever they are. What is asked next waits for the answer.
    """
    if topics and not consumer.assignment():
        consumer._client.set_topics(topics)  # noqa: SLF001 - nothing else says what it is to know


async def described(admin: AIOKafkaAdminClient, names: Sequence[str]) -> list[dict[str, Any]]:
    """Those of these topics that there are for us, with their partitions. Asks about no others, and
    has no broker make what is missing, which aiokafka's own question may. Raises KafkaError.
    """
    request = MetadataRequest(list(names), allow_auto_topic_creation=False)
    answer = await admin._send_request(request)  # noqa: SLF001 - there is no other way to say so
    found: list[dict[str, Any]] = answer.to_object()["topics"]
    return [one for one in found if one["error_code"] not in _NOT_THERE]


async def not_started(failure: BaseException, given: Mapping[str, Any]) -> LedgerError:
    """What to tell of a start that failed: the client itself never says why."""
    options = dict(given)
    bootstrap = options.pop("bootstrap_servers")
    if isinstance(failure, _NO_RIGHTS):
        return LogRefusedError(
            f"The broker lets {options.get('sasl_plain_username')} in, and do nothing "
            f"({type(failure).__name__}).",
            hint="`actionledger acl check` names the rights that are missing.",
        )
    trouble = await refusal(bootstrap, options)
    return trouble or LogUnreachableError(
        f"No Kafka broker answered at {bootstrap} ({failure!r}); one does now.",
        hint="This process can be started again.",
    )


async def end(
    client: AIOKafkaProducer | AIOKafkaConsumer,
    *,
    deadline_seconds: float = CLOSE_DEADLINE_SECONDS,
) -> None:
    """End a client within a deadline, by force where it does not end by itself; never raises its
    troubles. What a producer had not been acknowledged may or may not be in the log.
    """
    ending = asyncio.ensure_future(client.stop())
    try:
        await asyncio.wait({ending}, timeout=deadline_seconds)
    finally:
        ending.cancel()
    await asyncio.wait({ending}, timeout=_CUT_SECONDS)
    if ending.done() and not ending.cancelled() and ending.exception() is None:
        return
    if isinstance(client, AIOKafkaProducer):
        await _cut_producer(client)
    else:
        await _cut_consumer(client)


async def _cut_consumer(consumer: AIOKafkaConsumer) -> None:
    """Ask for nothing more: what still runs would open connections again, whatever is closed."""
    running: set[asyncio.Task[Any]] = set()
    for owner in (consumer._coordinator, consumer._fetcher):  # noqa: SLF001 - `stop` left too early
        found = [getattr(owner, name, None) for name in _TASKS_OF_CONSUMERS]
        found += getattr(owner, "_pending_tasks", ())
        running.update(task for task in found if task is not None and not task.done())
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running, timeout=_CUT_TRIES_MAX * _CUT_SECONDS)
    await _close(consumer._client)  # noqa: SLF001 - as above


async def _cut_producer(producer: AIOKafkaProducer) -> None:
    """Send nothing more and tell whoever still waits. The sender first: it would put a batch that
    was given up back into its queue.
    """
    sending = producer._sender.sender_task  # noqa: SLF001 - `stop` waits for it without an end
    for _ in range(_CUT_TRIES_MAX):
        if sending is None or sending.done():
            break
        # Each cancellation also ends one request that the sender waits for.
        sending.cancel()
        await asyncio.wait({sending}, timeout=_CUT_SECONDS)
    queue = producer._message_accumulator  # noqa: SLF001 - it has no way to give up
    batches = list(queue._pending_batches)  # noqa: SLF001
    for waiting in queue._batches.values():  # noqa: SLF001
        batches.extend(waiting)
    queue._pending_batches.update(batches)  # noqa: SLF001 - where a sent batch looks for itself
    queue.fail_all(ProducerClosed())
    for batch in batches:
        if batch._drain_waiter.done():  # noqa: SLF001 - an error that nobody else will hear
            batch._drain_waiter.exception()  # noqa: SLF001
    await _close(producer.client)


async def _close(client: AIOKafkaClient) -> None:
    """Close its connections. What was cut before this has cancelled the futures that closing waits
    for: that is no cancellation of ours.
    """
    closing = asyncio.ensure_future(client.close())
    await asyncio.wait({closing}, timeout=_CUT_SECONDS)
    closing.cancel()
    await asyncio.wait({closing}, timeout=_CUT_SECONDS)
    if closing.done() and not closing.cancelled():
        closing.exception()


def wait_in_fetches(consumer: AIOKafkaConsumer, wait_ms: int) -> None:
    """Let the broker keep the next fetches that find nothing for no longer than this."""
    consumer._fetcher._fetch_max_wait_ms = wait_ms  # noqa: SLF001 - set at its start alone


def check_fetching(consumer: AIOKafkaConsumer) -> None:
    """Raise LogUnreachableError where the consumer can get no more records and would not say so."""
    tasks = (
        consumer._fetcher.error_future,  # noqa: SLF001 - asked by nobody in aiokafka itself
        consumer._client._sync_task,  # noqa: SLF001 - without it no new leader is ever found
    )
    for task in tasks:
        if task is not None and task.done():
            cause = None if task.cancelled() else task.exception()
            raise LogUnreachableError(
                f"The Kafka client has stopped fetching ({cause!r}).",
                hint="This process has to be started again.",
            ) from cause
