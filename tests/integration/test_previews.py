"""A dry run that the provider completes, signed by a person, on real Kafka with a real provider:
what was shown has to hold when it is acted on.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from ledger.client.client import LedgerClient
from ledger.core import facts as f
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.facts import AnyFact, ApprovalEnded, ApprovalRequested, PreviewRecorded
from ledger.core.ids import stream_key_of
from ledger.core.inputs import Judge, Publish
from ledger.core.people import people_hash
from ledger.core.policy import policy_hash
from ledger.core.preview import Change
from ledger.core.statement import Say, Statement
from ledger.core.wire import Wire
from ledger.log.admin import read_genesis
from ledger.log.envelope import outgoing
from ledger.log.topics import Topic, partition_of
from reconciler.providers.registry import ProviderSettings, finders, performers, previewers
from reconciler.providers.simulated.api import API_KEY_PREFIX
from streams.executor import Executor
from streams.inquirer import Inquirer
from tests.approving import key_of, people_text, policy_text, signed_by
from tests.contract.stage import ProviderProcess
from tests.examples import CATALOGUE_TEXT, propose
from tests.integration.faust_kit import POLL_SECONDS
from tests.integration.installation import PARTITIONS, Installation, installed, settled
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

KEY = "charge:v1:acme:refund-1"
TOLERANCE = 20_000
CATALOGUE = CATALOGUE_TEXT.replace(
    'name = "charge"\nversion = 1\n',
    'name = "charge"\nversion = 1\npreview = "provider"\nvolatile = ["rate_micros"]\n'
    f"tolerances = {{ rate_micros = {TOLERANCE} }}\n",
)
TABLE = policy_text('groups = ["finance"]')
_Fact = TypeVar("_Fact", bound=AnyFact)


@pytest.fixture
def provider(tmp_path: Path) -> Iterator[ProviderProcess]:
    """Run the simulated provider in a process of its own."""
    process = ProviderProcess(tmp_path)
    process.start()
    yield process
    process.stop()


@dataclass
class Office:
    """An installation in which charges are previewed by the provider and need one person."""

    one: Installation
    provider: ProviderProcess
    client: LedgerClient
    generation: str
    opened: contextlib.AsyncExitStack

    def rate(self, micros: int, balance_minor: int = 1_000_000) -> None:
        """What the provider observes from now on."""
        observed = {"rate_micros": micros, "balance_minor": balance_minor}
        self.provider.control("observed", {"match": {}, "observed": observed})

    async def facts(self, kind: type[_Fact]) -> list[_Fact]:
        """Every fact of a kind in the ledger, in its order."""
        return [
            fact
            for decision in await self.one.decisions()
            for fact in decision.facts
            if isinstance(fact, kind)
        ]

    async def nth(self, kind: type[_Fact], count: int) -> _Fact:
        """Wait until there are so many facts of a kind; the newest."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found := await self.facts(kind)) < count:
                await asyncio.sleep(POLL_SECONDS)
        return found[count - 1]

    async def put(self, topic: Topic, given: Wire, event_id: str) -> None:
        """Write an input about the action."""
        stream = stream_key_of(KEY)
        record = outgoing(given, stream=stream, subject=KEY, event_id=event_id, source="/test")
        await self.one.put(topic, partition_of(stream, PARTITIONS), record)

    async def approve(self, asked: ApprovalRequested, name: str = "ann") -> None:
        """A person signs what they were shown."""
        (intent, *_) = await self.facts(f.IntentRecorded)
        said = Statement(
            ledger=self.generation,
            decision=Say.APPROVE,
            approver=name,
            tenant="acme",
            environment=intent.request.environment,
            key=KEY,
            request_hash=intent.request_hash,
            preview_hash=asked.preview_hash,
            policy_hash=asked.policy_hash,
            row=asked.row,
            nonce=asked.nonce,
            issued_at=asked.expires_at - 600_000,
            expires_at=asked.expires_at,
        )
        judge = Judge(key=KEY, signed=signed_by(name, said))
        await self.put(Topic.APPROVALS, judge, f"{key_of(name).id}.{asked.nonce}")

    async def executor(self) -> Executor:
        """Start a new incarnation; one that gave a start back is not asked again."""
        settings = [_settings(self.provider)]
        acting, looking = performers(settings), previewers(settings)
        for client in (acting["simulated"], looking["simulated"]):
            self.opened.push_async_callback(client.close)
        executor = Executor(self.one.log, PARTITIONS, acting, previewers=looking)
        await self.one._start(executor.run, executor.ready)
        return executor

    def effects(self) -> list[object]:
        """What the provider's book says was made."""
        return [line["effect_id"] for line in self.provider.lines() if line["effect_id"]]


