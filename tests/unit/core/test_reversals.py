"""After completion: refunds, disputes and reversals are facts that follow. The action stays what it
is; what came back is known, and what nobody here gave back is a person's.
"""

from itertools import permutations

import pytest

from ledger.core import inputs as i
from ledger.core.facts import ReviewOpened
from ledger.core.inputs import EvidenceKind, Meaning
from ledger.core.limits import INTEGER_MAX, REVERSALS_KEPT_MAX
from ledger.core.money import Money
from ledger.core.proof import reversals_told
from ledger.core.rejections import Rejection
from ledger.core.reversals import reversed_minor
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import examples as x
from tests.examples import CHARGE, PAYOUT
from tests.examples_of_sagas import ITEMS, do
from tests.travelling import Travelling
from tests.unit.core.beside import Event, eur, world

UNDO = PAYOUT
MORE = f"{PAYOUT}#more"
WHOLE = x.EUR_49_90.minor


def given_back(
    minor: int | None,
    name: str = "dp_1",
    *,
    key: str = CHARGE,
    source: str | None = None,
    reverses: str | None = x.REFERENCE,
    kind: EvidenceKind = EvidenceKind.WEBHOOK,
    currency: str = "EUR",
) -> i.Evidence:
    """A provider says that it gave something back."""
    said = x.found_out(
        Meaning.REVERSED, key=key, lookup=None, source=source or f"{kind}:{name}:{minor}"
    )
    money = None if minor is None else Money(minor=minor, currency=currency)
    return said.model_copy(
        update={"kind": kind, "reference": name, "reverses": reverses, "money": money}
    )


def charged() -> Event:
    """The charge has completed."""
    event = Event()
    event.completes(CHARGE)
    return event


def reasons(event: Event, key: str = CHARGE) -> set[str]:
    """Why the action needs a person now."""
    case = event.action(key).case
    return set() if case is None else set(case.reasons)


def names(event: Event, reason: str) -> str | None:
    """What the newest case of a reason is about."""
    opened = [one for one in event.facts if isinstance(one, ReviewOpened) and one.reason == reason]
    return opened[-1].names


@pytest.mark.case("C079")
def test_c079_a_reversal_in_part_leaves_the_rest_and_names_both_amounts() -> None:
    """C079: of 49.90, 12.00 is given back after a dispute. The action stays completed, 37.90 is
    left of it, and a person is told both amounts.
    """
    event = charged()
    assert event.take(given_back(1_200)) == ["evidence.recorded", "review.opened"]
    action = event.action()
    assert action.status is Status.COMPLETED
    assert (reversed_minor(action), WHOLE - reversed_minor(action)) == (1_200, 3_790)
    assert names(event, "reversed_elsewhere") == "12.00 EUR of 49.90 EUR: dp_1"
    assert event.take(given_back(1_200)) == []
    again = given_back(1_200, source="settlement:7", kind=EvidenceKind.SETTLEMENT)
    assert event.take(again) == ["evidence.recorded"]
    assert reversed_minor(event.action()) == 1_200


def test_amounts_whose_sum_no_number_can_be_are_a_case() -> None:
    """A provider says twice that it gave back as much as can be said, and an undo gives back too:
    each is recorded, and a person is told the largest amount there is.
    """
    event = charged()
    event.propose(UNDO, compensates=CHARGE)
    event.take(x.tick(), acts=True)
    event.reports(UNDO, x.success("re_1"))
    for name in ("dp_1", "dp_2"):
        assert event.take(given_back(INTEGER_MAX, name))[0] == "evidence.recorded"
    assert reversed_minor(event.action()) == INTEGER_MAX
    told = names(event, "returned_too_much")
    assert told is not None
    assert told.startswith("90071992547409.91 EUR of 49.90 EUR: dp_1, dp_2")


def test_a_further_reversal_tells_the_person_the_new_sum() -> None:
    """What they sign has to be what is known now; and the next one is a new case."""
    event = charged()
    event.take(given_back(1_200))
    event.take(given_back(300, "dp_2"))
    assert names(event, "reversed_elsewhere") == "15.00 EUR of 49.90 EUR: dp_1, dp_2"
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert event.action().case is None
    assert event.take(x.found_out(Meaning.PENDING, lookup=None, source="webhook:evt_9")) == [
        "evidence.recorded"
    ]
    event.take(given_back(100, "dp_3"))
    assert names(event, "reversed_elsewhere") == "16.00 EUR of 49.90 EUR: dp_1, dp_2, dp_3"


