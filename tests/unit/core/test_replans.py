"""Replans: a changed request for the same act waits until it is known what became of the earlier
one, is shown beside it, and never goes ahead by itself.
"""

import pytest

from ledger.core import inputs as i
from ledger.core.limits import STREAM_ACTIONS_ORDINARY_MAX
from ledger.core.order import waits_for
from ledger.core.preview import Preview
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.core.statement import Move, Say
from tests import examples as x
from tests.asking import asked, policy
from tests.examples import CHARGE
from tests.unit.core.beside import Event, eur, world

AGAIN = f"{CHARGE}~2"
ONCE_MORE = f"{CHARGE}~3"
SHOWN = ["preview.recorded", "approval.requested"]


def revise(event: Event, key: str = AGAIN, revises: str = CHARGE, minor: int = 600) -> list[str]:
    """The agent asks for another amount instead."""
    return event.propose(key, revises=revises, money=eur(minor))


def shown(event: Event, key: str = AGAIN) -> Preview:
    """What people see of an action."""
    dry = event.action(key).dry
    assert dry is not None
    assert dry.content is not None
    return dry.content


# --- asking for one ------------------------------------------------------------------------------


def test_a_revision_takes_the_place_of_what_has_not_begun() -> None:
    """The earlier action is superseded in the decision that records the revision, before anybody is
    asked, and its own approval counts no more.
    """
    event = Event()
    event.propose(CHARGE)
    assert revise(event) == ["intent.recorded", "action.superseded", "policy.decided", *SHOWN]
    assert event.action().status is Status.SUPERSEDED
    assert (event.action().revised_by, event.action().code) == (AGAIN, AGAIN)
    assert event.action(AGAIN).status is Status.AWAITING_APPROVAL


def test_what_people_granted_before_does_not_count_for_the_revision() -> None:
    """A yes to the earlier payload dies with it."""
    event = Event(world(policy(asked("charge"))))
    event.propose(CHARGE)
    event.says(CHARGE)
    revise(event)
    event.says(CHARGE, who="ben")
    assert event.refusal() is Rejection.ALREADY_FINAL
    assert event.goes_on() == []


@pytest.mark.parametrize("text", [asked("charge", quorum=2), asked("other")])
def test_a_revision_always_needs_a_person(text: str) -> None:
    """A row that asks people asks as many; one under which everything goes ahead asks one."""
    event = Event(world(policy(text + _AUTOMATIC)))
    event.propose(CHARGE)
    revise(event)
    asks = event.action(AGAIN).asks
    assert asks is not None
    assert asks.quorum == (2 if "quorum = 2" in text else 1)


def test_a_table_that_denies_denies_a_revision_too() -> None:
    """No person can let pass what the table does not."""
    event = Event()
    event.propose(CHARGE)
    event.known = event.known.under(world(policy(_DENIED)))
    assert revise(event)[-2:] == ["policy.decided", "action.denied"]
    assert event.action().status is Status.SUPERSEDED


def test_a_person_agrees_and_the_revision_starts() -> None:
    """One signature, and only the revision is sent."""
    event = Event()
    event.propose(CHARGE)
    revise(event)
    event.says(AGAIN)
    assert event.goes_on() == ["attempt.started"]
    event.reports(AGAIN, x.success())
    assert event.action(AGAIN).status is Status.COMPLETED
    assert event.count("attempt.started") == 0


def test_people_see_what_changes_and_what_became_of_the_earlier_one() -> None:
    """Field by field, and it is part of what they sign."""
    event = Event()
    event.propose(CHARGE)
    revise(event)
    content = shown(event)
    assert content.revises is not None
    assert (content.revises.action, content.revises.status) == (CHARGE, "superseded")
    (change,) = content.revises.changes
    assert (change.name, change.was, change.now) == ("/money/minor", "4990", "600")
    (check,) = [one for one in content.checks if one.name == "revises"]
    assert check.passed
    assert check.detail == f"{CHARGE} has no effect"


