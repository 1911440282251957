"""What an action asks of gates, and when it gives back what it holds: budgets side by side, its
targets last and one by one; everything back where nothing is there, nothing where something may be.
"""

import pytest

from ledger.core import inputs as i
from ledger.core.blocking import blocking
from ledger.core.gates import SIDE_EFFECTS, ClaimStatus, spend
from ledger.core.inputs import Meaning
from ledger.core.operation import PEOPLE_MS_DEFAULT as PEOPLE_MS
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.core.statement import Move, Say
from tests import examples as x
from tests.unit.core.crossing import (
    ONE_AT_A_TIME,
    ORDER,
    PEOPLE_AND,
    A,
    B,
    C,
    Crossing,
    ceiling,
    passes,
    refused,
    reservation,
)

EUR = spend("EUR")
RUN_AND_DAY = ceiling(side_effects=9) + ceiling("day", "tenant", window="day", spend={"EUR": 9_000})
BOTH_AND_TARGET = RUN_AND_DAY + passes("run", "day", target=True)
DAY = "day:2027-01-15"
SETTLED_MS = x.LEASE_MS + x.SKEW_MS + x.LAG_MS + x.SETTLE_MS + 1


def held(world: Crossing, key: str) -> list[str]:
    """The gates that an action holds, or has asked."""
    return [one.gate for one in world.action(key).claims if one.is_held]


# --- asking --------------------------------------------------------------------------------------


def test_budgets_are_asked_side_by_side_and_the_target_last() -> None:
    """Nobody holds a target while a budget is in doubt."""
    world = Crossing(BOTH_AND_TARGET)
    world.holds_back = True
    world.proposes(A, run="r1")
    assert [said.gate for said in world.said if isinstance(said, i.GateAsk)] == [
        "acme/run:r1",
        f"acme/window:{DAY}",
    ]
    assert world.status(A) is Status.BLOCKED
    world.deliver()
    assert world.status(A) is Status.ATTEMPTING
    assert held(world, A) == ["acme/run:r1", f"acme/window:{DAY}", f"acme/target:{ORDER}"]
    assert world.run().taken(SIDE_EFFECTS) == 1
    assert world.window(DAY).taken(EUR) == 4_990


def test_an_action_that_passes_no_gate_asks_none() -> None:
    """Nothing of it is paid for by those whom no rule crosses."""
    world = Crossing(ceiling() + passes())
    world.proposes(A)
    assert world.status(A) is Status.ATTEMPTING
    assert world.action(A).claims == ()
    assert world.facts == []


def test_people_come_first_and_gates_after() -> None:
    """Nothing is reserved while people think."""
    world = Crossing(ceiling() + passes("run", target=True, outcome="people", more=PEOPLE_AND))
    world.proposes(A, run="r1")
    assert world.status(A) is Status.AWAITING_APPROVAL
    assert world.action(A).claims == ()
    world.says(A)
    assert world.status(A) is Status.ATTEMPTING
    assert world.held(world.run()) == [A]


def test_the_step_begins_when_nothing_blocks_any_more() -> None:
    """An hour behind another action costs nothing of the time to act."""
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A)
    world.proposes(B, at=10)
    world.completes(A, at=3_600)
    assert world.status(B) is Status.ATTEMPTING
    assert world.action(B).step_deadline_at == x.T0 + 3_600 + x.STEP_MS
    assert world.action(B).wait_until is None


def test_a_run_that_is_not_named_is_missed_only_where_it_counts() -> None:
    """Nobody leaves a ceiling out by leaving out the name; where none applies none is needed."""
    world = Crossing(RUN_AND_DAY + passes("day"))
    world.proposes(A)
    assert world.status(A) is Status.ATTEMPTING
    world = Crossing(RUN_AND_DAY + passes("run"))
    assert refused(world.proposes(A)) is Rejection.RUN_MISSING
    assert world.ledger.streams[x.STREAM].actions == ()


# --- refusals ------------------------------------------------------------------------------------


def test_a_refusal_gives_everything_back_and_names_the_ceiling() -> None:
    """What the run had granted is free again at once."""
    world = Crossing(BOTH_AND_TARGET)
    world.proposes(A, run="r1")
    world.proposes(B, run="r2")
    assert world.status(B) is Status.NEEDS_REVIEW
    assert world.refusal(B) == ("ceiling_reached", "day")
    assert world.run("r2").reservations == ()
    assert world.run("r2").used == {}
    assert world.action(B).claims == ()
    assert world.queued(world.target()) == []


