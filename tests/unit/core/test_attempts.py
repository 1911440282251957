"""Attempts: what a holder's word leads to, in time, late, twice, and from the wrong mouth."""

import pytest

from ledger.core import inputs as i
from ledger.core.rejections import Rejection
from ledger.core.retries import backoff_ms
from ledger.core.state import AttemptStatus, Status
from tests.examples import (
    BACKOFF_BASE_MS,
    BACKOFF_MAX_MS,
    CHARGE,
    EMAIL,
    EUR_499,
    LOOKUPS,
    NOTE,
    PAYOUT,
    STEP_MS,
    TICKET,
    absent,
    asked,
    automatic,
    cancelled,
    completed,
    decline,
    declined,
    failed,
    found_out,
    kept,
    lookup_due,
    no_answer,
    not_sent,
    recorded,
    refusal,
    refused,
    report,
    retry_due,
    review,
    started,
    succeeded,
    success,
    unresolved,
    unsent,
)
from tests.examples_of_evidence import kept_report
from tests.unit.core.language import Given, after, given

NEVER = i.Retry.NEVER
EFFECT = i.Meaning.EFFECT
NO_EFFECT = i.Meaning.NO_EFFECT


def running(key: str = CHARGE, attempt: int = 1) -> Given:
    """An action whose first attempt runs since T0."""
    history = given(recorded(key), automatic(key), started(key=key))
    for number in range(2, attempt + 1):
        history = history.and_then(refused(number - 1, key=key), started(number, key=key))
    return history


def wait(tries: int, key: str = CHARGE) -> int:
    """The backoff that an action draws for itself."""
    return backoff_ms(key, tries, base_ms=BACKOFF_BASE_MS, cap_ms=BACKOFF_MAX_MS)


LOST = running().and_then(unresolved(), lookup_due(LOOKUPS[0]))
TWO_OPEN = LOST.and_then(asked(), kept(found_out(i.Meaning.PENDING)), retry_due(6)).and_then(
    after(7, started(2, at=7, first_at=0))
)
WITH_PERSON = running().and_then(
    kept(found_out(EFFECT, lookup=None, money=EUR_499)), review("amount_differs")
)


def test_a_success_completes() -> None:
    """A confirmed effect is completion, with the provider's reference as proof."""
    done = running().when(report(success()), at=5).then(succeeded(), completed())
    assert done.action().reference == "ch_1"
    assert done.action().result == {"paid": True}


def test_a_refusal_for_good_is_failure() -> None:
    """A definite "no effect, ever" with nothing else open is final."""
    said = report(refusal("card_declined", NEVER))
    running().when(said, at=5).then(
        refused(code="card_declined", retry=NEVER), failed("card_declined")
    )


def test_a_refusal_for_now_is_tried_again() -> None:
    """A passing refusal waits out its backoff, or the provider's own word where that is longer."""
    running().when(report(refusal()), at=5).then(refused(), retry_due(5 + wait(1)))
    longer = wait(1) + 1
    running().when(report(refusal(wait=longer)), at=5).then(refused(), retry_due(5 + longer))
    running().when(report(refusal(wait=0)), at=5).then(refused(), retry_due(5 + wait(1)))


def test_a_refusal_of_the_last_attempt_goes_to_a_person() -> None:
    """Attempts run out: that is no failure, because time and counting prove nothing."""
    running(attempt=2).when(report(refusal(), attempt=2), at=5).then(
        refused(2), retry_due(5 + wait(2))
    )
    running(attempt=3).when(report(refusal(), attempt=3), at=5).then(
        refused(3), review("attempts_exhausted")
    )


def test_a_retry_that_would_come_too_late_goes_to_a_person() -> None:
    """A wait that ends at the step's deadline or behind it is not begun."""
    fits, late = (report(refusal(wait=STEP_MS - 5 - early), key=PAYOUT) for early in (1, 0))
    payout = running(PAYOUT)
    payout.when(fits, at=5).then(refused(key=PAYOUT), retry_due(STEP_MS - 1, key=PAYOUT))
    payout.when(late, at=5).then(refused(key=PAYOUT), review("step_deadline_passed", key=PAYOUT))


