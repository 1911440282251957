"""Putting rebuilt tables in the place of the live ones on a real Postgres, under traffic and
crashes.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping

import asyncpg
import pytest

from ledger.core import inputs as i
from projections.checksum import offsets_of
from projections.errors import RebuildBehindError, RebuildRunningError, SwapBlockedError
from projections.grants import access_differences
from projections.migrate import NOT_PROJECTED, migrate
from projections.projector import Projector
from projections.queries import Queries
from projections.query_rows import ALL
from projections.rebuild import Afterwards, rebuild
from projections.statements import BESIDE_SCHEMA, LIVE_SCHEMA
from projections.swap import swap
from tests import examples as x
from tests.ledgers import LedgerBuilder, MemoryLog, history
from tests.patience import PATIENCE_SECONDS
from tests.projecting import LOOK_SECONDS, digest, project, projected, projected_to, running, until

pytestmark = pytest.mark.servers

SWAP = """
import asyncio, sys
from tests.integration.test_swap import rebuild_history
asyncio.run(rebuild_history(sys.argv[1]))
"""
SEED = 41
AHEAD_MAX = 1_000
"""Records that are in no table yet: beyond that the writer waits, or no swap would catch up."""


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


async def rebuild_history(url: str) -> None:
    """Rebuild a history and swap; for processes that are killed in the middle of it."""
    builder = history(SEED, steps=120, partitions=2)
    async with asyncpg.create_pool(url, min_size=1, max_size=4) as made:
        await rebuild(MemoryLog(builder.everything()), made, afterwards=Afterwards.SWAP)


async def schemas(pool: asyncpg.Pool) -> set[str]:
    """Schemas of ours."""
    rows = await pool.fetch("select nspname from pg_namespace where nspname like 'actionledger%'")
    return {row["nspname"] for row in rows} - {"actionledger_access"}


async def number_of(pool: asyncpg.Pool, table: str) -> int:
    """By which number Postgres knows a live table."""
    return int(await pool.fetchval("select $1::text::regclass::oid", f"actionledger.{table}"))


LIVE = {LIVE_SCHEMA, f"{LIVE_SCHEMA}_api_v1"}


async def test_rebuilt_tables_take_over(pool: asyncpg.Pool) -> None:
    """New tables with every right and view, what others own untouched, nothing left beside them."""
    builder = history(SEED, steps=120, partitions=2)
    await project(pool, builder)
    await pool.execute(
        "insert into actionledger.inquirer_positions values (0, 7, 1, 'generation-1', now())"
    )
    before = await digest(pool)
    old = {name: await number_of(pool, name) for name in ("streams", "inquirer_positions")}
    log = MemoryLog(builder.everything())
    done = await rebuild(log, pool, afterwards=Afterwards.SWAP)
    assert done.is_equal
    assert done.swapped_at == builder.ends()
    assert await digest(pool) == before
    assert await number_of(pool, "streams") != old["streams"]
    assert await number_of(pool, "inquirer_positions") == old["inquirer_positions"]
    assert await pool.fetchval("select next_offset from actionledger.inquirer_positions") == 7
    assert await schemas(pool) == LIVE
    async with pool.acquire() as connection:
        assert await access_differences(connection, LIVE_SCHEMA) == ()
        assert await migrate(connection) == []
    views = await pool.fetchval("select count(*) from actionledger_api_v1.actions")
    assert views == sum(len(stream.actions) for stream in builder.streams.values())


async def test_an_edited_row_is_gone_after_a_swap(pool: asyncpg.Pool) -> None:
    """The log is right: what somebody changed is found, shown, and replaced."""
    builder = history(SEED, steps=120, partitions=2)
    await project(pool, builder)
    before = await digest(pool)
    await pool.execute("update actionledger.actions set status = 'completed'")
    done = await rebuild(MemoryLog(builder.everything()), pool, afterwards=Afterwards.SWAP)
    assert not done.is_equal
    assert done.differences
    assert await digest(pool) == before


def wrote_since(projector: Projector) -> Callable[[], bool]:
    """Whether a projector has committed since this was asked for."""
    before = projector.counts.batches
    return lambda: projector.counts.batches > before


async def test_everybody_goes_on_through_a_swap(pool: asyncpg.Pool) -> None:
    """A projector, readers and their prepared statements live through swap after swap, and the
    tables never go back.
    """
    builder = LedgerBuilder(2)
    for number in range(40):
        builder.take(x.propose(f"charge:v1:acme:event-{number}"))
    log = MemoryLog(builder.everything())
    queries, stop = Queries(pool), asyncio.Event()

    looks = 0

    async def read() -> None:
        nonlocal looks
        newest = {0: 0, 1: 0}
        while not stop.is_set():
            for part, view in (await queries.offsets()).items():
                assert view.next_offset >= newest[part], "offsets never go back"
                newest[part] = view.next_offset
            assert await queries.action(ALL, "charge:v1:acme:event-0") is not None
            assert len(await queries.timeline("acme", "charge:v1:acme:event-0")) >= 1
            looks += 1

    async def write() -> None:
        number = 0
        while not stop.is_set():
            behind = builder.ends()
            key = f"charge:v1:acme:event-{number % 40}"
            builder.take(x.found_out(i.Meaning.INCONCLUSIVE, key=key, source=f"w{number}"))
            builder.take(x.propose(f"email:v1:globex:event-{number}"))
            log.extend(one for part in behind for one in builder.records(part)[behind[part] :])
            number += 1
            await asyncio.sleep(0)
            while sum(builder.ends().values()) > projector.counts.records + AHEAD_MAX:
                await asyncio.sleep(LOOK_SECONDS)

    async with running(log, pool, [0, 1]) as projector:
        await projected_to(pool, builder.ends())
        reading, writing = asyncio.create_task(read()), asyncio.create_task(write())
        for _ in range(2):
            done = await rebuild(log, pool, afterwards=Afterwards.SWAP)
            assert done.is_equal
            await until(wrote_since(projector), "it writes on")
        await until(lambda: looks > 3 or reading.done(), "it was read")
        stop.set()
        await asyncio.gather(reading, writing)
        await projected_to(pool, builder.ends())
        assert projector.counts.overtaken == 0
    assert (await rebuild(log, pool)).is_equal


async def test_tables_that_are_behind_never_take_over(pool: asyncpg.Pool) -> None:
    """A swap that was not caught up is refused, and the live tables are those they were."""
    builder = history(SEED, steps=120, partitions=2)
    await project(pool, builder)
    log, ends = MemoryLog(builder.everything()), builder.ends()
    before = await digest(pool)

    async def not_at_all(_ends: Mapping[int, int]) -> None:
        return

    async with pool.acquire() as connection:
        await migrate(connection, schema=BESIDE_SCHEMA, without=NOT_PROJECTED)
        beside = Projector(log, pool, [0, 1], schema=BESIDE_SCHEMA)
        await beside.run_until({0: ends[0], 1: ends[1] - 1})
        with pytest.raises(RebuildBehindError, match=r"partitions \[1\]"):
            await swap(
                connection,
                live=LIVE_SCHEMA,
                beside=BESIDE_SCHEMA,
                replaced="replaced",
                catch_up=not_at_all,
            )
        assert await offsets_of(connection, LIVE_SCHEMA) == ends
    assert await digest(pool) == before


@pytest.mark.parametrize("point", ["rebuild_caught_up", "tables_swapped"])
async def test_a_crash_leaves_the_old_tables_whole(
    pool: asyncpg.Pool, database_url: str, point: str
) -> None:
    """A rebuild that is killed before the swap or inside it has changed nothing that is read; what
    it left is removed by the next one, which takes over.
    """
    builder = history(SEED, steps=120, partitions=2)
    await project(pool, builder)
    before, old = await digest(pool), await number_of(pool, "streams")
    dying = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SWAP,
        database_url,
        env={"ACTIONLEDGER_CRASH_AT": point, "PATH": os.defpath},
    )
    assert await dying.wait() == -signal.SIGKILL
    assert await number_of(pool, "streams") == old
    assert await digest(pool) == before
    assert BESIDE_SCHEMA in await schemas(pool)
    await rebuild_history(database_url)
    assert await number_of(pool, "streams") != old
    assert await digest(pool) == before
    assert await schemas(pool) == LIVE


async def test_what_a_crash_after_the_swap_left_is_removed(pool: asyncpg.Pool) -> None:
    """Replaced tables that nobody dropped are no obstacle."""
    await pool.execute("create schema actionledger_replaced")
    await pool.execute("create table actionledger_replaced.streams ()")
    builder = history(SEED, steps=60)
    await project(pool, builder)
    await rebuild(MemoryLog(builder.everything()), pool, afterwards=Afterwards.SWAP)
    assert await schemas(pool) == LIVE


async def test_a_swap_waits_for_readers(pool: asyncpg.Pool) -> None:
    """Whoever reads keeps their tables until they are done; then the swap goes through."""
    builder = history(SEED, steps=60)
    await project(pool, builder)
    log = MemoryLog(builder.everything())
    old = await number_of(pool, "streams")
    async with pool.acquire() as reader:
        transaction = reader.transaction(isolation="repeatable_read", readonly=True)
        await transaction.start()
        await reader.fetch("select * from actionledger.streams")
        swapping = asyncio.create_task(rebuild(log, pool, afterwards=Afterwards.SWAP))
        await until_waits(pool)
        assert await number_of(pool, "streams") == old
        await transaction.rollback()
        await swapping
    assert await number_of(pool, "streams") != old


async def until_waits(pool: asyncpg.Pool) -> None:
    """Wait until somebody waits for a lock."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await pool.fetchval(
            "select count(*) from pg_stat_activity"
            " where datname = current_database() and wait_event_type = 'Lock'"
        ):
            await asyncio.sleep(LOOK_SECONDS)


async def test_a_view_of_somebody_elses_is_not_torn_down(pool: asyncpg.Pool) -> None:
    """What others built on the tables keeps them in place, and is named."""
    builder = history(SEED, steps=60)
    await project(pool, builder)
    await pool.execute("create view public.mine as select * from actionledger_api_v1.actions")
    old = await number_of(pool, "streams")
    with pytest.raises(SwapBlockedError, match="mine"):
        await rebuild(MemoryLog(builder.everything()), pool, afterwards=Afterwards.SWAP)
    assert await number_of(pool, "streams") == old


async def test_two_rebuilds_do_not_meet(pool: asyncpg.Pool) -> None:
    """While one is at work another is refused at once."""
    builder = history(SEED, steps=60)
    await project(pool, builder)
    log = MemoryLog(builder.everything())
    async with pool.acquire() as blocker:
        transaction = blocker.transaction()
        await transaction.start()
        await blocker.execute("lock table actionledger.streams in access exclusive mode")
        first = asyncio.create_task(rebuild(log, pool))
        await until_waits(pool)
        with pytest.raises(RebuildRunningError):
            await rebuild(log, pool)
        await transaction.rollback()
    assert (await first).is_equal
