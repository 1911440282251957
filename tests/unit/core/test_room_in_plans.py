"""What a plan waits for before anything new of it begins: room for all that may have to be undone,
under whichever table is in force by then; and people who have to settle something of it.
"""

from dataclasses import replace
from typing import Final

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import asking
from tests import examples as x
from tests.examples import found_out
from tests.examples_of_sagas import ITEMS, do, plan, stands, under, undo
from tests.ledgers import LedgerBuilder
from tests.travelling import GENERATION, PEOPLE, Travelling

FLIGHT, HOTEL, CAR = ITEMS
COUNTED: Final = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 20

[[row]]
name = "counted"
outcome = "automatic"
reason = "What a run does is counted."
ceilings = ["run"]
"""
EACH: Final = """
[[ceiling]]
name = "each"
per = "action"
spend = { EUR = 1, USD = 1 }

[[row]]
name = "charges"
when.operation = ["charge"]
outcome = "automatic"
reason = "Not one of them goes ahead by itself."
ceilings = ["each"]
"""
UNDO_COUNTED: Final = COUNTED.replace(
    'reason = "What', 'when.operation = ["payout"]\nreason = "What'
)
CHARGES_COUNTED: Final = UNDO_COUNTED.replace('"payout"', '"charge"')


def beneath(table: str) -> Config:
    """The configuration of the trip under a table."""
    return replace(under(asking.policy(table)), people=PEOPLE)


def test_a_ceiling_that_is_gone_keeps_no_plan_waiting() -> None:
    """Every undo asks a run for room, and another table counts runs no more before it has answered:
    nobody will. The undos are ruled under that table, and the first step begins.
    """
    builder = LedgerBuilder(config=beneath(COUNTED))
    builder.take(plan(run="r-1"), executor=None)
    builder.config = beneath(asking.EVERYTHING_GOES_AHEAD)
    builder.take(x.tick(), executor=None)
    builder.deliver(executor=None)
    event = builder.streams[x.STREAM]
    assert stands(event)[0] == ("ready", "blocked")
    assert not [one for action in event.actions for one in action.claims if one.is_held]


def told_of_an_effect(key: str) -> i.Evidence:
    """A webhook tells of an effect of what never began: a person has a case of it."""
    return found_out(i.Meaning.EFFECT, key=key, lookup=None, source="webhook:w", reference="ref-2")


def asks_a_gate_that_is_gone(builder: LedgerBuilder) -> list[str]:
    """The ceilings of what is asked and that no table in force declares any more. What is forced is
    counted whatever there is.
    """
    actions = (action for stream in builder.streams.values() for action in stream.actions)
    return [
        name
        for action in actions
        for claim in action.claims
        if claim.is_held and not claim.forced
        for name in claim.ceilings
        if builder.config.policy.ceiling(name) is None
    ]


def test_a_step_that_a_case_blocks_asks_for_no_ceiling_that_is_gone() -> None:
    """The flight asks a run for room; before that answers, a case of another action of the plan
    holds the flight back, and another table counts runs no more. Nobody would ever answer: the
    flight asks no more, and begins once the case is settled.
    """
    table = f"{CHARGES_COUNTED}{asking.EVERYTHING_GOES_AHEAD}"
    builder = LedgerBuilder(config=beneath(table))
    builder.take(plan(run="r-1"), executor=None)
    builder.said.clear()
    builder.take(told_of_an_effect(undo(HOTEL)), executor=None)
    flight = builder.streams[x.STREAM].actions[0]
    assert flight.blocked is not None
    assert [one.ceilings for one in flight.claims] == [("run",)]
    builder.config = beneath(asking.EVERYTHING_GOES_AHEAD)
    builder.take(x.tick(), executor=None, later_ms=10_000)
    assert asks_a_gate_that_is_gone(builder) == []


def test_an_undo_whose_operation_is_gone_asks_for_no_ceiling_that_is_gone() -> None:
    """The catalogue withdraws what undoes the steps, and the table the ceiling that counts it,
    before the run has answered: the plan does not wait for that answer.
    """
    builder = LedgerBuilder(config=beneath(COUNTED))
    builder.take(plan(run="r-1"), executor=None)
    builder.said.clear()
    config = beneath(asking.EVERYTHING_GOES_AHEAD)
    left = tuple(one for one in config.catalogue.operations if one.name != "payout")
    builder.config = replace(config, catalogue=replace(config.catalogue, operations=left))
    builder.take(x.tick(), executor=None, later_ms=10_000)
    assert asks_a_gate_that_is_gone(builder) == []


def test_a_revision_that_waits_asks_for_no_ceiling_that_is_gone() -> None:
    """A revision asks a run for room; before that answers, its earlier action is told to have had
    its effect, so that it waits for whoever looks at that, and another table counts runs no more.
    """
    revision = f"{x.CHARGE}~2"
    builder = LedgerBuilder(config=beneath(COUNTED))
    builder.take(x.propose(run="r-1"), executor=None)
    builder.take(x.cancel(), executor=None)
    asked = x.propose(revision, request=x.request(revision), revises=x.CHARGE, run="r-1")
    builder.take(asked, executor=None)
    builder.said.clear()
    builder.take(told_of_an_effect(x.CHARGE), executor=None)
    blocked = builder.streams[x.STREAM].actions[1].blocked
    assert blocked is not None
    assert blocked.reason == "revised_open"
    builder.config = beneath(asking.EVERYTHING_GOES_AHEAD)
    builder.take(x.tick(), executor=None, later_ms=10_000)
    assert asks_a_gate_that_is_gone(builder) == []


def test_a_plan_goes_on_in_the_decision_that_gives_the_last_room_back() -> None:
    """The last message of all is lost, and nothing comes after it: what frees the first step has it
    begin in the same decision.
    """
    builder = LedgerBuilder(config=beneath(COUNTED))
    builder.take(plan(run="r-1"), executor=None)
    builder.said.clear()
    builder.config = beneath(asking.EVERYTHING_GOES_AHEAD)
    builder.take(x.tick(), executor=None)
    assert stands(builder.streams[x.STREAM])[0] == ("ready", "blocked")


def test_a_ceiling_that_is_new_is_passed_by_every_undo_before_the_step_begins() -> None:
    """The first step is ready; then another table counts what undoes it. The step waits once more,
    until the run has room for that, also where an executor comes by in the very decision.
    """
    builder = LedgerBuilder(config=beneath(asking.EVERYTHING_GOES_AHEAD))
    builder.take(plan(run="r-1"), executor=None)
    assert stands(builder.streams[x.STREAM])[0] == ("ready", "blocked")
    builder.config = beneath(f"{UNDO_COUNTED}{asking.EVERYTHING_GOES_AHEAD}")
    builder.take(x.tick())
    first = builder.streams[x.STREAM].actions[0]
    assert first.status is Status.BLOCKED
    assert not first.attempts
    builder.deliver()
    event = builder.streams[x.STREAM]
    gate = builder.streams["acme/run:r-1"].gate
    assert gate is not None
    assert {one.action for one in gate.granted} == {undo(item) for item in ITEMS}
    assert stands(event)[0][0] in {"ready", "attempting"}


def test_a_step_that_a_person_lets_pass_does_not_begin_where_its_undo_was_given_up() -> None:
    """The flight costs more than a single action may, and meanwhile a person gives up what would
    undo the hotel. Who then lets the flight pass does not start it: the plan is given up.
    """
    told = Travelling(plan(), beneath(f"{EACH}{asking.EVERYTHING_GOES_AHEAD}"))
    assert told.action(do(FLIGHT)).review == "ceiling_reached"
    told.says(
        found_out(
            i.Meaning.EFFECT, key=undo(HOTEL), lookup=None, source="webhook:w", reference="ref-2"
        )
    )
    told.settles(undo(HOTEL), Move.NO_EFFECT)
    at, flight = x.T0 + told.at, told.action(do(FLIGHT))
    said = asking.resolution(flight, "ada", Move.ALLOW, ledger=GENERATION, at=at)
    judge = asking.judge(said.model_copy(update={"accepts": "each"}))
    told.says(asking.judged(judge, PEOPLE, at=at, ledger=GENERATION), key=do(FLIGHT))
    assert told.started() == []
    assert told.statuses == [("cancelled", "cancelled")] * 3


def test_what_has_its_turn_begins_only_once_a_person_has_looked() -> None:
    """The flight is booked and the hotel is ready; then there are two flights. The hotel waits for
    whoever looks at that, as long as they take, and begins after.
    """
    told = Travelling()
    told.does(do(FLIGHT))
    assert told.statuses[1] == ("ready", "blocked")
    told.says(
        found_out(
            i.Meaning.EFFECT, key=do(FLIGHT), lookup=None, source="webhook:w", reference="ref-2"
        )
    )
    hotel = told.action(do(HOTEL))
    assert hotel.blocked is not None
    assert hotel.blocked.by == do(FLIGHT)
    told.says(x.tick(), key=do(HOTEL), later_ms=x.STEP_MS).then_unchanged("nothing_due")
    told.settles(do(FLIGHT), Move.ACKNOWLEDGE)
    told.does(do(HOTEL))
    assert told.statuses[1] == ("completed", "blocked")


def test_what_is_called_off_in_a_decision_does_not_wait_in_it() -> None:
    """The car is cancelled while the hotel is under way, and then there are two flights. The hotel
    is given back before it was asked for: it is called off, and waits for nobody.
    """
    told = Travelling(config=beneath(asking.asked("charge") + asking.EVERYTHING_GOES_AHEAD))
    approves(told, FLIGHT)
    told.does(do(FLIGHT))
    approves(told, HOTEL)
    running = told.begins(do(HOTEL)).attempts[-1]
    told.says(x.cancel(do(CAR)))
    told.says(
        found_out(
            i.Meaning.EFFECT, key=do(FLIGHT), lookup=None, source="webhook:w", reference="ref-2"
        )
    )
    told.says(
        i.Decline(
            key=do(HOTEL),
            attempt=running.number,
            fencing_token=running.fencing_token,
            holder=running.holder,
            code="lease_over",
        )
    )
    assert told.statuses == [
        ("completed", "blocked"),
        ("cancelled", "cancelled"),
        ("cancelled", "cancelled"),
    ]


def approves(told: Travelling, item: str) -> None:
    """Ada agrees to a step."""
    at = x.T0 + told.at
    said = asking.statement(told.action(do(item)), "ada", ledger=GENERATION, at=at)
    told.says(asking.judged(asking.judge(said), PEOPLE, at=at, ledger=GENERATION))


def test_people_are_asked_again_about_a_step_that_waited_for_a_person() -> None:
    """Whether they would still agree to the hotel once there are two flights is for them to say."""
    told = Travelling(config=beneath(asking.asked("charge") + asking.EVERYTHING_GOES_AHEAD))
    approves(told, FLIGHT)
    told.does(do(FLIGHT))
    first = told.action(do(HOTEL)).approval
    assert first is not None
    told.says(
        found_out(
            i.Meaning.EFFECT, key=do(FLIGHT), lookup=None, source="webhook:w", reference="ref-2"
        )
    )
    told.settles(do(FLIGHT), Move.ACKNOWLEDGE)
    hotel = told.action(do(HOTEL))
    assert hotel.status is Status.AWAITING_APPROVAL
    assert hotel.approval is not None
    assert hotel.approval.nonce != first.nonce
