"""Intake: what may be asked for, what is refused by which name, and what may be taken back."""

import pytest

from ledger.core import inputs as i
from ledger.core.facts import IntentRecorded
from ledger.core.limits import STREAM_ACTIONS_ORDINARY_MAX
from ledger.core.rejections import Rejection
from ledger.core.request import request_hash
from ledger.core.state import Status
from tests.examples import (
    CHARGE,
    EMAIL,
    EUR_499,
    PAYOUT,
    STEP_MS,
    T0,
    absent,
    asked,
    automatic,
    cancel,
    cancelled,
    completed,
    expired,
    failed,
    found_out,
    kept,
    lookup_due,
    offer,
    propose,
    recorded,
    refused,
    request,
    retry_due,
    review,
    started,
    succeeded,
    unresolved,
    unsent,
)
from tests.unit.core.language import Given, given

READY = given(recorded(), automatic())


def test_a_new_intent_is_recorded_and_waits_for_capacity() -> None:
    """Without an executor's offer a proposal ends as a ready action, with everything of its
    operation that holds for its life.
    """
    after_it = given().when(propose(), at=0).then(recorded(), automatic())
    assert after_it.action().status is Status.READY
    assert after_it.action().provider == "simulated"


def test_an_offer_at_hand_is_spent_in_the_same_decision() -> None:
    """Intent and start are one record where capacity waits: write-ahead costs no hop."""
    then = given().when(propose(), at=5, offer=offer(at=2))
    then.then(recorded(at=5), automatic(), started(at=5, offered=2))
    assert then.decided.offer_spent == offer(at=2)


@pytest.mark.parametrize("key", ["", "charge", "charge:v0:acme:renewal-1", "charge:v1:acme:r~1"])
def test_a_malformed_key_is_refused(key: str) -> None:
    """A key is an identity or it is nothing; no part of it is guessed."""
    given().when(propose(key=CHARGE).model_copy(update={"key": key})).then_rejected(
        Rejection.MALFORMED_KEY
    )


@pytest.mark.parametrize("key", [PAYOUT, "charge:v2:acme:renewal-1"])
def test_key_and_request_name_the_same_operation_and_version(key: str) -> None:
    """A key of one operation cannot carry the request of another."""
    given().when(i.Propose(key=key, request=request(CHARGE))).then_rejected(Rejection.KEY_MISMATCH)


def test_a_hash_that_is_given_must_be_right() -> None:
    """The caller's own hash is checked where there is one."""
    right, wrong = request_hash(request()), request_hash(request(text="other"))
    given().when(propose(request_hash=right)).then(recorded(), automatic())
    given().when(propose(request_hash=wrong)).then_rejected(Rejection.HASH_MISMATCH)


def test_an_operation_must_be_declared() -> None:
    """What the catalogue does not know cannot be asked for."""
    changed = request().model_copy(update={"version": 7})
    given().when(i.Propose(key="charge:v7:acme:renewal-1", request=changed)).then_rejected(
        Rejection.UNKNOWN_OPERATION
    )


def test_the_same_act_under_another_version_is_refused() -> None:
    """One business event, one operation: another version is the same act, whatever became of it."""
    second = request().model_copy(update={"version": 2})
    key = "charge:v2:acme:renewal-1"
    for history in (READY, READY.and_then(cancelled())):
        history.when(i.Propose(key=key, request=second)).then_rejected(
            Rejection.OTHER_VERSION, action=CHARGE
        )
    item = "charge:v2:acme:renewal-1#fee"
    assert READY.when(i.Propose(key=item, request=second)).decided.facts


def test_only_declared_principals_may_ask() -> None:
    """Who may ask for an operation at all is the catalogue's word."""
    stranger = request().model_copy(update={"principal": "person:eve"})
    given().when(i.Propose(key=CHARGE, request=stranger)).then_rejected(Rejection.NOT_ALLOWED)


def test_a_request_outside_its_declaration_is_refused_with_every_problem() -> None:
    """All that is wrong is named at once, by path."""
    bare = request().model_copy(update={"money": None, "params": {"colour": "red"}})
    then = given().when(i.Propose(key=CHARGE, request=bare))
    then.then_rejected(Rejection.INVALID_REQUEST)
    assert then.decided.refused is not None
    assert [detail.path for detail in then.decided.refused.details] == ["/money", "/params/colour"]


def test_a_stream_takes_ordinary_intents_up_to_its_limit() -> None:
    """The last ordinary place is taken, the one behind it is kept for compensations."""

    def item(number: int) -> IntentRecorded:
        return recorded().model_copy(update={"action": f"{CHARGE}#{number}"})

    almost = given(*(item(number) for number in range(STREAM_ACTIONS_ORDINARY_MAX - 1)))
    full = almost.when(propose()).then(recorded(), automatic())
    late = i.Propose(key=EMAIL, request=request(EMAIL))
    full.when(late).then_rejected(Rejection.STREAM_FULL)
    full.when(propose()).then_unchanged("replayed")