def _settings(provider: ProviderProcess) -> ProviderSettings:
    keys = {"main": API_KEY_PREFIX + "main"}
    return ProviderSettings("simulated", "simulated", provider.url, keys)


async def _publish(one: Installation, kind: str, content: str, digest: str) -> None:
    published = Publish.model_validate({"kind": kind, "content": content, "content_hash": digest})
    event_id = f"{kind}.{digest}"
    record = outgoing(published, stream=kind, subject=None, event_id=event_id, source="/test")
    await one.put(Topic.CONFIG, 0, record)


@contextlib.asynccontextmanager
async def office(servers: Addresses, provider: ProviderProcess) -> AsyncIterator[Office]:
    """Everything but the executor runs."""
    async with (
        contextlib.AsyncExitStack() as opened,
        installed(servers.kafka_bootstrap, CATALOGUE) as one,
    ):
        await _publish(one, "policy", TABLE, policy_hash(TABLE))
        await _publish(one, "people", people_text(), people_hash(people_text()))
        genesis = await read_genesis(one.log, Topic.LEDGER, 0)
        settings = [_settings(provider)]
        await one.processor()
        finding, looking = finders(settings), previewers(settings)
        opened.push_async_callback(finding["simulated"].close)
        opened.push_async_callback(looking["simulated"].close)
        inquirer = Inquirer(one.log, finding, previewers=looking)
        await one._start(inquirer.run, inquirer.ready)
        async with LedgerClient(one.log, PARTITIONS) as client:
            yield Office(one, provider, client, genesis.generation, opened)


async def test_what_people_sign_is_what_the_provider_foresaw(
    servers: Addresses, provider: ProviderProcess
) -> None:
    """The preview has the provider's words and facts; what moves within its tolerance is no news,
    and the effect is made once.
    """
    async with office(servers, provider) as at:
        at.rate(1_085_000)
        await at.executor()
        await at.client.propose(propose(KEY), timeout_ms=PATIENCE_MS)
        asked = await at.nth(ApprovalRequested, 1)
        (shown,) = await at.facts(PreviewRecorded)
        foreseen = shown.content.foreseen
        assert foreseen is not None
        assert foreseen.effect is not None
        assert foreseen.observed["rate_micros"] == 1_085_000
        assert shown.preview_hash == asked.preview_hash
        assert provider.lines() == []
        at.rate(1_085_000 + TOLERANCE)
        await at.approve(asked)
        await settled(at.client, KEY, "completed")
        assert len(at.effects()) == 1
        assert await at.facts(ApprovalEnded) == []


async def test_what_moved_beyond_its_tolerance_ends_the_approval_and_asks_anew(
    servers: Addresses, provider: ProviderProcess
) -> None:
    """The log has both values; a new preview is shown, and only a new signature lets it go on."""
    async with office(servers, provider) as at:
        at.rate(1_085_000)
        await at.executor()
        await at.client.propose(propose(KEY), timeout_ms=PATIENCE_MS)
        first = await at.nth(ApprovalRequested, 1)
        at.rate(1_085_000 + TOLERANCE + 1)
        await at.approve(first)
        ended = await at.nth(ApprovalEnded, 1)
        assert (ended.reason, ended.nonce) == ("volatile_changed", first.nonce)
        assert ended.changes == (Change(name="rate_micros", was="1085000", now="1105001"),)
        second = await at.nth(ApprovalRequested, 2)
        shown = (await at.facts(PreviewRecorded))[-1]
        foreseen = shown.content.foreseen
        assert foreseen is not None
        assert foreseen.observed["rate_micros"] == 1_105_001
        assert second.nonce != first.nonce
        assert second.preview_hash == shown.preview_hash != first.preview_hash
        assert at.effects() == []
        await at.approve(second)
        await at.executor()
        await settled(at.client, KEY, "completed")
        assert len(at.effects()) == 1
        declined = await at.facts(f.AttemptDeclined)
        assert [one.code for one in declined] == ["volatile_changed"]


