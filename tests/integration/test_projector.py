"""The projector on a real Postgres: rows and offsets together, through cuts, rivals and poison."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator

import asyncpg
import pytest

from ledger.log.fold import PartitionFold
from projections import projector
from projections.errors import ForeignLogError, MigrationError, PartitionStoppedError
from projections.fold import fold_batch, read_batch
from projections.migrate import NOT_PROJECTED, migrate
from projections.projector import Projector
from projections.writer import BatchWriter, WriterAheadError
from tests import examples as x
from tests.ledgers import LedgerBuilder, MemoryLog, history
from tests.patience import PATIENCE_SECONDS
from tests.projecting import digest, project, projected, projected_to, running, until

pytestmark = pytest.mark.servers

SCHEMA = "actionledger"
LOOK_SECONDS = 0.01


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


async def statuses(pool: asyncpg.Pool) -> dict[str, str]:
    """Every action's status."""
    rows = await pool.fetch("select action_key, status from actionledger.actions")
    return {row["action_key"]: row["status"] for row in rows}


async def written(pool: asyncpg.Pool) -> tuple[int, int]:
    """Events in the table, and the sum of offsets."""
    row = await pool.fetchrow(
        "select (select count(*) from actionledger.action_events) as events,"
        " coalesce(sum(next_offset), 0)::bigint as offsets from actionledger.projection_offsets"
    )
    assert row is not None
    return row["events"], row["offsets"]


@contextlib.asynccontextmanager
async def held_up(url: str, table: str = "attempts") -> AsyncIterator[asyncpg.Connection]:
    """A lock in the way: batches get as far as this table and wait."""
    blocker = await asyncpg.connect(url)
    try:
        transaction = blocker.transaction()
        await transaction.start()
        await blocker.execute(f"lock table actionledger.{table} in access exclusive mode")
        yield blocker
        await transaction.rollback()
    finally:
        await blocker.close()


