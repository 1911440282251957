"""What was to give an effect back and came to nothing: a refund that failed after it had succeeded,
a dispute that was won. The effect stays, and its amount is there to be given back.
"""

from itertools import permutations

import pytest

from ledger.core import inputs as i
from ledger.core.money import Money
from ledger.core.proof import given_back
from ledger.core.rejections import Rejection
from ledger.core.reversals import reversed_minor
from ledger.core.state import Action, Status
from ledger.core.statement import Move
from tests import examples as x
from tests.property.test_evidence_laws import BASES, Piece, told
from tests.unit.core.beside import Event

ALL = Money(minor=4_990, currency="EUR")


def says(meaning: i.Meaning, name: str, money: Money = ALL) -> i.Evidence:
    """What a webhook tells of a refund or a dispute of the charge."""
    said = x.found_out(meaning, lookup=None, reference=name, source=f"{meaning} {name}")
    return said.model_copy(
        update={"kind": i.EvidenceKind.WEBHOOK, "money": money, "reverses": x.REFERENCE}
    )


DONE = x.report(x.success(x.REFERENCE))
BACK, NOT_BACK = says(i.Meaning.REVERSED, "re_1"), says(i.Meaning.NO_EFFECT, "re_1")


def after(*said: i.Evidence | i.Report) -> Action:
    """The charge once all of this was told."""
    return told(BASES["running"], [Piece("", one) for one in said])


@pytest.mark.parametrize("order", list(permutations([DONE, BACK, NOT_BACK])))
def test_what_did_not_come_back_is_not_counted(order: tuple[i.Evidence | i.Report, ...]) -> None:
    """In every order the charge stands, and nothing of it is known to have been given back."""
    action = after(*order)
    assert action.status is Status.COMPLETED
    assert (given_back(action), reversed_minor(action)) == ((), 0)
    reasons = frozenset() if action.case is None else action.case.reasons
    assert reasons <= {"reversed_elsewhere"}


def test_whoever_was_told_that_it_came_back_is_told_that_it_did_not() -> None:
    """With what is left of it."""
    action = after(DONE, BACK)
    assert action.case is not None
    assert action.case.names == "49.90 EUR of 49.90 EUR: re_1"
    part = says(i.Meaning.REVERSED, "re_1", Money(minor=3_000, currency="EUR"))
    other = says(i.Meaning.REVERSED, "dp_1", Money(minor=1_200, currency="EUR"))
    for said, names in (
        ([BACK, NOT_BACK], "0.00 EUR of 49.90 EUR: not re_1"),
        ([part, other, NOT_BACK], "12.00 EUR of 49.90 EUR: dp_1; not re_1"),
    ):
        case = after(DONE, *said).case
        assert case is not None
        assert case.names == names


def test_what_is_told_to_have_come_back_after_all_is_a_persons() -> None:
    """A dispute that was won is lost in a second round: nobody was told, since its name was known
    to have come to nothing. A statement of the month repeats both words, and calls nobody.
    """
    event = Event()
    event.completes(x.CHARGE)
    event.take(says(i.Meaning.REVERSED, "dp_1"))
    event.settles(x.CHARGE, Move.ACKNOWLEDGE)
    event.take(says(i.Meaning.NO_EFFECT, "dp_1"))
    event.settles(x.CHARGE, Move.ACKNOWLEDGE)
    again = says(i.Meaning.REVERSED, "dp_1").model_copy(update={"source_id": "again"})
    line = again.model_copy(update={"kind": i.EvidenceKind.SETTLEMENT, "source_id": "line"})
    event.take(line)
    assert event.action(x.CHARGE).case is None
    event.take(again)
    case = event.action(x.CHARGE).case
    assert case is not None
    assert (case.reason, case.names) == (
        "reversed_elsewhere",
        "0.00 EUR of 49.90 EUR: dp_1 told both ways",
    )
    event.settles(x.CHARGE, Move.ACKNOWLEDGE)
    event.take(again)
    assert event.action(x.CHARGE).case is None
    assert reversed_minor(event.action(x.CHARGE)) == 0


def test_a_refund_of_somebody_elses_that_fails_fails_no_open_action() -> None:
    """It speaks of the giving back, and not of the attempt."""
    assert after(NOT_BACK).status is Status.ATTEMPTING
    assert told(BASES["asked"], [Piece("", NOT_BACK)]).status is Status.UNKNOWN


@pytest.mark.parametrize("reverses", [None, "ch_1", "re_own"])
def test_a_refund_of_our_own_that_fails_after_all_is_a_persons(reverses: str | None) -> None:
    """Whatever it was to give back: the word is about its own effect, in either order."""
    failed = says(i.Meaning.NO_EFFECT, "re_own").model_copy(update={"reverses": reverses})
    done = x.report(x.success("re_own"))
    for order in ((done, failed), (failed, done)) if reverses is None else ((done, failed),):
        action = after(*order)
        assert action.case is not None
        assert action.case.reasons == {"evidence_conflicts"}


def test_what_has_no_name_is_kept_and_takes_nothing_back() -> None:
    """Nobody can say which of what came back it is."""
    nameless = NOT_BACK.model_copy(update={"reference": None})
    action = after(DONE, BACK, nameless)
    assert reversed_minor(action) == ALL.minor
    assert action.case is not None
    assert action.case.names == "49.90 EUR of 49.90 EUR: re_1"


def test_what_moves_to_give_an_effect_back_says_nothing_against_it() -> None:
    """A dispute is open for months; what an absence closes it closes all the same."""
    moving = says(i.Meaning.PENDING, "dp_1")
    action = told(BASES["asked"], [Piece("", moving), Piece("", x.found_out(i.Meaning.ABSENT))])
    assert action.case is None


@pytest.mark.case("C135")
def test_c135_what_came_back_to_us_may_be_given_back_again() -> None:
    """C135: a refund at the provider's desk that is cancelled later leaves the whole amount to a
    compensation.
    """
    event = Event()
    event.propose(x.CHARGE, acts=True)
    event.take(DONE)
    event.take(BACK)
    event.take(NOT_BACK)
    assert reversed_minor(event.action(x.CHARGE)) == 0
    event.propose("payout:v1:acme:renewal-1", compensates=x.CHARGE)
    assert event.refusal() is None


@pytest.mark.parametrize(
    ("gone", "refusal"),
    [
        (("re_2",), Rejection.COMPENSATION_EXCEEDS),
        (("re_1",), Rejection.COMPENSATION_EXCEEDS),
        (("re_1", "re_2"), None),
    ],
)
def test_of_a_refund_that_was_done_twice_the_one_that_stands_counts(
    gone: tuple[str, ...], refusal: Rejection | None
) -> None:
    """Family late: the provider refunded twice and took one of both back. A person took note of
    each, and the money is with the customer still: it is not free to be refunded once more.
    """
    event, undo = Event(), x.PAYOUT
    event.completes(x.CHARGE)
    event.propose(undo, compensates=x.CHARGE)
    event.goes_on()
    event.reports(undo, x.success("re_1"))
    event.take(x.found_out(i.Meaning.EFFECT, key=undo, lookup=None, reference="re_2", source="w2"))
    event.settles(undo, Move.ACKNOWLEDGE)
    for name in gone:
        no = x.found_out(i.Meaning.NO_EFFECT, key=undo, lookup=None, reference=name, source=name)
        event.take(no)
        event.settles(undo, Move.ACKNOWLEDGE)
    event.propose(f"{undo}~2", compensates=x.CHARGE, revises=undo)
    assert event.refusal() is refusal
