"""Refunds over several payments: a plan that is checked whole before its first call."""

import pytest

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.inputs import Retry
from ledger.core.rejections import Rejection
from ledger.core.sagas import SagaStatus
from ledger.core.state import Status
from tests import examples as x
from tests.examples_of_sagas import plan, trip
from tests.unit.core.beside import Event, eur, world

FIRST, SECOND = f"{x.CHARGE}#p1", f"{x.CHARGE}#p2"
UNDO_FIRST, UNDO_SECOND = f"{x.PAYOUT}#p1", f"{x.PAYOUT}#p2"
LOOK_AT_FIRST, LOOK_AT_SECOND = f"{x.NOTE}#p1", f"{x.NOTE}#p2"


def refund(key: str, original: str, minor: int) -> i.PlannedStep:
    """One payment is given back."""
    request = x.request(key, money=eur(minor))
    return i.PlannedStep(key=key, request=request, compensates=original)


def look(key: str) -> i.PlannedStep:
    """What the provider has of one payment is read."""
    return i.PlannedStep(key=key, request=x.request(key))


def paid(config: Config | None = None) -> Event:
    """Two payments of one order, of 20 and of 30 euros."""
    event = Event(config)
    for key, minor, reference in ((FIRST, 2_000, "ch_p1"), (SECOND, 3_000, "ch_p2")):
        event.propose(key, money=eur(minor))
        event.goes_on()
        event.reports(key, x.success(reference))
    return event


REFUNDS = (refund(UNDO_FIRST, FIRST, 2_000), refund(UNDO_SECOND, SECOND, 3_000))


@pytest.mark.case("C133")
def test_c133_a_refund_of_several_payments_is_refused_whole_before_its_first_call() -> None:
    """C133: of the second payment five euros were given back before. Nothing of the plan is
    recorded, and the refusal names the step and what is left of it.
    """
    event = paid()
    event.propose(f"{UNDO_SECOND}-before", compensates=SECOND, money=eur(500))
    event.goes_on()
    event.reports(f"{UNDO_SECOND}-before", x.success("re_outside"))
    before = event.known.stream
    event.take(plan(*REFUNDS))
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    (detail,) = event.details
    assert detail.path == "/steps/1/money"
    assert detail.message == "25.00 EUR of 30.00 EUR is left"
    assert event.known.stream == before
    event.take(plan(REFUNDS[0], refund(UNDO_SECOND, SECOND, 2_500)))
    assert event.refusal() is None


@pytest.mark.case("C133")
def test_c133_what_only_the_provider_knows_is_read_of_every_payment_first() -> None:
    """C133: the five euros were given back outside. The plan reads each payment before it gives any
    back: the second reading is refused, no refund is ever sent, and the plan shows by which step
    and why.
    """
    event = paid(world(kind="read"))
    event.take(plan(look(LOOK_AT_FIRST), look(LOOK_AT_SECOND), *REFUNDS), acts=True)
    event.goes_on()
    event.reports(LOOK_AT_FIRST, x.success("seen_p1"))
    event.goes_on()
    event.reports(LOOK_AT_SECOND, x.refusal("partly_refunded_outside", Retry.NEVER))
    assert event.goes_on() == []
    saga = trip(event.known.stream)
    assert saga.status is SagaStatus.COMPENSATED
    assert [one.action.status for one in saga.steps] == [
        Status.COMPLETED,
        Status.FAILED,
        Status.CANCELLED,
        Status.CANCELLED,
    ]
    assert event.action(LOOK_AT_SECOND).code == "partly_refunded_outside"
    assert event.count("attempt.started", UNDO_FIRST) == 0


def test_a_plan_of_refunds_gives_each_payment_back_under_its_own_name() -> None:
    """One after the other, each naming to the provider what it undoes."""
    event = paid()
    event.take(plan(*REFUNDS), acts=True)
    for key in (UNDO_FIRST, UNDO_SECOND):
        event.goes_on()
        event.reports(key, x.success(f"re_{key[-2:]}"))
    assert trip(event.known.stream).status is SagaStatus.COMPLETED
    named = {
        fact.action: fact.original_reference
        for fact in event.facts
        if fact.type == "attempt.started"
    }
    assert (named[UNDO_FIRST], named[UNDO_SECOND]) == ("ch_p1", "ch_p2")


def test_the_same_plan_for_another_payment_is_a_conflict() -> None:
    """What a step undoes is part of what was planned."""
    event = paid()
    event.take(plan(refund(UNDO_FIRST, FIRST, 500)))
    event.take(plan(refund(UNDO_FIRST, SECOND, 500)))
    assert event.refusal() is Rejection.CONFLICTED
    assert [one.path for one in event.details] == ["/steps/0/compensates"]


def test_a_step_waits_for_the_payment_that_it_undoes() -> None:
    """The second payment is not settled yet when its turn comes."""
    event = Event()
    event.completes(FIRST)
    event.start(SECOND)
    event.reports(SECOND, x.no_answer())
    both = (refund(UNDO_FIRST, FIRST, 500), refund(UNDO_SECOND, SECOND, 500))
    event.take(plan(*both), acts=True)
    event.goes_on()
    event.reports(UNDO_FIRST, x.success("re_p1"))
    blocked = event.action(UNDO_SECOND).blocked
    assert blocked is not None
    assert (blocked.reason, blocked.by) == ("original_open", SECOND)
    event.take(x.found_out(i.Meaning.EFFECT, key=SECOND, lookup=None))
    assert event.goes_on() == ["attempt.started"]


def test_what_undoes_a_step_is_called_off_with_the_saga_that_it_is_of() -> None:
    """The agent registered it itself, beside the plan: it waits for nothing any more."""
    event = Event()
    event.take(plan(look(LOOK_AT_FIRST), i.PlannedStep(key=FIRST, request=x.request(FIRST))))
    event.propose(UNDO_FIRST, compensates=FIRST)
    assert event.action(UNDO_FIRST).status is Status.BLOCKED
    event.goes_on()
    event.reports(LOOK_AT_FIRST, x.refusal("gone", Retry.NEVER))
    assert event.action(FIRST).status is Status.CANCELLED
    assert event.action(UNDO_FIRST).status is Status.CANCELLED
