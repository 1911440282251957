"""The projector on the real Kafka and the real Postgres, behind a processor and an executor."""

import asyncio

import pytest

from ledger.audit.replay import compare, replay
from ledger.client.client import LedgerClient
from ledger.log.topics import Topic
from projections.changes import listening
from projections.projector import Projector
from projections.queries import Queries
from projections.query_rows import ALL
from projections.rebuild import Afterwards, rebuild
from projections.states import stored_streams
from tests.integration.installation import (
    PARTITIONS,
    Installation,
    charge,
    installed,
    settled,
)
from tests.patience import PATIENCE_MS
from tests.projecting import projected, projected_to, running
from tests.servers import Addresses

pytestmark = pytest.mark.servers


async def ends(one: Installation) -> dict[int, int]:
    """Where the ledger ends now."""
    places = [(Topic.LEDGER.value, partition) for partition in range(PARTITIONS)]
    reader = await one.log.reader(dict.fromkeys(places, 0))
    try:
        return {
            partition: end for (_, partition), end in (await reader.end_offsets(places)).items()
        }
    finally:
        await reader.close()


@pytest.mark.law("S13")
@pytest.mark.law("S14")
async def test_what_processes_wrote_is_projected_replayed_and_rebuilt(
    servers: Addresses, database_url: str
) -> None:
    """A projector that dies and one that goes on: rows, replay and rebuild agree."""
    keys = [f"event-{number}" for number in range(30)]
    async with installed(servers.kafka_bootstrap) as one, projected(database_url) as pool:
        await one.processor()
        await one.executor()
        first = Projector(one.log, pool, range(PARTITIONS))
        dying = asyncio.create_task(first.run(asyncio.Event()))
        async with LedgerClient(one.log, PARTITIONS) as client:
            for key in keys[:15]:
                await client.propose(charge(key), timeout_ms=PATIENCE_MS)
            dying.cancel()
            await asyncio.gather(dying, return_exceptions=True)
            for key in keys[15:]:
                await client.propose(charge(key), timeout_ms=PATIENCE_MS)
            for key in keys:
                await settled(client, charge(key).key, "completed")
        while one.tasks:
            await one.stop()
        stand = await ends(one)
        await Projector(one.log, pool, range(PARTITIONS)).run_until(stand)
        queries = Queries(pool)
        for key in keys:
            action = await queries.action("acme", charge(key).key)
            assert action is not None
            assert action.status == "completed"
        replayed = await replay(one.log, range(PARTITIONS), until=stand)
        async with pool.acquire() as connection:
            stored = (await stored_streams(connection, range(PARTITIONS))).rows
        assert len(stored) == len(keys)
        assert compare(replayed.streams, stored) == ()
        rebuilt = await rebuild(one.log, pool)
        assert rebuilt.is_equal
        assert rebuilt.live.offsets == stand


async def test_a_swap_under_traffic_loses_nothing(servers: Addresses, database_url: str) -> None:
    """While agents propose and executors act, the read models are replaced twice: every action is
    there, settled, and the tables are what the log says.
    """
    keys = [f"event-{number}" for number in range(40)]
    async with (
        installed(servers.kafka_bootstrap) as one,
        projected(database_url) as pool,
        running(one.log, pool, range(PARTITIONS)) as projector,
        LedgerClient(one.log, PARTITIONS) as client,
    ):
        await one.processor()
        await one.executor()

        async def propose() -> None:
            for key in keys:
                await client.propose(charge(key), timeout_ms=PATIENCE_MS)

        traffic = asyncio.create_task(propose())
        for _ in range(2):
            done = await rebuild(one.log, pool, afterwards=Afterwards.SWAP)
            assert done.swapped_at is not None
            assert done.is_equal
        await traffic
        for key in keys:
            await settled(client, charge(key).key, "completed")
        while one.tasks:
            await one.stop()
        await projected_to(pool, await ends(one))
        statuses = await pool.fetch("select distinct status from actionledger_api_v1.actions")
        assert [row["status"] for row in statuses] == ["completed"]
        assert (await rebuild(one.log, pool)).is_equal
        assert projector.counts.overtaken == 0


async def test_doors_hear_of_a_settled_action(servers: Addresses, database_url: str) -> None:
    """A notice comes with the commit that holds the decision, and the row is there to be read."""
    async with (
        installed(servers.kafka_bootstrap) as one,
        projected(database_url) as pool,
        running(one.log, pool, range(PARTITIONS)),
        listening(pool) as changes,
    ):
        await one.processor()
        async with LedgerClient(one.log, PARTITIONS) as client:
            answer = await client.propose(charge("renewal-1"), timeout_ms=PATIENCE_MS)
        at = answer.decision.at
        wait_ms = PATIENCE_MS
        assert await changes.passed(answer.partition, at, timeout_ms=wait_ms)
        action = await Queries(pool).action(ALL, charge("renewal-1").key)
        assert action is not None
        assert action.ledger_offset == at


async def test_connections_that_are_cut_cost_no_record(
    servers: Addresses, database_url: str
) -> None:
    """When every connection is cut the projector makes new ones and goes on."""
    async with (
        installed(servers.kafka_bootstrap) as one,
        projected(database_url) as pool,
        running(one.log, pool, range(PARTITIONS)) as projector,
    ):
        await one.processor()
        await projected_to(pool, await ends(one))
        await pool.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(charge("renewal-1"), timeout_ms=PATIENCE_MS)
        await projected_to(pool, await ends(one))
        assert projector.counts.database_failures > 0
