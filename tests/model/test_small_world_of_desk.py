"""Every history of a small world that begins at the review desk: every way in which an action comes
to a person, every move that anybody could sign at any time, and everything else that can be said.

Breadth first over the real decide and evolve, with the laws of the world of executors and those of
a person's word: it settles the case that was shown, opens no bar that keeps one effect one, and
says nothing of what may still take effect.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from ledger.core import inputs as i
from ledger.core.decide import decide
from ledger.core.decide.resolving import moves
from ledger.core.decide.schedule import due_at
from ledger.core.evolve import Place, evolve
from ledger.core.facts import (
    ActionCompleted,
    AnyFact,
    AttemptAbsent,
    AttemptStarted,
    ReviewResolved,
)
from ledger.core.state import FINAL, Action, AttemptStatus, Status, Stream
from ledger.core.statement import Move, Resolution, SignedByKey
from ledger.core.transitions import ACCEPTED
from tests.examples import (
    CHARGE,
    EMAIL,
    LAG_MS,
    NOTE,
    PAYOUT,
    SETTLE_MS,
    SKEW_MS,
    T0,
    TICKET,
    cancelled,
    completed,
    expired,
    failed,
    offer,
    recorded,
    review,
    tick,
)
from tests.examples_of_people import FREE, GENERATION, KEYS_OF, denied, ruled
from tests.model.test_small_world import (
    check_future,
    check_start,
    check_step,
    everything_sayable,
    relative,
)
from tests.unit.core.desk import (
    CONFIRMED,
    DIFFERS,
    GIVEN_BACK,
    NEVER_BEGUN,
    OPEN,
    OPEN_EMAIL,
    OPEN_PAYOUT,
    OPEN_TICKET,
    PARTLY,
    RUNNING,
    UNDER,
    unknown,
)
from tests.unit.core.language import Given, given

DEPTH = 4
PROOF = SignedByKey(jws="proven elsewhere")
NEVER_SENT = given(recorded(), ruled(FREE)).under(UNDER)
OPEN_NOTE = unknown(NOTE).and_then(review("lookups_exhausted", key=NOTE))
BEGINNINGS: dict[str, tuple[str, Given]] = {
    "charge": (CHARGE, OPEN),
    "payout": (PAYOUT, OPEN_PAYOUT),
    "ticket": (TICKET, OPEN_TICKET),
    "note": (NOTE, OPEN_NOTE),
    "email": (EMAIL, OPEN_EMAIL),
    "given back": (CHARGE, GIVEN_BACK),
    "never begun": (CHARGE, NEVER_BEGUN),
    "another amount": (CHARGE, DIFFERS),
    "a part": (CHARGE, PARTLY),
    "confirmed": (CHARGE, CONFIRMED),
    "under way": (CHARGE, RUNNING),
    "completed": (CHARGE, unknown().and_then(completed(), review("second_effect"))),
    **{
        name: (CHARGE, NEVER_SENT.and_then(fact, review("effect_without_attempt")))
        for name, fact in (
            ("failed", failed()),
            ("cancelled", cancelled()),
            ("expired", expired()),
            ("denied", denied()),
        )
    },
}


@dataclass(frozen=True, slots=True)
class Node:
    """A stream at a moment of log time, and whose it is."""

    stream: Stream
    key: str
    now: int
    offset: int


def shape(action: Action, now: int) -> tuple[object, ...]:
    """What decides the future of what people settle, with times as distances."""
    case, settled = action.case, action.resolved
    return (
        *relative(action, now),
        None if case is None else (case.reason, case.moved_version - case.opened_version),
        None
        if settled is None
        else (settled.move, settled.resumes, settled.attempts_before, settled.lookups_before),
    )


def over_at(action: Action) -> int:
    """After which time nothing of an action can come to light any more."""
    settle_ms = 0 if action.reliability == "none" else LAG_MS + SETTLE_MS
    ends = [one.lease_until + SKEW_MS + settle_ms for one in action.attempts]
    return max(ends, default=T0)


def signed(action: Action, move: Move, now: int, *, moved: int = 0) -> i.Judged:
    """What ada signs about a case, as it stands or as it stood."""
    case = action.case
    opened, newest = (1, 1) if case is None else (case.opened_version, case.moved_version)
    said = Resolution(
        ledger=GENERATION,
        move=move,
        approver="ada",
        tenant="acme",
        environment="live",
        key=action.key,
        request_hash=action.request_hash,
        case=opened,
        moved=max(0, newest - moved),
        reference="ch_person" if move is Move.EFFECT_EXISTS else None,
        issued_at=now,
        expires_at=now + 60_000,
        comment="I looked.",
    )
    return i.Judged(action.key, PROOF, now, GENERATION, said, KEYS_OF["ada"].id)


def steps(node: Node, action: Action) -> Iterator[tuple[i.Decidable, int, bool]]:
    """Every input now; every move now and once everything is over; ticks when something is due."""
    for word in everything_sayable(node.key, action):
        yield word, node.now, False
    for move in Move:
        for moment in {
            node.now,
            max(node.now, over_at(action)),
            max(node.now, over_at(action) + 1),
        }:
            yield signed(action, move, moment), moment, True
        yield signed(action, move, node.now, moved=1), node.now, True
    if not action.is_final:
        due = due_at(action, node.now, skew_ms=SKEW_MS)
        for moment in {node.now, node.now if due is None else max(node.now, due)}:
            yield tick(), moment, True


def check_resolved(before: Action, fact: ReviewResolved, word: i.Decidable, now: int) -> None:
    """A person's word: about this case, offered, and over where it says that nothing was."""
    assert isinstance(word, i.Judged)
    said = word.statement
    assert isinstance(said, Resolution)
    assert before.case is not None
    assert (said.case, said.moved) == (before.case.opened_version, before.case.moved_version)
    operation = UNDER.operation(before.request.operation, before.request.version)
    assert fact.move in {one.move for one in moves(before, operation, UNDER, now)}
    assert (fact.move is Move.ACKNOWLEDGE) is before.is_final
    if fact.move in {Move.NO_EFFECT, Move.TRY_AGAIN}:
        assert not before.is_open or now > over_at(before)
        assert AttemptStatus.SUCCEEDED not in {one.status for one in before.attempts}
    assert (fact.reference is None) is (fact.move is not Move.EFFECT_EXISTS)


