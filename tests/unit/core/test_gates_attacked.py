"""Gates against whoever wants an agent to pay twice, to pass a ceiling, or to leave a target
blocked for ever: each way that once worked, or that nobody may try with success.
"""

from ledger.core import inputs as i
from ledger.core.gates import SIDE_EFFECTS
from ledger.core.inputs import Meaning
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import examples as x
from tests.unit.core.crossing import ONE_AT_A_TIME, A, B, C, Crossing, ceiling, passes

ONE_A_RUN = ceiling(side_effects=1) + passes("run", target=True)


def exhausted(text: str, **declared: object) -> Crossing:
    """An action whose tries were all refused for now: it needs a person, and holds nothing."""
    world = Crossing(text, **declared)
    world.proposes(A, run="r1")
    for attempt in range(1, x.ATTEMPTS_MAX + 1):
        world.reports(A, x.refusal("busy"), attempt=attempt)
        world.waits(ms=20_000)
    assert world.refusal(A)[0] == "attempts_exhausted"
    assert world.run().reservations == world.target().reservations == ()
    return world


# --- an effect that nobody counts ----------------------------------------------------------------


def test_an_effect_that_is_told_in_review_counts_and_closes_the_target() -> None:
    """Its tries were refused, its budget and its target went to others, and then the provider says
    that it is there: nobody gets past it until a person has looked.
    """
    world = exhausted(ONE_A_RUN)
    world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="late"))
    assert world.refusal(A)[0] == "evidence_conflicts"
    assert world.run().taken(SIDE_EFFECTS) == 1
    assert world.held(world.target()) == [A]
    world.proposes(B, run="r1")
    assert world.refusal(B) == ("ceiling_reached", "run")
    world.proposes(C, run="r2")
    assert world.status(C) is Status.BLOCKED
    world.settles(A, Move.EFFECT_EXISTS, reference="late")
    assert world.status(A) is Status.COMPLETED
    assert world.run().used[SIDE_EFFECTS] == 1
    assert world.status(C) is Status.ATTEMPTING


def test_an_effect_that_a_person_finds_counts_though_nothing_was_held() -> None:
    """A person signs that it is there: its ceiling counts it, and the same again is held."""
    world = exhausted(ONE_A_RUN, look_alike_window_ms=3_600_000)
    world.settles(A, Move.EFFECT_EXISTS, reference="seen")
    assert world.status(A) is Status.COMPLETED
    assert world.run().used[SIDE_EFFECTS] == 1
    assert world.run().reservations == world.target().reservations == ()
    world.proposes(B, run="r1")
    assert world.refusal(B) == ("ceiling_reached", "run")
    world.proposes(C, run="r2")
    assert world.refusal(C) == ("suspected_duplicate", A)


def test_what_was_told_and_never_was_is_free_again() -> None:
    """Evidence came, a person looked, and there is nothing: budget and target are free."""
    world = exhausted(ONE_A_RUN)
    world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="late"))
    world.settles(A, Move.NO_EFFECT)
    assert world.status(A) is Status.FAILED
    assert world.run().used == {}
    assert world.run().reservations == world.target().reservations == ()


def test_a_person_who_is_faster_than_the_gate_loses_nothing() -> None:
    """Note was taken of a late effect before the gate had heard of it, or with its answer lost."""
    for lost in (False, True):
        world = Crossing(ONE_A_RUN)
        world.proposes(A, run="r1")
        world.fails(A)
        world.holds_back = True
        world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="late"))
        world.settles(A, Move.ACKNOWLEDGE)
        if lost:
            world.ledger.said.clear()
        world.holds_back = False
        world.deliver()
        world.waits(ms=60_000)
        assert world.run().used[SIDE_EFFECTS] == 1
        assert world.run().reservations == world.target().reservations == ()


# --- messages ------------------------------------------------------------------------------------


def test_a_late_word_of_the_queue_does_not_free_what_was_granted_since() -> None:
    """It waited, was granted, had its effect, the word of that was lost, and now a copy of the old
    answer comes: the gate still knows the effect, and the same again is held.
    """
    world = Crossing(ONE_AT_A_TIME, look_alike_window_ms=60_000)
    world.proposes(B, money=x.EUR_499)
    world.holds_back = True
    world.proposes(A)
    world.hears(world.ledger.said.popleft())
    (waits,) = world.said
    assert isinstance(waits, i.GateAnswer)
    assert waits.outcome == "queued"
    world.deliver()
    world.completes(B)
    world.deliver()
    world.completes(A)
    world.ledger.said.clear()
    world.holds_back = False
    world.hears(waits)
    world.waits(ms=5_000)
    assert world.target().reservations == ()
    world.proposes(C)
    assert world.refusal(C) == ("suspected_duplicate", A)
