"""The puller: reads providers' own lists of events, and brings in those that were never sent.

Guarantees that an event that came by itself is not brought a second time, that the position moves
only past what is durable on the topic `webhooks`, so that a crash reads again and never leaves out,
that a list that ends early is begun again from where it was, and that a time of which the provider
may keep events no more is told until it was compared. One account that is slow or down
delays no other. Must never make an effect or decide anything: what an event means is found out
where webhooks are. Run by the inquirer, in the receiver's role at the log.
"""

import asyncio
import hashlib
import logging
import random
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg

from ledger.core.excerpt import excerpt
from ledger.log.crashpoints import crash_point
from ledger.log.port import AppendUnknownError, Outgoing
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic, partition_of
from ledger.log.webhook_record import WebhookReceived, webhook_key, webhook_outgoing
from reconciler.limits import ACQUIRE_SECONDS, PULL_FIRST_MS, PULL_PAGE_MS, PULLED_REMEMBERED_MAX
from reconciler.providers.events import EventsFailed, EventSource, ListedEvent
from reconciler.providers.port import MappedWebhook, WebhookMapping
from reconciler.receiving import is_trouble
from reconciler.schemes import hash_id
from reconciler.sql_files import statements

logger = logging.getLogger("actionledger")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Pulled:
    """What one reading found: events in all, and those that had not come by themselves."""

    events: int
    missed: int


@dataclass(frozen=True, slots=True)
class Hole:
    """A time of which an account's events may be lost: from and until, in milliseconds."""

    provider: str
    account: str
    since: int
    until: int


@dataclass(slots=True)
class _Reading:
    """How far a reading is."""

    seen_at: int
    events: int = 0
    missed: int = 0


