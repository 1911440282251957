"""Sagas that come to nothing: what is open is settled first, what is done is undone in reverse, and
what cannot be undone is a person's.
"""

from dataclasses import replace

import pytest

from ledger.core import inputs as i
from ledger.core.decide.gate_demands import identity_of
from ledger.core.money import Money
from ledger.core.rejections import Rejection
from ledger.core.sagas import SagaStatus
from ledger.core.state import Status
from ledger.core.statement import Move, Say
from tests import asking
from tests import examples as x
from tests.examples_of_sagas import (
    AGENT,
    ITEMS,
    cancel_trip,
    do,
    plan,
    planned,
    step,
    under,
    undo,
)
from tests.travelling import FOUND_OUT_MS, LATER, LOST, NO, YES, Travelling
from tests.unit.core.language import Story

FLIGHT, HOTEL, CAR = ITEMS
WAITS = ("blocked", "blocked")


# --- coming to nothing ---------------------------------------------------------------------------


def two_done(opened: i.OpenSaga | None = None) -> Travelling:
    """Flight and hotel are booked."""
    told = Travelling(opened)
    told.does(do(FLIGHT))
    told.does(do(HOTEL))
    return told


def test_what_is_done_is_undone_in_reverse_each_once_the_one_after_it_is() -> None:
    """A step that failed for good has nothing to undo; the hotel goes before the flight."""
    told = two_done()
    told.does(do(CAR), NO)
    assert told.statuses == [
        ("completed", "blocked"),
        ("completed", "ready"),
        ("failed", "cancelled"),
    ]
    assert told.has_come_to(SagaStatus.COMPENSATING)
    told.does(undo(HOTEL), LATER)
    assert told.statuses[0] == ("completed", "blocked")
    told.says(x.tick(), later_ms=x.BACKOFF_MAX_MS)
    told.does(undo(HOTEL))
    assert told.statuses[0] == ("completed", "ready")
    told.does(undo(FLIGHT))
    assert told.has_come_to(SagaStatus.COMPENSATED)
    undone = [key for key in dict.fromkeys(told.started()) if key.startswith("payout")]
    assert undone == [undo(HOTEL), undo(FLIGHT)]


def test_what_undoes_one_step_is_not_suspected_of_what_undoes_another() -> None:
    """Steps of the same amount are undone by requests that are alike, and each of them is meant."""
    told = two_done()
    careful = under(look_alike_window_ms=60_000).operation("payout", 1)
    assert identity_of(told.action(do(FLIGHT)), careful).look_alike_ms == 60_000
    assert identity_of(told.action(undo(FLIGHT)), careful).look_alike_ms == 0


def test_where_the_first_step_comes_to_nothing_there_is_nothing_to_undo() -> None:
    """The others are called off, and the saga has come to its end."""
    told = Travelling()
    told.does(do(FLIGHT), NO)
    assert told.statuses == [("failed", "cancelled")] + [("cancelled", "cancelled")] * 2
    assert told.has_come_to(SagaStatus.COMPENSATED)
    assert told.action(do(CAR)).code == "saga_called_off"


def test_a_step_that_may_have_its_effect_is_settled_before_anything_is_undone() -> None:
    """The caller calls off the trip while nobody knows of the hotel: it is found out first, and
    then undone before the flight.
    """
    told = Travelling()
    told.does(do(FLIGHT))
    told.does(do(HOTEL), LOST)
    told.says(cancel_trip())
    assert told.statuses == [
        ("completed", "blocked"),
        ("unknown", "blocked"),
        ("cancelled", "cancelled"),
    ]
    told.finds(do(HOTEL), i.Meaning.EFFECT)
    assert told.statuses[:2] == [("completed", "blocked"), ("completed", "ready")]
    told.does(undo(HOTEL))
    told.does(undo(FLIGHT))
    assert told.has_come_to(SagaStatus.COMPENSATED)


def test_a_step_whose_effect_is_surely_absent_is_not_tried_again_once_the_saga_unwinds() -> None:
    """Its provider says that there is none: it is called off, and the flight is undone."""
    told = Travelling()
    told.does(do(FLIGHT))
    told.does(do(HOTEL), LOST)
    told.says(cancel_trip())
    told.finds(do(HOTEL), i.Meaning.ABSENT)
    assert told.statuses[:2] == [("completed", "ready"), ("cancelled", "cancelled")]
    assert told.started().count(do(HOTEL)) == 1


