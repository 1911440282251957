"""People: they hear what is asked, look for a while, and sign; twice, late, against each other, and
sometimes what they may not. Somebody without scruples sends on what they signed, changed or for
something else.

What is signed is always about a request that the ledger made; nobody here knows whether it is still
alive. Bytes that were sent once may come again at any time.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ledger.core.facts import AnyFact, ApprovalEnded, ApprovalRequested, IntentRecorded
from ledger.core.ids import stream_key_of
from ledger.core.inputs import AskAgain, Judge
from ledger.core.records import Decision
from ledger.core.statement import Say, Signed, Statement
from ledger.core.wire import Wire
from ledger.log.envelope import outgoing
from ledger.log.fold import PartitionFold
from ledger.log.port import Appended, Outgoing
from ledger.log.topics import Topic, partition_of
from tests.simulation.catalogue import SKEW_MS
from tests.simulation.signatures import forge, sign
from tests.simulation.world import GENERATION, World

APPROVALS, INTENTS, LEDGER = Topic.APPROVALS.value, Topic.INTENTS.value, Topic.LEDGER.value
LOOKS_MS = 2_600
"""How long somebody looks before signing; some requests are over by then."""
OUTSIDERS = ("cleo", "dan", "eve", "zoe")
"""A manager before anybody turned to managers, one for another tenant, one who asks as the agent,
and one whom nobody registered.
"""
TRANSPLANTS: tuple[dict[str, Any], ...] = (
    {"request_hash": "sha256:of another payload"},
    {"preview_hash": "sha256:of another preview"},
    {"preview_hash": None},
    {"policy_hash": "sha256:of another table"},
    {"row": "another row"},
    {"tenant": "globex"},
    {"environment": "test"},
    {"ledger": "generation-0"},
    {"nonce": "of another time"},
)


@dataclass(slots=True)
class Deciders:
    """Everybody who may decide, and some who may not."""

    world: World
    really: bool
    """Whether signatures are real ones."""
    acknowledged: list[tuple[int, bytes]] = field(default_factory=list)
    _folds: list[PartitionFold] = field(default_factory=list)
    _intents: dict[str, IntentRecorded] = field(default_factory=dict)
    _asked: dict[str, list[ApprovalRequested]] = field(default_factory=dict)
    _sent: list[tuple[int, Outgoing]] = field(default_factory=list)
    _hears: set[int] = field(default_factory=set)
    _again: set[str] = field(default_factory=set)
    """Nonces of requests about which somebody will ask again, should they come to nothing."""
    _said: int = 0

    def begin(self) -> None:
        """Listen from now on."""
        self._folds = [PartitionFold(part) for part in range(self.world.partitions)]
        self.world.listen(LEDGER, self._heard)

    def _heard(self, partition: int) -> None:
        if partition not in self._hears:
            self._hears.add(partition)
            self.world.time.after(self.world.soon(60), lambda: self._read(partition))

    def _read(self, partition: int) -> None:
        self._hears.discard(partition)
        fold = self._folds[partition]
        for record in self.world.log.read(LEDGER, partition, fold.next_offset):
            read = fold.feed(record)
            if isinstance(read, Decision):
                for fact in read.facts:
                    self._learns(fact)

    def _learns(self, fact: AnyFact) -> None:
        match fact:
            case IntentRecorded():
                self._intents[fact.action] = fact
            case ApprovalRequested():
                self._asked.setdefault(fact.action, []).append(fact)
                self._are_asked(fact)
            case ApprovalEnded(reason="expired") if fact.nonce in self._again:
                self._asks_again(fact.action)
            case _:
                pass

    # What people do

    def _are_asked(self, asked: ApprovalRequested) -> None:
        """Two of finance look at it, each for themselves; a manager once managers may."""
        world, later = self.world, self.world.chance.randint
        if world.happens("asked_again"):
            self._again.add(asked.nonce)
        for name in ("ada", "ben"):
            if not world.happens("person_silent"):
                at_ms = later(40, LOOKS_MS)
                world.time.after(at_ms, partial(self._decides, name, asked))
        if asked.escalate_at is not None:
            at_ms = asked.escalate_at - world.time.now + later(1, LOOKS_MS)
            world.time.after(max(1, at_ms), partial(self._decides, "cleo", asked))
        for fault, does in (
            ("outsiders", self._outsider),
            ("forgeries", self._forges),
            ("transplants", self._transplants),
            ("transplants", self._transplants),
        ):
            if world.happens(fault):
                world.time.after(later(40, LOOKS_MS), partial(does, asked))

    def _decides(self, name: str, asked: ApprovalRequested) -> None:
        """Say yes or no; perhaps once more, and perhaps take it back."""
        world, later = self.world, self.world.chance.randint
        says = Say.DENY if world.happens("person_denies") else Say.APPROVE
        self._signs(name, asked, says)
        if world.happens("says_twice"):
            world.time.after(later(1, 900), partial(self._signs, name, asked, says))
        if world.happens("withdraws"):
            at_ms = later(1, 900)
            world.time.after(at_ms, partial(self._signs, name, asked, Say.WITHDRAW))
        if world.happens("copies") and self._sent:
            partition, record = world.chance.choice(self._sent)
            world.time.after(later(1, 4_000), partial(self._append, partition, record))

    def _signs(self, name: str, asked: ApprovalRequested, says: Say) -> None:
        statement = self._statement(name, asked, says)
        keys = (name, f"{name}'s second") if name == "ada" else (name,)
        self.send(asked.action, sign(statement, self._one(keys), really=self.really))

    def _one(self, names: tuple[str, ...]) -> str:
        return names[0] if len(names) == 1 else self.world.chance.choice(names)

    def _statement(
        self,
        name: str,
        asked: ApprovalRequested,
        says: Say,
        **changes: Any,  # noqa: ANN401 - fields of a model
    ) -> Statement:
        """What is signed about a request: exactly what it asks, but for changes."""
        intent, now = self._intents[asked.action], self.world.time.now
        fields: dict[str, Any] = {
            "ledger": GENERATION,
            "decision": says,
            "approver": name,
            "tenant": asked.action.split(":")[2],
            "environment": intent.request.environment,
            "key": asked.action,
            "request_hash": intent.request_hash,
            "preview_hash": asked.preview_hash,
            "policy_hash": asked.policy_hash,
            "row": asked.row,
            "nonce": asked.nonce,
            "issued_at": now,
            "expires_at": asked.expires_at,
        }
        return Statement.model_validate(fields | changes)

    # What they may not

    def _outsider(self, asked: ApprovalRequested) -> None:
        """Somebody signs who may not decide about this, or in another's name."""
        name = self.world.chance.choice(OUTSIDERS)
        approver = "ada" if self.world.chance.random() < 1 / 4 else name
        statement = self._statement(approver, asked, Say.APPROVE)
        self.send(asked.action, sign(statement, name, really=self.really))

    def _forges(self, asked: ApprovalRequested) -> None:
        """Somebody puts ben's name under what ben did not sign."""
        statement = self._statement("ben", asked, Say.APPROVE)
        self.send(asked.action, forge(statement, "ben", really=self.really))

    def _transplants(self, asked: ApprovalRequested) -> None:
        """Ben signed something else: another payload, preview, table, tenant, time, or action."""
        chance, now = self.world.chance, self.world.time.now
        others = [one for key, some in self._asked.items() for one in some if key != asked.action]
        earlier = [one for one in self._asked[asked.action] if one.nonce != asked.nonce]
        choices = [*TRANSPLANTS, {"expires_at": asked.expires_at + 1}]
        choices.append({"issued_at": now + 10 * SKEW_MS})
        choices += [{"nonce": one.nonce} for one in (*others[-1:], *earlier[-1:])]
        changes = chance.choice(choices)
        statement = self._statement("ben", asked, Say.APPROVE, **changes)
        if others and chance.random() < 1 / 4:
            statement = self._statement("ben", others[-1], Say.APPROVE)
        self.send(asked.action, sign(statement, "ben", really=self.really))

    # Sending

    def _asks_again(self, key: str) -> None:
        """What came to nothing is asked about once more, and sometimes twice."""
        world = self.world
        again = AskAgain(key=key, principal="agent:billing")
        for _ in range(1 + world.happens("repeats")):
            record = self._record(again, key)
            place = partition_of(stream_key_of(key), world.partitions)
            delay_ms = world.chance.randint(1, 1_500)
            world.time.after(delay_ms, partial(self._append, place, record, INTENTS))

    def send(self, key: str, signed: Signed) -> None:
        """Send what somebody signed about an action."""
        partition = partition_of(stream_key_of(key), self.world.partitions)
        record = self._record(Judge(key=key, signed=signed), key)
        self._sent.append((partition, record))
        self._append(partition, record)

    def _record(self, said: Wire, key: str) -> Outgoing:
        self._said += 1
        return outgoing(
            said,
            stream=stream_key_of(key),
            subject=key,
            event_id=f"person-{self._said}",
            source="/gateway",
        )

    def _append(self, partition: int, record: Outgoing, topic: str = APPROVALS) -> None:
        """Through a producer of its own; without an answer once more, as a page that is sent
        again.
        """
        world = self.world

        def done(appended: list[Appended] | None) -> None:
            if appended is None:
                again = partial(self._append, partition, record, topic)
                world.time.after(world.soon(500), again)
            elif topic == APPROVALS:
                self.acknowledged.append((partition, record.value))

        world.log.producer().send(topic, partition, [record], done)