@pytest.mark.parametrize("named", ["by its name", "by our mark"])
def test_what_our_own_compensation_gave_back_surprises_nobody(named: str) -> None:
    """The provider tells of the refund that it confirmed to us, or finds our mark on it."""
    event = charged()
    event.propose(UNDO, compensates=CHARGE)
    event.goes_on()
    event.reports(UNDO, x.success("re_1"))
    key = CHARGE if named == "by its name" else UNDO
    assert event.take(given_back(WHOLE, "re_1", key=key)) == ["evidence.recorded"]
    assert (reasons(event), reasons(event, UNDO)) == (set(), set())


def test_a_refund_that_is_told_before_it_is_confirmed_waits_for_its_answer() -> None:
    """Its name tells whose it is, once that is known; either way nobody is called too early."""
    for reference, expected in (
        ("re_1", set()),
        ("re_2", {"returned_too_much", "reversed_elsewhere"}),
    ):
        event = charged()
        event.propose(UNDO, compensates=CHARGE)
        event.goes_on()
        assert event.take(given_back(WHOLE, "re_1")) == ["evidence.recorded"]
        event.reports(UNDO, x.success(reference))
        assert event.action(UNDO).status is Status.COMPLETED
        assert reasons(event) == expected


def test_our_own_mark_on_what_was_given_back_proves_a_compensation() -> None:
    """Its answer was lost; the refund bears its key: completed, and asked no more."""
    event = charged()
    event.propose(UNDO, compensates=CHARGE)
    event.goes_on()
    event.reports(UNDO, x.no_answer())
    assert event.take(given_back(WHOLE, "re_1", key=UNDO))[-1] == "action.completed"
    assert event.action(UNDO).reference == "re_1"


@pytest.mark.case("C091")
def test_c091_money_that_comes_back_twice_is_told_with_both_names_and_moves_no_more() -> None:
    """C091: the refund is done, then the bank gives the money back as well. Both names, an alarm,
    and nothing of it is given back by ourselves any more.
    """
    event = charged()
    event.propose(UNDO, compensates=CHARGE)
    event.goes_on()
    event.reports(UNDO, x.success("re_1"))
    assert event.take(given_back(WHOLE)) == ["evidence.recorded", "review.opened", "review.opened"]
    assert names(event, "returned_too_much") == "99.80 EUR of 49.90 EUR: dp_1, re_1"
    assert reasons(event) == {"returned_too_much", "reversed_elsewhere"}
    assert event.action().review == "returned_too_much"
    assert event.action().status is Status.COMPLETED
    event.propose(MORE, compensates=CHARGE, money=eur(1))
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS


@pytest.mark.case("C091")
def test_c091_a_refund_that_has_not_begun_waits_for_a_person() -> None:
    """C091: the other order. The bank is first, and the refund that was asked for would be the
    second time: it starts only where a person lets it.
    """
    event = charged()
    event.propose(UNDO, compensates=CHARGE)
    event.take(given_back(1_200))
    assert event.action(UNDO).status is Status.NEEDS_REVIEW
    assert reasons(event, UNDO) == {"returned_already"}
    assert event.goes_on(later=60_000) == []
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert event.goes_on() == []
    assert event.action(UNDO).status is Status.NEEDS_REVIEW
    event.settles(UNDO, Move.ALLOW)
    assert event.goes_on() == ["attempt.started"]


def test_a_refund_of_what_is_left_goes_on_by_itself() -> None:
    """Part of it came back elsewhere; the refund is for less than the rest."""
    event = charged()
    event.propose(UNDO, compensates=CHARGE, money=eur(1_000))
    event.take(given_back(1_200))
    assert event.action(UNDO).status is Status.BLOCKED
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert event.goes_on() == ["attempt.started"]
    event.reports(UNDO, x.success("re_1"))
    event.propose(MORE, compensates=CHARGE, money=eur(WHOLE - 2_199))
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    event.propose(MORE, compensates=CHARGE, money=eur(WHOLE - 2_200))
    assert event.refusal() is None


@pytest.mark.case("C093")
def test_c093_a_dispute_that_was_lost_before_the_success_is_known_ends_as_lost() -> None:
    """C093: the dispute is closed first, and the success comes a second later. In every order the
    effect is there and all of it is gone again; success reopens nothing.
    """
    lost = given_back(WHOLE)
    paid = x.found_out(Meaning.EFFECT, lookup=None, source="webhook:paid")
    answered = x.success()
    for order in permutations(("lost", "paid", "answered")):
        event = Event()
        event.propose(CHARGE)
        event.goes_on()
        for said in order:
            if said == "answered":
                event.reports(CHARGE, answered)
            else:
                event.take(lost if said == "lost" else paid)
        assert event.action().status is Status.COMPLETED, order
        assert reasons(event) == {"reversed_elsewhere"}, order
        assert reversed_minor(event.action()) == WHOLE, order