# --- while the earlier one is open ---------------------------------------------------------------


def _unknown() -> Event:
    event = Event()
    event.start(CHARGE)
    event.reports(CHARGE, x.no_answer())
    assert event.action().status is Status.UNKNOWN
    return event


def test_a_revision_waits_while_the_earlier_one_may_have_had_its_effect() -> None:
    """It is blocked with a pointer, and nobody is asked about it yet."""
    event = _unknown()
    assert revise(event)[-2:] == ["policy.decided", "action.blocked"]
    action = event.action(AGAIN)
    assert action.blocked is not None
    assert (action.status, action.blocked.reason, action.blocked.by) == (
        Status.BLOCKED,
        "revised_open",
        CHARGE,
    )
    assert action.approval is None


def test_once_it_is_revised_an_action_is_only_asked_about() -> None:
    """It was about to be sent again under the same key; now it is looked up, as often as planned,
    and never sent.
    """
    event = _unknown()
    lookups = (30_000, 120_000)
    revise(event)
    for later in lookups * 40:
        event.goes_on(later=later)
        if event.action().lookup is not None:
            number = event.action().lookups_asked
            event.take(x.found_out(i.Meaning.PENDING, lookup=number))
    assert event.count("attempt.started") == 1
    assert event.count("lookup.started") == len(x.LOOKUPS)
    assert event.action().review == "lookups_exhausted"
    assert event.action().status is Status.NEEDS_REVIEW


def test_a_retry_that_was_due_becomes_a_question() -> None:
    """With the provider asked already the next try was due; the revision turns it into a lookup."""
    event = _unknown()
    event.goes_on(later=x.LOOKUPS[0])
    event.take(x.found_out(i.Meaning.PENDING))
    timer = event.action().timer
    assert timer is not None
    assert timer.purpose == "retry"
    assert "timer.set" in revise(event)
    timer = event.action().timer
    assert timer is not None
    assert timer.purpose == "lookup"


def test_it_goes_on_by_itself_once_the_earlier_one_is_surely_without_effect() -> None:
    """A reliable absence ends the earlier one, which would have been tried again, and people are
    asked about the revision in the same decision.
    """
    event = _unknown()
    revise(event)
    event.goes_on(later=60_000)
    event.goes_on(later=60_000)
    facts = event.take(x.found_out(i.Meaning.ABSENT, lookup=event.action().lookups_asked))
    assert facts == [
        "evidence.recorded",
        "attempt.absent",
        "action.superseded",
        "policy.decided",
        *SHOWN,
    ]
    assert event.action().status is Status.SUPERSEDED
    event.says(AGAIN)
    assert event.goes_on() == ["attempt.started"]


def test_an_earlier_one_that_has_completed_is_told_to_whoever_decides() -> None:
    """The revision goes to people all the same, with that said."""
    event = _unknown()
    revise(event)
    event.goes_on(later=60_000)
    event.take(x.found_out(i.Meaning.EFFECT, lookup=event.action().lookups_asked))
    assert event.action().status is Status.COMPLETED
    content = shown(event)
    assert content.revises is not None
    assert content.revises.status == "completed"
    (check,) = [one for one in content.checks if one.name == "revises"]
    assert not check.passed
    assert "two effects" in check.detail


def test_a_person_may_accept_the_risk_of_two() -> None:
    """Signed by name: then the revision goes on to people, who see that it is not settled."""
    event = _unknown()
    revise(event)
    event.allows(AGAIN, accepts=f"{CHARGE}#other")
    assert event.refusal() is Rejection.ACCEPTS_UNFIT
    assert event.allows(AGAIN, accepts=CHARGE) == ["review.resolved", "policy.decided", *SHOWN]
    (check,) = [one for one in shown(event).checks if one.name == "revises"]
    assert not check.passed
    assert "not settled" in check.detail
    event.says(AGAIN)
    assert event.goes_on() == ["attempt.started"]
    assert event.action(AGAIN).status is Status.ATTEMPTING