def test_a_refusal_says_how_much_is_taken() -> None:
    """Who reads the log sees the dimension, what is used and reserved, and the limit."""
    world = Crossing(BOTH_AND_TARGET)
    world.proposes(A, run="r1")
    world.proposes(B, run="r2")
    (refusal,) = (fact for fact in world.facts if fact.type == "reservation.refused")
    assert refusal.reached is not None
    assert refusal.reached.model_dump() == {
        "ceiling": "day",
        "dimension": EUR,
        "taken": 4_990,
        "limit": 9_000,
    }


def test_a_ceiling_of_one_action_asks_no_gate() -> None:
    """It is in the action itself."""
    world = Crossing(ceiling("each", "action", spend={"EUR": 4_000}) + passes("each"))
    world.proposes(A)
    assert world.refusal(A) == ("ceiling_reached", "each")
    world.allows(A, "each")
    assert world.status(A) is Status.ATTEMPTING
    assert world.facts == []


# --- giving back ---------------------------------------------------------------------------------


def test_what_has_its_effect_is_spent_and_what_has_none_is_free() -> None:
    """The sum of both is what the gate was asked for."""
    world = Crossing(BOTH_AND_TARGET.replace("9000", "99000"))
    for key in (A, B):
        world.proposes(key, run="r1", target=f"order:{key[-1]}")
    world.completes(A)
    assert world.run().used == {SIDE_EFFECTS: 1, EUR: 4_990}
    assert world.held(world.run()) == [B]
    world.fails(B)
    assert world.run().used == {SIDE_EFFECTS: 1, EUR: 4_990}
    assert world.held(world.run()) == []


def test_what_is_unknown_keeps_all_it_holds() -> None:
    """Nobody knows that nothing happened: neither the money nor the target is free."""
    world = Crossing(BOTH_AND_TARGET)
    world.proposes(A, run="r1")
    world.loses(A, at=5)
    assert world.status(A) is Status.UNKNOWN
    assert world.held(world.run()) == [A]
    assert world.held(world.target()) == [A]


def test_what_a_person_has_to_look_at_keeps_it_while_it_is_open() -> None:
    """A case gives nothing back as long as an attempt may have had its effect."""
    world = Crossing(BOTH_AND_TARGET)
    world.proposes(x.EMAIL, run="r1")
    world.loses(x.EMAIL, at=5)
    assert world.refusal(x.EMAIL)[0] == "no_way_to_find_out"
    assert world.action(x.EMAIL).is_open
    assert world.held(world.run()) == [x.EMAIL]
    assert world.held(world.target()) == [x.EMAIL]
    world.waits(ms=x.LEASE_MS + x.SKEW_MS + 1)
    world.settles(x.EMAIL, Move.NO_EFFECT)
    assert world.status(x.EMAIL) is Status.FAILED
    assert world.run().reservations == ()
    assert world.run().used == {}
    assert world.target().reservations == ()


def test_what_needs_a_person_and_left_nothing_open_gives_back() -> None:
    """Others need not wait for a person's afternoon."""
    world = Crossing(BOTH_AND_TARGET)
    world.proposes(A, run="r1")
    for attempt in (1, 2, 3, 4):
        world.reports(A, x.refusal("busy"), attempt=attempt)
        if world.status(A) is Status.NEEDS_REVIEW:
            break
        world.waits(ms=20_000)
        world.hears(x.tick())
    assert world.refusal(A)[0] == "attempts_exhausted"
    assert world.run().reservations == ()
    assert world.target().reservations == ()
    world.settles(A, Move.EFFECT_EXISTS, reference="ch_9")
    assert world.status(A) is Status.COMPLETED


def test_between_tries_the_target_stays_closed() -> None:
    """A refusal for now is no end: whoever waits behind it goes on waiting."""
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A)
    world.proposes(B)
    world.reports(A, x.refusal("busy"))
    assert world.status(A) is Status.READY
    assert world.held(world.target()) == [A]
    assert world.status(B) is Status.BLOCKED


