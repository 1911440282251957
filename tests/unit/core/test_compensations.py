"""Compensations: actions of their own that undo another one, registered before it begins, never
started while it is open, never for more than it was, and never lost when they fail.
"""

import pytest

from ledger.core import inputs as i
from ledger.core.facts import AttemptStarted
from ledger.core.inputs import Meaning, Retry
from ledger.core.invariants import BrokenInvariantError
from ledger.core.limits import STREAM_ACTIONS_MAX, STREAM_ACTIONS_ORDINARY_MAX
from ledger.core.money import Money
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.core.statement import Move
from tests import examples as x
from tests.asking import asked, policy
from tests.examples import CHARGE, EMAIL, NOTE, PAYOUT
from tests.unit.core.beside import Event, eur, world
from tests.unit.core.crossing import PEOPLE_AND, Crossing, ceiling, passes

UNDO = PAYOUT
MORE = f"{PAYOUT}#more"
WHOLE = x.EUR_49_90.minor


def undo(
    event: Event, key: str = UNDO, minor: int | None = None, revises: str | None = None
) -> list[str]:
    """The agent asks to give some of the charge back, all of it where it does not say."""
    money = None if minor is None else eur(minor)
    return event.propose(key, compensates=CHARGE, money=money, revises=revises)


def charged() -> Event:
    """The charge has completed."""
    event = Event()
    event.completes(CHARGE)
    return event


def failing(event: Event, key: str = UNDO) -> list[str]:
    """An action starts and is refused for good."""
    event.goes_on()
    return event.reports(key, x.refusal("declined", Retry.NEVER))


# --- asking for one ------------------------------------------------------------------------------


def test_it_is_an_action_of_its_own() -> None:
    """Its own key, hash, row and attempts; it starts as any action does, long after the other."""
    event = charged()
    event.now += 30 * 24 * 3_600_000
    assert undo(event) == ["intent.recorded", "policy.decided"]
    assert event.goes_on() == ["attempt.started"]
    event.reports(UNDO, x.success("re_1"))
    assert event.action(UNDO).status is Status.COMPLETED
    assert event.action(UNDO).compensates == CHARGE
    assert event.action().status is Status.COMPLETED


def test_only_what_the_catalogue_declares_compensates() -> None:
    """Another operation, or one of an original that nothing is declared to undo."""
    event = charged()
    event.propose(x.TICKET, compensates=CHARGE)
    assert event.refusal() is Rejection.NOT_A_COMPENSATION
    event.propose(f"{CHARGE}#more", compensates=CHARGE)
    assert event.refusal() is Rejection.NOT_A_COMPENSATION
    event.propose(UNDO, compensates=f"{CHARGE}#other")
    assert event.refusal() is Rejection.UNKNOWN_ORIGINAL
    other = x.request(UNDO).model_copy(update={"environment": "test"})
    event.take(i.Propose(key=UNDO, request=other, compensates=CHARGE))
    assert event.refusal() is Rejection.NOT_A_COMPENSATION


def test_an_action_without_an_effect_has_nothing_to_undo() -> None:
    """It failed for good: nothing is recorded."""
    event = Event()
    event.propose(CHARGE)
    failing(event, CHARGE)
    undo(event)
    assert event.refusal() is Rejection.NOTHING_TO_UNDO


def test_a_row_of_the_table_holds_for_it() -> None:
    """People are asked about the refund, and not about the charge."""
    event = Event(world(policy(asked("payout") + passes())))
    event.completes(CHARGE)
    assert undo(event)[-1] == "approval.requested"
    event.says(UNDO)
    assert event.goes_on() == ["attempt.started"]


def test_the_same_key_for_another_original_is_a_conflict() -> None:
    """The request is the same; what it undoes is not."""
    event = charged()
    event.completes(f"{CHARGE}#b")
    undo(event)
    event.propose(UNDO, compensates=f"{CHARGE}#b")
    assert event.refusal() is Rejection.CONFLICTED
    assert [one.path for one in event.details] == ["/compensates"]


