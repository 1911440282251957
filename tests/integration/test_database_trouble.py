"""The projector and what a real Postgres says when it is in trouble: whatever passes is waited for,
and what it wrote before is neither lost nor written twice.
"""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from gateway import local
from projections import projector as projector_module
from projections import writer
from projections.migrate import NOT_PROJECTED, migrate
from projections.projector import Projector
from tests import databases
from tests.integration.test_projector import held_up, waiting_backend, written
from tests.ledgers import MemoryLog, history
from tests.projecting import digest, projected, projected_to, running, until

pytestmark = pytest.mark.servers

PASSING = {
    "40001": "serialization_failure",
    "40P01": "deadlock_detected",
    "53100": "disk_full",
    "53200": "out_of_memory",
    "53300": "too_many_connections",
    "55P03": "lock_not_available",
    "57014": "query_canceled",
    "57P01": "admin_shutdown",
    "58030": "io_error",
    "25006": "read_only_sql_transaction",
    "25P03": "idle_in_transaction_session_timeout",
}
TRIES = 3
# A sequence is not rolled back with what failed, so it counts the tries.
FAILS_AT_FIRST = f"""
create sequence actionledger.tries;
create function actionledger.fail() returns trigger language plpgsql as $$
begin
    if nextval('actionledger.tries') <= {TRIES} then
        raise exception 'in trouble' using errcode = '%s';
    end if;
    return null;
end $$;
create trigger fail after insert on actionledger.action_events
    for each statement execute function actionledger.fail();
"""
SLOW = """
create function actionledger.wait() returns trigger language plpgsql as $$
begin
    perform pg_sleep(0.2);
    return null;
end $$;
create trigger wait after insert on actionledger.action_events
    for each statement execute function actionledger.wait();
"""


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


async def alone(pool: asyncpg.Pool, log: MemoryLog, ends: dict[int, int]) -> str:
    """The digest that a projector without any trouble leaves."""
    async with pool.acquire() as connection:
        await migrate(connection, schema="alone", without=NOT_PROJECTED)
    await Projector(log, pool, list(ends), schema="alone").run_until(ends)
    return await digest(pool, "alone")


@pytest.mark.parametrize("code", PASSING, ids=PASSING.get)
async def test_trouble_that_passes_is_waited_for(pool: asyncpg.Pool, code: str) -> None:
    """Postgres refuses a batch three times, for a reason that is not the batch's: it is in once,
    and nobody had to start the projector again.
    """
    builder = history(11, steps=150)
    log = MemoryLog(builder.records())
    await pool.execute(FAILS_AT_FIRST % code)
    projector = Projector(log, pool, [0])
    await projector.run_until(builder.ends())
    assert projector.counts.database_failures == TRIES
    assert await digest(pool) == await alone(pool, log, builder.ends())


async def test_a_statement_that_takes_too_long_is_tried_again(
    pool: asyncpg.Pool, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock that outlasts the projector's own time limit costs tries, not rows."""
    builder = history(12, steps=100)
    log = MemoryLog(builder.records())
    for asking in (projector_module, writer):
        monkeypatch.setattr(asking, "OWN_LIMITS", "set statement_timeout = 500")
    projector = Projector(log, pool, [0])
    async with held_up(database_url, "actions"):
        task = asyncio.create_task(projector.run_until(builder.ends()))
        await until(lambda: projector.counts.database_failures >= TRIES, "it has tried again")
        assert not task.done()
    await task
    assert await digest(pool) == await alone(pool, log, builder.ends())


async def test_a_limit_that_the_database_has_for_others_ends_no_batch(pool: asyncpg.Pool) -> None:
    """However short it is: shorter than a batch takes, it would be tried again for ever."""
    builder = history(12, steps=100)
    log = MemoryLog(builder.records())
    await pool.execute(SLOW)
    name = await pool.fetchval("select current_database()")
    await pool.execute(f"alter database {name} set statement_timeout = '50ms'")
    # Of connections that are made from now on.
    await pool.expire_connections()
    projector = Projector(log, pool, [0])
    await projector.run_until(builder.ends())
    assert projector.counts.database_failures == 0
    await pool.execute(f"alter database {name} reset statement_timeout")
    await pool.expire_connections()
    assert await digest(pool) == await alone(pool, log, builder.ends())


async def test_a_database_that_is_killed_in_mid_transaction_and_comes_back(
    own_servers: local.Servers,
) -> None:
    """Killed with a batch half written, away for a while, started again on its data: the projector
    goes on by itself from its last commit.
    """
    builder = history(13, steps=150)
    log = MemoryLog(builder.records())
    url = await databases.make(own_servers.admin_url, "own")
    async with projected(url) as pool:
        half = {0: builder.ends()[0] // 2}
        await Projector(log, pool, [0]).run_until(half)
    async with (
        asyncpg.create_pool(url, min_size=0, max_size=4) as pool,
        running(log, pool, [0]) as projector,
    ):
        blocker = await asyncpg.connect(url)
        await blocker.execute("begin; lock table actionledger.actions in access exclusive mode")
        await waiting_backend(pool)
        await own_servers.postgres.kill()
        blocker.terminate()
        await until(lambda: projector.counts.database_failures, "it has noticed")
        await own_servers.postgres.restart()
        await projected_to(pool, builder.ends())
        assert (await written(pool))[1] == builder.ends()[0]
        assert await digest(pool) == await alone(pool, log, builder.ends())
