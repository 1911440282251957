"""The core against a plain model of the world: a provider's book, calls under way, and what was
told to the ledger. Hypothesis looks for an order of events that breaks a law.

The model knows what really happened; the ledger knows only what it is told, late, twice or never.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ledger.core import inputs as i
from ledger.core.decide import Decided, decide
from ledger.core.decide.schedule import due_at
from ledger.core.evolve import Place, evolve
from ledger.core.facts import AttemptStarted
from ledger.core.rejections import Rejection
from ledger.core.state import FINAL, Action, Attempt, AttemptStatus, Status, Stream
from tests.examples import (
    CHARGE,
    CONFIG,
    EMAIL,
    KEY_MARGIN_MS,
    KEY_WINDOW_MS,
    LAG_MS,
    NOTE,
    PAYOUT,
    SETTLE_MS,
    SKEW_MS,
    STREAM,
    T0,
    TICKET,
    cancel,
    decline,
    found_out,
    no_answer,
    not_sent,
    offer,
    propose,
    refusal,
    report,
    request,
    success,
    tick,
)

KEYS = st.sampled_from([CHARGE, PAYOUT, TICKET, NOTE, EMAIL])


@dataclass
class Call:
    """One request that left: until when it may take effect, and what became of it."""

    attempt: int
    holder: str
    sent_at: int
    open: bool = True
    reference: str | None = None
    refused: bool = False

    def may_commit(self, now: int) -> bool:
        """The provider executes nothing later than its settle horizon after the last byte."""
        return self.open and now <= self.sent_at + SETTLE_MS


@dataclass
class World:
    """What really happened to one action."""

    calls: list[Call] = field(default_factory=list)
    book: list[tuple[str, int]] = field(default_factory=list)
    acted: set[int] = field(default_factory=set)
    told_effect: bool = False
    lookups: int = 0

    def call(self, attempt: int) -> Call | None:
        """The call of an attempt, if its request left."""
        return next((call for call in self.calls if call.attempt == attempt), None)


class Machine(RuleBasedStateMachine):
    """One stream, all five classes."""

    def __init__(self) -> None:
        super().__init__()
        self.stream = Stream(STREAM)
        self.now = T0
        self.offset = 0
        self.worlds: dict[str, World] = {}
        self.finals: dict[str, Status] = {}
        self.holders = 0

    # Telling the ledger

    def tell(self, said: i.Decidable, capacity_for: str | None = None) -> Decided:
        """Decide and fold one input."""
        at_hand = None
        if capacity_for is not None:
            self.holders += 1
            at = self.now - T0
            holder = f"executor-{self.holders}"
            at_hand = offer(at=at, until=at, key=capacity_for, incarnation=holder)
        place = Place(self.offset, self.now)
        outcome = decide(self.stream, CONFIG, said, place, at_hand)
        for fact in outcome.facts:
            if isinstance(fact, AttemptStarted):
                self.check_start(fact)
            self.stream = evolve(self.stream, fact, place)
        self.offset += 1
        return outcome

    def action(self, key: str) -> Action | None:
        """The action as the ledger knows it."""
        return self.stream.action(key)

    def check_start(self, start: AttemptStarted) -> None:
        """S8, S9, S17: same key, growing token, and a further attempt only where it is safe."""
        action = self.action(start.action)
        assert action is not None
        for attempt in action.attempts:
            assert start.fencing_token > attempt.fencing_token
            assert start.provider_key == attempt.provider_key
        counted = [one for one in action.attempts if one.status is not AttemptStatus.DECLINED]
        if counted:
            assert action.reliability in {"keyed", "reference", "lookup"}
            if action.reliability == "lookup":
                assert all(one.status is AttemptStatus.ABSENT for one in counted) or all(
                    one.status is not AttemptStatus.UNRESOLVED for one in counted
                )
            if action.reliability == "keyed":
                assert self.now < counted[0].started_at + KEY_WINDOW_MS - KEY_MARGIN_MS

    # Callers

    @rule(key=KEYS, ready=st.booleans())
    def proposes(self, key: str, *, ready: bool) -> None:
        """An agent asks, for the first time or again."""
        known = self.action(key)
        outcome = self.tell(propose(key), key if ready else None)
        if known is None:
            self.worlds[key] = World()
            assert outcome.facts
        else:
            assert outcome.unchanged is not None
            assert outcome.unchanged.status == known.status

    @precondition(lambda self: self.worlds)
    @rule(data=st.data())
    def proposes_otherwise(self, data: st.DataObject) -> None:
        """An agent asks for something else under a known key."""
        key = data.draw(st.sampled_from(sorted(self.worlds)))
        outcome = self.tell(propose(key, request=request(key, text="other")))
        assert outcome.refused is not None
        assert outcome.refused.code is Rejection.CONFLICTED

    @rule(key=KEYS)
    def cancels(self, key: str) -> None:
        """An agent takes it back: it never holds for what may have happened."""
        outcome = self.tell(cancel(key))
        if outcome.facts:
            assert not self.worlds[key].book
            assert all(not call.may_commit(self.now) for call in self.worlds[key].calls)

    # Time

    @rule(ahead=st.sampled_from([0, 400, 3_000, 25_000]), capacity=st.one_of(st.none(), KEYS))
    def time_goes_on(self, ahead: int, capacity: str | None) -> None:
        """A tick, sometimes with capacity at hand."""
        self.now += ahead
        self.tell(tick(), capacity)

    @rule(capacity=st.one_of(st.none(), KEYS))
    def time_comes(self, capacity: str | None) -> None:
        """A tick exactly when something is due."""
        dues = [
            due
            for action in self.stream.actions
            if not action.is_final
            and (due := due_at(action, self.now, skew_ms=SKEW_MS)) is not None
        ]
        if dues:
            self.now = max(self.now, min(dues))
            self.tell(tick(), capacity)

    # Executors

    def running(self) -> list[tuple[str, Attempt]]:
        """Attempts whose holder has not acted and may still."""
        return [
            (action.key, action.running)
            for action in self.stream.actions
            if action.running is not None
            and action.running.number not in self.worlds[action.key].acted
        ]

    @precondition(lambda self: self.running())
    @rule(data=st.data(), how=st.sampled_from(["send", "send", "send", "decline", "not_sent"]))
    def holder_acts(self, data: st.DataObject, how: str) -> None:
        """A holder sends within its lease, or says that it did not."""
        key, attempt = data.draw(st.sampled_from(self.running()))
        self.worlds[key].acted.add(attempt.number)
        if self.now >= attempt.lease_until:
            how = "decline"
        match how:
            case "send":
                call = Call(attempt.number, attempt.holder, self.now)
                self.worlds[key].calls.append(call)
            case "decline":
                self.tell(decline(key=key, attempt=attempt.number, holder=attempt.holder))
            case _:
                said = report(not_sent(), key=key, attempt=attempt.number, holder=attempt.holder)
                self.tell(said)

    # The provider

    def calls(self) -> list[tuple[str, Call]]:
        """Every request that ever left."""
        return [(key, call) for key, world in self.worlds.items() for call in world.calls]

    @precondition(lambda self: any(call.may_commit(self.now) for _, call in self.calls()))
    @rule(data=st.data())
    def provider_commits(self, data: st.DataObject) -> None:
        """A request takes effect, now or late; a known key or reference gives the known effect."""
        pending = [(key, call) for key, call in self.calls() if call.may_commit(self.now)]
        key, call = data.draw(st.sampled_from(pending))
        world, action = self.worlds[key], self.action(key)
        assert action is not None
        call.open = False
        match action.reliability:
            case "keyed":
                remembers = bool(world.book) and self.now < world.book[0][1] + KEY_WINDOW_MS
            case "reference":
                remembers = bool(world.book)
            case _:
                remembers = False
        if remembers:
            call.reference = world.book[0][0]
            return
        call.reference = f"ref_{len(world.book) + 1}"
        world.book.append((call.reference, self.now))

    @precondition(lambda self: any(call.open for _, call in self.calls()))
    @rule(data=st.data())
    def provider_refuses(self, data: st.DataObject) -> None:
        """A request is refused, and never takes effect."""
        call = data.draw(st.sampled_from([call for _, call in self.calls() if call.open]))
        call.open, call.refused = False, True

    @precondition(lambda self: self.calls())
    @rule(data=st.data(), lost=st.booleans(), retry=st.sampled_from(list(i.Retry)))
    def answer_arrives(self, data: st.DataObject, retry: i.Retry, *, lost: bool) -> None:
        """A holder reports what it saw: the truth, or that no answer came; late, or once more."""
        key, call = data.draw(st.sampled_from(self.calls()))
        outcome: i.ReportedOutcome = no_answer()
        if call.reference is not None and not lost:
            outcome = success(call.reference)
            self.worlds[key].told_effect = True
        elif call.refused and not lost:
            outcome = refusal("no", retry)
        self.tell(report(outcome, key=key, attempt=call.attempt, holder=call.holder))

    @precondition(lambda self: any(world.book for world in self.worlds.values()))
    @rule(data=st.data())
    def webhook_arrives(self, data: st.DataObject) -> None:
        """The provider tells of an effect: early, late, or again."""
        keys = sorted(key for key, world in self.worlds.items() if world.book)
        key = data.draw(st.sampled_from(keys))
        reference = self.worlds[key].book[0][0]
        self.tell(found_out(i.Meaning.EFFECT, key=key, lookup=None, reference=reference))
        self.worlds[key].told_effect = True

    @precondition(lambda self: any(action.lookup for action in self.stream.actions))
    @rule(data=st.data(), honest=st.booleans())
    def lookup_answers(self, data: st.DataObject, *, honest: bool) -> None:
        """The provider's search answers, as far as its index reaches; or says nothing useful."""
        asking = [action for action in self.stream.actions if action.lookup is not None]
        action = data.draw(st.sampled_from(asking))
        assert action.lookup is not None
        world = self.worlds[action.key]
        visible = [ref for ref, at in world.book if at <= self.now - LAG_MS]
        meaning = i.Meaning.INCONCLUSIVE
        if honest:
            meaning = i.Meaning.EFFECT if visible else i.Meaning.ABSENT
        world.told_effect |= meaning is i.Meaning.EFFECT
        self.tell(
            found_out(
                meaning,
                key=action.key,
                lookup=action.lookup.number,
                reference=visible[0] if visible else None,
            )
        )

    # Laws

    @invariant()
    def one_effect(self) -> None:
        """S1, S2: at most one effect, and none without a start."""
        for key, world in self.worlds.items():
            assert len(world.book) <= 1, key
            action = self.action(key)
            assert not world.book or (action is not None and action.counted_attempts)

    @invariant()
    def failed_means_nothing_happened(self) -> None:
        """S12: failed, cancelled and expired have no effect now and can have none later; completed
        names one that is in the book.
        """
        for action in self.stream.actions:
            world = self.worlds[action.key]
            if action.status in FINAL - {Status.COMPLETED}:
                assert not world.book
                assert not any(call.may_commit(self.now) for call in world.calls)
            if action.status is Status.COMPLETED:
                assert action.reference in {reference for reference, _ in world.book}
                assert world.told_effect

    @invariant()
    def final_stays(self) -> None:
        """S5: a final status never changes."""
        for action in self.stream.actions:
            known = self.finals.get(action.key)
            assert known is None or known is action.status
            if action.is_final:
                self.finals[action.key] = action.status

    @invariant()
    def what_was_told_is_known(self) -> None:
        """An effect that was told is completion, or a person has it."""
        for action in self.stream.actions:
            if self.worlds[action.key].told_effect:
                assert action.status in {Status.COMPLETED, Status.NEEDS_REVIEW}

    @invariant()
    def versions_count_facts(self) -> None:
        """S7: nothing moves an action but its facts, one version each."""
        assert len({action.key for action in self.stream.actions}) == len(self.stream.actions)


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    derandomize=True, deadline=None, max_examples=150, stateful_step_count=40
)
pytestmark = [pytest.mark.law(law) for law in ("S1", "S2", "S5", "S8", "S9", "S12", "S17")]
