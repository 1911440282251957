"""The inquirer on the real Kafka, beside processor, executor, reconciler and a real provider."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.client.client import LedgerClient
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.facts import EvidenceRecorded, LookupStarted
from ledger.core.inputs import Evidence, EvidenceKind, Meaning, Propose
from ledger.core.limits import TEXT_CHARS_MAX
from ledger.log.attention_record import AttentionKind, AttentionRaised, read_attention
from ledger.log.kafka import KafkaLog
from ledger.log.topics import Topic
from reconciler.absence import span_of
from reconciler.evidence import Receipt, webhook_record
from reconciler.providers.port import Absent, Found, Inconclusive, ListedEffect, Lookup, Span
from reconciler.providers.registry import ProviderSettings, finders, performers
from reconciler.providers.simulated.api import API_KEY_PREFIX
from streams.inquirer import Inquirer
from tests.contract.stage import ProviderProcess
from tests.integration.faust_kit import POLL_SECONDS
from tests.integration.installation import (
    CATALOGUE,
    PARTITIONS,
    Installation,
    charge,
    installed,
    settled,
)
from tests.integration.reconciling import (
    all_records,
    evidence,
    migrated,
    receive,
    reconciling,
    settlement,
)
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

HASTY = CATALOGUE.replace(
    "lookups = [30_000, 120_000, 600_000, 3_600_000, 21_600_000]",
    "lookups = [300, 600, 1_200]",
)
SLOW = CATALOGUE.replace(
    "lookups = [30_000, 120_000, 600_000, 3_600_000, 21_600_000]",
    "lookups = [600_000]",
)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[ProviderProcess]:
    """Run the simulated provider in a process of its own."""
    process = ProviderProcess(tmp_path)
    process.start()
    yield process
    process.stop()


def of(provider: ProviderProcess) -> list[ProviderSettings]:
    """Settings that reach the provider."""
    keys = {"main": API_KEY_PREFIX + "main"}
    return [ProviderSettings("simulated", "simulated", provider.url, keys)]


def lose_answer(provider: ProviderProcess, key: str) -> None:
    """Let the provider commit the next request for an action and drop its answer."""
    fault = {"kind": "commit_then_drop"}
    provider.control("script", {"scripts": [{"match": {"action_key": key}, "fault": fault}]})


async def notices(one: Installation) -> list[AttentionRaised]:
    """Everything on the topic `attention` now."""
    found = [read_attention(record) for record in await all_records(one, Topic.ATTENTION)]
    return [raised for raised in found if isinstance(raised, AttentionRaised)]


async def told(one: Installation, count: int) -> list[AttentionRaised]:
    """Wait until so much was told."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found := await notices(one)) < count:
            await asyncio.sleep(POLL_SECONDS)
    return found


async def test_a_lost_answer_is_found_by_looking_it_up(
    servers: Addresses, database_url: str, provider: ProviderProcess
) -> None:
    """The effect was made and its answer lost: the ledger asks, the inquirer finds, the action is
    completed with one call; both turns are told.
    """
    async with installed(servers.kafka_bootstrap, HASTY) as one:
        performer = performers(of(provider))["simulated"]
        finder = finders(of(provider))["simulated"]
        async with reconciling(one, database_url) as all_:
            await one.processor()
            await one.executor(performer)
            await all_.inquirer({"simulated": finder})
            async with LedgerClient(one.log, PARTITIONS) as client:
                proposal = charge("renewal-1")
                lose_answer(provider, proposal.key)
                await client.propose(proposal, timeout_ms=PATIENCE_MS)
                done = await settled(client, proposal.key, "completed")
            assert (done.proof, done.reference) == ("lookup", "ch_1")
            assert len(provider.lines()) == 1
            (found,) = await evidence(one)
            assert (found.lookup, found.meaning) == (1, Meaning.EFFECT)
            unknown, over = await told(one, 2)
            assert unknown.kind is AttentionKind.BECAME_UNKNOWN
            assert (over.kind, over.code) == (AttentionKind.SETTLED, "completed:lookup")
            async with asyncio.timeout(PATIENCE_SECONDS):
                while sum(all_.window.counts().values()) < 2:
                    await asyncio.sleep(POLL_SECONDS)
        await performer.close()
        await finder.close()


