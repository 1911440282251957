"""Public failure cases about tables: late commits, positions, crashes between two writes, types
that nobody knows, a database from yesterday, one that is away.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from gateway import local
from ledger.client.client import LedgerClient
from ledger.core.inputs import Propose
from ledger.core.rejections import Rejection
from ledger.log.kafka import KafkaLog
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from projections.cold import ColdStore
from projections.migrate import NOT_PROJECTED, migrate
from projections.projector import Projector
from reconciler.lost_rows import LostRows
from reconciler.providers import port
from streams import agents
from streams.agents import add_webhook_agent
from streams.app import AppSettings, build_app
from streams.processor import Processor
from tests import examples as x
from tests.integration.counting import CountingProvider
from tests.integration.faust_kit import Running, run_as_task
from tests.integration.installation import PARTITIONS, Installation, charge, installed, settled
from tests.integration.reconciling import (
    all_records,
    classified,
    desk,
    evidence,
    receive,
    reconciling,
    rows_become,
    settlement,
)
from tests.integration.test_projecting import ends
from tests.integration.test_projector import held_up, statuses, waiting_backend, written
from tests.ledgers import LedgerBuilder, MemoryLog, history
from tests.patience import PATIENCE_MS
from tests.projecting import digest, project, projected, projected_to, running, until
from tests.servers import Addresses

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.02


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a migrated database."""
    async with projected(database_url) as made:
        yield made


async def read_behind(pool: asyncpg.Pool, seen: dict[int, int]) -> list[tuple[int, int]]:
    """What a reader that keeps an offset for each partition finds new, and its new offsets."""
    found: list[tuple[int, int]] = []
    for partition in range(2):
        rows = await pool.fetch(
            "select distinct ledger_offset from actionledger.action_events"
            " where partition = $1 and ledger_offset >= $2 order by ledger_offset",
            partition,
            seen.get(partition, 0),
        )
        found += [(partition, row["ledger_offset"]) for row in rows]
        if rows:
            seen[partition] = rows[-1]["ledger_offset"] + 1
    return found


@pytest.mark.case("C167")
async def test_c167_a_slow_commit_is_not_passed_by_a_reader(
    pool: asyncpg.Pool, database_url: str
) -> None:
    """C167: a transaction that began first commits last. Readers go by ledger offset within a
    partition, which commits in order, and so see both, each once, whenever they look.
    """
    builder = LedgerBuilder(2)
    slow, fast = MemoryLog(builder.records(0)), MemoryLog(builder.records(1))
    streams = {builder.partition(f"acme/event-{n}"): f"acme/event-{n}" for n in range(20)}
    keys = {place: f"charge:v1:{key.replace('/', ':')}" for place, key in streams.items()}
    seen: dict[int, int] = {}
    async with running(slow, pool, [0]), running(fast, pool, [1]):
        await projected_to(pool, builder.ends())
        first = await read_behind(pool, seen)
        begun = builder.ends()
        for partition in (0, 1):
            builder.take(x.propose(keys[partition]), executor=None)
        async with held_up(database_url, "review_cases"):
            # Both are in their transactions; the one of partition 0 stays there.
            slow.extend(builder.records(0)[begun[0] :])
            await waiting_backend(pool)
            second = await read_behind(pool, seen)
        fast.extend(builder.records(1)[begun[1] :])
        await projected_to(pool, builder.ends())
        third = await read_behind(pool, seen)
    assert second == []
    assert sorted(third) == [(0, begun[0]), (1, begun[1])]
    assert first == []
    assert await read_behind(pool, seen) == []


@pytest.mark.case("C169")
async def test_c169_a_place_is_one_record_and_a_checkpoint_is_a_place(pool: asyncpg.Pool) -> None:
    """C169: two decisions of one place are refused by the database. The checkpoint is the place
    behind the last record, also where half of what lies before it counted for nothing.
    """
    builder = LedgerBuilder()
    for number in range(20):
        builder.void()
        builder.take(x.propose(f"charge:v1:acme:event-{number}"))
        builder.void()
    projector = await project(pool, builder, batch_records=7)
    events, checkpoint = await written(pool)
    assert checkpoint == builder.ends()[0] > events
    assert projector.counts.records == builder.ends()[0]
    assert len(await statuses(pool)) == 20
    with pytest.raises(asyncpg.UniqueViolationError) as refused:
        await pool.execute(
            "insert into actionledger.decisions select * from actionledger.decisions limit 1"
        )
    assert refused.value.constraint_name == "decisions_place"
    with pytest.raises(asyncpg.UniqueViolationError):
        await pool.execute(
            "insert into actionledger.action_events select copy.* from actionledger.action_events"
            " as stored, jsonb_populate_record(stored, '{\"ledger_offset\": 999999}') as copy"
            " limit 1"
        )