def test_a_full_business_event_still_takes_what_undoes_it() -> None:
    """Room is kept for it, up to the limit of every stream."""
    event = charged()
    for number in range(STREAM_ACTIONS_ORDINARY_MAX - 1):
        event.propose(f"{CHARGE}#item-{number}")
    for number in range(STREAM_ACTIONS_MAX - STREAM_ACTIONS_ORDINARY_MAX):
        undo(event, f"{PAYOUT}#part-{number}", 1)
        assert event.refusal() is None
    undo(event, MORE, 1)
    assert event.refusal() is Rejection.STREAM_FULL


# --- amounts -------------------------------------------------------------------------------------


@pytest.mark.case("C083")
def test_c083_no_more_is_refunded_than_was_charged() -> None:
    """C083: below nothing is no amount at all, nothing is refused by its field, and one cent too
    much is refused with what is left.
    """
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        Money(minor=-500, currency="EUR")
    event = charged()
    undo(event, minor=0)
    assert event.refusal() is Rejection.INVALID_REQUEST
    assert [(one.path, one.code) for one in event.details] == [("/money/minor", "amount_zero")]
    undo(event, minor=WHOLE + 1)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    assert "49.90 EUR of 49.90 EUR is left" in event.details[0].message
    assert len(event.known.stream.actions) == 1


def test_parts_never_add_up_to_more() -> None:
    """Of all that have had an effect or still may, whatever became of them so far."""
    event = charged()
    undo(event, minor=2_000)
    event.goes_on()
    event.reports(UNDO, x.no_answer())
    undo(event, MORE, 3_000)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    undo(event, MORE, 2_990)
    assert event.refusal() is None
    undo(event, f"{PAYOUT}#last", 1)
    assert "0.00 EUR" in event.details[0].message


def test_what_came_to_nothing_leaves_its_amount_free() -> None:
    """A refund that failed for good is no refund."""
    event = charged()
    undo(event)
    failing(event)
    undo(event, MORE)
    assert event.refusal() is None


def test_another_currency_is_no_part_of_it() -> None:
    """Nothing is converted."""
    event = charged()
    event.propose(UNDO, compensates=CHARGE, money=Money(minor=1, currency="USD"))
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    assert event.details[0].code == "other_currency"


def test_what_moves_no_money_is_undone_once() -> None:
    """A second correction of one note waits until the first has come to nothing."""
    event = Event()
    event.completes(NOTE)
    event.propose(EMAIL, compensates=NOTE)
    event.propose(f"{EMAIL}#more", compensates=NOTE)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    failing(event, EMAIL)
    event.propose(f"{EMAIL}#more", compensates=NOTE)
    assert event.refusal() is None


# --- before the original begins ------------------------------------------------------------------


def test_it_is_registered_before_its_original_begins_and_waits_for_it() -> None:
    """Ruled at once, blocked with a pointer, asked about by nobody, and it goes on by itself."""
    event = Event(world(policy(asked("payout") + passes())))
    event.propose(CHARGE)
    assert undo(event) == ["intent.recorded", "policy.decided", "action.blocked"]
    blocked = event.action(UNDO).blocked
    assert blocked is not None
    assert (blocked.reason, blocked.by) == ("original_open", CHARGE)
    event.goes_on()
    facts = event.reports(CHARGE, x.success())
    assert facts[-3:] == ["policy.decided", "preview.recorded", "approval.requested"]
    assert event.action(UNDO).status is Status.AWAITING_APPROVAL


def test_a_table_that_denies_it_says_so_at_once() -> None:
    """Whoever plans hears before the original begins that it could not be undone."""
    denied = asked("payout").replace('"people"', '"deny"').replace("quorum = 1\n", "")
    event = Event(world(policy(denied.replace("valid_ms = 600000\n", "") + passes())))
    event.propose(CHARGE)
    assert undo(event)[-1] == "action.denied"