async def test_a_fact_without_a_tolerance_may_not_move_at_all(
    servers: Addresses, provider: ProviderProcess
) -> None:
    """The balance that people saw is one unit smaller: it is no longer what they agreed to."""
    async with office(servers, provider) as at:
        at.rate(1_000_000)
        await at.executor()
        await at.client.propose(propose(KEY), timeout_ms=PATIENCE_MS)
        asked = await at.nth(ApprovalRequested, 1)
        at.rate(1_000_000, balance_minor=999_999)
        await at.approve(asked)
        ended = await at.nth(ApprovalEnded, 1)
        assert ended.changes == (Change(name="balance_minor", was="1000000", now="999999"),)
        assert at.effects() == []


@pytest.mark.parametrize(
    ("fault", "code"),
    [("down", "previews_unavailable"), ("drop", "connection_lost"), ("garbage", "answer_invalid")],
)
async def test_what_cannot_be_read_again_is_not_acted_on(
    servers: Addresses, provider: ProviderProcess, fault: str, code: str
) -> None:
    """Trouble with the second look is no consent; the approval stands, and the next try may go."""
    async with office(servers, provider) as at:
        await at.executor()
        await at.client.propose(propose(KEY), timeout_ms=PATIENCE_MS)
        asked = await at.nth(ApprovalRequested, 1)
        script = {"fault": {"kind": fault}}
        provider.control("previews", {"scripts": [script]})
        await at.approve(asked)
        declined = await at.nth(f.AttemptDeclined, 1)
        assert declined.code == f"recheck_failed:{code}"
        assert at.effects() == []
        await at.executor()
        await settled(at.client, KEY, "completed")
        assert len(at.effects()) == 1
        assert await at.facts(ApprovalEnded) == []


async def test_a_preview_that_fails_is_told_and_asks_nobody(
    servers: Addresses, provider: ProviderProcess
) -> None:
    """People are never asked about something that the provider did not say."""
    async with office(servers, provider) as at:
        provider.control("previews", {"scripts": [{"fault": {"kind": "refuse"}}]})
        await at.client.propose(propose(KEY), timeout_ms=PATIENCE_MS)
        failed = await at.nth(f.PreviewFailed, 1)
        assert failed.code == "nothing_to_refund"
        assert await at.facts(ApprovalRequested) == []
        assert provider.lines() == []


async def test_an_operation_whose_provider_foresees_nothing_is_not_carried_out(
    servers: Addresses, provider: ProviderProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a previewer the executor offers nothing for it and the inquirer says so, by name."""
    async with installed(servers.kafka_bootstrap, CATALOGUE) as one:
        await _publish(one, "policy", TABLE, policy_hash(TABLE))
        await one.processor()
        inquirer = Inquirer(one.log, {})
        await one._start(inquirer.run, inquirer.ready)
        executor = await one.executor()
        assert "charge" not in executor._assignments.operations
        assert "payout" in executor._assignments.operations
        told = [line for line in caplog.records if line.msg == "preview_not_offered"]
        assert [vars(line)["operation"] for line in told] == ["charge"]
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(propose(KEY), timeout_ms=PATIENCE_MS)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (codes := [fact.code for fact in await _failed(one)]):
                    await asyncio.sleep(POLL_SECONDS)
    assert codes == ["preview_not_offered"]


async def test_a_preview_without_a_volatile_fact_is_none(
    servers: Addresses, provider: ProviderProcess
) -> None:
    """Where the catalogue names a fact that the provider does not observe, nobody is asked to rely
    on it.
    """
    text = CATALOGUE.replace('volatile = ["rate_micros"]', 'volatile = ["rate_micros", "stock"]')
    parsed = parse_catalogue(text)
    assert isinstance(parsed, Catalogue)
    async with contextlib.AsyncExitStack() as opened:
        one = await opened.enter_async_context(installed(servers.kafka_bootstrap, text))
        await _publish(one, "policy", TABLE, policy_hash(TABLE))
        await one.processor()
        looking = previewers([_settings(provider)])
        opened.push_async_callback(looking["simulated"].close)
        inquirer = Inquirer(one.log, {}, previewers=looking, catalogue=parsed)
        await one._start(inquirer.run, inquirer.ready)
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(propose(KEY), timeout_ms=PATIENCE_MS)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (codes := [fact.code for fact in await _failed(one)]):
                    await asyncio.sleep(POLL_SECONDS)
        assert codes == ["volatile_missing"]


async def _failed(one: Installation) -> list[f.PreviewFailed]:
    return [
        fact
        for decision in await one.decisions()
        for fact in decision.facts
        if isinstance(fact, f.PreviewFailed)
    ]