@pytest.mark.case("C171")
async def test_c171_three_crashes_between_rows_and_position_change_no_total(
    pool: asyncpg.Pool, database_url: str
) -> None:
    """C171: three times in a row the writer dies with its rows written and its position not yet
    committed; what the next one leaves is what one that never died leaves.
    """
    builder = history(7, steps=200)
    log = MemoryLog(builder.records())
    for _ in range(3):
        task = asyncio.create_task(Projector(log, pool, [0]).run_until(builder.ends()))
        # The last table of a batch: everything before it is written, nothing is committed.
        async with held_up(database_url, "provider_references"):
            pid = await waiting_backend(pool)
            await pool.execute("select pg_terminate_backend($1)", pid)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert await written(pool) == (0, 0)
    await project(pool, builder)
    survived = await digest(pool)
    async with pool.acquire() as connection:
        await migrate(connection, schema="alone", without=NOT_PROJECTED)
    await Projector(log, pool, [0], schema="alone").run_until(builder.ends())
    assert await digest(pool, "alone") == survived


@pytest.mark.case("C173")
async def test_c173_a_type_that_this_build_does_not_know_is_never_passed_over(
    pool: asyncpg.Pool, caplog: pytest.LogCaptureFixture
) -> None:
    """C173: a fact of a later version stops the tables of its partition, with an alarm; nothing is
    dropped, and a build that knows it goes on from there.
    """
    builder = LedgerBuilder()
    builder.take(x.propose())
    known = builder.records()[-1]
    later = builder.take(x.report(x.success()), later_ms=5)
    future = builder.records()[-1]
    value = future.value.replace(b'"attempt.succeeded"', b'"attempt.transcended"')
    assert value != future.value
    log = MemoryLog([*builder.records()[:-1], future._replace(value=value)])
    projector = Projector(log, pool, [0])
    with pytest.raises(Exception, match=f"offset {later.at}"):
        await projector.run_until(builder.ends())
    assert await statuses(pool) == {x.CHARGE: "attempting"}
    assert (await written(pool))[1] == known.offset + 1
    assert "projection_stopped" in caplog.messages
    await project(pool, builder)
    assert await statuses(pool) == {x.CHARGE: "completed"}


async def copied(admin_url: str, database_url: str) -> str:
    """Copy a database as it is now: a backup, and where it is."""
    was = urlsplit(database_url)
    copy = f"copy_{secrets.token_hex(6)}"
    admin = await asyncpg.connect(admin_url)
    try:
        await admin.execute(f"create database {copy} template {was.path[1:]}")
    finally:
        await admin.close()
    return urlunsplit(was._replace(path=f"/{copy}"))


async def processor_on(one: Installation, pool: asyncpg.Pool) -> None:
    """Start a processor that reads back from these tables."""
    processor = Processor(one.log, PARTITIONS, store=ColdStore(pool))
    await one._start(processor.run, processor.ready)


async def carried_out(
    one: Installation, pool: asyncpg.Pool, provider: CountingProvider, proposals: list[Propose]
) -> None:
    """Have some actions done, by processes that end again."""
    await processor_on(one, pool)
    await one.executor(provider)
    async with LedgerClient(one.log, PARTITIONS) as client:
        for proposal in proposals:
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            await settled(client, proposal.key, "completed")
    while one.tasks:
        await one.stop()


@pytest.mark.case("C175")
@pytest.mark.parametrize("backup", ["of_yesterday", "none"])
async def test_c175_tables_from_yesterday_forget_no_key(
    servers: Addresses, database_url: str, backup: str
) -> None:
    """C175: Postgres comes back from a copy that knows half of the keys, or empty. A known key is a
    replay and with another body a conflict, for all of them, before any projector has caught up;
    then the tables are what they were.
    """
    provider = CountingProvider()
    proposals = [charge(f"k{number}") for number in range(1, 11)]
    async with installed(servers.kafka_bootstrap) as one:
        async with projected(database_url) as pool:
            await carried_out(one, pool, provider, proposals[:5])
            if backup == "of_yesterday":
                await Projector(one.log, pool, range(PARTITIONS)).run_until(await ends(one))
        restored = await copied(servers.admin_url, database_url)
        async with projected(database_url) as pool:
            await carried_out(one, pool, provider, proposals[5:])
            await Projector(one.log, pool, range(PARTITIONS)).run_until(await ends(one))
        async with projected(restored) as pool:
            await processor_on(one, pool)
            await one.executor(provider)
            async with LedgerClient(one.log, PARTITIONS) as client:
                for proposal in proposals:
                    again = await client.propose(proposal, timeout_ms=PATIENCE_MS)
                    assert again.decision.unchanged is not None
                    assert again.decision.unchanged.status == "completed"
                    event = proposal.key.rpartition(":")[2]
                    other = await client.propose(charge(event, minor=1), timeout_ms=PATIENCE_MS)
                    assert other.decision.refused is not None
                    assert other.decision.refused.code is Rejection.CONFLICTED
            await Projector(one.log, pool, range(PARTITIONS)).run_until(await ends(one))
            assert await statuses(pool) == {each.key: "completed" for each in proposals}
            while one.tasks:
                await one.crash()
    assert provider.calls == Counter(proposal.key for proposal in proposals)


