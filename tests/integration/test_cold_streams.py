"""A processor that holds few streams and has the others in Postgres."""

import asyncio
import itertools
from collections.abc import Collection, Mapping

import asyncpg
import pytest

from gateway import local
from ledger.client.client import Answer, LedgerClient, UndecidedError
from ledger.core.inputs import Propose
from ledger.core.records import Decision
from ledger.log.topics import Topic
from projections.cold import ColdStore
from projections.states import ColdStreams
from reconciler.providers.null import NullPerformer
from tests import databases
from tests.examples import propose
from tests.integration.installation import (
    PARTITIONS,
    Installation,
    charge,
    installed,
    settled,
)
from tests.ledgers import LedgerBuilder
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.projecting import project, projected, projected_to, running, until
from tests.servers import Addresses

pytestmark = pytest.mark.servers

HELD_MAX = 6
COUNT = 60


async def proposed(client: LedgerClient, given: Propose) -> Answer:
    """Propose with patience."""
    return await client.propose(given, timeout_ms=PATIENCE_MS)


async def all_projected(one: Installation, pool: asyncpg.Pool) -> None:
    """Wait until the tables stand where the ledger ends."""
    places = [(Topic.LEDGER.value, partition) for partition in range(PARTITIONS)]
    reader = await one.log.reader({})
    try:
        ends = await reader.end_offsets(places)
    finally:
        await reader.close()
    await projected_to(pool, {partition: end for (_, partition), end in ends.items()})


async def settle(client: LedgerClient, count: int, *, prefix: str = "e") -> list[Propose]:
    """So many settled charges."""
    proposals = [charge(f"{prefix}{number}") for number in range(count)]
    await asyncio.gather(*(proposed(client, one) for one in proposals))
    for one in proposals:
        await settled(client, one.key, "completed")
    return proposals


async def test_what_was_let_go_is_answered_as_before(servers: Addresses, database_url: str) -> None:
    """A repeated proposal whose stream left memory long ago is a replay, another one under its key
    a conflict, and a new one is new; nothing is done twice.
    """
    async with installed(servers.kafka_bootstrap) as one, projected(database_url) as pool:
        processor = await one.processor(ColdStore(pool), streams_held_max=HELD_MAX)
        await one.executor()
        async with (
            running(one.log, pool, range(PARTITIONS)),
            LedgerClient(one.log, PARTITIONS) as client,
        ):
            proposals = await settle(client, COUNT)
            await until(lambda: processor.streams_held <= HELD_MAX, "only a few streams are held")
            for given in proposals:
                again = (await proposed(client, given)).decision
                assert again.unchanged is not None
                assert (again.unchanged.reason, again.unchanged.status) == (
                    "replayed",
                    "completed",
                )
            other = (await proposed(client, charge("e0", minor=1))).decision
            assert other.refused is not None
            assert other.refused.code == "conflicted"
            assert (await proposed(client, charge("new"))).decision.facts
        starts = [
            fact.action
            for decision in await one.decisions()
            for fact in decision.facts
            if fact.type == "attempt.started"
        ]
        assert len(starts) == len(set(starts)) == COUNT + 1


async def test_a_processor_begins_where_the_projection_stands(
    servers: Addresses, database_url: str
) -> None:
    """It folds what came since and nothing before, and knows what it has not folded."""
    async with installed(servers.kafka_bootstrap) as one, projected(database_url) as pool:
        await one.processor(ColdStore(pool))
        await one.executor()
        async with LedgerClient(one.log, PARTITIONS) as client:
            async with running(one.log, pool, range(PARTITIONS)):
                early = await settle(client, 10, prefix="early")
                await all_projected(one, pool)
            late = await settle(client, 10, prefix="late")
            await one.crash(0)
            processor = await one.processor(ColdStore(pool))
            assert processor.streams_held == len(late)
            async with running(one.log, pool, range(PARTITIONS)):
                for given in (*early, *late):
                    again = (await proposed(client, given)).decision
                    assert again.unchanged is not None
                assert processor.streams_held == len(early) + len(late)