@pytest.mark.parametrize("key", [EMAIL, NOTE])
def test_one_attempt_only_is_one_attempt(key: str) -> None:
    """Without a key or reference, a passing refusal is a person's question."""
    said = report(refusal(), key=key)
    running(key).when(said, at=5).then(refused(key=key), review("one_attempt_only", key=key))


def test_nothing_sent_for_good_is_failure() -> None:
    """Where no byte left and none ever will, nothing happened."""
    said = report(not_sent("no_credential", NEVER))
    then = running().when(said, at=5)
    assert [fact.type for fact in then.decided.facts] == ["attempt.not_sent", "action.failed"]
    running().when(report(not_sent()), at=5).then(unsent(), retry_due(5 + wait(1)))


def test_a_lost_answer_is_unknown_and_looked_up() -> None:
    """No answer is never a failure: the first lookup is planned."""
    lost = running().when(report(no_answer()), at=5).then(unresolved(), lookup_due(5 + LOOKUPS[0]))
    assert lost.action().status is Status.UNKNOWN
    assert lost.action().is_open


def test_a_lost_answer_without_any_way_to_find_out_goes_to_a_person() -> None:
    """No key, no lookup, no event: one attempt, then a person."""
    then = running(EMAIL).when(report(no_answer(), key=EMAIL), at=5)
    then.then(unresolved(key=EMAIL), review("no_way_to_find_out", key=EMAIL))


@pytest.mark.parametrize("outcome", [success(), refusal("gone", NEVER), not_sent("x", NEVER)])
def test_a_definite_word_after_the_lapse_still_counts(outcome: i.ReportedOutcome) -> None:
    """An outcome that comes after its lease has lapsed closes the attempt all the same."""
    settled = LOST.when(report(outcome), at=20_000)
    action = settled.before.and_then(after(20_000, *settled.decided.facts)).action()
    assert action.status is (Status.COMPLETED if isinstance(outcome, i.Success) else Status.FAILED)
    assert not action.is_open


def test_no_answer_after_the_lapse_says_nothing_new() -> None:
    """The lapse already said that nobody knows."""
    LOST.when(report(no_answer()), at=20_000).then_unchanged("already_unresolved")


def test_failure_waits_for_every_attempt() -> None:
    """A refusal of the second attempt decides nothing while the first is open, and the other way
    round.
    """
    second = TWO_OPEN.when(report(refusal("no", NEVER), attempt=2), at=9)
    unknown = second.before.and_then(after(9, *second.decided.facts)).action()
    assert unknown.status is Status.UNKNOWN
    first = TWO_OPEN.when(report(refusal("no", NEVER)), at=9).then(refused(code="no", retry=NEVER))
    assert first.action().status is Status.ATTEMPTING


def test_a_success_of_any_attempt_settles_all() -> None:
    """All attempts bear one key: the effect of one is the effect."""
    done = TWO_OPEN.when(report(success()), at=9).then(succeeded(), completed())
    assert [attempt.status for attempt in done.action().attempts] == [
        AttemptStatus.SUCCEEDED,
        AttemptStatus.SETTLED,
    ]
    done = TWO_OPEN.when(report(success(), attempt=2), at=9).then(succeeded(2), completed())
    assert [attempt.status for attempt in done.action().attempts] == [
        AttemptStatus.SETTLED,
        AttemptStatus.SUCCEEDED,
    ]


def test_a_closed_attempt_takes_its_question_with_it() -> None:
    """When nothing is open any more, no lookup is waited for: the retry is not held up by it."""
    asking = LOST.and_then(asked())
    again = asking.when(report(not_sent()), at=50).then(unsent(), retry_due(50 + wait(1)))
    assert again.action().status is Status.READY
    assert again.action().lookup is None
    answer = found_out(i.Meaning.ABSENT)
    still = again.when(answer, at=60).then(kept(answer))
    assert still.action().status is Status.READY


def test_a_start_that_is_given_back_is_tried_again_elsewhere() -> None:
    """A decline is no attempt: it costs a wait of its own, not one of the tries."""
    back = running().when(decline(), at=5).then(declined(), retry_due(5 + wait(1)))
    assert back.action().counted_attempts == 0
    assert back.action().status is Status.READY