class EventPuller:
    """Reads every account of every provider that has a list of its events."""

    def __init__(
        self,
        appender: SteadyAppender,
        pool: asyncpg.Pool,
        sources: Mapping[str, EventSource],
        mappings: Mapping[str, WebhookMapping],
        *,
        partitions: int,
        now_ms: Callable[[], int],
    ) -> None:
        """`sources` and `mappings` by the provider's name."""
        self._appender = appender
        self._pool = pool
        self._sources = sources
        self._mappings = mappings
        self._partitions = partitions
        self._now_ms = now_ms
        self._brought: OrderedDict[tuple[str, str, str], None] = OrderedDict()

    async def run(self, stop: asyncio.Event) -> None:
        """Read until `stop` is set."""
        async with asyncio.TaskGroup() as tasks:
            reading = [
                tasks.create_task(self._repeat(provider, account, source))
                for provider, source in self._sources.items()
                for account in sorted(source.accounts)
            ]
            await stop.wait()
            for task in reading:
                task.cancel()

    async def _repeat(self, provider: str, account: str, source: EventSource) -> None:
        while True:
            try:
                await self.pull(provider, account)
            except Exception as failure:  # noqa: BLE001 - whatever an adapter does, others are read
                stack = None if is_trouble(failure) else failure
                _log_failed(provider, account, repr(failure), stack)
            # Never all at once, so that several inquirers do not knock at the same moment.
            share = random.uniform(0.5, 1.0)  # noqa: S311 - jitter
            await asyncio.sleep(source.interval_ms * share / 1_000)

    async def pull(self, provider: str, account: str) -> Pulled | None:
        """Read one account once, if it is due; None if it is not. Raises trouble of Kafka or
        Postgres.
        """
        source = self._sources[provider]
        now_ms = self._now_ms()
        # What happened shortly before may be shown too late for this reading.
        read_to = _time(max(0, now_ms - source.overlap_ms))
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            position = await connection.fetchrow(
                _sql("claim_pull"),
                provider,
                account,
                _time(now_ms - PULL_FIRST_MS),
                _time(now_ms + source.interval_ms // 2),
                _time(now_ms),
                read_to,
            )
        if position is None:
            return None
        reading = _Reading(_milliseconds(position["seen_at"]))
        await self._look_for_hole(
            provider, account, source, _milliseconds(position["read_to"]), now_ms
        )
        try:
            await self._read(provider, account, source, reading)
        except EventsFailed as failed:
            await self._execute(
                "fail_pull", provider, account, _time(self._now_ms()), reading.missed, failed.code
            )
            _log_failed(provider, account, failed.code)
            return Pulled(reading.events, reading.missed)
        await self._execute(
            "finish_pull",
            provider,
            account,
            _time(reading.seen_at),
            _time(self._now_ms()),
            reading.events,
            reading.missed,
            read_to,
        )
        if reading.missed:
            logger.warning(
                "events_pulled",
                extra={"provider": provider, "account": account, "missed": reading.missed},
            )
        return Pulled(reading.events, reading.missed)

    async def _look_for_hole(
        self, provider: str, account: str, source: EventSource, read_to: int, now_ms: int
    ) -> None:
        """Write down, before the position moves on, what the provider may keep no more."""
        if source.kept_ms is None:
            return
        kept_since = now_ms - source.kept_ms
        if read_to < kept_since:
            await self._execute("note_hole", provider, account, _time(read_to), _time(kept_since))
            logger.error(
                "events_may_be_lost",
                extra={
                    "provider": provider,
                    "account": account,
                    "since": _time(read_to).isoformat(),
                    "until": _time(kept_since).isoformat(),
                },
            )

    async def _read(
        self, provider: str, account: str, source: EventSource, reading: _Reading
    ) -> None:
        since_at = max(0, reading.seen_at - source.overlap_ms)
        pages = source.list_events(account=account, since_at=since_at, timeout_ms=PULL_PAGE_MS)
        async for page in pages:
            told = [self._told(provider, account, event) for event in page]
            missed = await self._missed(provider, account, [one for one, _ in told if one])
            if missed:
                await self._append(missed)
                crash_point("events_pulled")
            for one in missed:
                self._remember(one)
            reading.events += len(page)
            reading.missed += len(missed)
            # A time ahead of our clock must not put what happens until then out of reach.
            times = [at for _, at in told if at is not None and at <= self._now_ms()]
            reading.seen_at = max([reading.seen_at, *times])

    def _told(
        self, provider: str, account: str, event: ListedEvent
    ) -> tuple[WebhookReceived | None, int | None]:
        """An event as a record, None where it concerns no action or can be none; and when it
        happened.
        """
        try:
            return self._as_record(provider, account, event)
        except Exception as failure:
            # A list may hold what no door would take.
            logger.exception(
                "event_unreportable",
                extra={
                    "provider": provider,
                    "account": account,
                    "event_id": excerpt(str(event.event_id)),
                    "bytes": len(event.raw),
                    "sha256": hashlib.sha256(event.raw).hexdigest(),
                    "failure": type(failure).__name__,
                },
            )
            return None, None

    def _as_record(
        self, provider: str, account: str, event: ListedEvent
    ) -> tuple[WebhookReceived | None, int | None]:
        mapping = self._mappings.get(provider)
        mapped = None if mapping is None else mapping.map(event.raw)
        at = mapped.occurred_at if isinstance(mapped, MappedWebhook) else None
        if isinstance(mapped, MappedWebhook) and mapped.meaning == "irrelevant":
            return None, at
        named = mapped.event_id if isinstance(mapped, MappedWebhook) else event.event_id
        received = WebhookReceived.of(
            event.raw,
            provider=provider,
            account=account,
            event_id=named or hash_id(event.raw),
            sent_at=self._now_ms() if at is None else at,
            headers={},
            source="pulled",
        )
        return received, at

    async def _missed(
        self, provider: str, account: str, told: Sequence[WebhookReceived]
    ) -> list[WebhookReceived]:
        """Those that neither came by themselves nor were brought before, each once."""
        new = {one.event_id: one for one in told if _name(one) not in self._brought}
        if not new:
            return []
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            rows = await connection.fetch(_sql("known_events"), provider, account, list(new))
        known = {row["event_id"] for row in rows}
        return [one for event_id, one in new.items() if event_id not in known]

    async def _append(self, missed: Sequence[WebhookReceived]) -> None:
        """Append them, each to its partition; again with a new producer when one is spent: what
        stands there twice counts once.
        """
        by_partition: defaultdict[int, list[Outgoing]] = defaultdict(list)
        for one in missed:
            partition = partition_of(webhook_key(one), self._partitions)
            by_partition[partition].append(webhook_outgoing(one))
        for partition, records in by_partition.items():
            try:
                await self._appender.append(Topic.WEBHOOKS, partition, records)
            except AppendUnknownError:
                await self._appender.append(Topic.WEBHOOKS, partition, records)

    def _remember(self, one: WebhookReceived) -> None:
        """Until its row is there: the reconciler may be behind."""
        self._brought[_name(one)] = None
        while len(self._brought) > PULLED_REMEMBERED_MAX:
            self._brought.popitem(last=False)

    async def _execute(self, name: str, *values: object) -> None:
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            await connection.execute(_sql(name), *values)


async def holes(pool: asyncpg.Pool) -> list[Hole]:
    """Of which time events of each account may be lost, where anything is."""
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
        rows = await connection.fetch(_sql("holes"))
    return [
        Hole(provider, account, _milliseconds(begin), _milliseconds(end))
        for provider, account, begin, end in rows
    ]


async def close_hole(pool: asyncpg.Pool, compared: Hole) -> None:
    """Tell no more of what lies in a time of which all effects were compared. Of a hole that is
    longer its beginning or its end is taken off, so that shorter times close it one after another.
    """
    values = (_time(compared.since), _time(compared.until))
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
        await connection.execute(_sql("close_hole"), compared.provider, compared.account, *values)


def _name(one: WebhookReceived) -> tuple[str, str, str]:
    return one.provider, one.account, one.event_id


def _log_failed(
    provider: str, account: str, reason: str, stack: BaseException | None = None
) -> None:
    about = {"provider": provider, "account": account, "reason": reason}
    logger.warning("pull_failed", exc_info=stack, extra=about)


def _sql(name: str) -> str:
    return statements("reconciler", "pulling.sql")[name]


def _time(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def _milliseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)
