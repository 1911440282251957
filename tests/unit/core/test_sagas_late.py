"""Effects of a failed step that come to light late: once a person has taken note of one it is there
to be undone like any other, and the plan never goes forward again.
"""

from gateway.http.saga_views import saga_view
from ledger.core import inputs as i
from ledger.core.order import has_something_to_undo
from ledger.core.sagas import SagaStatus
from ledger.core.statement import Move
from tests import examples as x
from tests.examples_of_sagas import ITEMS, cancel_trip, do, plan, step, undo
from tests.travelling import NO, Travelling

FLIGHT, HOTEL, CAR = ITEMS


def told_late(opened: i.OpenSaga | None = None) -> Travelling:
    """The car was refused for good, and then its provider tells of its effect."""
    told = Travelling(opened)
    told.does(do(FLIGHT))
    told.does(do(HOTEL))
    told.does(do(CAR), NO)
    told.says(x.found_out(i.Meaning.EFFECT, key=do(CAR), lookup=None, reference="car-1"))
    return told


def test_until_a_person_has_looked_nothing_more_is_undone() -> None:
    """Nobody knows yet whether the car is there, and the hotel goes after it."""
    told = told_late()
    assert told.has_come_to(SagaStatus.STUCK)
    assert told.saga.to_undo is None
    told.says(x.tick(), key=undo(HOTEL))
    assert not any(key.startswith("payout") for key in told.started())


def test_an_effect_that_was_noted_late_is_a_persons_where_its_undo_is_called_off() -> None:
    """The saga does not count as undone while the effect stands: what was planned to undo it had
    ended with the step, so a person takes it over, and then the rest is undone.
    """
    told = told_late()
    told.settles(do(CAR), Move.ACKNOWLEDGE)
    assert told.has_come_to(SagaStatus.STUCK)
    assert told.saga.to_do is None
    case = told.action(undo(CAR)).case
    assert case is not None
    assert (case.reason, case.names) == ("compensation_failed", do(CAR))
    told.settles(undo(CAR), Move.ACKNOWLEDGE)
    assert told.has_come_to(SagaStatus.COMPENSATING)
    told.does(undo(HOTEL))
    told.does(undo(FLIGHT))
    assert told.has_come_to(SagaStatus.COMPENSATED)
    assert told.count("review.opened", undo(CAR)) == 1


def test_an_effect_that_was_noted_late_is_a_persons_where_no_undo_was_planned() -> None:
    """The step itself has the case; and however often a person looks, its effect stays there to be
    undone by whoever asks for that.
    """
    told = told_late(plan(step(FLIGHT), step(HOTEL), step(CAR, compensation=None)))
    told.settles(do(CAR), Move.ACKNOWLEDGE)
    assert told.has_come_to(SagaStatus.STUCK)
    case = told.action(do(CAR)).case
    assert case is not None
    assert case.reason == "compensation_failed"
    assert has_something_to_undo(told.action(do(CAR)))
    told.settles(do(CAR), Move.ACKNOWLEDGE)
    assert has_something_to_undo(told.action(do(CAR)))
    told.says(x.propose(undo(CAR), compensates=do(CAR)))
    assert told.action(undo(CAR)).compensates == do(CAR)
    told.does(undo(HOTEL))
    told.does(undo(FLIGHT))
    assert told.has_come_to(SagaStatus.COMPENSATED)


def test_a_saga_whose_only_failed_step_had_its_effect_after_all_never_goes_forward_again() -> None:
    """The first step was refused, the others were called off: they stay so, and the saga is not
    to be cancelled again.
    """
    told = Travelling()
    told.does(do(FLIGHT), NO)
    assert told.has_come_to(SagaStatus.COMPENSATED)
    told.says(x.found_out(i.Meaning.EFFECT, key=do(FLIGHT), lookup=None, reference="flight-1"))
    told.settles(do(FLIGHT), Move.ACKNOWLEDGE)
    assert told.has_come_to(SagaStatus.STUCK)
    assert told.saga.is_unwinding
    assert told.saga.to_do is None
    told.says(cancel_trip()).then_unchanged("already_cancelled")
    told.settles(undo(FLIGHT), Move.ACKNOWLEDGE)
    assert told.has_come_to(SagaStatus.COMPENSATED)
    assert told.started() == [do(FLIGHT)]


def test_a_plan_of_one_step_that_had_its_effect_after_all_is_not_completed() -> None:
    """No step is left that came to nothing, and still it unwinds: its caller was told that it came
    to nothing.
    """
    told = Travelling(plan(step(FLIGHT)))
    told.does(do(FLIGHT), NO)
    told.says(x.found_out(i.Meaning.EFFECT, key=do(FLIGHT), lookup=None, reference="flight-1"))
    told.settles(do(FLIGHT), Move.ACKNOWLEDGE)
    assert not told.saga.steps[0].has_no_effect
    assert told.saga.is_unwinding
    assert told.has_come_to(SagaStatus.STUCK)


def test_what_is_told_once_more_is_looked_at_once_more() -> None:
    """A second effect of the same step comes to light while the first has its person: it is a case
    of its own, and nothing is undone before both are settled.
    """
    told = told_late()
    told.settles(do(CAR), Move.ACKNOWLEDGE)
    told.says(x.found_out(i.Meaning.EFFECT, key=do(CAR), lookup=None, source="evt_2"))
    told.settles(undo(CAR), Move.ACKNOWLEDGE)
    assert told.has_come_to(SagaStatus.STUCK)
    told.says(x.tick(), key=undo(HOTEL))
    assert undo(HOTEL) not in told.started()
    told.settles(do(CAR), Move.ACKNOWLEDGE)
    told.does(undo(HOTEL))
    told.does(undo(FLIGHT))
    assert told.has_come_to(SagaStatus.COMPENSATED)


def test_an_undo_whose_effect_was_noted_late_has_undone_its_step() -> None:
    """It was refused and a person took the hotel over; then its provider tells that it is undone:
    the step is settled, and nobody is asked a third time.
    """
    told = Travelling()
    told.does(do(FLIGHT))
    told.does(do(HOTEL))
    told.does(do(CAR), NO)
    told.does(undo(HOTEL), NO)
    told.settles(undo(HOTEL), Move.ACKNOWLEDGE)
    told.says(x.found_out(i.Meaning.EFFECT, key=undo(HOTEL), lookup=None, reference="back-1"))
    assert told.has_come_to(SagaStatus.STUCK)
    told.settles(undo(HOTEL), Move.ACKNOWLEDGE)
    assert told.action(undo(HOTEL)).case is None
    assert told.has_come_to(SagaStatus.COMPENSATING)
    told.does(undo(FLIGHT))
    assert told.has_come_to(SagaStatus.COMPENSATED)


def test_what_was_noted_late_is_shown_as_what_it_is() -> None:
    """The cause stays named, and the step is needed back until a person has taken it over."""
    told = told_late()
    told.settles(do(CAR), Move.ACKNOWLEDGE)
    shown = saga_view(told.saga)
    assert f"step 3, {do(CAR)}, is failed" in shown.sentence
    assert f"A person has to settle {undo(CAR)}." in shown.sentence
    assert shown.steps[2].undone == "needed"
    told.settles(undo(CAR), Move.ACKNOWLEDGE)
    assert saga_view(told.saga).steps[2].undone == "by_a_person"