def test_declines_have_a_limit_of_their_own() -> None:
    """After so many starts given back a person looks."""
    history = given(recorded(), automatic())
    for number in range(1, 8):
        history = history.and_then(started(number), declined(number), retry_due(1))
    last = history.and_then(started(8))
    last.when(decline(attempt=8), at=5).then(declined(8), review("declines_exhausted"))
    seven = given(recorded(), automatic())
    for number in range(1, 7):
        seven = seven.and_then(started(number), declined(number), retry_due(1))
    seven.and_then(started(7)).when(decline(attempt=7), at=5).then(
        declined(7), retry_due(5 + wait(7))
    )


def test_a_start_given_back_while_another_attempt_is_open() -> None:
    """The action stays unknown and tries again: the first attempt is as open as before."""
    back = TWO_OPEN.when(decline(attempt=2), at=9).then(declined(2), retry_due(9 + wait(1)))
    assert back.action().status is Status.UNKNOWN


def test_a_late_decline_still_says_that_nothing_left() -> None:
    """A lapsed lease made the attempt unknown; its holder's word that no byte left settles it."""
    back = LOST.when(decline(), at=20_000).then(declined(), retry_due(20_000 + wait(1)))
    assert back.action().status is Status.READY
    assert not back.action().is_open


@pytest.mark.parametrize("closing", [refused(), unsent(), declined()])
def test_a_decline_of_an_ended_attempt_changes_nothing(closing: object) -> None:
    """What has its outcome keeps it."""
    ended = running().and_then(closing, retry_due(9))  # type: ignore[arg-type]
    ended.when(decline(), at=9).then_unchanged("attempt_already_ended")


def test_a_running_attempt_of_an_action_in_review_still_ends() -> None:
    """Evidence may call a person while the call is out: its outcome, its decline and its lapse are
    recorded, and the person keeps the action; that there was no effect is one more thing to tell
    them.
    """
    assert WITH_PERSON.action().status is Status.NEEDS_REVIEW
    for said, facts in (
        (report(no_answer()), [unresolved()]),
        (report(refusal()), [refused(), review("evidence_conflicts")]),
        (report(not_sent()), [unsent(), review("evidence_conflicts")]),
        (decline(), [declined()]),
    ):
        left = WITH_PERSON.when(said, at=9).then(*facts)
        assert left.action().status is Status.NEEDS_REVIEW


def test_a_success_does_not_end_what_only_a_person_may_end() -> None:
    """Two pieces disagree, and a report does not undo that: it is kept with them."""
    left = WITH_PERSON.when(report(success()), at=9).then(succeeded())
    assert left.action().status is Status.NEEDS_REVIEW
    assert left.action().reference == "ch_1"


def test_a_success_ends_a_review_for_want_of_knowledge() -> None:
    """Where a person was called only because nobody knew, the answer is the answer."""
    tired = LOST.and_then(review("lookups_exhausted"))
    tired.when(report(success()), at=9).then(succeeded(), completed())


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (report(success(), key=EMAIL), Rejection.UNKNOWN_ACTION),
        (report(success(), attempt=2), Rejection.UNKNOWN_ATTEMPT),
        (report(success(), attempt=0, token=1), Rejection.UNKNOWN_ATTEMPT),
        (report(success(), token=2), Rejection.STALE_TOKEN),
        (report(success(), holder="executor-2"), Rejection.STALE_TOKEN),
        (decline(key=EMAIL), Rejection.UNKNOWN_ACTION),
        (decline(attempt=2), Rejection.UNKNOWN_ATTEMPT),
        (decline(token=2), Rejection.STALE_TOKEN),
        (decline(holder="executor-2"), Rejection.STALE_TOKEN),
    ],
)
def test_only_the_holder_of_a_start_speaks_for_it(
    said: i.Report | i.Decline, code: Rejection
) -> None:
    """Attempt, token and holder must be those of the start; nothing else moves anything."""
    running().when(said).then_rejected(code)


