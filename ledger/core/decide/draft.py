"""A decision in the making: every rule sees the state that the facts before it lead to.

A fact that no rule looks behind is not folded here, as the last one never is: the owner folds what
its bytes say, and refuses to write a decision that cannot be folded.
"""

from dataclasses import dataclass

from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.evolve import Place, evolve_all
from ledger.core.facts import ActionBlocked, AnyFact, IntentRecorded, PolicyDecided
from ledger.core.gates import AnyGateFact, Gate, evolve_gate
from ledger.core.inputs import Message
from ledger.core.invariants import invariant
from ledger.core.offers import Offer
from ledger.core.rejections import Refused, Rejection, Unchanged
from ledger.core.state import Action, Stream


@dataclass(frozen=True, slots=True)
class Decided:
    """What came of one input: facts, about actions or about a gate; or one answer that changes
    nothing. `offer_spent` tells the owner to count the slot. `messages` are sent once the decision
    stands in the log: what they say follows from state, so those that are lost are sent again.
    """

    facts: tuple[AnyFact, ...] = ()
    gate: tuple[AnyGateFact, ...] = ()
    messages: tuple[Message, ...] = ()
    refused: Refused | None = None
    unchanged: Unchanged | None = None
    offer_spent: Offer | None = None


def ties(fact: AnyFact) -> bool:
    """Whether a fact has its action pass gates, or ties it to another one."""
    match fact:
        case IntentRecorded():
            return bool(fact.revises or fact.compensates or fact.saga)
        case PolicyDecided():
            return fact.gates is not None
        case ActionBlocked():
            return True
        case _:
            return False


@dataclass(slots=True)
class Draft:
    """The stream as it would be, the facts so far, and what the decision may look at."""

    _stream: Stream
    config: Config
    place: Place
    offer: Offer | None = None
    offer_spent: Offer | None = None
    facts: tuple[AnyFact, ...] = ()
    gate_facts: tuple[AnyGateFact, ...] = ()
    messages: tuple[Message, ...] = ()
    _folded: int = 0

    @property
    def stream(self) -> Stream:
        """The stream after the facts so far; an illegal one is a broken invariant."""
        if self._folded < len(self.facts):
            self._stream = evolve_all(self._stream, self.facts[self._folded :], self.place)
            self._folded = len(self.facts)
        return self._stream

    def has_ruled(self, key: str) -> bool:
        """Whether this decision rules about the action: nothing was adopted since."""
        return any(isinstance(fact, PolicyDecided) and fact.action == key for fact in self.facts)

    @property
    def is_of_its_own(self) -> bool:
        """Whether no action of the stream has to do with a gate or with another one, so that
        nothing follows elsewhere; told without folding the last fact, which is seldom needed.
        """
        return all(one.is_of_its_own for one in self._stream.actions) and not any(
            ties(fact) for fact in self.facts[self._folded :]
        )

    @property
    def now(self) -> int:
        """Log time of this decision."""
        return self.place.decided_at

    def action(self, key: str) -> Action:
        """The action as it would be now; it must be there."""
        action = self.stream.action(key)
        invariant(action is not None, "a rule names an action that is not there")
        assert action is not None  # noqa: S101 - for the type checker; the line above survives -O
        return action

    def operation(self, action: Action) -> Operation | None:
        """The declaration of the action's operation in the catalogue in force."""
        return self.config.operation(action.request.operation, action.request.version)

    def version(self, key: str) -> int:
        """The version that the action's next fact bears."""
        # Every fact is one version, so those that no rule has looked behind need not be folded.
        version = 1 + [fact.action for fact in self.facts[self._folded :]].count(key)
        action = self._stream.action(key)
        return version if action is None else action.version + version

    def add(self, fact: AnyFact) -> None:
        """The next fact of the decision."""
        self.facts = (*self.facts, fact)

    @property
    def gate(self) -> Gate | None:
        """The gate of the stream after the facts about it so far."""
        return self._stream.gate

    def add_to_gate(self, fact: AnyGateFact) -> None:
        """The next fact about the gate, folded at once."""
        self.gate_facts = (*self.gate_facts, fact)
        stream = self._stream
        gate = evolve_gate(stream.gate, fact, self.now)
        self._stream = Stream(stream.key, stream.actions, gate)

    def send(self, message: Message) -> None:
        """Say something to a gate, or to an action, once the decision stands."""
        self.messages = (*self.messages, message)

    def decided(self, *, unchanged: str = "nothing_due") -> Decided:
        """The facts; or, when there are none, the answer that there was nothing to do."""
        if not self.facts and not self.gate_facts:
            return Decided(unchanged=Unchanged(reason=unchanged), messages=self.messages)
        return Decided(
            facts=self.facts,
            gate=self.gate_facts,
            offer_spent=self.offer_spent,
            messages=self.messages,
        )


def replayed(action: Action, reason: str) -> Decided:
    """The answer to an input that is in order and accounted for: the action as it stands."""
    return Decided(
        unchanged=Unchanged(
            reason=reason,
            action=action.key,
            status=action.status,
            reference=action.reference,
            action_version=action.version,
        )
    )


def refused_by(code: Rejection, action: Action | None = None) -> Decided:
    """The answer to an input that may not be, by its name."""
    return Decided(refused=Refused(code=code, action=None if action is None else action.key))
