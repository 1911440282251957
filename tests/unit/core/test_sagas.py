"""Sagas: a plan is recorded whole or not at all, goes on step by step, and is undone in reverse."""

from dataclasses import replace

import pytest

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue
from ledger.core.money import Money
from ledger.core.rejections import Rejection
from ledger.core.sagas import SagaStatus
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import asking
from tests import examples as x
from tests.examples_of_sagas import (
    ITEMS,
    do,
    plan,
    planned,
    stands,
    step,
    trip,
    under,
    undo,
)
from tests.ledgers import GENERATION, LedgerBuilder
from tests.travelling import NO, PEOPLE, Travelling
from tests.unit.core.language import Story

FLIGHT, HOTEL, CAR = ITEMS
WAITS = ("blocked", "blocked")
DENIED_CAR = (
    """
[[row]]
name = "no-payouts"
when.operation = ["payout"]
outcome = "deny"
reason = "Nothing is paid out here."
"""
    + asking.EVERYTHING_GOES_AHEAD
)
PER_RUN = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 20

[[row]]
name = "counted"
outcome = "automatic"
reason = "Counted per run."
ceilings = ["run"]
"""


# --- opening -------------------------------------------------------------------------------------


def test_a_plan_is_recorded_whole_in_one_decision_and_its_first_step_goes_on() -> None:
    """Every step and every compensation is there at once; only the first step is ruled."""
    told = Travelling()
    facts = told.opening.decided.facts
    recorded = [one.action for one in facts if one.type == "intent.recorded"]
    assert recorded == [do(item) for item in ITEMS] + [undo(item) for item in ITEMS]
    assert told.statuses == [("ready", "blocked"), WAITS, WAITS]
    blocked = {one.key: one.blocked for one in told.saga.actions if one.blocked is not None}
    assert {key: (one.reason, one.by) for key, one in blocked.items()} == {
        do(HOTEL): ("saga_order", do(FLIGHT)),
        do(CAR): ("saga_order", do(HOTEL)),
        **{undo(item): ("planned", do(item)) for item in ITEMS},
    }
    assert told.action(undo(HOTEL)).compensates == do(HOTEL)
    assert told.has_come_to(SagaStatus.RUNNING)


def test_with_capacity_at_hand_the_first_step_starts_with_the_plan() -> None:
    """As a proposal does: no other decision comes between."""
    story = Story(under())
    story.hears(plan(), offer=x.offer(key=do(FLIGHT)))
    assert stands(story.known.stream)[0] == ("attempting", "blocked")


def test_the_same_plan_again_is_a_replay() -> None:
    """However far the saga has come, it is answered and nothing is recorded."""
    told = Travelling()
    told.does(do(FLIGHT))
    told.says(plan()).then_unchanged("replayed")


@pytest.mark.parametrize(
    ("other", "path"),
    [
        (plan(*(step(item) for item in (FLIGHT, CAR, HOTEL))), "/steps/1/key"),
        (plan(*(step(item) for item in (FLIGHT, HOTEL))), "/steps/2"),
        (plan(*(step(item) for item in (*ITEMS, "boat"))), "/steps/3"),
        (plan(step(FLIGHT), step(HOTEL), step(CAR, compensation=None)), "/steps/2/compensation"),
        (
            plan(
                step(
                    FLIGHT,
                    request=x.request(do(FLIGHT), money=x.EUR_499),
                    compensation=planned(undo(FLIGHT), money=x.EUR_499),
                ),
                step(HOTEL),
                step(CAR),
            ),
            "/steps/0/request/money/minor",
        ),
    ],
)
def test_another_plan_under_the_same_name_is_a_conflict_with_its_differences(
    other: i.OpenSaga, path: str
) -> None:
    """A saga never changes what it is, and says in what the other one differs."""
    refused = Travelling().refused(other)
    assert refused.code is Rejection.CONFLICTED
    assert path in {detail.path for detail in refused.details}


STRANGER = x.request(do(CAR)).model_copy(update={"principal": "agent:other"})
ELSEWHERE = x.request(undo(CAR)).model_copy(update={"target": "order:A-9999"})
POOR = x.request(do(CAR)).model_copy(update={"money": None})


@pytest.mark.parametrize(
    ("bad", "code", "path"),
    [
        (step(CAR, key="charge"), Rejection.MALFORMED_KEY, "/steps/2/key"),
        (step(CAR, key=x.TICKET), Rejection.KEY_MISMATCH, "/steps/2"),
        (step(CAR, request_hash="sha256:00"), Rejection.HASH_MISMATCH, "/steps/2"),
        (step(CAR, key=f"{x.CHARGE}#attempt-2"), Rejection.UNSTABLE_KEY, "/steps/2"),
        (step(CAR, key=do(FLIGHT)), Rejection.CONFLICTED, "/steps/2"),
        (step(CAR, key="charge:v1:acme:renewal-2#car"), Rejection.SAGA_UNFIT, "/steps/2"),
        (step(CAR, request=STRANGER), Rejection.SAGA_UNFIT, "/steps/2"),
        (step(CAR, request=POOR), Rejection.INVALID_REQUEST, "/steps/2/money"),
        (
            step(CAR, compensation=i.Planned(key=undo(CAR), request=ELSEWHERE)),
            Rejection.OTHER_TARGET,
            "/steps/2/compensation/target",
        ),
        (
            step(CAR, compensation=planned(undo(CAR), money=Money(minor=1, currency="EUR"))),
            Rejection.SAGA_UNFIT,
            "/steps/2/compensation",
        ),
        (
            step(CAR, compensation=planned(undo(CAR), principal="agent:other")),
            Rejection.SAGA_UNFIT,
            "/steps/2/compensation",
        ),
    ],
)
def test_what_refuses_one_action_refuses_the_plan_and_names_the_step(
    bad: i.PlannedStep, code: Rejection, path: str
) -> None:
    """Whole or not at all: nothing of it is recorded, and the refusal says where it is wrong."""
    story = Story(under())
    then = story.hears(plan(step(FLIGHT), step(HOTEL), bad))
    then.then_rejected(code)
    assert then.decided.refused is not None
    assert all(one.path.startswith(path) for one in then.decided.refused.details)
    assert then.decided.refused.details
    assert story.known.stream.actions == ()


def test_an_operation_that_nobody_declared_refuses_the_plan() -> None:
    """Also as the last compensation of it."""
    strange = x.request(undo(CAR)).model_copy(update={"operation": "strange"})
    key = undo(CAR).replace("payout", "strange")
    bad = step(CAR, compensation=i.Planned(key=key, request=strange))
    story = Story(under())
    story.hears(plan(step(FLIGHT), bad)).then_rejected(Rejection.UNKNOWN_OPERATION)


def test_what_the_policy_denies_is_found_before_the_first_step() -> None:
    """A plan whose undo would be denied is no plan: better nothing than half."""
    story = Story(under(asking.policy(DENIED_CAR)))
    then = story.hears(plan())
    then.then_rejected(Rejection.STEP_DENIED)
    assert then.decided.refused is not None
    (detail,) = then.decided.refused.details
    assert (detail.path, detail.code) == ("/steps/0/compensation", "no-payouts")


def test_a_plan_that_is_counted_per_run_names_its_run() -> None:
    """Nobody leaves a ceiling out by planning instead of proposing."""
    story = Story(under(asking.policy(PER_RUN)))
    story.hears(plan()).then_rejected(Rejection.RUN_MISSING)
    story.hears(plan(run="r-1"))
    assert all(one.run == "r-1" for one in trip(story.known.stream).actions)


def test_a_plan_counts_against_what_a_business_event_may_hold() -> None:
    """Ordinary steps stop where ordinary intents do."""
    story = Story(under())
    for number in range(46):
        key = f"{x.NOTE}#{number}"
        story.hears(x.propose(key))
    story.hears(plan()).then_rejected(Rejection.STREAM_FULL)
    assert len(story.known.stream.actions) == 46


def test_two_sagas_of_one_business_event_know_nothing_of_each_other() -> None:
    """What comes to nothing in one leaves the other alone."""
    told = Travelling()
    other = plan(step("boat"), saga="cruise")
    told.says(other)
    told.begins(do(FLIGHT))
    told.does(do("boat"), NO)
    assert told.statuses[0] == ("attempting", "blocked")
    assert told.has_come_to(SagaStatus.RUNNING)


# --- going on ------------------------------------------------------------------------------------


def test_each_step_waits_for_the_one_before_it_and_has_its_own_time() -> None:
    """Its step begins when its turn comes, however long the others took."""
    told = Travelling()
    told.says(x.tick(), later_ms=x.STEP_MS // 2)
    told.does(do(FLIGHT))
    assert told.statuses == [("completed", "blocked"), ("ready", "blocked"), WAITS]
    assert told.action(do(HOTEL)).step_deadline_at == x.T0 + told.at + x.STEP_MS
    told.says(x.tick(), later_ms=x.STEP_MS - 1)
    told.does(do(HOTEL))
    told.does(do(CAR))
    assert told.started() == [do(item) for item in ITEMS]


def test_when_all_is_done_there_is_nothing_to_undo() -> None:
    """Every compensation ends with the last step, and says why."""
    told = Travelling()
    for item in ITEMS:
        told.does(do(item))
    assert told.has_come_to(SagaStatus.COMPLETED)
    assert told.statuses == [("completed", "cancelled")] * 3
    assert {told.action(undo(item)).code for item in ITEMS} == {"nothing_to_undo"}
    told.says(x.tick(), later_ms=1_000_000).then_unchanged("nothing_due")


def test_what_waits_for_its_turn_starts_for_no_capacity() -> None:
    """A blocked step is nobody's to start, and time alone changes nothing about it."""
    told = Travelling()
    told.begins(do(FLIGHT))
    told.says(x.tick(), key=do(HOTEL), later_ms=x.LEASE_MS - 1).then_unchanged("nothing_due")
    assert told.started() == [do(FLIGHT)]


