"""Gates against whoever wants an agent to pay twice, to pass a ceiling, or to leave a target
blocked for ever: each way that once worked, or that nobody may try with success.
"""

import pytest

from ledger.core import inputs as i
from ledger.core.gates import SIDE_EFFECTS
from ledger.core.ids import GateKind, gate_key
from ledger.core.inputs import Meaning
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import examples as x
from tests.examples_of_gates import steps
from tests.unit.core.crossing import (
    ONE_AT_A_TIME,
    ORDER,
    A,
    B,
    C,
    Crossing,
    D,
    ceiling,
    passes,
    refused,
    under,
)

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


def test_a_ceiling_that_the_gate_has_yet_to_adopt_is_waited_for() -> None:
    """Each partition adopts by itself: one that does not know a ceiling yet grants nothing under
    it, and answers once it does.
    """
    world = Crossing(ceiling(side_effects=1) + passes("run"))
    world.holds_back = True
    for key in (A, B):
        world.proposes(key, run="r1")
    adopted = world.ledger.config
    world.ledger.config = under(passes())
    while world.ledger.said:
        decision = world.hears(world.ledger.said.popleft())
        assert decision.unchanged is not None
        assert decision.unchanged.reason == "ceiling_unknown"
    world.ledger.config = adopted
    world.holds_back = False
    assert world.statuses(A, B) == [Status.BLOCKED, Status.BLOCKED]
    world.waits(ms=5_000)
    assert world.statuses(A, B) == [Status.ATTEMPTING, Status.NEEDS_REVIEW]
    assert world.run().taken(SIDE_EFFECTS) == 1


# --- targets -------------------------------------------------------------------------------------


def test_a_target_that_is_declared_later_is_asked_before_the_start() -> None:
    """Another catalogue names a further target while an action waits for capacity: with the next
    tick it is asked, and what has begun goes on with what it has.
    """
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A, target="order:A-1", text="order:Z", starts=False)
    world.proposes(B, target="order:B-1", text="order:Z")
    world.loses(B, at=5)
    assert world.statuses(A, B) == [Status.READY, Status.UNKNOWN]
    world.ledger.config = under(ONE_AT_A_TIME, target_parameters=("text",))
    world.hears(x.tick(), starts=False)
    assert {one.gate for one in world.action(A).claims} == {
        "acme/target:order:A-1",
        "acme/target:order:Z",
    }
    world.waits(ms=x.LOOKUPS[0])
    world.hears(x.found_out(Meaning.PENDING, key=B))
    world.waits(ms=x.BACKOFF_MAX_MS)
    assert world.status(B) is Status.ATTEMPTING
    assert [one.gate for one in world.action(B).claims] == ["acme/target:order:B-1"]


def test_what_waits_for_its_original_keeps_no_target() -> None:
    """A refund had the target, and then its payment came into doubt: others go on meanwhile, and
    the refund asks again once that is settled.
    """
    refund = "payout:v1:acme:renewal-1"
    world = Crossing(ONE_AT_A_TIME, compensation="payout")
    world.proposes(A)
    world.completes(A)
    world.proposes(refund, compensates=A, starts=False)
    assert world.held(world.target()) == [refund]
    world.proposes(B)
    world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="ch_2"))
    assert world.refusal(A)[0] == "second_effect"
    assert world.status(refund) is Status.BLOCKED
    assert refund not in world.held(world.target())
    world.settles(A, Move.ACKNOWLEDGE)
    assert world.status(B) is Status.ATTEMPTING
    assert world.queued(world.target()) == [refund]
    world.completes(B)
    assert world.status(refund) is Status.ATTEMPTING


# --- what an agent says of itself ----------------------------------------------------------------


def test_no_number_is_too_large_to_be_counted() -> None:
    """An agent says twice that it took as much as can be said: its run is used up, and whoever asks
    is told so.
    """
    most = 2**53 - 1
    world = Crossing(passes())
    for step in (1, 2):
        assert world.hears(steps(step, run="r1", tokens=most)).gate is not None
    world.adopts(ceiling(tokens=10) + passes("run"))
    assert world.hears(steps(3, run="r1", tokens=most)).gate is not None
    world.proposes(A, run="r1")
    assert world.refusal(A) == ("ceiling_reached", "run")
    assert world.run().used["tokens"] == most