# --- while blocked -------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["cancel", "expire", "deny"])
def test_whoever_leaves_the_queue_is_forgotten(way: str) -> None:
    """Taken back, too late or denied while blocked: the next in the queue comes on."""
    row = passes(target=True, outcome="people", more=PEOPLE_AND)
    world = Crossing(row if way == "deny" else ONE_AT_A_TIME)
    for key in (A, B, C):
        world.proposes(key, step_ms=1_000 if (key, way) == (B, "expire") else None)
        if way == "deny":
            world.says(key)
    assert world.statuses(A, B, C) == [Status.ATTEMPTING, Status.BLOCKED, Status.BLOCKED]
    match way:
        case "cancel":
            world.hears(x.cancel(B))
            expected = Status.CANCELLED
        case "deny":
            world.adopts('[[row]]\nname = "no"\noutcome = "deny"\nreason = "Not any more."\n')
            expected = Status.DENIED
        case _:
            world.waits(ms=1_000)
            expected = Status.EXPIRED
    assert world.status(B) is expected
    if way == "deny":
        assert world.queued(world.target()) == []
        return
    assert world.queued(world.target()) == [C]
    world.completes(A)
    assert world.status(C) is Status.ATTEMPTING


def agreed_in_the_queue() -> Crossing:
    """People agreed to both; one has the target, and the other waits behind it."""
    world = Crossing(passes(target=True, outcome="people", more=PEOPLE_AND))
    for key in (A, B):
        world.proposes(key)
        world.says(key)
    return world


def test_a_yes_that_runs_out_in_the_queue_is_asked_for_anew() -> None:
    """What was granted long ago is no consent now: the place in the queue is given up with it."""
    world = agreed_in_the_queue()
    world.waits(ms=30_001)
    world.completes(A)
    world.waits(ms=0)
    assert world.status(B) is Status.AWAITING_APPROVAL
    assert world.target().reservations == ()
    world.hears(i.AskAgain(key=B, principal="agent:billing"))
    world.says(B)
    assert world.status(B) is Status.ATTEMPTING


def test_a_yes_taken_back_in_the_queue_gives_the_place_up() -> None:
    """Whoever agreed may think otherwise for as long as nothing has begun."""
    world = agreed_in_the_queue()
    world.says(B, Say.WITHDRAW)
    assert world.status(B) is Status.AWAITING_APPROVAL
    assert world.queued(world.target()) == []
    world.completes(A)
    assert world.status(B) is Status.AWAITING_APPROVAL


def test_after_a_persons_case_the_time_to_wait_begins_anew() -> None:
    """However long the case lay there: who may wait then is not too late at once."""
    world = Crossing(ceiling(side_effects=1) + passes("run", target=True))
    world.proposes(A, run="r1")
    world.completes(A)
    world.proposes(B, run="r1")
    assert world.refusal(B) == ("ceiling_reached", "run")
    world.waits(ms=4 * PEOPLE_MS)
    world.proposes(C, run="r2")
    world.allows(B, "run")
    assert world.status(B) is Status.BLOCKED
    assert world.action(B).wait_until == world.now + PEOPLE_MS


# --- another table -------------------------------------------------------------------------------


def test_a_gate_that_is_added_while_blocked_is_asked_too() -> None:
    """The table in force when it starts is the one that it passes."""
    world = Crossing(ONE_AT_A_TIME)
    world.proposes(A)
    world.proposes(B, run="r2")
    world.adopts(ceiling() + passes("run", target=True))
    assert world.status(B) is Status.BLOCKED
    assert world.held(world.run("r2")) == [B]
    world.completes(A)
    assert world.status(B) is Status.ATTEMPTING


def test_a_gate_that_is_removed_while_blocked_is_left() -> None:
    """What no rule asks for any more holds nobody up."""
    world = Crossing(RUN_AND_DAY + passes("run", "day", target=True))
    world.proposes(A, run="r1")
    world.ledger.config = Crossing(RUN_AND_DAY + passes("run", target=True)).ledger.config
    world.proposes(B, run="r1")
    assert world.status(B) is Status.BLOCKED
    world.waits(ms=x.STEP_MS + 1)
    world.adopts(RUN_AND_DAY + passes("run"))
    world.waits(ms=0)
    assert world.status(B) is Status.ATTEMPTING
    assert world.queued(world.target()) == []
    assert held(world, B) == ["acme/run:r1"]
    assert world.held(world.target()) == [A]