def test_an_attempt_that_runs_when_the_saga_is_cancelled_counts_for_what_it_does() -> None:
    """What has left cannot be called back: it is undone."""
    told = Travelling()
    told.begins(do(FLIGHT))
    told.says(cancel_trip())
    assert told.statuses == [("attempting", "blocked")] + [("cancelled", "cancelled")] * 2
    told.does(do(FLIGHT))
    assert told.statuses[0] == ("completed", "ready")


def test_a_step_that_waits_for_another_try_is_called_off_with_its_saga() -> None:
    """So far it had no effect for certain, and now it will have none."""
    told = Travelling()
    told.does(do(FLIGHT), LATER)
    told.says(cancel_trip())
    assert told.statuses[0] == ("cancelled", "cancelled")
    assert told.has_come_to(SagaStatus.COMPENSATED)


def test_cancelling_one_step_calls_off_the_saga() -> None:
    """A plan without one of its steps is not the plan that was asked for."""
    told = two_done()
    told.says(x.cancel(do(CAR)))
    assert told.statuses[1] == ("completed", "ready")


def test_a_saga_can_be_cancelled_only_while_something_has_not_begun() -> None:
    """Nobody calls off what is done, or what nobody knows yet."""
    assert Travelling().refused(cancel_trip(saga="other")).code is Rejection.UNKNOWN_SAGA
    told = two_done()
    told.begins(do(CAR))
    assert told.refused(cancel_trip()).code is Rejection.ATTEMPT_OPEN
    told.does(do(CAR))
    assert told.refused(cancel_trip()).code is Rejection.ALREADY_FINAL
    again = Travelling()
    again.says(cancel_trip())
    again.says(cancel_trip()).then_unchanged("already_cancelled")


def test_a_planned_compensation_cannot_be_cancelled_alone() -> None:
    """Who could take away the undo could leave half of a plan behind."""
    told = two_done()
    assert told.refused(x.cancel(undo(HOTEL))).code is Rejection.COMPENSATION_PLANNED
    told.does(do(CAR), NO)
    assert told.refused(x.cancel(undo(HOTEL))).code is Rejection.COMPENSATION_PLANNED


def test_the_callers_time_bounds_every_step_and_no_undo() -> None:
    """What has not begun in time expires; what undoes the rest takes the time that it needs."""
    told = Travelling(plan(step_ms=60_000))
    told.does(do(FLIGHT))
    told.says(x.tick(), later_ms=60_000)
    assert told.statuses == [
        ("completed", "ready"),
        ("expired", "cancelled"),
        ("expired", "cancelled"),
    ]
    told.says(x.tick(), later_ms=x.STEP_MS - 1)
    told.does(undo(FLIGHT))
    assert told.has_come_to(SagaStatus.COMPENSATED)


def test_a_person_who_denies_a_step_calls_off_the_saga() -> None:
    """A denial is an end without an effect like any other."""
    asks = asking.policy(asking.asked("charge") + asking.EVERYTHING_GOES_AHEAD)
    told = Travelling(config=under(asks))
    told.at += 1_000
    said = asking.statement(
        told.action(do(FLIGHT)), "ada", Say.DENY, ledger="generation-1", at=x.T0 + told.at
    )
    people = told.known.config.people
    told.says(asking.judged(asking.judge(said), people, at=x.T0 + told.at, ledger="generation-1"))
    assert told.statuses[0] == ("denied", "cancelled")
    assert told.has_come_to(SagaStatus.COMPENSATED)


def test_a_step_in_review_waits_for_its_person_before_anything_is_undone() -> None:
    """An e-mail whose answer was lost has no way to be found out; a person says there was none."""
    mail = f"{x.EMAIL}#mail"
    steps = (step(FLIGHT), i.PlannedStep(key=mail, request=x.request(mail)), step(CAR))
    told = Travelling(plan(*steps))
    told.does(do(FLIGHT))
    told.does(mail, LOST)
    assert told.action(mail).status is Status.NEEDS_REVIEW
    told.says(cancel_trip())
    assert told.has_come_to(SagaStatus.COMPENSATING)
    assert told.statuses[0] == ("completed", "blocked")
    told.at += FOUND_OUT_MS
    told.settles(mail, Move.NO_EFFECT)
    assert told.statuses[:2] == [("completed", "ready"), ("failed", None)]