async def waiting_backend(pool: asyncpg.Pool) -> int:
    """The process in the database that waits for the lock."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            pid = await pool.fetchval(
                "select pid from pg_stat_activity"
                " where datname = current_database() and wait_event_type = 'Lock'"
            )
            if pid is not None:
                return int(pid)
            await asyncio.sleep(LOOK_SECONDS)


@pytest.mark.law("S13")
async def test_rows_are_what_the_log_says(pool: asyncpg.Pool) -> None:
    """After projecting, every action has the status that its owner had."""
    builder = history(1, partitions=3)
    projector = await project(pool, builder)
    expected = {
        action.key: action.status.value
        for stream in builder.streams.values()
        for action in stream.actions
    }
    assert await statuses(pool) == expected
    assert projector.counts.records == sum(builder.ends().values())
    assert (await written(pool))[1] == sum(builder.ends().values())


async def test_it_follows_a_log_that_grows(pool: asyncpg.Pool) -> None:
    """What is appended later shows later, and stopping leaves nothing behind."""
    builder = LedgerBuilder()
    log = MemoryLog(builder.records())
    async with running(log, pool, [0]):
        await projected_to(pool, builder.ends())
        for step in (x.propose(), x.report(x.no_answer())):
            behind = builder.ends()[0]
            builder.take(step, later_ms=4_000)
            log.extend(builder.records()[behind:])
            await projected_to(pool, builder.ends())
    assert await statuses(pool) == {x.CHARGE: "unknown"}


async def test_it_goes_on_from_its_tables(pool: asyncpg.Pool) -> None:
    """A new projector knows only the database, and goes on exactly where the last one stopped."""
    builder = history(2, steps=120, partitions=2)
    log = MemoryLog(builder.everything())
    for half in (1, 2):
        ends = {place: end * half // 2 for place, end in builder.ends().items()}
        await Projector(log, pool, [0, 1]).run_until(ends)
        assert (await written(pool))[1] == sum(ends.values())
    once = await digest(pool)
    async with pool.acquire() as connection:
        await connection.execute("drop schema actionledger cascade")
        await connection.execute("drop schema actionledger_api_v1 cascade")
        await migrate(connection)
    await project(pool, builder)
    assert await digest(pool) == once


@pytest.mark.law("S13")
async def test_a_cut_in_mid_transaction_leaves_nothing_half(
    pool: asyncpg.Pool, database_url: str
) -> None:
    """A connection that is cut before the commit takes every row of its batch with it."""
    builder = history(3, steps=150)
    log = MemoryLog(builder.records())
    async with running(log, pool, [0]) as projector:
        async with held_up(database_url):
            pid = await waiting_backend(pool)
            assert await written(pool) == (0, 0)
            await pool.execute("select pg_terminate_backend($1)", pid)
            await until(lambda: projector.counts.database_failures, "a failure is noticed")
            assert await written(pool) == (0, 0)
        await projected_to(pool, builder.ends())
    after_cut = await digest(pool)
    async with pool.acquire() as connection:
        await connection.execute(
            "truncate actionledger.projection_offsets, actionledger.streams,"
            " actionledger.actions, actionledger.action_events, actionledger.decisions,"
            " actionledger.attempts, actionledger.provider_references, actionledger.review_cases,"
            " actionledger.review_resolutions, actionledger.previews,"
            " actionledger.approvals, actionledger.approval_decisions, actionledger.gates,"
            " actionledger.gate_events, actionledger.gate_reservations"
        )
    await project(pool, builder)
    assert await digest(pool) == after_cut


async def test_a_projector_that_is_cancelled_leaves_nothing_half(
    pool: asyncpg.Pool, database_url: str
) -> None:
    """A process that ends in mid transaction has written all of a batch or none of it."""
    builder = history(4, steps=150)
    projector = Projector(MemoryLog(builder.records()), pool, [0])
    task = asyncio.create_task(projector.run_until(builder.ends()))
    async with held_up(database_url, "streams"):
        await waiting_backend(pool)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
    assert await written(pool) == (0, 0)
    await project(pool, builder)
    assert (await written(pool))[1] == builder.ends()[0]


@pytest.mark.case("C049")
@pytest.mark.law("S13")
async def test_a_writer_that_was_overtaken_writes_nothing(pool: asyncpg.Pool) -> None:
    """A batch folded on what another has moved on since is refused whole: no status goes back."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    stale = fold_batch(read_batch({0: PartitionFold(0)}, builder.records()), {})
    builder.take(x.report(x.success()), later_ms=40)
    await project(pool, builder)
    before = await digest(pool)
    connection = await pool.acquire()
    try:
        writer = BatchWriter(connection, SCHEMA)
        await writer.prepare()
        with pytest.raises(WriterAheadError):
            await writer.write(stale)
    finally:
        connection.terminate()
        await pool.release(connection)
    assert await digest(pool) == before
    assert await statuses(pool) == {x.CHARGE: "completed"}