def test_it_never_starts_while_its_original_is_open() -> None:
    """Started, lost, looked up: nothing is undone before it is known what there is to undo."""
    event = Event()
    event.start(CHARGE)
    undo(event)
    assert event.goes_on() == []
    event.reports(CHARGE, x.no_answer())
    for _ in range(3):
        event.goes_on(later=40_000)
        assert event.action(UNDO).status is Status.BLOCKED
        number = event.action().lookups_asked
        event.take(x.found_out(Meaning.PENDING, lookup=number))
    event.take(x.found_out(Meaning.EFFECT, lookup=None))
    assert event.goes_on() == ["attempt.started"]


def test_the_fold_refuses_a_start_before_its_original_is_settled() -> None:
    """An accepted record that says so stops whoever reads it."""
    event = Event()
    event.start(CHARGE)
    undo(event)
    early = x.started(key=UNDO)
    ruled = x.automatic(UNDO)
    with pytest.raises(BrokenInvariantError, match="waits for no other action"):
        event.known.and_then(ruled, early)


@pytest.mark.parametrize("ends", ["failed", "cancelled"])
def test_without_an_effect_it_is_called_off_as_having_nothing_to_undo(ends: str) -> None:
    """In the decision that ends its original, by the ledger and with the reason."""
    event = Event()
    event.propose(CHARGE)
    undo(event)
    facts = failing(event, CHARGE) if ends == "failed" else event.take(x.cancel())
    assert facts[-2:] == [f"action.{ends}", "action.cancelled"]
    assert event.action(UNDO).status is Status.CANCELLED
    assert event.action(UNDO).code == "nothing_to_undo"


def test_evidence_against_its_original_stops_it_again() -> None:
    """The charge is contradicted before the refund has begun: a person first."""
    event = charged()
    undo(event)
    reversal = x.found_out(Meaning.NO_EFFECT, lookup=None, reference=x.REFERENCE)
    assert event.take(reversal)[-1] == "action.blocked"
    assert event.goes_on() == []
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert event.goes_on() == ["attempt.started"]


def test_what_came_to_light_after_the_end_can_be_undone_once_a_person_has_noted_it() -> None:
    """The charge had failed; its effect shows up all the same."""
    event = Event()
    event.propose(CHARGE)
    failing(event, CHARGE)
    event.take(x.found_out(Meaning.EFFECT, lookup=None))
    undo(event)
    assert event.action(UNDO).status is Status.BLOCKED
    event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert event.action(UNDO).status is Status.READY


def test_the_start_names_the_effect_that_it_undoes() -> None:
    """By the provider's own reference, also where that was found out by a lookup."""
    event = Event()
    event.propose(CHARGE)
    undo(event)
    event.goes_on()
    event.reports(CHARGE, x.success("ch_77"))
    event.goes_on()
    started = [one for one in event.facts if isinstance(one, AttemptStarted)]
    assert [one.original_reference for one in started] == [None, "ch_77"]


# --- budgets -------------------------------------------------------------------------------------


def _budgeted(limit: int = 2, *, outcome: str = "automatic", more: str = "") -> Crossing:
    text = ceiling(side_effects=limit) + passes("run", target=True, outcome=outcome, more=more)
    return Crossing(text, compensation="payout")


def test_its_budget_is_reserved_before_its_original_is_called() -> None:
    """The target it takes only once it begins: its original has it."""
    crossing = _budgeted()
    crossing.proposes(CHARGE, run="r1", starts=False)
    crossing.proposes(UNDO, run="r1", compensates=CHARGE)
    assert crossing.held(crossing.run()) == [CHARGE, UNDO]
    assert crossing.held(crossing.target()) == [CHARGE]
    assert crossing.status(UNDO) is Status.BLOCKED
    crossing.proposes("charge:v1:acme:renewal-2", run="r1")
    assert crossing.refusal("charge:v1:acme:renewal-2") == ("ceiling_reached", "run")


def test_it_goes_on_with_what_was_reserved() -> None:
    """And takes the target then."""
    crossing = _budgeted()
    crossing.proposes(CHARGE, run="r1")
    crossing.proposes(UNDO, run="r1", compensates=CHARGE)
    before = [one.grant for one in crossing.run().granted if one.action == UNDO]
    crossing.completes(CHARGE)
    crossing.hears(x.tick())
    assert crossing.status(UNDO) is Status.ATTEMPTING
    assert [one.grant for one in crossing.run().granted if one.action == UNDO] == before
    assert crossing.held(crossing.target()) == [UNDO]
    crossing.completes(UNDO)
    assert crossing.run().used == {"side_effects": 2, "spend.EUR": 2 * WHOLE}


