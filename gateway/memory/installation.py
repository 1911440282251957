"""One installation in memory: log, processes, provider and door, and what a test may do to it.

Guarantees that an agent which speaks to its door meets the product's own rules and answers. Must
never be used for effects that anyone wants: nothing outlives it. Called by `actionledger.testing`,
which looks for it by name.
"""

import random
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from fastapi import FastAPI
from pydantic import JsonValue

from gateway.http.app import create_app
from gateway.http.doors import Instance, doors_in
from gateway.http.limits import DECISION_MS_MAX, TIMELINE_ENTRIES_MAX
from gateway.keys import Caller, Role
from gateway.memory.clock import HandClock
from gateway.memory.doors import MemoryAppender, MemoryKeys, MemoryLedger
from gateway.memory.people import MemoryPeople
from gateway.memory.processes import PARTITION, PARTITIONS, Executor, Inquirer, Processor
from gateway.memory.provider import MemoryProvider
from gateway.memory.queries import MemoryQueries
from gateway.settings import Settings
from gateway.wiring.publishing import Kind, checked_document, default_catalogue
from ledger.core.catalogue import Catalogue, Mistake, parse_catalogue
from ledger.core.errors import LedgerError
from ledger.core.ids import ActionKey
from ledger.core.inputs import Publish
from ledger.core.money import Money
from ledger.core.statement import Say
from ledger.log.envelope import outgoing
from ledger.log.port import Record
from ledger.log.published import Published
from ledger.log.simulated import SimulatedLog
from ledger.log.topics import INBOXES, Topic
from reconciler.evidence import Receipt, webhook_evidence, webhook_record
from reconciler.matching import Matched, match_webhook
from reconciler.providers import port
from reconciler.providers.port import MappedWebhook
from reconciler.providers.simulated.adapter import SimulatedFinder, SimulatedPerformer
from reconciler.providers.simulated.api import API_KEY_PREFIX
from reconciler.providers.simulated.faults import Personality, Script
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.providers.simulated.previewer import SimulatedPreviewer

BEGIN_AT: Final = 1_800_000_000_000
ADDRESS: Final = "http://ledger.memory"
_PROVIDER: Final = "simulated"
PEOPLE: Final[Mapping[str, Sequence[str]]] = MappingProxyType({"ada": (), "ben": ()})
"""Who decides where a test names nobody."""


@lru_cache(maxsize=16)
def _parsed(text: str) -> Catalogue | tuple[Mistake, ...]:
    """Every test of a file reads the same text, and each reading takes a good part of its time."""
    return parse_catalogue(text)


class InvalidCatalogueError(LedgerError):
    """The catalogue given for the installation has mistakes."""


