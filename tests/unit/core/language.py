"""The words in which the core's tests are written: given facts, when an input, then facts.

    given(recorded(), automatic(), after(2_000, started())).when(report(success()), at=3_000)
        .then(succeeded(), completed())

Facts carry no versions in a test: they are numbered here, and so a gap or a repeat in what the core
decides shows as a difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide import Decided, decide
from ledger.core.evolve import Place, evolve
from ledger.core.facts import AnyFact
from ledger.core.invariants import BrokenInvariantError
from ledger.core.offers import Offer
from ledger.core.rejections import Rejection
from ledger.core.state import Action, Stream
from tests.examples import CHARGE, CONFIG, STREAM, T0


@dataclass(frozen=True)
class After:
    """Facts of one decision, made `at` after T0."""

    at: int
    facts: tuple[AnyFact, ...]


def after(at: int, *facts: AnyFact) -> After:
    """Facts that were decided `at`."""
    return After(at, facts)


def numbered(stream: Stream, facts: Sequence[AnyFact]) -> list[AnyFact]:
    """The facts with the versions that follow from the stream."""
    versions = {action.key: action.version for action in stream.actions}
    result: list[AnyFact] = []
    for fact in facts:
        versions[fact.action] = versions.get(fact.action, 0) + 1
        result.append(fact.model_copy(update={"version": versions[fact.action]}))
    return result


@dataclass(frozen=True)
class Given:
    """A stream as it is known, and the configuration in force."""

    stream: Stream
    config: Config = CONFIG
    offset: int = 0

    def under(self, config: Config) -> "Given":
        """The same under another configuration."""
        return Given(self.stream, config, self.offset)

    def and_then(self, *history: AnyFact | After) -> "Given":
        """The same after more facts."""
        stream, offset = self.stream, self.offset
        for entry in history:
            made = entry if isinstance(entry, After) else After(0, (entry,))
            for fact in numbered(stream, made.facts):
                stream = evolve(stream, fact, Place(offset, T0 + made.at))
        return Given(stream, self.config, offset + bool(history))

    def action(self, key: str = CHARGE) -> Action:
        """The action as it stands."""
        action = self.stream.action(key)
        assert action is not None
        return action

    def when(self, given: i.Decidable, *, at: int = 0, offer: Offer | None = None) -> "Then":
        """Decide an input `at`, with an executor's capacity at hand or without."""
        place = Place(self.offset, T0 + at)
        return Then(self, decide(self.stream, self.config, given, place, offer), at)

    def when_broken(self, given: i.Decidable, *, at: int = 0, offer: Offer | None = None) -> None:
        """The input meets a fault of ours."""
        with pytest.raises(BrokenInvariantError):
            self.when(given, at=at, offer=offer)


@dataclass(frozen=True)
class Then:
    """What was decided."""

    before: Given
    decided: Decided
    at: int

    def then(self, *facts: AnyFact) -> Given:
        """Exactly these facts; the stream after them."""
        assert self.decided.refused is None
        assert self.decided.unchanged is None
        assert list(self.decided.facts) == numbered(self.before.stream, facts)
        return self.before.and_then(After(self.at, facts))

    def then_rejected(self, code: Rejection, *, action: str | None = None) -> None:
        """Refused by this name, and nothing else."""
        assert self.decided.facts == ()
        assert self.decided.refused is not None
        assert self.decided.refused.code is code
        if action is not None:
            assert self.decided.refused.action == action

    def then_unchanged(self, reason: str) -> None:
        """In order, and nothing to do; the answer says how the action stands."""
        assert self.decided.facts == ()
        assert self.decided.refused is None
        answer = self.decided.unchanged
        assert answer is not None
        assert answer.reason == reason
        if answer.action is not None:
            action = self.before.action(answer.action)
            assert (answer.status, answer.reference) == (action.status, action.reference)
            assert answer.action_version == action.version


def given(*history: AnyFact | After) -> Given:
    """A stream with this history, every fact decided at T0 unless `after` says otherwise."""
    return Given(Stream(STREAM)).and_then(*history)


class Story:
    """A stream that hears one input after the other, for cases told over many steps."""

    def __init__(self, config: Config = CONFIG) -> None:
        """Begin with nothing known."""
        self.known = Given(Stream(STREAM), config)
        self.facts: list[AnyFact] = []

    def hears(self, said: i.Decidable, *, at: int = 0, offer: Offer | None = None) -> Then:
        """Decide an input `at` and go on from what it led to."""
        then = self.known.when(said, at=at, offer=offer)
        self.known = self.known.and_then(After(at, then.decided.facts))
        self.facts += then.decided.facts
        return then

    def action(self, key: str = CHARGE) -> Action:
        """The action as it stands."""
        return self.known.action(key)

    def count(self, fact_type: str, key: str = CHARGE) -> int:
        """How many facts of a type an action has."""
        return sum(fact.type == fact_type and fact.action == key for fact in self.facts)

    def after(self, *said: i.Decidable) -> Given:
        """The stream once it has heard all of this."""
        for one in said:
            self.hears(one)
        return self.known
