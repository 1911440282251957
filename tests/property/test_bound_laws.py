"""Every unknown outcome ends within its declared bound: completed, failed, or with a person.

In log time, over everything that a provider, its executors and the inquirer can do or leave undone:
answers that prove nothing, answers that never come, holders that say nothing, capacity that is not
there. Waiting alone never makes an action failed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given as law
from hypothesis import strategies as st

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide import decide
from ledger.core.decide.questions import bound_of
from ledger.core.decide.schedule import due_at, key_window_closes_at, may_take_offer
from ledger.core.evolve import Place
from ledger.core.facts import AttemptStarted
from ledger.core.ids import ActionKey
from ledger.core.state import Action, AttemptStatus, Status, Stream
from tests import examples as x
from tests.unit.core.language import After, Given

KEYS = (x.CHARGE, x.NOTE, x.TICKET, x.EMAIL)
STEPS_MAX = 400
SETTLED = {Status.COMPLETED, Status.FAILED, Status.NEEDS_REVIEW}


@dataclass
class World:
    """One action, driven from one moment at which something is due to the next."""

    draw: Callable[..., Any]
    key: str
    config: Config = x.CONFIG
    now: int = x.T0
    known: Given = field(init=False)
    starts: list[AttemptStarted] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Ask for it, with capacity at hand."""
        self.known = Given(Stream(ActionKey.parse(self.key).stream_key), self.config)
        self.hears(x.propose(self.key), acts=True)
        self.hears(x.report(x.no_answer(), key=self.key, holder=self.starts[0].holder))

    @property
    def action(self) -> Action:
        """The action as it stands."""
        return self.known.action(self.key)

    def hears(self, said: i.Decidable, *, acts: bool = False) -> None:
        """Decide an input now."""
        offer = None
        if acts:
            name = f"executor-{len(self.starts)}"
            at = self.now - x.T0
            offer = x.offer(at=at, until=at + 9, key=self.key, incarnation=name)
        place = Place(self.known.offset, self.now)
        decided = decide(self.known.stream, self.config, said, place, offer)
        assert decided.refused is None
        self.starts += [one for one in decided.facts if isinstance(one, AttemptStarted)]
        self.known = self.known.and_then(After(self.now - x.T0, decided.facts))

    def lives(self) -> None:
        """Go on until the action is settled."""
        for _ in range(STEPS_MAX):
            if self.action.status in SETTLED:
                return
            self._goes_on()
        raise AssertionError(f"never settled: {self.action}")

    def _goes_on(self) -> None:
        """Time comes to what is due; sometimes somebody speaks before."""
        action = self.action
        due = due_at(action, self.now, skew_ms=self.config.timing.skew_ms)
        has_capacity = may_take_offer(action, self.now, self.config) and self.draw(st.booleans())
        if has_capacity:
            self.hears(x.tick(self.known.stream.key), acts=True)
            return
        assert due is not None, "nothing is due, and nobody is asked"
        if self._is_answered(action):
            return
        self.now = max(self.now + 1, due)
        self.hears(x.tick(self.known.stream.key))

    def _is_answered(self, action: Action) -> bool:
        """Whether a holder or the inquirer says something that proves nothing, in time."""
        if self.draw(st.booleans()):
            return False
        self.now += self.draw(st.integers(1, 50))
        running, lookup = action.running, action.lookup
        if running is not None and self.now <= running.lease_until:
            said = self.draw(st.sampled_from([x.no_answer(), x.refusal(), x.not_sent()]))
            self.hears(
                x.report(
                    said,
                    key=self.key,
                    attempt=running.number,
                    token=running.fencing_token,
                    holder=running.holder,
                )
            )
            return True
        if lookup is not None:
            kinds = (i.Meaning.PENDING, i.Meaning.INCONCLUSIVE, i.Meaning.ABSENT)
            meaning = self.draw(st.sampled_from(kinds))
            said_by = f"lookup:{lookup.number}"
            self.hears(x.found_out(meaning, key=self.key, lookup=lookup.number, source=said_by))
            return True
        return False


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("says", ["nothing", "nothing of use, at the last moment"])
def test_the_slowest_history_comes_near_its_bound(key: str, says: str) -> None:
    """Nobody ever has capacity and nobody tells: it ends with a person, in time, and open."""
    world = World(_never, key)
    first = world.action.attempts[0].started_at
    while world.action.status not in SETTLED:
        lookup = world.action.lookup
        due = due_at(world.action, world.now, skew_ms=world.config.timing.skew_ms)
        assert due is not None
        world.now = max(world.now + 1, due - (lookup is not None))
        if lookup is not None and says != "nothing":
            source = f"lookup:{lookup.number}"
            world.hears(
                x.found_out(i.Meaning.INCONCLUSIVE, key=key, lookup=lookup.number, source=source)
            )
        elif lookup is None:
            world.hears(x.tick(world.known.stream.key))
        else:
            world.now += 1
            world.hears(x.tick(world.known.stream.key))
    action = world.action
    operation = world.config.operation(action.request.operation, action.request.version)
    assert operation is not None
    assert (action.status, action.is_open) == (Status.NEEDS_REVIEW, True)
    bound = bound_of(operation, world.config.timing)
    assert world.now - first <= bound
    assert not operation.lookups or world.now - first > bound / 3


def _never(_strategy: st.SearchStrategy[bool]) -> bool:
    return False


@law(st.data(), st.sampled_from(KEYS))
def test_every_unknown_ends_within_its_bound(data: st.DataObject, key: str) -> None:
    """Whatever is answered or not; and never failed unless every attempt had definitely none."""
    world = World(data.draw, key)
    started = world.starts[0]
    first = world.action.attempts[0].started_at
    world.lives()
    action = world.action
    operation = world.config.operation(action.request.operation, action.request.version)
    assert operation is not None
    assert world.now - first <= bound_of(operation, world.config.timing)
    closed = {AttemptStatus.REFUSED, AttemptStatus.NOT_SENT, AttemptStatus.ABSENT}
    if action.status is Status.FAILED:
        assert {one.status for one in action.attempts} <= closed
    if action.reliability == "none":
        assert len(world.starts) == 1
        assert action.status is Status.NEEDS_REVIEW
    closes_at = key_window_closes_at(action, operation)
    for one in world.starts:
        assert one.provider_key == started.provider_key
        assert closes_at is None or one.deadline_at >= started.deadline_at
    starts = [one.started_at for one in action.attempts[1:]]
    assert closes_at is None or all(at < closes_at for at in starts)
