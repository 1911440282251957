"""Filling a database from the log alone, on a real Postgres."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from gateway.cli.restoring import NoDatabaseError, require_database
from ledger.client.client import LedgerClient
from ledger.log.port import Outgoing
from ledger.log.topics import Topic
from projections.grants import access_differences
from projections.projector import Projector
from projections.restore import restore
from tests.integration.faust_kit import POLL_SECONDS, until
from tests.integration.installation import PARTITIONS, charge, installed, settled
from tests.integration.reconciling import (
    evidence,
    quarantine_becomes,
    receive,
    reconciling,
    rows,
    rows_become,
    settlement,
    source_of,
)
from tests.ledgers import MemoryLog, history
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
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


async def matched(pool: asyncpg.Pool, wanted: dict[tuple[int, int], str]) -> None:
    """Wait until every one of these places has a row that names its action."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            found = await rows(pool)
            named = {place: row["action_key"] for place, row in found.items()}
            if named == wanted and all(row["matched_at"] for row in found.values()):
                return
            await asyncio.sleep(POLL_SECONDS)


async def test_webhooks_that_come_during_a_restore_have_rows_and_matches(
    servers: Addresses, database_url: str
) -> None:
    """Those before it, during it and after it, while the reconciler runs on: nobody resets offsets.
    What was told before the restore is told under the same name after it.
    """
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        await one.processor()
        await one.executor()
        proposals = [charge(f"restored-{number}") for number in range(8)]
        async with LedgerClient(one.log, PARTITIONS) as client:
            for proposal in proposals:
                await client.propose(proposal, timeout_ms=PATIENCE_MS)
                await settled(client, proposal.key, "completed", "performed", "succeeded")
        wanted: dict[tuple[int, int], str] = {}
        sources: set[str] = set()
        numbers = count()

        async def send() -> None:
            number = next(numbers)
            key = proposals[number % len(proposals)].key
            webhook = settlement(f"evt_{number}", reference=f"ch_{number}", action_key=key)
            (place,) = await receive(one, webhook)
            wanted[place] = key
            sources.add(source_of(webhook))

        stop = asyncio.Event()

        async def send_on() -> None:
            while not stop.is_set():
                await send()

        await restore(one.log, all_.pool, range(PARTITIONS))
        for _ in range(20):
            await send()
        await rows_become(all_.pool, 20)
        sending = asyncio.create_task(send_on())
        await empty(all_.pool)
        lost_at = len(wanted)
        await until(lambda: len(wanted) > lost_at, "one comes after all was lost")
        await restore(one.log, all_.pool, range(PARTITIONS))
        stop.set()
        await sending
        for _ in range(5):
            await send()
        await all_.inquirer()
        await matched(all_.pool, wanted)
        assert {found.source_id for found in await evidence(one)} == sources


async def test_rows_of_webhooks_that_an_older_copy_lacks_come_back(
    servers: Addresses, database_url: str
) -> None:
    """Without a new webhook, and without a second note of what was set aside."""
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        places = []
        for number in range(12):
            places += await receive(one, settlement(f"evt_{number}", reference=f"ch_{number}"))
        for partition in range(PARTITIONS):
            await one.put(Topic.WEBHOOKS, partition, Outgoing(b"key", b"no webhook"))
        before = await rows_become(all_.pool, 12)
        await quarantine_becomes(one, PARTITIONS)
        await all_.pool.execute("delete from actionledger.webhooks where topic_offset > 0")
        after = await rows_become(all_.pool, 12)
        assert set(after) == set(before) == set(places)
        assert len(await quarantine_becomes(one, PARTITIONS)) == PARTITIONS