def test_a_step_is_ruled_under_the_policy_of_its_turn() -> None:
    """What was adopted while it waited holds, and people are asked where it asks them."""
    told = Travelling()
    asks = asking.policy(asking.asked("charge") + asking.EVERYTHING_GOES_AHEAD)
    told.begins(do(FLIGHT))
    told.known = told.known.under(replace(told.known.config, policy=asks))
    told.does(do(FLIGHT))
    assert told.statuses[1] == ("awaiting_approval", "blocked")


def counted(text: str = PER_RUN, **changes: object) -> LedgerBuilder:
    """The trip in a run that counts what it does."""
    builder = LedgerBuilder(config=replace(under(asking.policy(text)), people=PEOPLE))
    builder.take(plan(run="r-1", **changes), executor=None)
    return builder


def test_room_for_what_undoes_a_step_is_reserved_before_the_step_begins() -> None:
    """The first step waits until its run has granted a place to every undo; then it asks for its
    own.
    """
    builder = counted()
    first = builder.streams[x.STREAM].actions[0]
    assert first.blocked is not None
    assert first.blocked.by == undo(FLIGHT)
    builder.deliver(executor=None)
    event = builder.streams[x.STREAM]
    assert stands(event)[0] == ("ready", "blocked")
    gate = builder.streams["acme/run:r-1"].gate
    assert gate is not None
    assert {one.action for one in gate.reservations} == {
        do(FLIGHT),
        *(undo(item) for item in ITEMS),
    }