async def test_a_webhook_settles_an_unknown_action_and_its_second_delivery_changes_nothing(
    servers: Addresses, database_url: str, provider: ProviderProcess
) -> None:
    """The story at night: answer lost, webhook twice, completed once, one effect in the book."""
    async with installed(servers.kafka_bootstrap, SLOW) as one:
        performer = performers(of(provider))["simulated"]
        async with reconciling(one, database_url):
            await one.processor()
            await one.executor(performer)
            async with LedgerClient(one.log, PARTITIONS) as client:
                proposal = charge("renewal-1")
                lose_answer(provider, proposal.key)
                await client.propose(proposal, timeout_ms=PATIENCE_MS)
                await settled(client, proposal.key, "unknown")
                webhook = settlement("evt_1", action_key=proposal.key)
                await receive(one, webhook, webhook)
                done = await settled(client, proposal.key, "completed")
            assert (done.proof, done.reference) == ("webhook", "ch_1")
            recorded = [
                fact
                for decision in await one.decisions()
                for fact in decision.facts
                if isinstance(fact, EvidenceRecorded)
            ]
            assert len(recorded) == 1
            assert len(provider.lines()) == 1
        await performer.close()


class Scripted:
    """A finder that answers as it is told, when it is told; `first` the first time."""

    def __init__(
        self,
        answer: Lookup | Exception,
        gate: asyncio.Event | None = None,
        *,
        first: Lookup | None = None,
    ) -> None:
        self.answer = answer
        self.gate = gate
        self.first = first
        self.asked: list[str] = []
        self.asked_at_s: list[float] = []
        self.references: list[str | None] = []

    async def find(
        self,
        *,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        """Answer once the gate is open."""
        assert (account, provider_key) == ("main", action_key)
        self.references.append(reference)
        assert timeout_ms > 0
        self.asked.append(action_key)
        self.asked_at_s.append(asyncio.get_running_loop().time())
        if self.first is not None and len(self.asked) == 1:
            return self.first
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def list_effects(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[ListedEffect]:
        """List nothing."""
        nothing: tuple[ListedEffect, ...] = ()
        for effect in nothing:
            yield effect

    async def close(self) -> None:
        """Nothing is open."""


class Dated(Scripted):
    """One that looks through less where it knows when the effect can have come about."""

    def __init__(self, answer: Lookup) -> None:
        super().__init__(answer)
        self.spans: list[Span] = []

    async def find_within(self, span: Span, **asked: Any) -> Lookup:  # noqa: ANN401 - as `find`
        """Answer as `find` does."""
        self.spans.append(span)
        return await self.find(**asked)


async def asked_by_ledger(one: Installation) -> list[LookupStarted]:
    """Every question of the ledger so far."""
    return [
        fact
        for decision in await one.decisions()
        for fact in decision.facts
        if isinstance(fact, LookupStarted)
    ]


@contextlib.asynccontextmanager
async def answer_lost(
    one: Installation,
    provider: ProviderProcess,
    inquirer: Inquirer,
    proposal: Propose,
) -> AsyncIterator[LedgerClient]:
    """Everybody at work on a proposal whose answer the executor has lost."""
    performer = performers(of(provider))["simulated"]
    await one.processor()
    await one.executor(performer)
    await one._start(inquirer.run, inquirer.ready)
    async with LedgerClient(one.log, PARTITIONS) as client:
        lose_answer(provider, proposal.key)
        await client.propose(proposal, timeout_ms=PATIENCE_MS)
        yield client
    await performer.close()


async def test_a_question_at_work_in_a_crash_is_asked_by_the_next(
    servers: Addresses, database_url: str, provider: ProviderProcess
) -> None:
    """An inquirer that dies between the question and its answer leaves it to its successor, which
    begins behind neither.
    """
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap, HASTY) as one:
        performer = performers(of(provider))["simulated"]
        await one.processor()
        await one.executor(performer)
        stuck = Scripted(Absent(), asyncio.Event())
        first = Inquirer(one.log, {"simulated": stuck}, pool=pool)
        await one._start(first.run, first.ready)
        async with LedgerClient(one.log, PARTITIONS) as client:
            proposal = charge("renewal-1")
            lose_answer(provider, proposal.key)
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not stuck.asked:
                    await asyncio.sleep(POLL_SECONDS)
            await one.crash()
            finder = Scripted(Found("ch_1", proposal.request.money, {}, proposal.key))
            second = Inquirer(one.log, {"simulated": finder}, pool=pool)
            await one._start(second.run, second.ready)
            done = await settled(client, proposal.key, "completed")
        assert (done.proof, done.reference) == ("lookup", "ch_1")
        (question,) = await asked_by_ledger(one)
        assert finder.asked == [question.action]
        await performer.close()


async def test_a_provider_that_asks_for_a_pause_is_asked_again_after_it(
    servers: Addresses, database_url: str, provider: ProviderProcess
) -> None:
    """Retry-After: the same question is put once more, not before, and the ledger is told nothing
    of the first time: no rung of its schedule is used up.
    """
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap, HASTY) as one:
        performer = performers(of(provider))["simulated"]
        await one.processor()
        await one.executor(performer)
        proposal = charge("renewal-1")
        finder = Scripted(
            Found("ch_1", proposal.request.money, {}, proposal.key),
            first=Inconclusive("rate_limited", retry_after_ms=400),
        )
        inquirer = Inquirer(one.log, {"simulated": finder}, pool=pool)
        await one._start(inquirer.run, inquirer.ready)
        async with LedgerClient(one.log, PARTITIONS) as client:
            lose_answer(provider, proposal.key)
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            done = await settled(client, proposal.key, "completed")
        assert (done.proof, done.reference) == ("lookup", "ch_1")
        first_s, second_s = finder.asked_at_s
        assert second_s - first_s >= 0.4
        (question,) = await asked_by_ledger(one)
        (found,) = await evidence(one)
        assert (found.lookup, found.meaning) == (question.lookup, Meaning.EFFECT)
        await performer.close()