# --- undoing twice -------------------------------------------------------------------------------


def test_a_refund_that_was_there_after_all_is_not_made_again() -> None:
    """A refund failed, another was asked for in its place, and then the first is there: the second
    waits while that is looked at, and afterwards a person decides about both.
    """
    first, second = "payout:v1:acme:renewal-1", "payout:v1:acme:renewal-1#again"
    world = Crossing(passes(), compensation="payout")
    world.proposes(A)
    world.completes(A)
    world.proposes(first, compensates=A)
    world.fails(first)
    world.proposes(second, compensates=A, starts=False)
    world.hears(x.found_out(Meaning.EFFECT, key=first, lookup=None, reference="late"))
    assert world.refusal(first)[0] == "evidence_conflicts"
    assert world.status(second) is Status.BLOCKED
    world.hears(x.tick())
    world.settles(first, Move.ACKNOWLEDGE)
    assert world.refusal(second) == ("suspected_duplicate", first)
    assert world.action(second).attempts == ()
    world.settles(second, Move.TRY_AGAIN)
    assert world.refusal(second) == ("suspected_duplicate", first)
    world.allows(second, first)
    world.hears(x.tick())
    assert world.status(second) is Status.ATTEMPTING


def test_a_share_that_was_there_after_all_leaves_room_for_the_other() -> None:
    """What is left of the payment is still given back."""
    first, second = "payout:v1:acme:renewal-1", "payout:v1:acme:renewal-1#rest"
    half = x.EUR_49_90.model_copy(update={"minor": 2_495})
    world = Crossing(passes(), compensation="payout")
    world.proposes(A)
    world.completes(A)
    world.proposes(first, compensates=A, money=half)
    world.fails(first)
    world.proposes(second, compensates=A, money=half, starts=False)
    found = x.found_out(Meaning.EFFECT, key=first, lookup=None, money=half, reference="late")
    world.hears(found)
    world.settles(first, Move.ACKNOWLEDGE)
    world.hears(x.tick())
    assert world.status(second) is Status.ATTEMPTING


# --- what is left out ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        ONE_AT_A_TIME,
        ceiling("each", "target", window="day", side_effects=1) + passes("each"),
    ],
)
def test_nobody_leaves_out_the_target_that_is_guarded_or_counted_by(text: str) -> None:
    """A target that the operation may do without is asked for where a rule needs it."""
    world = Crossing(text)
    request = x.request(A).model_copy(update={"target": None})
    decision = world.hears(x.propose(A, request=request))
    assert refused(decision) is Rejection.INVALID_REQUEST
    assert decision.refused is not None
    assert [one.code for one in decision.refused.details] == ["target_missing"]
    nothing_to_name = Crossing(text, target=None)
    assert nothing_to_name.hears(x.propose(A, request=request)).refused is None
    assert nothing_to_name.status(A) is Status.ATTEMPTING


def test_a_ceiling_per_run_that_came_later_does_not_pass_over_what_names_no_run() -> None:
    """It could leave the run out when it was asked for; now nothing could count it, so a person
    looks.
    """
    world = Crossing(ONE_AT_A_TIME)
    for key in (B, A):
        world.proposes(key)
    world.adopts(ONE_A_RUN)
    assert world.refusal(A) == ("ceiling_reached", "run")
    world.completes(B)
    assert world.action(A).attempts == ()
    world.allows(A, "run")
    assert world.status(A) is Status.ATTEMPTING


# --- what is held for nobody ---------------------------------------------------------------------


def test_what_a_gate_holds_for_no_action_is_given_back() -> None:
    """Whoever got a question onto the topic in the name of nothing blocks no target."""
    world = Crossing(ONE_AT_A_TIME)
    gate = gate_key("acme", GateKind.TARGET, ORDER)
    world.hears(i.GateAsk(gate=gate, action=D, round=3, demand={}))
    assert world.target().reservations == ()
    world.proposes(A)
    assert world.status(A) is Status.ATTEMPTING