def test_a_plan_begins_nothing_where_there_is_no_room_to_undo_it() -> None:
    """A run with room for two undos of three has the third come to a person. Who gives the undo up
    gives up the plan, and the room is free again.
    """
    builder = counted(PER_RUN.replace("side_effects = 20", "side_effects = 2"))
    builder.deliver(executor=None)
    saga = trip(builder.streams[x.STREAM])
    assert [one.key for one in saga.actions if one.case is not None] == [undo(CAR)]
    assert saga.steps[0].action.status is Status.BLOCKED
    held, at = saga.steps[2].compensation, builder.decided_at(x.STREAM)
    assert held is not None
    said = asking.resolution(held, "ada", Move.NO_EFFECT, ledger=GENERATION, at=at)
    builder.take(asking.judged(asking.judge(said), PEOPLE, at=at, ledger=GENERATION))
    builder.deliver(executor=None)
    assert stands(builder.streams[x.STREAM]) == [("cancelled", "cancelled")] * 3
    gate = builder.streams["acme/run:r-1"].gate
    assert gate is not None
    assert not gate.reservations


def test_a_plan_begins_nothing_that_may_not_be_undone_any_more() -> None:
    """Another catalogue takes the right to ask for what undoes its steps, or another table refuses
    it: what has not begun comes to nothing.
    """
    others = under()
    operations = tuple(
        one.model_copy(update={"principals": ("agent:other",)}) if one.name == "payout" else one
        for one in others.catalogue.operations
    )
    not_theirs = Catalogue(operations, "sha256:other", others.catalogue.timing)
    for config in (replace(others, catalogue=not_theirs), under(asking.policy(DENIED_CAR))):
        story = Story(under())
        story.hears(plan())
        story.known = story.known.under(config)
        for at in range(1, 4):
            story.hears(x.tick(), at=at, offer=x.offer(at=at))
        assert stands(story.known.stream) == [("cancelled", "denied")] * 3


def test_an_operation_that_is_gone_at_its_turn_needs_a_person() -> None:
    """Neither done nor passed over; once it is back it is ruled before it starts."""
    told = Travelling()
    told.begins(do(FLIGHT))
    config = told.known.config
    without = tuple(one for one in config.catalogue.operations if one.name != "charge")
    gone = replace(config.catalogue, operations=without)
    told.known = told.known.under(replace(config, catalogue=gone))
    told.does(do(FLIGHT))
    assert told.action(do(HOTEL)).review == "operation_withdrawn"
    told.known = told.known.under(config)
    told.settles(do(HOTEL), Move.TRY_AGAIN)
    assert told.action(do(HOTEL)).policy_row is not None
    told.does(do(HOTEL))
    assert told.statuses[1] == ("completed", "blocked")


def test_what_waits_is_left_alone_while_its_operation_is_gone() -> None:
    """It may be back by its turn."""
    told = Travelling()
    config = told.known.config
    without = tuple(one for one in config.catalogue.operations if one.name != "payout")
    told.known = told.known.under(
        replace(config, catalogue=replace(config.catalogue, operations=without))
    )
    told.says(x.tick(), later_ms=1_000)
    assert told.action(undo(CAR)).status is Status.BLOCKED