async def test_waiting_actions_come_back_with_their_timers(
    servers: Addresses, database_url: str
) -> None:
    """Actions wait for capacity in a processor that holds almost none of them; a new one, which
    folded none, starts them all when an executor comes, and in each partition who waits longest
    first.
    """
    async with installed(servers.kafka_bootstrap) as one, projected(database_url) as pool:
        first = await one.processor(ColdStore(pool), streams_held_max=HELD_MAX)
        async with (
            running(one.log, pool, range(PARTITIONS)),
            LedgerClient(one.log, PARTITIONS) as client,
        ):
            proposals = [charge(f"w{number}") for number in range(COUNT)]
            for given in proposals:
                await proposed(client, given)
            await until(lambda: first.streams_held <= HELD_MAX, "only a few streams are held")
            await all_projected(one, pool)
            await one.crash(0)
            await one.processor(ColdStore(pool), streams_held_max=HELD_MAX)
            await one.executor(NullPerformer())
            for given in proposals:
                await settled(client, given.key, "completed")
        order = {given.key: place for place, given in enumerate(proposals)}
        started: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        for partition, _, read in await one.ledger():
            if isinstance(read, Decision):
                started[partition] += [
                    order[fact.action] for fact in read.facts if fact.type == "attempt.started"
                ]
        assert started == {partition: sorted(places) for partition, places in started.items()}


class CountingStore(ColdStore):
    """Counts the questions about single streams."""

    loads = 0

    async def load(self, keys: Mapping[int, Collection[str]]) -> dict[int, ColdStreams]:
        """Ask."""
        self.loads += 1
        return await super().load(keys)


async def test_new_keys_are_decided_without_the_database_once_all_keys_were_read(
    servers: Addresses, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A processor that began where the projection stands soon knows which keys are new, over more
    than one page of keys; it still asks for those that are not, and answers them as before.
    """
    async with installed(servers.kafka_bootstrap) as one, projected(database_url) as pool:
        store = CountingStore(pool)
        await one.processor(store)
        await one.executor()
        async with (
            running(one.log, pool, range(PARTITIONS)),
            LedgerClient(one.log, PARTITIONS) as client,
        ):
            early = await settle(client, COUNT, prefix="early")
            await all_projected(one, pool)
            await one.crash(0)
            await one.processor(store)
            fresh = itertools.count()

            async def decided_unasked() -> bool:
                """Whether some new keys were decided, one after the other, and nobody was asked."""
                before = store.loads
                for _ in range(PARTITIONS):
                    await proposed(client, charge(f"fresh{next(fresh)}"))
                return store.loads == before

            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await decided_unasked():
                    pass
            before = store.loads
            for given in early:
                assert (await proposed(client, given)).decision.unchanged is not None
            assert store.loads > before


@pytest.mark.law("S10")
async def test_without_the_database_only_what_needs_it_waits(
    servers: Addresses, own_servers: local.Servers
) -> None:
    """A proposal about a stream that is held is answered while Postgres is away; one about a stream
    that is not waits, and is answered when it is back. Nothing is guessed.
    """
    own = await databases.make(own_servers.admin_url, "own")
    async with installed(servers.kafka_bootstrap) as one, projected(own) as pool:
        processor = await one.processor(ColdStore(pool), streams_held_max=HELD_MAX)
        await one.executor()
        async with (
            running(one.log, pool, range(PARTITIONS)),
            LedgerClient(one.log, PARTITIONS) as client,
        ):
            let_go, *_ = await settle(client, COUNT)
            known = charge("known")
            await proposed(client, known)
            await settled(client, known.key, "completed")
            await until(lambda: processor.streams_held <= HELD_MAX, "few streams are held")
            await own_servers.postgres.kill()
            assert (await proposed(client, known)).decision.unchanged is not None
            with pytest.raises(UndecidedError):
                await client.propose(let_go, timeout_ms=1_500)
            await own_servers.postgres.restart()
            async with asyncio.timeout(PATIENCE_SECONDS):
                assert (await proposed(client, let_go)).decision.unchanged is not None


async def test_who_waits_is_read_operation_by_operation_and_page_by_page(
    database_url: str,
) -> None:
    """In the order in which they came to wait, by code points where that is one moment; those who
    wait for another operation are not among them.
    """
    builder = LedgerBuilder()
    for number, operation in enumerate(["email", "charge", "email", "charge", "charge"] * 3):
        key = f"{operation}:v1:acme:{'eE-'[number % 3]}{number}"
        builder.take(propose(key), executor=None, later_ms=number % 2)
    begun = "charge:v1:acme:begun"
    builder.take(propose(begun))
    wanted = sorted(
        (stream.actions[0].updated_at, stream.key)
        for stream in builder.streams.values()
        if stream.actions[0].request.operation == "charge" and stream.key != "acme/begun"
    )
    async with projected(database_url) as pool:
        await project(pool, builder)
        store = ColdStore(pool)
        found: list[tuple[int, str]] = []
        while page := await store.ready(0, "charge", found[-1] if found else (0, ""), 2):
            assert len(page) <= 2
            found += page
        assert found == wanted
        assert len(await store.ready(0, "email", (0, ""), 100)) == 6
        assert await store.ready(0, "payout", (0, ""), 100) == []