def test_the_holder_of_an_earlier_attempt_speaks_for_that_one_only() -> None:
    """A token names its attempt: the first holder cannot close the second attempt."""
    TWO_OPEN.when(report(refusal(), attempt=2, token=1)).then_rejected(Rejection.STALE_TOKEN)


DONE = running().and_then(succeeded(), completed())
FAILED = running().and_then(refused(code="no", retry=NEVER), failed("no"))
PROVEN = LOST.and_then(asked(), kept(found_out(EFFECT)), completed("lookup"))


def test_the_same_report_again_changes_nothing() -> None:
    """A report that is sent twice counts once, first hand or as evidence."""
    DONE.when(report(success())).then_unchanged("already_recorded")
    FAILED.when(report(refusal("no", NEVER))).then_unchanged("already_recorded")
    late = PROVEN.when(report(success())).then(kept_report("succeeded", EFFECT, reference="ch_1"))
    late.when(report(success())).then_unchanged("already_recorded")


def test_silence_about_an_ended_attempt_changes_nothing() -> None:
    """That no answer came says nothing against an outcome."""
    for ended in (DONE, FAILED, PROVEN):
        ended.when(report(no_answer())).then_unchanged("attempt_already_ended")


def test_a_late_success_of_a_failed_action_alarms() -> None:
    """Failed must mean that nothing happened: proof against it is a person's case, and the status
    stays.
    """
    alarmed = FAILED.when(report(success())).then(
        kept_report("succeeded", EFFECT, reference="ch_1"), review("evidence_conflicts")
    )
    assert alarmed.action().status is Status.FAILED
    assert alarmed.action().review == "evidence_conflicts"


def test_a_late_success_after_a_cancellation_alarms() -> None:
    """The same holds for what was taken back between attempts."""
    gone = running().and_then(unsent(), cancelled())
    gone.when(report(success())).then(
        kept_report("succeeded", EFFECT, reference="ch_1"), review("evidence_conflicts")
    )


def test_a_success_under_another_reference_is_a_second_effect() -> None:
    """A provider that did not honour its key is found out."""
    proven = TWO_OPEN.and_then(succeeded(), completed())
    same = proven.when(report(success(), attempt=2), at=9)
    same.then(kept_report("succeeded", EFFECT, attempt=2, reference="ch_1"))
    other = proven.when(report(success("ch_2"), attempt=2), at=9)
    other.then(
        kept_report("succeeded", EFFECT, attempt=2, reference="ch_2"), review("second_effect")
    )
    DONE.when(report(success("ch_2"))).then(
        kept_report("succeeded", EFFECT, reference="ch_2"), review("second_effect")
    )


def test_a_refusal_against_a_proof_alarms_where_it_must() -> None:
    """The only attempt was refused and yet its effect was proven: one of the two is wrong. With two
    attempts both can be right.
    """
    PROVEN.when(report(refusal("no", NEVER))).then(
        kept_report("refused", NO_EFFECT, code="no"), review("evidence_conflicts")
    )
    two = TWO_OPEN.and_then(kept(found_out(EFFECT, lookup=None), attempts_upto=2))
    both = two.and_then(completed("webhook"))
    both.when(report(refusal("no", NEVER), attempt=2)).then(
        kept_report("refused", NO_EFFECT, attempt=2, code="no")
    )


def test_a_late_refusal_of_what_was_not_sent_says_the_same() -> None:
    """Two ways to say that nothing happened do not conflict."""
    ended = running().and_then(unsent(), failed())
    ended.when(report(refusal("no", NEVER))).then(kept_report("refused", NO_EFFECT, code="no"))


def test_an_absence_withstands_a_late_refusal_and_not_a_success() -> None:
    """What the provider did not know was refused after all, or happened after all."""
    gone = running(TICKET).and_then(
        unresolved(key=TICKET), asked(key=TICKET), absent(key=TICKET), retry_due(9, key=TICKET)
    )
    refused_late = gone.when(report(refusal(), key=TICKET)).decided
    assert [fact.type for fact in refused_late.facts] == ["evidence.recorded"]
    happened = gone.when(report(success(), key=TICKET)).decided
    assert [fact.type for fact in happened.facts] == ["evidence.recorded", "review.opened"]
