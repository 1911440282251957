"""Filling a database from the log alone, on a real Postgres."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from gateway.cli.restoring import NoDatabaseError, require_database
from projections.grants import access_differences
from projections.projector import Projector
from projections.restore import restore
from tests.ledgers import MemoryLog, history
from tests.projecting import digest, project, projected
from tests.servers import Addresses

pytestmark = pytest.mark.servers


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


async def empty(pool: asyncpg.Pool) -> None:
    """Take away everything that the product made in a database."""
    rows = await pool.fetch("select nspname from pg_namespace where nspname like 'actionledger%'")
    for row in rows:
        await pool.execute(f"drop schema {row['nspname']} cascade")


@pytest.mark.law("S14")
async def test_an_empty_database_is_filled_from_the_log(pool: asyncpg.Pool) -> None:
    """Tables, rights and every row are what they were, byte for byte; it says how long it took."""
    builder = history(51, steps=200, partitions=3)
    await project(pool, builder, batch_records=7)
    before = await digest(pool)
    await empty(pool)
    heard: list[tuple[str, int, int]] = []
    done = await restore(
        MemoryLog(builder.everything()),
        pool,
        range(3),
        progress=lambda *step: heard.append(step),
    )
    assert done.sha256 == before == await digest(pool)
    assert done.offsets == builder.ends()
    assert done.began_at == {}
    assert done.record_count == sum(builder.ends().values())
    assert done.event_count == await pool.fetchval(
        "select (select count(*) from actionledger.action_events)"
        " + (select count(*) from actionledger.gate_events)"
    )
    assert done.seconds > 0
    assert heard[0] == ("project", 0, done.record_count)
    assert ("project", done.record_count, done.record_count) in heard
    async with pool.acquire() as connection:
        assert await access_differences(connection, "actionledger") == ()


async def test_a_restore_that_was_ended_goes_on(pool: asyncpg.Pool) -> None:
    """What is there already is not written again, and a projector may run beside it."""
    builder = history(52, steps=200, partitions=2)
    log, ends = MemoryLog(builder.everything()), builder.ends()
    await Projector(log, pool, [0, 1]).run_until({0: ends[0] // 2, 1: 5})
    beside = Projector(log, pool, [0, 1], batch_records=3)
    done, _ = await asyncio.gather(restore(log, pool, [0, 1]), beside.run_until(ends))
    assert done.began_at[0] >= ends[0] // 2
    assert done.offsets == ends
    await empty(pool)
    assert (await restore(log, pool, [0, 1])).sha256 == done.sha256


async def test_a_dropped_database_is_made_again(servers: Addresses) -> None:
    """Whoever may make it gets it made; who may not is told what to ask for."""
    name, login = f"test_{secrets.token_hex(6)}", f"nobody_{secrets.token_hex(6)}"
    parts = urlsplit(servers.admin_url)
    password = secrets.token_urlsafe(16)
    admin = await asyncpg.connect(servers.admin_url)
    try:
        await admin.execute(f"create role {login} login password '{password}'")
        poor = f"{login}:{password}@{parts.hostname}:{parts.port}"
        with pytest.raises(NoDatabaseError, match="may not make it") as refused:
            await require_database(urlunsplit(parts._replace(netloc=poor, path=f"/{name}")))
        assert f"createdb -O {login} {name}" in refused.value.hint
        url = urlunsplit(parts._replace(path=f"/{name}"))
        for _ in range(2):
            await require_database(url)
        assert await admin.fetchval("select 1 from pg_database where datname = $1", name) == 1
    finally:
        await admin.execute(f"drop database if exists {name}")
        await admin.execute(f"drop role if exists {login}")
        await admin.close()