class KeyedProvider:
    """A provider with a memory for keys, and a book of what it did."""

    def __init__(self) -> None:
        self.book: dict[str, str] = {}

    async def perform(
        self,
        request: port.ProviderRequest,
        *,
        provider_key: str,
        deadlines: port.Deadlines,
        before_first_byte: Callable[[], None],
    ) -> port.Outcome:
        """The effect of a key, made once."""
        before_first_byte()
        reference = self.book.setdefault(provider_key, f"pi_{len(self.book) + 9}")
        return port.Succeeded(reference, {})

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.case("C163")
async def test_c163_an_effect_whose_log_was_lost_is_parked_and_not_made_again(
    servers: Addresses, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """C163: the log came back without the intent, the start and the report, while the charge is in
    the provider's book. Its webhook is an effect without an action: kept, with an alert. When the
    caller asks again, the provider key follows from the action key and finds the first charge; then
    the parked webhook has its action.
    """
    provider = KeyedProvider()
    proposal = charge("lost")
    async with installed(servers.kafka_bootstrap) as before:
        await before.processor()
        await before.executor(provider)
        async with LedgerClient(before.log, PARTITIONS) as client:
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            await settled(client, proposal.key, "completed")
    assert list(provider.book.values()) == ["pi_9"]
    async with (
        installed(servers.kafka_bootstrap) as restored,
        reconciling(restored, database_url) as beside,
    ):
        await restored.processor()
        await restored.executor(provider)
        (place,) = await receive(restored, settlement("evt_1", reference="pi_9"))
        await classified(beside.pool, place, "parked")
        await until(lambda: "webhook_parked" in caplog.messages, "somebody is told")
        (alert,) = [line for line in caplog.records if line.message == "webhook_parked"]
        assert alert.levelno == logging.WARNING
        async with LedgerClient(restored.log, PARTITIONS) as client:
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            done = await settled(client, proposal.key, "completed")
        assert done.reference == "pi_9"
        await Projector(restored.log, beside.pool, range(PARTITIONS)).run_until(
            await ends(restored)
        )
        await beside.inquirer()
        await classified(beside.pool, place, "matched")
    assert list(provider.book.values()) == ["pi_9"]


def reconciler_on(one: Installation, pool: asyncpg.Pool, appender: SteadyAppender) -> Running:
    """A node of the reconciler."""
    settings = AppSettings(one.log.bootstrap, f"{one.log.prefix}reconciler", commit_interval_ms=100)
    app = build_app(settings)
    whole = LostRows(desk(one, pool, appender), pool, one.log)
    add_webhook_agent(app, whole, prefix=one.log.prefix)
    return run_as_task(app, settings)


@pytest.mark.case("C177")
async def test_c177_without_the_shared_record_nobody_counts_by_memory(
    own_servers: local.Servers,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C177: two nodes start while the database is away, and deliveries of one event come. They wait
    and say so, telling the ledger nothing; with the database back the event counts once.
    """
    # How long it takes until the database is back is not the case.
    monkeypatch.setattr(agents, "EVENT_DEADLINE_MS", PATIENCE_MS)
    log = KafkaLog(own_servers.kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.actionledger.")
    one = Installation(log)
    await one.begin()
    connection = await asyncpg.connect(own_servers.admin_url)
    await migrate(connection)
    await connection.close()
    await own_servers.postgres.kill()
    appender = SteadyAppender(log.appender)
    async with asyncpg.create_pool(own_servers.admin_url, min_size=0, max_size=4) as pool:
        nodes = [reconciler_on(one, pool, appender) for _ in range(2)]
        try:
            hook = settlement("evt_1", action_key=charge("renewal-1").key)
            await receive(one, hook, hook)
            await until(lambda: "events_tried_again" in caplog.messages, "they say so")
            assert await evidence(one) == []
            assert await all_records(one, Topic.QUARANTINE) == []
            await own_servers.postgres.restart()
            await rows_become(pool, 2)
            assert len(await evidence(one)) == 1
        finally:
            for node in nodes:
                await node.stopped()
            await appender.close()