def test_it_keeps_its_budget_while_people_think() -> None:
    """What was reserved for it is not given to another action meanwhile."""
    crossing = _budgeted(outcome="people", more=PEOPLE_AND)
    crossing.proposes(CHARGE, run="r1")
    crossing.says(CHARGE)
    crossing.proposes(UNDO, run="r1", compensates=CHARGE)
    assert crossing.held(crossing.run()) == [CHARGE, UNDO]
    crossing.completes(CHARGE)
    assert crossing.status(UNDO) is Status.AWAITING_APPROVAL
    assert crossing.held(crossing.run()) == [UNDO]
    crossing.says(UNDO)
    assert crossing.status(UNDO) is Status.ATTEMPTING


def test_a_grant_that_comes_while_people_are_asked_counts() -> None:
    """The gate answers late; nobody has to ask it again."""
    crossing = _budgeted(outcome="people", more=PEOPLE_AND)
    crossing.proposes(CHARGE, run="r1")
    crossing.says(CHARGE)
    crossing.holds_back = True
    crossing.proposes(UNDO, run="r1", compensates=CHARGE)
    crossing.completes(CHARGE)
    assert crossing.status(UNDO) is Status.AWAITING_APPROVAL
    crossing.says(UNDO)
    assert crossing.status(UNDO) is Status.BLOCKED
    crossing.deliver()
    assert crossing.status(UNDO) is Status.ATTEMPTING


def test_it_gives_its_budget_back_when_there_is_nothing_to_undo() -> None:
    """Its original had no effect: both budgets are free again."""
    crossing = _budgeted()
    crossing.proposes(CHARGE, run="r1")
    crossing.proposes(UNDO, run="r1", compensates=CHARGE)
    crossing.fails(CHARGE)
    assert crossing.status(UNDO) is Status.CANCELLED
    assert crossing.run().reservations == ()
    assert crossing.run().used == {}


def test_no_room_for_it_is_said_before_its_original_is_called() -> None:
    """It is a person's case at once, and goes on waiting once somebody lets it pass."""
    crossing = _budgeted(1)
    crossing.proposes(CHARGE, run="r1", starts=False)
    crossing.proposes(UNDO, run="r1", compensates=CHARGE, starts=False)
    assert crossing.refusal(UNDO) == ("ceiling_reached", "run")
    crossing.allows(UNDO, "run")
    assert crossing.status(UNDO) is Status.BLOCKED
    assert crossing.held(crossing.run()) == [CHARGE, UNDO]


# --- what becomes of it --------------------------------------------------------------------------


def test_one_that_fails_for_good_is_a_persons_case() -> None:
    """Its status stays failed, the case names what is still not undone, and noting it is no end of
    it: another may follow.
    """
    event = charged()
    undo(event)
    assert failing(event)[-2:] == ["action.failed", "review.opened"]
    action = event.action(UNDO)
    assert action.case is not None
    assert (action.status, action.case.reason, action.case.names) == (
        Status.FAILED,
        "compensation_failed",
        CHARGE,
    )
    event.settles(UNDO, Move.ACKNOWLEDGE)
    assert event.action(UNDO).case is None
    undo(event, MORE)
    assert event.action(MORE).status is Status.READY


def test_one_that_expires_is_a_persons_case_too() -> None:
    """Nobody agreed in time: what was to be undone is there."""
    event = Event(world(policy(asked("payout") + passes())))
    event.completes(CHARGE)
    undo(event)
    assert event.goes_on(later=4 * 24 * 3_600_000)[-2:] == ["action.expired", "review.opened"]