class Installation:
    """Use it within `open_installation`, in one event loop."""

    def __init__(
        self,
        catalogue_text: str,
        folder: Path,
        seed: int,
        policy_text: str | None = None,
        people: Mapping[str, Sequence[str]] = PEOPLE,
    ) -> None:
        catalogue = _parsed(catalogue_text)
        if not isinstance(catalogue, Catalogue):
            raise InvalidCatalogueError(
                f"The catalogue has mistakes: {'; '.join(map(str, catalogue)).removesuffix('.')}.",
                hint="Correct the lines named.",
            )
        self._catalogue = catalogue
        self._clock = HandClock(BEGIN_AT)
        chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._log = SimulatedLog(
            self._clock.time, chance, partitions=PARTITIONS, generation="memory"
        )
        self._keys = MemoryKeys()
        self._queries = MemoryQueries()
        self._ledger = MemoryLedger(self._log, self._clock)
        self._provider = MemoryProvider(self._clock, folder, seed=seed)
        self._provider.tell = self._hear
        operations = tuple(sorted({one.name for one in catalogue.operations}))
        self._executor = Executor(self._log, self._clock, operations)
        self._processor = Processor(
            self._log, self._clock, landed=self._landed, before_round=self._executor.offer
        )
        timing = catalogue.timing
        self._inquirer = Inquirer(self._log, self._clock, answer_ms=timing.lookup_answer_ms)
        self._published = Published()
        self._people = MemoryPeople(people, chance)
        if policy_text is not None:
            self._publish("policy", policy_text)
        # Also without a table: a changed request is a person's, whatever goes ahead by itself.
        self._publish("people", self._people.document)
        self._publish("catalogue", catalogue_text)
        self._wire()
        self.app = self._door()

    def _publish(self, kind: Kind, text: str) -> None:
        content_hash = checked_document(kind, text).content_hash
        record = outgoing(
            Publish(kind=kind, content=text, content_hash=content_hash, checked=True),
            stream=kind,
            subject=None,
            event_id=content_hash,
            source="/actionledger/memory",
        )
        (appended,) = self._log.append(Topic.CONFIG.value, PARTITION, [record])
        (kept,) = self._log.read(Topic.CONFIG.value, PARTITION, appended.offset)
        self._published.feed(kept)

    def _wire(self) -> None:
        accounts = {one.account for one in self._catalogue.operations}
        keys = {account: API_KEY_PREFIX + account for account in accounts}
        self._executor.performer = SimulatedPerformer(ADDRESS, keys, http=self._provider)
        self._inquirer.finder = SimulatedFinder(ADDRESS, keys, http=self._provider)
        previewer = SimulatedPreviewer(ADDRESS, keys, http=self._provider)
        self._inquirer.previewer = self._executor.previewer = previewer
        self._processor.begin()
        inboxes = {topic.value for topic in INBOXES if topic is not Topic.INTERNAL}

        def landed(topic: str, _partition: int) -> None:
            if topic in inboxes:
                self._processor.wake()

        self._log.landed = landed

    def _landed(self, record: Record) -> None:
        read = self._ledger.feed(record)
        if read is not None:
            self._queries.feed(read)
        self._executor.feed(record)
        self._inquirer.feed(record)

    def _door(self) -> FastAPI:
        app = create_app(
            self._ledger,
            self._queries,
            MemoryAppender(self._log),
            self._keys,
            Settings.from_environment({}),
            Instance(self._log.generation, lambda: self._published),
        )
        doors = doors_in(app)
        doors.monotonic_s = lambda: self._clock.now / 1_000
        doors.wall_clock_ms = lambda: self._clock.now
        return app

    # For tests

    @property
    def address(self) -> str:
        """What a client is told to speak to."""
        return ADDRESS

    @property
    def now_ms(self) -> int:
        """The time, in milliseconds since the epoch."""
        return self._clock.now

    def api_key(self, tenant: str, principal: str) -> str:
        """A key for an agent."""
        return self._keys.add(Caller("0" * 16, tenant, principal, Role.AGENT))

    async def decide(
        self, key: str, decision: str, *, by: str, comment: str | None = None
    ) -> str | None:
        """A person says `approve`, `deny` or `withdraw`: None where it counts, else the code of the
        refusal. Raises ValueError where nobody is asked, and for who is nobody.
        """
        action = await self._queries.recorded(ActionKey.parse(key).tenant, key)
        if action is None:
            raise ValueError(f"there is no action {key}")
        given = self._people.signed(
            action,
            Say(decision),
            by=by,
            comment=comment,
            ledger=self._log.generation,
            now_ms=self._clock.now,
        )
        answer = await self._ledger.judge(given, timeout_ms=DECISION_MS_MAX)
        refused = answer.decision.refused
        return None if refused is None else refused.code.value

    async def advance(self, delay_ms: int) -> None:
        """Let this much time pass, and everything happen that is due in it."""
        await self._clock.until(lambda: False, self._clock.now + delay_ms)

    def script(self, script: Mapping[str, JsonValue]) -> None:
        """Play a fault, as the simulated provider's control API takes it. Raises ValueError, also
        for an operation that the catalogue does not have: no request would ever fit.
        """
        read = Script.model_validate(script)
        operation = read.match.operation
        if operation is not None and all(
            one.name != operation for one in self._catalogue.operations
        ):
            raise ValueError(f"the catalogue has no operation {operation!r}")
        self._provider.script(read)

    def behave(self, personality: Mapping[str, JsonValue]) -> None:
        """How the provider behaves where nothing is scripted. Raises ValueError."""
        self._provider.personality = Personality.model_validate(personality)

    def send_webhooks(self, after_ms: int | None) -> None:
        """Tell of every effect and refusal this much later, or of none."""
        self._provider.webhooks_after_ms = after_ms

    def effects(self) -> list[dict[str, Any]]:
        """Everything that the provider made, in its order, whatever it answered."""
        accounts = sorted({one.account for one in self._catalogue.operations})
        found = [effect for account in accounts for effect in self._provider.effects(account)]
        found.sort(key=lambda effect: effect.committed_at)
        return [effect.model_dump(mode="json", exclude_none=True) for effect in found]

    async def timeline(self, key: str) -> list[dict[str, Any]]:
        """Every fact of an action, in order."""
        events = await self._queries.timeline(
            ActionKey.parse(key).tenant, key, limit=TIMELINE_ENTRIES_MAX
        )
        return [{"type": one.type, "at": one.decided_at, **one.data} for one in events]

    async def call_provider(
        self, operation: str, *, key: str, action_key: str, minor: int | None, currency: str | None
    ) -> tuple[str, str]:
        """Have an effect at the provider as an agent's own tool would: its kind (`succeeded`,
        `refused`, `refused_for_now`, `not_sent`, `unresolved`) and the reference or the code.
        Raises ValueError for an operation that the catalogue does not have.
        """
        money = None if minor is None else Money(minor=minor, currency=currency or "")
        performer = self._executor.performer
        assert performer is not None  # noqa: S101 - wired when it was built
        operations = self._catalogue.operations
        declared = next((one for one in operations if one.name == operation), None)
        if declared is None:
            raise ValueError(f"the catalogue has no operation {operation!r}")
        request = port.ProviderRequest(
            action_key=action_key,
            operation=operation,
            version=declared.version,
            target=None,
            params={},
            money=money,
            account=declared.account,
            request_hash="",
        )
        times = declared.deadlines
        outcome = await self._clock.run(
            performer.perform(
                request,
                provider_key=key,
                deadlines=port.Deadlines(times.connect_ms, times.response_ms),
                before_first_byte=lambda: None,
            )
        )
        match outcome:
            case port.Succeeded(reference):
                return "succeeded", reference
            case port.Partial(reference):
                return "partly_succeeded", reference
            case port.Refused(code, retry):
                return "refused" if retry is port.Retry.NEVER else "refused_for_now", code
            case port.NotSent(code):
                return "not_sent", code
            case port.Unresolved(code):
                return "unresolved", code

    def _hear(self, raw: bytes) -> None:
        """A webhook: verified elsewhere, mapped and matched as the reconciler does."""
        mapped = SimulatedMapping().map(raw)
        if not isinstance(mapped, MappedWebhook):
            return
        account = mapped.account or ""
        matched = match_webhook(mapped, account=account, known=())
        if isinstance(matched, Matched):
            receipt = Receipt(_PROVIDER, account, PARTITION, 0, sha256(raw).hexdigest())
            placed = webhook_record(webhook_evidence(matched, mapped, receipt), receipt, PARTITIONS)
            self._log.append(Topic.EVIDENCE.value, placed.partition, [placed.record])

    async def close(self) -> None:
        """End everything that still runs."""
        await self._clock.close()
        await self._provider.close()


@asynccontextmanager
async def open_installation(
    catalogue: str | None = None,
    *,
    seed: int = 0,
    policy: str | None = None,
    people: Mapping[str, Sequence[str]] = PEOPLE,
) -> AsyncIterator[Installation]:
    """An installation with this catalogue, by default the shipped one. Without a policy every
    declared operation goes ahead; with one these people, by the groups they are in, decide. Raises
    InvalidCatalogueError, DocumentRefusedError.
    """
    with tempfile.TemporaryDirectory(prefix="actionledger-memory-") as folder:
        text = default_catalogue() if catalogue is None else catalogue
        installation = Installation(text, Path(folder), seed, policy, people)
        try:
            yield installation
        finally:
            await installation.close()