def test_a_person_cannot_try_again_what_its_saga_has_called_off() -> None:
    """The case is settled, the action is called off in the same decision, and never starts."""
    mail = f"{x.EMAIL}#mail"
    steps = (step(FLIGHT), i.PlannedStep(key=mail, request=x.request(mail)), step(CAR))
    told = Travelling(plan(*steps))
    told.does(do(FLIGHT))
    told.begins(mail)
    for _ in range(9):
        action = told.action(mail)
        if action.case is not None:
            break
        attempt = told.begins(mail).attempts[-1]
        told.says(x.decline(key=mail, attempt=attempt.number, holder=attempt.holder))
        told.says(x.tick(), later_ms=x.BACKOFF_MAX_MS)
    told.says(cancel_trip())
    begun = len(told.started())
    told.settles(mail, Move.TRY_AGAIN)
    assert told.action(mail).status is Status.CANCELLED
    assert len(told.started()) == begun
    assert told.statuses[0] == ("completed", "ready")


# --- stuck ---------------------------------------------------------------------------------------


def stuck() -> Travelling:
    """The hotel cannot be cancelled."""
    told = two_done()
    told.does(do(CAR), NO)
    told.does(undo(HOTEL), NO)
    return told


def test_a_compensation_that_fails_for_good_stops_the_saga_for_a_person() -> None:
    """It has a case that names the step, and the flight is not undone behind its back."""
    told = stuck()
    assert told.has_come_to(SagaStatus.STUCK)
    case = told.action(undo(HOTEL)).case
    assert case is not None
    assert (case.reason, case.names) == ("compensation_failed", do(HOTEL))
    assert told.statuses[0] == ("completed", "blocked")


def test_a_person_who_has_settled_it_lets_the_saga_go_on() -> None:
    """What is before it is undone, and nothing of it is asked twice."""
    told = stuck()
    told.settles(undo(HOTEL), Move.ACKNOWLEDGE)
    assert told.has_come_to(SagaStatus.COMPENSATING)
    told.does(undo(FLIGHT))
    assert told.has_come_to(SagaStatus.COMPENSATED)
    assert told.count("review.opened", undo(HOTEL)) == 1


def test_a_compensation_that_is_not_known_is_waited_for() -> None:
    """Unknown is not undone: the flight is not touched before the hotel is settled."""
    told = two_done()
    told.does(do(CAR), NO)
    told.does(undo(HOTEL), LOST)
    assert told.statuses[:2] == [("completed", "blocked"), ("completed", "unknown")]
    told.finds(undo(HOTEL), i.Meaning.EFFECT)
    assert told.statuses[0] == ("completed", "ready")


def test_an_effect_that_nothing_was_planned_to_undo_needs_a_person() -> None:
    """Never passed over in silence: the completed step has a case until somebody takes note."""
    told = two_done(plan(step(FLIGHT), step(HOTEL, compensation=None), step(CAR)))
    told.does(do(CAR), NO)
    assert told.has_come_to(SagaStatus.STUCK)
    case = told.action(do(HOTEL)).case
    assert case is not None
    assert case.reason == "compensation_failed"
    told.settles(do(HOTEL), Move.ACKNOWLEDGE)
    assert told.statuses[:2] == [("completed", "ready"), ("completed", None)]
    told.does(undo(FLIGHT))
    assert told.has_come_to(SagaStatus.COMPENSATED)


def test_what_only_reads_has_nothing_to_undo() -> None:
    """A step without an effect on the world needs no compensation, and no person."""
    reading = under()
    operations = tuple(
        one.model_copy(update={"kind": "read"}) if one.name == "note" else one
        for one in reading.catalogue.operations
    )
    config = replace(reading, catalogue=replace(reading.catalogue, operations=operations))
    look = i.PlannedStep(key=x.NOTE, request=x.request(x.NOTE))
    told = Travelling(plan(step(FLIGHT), look, step(CAR)), config)
    told.does(do(FLIGHT))
    told.does(x.NOTE)
    told.does(do(CAR), NO)
    assert told.statuses[:2] == [("completed", "ready"), ("completed", None)]


def test_a_saga_pauses_while_a_step_of_it_has_a_case() -> None:
    """A second effect of the flight came to light: nothing new begins before it is settled."""
    told = Travelling()
    told.does(do(FLIGHT))
    told.begins(do(HOTEL))
    told.says(x.found_out(i.Meaning.EFFECT, key=do(FLIGHT), lookup=None, reference="another-one"))
    assert told.action(do(FLIGHT)).case is not None
    told.does(do(HOTEL))
    assert told.statuses[2] == WAITS
    told.settles(do(FLIGHT), Move.ACKNOWLEDGE)
    assert told.statuses[2] == ("ready", "blocked")


# --- cases ---------------------------------------------------------------------------------------