@pytest.mark.case("C131")
def test_c131_a_step_that_says_it_failed_is_not_done_and_neither_is_its_undo() -> None:
    """C131: an error without a guarantee leaves the step unknown and its undo waiting; the same of
    the undo leaves that unknown. Each is verified before anything follows.
    """
    event = Event()
    event.start(CHARGE)
    undo(event)
    event.reports(CHARGE, x.no_answer("http_500"))
    assert (event.action().status, event.action(UNDO).status) == (Status.UNKNOWN, Status.BLOCKED)
    event.take(x.found_out(Meaning.EFFECT, lookup=None))
    event.goes_on()
    event.reports(UNDO, x.no_answer("http_500"))
    assert event.action(UNDO).status is Status.UNKNOWN
    event.goes_on(later=60_000)
    found = x.found_out(Meaning.EFFECT, key=UNDO, lookup=1, reference="re_1")
    assert event.take(found)[-1] == "action.completed"


@pytest.mark.case("C135")
def test_c135_a_refund_that_is_reversed_after_success_is_refunded_again_by_a_person_only() -> None:
    """C135: the webhook that takes it back is booked once, twice as it comes; its amount is free
    again once a person has noted it, for a revision that another yes lets go on.
    """
    event = charged()
    undo(event)
    event.goes_on()
    event.reports(UNDO, x.success("re_1"))
    hook = x.found_out(Meaning.NO_EFFECT, key=UNDO, lookup=None, reference="re_1")
    assert event.take(hook) == ["evidence.recorded", "review.opened"]
    assert event.take(hook) == []
    assert event.action(UNDO).status is Status.COMPLETED
    again = f"{UNDO}~2"
    undo(event, MORE)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    undo(event, again, revises=UNDO)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    event.settles(UNDO, Move.ACKNOWLEDGE)
    undo(event, MORE)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    undo(event, again, revises=UNDO)
    assert event.action(again).status is Status.AWAITING_APPROVAL
    assert event.goes_on() == []
    event.says(again)
    assert event.goes_on() == ["attempt.started"]
    undo(event, MORE, 1)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS


@pytest.mark.case("C137")
def test_c137_a_refund_whose_answer_is_lost_is_the_same_refund_when_it_is_retried() -> None:
    """C137: the record and its key stay; whoever asks again gets the same action, which is looked
    up first. One refund.
    """
    event = charged()
    undo(event, minor=2_500)
    event.goes_on()
    event.reports(UNDO, x.no_answer())
    assert event.action(UNDO).status is Status.UNKNOWN
    assert undo(event, minor=2_500) == []
    undo(event, MORE, 2_500)
    assert event.refusal() is Rejection.COMPENSATION_EXCEEDS
    assert event.goes_on(later=60_000) == ["lookup.started"]
    event.take(x.found_out(Meaning.EFFECT, key=UNDO, lookup=1, reference="re_1", money=eur(2_500)))
    assert event.action(UNDO).status is Status.COMPLETED
    assert event.count("attempt.started", UNDO) == 1


def test_a_refund_may_be_revised_before_it_begins() -> None:
    """The smaller amount takes the place of the larger one, and only the smaller counts."""
    event = charged()
    undo(event)
    undo(event, f"{UNDO}~2", 1_000, revises=UNDO)
    assert event.action(UNDO).status is Status.SUPERSEDED
    undo(event, MORE, 3_990)
    assert event.refusal() is None


def test_a_revision_of_a_refund_undoes_the_same_original() -> None:
    """Otherwise nobody would see that what it undoes has changed."""
    event = charged()
    undo(event)
    event.propose(f"{UNDO}~2", revises=UNDO, money=eur(1_000))
    assert event.refusal() is Rejection.REVISION_UNFIT
    assert [one.code for one in event.details] == ["other_original"]


def test_what_undoes_a_revised_action_is_called_off_with_it() -> None:
    """The charge gave way before it had an effect: the revision needs an undo of its own."""
    event = Event()
    event.propose(CHARGE)
    undo(event)
    event.propose(f"{CHARGE}~2", revises=CHARGE, money=eur(600))
    assert event.action().status is Status.SUPERSEDED
    assert event.action(UNDO).status is Status.CANCELLED