async def test_a_saved_position_is_where_the_next_begins(
    servers: Addresses, database_url: str
) -> None:
    """After a graceful stop the next inquirer reads nothing again and asks nothing again."""
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap, HASTY) as one:
        await one.processor()
        await one.executor()
        first = Inquirer(one.log, {}, pool=pool)
        await one._start(first.run, first.ready)
        async with LedgerClient(one.log, PARTITIONS) as client:
            for number in range(20):
                await client.propose(charge(f"renewal-{number}"), timeout_ms=PATIENCE_MS)
            for number in range(20):
                await settled(client, charge(f"renewal-{number}").key, "completed")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                saved = await pool.fetch("select * from actionledger.inquirer_positions")
                ends = {
                    part: len(await one.records(Topic.LEDGER, part)) for part in range(PARTITIONS)
                }
                if {row["partition"]: row["next_offset"] for row in saved} == ends:
                    break
                await asyncio.sleep(POLL_SECONDS)
        await one.stop()
        second = Inquirer(one.log, {}, pool=pool)
        await one._start(second.run, second.ready)
        begun = {part: step.position.next_offset for part, step in second._followed.items()}
        assert begun == ends
        assert {row["epoch"] for row in saved} == {1}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (RuntimeError("a fault of ours"), "finder_failed"),
        (Found("x" * (TEXT_CHARS_MAX + 1), None, {}, None), "unreportable_answer"),
    ],
)
async def test_a_finder_that_breaks_its_word_is_an_inconclusive_answer(
    servers: Addresses,
    database_url: str,
    provider: ProviderProcess,
    answer: Exception | Found,
    code: str,
) -> None:
    """An error in an adapter, or an answer that the log cannot hold, is told to the ledger as no
    answer; the inquirer goes on.
    """
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap, HASTY) as one:
        inquirer = Inquirer(one.log, {"simulated": Scripted(answer)}, pool=pool)
        async with answer_lost(one, provider, inquirer, charge("renewal-1")):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (found := await evidence(one)):
                    await asyncio.sleep(POLL_SECONDS)
        assert (found[0].meaning, found[0].code) == (Meaning.INCONCLUSIVE, code)