def test_whoever_agreed_is_asked_anew_when_something_else_became_of_the_earlier_one() -> None:
    """They agreed while it was not settled; that it has completed they have not seen."""
    event = _unknown()
    revise(event)
    event.allows(AGAIN, accepts=CHARGE)
    event.says(AGAIN)
    assert event.action(AGAIN).status is Status.READY
    proof = x.found_out(i.Meaning.EFFECT, lookup=None)
    assert event.take(proof)[-3:] == ["approval.ended", *SHOWN]
    assert event.goes_on() == []
    assert event.action(AGAIN).status is Status.AWAITING_APPROVAL


def test_late_evidence_of_the_earlier_one_stops_a_revision_that_was_agreed_to() -> None:
    """What was surely without an effect shows one: the revision is blocked again until a person
    has settled it, and then people are asked anew, with that said.
    """
    event = Event()
    event.propose(CHARGE)
    revise(event)
    event.says(AGAIN)
    facts = event.take(x.found_out(i.Meaning.EFFECT, lookup=None))
    assert facts[-3:] == ["review.opened", "approval.ended", "action.blocked"]
    assert event.goes_on() == []
    facts = event.settles(CHARGE, Move.ACKNOWLEDGE)
    assert facts == ["review.resolved", "policy.decided", *SHOWN]
    (check,) = [one for one in shown(event).checks if one.name == "revises"]
    assert "came to light later" in check.detail


def test_a_start_that_is_given_back_after_the_revision_is_not_made_again() -> None:
    """Its holder never acted: it gives way at once."""
    event = Event()
    event.start(CHARGE)
    revise(event)
    assert event.action(AGAIN).status is Status.BLOCKED
    holder = event.action().attempts[0].holder
    facts = event.take(x.decline(holder=holder))
    assert facts[:2] == ["attempt.declined", "action.superseded"]
    assert event.action(AGAIN).status is Status.AWAITING_APPROVAL


def test_a_refusal_that_would_have_been_retried_gives_way() -> None:
    """Busy now, and revised: it is not tried later."""
    event = Event()
    event.start(CHARGE)
    revise(event)
    assert event.reports(CHARGE, x.refusal())[:2] == ["attempt.refused", "action.superseded"]


def test_a_person_cannot_have_a_revised_action_tried_again() -> None:
    """The move is not offered: there is another request for it now."""
    event = Event(world(reliability="none", lookups=()))
    event.start(CHARGE)
    event.reports(CHARGE, x.no_answer())
    revise(event)
    event.now += 60_000
    event.settles(CHARGE, Move.TRY_AGAIN)
    assert event.refusal() is Rejection.MOVE_NOT_SAFE
    event.settles(CHARGE, Move.NO_EFFECT, who="ben")
    assert event.action().status is Status.FAILED
    assert event.action(AGAIN).status is Status.AWAITING_APPROVAL


# --- revisions of revisions ----------------------------------------------------------------------


def test_a_second_revision_waits_for_the_first_request_still() -> None:
    """The one between gives way at once; the one that may have had its effect still blocks."""
    event = _unknown()
    revise(event)
    revise(event, ONCE_MORE, AGAIN, 700)
    assert event.action(AGAIN).status is Status.SUPERSEDED
    waits = waits_for(event.known.stream, event.action(ONCE_MORE))
    assert waits is not None
    assert waits.by == CHARGE
    event.allows(ONCE_MORE, accepts=CHARGE)
    details = [one.detail for one in shown(event, ONCE_MORE).checks if one.name == "revises"]
    assert len(details) == 2
    assert any(CHARGE in one and "not settled" in one for one in details)


