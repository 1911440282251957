"""The projector: follows ledger partitions and keeps their tables, rows and offsets together.

Guarantees that what a transaction holds is a prefix of each partition, folded once; after a crash,
a cut connection or a second projector it goes on from what is committed. A record that counts and
cannot be projected stops its partition, loudly; the others go on. While one batch is written the
next is read and folded. The step itself is `fold`, without I/O; this is its shell, run by a process
of its own and by rebuilds.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

import asyncpg

from ledger.core.invariants import invariant
from ledger.core.snapshot import dump
from ledger.log.crashpoints import crash_point
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from ledger.log.reading import LogReader, ReadableLog
from ledger.log.sizes import Sizes
from projections.errors import AWAY, DatabaseUnavailableError, MigrationError, PartitionStoppedError
from projections.fold import (
    Batch,
    Folding,
    Held,
    PartitionRead,
    read_batch,
    streams_touched,
)
from projections.limits import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    COMMIT_EVERY_MS,
    DATABASE_TRIES_MAX,
    DATABASE_WAIT_MS_MAX,
    DATABASE_WAIT_MS_MIN,
    READ_WAIT_MS,
    SLICE_BYTES_MAX,
    SLICE_RECORDS_MAX,
    STREAMS_HELD_BYTES_MAX,
    STREAMS_HELD_MAX,
)
from projections.rows import STREAMS
from projections.source import LEDGER, open_ledger
from projections.statements import LIVE_SCHEMA, Connection
from projections.states import load_streams
from projections.writer import BatchWriter, WriterAheadError

logger = logging.getLogger("actionledger")

_REFUSED = (
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    # A text that is too long for an index.
    asyncpg.ProgramLimitExceededError,
    OverflowError,
    TypeError,
)
"""What the database says to a row that it can never take."""

_KEY, _NEXT_OFFSET, _STATE = map(STREAMS.columns.index, ("stream_key", "next_offset", "state"))

Progress = Callable[[int], None]
"""Hears after each commit how many records this projector has written."""


@dataclass(slots=True)
class Counts:
    """What this projector has done and met since it was made."""

    records: int = 0
    events: int = 0
    batches: int = 0
    stopped_partitions: int = 0
    overtaken: int = 0
    database_failures: int = 0


class _RowRefusedError(Exception):
    """Postgres cannot take a row of a batch: on with smaller ones, or without its partition."""


@dataclass(slots=True)
class _Session:
    """One writer, one reader, and what is folded in memory on top of what is committed.

    `settled` are streams that nothing is expected of, with where they stood when they were written;
    `unwritten` those of batches that are not written, with where they stand in them. `unread` are
    records for which the batch in the making had no room.
    """

    writer: BatchWriter
    loader: Connection
    reader: LogReader
    folds: dict[int, PartitionFold]
    held: dict[str, Held] = field(default_factory=dict)
    paused: set[int] = field(default_factory=set)
    settled: list[tuple[str, int]] = field(default_factory=list)
    unwritten: dict[str, int] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=Sizes)
    unread: list[Record] = field(default_factory=list)

    def hold(self, key: str, held: Held) -> None:
        """Keep a stream as the one used last."""
        # Out and in again: the order of the dictionary is the order of last use.
        self.held.pop(key, None)
        self.held[key] = held

    def written(self, batch: Batch) -> None:
        """A batch was committed. What streams take counts from here on: before it was bounded with
        the batch, and those that are settled are let go next.
        """
        self.settled += batch.settled
        leaving = {key for key, _ in batch.settled}
        for row in batch.rows.get(STREAMS.name, ()):
            key, next_offset = row[_KEY], row[_NEXT_OFFSET]
            if self.unwritten.get(key) == next_offset:
                del self.unwritten[key]
            if key in self.held and key not in leaving:
                self.sizes.drop(key)
                self.sizes.add(key, len(row[_STATE]))

    def _drop(self, key: str) -> None:
        del self.held[key]
        self.sizes.drop(key)

    def let_go(self) -> None:
        """Forget settled streams, and of others the oldest beyond what memory is meant to hold.

        Never while a batch is being folded, nor one that stands in a batch not written yet: such a
        stream is elsewhere than it was written, or among the newest.
        """
        for key, next_offset in self.settled:
            held = self.held.get(key)
            if held is not None and held.next_offset == next_offset:
                self._drop(key)
        self.settled.clear()
        for key in list(islice(self.held, max(0, len(self.held) - STREAMS_HELD_MAX))):
            self._drop(key)
        if self.sizes.total_bytes > STREAMS_HELD_BYTES_MAX:
            for key in [key for key in self.held if key not in self.unwritten]:
                if self.sizes.total_bytes <= STREAMS_HELD_BYTES_MAX:
                    break
                self._drop(key)


class Projector:
    """Projects the given partitions; two projectors of one partition do no harm."""

    def __init__(
        self,
        log: ReadableLog,
        pool: asyncpg.Pool,
        partitions: Sequence[int],
        *,
        schema: str = LIVE_SCHEMA,
        cluster: str | None = None,
        batch_records: int = BATCH_RECORDS_MAX,
    ) -> None:
        """`cluster` is the id of the Kafka cluster, kept beside the offsets and compared."""
        # Evicting the oldest must never meet a stream of a batch that is not written yet.
        invariant(0 < 4 * batch_records <= STREAMS_HELD_MAX, "batches beyond what memory holds")
        # One writes while the other loads.
        invariant(pool.get_max_size() > 1, "a projector needs two connections of its pool")
        self._log = log
        self._pool = pool
        self._partitions = sorted(partitions)
        self._schema = schema
        self._cluster = cluster
        self._batch_records = batch_records
        self._one_by_one = 0
        self.stopped: dict[int, PartitionStoppedError] = {}
        self.counts = Counts()
        self.ready = asyncio.Event()
        self._beat: Callable[[], None] = lambda: None

    async def run(self, stop: asyncio.Event, *, beat: Callable[[], None] = lambda: None) -> None:
        """Follow the log until `stop` is set; then what was read is written and it returns.

        `beat` is called by every round, and before every new try while the database is away.
        Raises ForeignLogError, MigrationError, DatabaseUnavailableError, DamagedRowsError, what the
        log raises, and the PartitionStoppedError of the first partition once every one has stopped.
        """
        self._beat = beat
        await self._work(stop, None)
        if self.stopped and not stop.is_set():
            raise next(iter(self.stopped.values()))

    async def run_until(self, ends: Mapping[int, int], progress: Progress | None = None) -> None:
        """Project up to the given offset of each partition; `progress` hears of records written.

        Raises what `run` does, and PartitionStoppedError if any partition stopped before its end.
        """
        await self._work(asyncio.Event(), ends, progress)
        for error in self.stopped.values():
            raise error

    async def _work(
        self,
        stop: asyncio.Event,
        ends: Mapping[int, int] | None,
        progress: Progress | None = None,
    ) -> None:
        """Sessions, one after another, until the work is done."""
        failures, written = 0, -1
        while self._at_work() and not stop.is_set():
            _heed_cancellation()
            if self.ready.is_set():
                self._beat()
            if self.counts.records != written:
                failures, written = 0, self.counts.records
            try:
                await self._session(stop, ends, progress)
                return
            except WriterAheadError as ahead:
                self.counts.overtaken += 1
                logger.warning("projection_overtaken", extra={"why": str(ahead)})
            except _RowRefusedError:
                continue
            except asyncpg.SyntaxOrAccessError as refused:
                raise MigrationError(
                    f"The tables of {self._schema} are not those of this program: {refused}.",
                    hint="Bring the database to this version first; the set-up step does.",
                ) from refused
            except AWAY as away:
                self.counts.database_failures += 1
                failures += 1
                logger.warning("projection_database_away", extra={"why": repr(away)[:200]})
                if failures >= DATABASE_TRIES_MAX:
                    raise DatabaseUnavailableError(
                        f"Postgres failed {failures} times in a row ({away!r}).",
                        hint="Bring it back; the projection goes on from its last commit.",
                    ) from away
            await _pause(stop, failures)

    def _at_work(self) -> list[int]:
        return [part for part in self._partitions if part not in self.stopped]

    async def _session(
        self, stop: asyncio.Event, ends: Mapping[int, int] | None, progress: Progress | None
    ) -> None:
        """From what is committed on, until stopped, done, or something fails."""
        async with self._pool.acquire() as loader, self._pool.acquire() as connection:
            try:
                writer = BatchWriter(connection, self._schema, self._cluster)
                await writer.prepare()
                folds = await writer.load(self._at_work())
                reader = await open_ledger(self._log, folds)
                try:
                    session = _Session(writer, loader, reader, folds)
                    await self._follow(session, stop, ends, progress)
                finally:
                    await reader.close()
            except BaseException:
                # One that was lost is back in the pool already, and cannot be ended by us.
                with contextlib.suppress(asyncpg.InterfaceError):
                    connection.terminate()
                raise
            # It was taught our times: never to be lent to anybody else.
            await connection.close()

    async def _follow(
        self,
        session: _Session,
        stop: asyncio.Event,
        ends: Mapping[int, int] | None,
        progress: Progress | None,
    ) -> None:
        """Write a batch, and meanwhile read and fold the next.

        Behind the end of the log a batch is as large as may be, in records or in bytes. At its end
        the first record after a pause is written at once, and what comes then is gathered for
        COMMIT_EVERY_MS.
        """
        clock = asyncio.get_running_loop().time
        folding, due_s = Folding(session.held), clock()
        writing: asyncio.Task[None] | None = None
        try:
            self.ready.set()
            while not stop.is_set() and self._goes_on(session, ends):
                self._beat()
                wanted = self._limit - folding.record_count
                is_rest = bool(session.unread)
                records = session.unread or await session.reader.read(
                    # With something to write, only what has come already is worth taking along.
                    timeout_ms=0 if folding.has_work else READ_WAIT_MS,
                    records_max=wanted,
                )
                await self._fold(session, folding, _below(records, ends))
                if is_rest and not session.unread:
                    # There may be more in the log, and there is room for it.
                    continue
                is_at_end = len(records) < wanted and not session.unread
                if is_at_end and folding.has_work and clock() < due_s:
                    await asyncio.sleep(due_s - clock())
                    continue
                if writing is not None and (folding.has_work or writing.done()):
                    await writing
                    writing = None
                if folding.has_work:
                    batch, folding = folding.seal(), Folding(session.held)
                    writing = asyncio.create_task(self._write(session, batch, progress))
                    due_s = clock() + COMMIT_EVERY_MS / 1_000
            if writing is not None:
                await writing
                writing = None
            if folding.has_work:
                await self._write(session, folding.seal(), progress)
        finally:
            if writing is not None:
                writing.cancel()
                await asyncio.gather(writing, return_exceptions=True)

    @property
    def _limit(self) -> int:
        return 1 if self._one_by_one else self._batch_records

    def _goes_on(self, session: _Session, ends: Mapping[int, int] | None) -> bool:
        """Whether some partition is not where it ends; those that are, are read no further."""
        if ends is not None:
            for partition, fold in session.folds.items():
                if fold.next_offset >= ends.get(partition, 0):
                    self._leave(session, partition)
        return len(session.paused) < len(session.folds)

    def _leave(self, session: _Session, partition: int) -> None:
        if partition not in session.paused:
            session.paused.add(partition)
            session.reader.pause(LEDGER, partition)

    async def _fold(self, session: _Session, folding: Folding, records: list[Record]) -> None:
        """Add records to the batch in the making, on what is held and what must be loaded.

        A slice at a time: in between, the batch that is being written may take its next step.
        """
        session.let_go()
        session.unread = []
        records = [record for record in records if record.partition not in session.paused]
        if not records:
            return
        crash_point("records_read")
        # A record's key is its stream's, so what is cold is known before anything is read: one
        # query for all, and each slice is read and folded while it is warm.
        asked = {(record.key or b"").decode("utf-8", "replace") for record in records}
        await self._load(session, asked)
        for begin, end in _slices(records):
            if folding.size_bytes >= BATCH_BYTES_MAX:
                session.unread = records[begin:]
                return
            reads = read_batch(session.folds, records[begin:end])
            await self._load(session, streams_touched(reads) - asked)
            for read in reads:
                self._add(session, folding, read)
            await asyncio.sleep(0)

    async def _load(self, session: _Session, keys: set[str]) -> None:
        """Bring the streams among these that have a row and are not held."""
        # Not by subtraction: that walks through everything that is held.
        if cold := {key for key in keys if key not in session.held}:
            loaded = await load_streams(session.loader, cold, schema=self._schema)
            for key, held in loaded.items():
                session.hold(key, held)
                session.sizes.add(key, len(dump(held.stream)))

    def _add(self, session: _Session, folding: Folding, read: PartitionRead) -> None:
        partition = read.start.partition
        if partition in session.paused:
            return
        for key, held in folding.add(read).items():
            session.hold(key, held)
            session.unwritten[key] = held.next_offset
        session.folds[partition] = folding.fold_of(partition) or session.folds[partition]
        if partition in folding.stopped_partitions:
            self._leave(session, partition)

    async def _write(self, session: _Session, batch: Batch, progress: Progress | None) -> None:
        try:
            await session.writer.write(batch)
        except _REFUSED as refused:
            self._refuse(batch, refused)
            raise _RowRefusedError from refused
        crash_point("batch_committed")
        self.counts.records += batch.record_count
        self.counts.events += batch.event_count
        self.counts.batches += 1
        session.written(batch)
        self._one_by_one = max(0, self._one_by_one - batch.record_count)
        for stopped in batch.stopped:
            self._stop(stopped)
        if progress is not None:
            progress(self.counts.records)

    def _refuse(self, batch: Batch, refused: Exception) -> None:
        """Postgres cannot take a row: find whose it is by writing record by record."""
        if batch.record_count > 1:
            self._one_by_one = batch.record_count
            return
        (partition,) = batch.starts
        offset = batch.folds[partition].next_offset - 1
        self._stop(PartitionStoppedError(partition, offset, f"{type(refused).__name__}: {refused}"))

    def _stop(self, stopped: PartitionStoppedError) -> None:
        """The alarm: this partition's tables stand still until somebody has looked."""
        self.stopped[stopped.partition] = stopped
        self.counts.stopped_partitions += 1
        logger.error(
            "projection_stopped",
            extra={
                "partition": stopped.partition,
                "offset": stopped.offset,
                "why": stopped.why,
                "hint": stopped.hint,
            },
        )


def _below(records: list[Record], ends: Mapping[int, int] | None) -> list[Record]:
    if ends is None:
        return records
    return [record for record in records if record.offset < ends.get(record.partition, 0)]


def _slices(records: Sequence[Record]) -> Iterator[tuple[int, int]]:
    """Where each slice begins and ends: few records, and where they are large fewer."""
    begin = size_bytes = 0
    for place, record in enumerate(records):
        if place - begin >= SLICE_RECORDS_MAX or size_bytes >= SLICE_BYTES_MAX:
            yield begin, place
            begin, size_bytes = place, 0
        size_bytes += len(record.value)
    yield begin, len(records)


def _heed_cancellation() -> None:
    """End where this task was cancelled: a cancellation that meets a statement which is failing
    anyway comes out as its failure, and nobody would hear of it.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def _pause(stop: asyncio.Event, failures: int) -> None:
    """Wait before the next session, longer each time, and no longer than until `stop`."""
    wait_ms = min(DATABASE_WAIT_MS_MAX, DATABASE_WAIT_MS_MIN << min(failures, 10))
    try:
        async with asyncio.timeout(wait_ms / 1_000):
            await stop.wait()
    except TimeoutError:
        return