def test_what_was_given_back_of_what_never_was_is_a_contradiction() -> None:
    """It failed, or was never sent; and something of it was given back."""
    event = Event()
    event.propose(CHARGE)
    event.goes_on()
    event.reports(CHARGE, x.refusal("declined", i.Retry.NEVER))
    event.take(given_back(1_200))
    assert (event.action().status, reasons(event)) == (Status.FAILED, {"evidence_conflicts"})
    event = Event()
    event.propose(CHARGE)
    event.take(given_back(1_200))
    assert reasons(event) == {"effect_without_attempt"}


def test_more_than_was_taken_may_come_back_in_parts() -> None:
    """Two banks, or one twice: together they are more than the charge."""
    event = charged()
    event.take(given_back(3_000))
    assert reasons(event) == {"reversed_elsewhere"}
    event.take(given_back(3_000, "dp_2"))
    assert reasons(event) == {"reversed_elsewhere", "returned_too_much"}
    assert names(event, "returned_too_much") == "60.00 EUR of 49.90 EUR: dp_1, dp_2"


def test_more_refunds_than_are_kept_by_name_are_still_counted() -> None:
    """Seventy small ones: the last are no less money, and one that comes after a person has signed
    is a case again.
    """
    event = charged()
    for number in range(REVERSALS_KEPT_MAX + 5):
        event.take(given_back(72, f"re_{number}"))
    assert reversed_minor(event.action()) == 69 * 72
    assert reasons(event) == {"reversed_elsewhere"}
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    event.take(given_back(72, "re_last"))
    assert reasons(event) == {"reversed_elsewhere", "returned_too_much"}
    assert len(reversals_told(event.action())) == REVERSALS_KEPT_MAX + 1


def test_an_amount_that_is_told_in_two_ways_is_a_persons_too() -> None:
    """One reversal, two amounts; and one in another currency, which cannot be counted."""
    event = charged()
    event.take(given_back(1_200))
    event.take(given_back(1_300, source="settlement:7", kind=EvidenceKind.SETTLEMENT))
    assert reasons(event) == {"amount_differs", "reversed_elsewhere"}
    assert reversed_minor(event.action()) == 1_300
    event = charged()
    event.take(given_back(1_200, currency="USD"))
    assert reasons(event) == {"amount_differs", "reversed_elsewhere"}
    assert reversed_minor(event.action()) == WHOLE


def test_a_dispute_that_grew_leaves_the_effect_what_it_was() -> None:
    """All 49.90 were taken, and of that 12.00 and then 13.00 are disputed: it is known how much is
    there, so what is left goes back by itself, and not a cent more.
    """
    event = charged()
    event.take(given_back(1_200))
    event.take(given_back(1_300))
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    event.propose(UNDO, compensates=CHARGE, money=eur(3_700))
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    event.propose(UNDO, compensates=CHARGE, money=eur(3_690), acts=True)
    assert event.action(UNDO).status is Status.ATTEMPTING


def test_an_effect_of_another_amount_is_known_beside_a_dispute_that_grew() -> None:
    """Its case is open when the effect is told with 1.00: that counts all the same."""
    event = Event()
    event.start(CHARGE)
    event.reports(CHARGE, x.no_answer())
    for minor in (10, 20):
        event.take(given_back(minor))
    assert "amount_differs" in reasons(event)
    event.take(x.found_out(Meaning.EFFECT, lookup=None, money=eur(100)))
    event.settles(CHARGE, Move.EFFECT_EXISTS)
    event.propose(UNDO, compensates=CHARGE, money=eur(1_000))
    assert reasons(event, UNDO) == {"original_amount_differs"}


@pytest.mark.parametrize(("minor", "currency"), [(4_990, "EUR"), (1_000, "USD")])
@pytest.mark.parametrize("is_told_first", [True, False])
def test_what_the_charge_tells_of_our_own_refund_counts_too(
    minor: int, currency: str, *, is_told_first: bool
) -> None:
    """10.00 were asked back, and with the charge the provider tells of that refund, by its name,
    that it was all of it, or was in another currency: a person is told, whether that or the answer
    came first, and what seems to be left is not there.
    """
    event, told = charged(), given_back(minor, "re_1", currency=currency)
    event.propose(UNDO, compensates=CHARGE, money=eur(1_000), acts=True)
    if is_told_first:
        event.take(told)
    event.reports(UNDO, x.success("re_1"))
    event.take(told)
    assert reasons(event) == {"amount_differs"}
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    event.goes_on()
    assert reasons(event) == set()
    event.propose(MORE, compensates=CHARGE, money=eur(3_990))
    assert reasons(event, MORE) == {"original_amount_differs"}
    assert event.goes_on() == []


