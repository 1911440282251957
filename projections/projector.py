"""The projector: follows ledger partitions and keeps their tables, rows and offsets together.

Guarantees that what a transaction holds is a prefix of each partition, folded once; after a crash,
a cut connection or a second projector it goes on from what is committed. A record that counts and
cannot be projected stops its partition, loudly; the others go on. One about a stream with damaged
rows makes its partition wait until they were made anew. While one batch is written the next is read
and folded. The step itself is `fold`, without I/O; this is its shell, run by a process of its own
and by rebuilds.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import asyncpg

from ledger.core.invariants import invariant
from ledger.core.snapshot import dump
from ledger.log.crashpoints import crash_point
from ledger.log.port import Record
from ledger.log.reading import ReadableLog
from projections.errors import (
    AWAY,
    DatabaseUnavailableError,
    MigrationError,
    PartitionStoppedError,
    PartitionWaitsError,
)
from projections.fold import (
    Batch,
    Folding,
    PartitionRead,
    read_batch,
    streams_touched,
)
from projections.limits import (
    BATCH_BYTES_MAX,
    BATCH_RECORDS_MAX,
    COMMIT_EVERY_MS,
    DAMAGED_LOOK_MS,
    DATABASE_TRIES_MAX,
    DATABASE_WAIT_MS_MAX,
    DATABASE_WAIT_MS_MIN,
    READ_WAIT_MS,
    SLICE_BYTES_MAX,
    SLICE_RECORDS_MAX,
    STREAMS_HELD_MAX,
)
from projections.session import Session
from projections.source import LEDGER, open_ledger
from projections.statements import LIVE_SCHEMA, OWN_LIMITS
from projections.states import DamageTold, load_undamaged
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
        self.waiting: dict[int, PartitionWaitsError] = {}
        """Partitions whose next record is about a stream with damaged rows."""
        self._told: dict[int, int] = {}
        self._damage_told = DamageTold()
        self._look_at_s = math.inf
        self.counts = Counts()
        self.ready = asyncio.Event()
        self._beat: Callable[[], None] = lambda: None

    async def run(self, stop: asyncio.Event, *, beat: Callable[[], None] = lambda: None) -> None:
        """Follow the log until `stop` is set; then what was read is written and it returns.

        `beat` is called by every round, and before every new try while the database is away.
        Raises ForeignLogError, MigrationError, DatabaseUnavailableError, what the log raises, and
        the PartitionStoppedError of the first partition once every one has stopped for good.
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
        for error in (self.stopped | self.waiting).values():
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
                self.waiting.clear()
                self._look_at_s = math.inf
                await self._session(stop, ends, progress)
                if not self.waiting or ends is not None:
                    return
                await self._wait_to_look(stop)
                continue
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

    async def _wait_to_look(self, stop: asyncio.Event) -> None:
        """Until it is time to see whether damaged rows were made anew."""
        while not stop.is_set() and not self._is_time_to_look():
            self._beat()
            await _pause(stop, 0)

    def _is_time_to_look(self) -> bool:
        return asyncio.get_running_loop().time() >= self._look_at_s

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
                await loader.execute(OWN_LIMITS)
                folds = await writer.load(self._at_work())
                reader = await open_ledger(self._log, folds)
                try:
                    session = Session(writer, loader, reader, folds)
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
        session: Session,
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
        folding, due_s = Folding(session.held, session.damaged), clock()
        writing: asyncio.Task[None] | None = None
        try:
            self.ready.set()
            while not stop.is_set() and await self._goes_on(session, ends):
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
                    batch = folding.seal()
                    folding = Folding(session.held, session.damaged)
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

    async def _goes_on(self, session: Session, ends: Mapping[int, int] | None) -> bool:
        """Whether some partition is not where it ends; those that are, are read no further."""
        if ends is not None:
            for partition, fold in session.folds.items():
                if fold.next_offset >= ends.get(partition, 0):
                    self._leave(session, partition)
        elif self._is_time_to_look() and await self._is_mended(session):
            return False
        return len(session.paused) < len(session.folds)

    async def _is_mended(self, session: Session) -> bool:
        """Whether rows that a partition waits for were made anew. Others are read on until then."""
        self._look_at_s = asyncio.get_running_loop().time() + DAMAGED_LOOK_MS / 1_000
        waited_for = {waits.stream for waits in self.waiting.values()}
        loaded = await load_undamaged(session.loader, waited_for, schema=self._schema)
        return not waited_for <= loaded.damaged.keys()

    def _leave(self, session: Session, partition: int) -> None:
        if partition not in session.paused:
            session.paused.add(partition)
            session.reader.pause(LEDGER, partition)

    async def _fold(self, session: Session, folding: Folding, records: list[Record]) -> None:
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

    async def _load(self, session: Session, keys: set[str]) -> None:
        """Bring the streams among these that have a row and are not held."""
        # Not by subtraction: that walks through everything that is held.
        if cold := {key for key in keys if key not in session.held}:
            loaded = await load_undamaged(session.loader, cold, schema=self._schema)
            self._damage_told.tell(loaded.damaged)
            self._damage_told.came(loaded.streams)
            session.damaged |= loaded.damaged
            for key, held in loaded.streams.items():
                session.hold(key, held)
                session.sizes.add(key, len(dump(held.stream)))

    def _add(self, session: Session, folding: Folding, read: PartitionRead) -> None:
        partition = read.start.partition
        if partition in session.paused:
            return
        for key, held in folding.add(read).items():
            session.hold(key, held)
            session.unwritten[key] = held.next_offset
        session.folds[partition] = folding.fold_of(partition) or session.folds[partition]
        if partition in folding.stopped_partitions:
            self._leave(session, partition)

    async def _write(self, session: Session, batch: Batch, progress: Progress | None) -> None:
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
        if isinstance(stopped, PartitionWaitsError):
            self._wait(stopped)
            return
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

    def _wait(self, waits: PartitionWaitsError) -> None:
        """The same, until somebody has made the rows anew; it is told once of a record."""
        now_s = asyncio.get_running_loop().time()
        self._look_at_s = min(self._look_at_s, now_s + DAMAGED_LOOK_MS / 1_000)
        self.waiting[waits.partition] = waits
        if self._told.get(waits.partition) == waits.offset:
            return
        self._told[waits.partition] = waits.offset
        logger.error(
            "projection_waits",
            extra={
                "partition": waits.partition,
                "offset": waits.offset,
                "stream": waits.stream,
                "hint": waits.hint,
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