@pytest.mark.case("C049")
async def test_a_projector_that_was_overtaken_reads_again(
    pool: asyncpg.Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """It finds another ahead, takes over what that one wrote, and goes on from there."""
    builder = history(5, steps=120)
    slow, fast = MemoryLog(), MemoryLog(builder.records())
    async with running(slow, pool, [0]) as projector:
        await projector.ready.wait()
        await Projector(fast, pool, [0]).run_until(builder.ends())
        before = await digest(pool)
        slow.extend(builder.records())
        await until(lambda: projector.counts.overtaken, "it finds the other ahead")
        assert await digest(pool) == before
        behind = builder.ends()[0]
        builder.take(x.propose("ticket:v1:acme:later"))
        slow.extend(builder.records()[behind:])
        await projected_to(pool, builder.ends())
    assert "projection_overtaken" in caplog.messages
    assert (await statuses(pool))["ticket:v1:acme:later"] == "attempting"


@pytest.mark.case("C055")
async def test_two_projectors_apply_each_record_once(pool: asyncpg.Pool) -> None:
    """Two that race over the same partitions leave the rows of one."""
    builder = history(6, steps=300, partitions=2)
    log = MemoryLog(builder.everything())
    rivals = [Projector(log, pool, [0, 1], batch_records=5) for _ in range(2)]
    await asyncio.gather(*(rival.run_until(builder.ends()) for rival in rivals))
    raced = await digest(pool)
    async with pool.acquire() as connection:
        await migrate(connection, schema="alone", without=NOT_PROJECTED)
    alone = Projector(log, pool, [0, 1], schema="alone")
    await alone.run_until(builder.ends())
    assert await digest(pool, "alone") == raced
    assert sum(rival.counts.records for rival in rivals) == sum(builder.ends().values())


@pytest.mark.case("C055")
async def test_the_database_refuses_a_second_act_of_one_identity(pool: asyncpg.Pool) -> None:
    """Tenant, action id and operation are unique: whatever raced, there is one row."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    await project(pool, builder)
    with pytest.raises(asyncpg.UniqueViolationError) as refused:
        await pool.execute(
            "insert into actionledger.actions select copy.* from actionledger.actions as stored,"
            " jsonb_populate_record(stored, $1) as copy",
            json.dumps({"action_key": "charge:v2:acme:renewal-1"}),
        )
    assert refused.value.constraint_name == "actions_identity"


@pytest.mark.case("C183")
async def test_poison_stops_its_partition_and_no_other(
    pool: asyncpg.Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """A record that counts and cannot be folded is an alarm; what stands before it is there."""
    builder = LedgerBuilder(2)
    streams = {builder.partition(f"acme/event-{n}"): f"acme/event-{n}" for n in range(20)}
    keys = {place: f"charge:v1:{key.replace('/', ':')}" for place, key in streams.items()}
    for key in keys.values():
        builder.take(x.propose(key))
    offset = builder.break_decision(streams[0])
    log = MemoryLog(builder.everything())
    async with running(log, pool, [0, 1]) as projector:
        await projected_to(pool, {0: offset, 1: builder.ends()[1]})
        await until(lambda: projector.stopped, "the alarm")
        behind = builder.ends()[1]
        builder.take(x.report(x.success(), key=keys[1]))
        log.extend(builder.records(1)[behind:])
        await projected_to(pool, {0: offset, 1: builder.ends()[1]})
        assert projector.counts.stopped_partitions == 1
        assert projector.stopped[0].offset == offset
    assert await statuses(pool) == {keys[0]: "attempting", keys[1]: "completed"}
    (line,) = [one for one in caplog.records if one.message == "projection_stopped"]
    assert line.levelno == logging.ERROR
    assert (line.__dict__["partition"], line.__dict__["offset"]) == (0, offset)


async def test_a_projector_whose_every_partition_stopped_ends(pool: asyncpg.Pool) -> None:
    """With nothing left to do it says why it stopped instead of idling."""
    builder = LedgerBuilder()
    offset = builder.break_decision()
    projector = Projector(MemoryLog(builder.records()), pool, [0])
    with pytest.raises(PartitionStoppedError) as stopped:
        await projector.run(asyncio.Event())
    assert stopped.value.offset == offset
    assert "never skipped" in stopped.value.hint


async def test_a_row_that_the_database_refuses_is_found(pool: asyncpg.Pool) -> None:
    """Where Postgres will not take a row, the partition stops at exactly the record it is of."""
    builder = LedgerBuilder(2)
    streams = {builder.partition(f"acme/event-{n}"): f"acme/event-{n}" for n in range(20)}
    keys = {place: f"charge:v1:{key.replace('/', ':')}" for place, key in streams.items()}
    await pool.execute(
        "alter table actionledger.actions add constraint no_tickets check (operation <> 'ticket')"
    )
    for key in keys.values():
        builder.take(x.propose(key))
    ticket = builder.take(x.propose(keys[0].replace("charge", "ticket")))
    for key in keys.values():
        builder.take(x.report(x.success(), key=key))
    projector = Projector(MemoryLog(builder.everything()), pool, [0, 1])
    with pytest.raises(PartitionStoppedError) as stopped:
        await projector.run_until(builder.ends())
    assert (stopped.value.partition, stopped.value.offset) == (0, ticket.at)
    assert await statuses(pool) == {keys[0]: "attempting", keys[1]: "completed"}


async def test_missing_tables_are_said_at_once(pool: asyncpg.Pool) -> None:
    """A database that was not brought to this version is no trouble that passes by waiting."""
    await pool.execute("drop table actionledger.decisions cascade")
    builder = LedgerBuilder()
    with pytest.raises(MigrationError, match="not those of this program"):
        await project(pool, builder)


async def test_tables_of_another_log_are_refused(pool: asyncpg.Pool) -> None:
    """Nothing is projected onto rows of another generation, or of a log that lost its end."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    await project(pool, builder)
    before = await digest(pool)
    other = LedgerBuilder(generation="generation-2")
    other.take(x.propose())
    other.take(x.report(x.success()))
    with pytest.raises(ForeignLogError, match="generation generation-1"):
        await Projector(MemoryLog(other.records()), pool, [0]).run(asyncio.Event())
    with pytest.raises(ForeignLogError, match="ends at 3"):
        await Projector(MemoryLog(builder.records()[:3]), pool, [0]).run(asyncio.Event())
    assert await digest(pool) == before


async def test_tables_of_another_cluster_are_refused(pool: asyncpg.Pool) -> None:
    """The cluster that filled the tables is kept beside the offsets and compared."""
    builder = LedgerBuilder()
    log = MemoryLog(builder.records())
    await Projector(log, pool, [0], cluster="one").run_until(builder.ends())
    with pytest.raises(ForeignLogError, match="this one is two"):
        await Projector(log, pool, [0], cluster="two").run(asyncio.Event())


@pytest.mark.case("C181")
async def test_what_the_log_says_comes_back_byte_for_byte(pool: asyncpg.Pool) -> None:
    """12,692 facts through Postgres and back: each is the very text that its record has."""
    builder = LedgerBuilder()
    facts = 0
    while facts < 12_692:
        key = f"charge:v1:acme:event-{facts}"
        request = x.request(text='"z": 1, "a": 2 Grüße 🙂')
        facts += len(builder.take(x.propose(key, request=request)).facts)
        facts += len(builder.take(x.report(x.success(), key=key), later_ms=1).facts)
    await project(pool, builder, batch_records=2_000)
    records = builder.records()
    stored = await pool.fetch("select ledger_offset, data from actionledger.action_events")
    assert len(stored) == facts
    broken = [
        row["ledger_offset"]
        for row in stored
        if row["data"].encode() not in records[row["ledger_offset"]].value
    ]
    assert broken == []


async def test_large_records_make_small_batches(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction is bounded by what its records take, too; nothing is lost where one ends."""
    builder = history(7)
    sizes = [len(record.value) for record in builder.everything()]
    monkeypatch.setattr(projector, "SLICE_BYTES_MAX", max(sizes))
    monkeypatch.setattr(projector, "BATCH_BYTES_MAX", 4 * max(sizes))
    small = await project(pool, builder)
    # A batch may be one slice beyond its bound, and a slice one record.
    assert small.counts.batches >= sum(sizes) / (6 * max(sizes))
    assert small.counts.records == len(sizes)
    bounded = await digest(pool)
    monkeypatch.undo()
    await pool.execute(f"drop schema {SCHEMA} cascade; drop schema {SCHEMA}_api_v1 cascade")
    async with pool.acquire() as connection:
        await migrate(connection)
    whole = await project(pool, builder)
    assert whole.counts.batches < small.counts.batches
    assert await digest(pool) == bounded