def test_what_came_back_while_its_case_was_open_is_noted_with_it() -> None:
    """All of it is told twice over: once as no amount and then as one, which is as much. Who has
    seen the case has seen both, and is not asked about the same once more.
    """
    event = charged()
    event.propose(UNDO, compensates=CHARGE, acts=True)
    event.reports(UNDO, x.success("re_1"))
    event.take(given_back(None))
    assert names(event, "returned_too_much") == "99.80 EUR of 49.90 EUR: dp_1, re_1"
    event.take(given_back(4_990))
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert reasons(event) == set()


def test_another_refund_that_may_be_there_counts_beside_what_came_back_elsewhere() -> None:
    """Of 49.90 a refund of 20.00 is unknown and 20.00 came back at the bank: another one of 20.00
    that was asked for before does not go by itself.
    """
    event = charged()
    event.propose(UNDO, compensates=CHARGE, money=eur(2_000), acts=True)
    event.propose(MORE, compensates=CHARGE, money=eur(2_000))
    event.reports(UNDO, x.no_answer())
    event.take(given_back(2_000))
    assert reasons(event, MORE) == {"returned_already"}
    assert event.goes_on() == []


@pytest.mark.parametrize(
    "answer",
    [
        i.PartialSuccess(reference="ch_1", result={"captured": 100}),
        i.NoAnswer(code=i.OTHER_AMOUNT),
    ],
    ids=["a part of it", "another amount"],
)
def test_what_was_answered_to_be_another_amount_is_given_back_by_a_person_only(
    answer: i.ReportedOutcome,
) -> None:
    """A part of the charge was captured, and a person says that this is the effect: how much of it
    there is to give back is theirs to say.
    """
    event = Event(world(reliability="none", lookups=()))
    event.start(CHARGE)
    event.reports(CHARGE, answer)
    event.settles(CHARGE, Move.EFFECT_EXISTS)
    assert event.action().status is Status.COMPLETED
    event.propose(UNDO, compensates=CHARGE, money=eur(1_000), acts=True)
    assert reasons(event, UNDO) == {"original_amount_differs"}


def test_what_was_answered_so_and_proven_to_be_whole_goes_back_by_itself() -> None:
    """The provider says later that all of it was taken."""
    event = Event()
    event.start(CHARGE)
    event.reports(CHARGE, i.NoAnswer(code=i.OTHER_AMOUNT))
    event.take(x.found_out(Meaning.EFFECT, lookup=None))
    event.propose(UNDO, compensates=CHARGE, money=eur(1_000), acts=True)
    assert event.action(UNDO).status is Status.ATTEMPTING


def test_a_reversal_of_another_effect_tells_of_a_second_one() -> None:
    """What was given back names a charge that nobody knew of."""
    event = charged()
    event.take(given_back(1_200, reverses="ch_other"))
    assert reasons(event) == {"second_effect", "reversed_elsewhere"}


@pytest.mark.case("C089")
@pytest.mark.parametrize("first", ["hook", "answer"])
def test_c089_a_hold_that_has_lapsed_is_a_definite_no(first: str) -> None:
    """C089: the capture comes after the authorisation has expired: refused for good, no retry. That
    the provider also says so by itself, before or after, changes nothing.
    """
    expired = x.found_out(Meaning.NO_EFFECT, lookup=None, reference="auth_1").model_copy(
        update={"code": "authorization_expired"}
    )
    event = Event()
    event.propose(CHARGE)
    if first == "hook":
        assert event.take(expired) == ["evidence.recorded"]
    event.goes_on()
    event.reports(CHARGE, x.refusal("authorization_expired", i.Retry.NEVER))
    if first == "answer":
        assert event.take(expired) == ["evidence.recorded"]
    action = event.action()
    assert (action.status, action.code) == (Status.FAILED, "authorization_expired")
    assert action.case is None
    assert event.goes_on(later=86_400_000) == []
    assert event.count("attempt.started") == 1


@pytest.mark.case("C089")
def test_c089_what_depends_on_a_lapsed_hold_never_begins() -> None:
    """C089: the goods are not sent for money that is no longer there."""
    told = Travelling()
    told.does(do(ITEMS[0]), x.refusal("authorization_expired", i.Retry.NEVER))
    after = told.action(do(ITEMS[1]))
    assert (after.status, after.attempts) == (Status.CANCELLED, ())
