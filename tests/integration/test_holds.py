"""The emergency stop on the real Kafka: from the operator's word to the first byte that stays."""

import asyncio
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from gateway.keys import Role, create_key
from gateway.settings import Settings
from gateway.tenant_names import TenantSpellingError
from gateway.wiring.ordering import (
    NotHeldError,
    UnknownScopeError,
    holds_in_force,
    order,
)
from ledger.client.client import LedgerClient
from ledger.core.facts import AttemptDeclined, AttemptStarted
from ledger.core.holds import HOLD, RELEASE, Order, Scope
from ledger.core.records import Decision
from ledger.core.state import Status
from ledger.log.topics import Topic
from projections.cold import ColdStore
from projections.projector import Projector
from projections.queries import Queries
from projections.query_rows import ALL
from streams.config_inbox import ConfigInbox
from tests.integration.installation import (
    PARTITIONS,
    Installation,
    charge,
    installed,
    settled,
)
from tests.integration.reconciling import migrated
from tests.integration.test_executing import Watched
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.01
NOWHERE = "postgresql://127.0.0.1:1/nowhere"
OPS = Order(scope=Scope(provider="simulated"), by="ops", reason="double charges seen")


def settings_of(one: Installation, database_url: str = NOWHERE) -> Settings:
    """How a command reaches this installation; without a database unless one is given."""
    return replace(
        Settings.from_environment({}),
        kafka_bootstrap=one.log.bootstrap,
        topic_prefix=one.log.prefix,
        database_url=database_url,
        partitions=PARTITIONS,
    )


def open_watched() -> Watched:
    """A provider that answers at once."""
    gate = asyncio.Event()
    gate.set()
    return Watched(gate)


def attempts_of(decisions: list[Decision], kind: type) -> list[str]:
    """Actions with a fact of this type, in the order of the log."""
    return [fact.action for read in decisions for fact in read.facts if isinstance(fact, kind)]


async def test_nothing_starts_between_hold_and_release_and_all_of_it_after(
    servers: Addresses,
) -> None:
    """Intents are taken and wait as ready, with the reason; no byte leaves; the release brings
    every one of them to its end. All of it without a database.
    """
    watched = open_watched()
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(watched)
        settings = settings_of(one)
        done: list[int] = []
        held = await order(
            settings, HOLD, OPS, timeout_ms=PATIENCE_MS, progress=lambda now, _: done.append(now)
        )
        assert (held.waiting, held.was_published, done[-1]) == ((), True, PARTITIONS)
        proposals = [charge(f"held-{number}") for number in range(12)]
        async with LedgerClient(one.log, PARTITIONS) as client:
            await asyncio.gather(*(client.propose(p, timeout_ms=PATIENCE_MS) for p in proposals))
            for proposal in proposals:
                ready = await settled(client, proposal.key, Status.READY)
                assert ready.held is not None
                assert (ready.held.by, ready.held.reason) == ("ops", "double charges seen")
            again = await order(settings, HOLD, OPS, timeout_ms=PATIENCE_MS)
            assert (again.waiting, again.was_published, again.offset) == ((), False, held.offset)
            assert watched.calls == []
            released = await order(settings, RELEASE, OPS, timeout_ms=PATIENCE_MS)
            assert released.waiting == ()
            for proposal in proposals:
                progress = await settled(client, proposal.key, Status.COMPLETED)
                assert progress.held is None
        assert sorted(watched.calls) == sorted(proposal.key for proposal in proposals)
        assert await holds_in_force(settings) == ()


async def test_a_call_at_work_goes_on_and_another_tenant_is_not_held(servers: Addresses) -> None:
    """What had left before the hold is reported and completes; others start as always."""
    watched = Watched(asyncio.Event())
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(watched)
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(charge("at-work"), timeout_ms=PATIENCE_MS)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not watched.at_work:
                    await asyncio.sleep(LOOK_SECONDS)
            acme = Order(scope=Scope(tenant="acme"), by="ops")
            await order(settings_of(one), HOLD, acme, timeout_ms=PATIENCE_MS)
            watched.gate.set()
            await settled(client, charge("at-work").key, Status.COMPLETED)
            other = charge("free", tenant="other")
            await client.propose(charge("waits"), timeout_ms=PATIENCE_MS)
            await client.propose(other, timeout_ms=PATIENCE_MS)
            await settled(client, other.key, Status.COMPLETED)
            waits = await settled(client, charge("waits").key, Status.READY)
            assert waits.held is not None