@pytest.mark.case("C131")
def test_c131_neither_a_step_nor_its_undo_counts_as_done_before_it_is_known() -> None:
    """C131: confirm answers 500, and so does its undo: each is unknown, not completed, and each is
    verified before the next.
    """
    told = Travelling()
    told.does(do(FLIGHT))
    told.does(do(HOTEL), i.NoAnswer(code="http_500"))
    assert told.statuses == [("completed", "blocked"), ("unknown", "blocked"), WAITS]
    told.finds(do(HOTEL), i.Meaning.EFFECT)
    told.does(do(CAR), NO)
    told.does(undo(HOTEL), i.NoAnswer(code="http_500"))
    assert told.statuses[:2] == [("completed", "blocked"), ("completed", "unknown")]
    told.finds(undo(HOTEL), i.Meaning.EFFECT)
    assert told.statuses[:2] == [("completed", "ready"), ("completed", "completed")]


@pytest.mark.case("C139")
def test_c139_every_effect_of_a_plan_is_undone_or_the_saga_is_stuck() -> None:
    """C139: a charge of 1000 is 900 to one and 100 to another: the plan lists both, and either all
    of it is undone or the saga says that it is stuck.
    """

    def share(item: str, minor: int) -> i.PlannedStep:
        money = Money(minor=minor, currency="EUR")
        return step(
            item,
            request=x.request(do(item), money=money),
            compensation=planned(undo(item), money=money),
        )

    shares = plan(share("seller", 900), share("commission", 100), step(CAR))
    told = Travelling(shares)
    told.does(do("seller"))
    told.does(do("commission"))
    told.does(do(CAR), NO)
    assert told.has_come_to(SagaStatus.COMPENSATING)
    told.does(undo("commission"), NO)
    assert told.has_come_to(SagaStatus.STUCK)
    told.settles(undo("commission"), Move.ACKNOWLEDGE)
    told.does(undo("seller"), YES)
    booked = [one for one in told.saga.actions if one.status is Status.COMPLETED]
    left = sum(
        (-1 if one.compensates else 1) * one.request.money.minor
        for one in booked
        if one.request.money is not None
    )
    assert left == 100
    assert told.action(undo("commission")).review == "compensation_failed"
    assert AGENT in {one.request.principal for one in booked}


@pytest.mark.case("C139")
def test_c139_a_plan_that_would_leave_a_share_where_it_went_is_refused() -> None:
    """C139: what is planned undoes all of it, or there is no plan."""
    short = planned(undo(CAR), money=Money(minor=900, currency="EUR"))
    story = Story(under())
    story.hears(plan(step(CAR, compensation=short))).then_rejected(Rejection.SAGA_UNFIT)


def test_the_amounts_of_a_plan_that_is_refused_are_written_as_people_write_them() -> None:
    """Family `money`, beside C139: a person is told of 49.90 and 9.00 euro, not of cents as if they
    were euro.
    """
    short = planned(undo(CAR), money=Money(minor=900, currency="EUR"))
    refused = Story(under()).hears(plan(step(CAR, compensation=short))).decided.refused
    assert refused is not None
    (detail,) = refused.details
    assert "moves 49.90 EUR, and this 9.00 EUR" in detail.message


@pytest.mark.case("C139")
def test_c139_what_was_taken_in_another_amount_is_not_undone_in_that_of_the_plan() -> None:
    """C139: the flight took 4.99 of 49.90, and the hotel came to nothing. The undo that was planned
    would give back more than was taken: the saga is stuck until a person has settled that.
    """
    told = Travelling()
    told.does(do(FLIGHT), LOST)
    other = x.found_out(i.Meaning.EFFECT, key=do(FLIGHT), lookup=None, money=x.EUR_499)
    told.says(other)
    told.settles(do(FLIGHT), Move.EFFECT_EXISTS)
    told.does(do(HOTEL), NO)
    assert told.has_come_to(SagaStatus.STUCK)
    case = told.action(undo(FLIGHT)).case
    assert case is not None
    assert (case.reason, case.names) == ("original_amount_differs", do(FLIGHT))
    told.says(x.tick(), key=undo(FLIGHT))
    told.settles(undo(FLIGHT), Move.NO_EFFECT)
    assert told.has_come_to(SagaStatus.STUCK)
    told.settles(undo(FLIGHT), Move.ACKNOWLEDGE)
    assert told.has_come_to(SagaStatus.COMPENSATED)
    assert told.started() == [do(FLIGHT), do(HOTEL)]
