"""Rebuilding on a real Postgres: byte for byte the same, or the rows that somebody changed."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Mapping

import asyncpg
import pytest

from ledger.log.port import Record
from ledger.log.reading import Place
from projections import projector
from projections.checksum import checksum
from projections.errors import DatabaseUnavailableError, PartitionStoppedError
from projections.projector import Projector
from projections.rebuild import RebuildProgress, drop_schema, rebuild
from tests.ledgers import MemoryLog, MemoryReader, history
from tests.patience import PATIENCE_SECONDS
from tests.projecting import digest, project, projected, projected_to, running

pytestmark = pytest.mark.servers

IDLE_MS = 200
IDLE_ENOUGH = """
select bool_and(clock_timestamp() - state_change > $1 * interval '1 millisecond')
from pg_locks
join pg_stat_activity using (pid)
where locktype = 'advisory' and datname = current_database()
"""
LOOK_SECONDS = 0.01

PRINT_DIGEST = """
import asyncio, sys
from tests.integration.test_rebuild import digest_of_a_rebuild
print(asyncio.run(digest_of_a_rebuild(sys.argv[1])))
"""


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


async def digest_of_a_rebuild(url: str) -> str:
    """Project a history and rebuild it; both digests are the same or this fails."""
    builder = history(21, steps=120, partitions=2)
    async with asyncpg.create_pool(url, min_size=1, max_size=4) as made:
        rebuilt = await rebuild(MemoryLog(builder.everything()), made)
        assert rebuilt.is_equal
        return rebuilt.beside.sha256


@pytest.mark.law("S14")
@pytest.mark.parametrize("batch_records", [1, 7, 500])
async def test_a_rebuild_gives_the_same_bytes(pool: asyncpg.Pool, batch_records: int) -> None:
    """Whatever the size of batches, the digest of a rebuild is that of the live schema."""
    builder = history(8, steps=150, partitions=3)
    await project(pool, builder, batch_records=11)
    log = MemoryLog(builder.everything())
    rebuilt = await rebuild(log, pool, batch_records=batch_records)
    assert rebuilt.live.sha256 == rebuilt.beside.sha256
    assert rebuilt.live.tables == rebuilt.beside.tables
    assert rebuilt.live.offsets == builder.ends()
    assert rebuilt.record_count == sum(builder.ends().values())
    assert rebuilt.differences == ()


@pytest.mark.law("S14")
async def test_partitions_may_be_rebuilt_in_any_order(pool: asyncpg.Pool) -> None:
    """One partition after another, the last one first, gives what all at once give."""
    builder = history(9, steps=120, partitions=3)
    log = MemoryLog(builder.everything())
    for partition in (2, 0, 1):
        await Projector(log, pool, [partition]).run_until(builder.ends())
    assert (await rebuild(log, pool)).is_equal


@pytest.mark.law("S14")
@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
async def test_digests_do_not_depend_on_the_process(
    pool: asyncpg.Pool, database_url: str, hash_seed: str
) -> None:
    """Another process, with strings hashed otherwise, rebuilds to the same digest."""
    await project(pool, history(21, steps=120, partitions=2))
    here = await digest(pool)
    other = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PRINT_DIGEST,
        database_url,
        env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await other.communicate()
    assert printed.decode().strip() == here


@pytest.mark.law("S13")
async def test_a_rebuild_compares_where_the_live_schema_stood(pool: asyncpg.Pool) -> None:
    """While the live projection moves on, a rebuild still ends at the offsets it compares with."""
    builder = history(10, steps=120, partitions=2)
    log = MemoryLog(builder.everything())
    async with running(log, pool, [0, 1]):
        await projected_to(pool, builder.ends())
        behind = builder.ends()
        for _ in range(30):
            builder.adopt(0)
        log.extend(builder.records(0)[behind[0] :])
        rebuilt = await rebuild(log, pool)
        assert rebuilt.is_equal
        await projected_to(pool, builder.ends())


EDITS = {
    "status": "update actionledger.actions set status = 'completed' where status = 'failed'",
    "state": "update actionledger.streams set state = state || ' '",
    "event": "delete from actionledger.action_events where type = 'attempt.unresolved'",
    "answer": "update actionledger.decisions set reason = 'replayed' where outcome = 'refused'",
    "attempt": "update actionledger.attempts set ended_at = ended_at + interval '1 ms'",
    "reference": "update actionledger.provider_references set reference = reference || '0'",
    "case": "delete from actionledger.review_cases",
    "void": "update actionledger.projection_offsets set void_count = void_count + 1",
}


@pytest.mark.parametrize("edit", EDITS)
async def test_an_edited_row_is_found(pool: asyncpg.Pool, edit: str) -> None:
    """A row that somebody changed, added or removed makes another digest, and is shown."""
    builder = history(12, steps=250, partitions=2)
    await project(pool, builder)
    changed = int((await pool.execute(EDITS[edit])).split()[-1])
    assert changed > 0
    rebuilt = await rebuild(MemoryLog(builder.everything()), pool)
    assert not rebuilt.is_equal
    (table,) = rebuilt.live.differing_tables(rebuilt.beside)
    assert rebuilt.differences
    assert {one.table for one in rebuilt.differences} == {table}
    if edit == "status":
        one = rebuilt.differences[0]
        assert (one.live, one.beside) == ({"status": "completed"}, {"status": "failed"})


async def test_a_rebuild_tells_how_far_it_is(pool: asyncpg.Pool) -> None:
    """Whoever waits hears of every step, up to all records there are."""
    builder = history(13, steps=60)
    await project(pool, builder)
    heard: list[RebuildProgress] = []
    await rebuild(MemoryLog(builder.everything()), pool, progress=heard.append)
    total = builder.ends()[0]
    assert [step.phase for step in heard][:2] == ["checksum", "fold"]
    assert heard[-1] == RebuildProgress("compare", total, total)
    assert RebuildProgress("fold", total, total) in heard


class Slow(MemoryLog):
    """Gives its records once who has the lock of a rebuild was idle for longer than may be, or is
    gone.
    """

    def __init__(self, records: Iterable[Record], pool: asyncpg.Pool) -> None:
        super().__init__(records)
        self._pool = pool

    async def reader(self, places: Mapping[Place, int]) -> MemoryReader:
        """Later."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self._pool.fetchval(IDLE_ENOUGH, 2 * IDLE_MS) is False:
                await asyncio.sleep(LOOK_SECONDS)
        return await super().reader(places)


