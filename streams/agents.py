"""The Faust agents: one over `webhooks`, one over `attention`.

Guarantees that an event is acknowledged only when it was handled to its end: what cannot be read is
set aside whole, what needs something that is away is tried again in place, and when that takes too
long, or anything escapes, the consumer is poisoned before Faust can acknowledge what failed, and
the process ends. A stop gives up soon what waits for something that is away. Must never produce
through Faust: evidence goes through our own appender.

`concurrency=1`: order within a partition, and acknowledgements in order. Added to an app by the
wiring, before it starts.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from faust.types import EventT, StreamT

from ledger.core.errors import LedgerError
from ledger.log.attention_record import AttentionRaised, read_attention
from ledger.log.envelope import Unreadable
from ledger.log.port import Headers, Record
from ledger.log.quarantine import quarantined
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from reconciler.lost_rows import LostRows
from reconciler.receiving import is_trouble
from streams.app import SafeApp
from streams.attention import AttentionWindow
from streams.clock import mono_ms
from streams.faust_transport import StopDueError, until_stopped
from streams.limits import (
    EVENT_BACKOFF_FIRST_MS,
    EVENT_BACKOFF_MAX_MS,
    EVENT_DEADLINE_MS,
    EVENTS_AT_ONCE_MAX,
    EVENTS_AT_STOP_MS,
)

if TYPE_CHECKING:
    import faust

logger = logging.getLogger("actionledger")

Handle = Callable[[Sequence[Record]], Awaitable[object]]


class EventDeadlineError(LedgerError):
    """Something that an event needs was away for longer than its deadline."""


def add_agent(app: SafeApp, topic_name: str, handle: Handle, *, deadline_ms: int) -> None:
    """An agent over a topic that hands batches of its records to `handle`, for so long after the
    app has last made something again.
    """
    prefix_chars = len(topic_name) - len(topic_name.rpartition(".")[2])

    async def settle_events(stream: StreamT[Any]) -> None:
        whole = cast("faust.Stream[Any]", stream).noack()
        async for first in whole.events():
            events = [first]
            try:
                with app.safe_consumer.nothing_skipped():
                    _take_more(app, whole.channel, events)
                    records = [_record(event, prefix_chars) for event in events]
                    work = settle(
                        handle, records, deadline_ms=deadline_ms, made_again=app.made_again
                    )
                    await until_stopped(app, work, further_ms=EVENTS_AT_STOP_MS)
            except StopDueError:
                app.safe_consumer.is_let_wait = True
                return
            finally:
                # Where they were not handled, nothing is committed any more.
                for event in events:
                    event.ack()

    topic = app.topic(topic_name, key_serializer="raw", value_serializer="raw")
    app.agent(topic, name=topic_name, concurrency=1)(settle_events)


def _take_more(app: SafeApp, channel: Any, events: list[EventT[Any]]) -> None:  # noqa: ANN401
    """Take what has come behind an event too, up to a batch, as Faust's own stream would: what is
    of an earlier assignment is passed over.
    """
    queue = channel.queue
    while len(events) < EVENTS_AT_ONCE_MAX and queue.qsize() and app.flow_control.is_active():
        event = queue.get_nowait()
        if event.message.generation_id != app.consumer_generation_id:
            event.ack()
            continue
        event.message.tracked = True
        app.safe_consumer.track_message(event.message)
        events.append(event)


def add_webhook_agent(app: SafeApp, whole: LostRows, *, prefix: str) -> None:
    """Take every webhook to where it belongs. What is made again before it may take much longer
    than a batch: as long as it goes on the app moves, and no deadline is over.
    """
    app.made_again = lambda: whole.made_again
    add_agent(app, prefix + Topic.WEBHOOKS, whole.handle, deadline_ms=EVENT_DEADLINE_MS)


async def keep_whole(whole: LostRows, app: SafeApp, stop: asyncio.Event) -> None:
    """Make the rows again that the tables lose of what this member of the group has handled."""

    def handled() -> dict[int, int]:
        if not app.safe_consumer.is_member():
            return {}
        found = app.safe_consumer.handled().items()
        return {tp.partition: end for tp, end in found if tp.topic.endswith(Topic.WEBHOOKS)}

    await whole.keep(handled, stop)


async def _nobody(_raised: Sequence[AttentionRaised]) -> None:
    """Whoever has named no destination is not told."""


def add_attention_agent(
    app: SafeApp,
    window: AttentionWindow,
    appender: SteadyAppender,
    *,
    prefix: str,
    notify: Callable[[Sequence[AttentionRaised]], Awaitable[None]] = _nobody,
) -> None:
    """Tell what needs eyes, as log lines with the counts of the last hour. `notify` keeps what
    people are to be told before a record is acknowledged; it sends nothing itself.
    """

    async def tell(records: Sequence[Record]) -> None:
        read = [(record, read_attention(record)) for record in records]
        await notify([raised for _, raised in read if isinstance(raised, AttentionRaised)])
        for record, raised in read:
            if isinstance(raised, Unreadable):
                outgoing = quarantined(record, reason=raised.reason, detail=raised.detail)
                await appender.append(Topic.QUARANTINE, record.partition, [outgoing])
                logger.error("attention_quarantined", extra={"reason": raised.reason})
            elif window.add(raised):
                counts = {kind.value: count for kind, count in window.counts().items()}
                logger.warning(
                    "attention_raised",
                    extra={
                        "kind": raised.kind.value,
                        "action": raised.action,
                        "code": raised.code,
                        "last_hour": counts,
                    },
                )

    add_agent(app, prefix + Topic.ATTENTION, tell, deadline_ms=EVENT_DEADLINE_MS)


async def settle(
    handle: Handle,
    records: Sequence[Record],
    *,
    deadline_ms: int,
    made_again: Callable[[], int] = int,
) -> None:
    """Handle a batch, trying again in place for as long as the surroundings are in trouble. The
    deadline begins anew where `made_again` has grown.

    Raises EventDeadlineError when that takes too long, and whatever else `handle` raises.
    """
    until_ms = mono_ms() + deadline_ms
    wait_ms = EVENT_BACKOFF_FIRST_MS
    made = made_again()
    while True:
        try:
            await handle(records)
        except Exception as failure:
            if not is_trouble(failure):
                raise
            if made_again() != made:
                made, until_ms = made_again(), mono_ms() + deadline_ms
                wait_ms = EVENT_BACKOFF_FIRST_MS
            if mono_ms() + wait_ms > until_ms:
                raise EventDeadlineError(
                    f"Events could not be handled for {deadline_ms} ms: {failure!r}.",
                    hint="See what is away, Kafka or Postgres. The events are read again.",
                ) from failure
            logger.warning(
                "events_tried_again",
                extra={"topic": records[0].topic, "count": len(records), "failure": repr(failure)},
            )
        else:
            return
        await asyncio.sleep(random.uniform(wait_ms / 2, wait_ms) / 1000)  # noqa: S311 - jitter
        wait_ms = min(wait_ms * 2, EVENT_BACKOFF_MAX_MS)


def _record(event: EventT[Any], prefix_chars: int) -> Record:
    """The event as a record of our own log, with the bytes as they stand on the broker."""
    message = event.message
    return Record(
        message.topic[prefix_chars:],
        message.partition,
        message.offset,
        round(message.timestamp * 1000),
        message.key,
        message.value or b"",
        _headers(message.headers),
    )


def _headers(headers: Any) -> Headers:  # noqa: ANN401 - Faust gives a dictionary or a list
    """Kept for quarantine alone: a record that is put back is put back whole."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    return tuple((name, value or b"") for name, value in pairs)