async def test_an_executor_heeds_a_hold_that_no_partition_has_adopted(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the word and its adoption a start may come: it is given back without a byte, and the
    action is ready again.
    """

    async def hear_nothing(_config: ConfigInbox) -> None:
        """An owner that has not read the order yet."""

    watched = open_watched()
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        executor = await one.executor(watched)
        monkeypatch.setattr(ConfigInbox, "read", hear_nothing)
        late = await order(settings_of(one), HOLD, OPS, timeout_ms=300)
        assert late.waiting == tuple(range(PARTITIONS))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not executor._published.holds:
                await asyncio.sleep(LOOK_SECONDS)
        key = charge("between").key
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(charge("between"), timeout_ms=PATIENCE_MS)
            # Ready it is before its start too, where capacity was short for a moment.
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not attempts_of(await one.decisions(), AttemptDeclined):
                    await asyncio.sleep(LOOK_SECONDS)
            ready = await settled(client, key, Status.READY)
            assert ready.attempts == 0
        decisions = await one.decisions()
        assert attempts_of(decisions, AttemptDeclined) == [key]
        assert attempts_of(decisions, AttemptStarted) == [key]
        assert watched.calls == []


async def test_a_hold_without_a_processor_says_who_has_not_adopted_it_and_comes_first_later(
    servers: Addresses,
) -> None:
    """The order stands in the log: whoever owns the partitions next adopts it before it decides."""
    watched = open_watched()
    async with installed(servers.kafka_bootstrap) as one:
        held = await order(settings_of(one), HOLD, OPS, timeout_ms=300)
        assert held.waiting == tuple(range(PARTITIONS))
        await one.executor(watched)
        await one.processor()
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(charge("late"), timeout_ms=PATIENCE_MS)
            ready = await settled(client, charge("late").key, Status.READY)
            assert ready.held is not None
        assert (await order(settings_of(one), HOLD, OPS, timeout_ms=PATIENCE_MS)).waiting == ()
        assert watched.calls == []


async def test_what_cannot_be_meant_is_refused_by_name(servers: Addresses, tmp_path: Path) -> None:
    """Family operations: a release of what is not held, a hold of what the catalogue does not have,
    and one of a tenant in another spelling, unless that is meant: it would hold nothing.
    """
    async with installed(servers.kafka_bootstrap) as one:
        settings = replace(settings_of(one), api_keys_file=tmp_path / "api_keys.toml")
        with pytest.raises(NotHeldError):
            await order(settings, RELEASE, OPS, timeout_ms=1_000)
        for scope in (Scope(provider="simulatd"), Scope(operation="charges")):
            wrong = Order(scope=scope, by="ops")
            with pytest.raises(UnknownScopeError, match="Did you mean"):
                await order(settings, HOLD, wrong, timeout_ms=1_000)
        create_key(
            settings.api_keys_file, tenant="acme", principal="agent:billing", role=Role.AGENT
        )
        for tenant in ("Acme", "acme."):
            spelled = Order(scope=Scope(tenant=tenant), by="ops")
            with pytest.raises(TenantSpellingError):
                await order(settings, HOLD, spelled, timeout_ms=1_000)
        assert len(await one.records(Topic.CONFIG, 0)) == 1
        # Who has both can hold both.
        meant = Order(scope=Scope(tenant="Acme"), by="ops")
        held = await order(settings, HOLD, meant, timeout_ms=300, spelling="as_written")
        assert (held.scope.tenant, held.was_published) == ("Acme", True)


async def test_the_read_model_says_by_whom_an_action_is_held(
    servers: Addresses, database_url: str
) -> None:
    """The row of an action, the list of holds and the owner's next start follow from the tables."""
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        settings = settings_of(one, database_url)
        await order(settings, HOLD, OPS, timeout_ms=PATIENCE_MS)
        async with LedgerClient(one.log, PARTITIONS) as client:
            proposed = await client.propose(charge("told"), timeout_ms=PATIENCE_MS)
        async with migrated(database_url) as pool:
            await project(one, pool)
            row = await Queries(pool).action(ALL, charge("told").key)
            offsets = await Queries(pool).offsets()
            found = await pool.fetch("select * from actionledger_api_v1.holds")
        assert row is not None
        assert row.held is not None
        assert (row.held["by"], row.held["reason"]) == ("ops", "double charges seen")
        assert offsets[proposed.partition].holds[0].scope == OPS.scope
        assert [(each["provider"], each["held_by"], each["partitions"]) for each in found] == [
            ("simulated", "ops", PARTITIONS)
        ]
        # With the database it begins where the tables are, and knows what was adopted before.
        again = await order(settings, HOLD, OPS, timeout_ms=PATIENCE_MS)
        assert (again.waiting, again.was_published) == ((), False)


async def test_an_owner_that_begins_at_the_projection_heeds_the_holds_of_its_checkpoint(
    servers: Addresses, database_url: str
) -> None:
    """What was adopted before is not read again, and holds all the same; so does the release."""
    watched = open_watched()
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        settings = settings_of(one, database_url)
        await order(settings, HOLD, OPS, timeout_ms=PATIENCE_MS)
        await one.stop()
        async with migrated(database_url) as pool:
            await project(one, pool)
            processor = await one.processor(ColdStore(pool))
            assert all(owner.memory.cold_floor > 0 for owner in processor._owners.values())
            await one.executor(watched)
            async with LedgerClient(one.log, PARTITIONS) as client:
                key = charge("checkpoint").key
                await client.propose(charge("checkpoint"), timeout_ms=PATIENCE_MS)
                await settled(client, key, Status.READY)
                assert watched.calls == []
                await order(settings, RELEASE, OPS, timeout_ms=PATIENCE_MS)
                await settled(client, key, Status.COMPLETED)


async def project(one: Installation, pool: asyncpg.Pool) -> None:
    """Bring the tables to where the ledger ends."""
    ends = {part: len(await one.records(Topic.LEDGER, part)) for part in range(PARTITIONS)}
    await Projector(one.log, pool, range(PARTITIONS)).run_until(ends)