async def test_a_finder_is_asked_by_the_name_of_what_is_moving(
    servers: Addresses, database_url: str, provider: ProviderProcess
) -> None:
    """While an answer is lost a webhook tells of something that moves: the next question asks by
    its name as well. The answer to the second attempt is lost too, so there is one.
    """
    gate = asyncio.Event()
    finder = Scripted(Inconclusive("not_now"), gate)
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap, HASTY) as one:
        inquirer = Inquirer(one.log, {"simulated": finder}, pool=pool)
        proposal = charge("renewal-1")
        moving = Evidence(
            key=proposal.key,
            kind=EvidenceKind.WEBHOOK,
            source_id="webhook:simulated:main:evt_1",
            provider="simulated",
            account="main",
            meaning=Meaning.PENDING,
            reference="ch_moving",
        )
        placed = webhook_record(moving, Receipt("simulated", "main", 0, 0, "00" * 32), PARTITIONS)

        async def tell() -> None:
            while not finder.asked:
                await asyncio.sleep(POLL_SECONDS)
            await one.put(Topic.EVIDENCE, placed.partition, placed.record)
            while "ch_moving" not in str(await one.decisions()):
                await asyncio.sleep(POLL_SECONDS)
            lose_answer(provider, proposal.key)
            gate.set()

        # While the caller waits: the questions are over when it hears that nobody knows.
        telling = asyncio.create_task(tell())
        async with (
            answer_lost(one, provider, inquirer, proposal),
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            await telling
            while len(finder.asked) < 2:
                await asyncio.sleep(POLL_SECONDS)
        assert finder.references[:2] == [None, "ch_moving"]


async def test_a_finder_that_wants_to_know_is_told_when_the_effect_can_have_come_about(
    servers: Addresses, database_url: str, provider: ProviderProcess
) -> None:
    """By the attempts that the ledger's question is about and the horizon that is declared."""
    catalogue = parse_catalogue(HASTY)
    assert isinstance(catalogue, Catalogue)
    finder = Dated(Inconclusive("not_now"))
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap, HASTY) as one:
        inquirer = Inquirer(one.log, {"simulated": finder}, pool=pool, catalogue=catalogue)
        async with answer_lost(one, provider, inquirer, charge("renewal-1")):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not await evidence(one):
                    await asyncio.sleep(POLL_SECONDS)
        first, *_ = await asked_by_ledger(one)
        operation = catalogue.operation("charge", 1)
        assert operation is not None
        horizon_ms, skew_ms = operation.settle_horizon_ms, catalogue.timing.skew_ms
        assert finder.spans[0] == span_of(first, settle_horizon_ms=horizon_ms, skew_ms=skew_ms)


async def test_two_inquirers_share_the_partitions(servers: Addresses, database_url: str) -> None:
    """Every partition is followed by exactly one of them, also after one has left."""
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap) as one:
        log = KafkaLog(servers.kafka_bootstrap, prefix=one.log.prefix)
        both = [Inquirer(log, {}, pool=pool) for _ in range(2)]
        for inquirer in both:
            await one._start(inquirer.run, inquirer.ready)

        def followed() -> list[int]:
            return sorted(part for inquirer in both for part in inquirer._followed)

        async with asyncio.timeout(PATIENCE_SECONDS):
            while followed() != list(range(PARTITIONS)) or not all(one._followed for one in both):
                await asyncio.sleep(POLL_SECONDS)
            await one.stop(0)
            while sorted(both[1]._followed) != list(range(PARTITIONS)):
                await asyncio.sleep(POLL_SECONDS)


async def test_all_that_a_lookup_found_is_told_at_once(
    servers: Addresses,
    database_url: str,
    provider: ProviderProcess,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one append, which is there or not: a crash between two would leave the question answered
    and the second effect told by nobody.
    """
    appends: list[int] = []
    append = Inquirer._append

    async def counting(self: Inquirer, topic: str, partition: int, records: list[Any]) -> None:
        if topic == Topic.EVIDENCE:
            appends.append(len(records))
        await append(self, topic, partition, records)

    monkeypatch.setattr(Inquirer, "_append", counting)
    proposal = charge("renewal-1")
    twice = Found("ch_1", proposal.request.money, {}, proposal.key, ("ch_2",))
    async with migrated(database_url) as pool, installed(servers.kafka_bootstrap, HASTY) as one:
        inquirer = Inquirer(one.log, {"simulated": Scripted(twice)}, pool=pool)
        async with answer_lost(one, provider, inquirer, proposal) as client:
            await settled(client, proposal.key, "completed")
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(found := await evidence(one)) < 2:
                    await asyncio.sleep(POLL_SECONDS)
        assert [one.reference for one in found] == ["ch_1", "ch_2"]
        assert appends == [2]