def test_a_further_ceiling_of_the_same_run_counts_the_action_once() -> None:
    """Two ceilings of one run are one question, also where one came later."""
    few, cheap = ceiling("few", side_effects=9), ceiling("cheap", spend={"EUR": 90_000})
    world = Crossing(few + passes("few", target=True))
    for key in (A, B):
        world.proposes(key, run="r1")
    assert world.status(B) is Status.BLOCKED
    world.adopts(few + cheap + passes("few", "cheap", target=True))
    assert world.run().taken(SIDE_EFFECTS) == 2
    world.completes(A)
    world.completes(B)
    assert world.run().used == {SIDE_EFFECTS: 2, EUR: 2 * 4_990}


def test_a_table_that_asks_people_takes_the_place_in_the_queue() -> None:
    """Whoever has to be asked first holds nothing meanwhile."""
    world = Crossing(BOTH_AND_TARGET)
    world.proposes(A, run="r1")
    world.proposes(B, run="r2", money=x.EUR_49_90.model_copy(update={"minor": 1}))
    assert world.queued(world.target()) == [B]
    world.adopts(RUN_AND_DAY + passes("run", "day", target=True, outcome="people", more=PEOPLE_AND))
    assert world.statuses(A, B) == [Status.ATTEMPTING, Status.AWAITING_APPROVAL]
    assert world.queued(world.target()) == []
    assert world.run("r2").reservations == ()
    world.completes(A)
    world.says(B)
    assert world.status(B) is Status.ATTEMPTING


def test_a_ceiling_that_is_lowered_takes_nothing_back() -> None:
    """What was granted stays granted; whoever comes then is refused."""
    world = Crossing(ceiling(side_effects=3) + passes("run"))
    for key in (A, B):
        world.proposes(key, run="r1")
    world.adopts(ceiling(side_effects=1) + passes("run"))
    assert world.statuses(A, B) == [Status.ATTEMPTING, Status.ATTEMPTING]
    world.proposes(C, run="r1")
    assert world.refusal(C) == ("ceiling_reached", "run")
    assert world.run().taken(SIDE_EFFECTS) == 2


# --- what comes later ----------------------------------------------------------------------------


def test_an_effect_against_a_final_status_closes_the_target_again() -> None:
    """It failed, others went on, and then it was there after all: it counts, whatever the ceilings
    say, and nobody else gets the target until a person has taken note.
    """
    world = Crossing(ceiling(side_effects=1) + passes("run", target=True))
    world.proposes(A, run="r1")
    world.fails(A)
    world.proposes(B, run="r1", target="order:other")
    world.completes(B)
    world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="ch_late"))
    assert world.status(A) is Status.FAILED
    assert world.refusal(A)[0] in {"effect_without_attempt", "evidence_conflicts"}
    assert reservation(world.target(), A).forced
    assert world.run().taken(SIDE_EFFECTS) == 2
    world.proposes(C, run="r2")
    assert world.status(C) is Status.BLOCKED
    waits = blocking(world.action(C))
    assert waits is not None
    assert waits.by == A
    world.settles(A, Move.ACKNOWLEDGE)
    assert world.run().used[SIDE_EFFECTS] == 2
    assert world.target().used == {}
    assert world.status(C) is Status.ATTEMPTING


@pytest.mark.parametrize("waits_in_queue", [False, True])
def test_an_effect_that_comes_to_light_while_gates_are_asked_counts(
    *,
    waits_in_queue: bool,
) -> None:
    """An action waits for an answer, or in the queue of its target, and its effect is there: what
    it still waits for counts by force, whatever gates say to what they were asked before.
    """
    world = Crossing(ceiling(side_effects=1) + passes("run", target=True))
    world.proposes(B, run="r1" if not waits_in_queue else "r2")
    world.holds_back = not waits_in_queue
    world.proposes(A, run="r1")
    world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="ch_early"))
    assert world.refusal(A)[0] == "effect_without_attempt"
    world.holds_back = False
    world.deliver()
    assert world.status(A) is Status.NEEDS_REVIEW
    assert world.refusal(A)[0] == "effect_without_attempt"
    assert world.run().taken(SIDE_EFFECTS) == 1 + (not waits_in_queue)
    claims = [one for one in world.action(A).claims if one.is_held]
    assert {one.status for one in claims} == {ClaimStatus.GRANTED}
    assert {one.forced for one in claims} == {False, True} if waits_in_queue else {True}
    world.settles(A, Move.EFFECT_EXISTS, reference="ch_early")
    assert world.status(A) is Status.COMPLETED
    assert not held(world, A)
    assert world.run().used[SIDE_EFFECTS] == 1