@pytest.mark.parametrize(
    ("asked_ms", "step_ms"),
    [(None, STEP_MS), (STEP_MS + 1, STEP_MS), (STEP_MS - 1, STEP_MS - 1), (0, 0)],
)
def test_a_caller_may_shorten_the_step_and_not_lengthen_it(
    asked_ms: int | None, step_ms: int
) -> None:
    """The shorter of the operation's deadline and the caller's holds; the caller's own is kept, for
    it holds for people too.
    """
    known = recorded(step_ms=step_ms)
    if asked_ms is not None:
        known = known.model_copy(update={"caller_deadline_at": T0 + asked_ms})
    given().when(propose(step_ms=asked_ms)).then(known, automatic())


HISTORIES: dict[Status, Given] = {
    Status.PROPOSED: given(recorded()),
    Status.READY: READY,
    Status.ATTEMPTING: READY.and_then(started()),
    Status.UNKNOWN: READY.and_then(started(), unresolved(), lookup_due(9)),
    Status.NEEDS_REVIEW: READY.and_then(started(), refused(), review("attempts_exhausted")),
    Status.COMPLETED: READY.and_then(started(), succeeded(), completed()),
    Status.FAILED: READY.and_then(started(), refused(), failed()),
    Status.EXPIRED: READY.and_then(expired()),
    Status.CANCELLED: READY.and_then(cancelled()),
}


@pytest.mark.parametrize("status", HISTORIES)
def test_the_same_proposal_is_answered_by_the_action_as_it_stands(status: Status) -> None:
    """In every status a repeat starts nothing and tells where the action stands, even when the
    catalogue no longer knows the operation and an offer waits.
    """
    history = HISTORIES[status]
    assert history.action().status is status
    history.when(propose(), at=9_999, offer=offer()).then_unchanged("replayed")


@pytest.mark.parametrize("status", HISTORIES)
def test_the_same_key_for_another_request_is_a_conflict(status: Status) -> None:
    """In every status another body under a known key is refused with the difference, and starts
    nothing.
    """
    then = HISTORIES[status].when(propose(request=request(money=EUR_499)), offer=offer())
    then.then_rejected(Rejection.CONFLICTED, action=CHARGE)
    assert then.decided.refused is not None
    (detail,) = then.decided.refused.details
    assert (detail.path, detail.message) == ("/money/minor", "4990 -> 49900")


def test_what_has_not_begun_can_be_taken_back() -> None:
    """Before any start, and between attempts that had no effect, a cancellation holds."""
    READY.when(cancel()).then(cancelled())
    given(recorded()).when(cancel()).then(cancelled())
    for closed in (refused(), unsent()):
        READY.and_then(started(), closed, retry_due(5)).when(cancel()).then(cancelled())
    gone = READY.and_then(started(), unresolved(), lookup_due(5), asked(), absent(), retry_due(5))
    gone.when(cancel()).then(cancelled())


def test_what_may_have_happened_cannot_be_taken_back() -> None:
    """While an attempt is open a cancellation is refused, whatever the status is called."""
    running = READY.and_then(started())
    running.when(cancel()).then_rejected(Rejection.ATTEMPT_OPEN, action=CHARGE)
    lost = running.and_then(unresolved())
    lost.when(cancel()).then_rejected(Rejection.ATTEMPT_OPEN)
    lost.and_then(review("lookups_exhausted")).when(cancel()).then_rejected(Rejection.ATTEMPT_OPEN)


def test_a_person_settles_what_is_in_review() -> None:
    """An action that waits for a person is not cancelled under them."""
    HISTORIES[Status.NEEDS_REVIEW].when(cancel()).then_rejected(Rejection.IN_REVIEW, action=CHARGE)


def test_final_is_final_for_a_cancellation() -> None:
    """Cancelled twice is cancelled; anything else that is final stays what it is."""
    HISTORIES[Status.CANCELLED].when(cancel()).then_unchanged("already_cancelled")
    for status in (Status.COMPLETED, Status.FAILED, Status.EXPIRED):
        HISTORIES[status].when(cancel()).then_rejected(Rejection.ALREADY_FINAL, action=CHARGE)


def test_an_unknown_action_cannot_be_taken_back() -> None:
    """A cancellation that overtakes its proposal is refused: it may be sent again."""
    given().when(cancel()).then_rejected(Rejection.UNKNOWN_ACTION)


def test_cancelling_one_action_leaves_the_others() -> None:
    """A stream's actions are taken back one by one."""
    both = READY.and_then(recorded(PAYOUT), automatic(PAYOUT))
    left = both.when(cancel(PAYOUT)).then(cancelled(key=PAYOUT))
    assert left.action(CHARGE).status is Status.READY


def test_late_proof_of_a_cancelled_action_reaches_a_person() -> None:
    """An effect of something that never began is an alarm, and the status stays."""
    evidence = found_out(i.Meaning.EFFECT, lookup=None)
    alarmed = (
        HISTORIES[Status.CANCELLED]
        .when(evidence)
        .then(kept(evidence, attempts_upto=0), review("effect_without_attempt"))
    )
    assert alarmed.action().status is Status.CANCELLED