@pytest.mark.parametrize(
    ("key", "revises", "code"),
    [
        (ONCE_MORE, CHARGE, "not_the_newest"),
        (AGAIN, CHARGE, None),
        (f"{CHARGE}#fee~2", CHARGE, "other_act"),
        (f"{x.PAYOUT}~3", AGAIN, "other_act"),
        (f"{CHARGE}#late", AGAIN, "other_act"),
    ],
)
def test_a_revision_fits_what_it_revises(key: str, revises: str, code: str | None) -> None:
    """Same operation, event and item; the newest there is; a greater number."""
    event = Event()
    event.propose(CHARGE)
    revise(event)
    event.propose(key, revises=revises, money=eur(700))
    if code is None:
        assert event.refusal() is Rejection.CONFLICTED
        return
    assert event.refusal() is Rejection.REVISION_UNFIT
    assert [one.code for one in event.details] == [code]


def test_what_changes_nothing_is_no_revision() -> None:
    """The earlier action asks for exactly this already; once it is over it may be asked for anew,
    by a person's yes.
    """
    event = Event()
    event.propose(CHARGE)
    event.propose(AGAIN, revises=CHARGE)
    assert [one.code for one in event.details] == ["nothing_changed"]
    event.goes_on()
    event.reports(CHARGE, x.refusal("card_declined", i.Retry.NEVER))
    assert event.action().status is Status.FAILED
    event.propose(AGAIN, revises=CHARGE)
    assert event.action(AGAIN).status is Status.AWAITING_APPROVAL


def test_a_revision_says_what_it_revises() -> None:
    """Under a key with a revision nothing is to be guessed."""
    event = Event()
    event.propose(CHARGE)
    event.propose(AGAIN, money=eur(600))
    assert event.refusal() is Rejection.REVISION_NEEDS_PERSON


def test_a_revision_revises_something_that_is_there() -> None:
    """Of this business event."""
    event = Event()
    event.propose(AGAIN, revises=CHARGE, money=eur(600))
    assert event.refusal() is Rejection.UNKNOWN_ORIGINAL


def test_the_same_key_that_revises_another_is_a_conflict() -> None:
    """The request alone does not tell them apart: whatever else it names is compared too."""
    event = Event()
    event.propose(CHARGE)
    revise(event)
    event.propose(AGAIN, money=eur(600))
    assert event.refusal() is Rejection.CONFLICTED
    assert [one.path for one in event.details] == ["/revises"]
    assert revise(event) == []
    assert event.refusal() is None


def test_a_full_business_event_still_takes_a_revision() -> None:
    """Ordinary intents stop; room is kept for what corrects them."""
    event = Event()
    for number in range(STREAM_ACTIONS_ORDINARY_MAX):
        event.propose(f"{CHARGE}#item-{number}")
    event.propose(CHARGE)
    assert event.refusal() is Rejection.STREAM_FULL
    item = f"{CHARGE}#item-0"
    revise(event, f"{item}~2", item)
    assert event.refusal() is None


def test_a_dead_revision_does_not_bring_the_earlier_one_back() -> None:
    """Denied by a person: the earlier action stays superseded, and another revision may follow."""
    event = Event()
    event.propose(CHARGE)
    revise(event)
    event.says(AGAIN, Say.DENY)
    assert event.goes_on() == []
    assert event.action().status is Status.SUPERSEDED
    revise(event, ONCE_MORE, AGAIN, 700)
    assert event.action(ONCE_MORE).status is Status.AWAITING_APPROVAL


def test_a_revision_that_nobody_settles_expires() -> None:
    """It waits no longer than people are waited for, and the earlier one goes on being found
    out.
    """
    event = _unknown()
    revise(event)
    waits = event.action(AGAIN).wait_until
    assert waits is not None
    event.goes_on(later=waits - x.T0 - event.now)
    assert event.action(AGAIN).status is Status.EXPIRED
    assert not event.action().is_final


_AUTOMATIC = """
[[row]]
name = "free"
outcome = "automatic"
reason = "Nobody is asked."
"""
_DENIED = _AUTOMATIC.replace("automatic", "deny")