async def test_a_rebuild_outlasts_a_database_that_ends_idle_sessions(
    pool: asyncpg.Pool, database_url: str
) -> None:
    """Folding takes hours on a large log, and nothing is asked meanwhile on the connection that has
    the lock.
    """
    builder = history(5, steps=60)
    await project(pool, builder)
    name = await pool.fetchval("select current_database()")
    await pool.execute(f"alter database {name} set idle_session_timeout = {IDLE_MS}")
    async with asyncpg.create_pool(database_url, min_size=1, max_size=4) as limited:
        rebuilt = await rebuild(Slow(builder.everything(), pool), limited)
        assert rebuilt.is_equal


class Full(MemoryLog):
    """Whoever reads on finds that the database has no room."""

    async def reader(self, places: Mapping[Place, int]) -> MemoryReader:
        """None."""
        raise asyncpg.DiskFullError("could not extend file")


async def test_a_rebuild_without_room_leaves_nothing_behind(
    pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second copy of all tables has filled the disk: it goes, or the live ones could not be
    written until somebody has found out why.
    """
    builder = history(5, steps=60)
    await project(pool, builder)
    monkeypatch.setattr(projector, "DATABASE_TRIES_MAX", 2)
    with pytest.raises(DatabaseUnavailableError):
        await rebuild(Full(builder.everything()), pool)
    left = "select count(*) from pg_namespace where nspname like 'actionledger_beside%'"
    assert await pool.fetchval(left) == 0


async def test_an_empty_installation_rebuilds_to_nothing(pool: asyncpg.Pool) -> None:
    """With no partition projected yet both sides are empty and equal."""
    rebuilt = await rebuild(MemoryLog(), pool)
    assert rebuilt.is_equal
    assert rebuilt.record_count == 0


async def test_a_rebuild_stops_at_what_it_cannot_fold(pool: asyncpg.Pool) -> None:
    """A log that cannot be folded up to where the tables stand is an error, not a difference."""
    builder = history(14, steps=60)
    await project(pool, builder)
    records = builder.records()
    broken = [*records[:-1], records[-1]._replace(value=b"{")]
    with pytest.raises(PartitionStoppedError):
        await rebuild(MemoryLog(broken), pool)


async def test_the_live_schema_is_never_rebuilt_in_place(pool: asyncpg.Pool) -> None:
    """Neither as the place to build in nor as what is dropped before."""
    with pytest.raises(ValueError, match="into itself"):
        await rebuild(MemoryLog(), pool, beside="actionledger")
    async with pool.acquire() as connection:
        with pytest.raises(ValueError, match="never dropped"):
            await drop_schema(connection, "actionledger")


async def test_a_checksum_names_each_table(pool: asyncpg.Pool) -> None:
    """The digest says what it covers, and of what offsets it speaks."""
    builder = history(15, steps=40, partitions=2)
    await project(pool, builder)
    heard: list[str] = []
    async with pool.acquire() as connection:
        found = await checksum(connection, progress=heard.append)
    assert list(found.tables) == heard
    assert found.offsets == builder.ends()
