"""Notices of new rows on a real Postgres: in time, and none lost for good."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from projections.changes import Changes, listening
from projections.migrate import NOT_PROJECTED, migrate
from projections.projector import Projector
from tests import examples as x
from tests.ledgers import LedgerBuilder, MemoryLog
from tests.patience import PATIENCE_MS
from tests.projecting import project, projected, running, until

pytestmark = pytest.mark.servers


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


async def test_a_commit_wakes_who_listens(pool: asyncpg.Pool) -> None:
    """Whoever waits for a record wakes when its rows are there to be read."""
    builder = LedgerBuilder()
    log = MemoryLog(builder.records())
    async with listening(pool) as changes, running(log, pool, [0]):
        assert await changes.passed(0, builder.ends()[0] - 1, timeout_ms=PATIENCE_MS)
        behind = builder.ends()[0]
        decision = builder.take(x.propose())
        waiting = asyncio.create_task(changes.passed(0, decision.at, timeout_ms=PATIENCE_MS))
        log.extend(builder.records()[behind:])
        assert await waiting
        assert await pool.fetchval("select count(*) from actionledger.actions") == 1


async def test_what_was_written_before_is_known(pool: asyncpg.Pool) -> None:
    """Who begins to listen late starts with how far the tables are."""
    builder = LedgerBuilder()
    await project(pool, builder)
    async with listening(pool) as changes:
        assert changes.offset(0) == builder.ends()[0]
        assert await changes.passed(0, builder.ends()[0] - 1, timeout_ms=0)


async def test_waiting_has_an_end(pool: asyncpg.Pool) -> None:
    """Nothing comes: the wait says so, in time."""
    async with listening(pool) as changes:
        assert not await changes.passed(0, 5, timeout_ms=10)
        assert not await changes.anything(timeout_ms=10)


async def test_a_lost_connection_loses_no_notice_for_good(pool: asyncpg.Pool) -> None:
    """What was committed while the listener was away is known when it is back."""
    builder = LedgerBuilder()
    async with listening(pool) as changes:
        await pool.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and query ilike 'listen %'"
        )
        await project(pool, builder)
        assert await changes.passed(0, builder.ends()[0] - 1, timeout_ms=PATIENCE_MS)
        assert await changes.anything(timeout_ms=0) is False


async def test_only_the_live_schema_wakes(pool: asyncpg.Pool) -> None:
    """A rebuild beside the live schema is nobody's news."""
    builder = LedgerBuilder()
    async with listening(pool) as changes:
        async with pool.acquire() as connection:
            await migrate(connection, schema="beside", without=NOT_PROJECTED)
        beside = Projector(MemoryLog(builder.records()), pool, [0], schema="beside")
        await beside.run_until(builder.ends())
        assert not await changes.anything(timeout_ms=100)


async def test_old_notices_change_nothing() -> None:
    """A notice that says less than is known is passed over."""
    changes = Changes()
    changes.heard(0, 5)
    changes.heard(0, 3)
    assert changes.offset(0) == 5
    woken = asyncio.create_task(changes.anything(timeout_ms=PATIENCE_MS))
    await until(lambda: not woken.done(), "it waits")
    await asyncio.sleep(0)
    changes.heard(0, 6)
    assert await woken