def test_what_is_found_out_late_of_a_completed_action_counts_once() -> None:
    """A second effect closes the target; its budget is spent already."""
    world = Crossing(ceiling(side_effects=3) + passes("run", target=True))
    world.proposes(A, run="r1")
    world.completes(A)
    world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="ch_second"))
    assert world.refusal(A)[0] == "second_effect"
    assert world.held(world.target()) == [A]
    assert world.run().taken(SIDE_EFFECTS) == 1
    world.settles(A, Move.ACKNOWLEDGE)
    assert world.target().reservations == ()
    assert world.run().taken(SIDE_EFFECTS) == 1


def test_an_effect_counts_also_where_a_person_was_faster_than_the_gate() -> None:
    """Note is taken before the gate has answered: what is claimed by force is spent as well."""
    world = Crossing(ceiling(side_effects=3) + passes("run", target=True))
    world.proposes(A, run="r1")
    world.fails(A)
    world.holds_back = True
    world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="ch_late"))
    world.settles(A, Move.ACKNOWLEDGE)
    world.deliver()
    assert world.run().used[SIDE_EFFECTS] == 1
    assert world.run().reservations == ()
    assert world.target().reservations == ()


def test_what_is_told_of_an_effect_that_came_late_counts_no_second_time() -> None:
    """It was noted and counted; a dispute about it is another case, and no other effect."""
    world = Crossing(ceiling(side_effects=3) + passes("run", target=True))
    world.proposes(A, run="r1")
    world.fails(A)
    for meaning in (Meaning.EFFECT, Meaning.REVERSED):
        said = x.found_out(meaning, key=A, lookup=None, source=f"webhook:{meaning}")
        world.hears(said.model_copy(update={"reverses": x.REFERENCE}))
        world.settles(A, Move.ACKNOWLEDGE)
        assert world.run().used == {SIDE_EFFECTS: 1, EUR: 4_990}


def exhausted() -> Crossing:
    """Every try was refused for now, a person has it, and everything is given back."""
    world = Crossing(ceiling(side_effects=3) + passes("run", target=True))
    world.proposes(A, run="r1")
    for attempt in (1, 2, 3, 4):
        world.reports(A, x.refusal("busy"), attempt=attempt)
        if world.status(A) is Status.NEEDS_REVIEW:
            break
        world.waits(ms=20_000)
        world.hears(x.tick())
    assert world.run().reservations == world.target().reservations == ()
    return world


def test_an_effect_that_a_person_has_found_counts() -> None:
    """Everything was given back, and then somebody says that it is there."""
    world = exhausted()
    world.settles(A, Move.EFFECT_EXISTS, reference="ch_9")
    assert world.status(A) is Status.COMPLETED
    assert world.run().used[SIDE_EFFECTS] == 1
    assert world.run().reservations == world.target().reservations == ()


def test_an_effect_that_is_told_of_what_a_person_has_closes_the_target() -> None:
    """It gave everything back, and then a webhook speaks of an effect: until the person has settled
    it nobody else gets the target, and what they say decides whether it counts.
    """
    for move, used in ((Move.EFFECT_EXISTS, 1), (Move.NO_EFFECT, 0)):
        world = exhausted()
        world.hears(x.found_out(Meaning.EFFECT, key=A, lookup=None, reference="ch_late"))
        assert world.held(world.target()) == [A]
        assert world.run().taken(SIDE_EFFECTS) == 1
        reference = "ch_late" if move is Move.EFFECT_EXISTS else None
        world.waits(ms=SETTLED_MS)
        assert refused(world.settles(A, move, reference=reference)) is None
        assert world.run().used.get(SIDE_EFFECTS, 0) == used
        assert world.run().reservations == world.target().reservations == ()
