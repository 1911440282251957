"""The quarantine desk: what was set aside, one record in full, and the way back.

Guarantees that a redrive is recorded with who did it and where the record stands now, after it is
durable; a crash in between can lead to a second redrive, which counts once. Must never change a
byte of a record. Called by the command line.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace

import asyncpg

from gateway.settings import Settings
from gateway.wiring.installation import BEGIN_SECONDS_MAX, open_pool
from ledger.core.errors import LedgerError
from ledger.core.limits import TEXT_CHARS_MAX
from ledger.log.envelope import Unreadable
from ledger.log.follow import genesis_of
from ledger.log.kafka import KafkaLog
from ledger.log.port import AppendUnknownError, Record
from ledger.log.quarantine import (
    QuarantinedRecord,
    RedrivenRecord,
    place_of,
    read_quarantine,
    redriven,
)
from ledger.log.reading import read_up_to
from ledger.log.redrive import Blocked, Obstacle, Redrive, plan_redrive
from ledger.log.topics import Topic
from projections.queries import Queries
from projections.query_rows import ALL

PLACES_REMEMBERED_MAX = 100_000


class NotInQuarantineError(LedgerError):
    """Nothing that stood at this place was set aside."""


class NameUnfitError(LedgerError):
    """The name of who puts a record back cannot be recorded."""


class QuarantineFullError(LedgerError):
    """More was set aside than a desk can oversee at once."""


@dataclass(frozen=True, slots=True)
class Summary:
    """One record that was set aside, without its bytes. `size_bytes` are those of its key, value
    and headers as it stood; `kept_bytes`, where fewer are kept. A record that several partitions
    set aside (one of `config`) is one, `copies` many times; `redriven_to` is where it was last put
    back.
    """

    place: str
    topic: str
    reason: str
    detail: str
    sha256: str
    size_bytes: int
    set_aside_at: int
    copies: int = 1
    redriven_to: int | None = None
    redriven_by: str | None = None
    kept_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Filter:
    """Which records are meant: all, unless something is said."""

    topic: str | None = None
    reason: str | None = None
    since: int = 0
    is_waiting: bool = False

    def takes(self, one: Summary) -> bool:
        """Whether a record is meant."""
        return (
            self.topic in {None, one.topic}
            and self.reason in {None, one.reason}
            and one.set_aside_at >= self.since
            and not (self.is_waiting and one.redriven_to is not None)
        )


@dataclass(slots=True)
class _Listing:
    """Everything that was set aside, by its place."""

    found: dict[str, Summary] = field(default_factory=dict)
    entry: QuarantinedRecord | None = None


async def list_quarantine(log: KafkaLog, wanted: Filter) -> list[Summary]:
    """What was set aside, the oldest first. Raises QuarantineFullError, and what reading raises."""
    listing = await _read(log, None)
    chosen = [one for one in listing.found.values() if wanted.takes(one)]
    return sorted(chosen, key=lambda one: (one.set_aside_at, one.place))


async def find_quarantined(
    log: KafkaLog, place: str
) -> tuple[Summary, QuarantinedRecord, Redrive | Blocked]:
    """One record in full, and what a redrive of it would do. Raises NotInQuarantineError."""
    listing = await _read(log, place)
    summary, entry = listing.found.get(place), listing.entry
    if summary is None or entry is None:
        raise NotInQuarantineError(
            f"Nothing that stood at {place} is in quarantine.",
            hint="`actionledger quarantine list` has the places.",
        )
    genesis = await genesis_of(log)
    return summary, entry, plan_redrive(entry, genesis.partitions)


async def redrive(log: KafkaLog, entry: QuarantinedRecord, planned: Redrive, *, by: str) -> int:
    """Put a record back, and record that; its offset there. Raises AppendUnknownError, and before
    anything is done NameUnfitError.
    """
    try:
        redriven(entry, by=by, redriven_to=0)
    except ValueError as unfit:
        raise NameUnfitError(
            "Who puts it back cannot be recorded under this name.",
            hint=f"Use a name of text, at most {TEXT_CHARS_MAX} characters long.",
        ) from unfit
    appender = await log.appender()
    try:
        (appended,) = await appender.append(planned.topic, planned.partition, [planned.record])
        if appended.offset < 0:
            raise AppendUnknownError(
                f"The record is in {planned.topic} {planned.partition}, and the broker did not "
                "say where.",
                hint="See with `actionledger log tail` where it stands; put back again, it counts "
                "once.",
            )
        said = redriven(entry, by=by, redriven_to=appended.offset)
        await appender.append(Topic.QUARANTINE, entry.partition, [said])
    finally:
        await appender.close()
    return appended.offset


async def answers_of_ledger(settings: Settings, entry: QuarantinedRecord) -> list[str]:
    """Where the ledger recorded that it set this input aside, as partition and offset; nothing
    where it did not, or where the database is away.
    """
    try:
        async with asyncio.timeout(BEGIN_SECONDS_MAX), await open_pool(settings) as pool:
            became = await Queries(pool).why_input(ALL, entry.topic, entry.partition, entry.offset)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return []
    return [f"{one.partition}:{one.ledger_offset}" for one in became]


def blocked_again(summary: Summary) -> Blocked | None:
    """Why a record that was put back before is not put back again just so, or None."""
    if summary.redriven_to is None:
        return None
    topic, partition, _ = summary.place.rsplit("/", 2)
    where = place_of(topic, int(partition), summary.redriven_to)
    return Blocked(
        Obstacle.REDRIVEN_ALREADY,
        f"{summary.redriven_by} put it back; it stands at {where}. See what became of it there "
        f"with `actionledger why --cause {where}`. If it was lost, say --again: it counts once.",
    )


async def _read(log: KafkaLog, place: str | None) -> _Listing:
    """Read the whole topic; of the record at `place` keep everything."""
    listing = _Listing()
    async for record in _records(log):
        read = read_quarantine(record)
        match read:
            case QuarantinedRecord():
                _add(listing, record, read)
                if read.place == place:
                    listing.entry = read
            case RedrivenRecord():
                known = listing.found.get(read.place)
                if known is not None:
                    listing.found[read.place] = replace(
                        known, redriven_to=read.redriven_to, redriven_by=read.by
                    )
            case Unreadable():
                continue  # written by somebody else; nothing here ever is
    return listing


def _add(listing: _Listing, record: Record, read: QuarantinedRecord) -> None:
    known = listing.found.get(read.place)
    if known is None and len(listing.found) >= PLACES_REMEMBERED_MAX:
        raise QuarantineFullError(
            f"More than {PLACES_REMEMBERED_MAX} records were set aside.",
            hint="Something writes poison all the time: see `actionledger log tail --topic "
            "quarantine` and stop it first.",
        )
    listing.found[read.place] = summary_of(record, read, known)


def summary_of(record: Record, read: QuarantinedRecord, known: Summary | None) -> Summary:
    """What is told of a record; `known` is what others have set aside of the same place before."""
    return Summary(
        place=read.place,
        topic=read.topic,
        reason=read.reason,
        detail=read.detail,
        sha256=read.sha256,
        size_bytes=read.kept_bytes if read.whole_bytes is None else read.whole_bytes,
        set_aside_at=record.timestamp if known is None else known.set_aside_at,
        copies=1 if known is None else known.copies + 1,
        redriven_to=None if known is None else known.redriven_to,
        redriven_by=None if known is None else known.redriven_by,
        kept_bytes=None if read.whole_bytes is None else read.kept_bytes,
    )


async def _records(log: KafkaLog) -> AsyncIterator[Record]:
    genesis = await genesis_of(log)
    begins = {(Topic.QUARANTINE.value, part): 0 for part in range(genesis.partitions)}
    reader = await log.reader(begins)
    try:
        ends = await reader.end_offsets(begins)
        async for records in read_up_to(reader, begins, ends):
            for record in records:
                yield record
    finally:
        await reader.close()