def check_facts(after: Action, facts: tuple[AnyFact, ...]) -> None:
    """What stands on a person's word has it beside it, and what is tried again is over first."""
    resolved = [fact for fact in facts if isinstance(fact, ReviewResolved)]
    for fact in facts:
        if isinstance(fact, ActionCompleted) and fact.proof == "person":
            assert [one.move for one in resolved] == [Move.EFFECT_EXISTS]
            assert resolved[0].reference == fact.reference
        if isinstance(fact, AttemptAbsent) and fact.source_id.startswith("person:"):
            assert resolved[0].move in {Move.NO_EFFECT, Move.TRY_AGAIN}
    if resolved and resolved[0].move is Move.TRY_AGAIN:
        assert not any(one.status in {"running", "unresolved"} for one in after.attempts[:-1])
    if resolved:
        assert after.case is None
    if after.status is Status.NEEDS_REVIEW:
        assert after.case is not None
    if after.case is not None:
        assert after.status is Status.NEEDS_REVIEW or after.is_final


def walked(
    node: Node, word: i.Decidable, now: int, reached: set[tuple[Status, str]], *, capacity: bool
) -> Node | None:
    """One step from a node, checked; None where it changes nothing."""
    before = node.stream.action(node.key)
    assert before is not None
    at, at_hand = now - T0, None
    if capacity:
        at_hand = offer(at=at, until=at + 1, key=node.key)
    outcome = decide(node.stream, UNDER, word, Place(node.offset, now), at_hand)
    stream = node.stream
    for fact in outcome.facts:
        current = stream.action(node.key)
        assert current is not None
        reached.add((current.status, fact.type))
        if isinstance(fact, ReviewResolved):
            check_resolved(current, fact, word, now)
        stream = evolve(stream, fact, Place(node.offset, now))
        if isinstance(fact, AttemptStarted):
            check_start(current, Given(stream).action(node.key), fact)
    if not outcome.facts:
        return None
    after = stream.action(node.key)
    assert after is not None
    check_future(after, now)
    check_facts(after, outcome.facts)
    is_persons = any(isinstance(fact, ReviewResolved) for fact in outcome.facts)
    if not is_persons:
        check_step(before, after, outcome)
    elif before.is_final:
        assert after.status is before.status
    return Node(stream, node.key, now, node.offset + 1)


def explore(key: str, begins: Given) -> tuple[set[tuple[Status, str]], int]:
    """Walk breadth first; the accepted cells that were reached, and the number of states."""
    reached: set[tuple[Status, str]] = set()
    seen: set[tuple[object, ...]] = set()
    front = [Node(begins.stream, key, T0 + 9_500, begins.offset)]
    for _ in range(DEPTH):
        following: list[Node] = []
        for node in front:
            action = node.stream.action(key)
            assert action is not None
            for word, now, capacity in steps(node, action):
                after = walked(node, word, now, reached, capacity=capacity)
                changed = None if after is None else after.stream.action(key)
                if after is None or changed is None:
                    continue
                identity = shape(changed, after.now)
                if identity not in seen:
                    seen.add(identity)
                    following.append(after)
        front = following
    return reached, len(seen)


@pytest.mark.law("S5")
@pytest.mark.law("S9")
@pytest.mark.law("S12")
@pytest.mark.parametrize("name", BEGINNINGS)
def test_every_short_history_of_a_case_keeps_the_laws(name: str) -> None:
    """No order of words, evidence and times settles another case than was shown, tries again what
    may have happened, or leaves an action waiting for nothing.
    """
    reached, states = explore(*BEGINNINGS[name])
    assert states > 10
    at_least = BEGINNINGS[name][1].stream.actions[0].status
    assert (at_least, "review.resolved") in reached
    assert reached <= ACCEPTED


def test_every_status_that_a_case_can_have_has_its_beginning() -> None:
    """The table accepts a resolution in no other status."""
    begun = {known.stream.actions[0].status for _, known in BEGINNINGS.values()}
    settled = {status for status, kind in ACCEPTED if kind == "review.resolved"}
    # What is blocked, and what has made way, come with gates and other actions.
    assert settled - begun == {Status.SUPERSEDED, Status.BLOCKED}
    assert settled == FINAL | {Status.NEEDS_REVIEW, Status.BLOCKED}
