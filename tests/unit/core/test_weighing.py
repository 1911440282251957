"""Evidence: what a lookup or a webhook proves in every status, and what it never proves."""

import pytest

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.limits import LOOKUPS_UNANSWERED_MAX
from ledger.core.money import Money
from ledger.core.rejections import Rejection
from ledger.core.retries import backoff_ms
from ledger.core.state import AttemptStatus, Status
from tests.examples import (
    BACKOFF_BASE_MS,
    BACKOFF_MAX_MS,
    CATALOGUE_TEXT,
    CHARGE,
    EMAIL,
    EUR_49_90,
    EUR_499,
    LAG_MS,
    LEASE_MS,
    LOOKUPS,
    NOTE,
    SETTLE_MS,
    SKEW_MS,
    T0,
    TICKET,
    absent,
    asked,
    automatic,
    cancelled,
    catalogue,
    completed,
    expired,
    failed,
    found_out,
    kept,
    lookup_due,
    no_answer,
    recorded,
    refusal,
    refused,
    report,
    retry_due,
    review,
    started,
    succeeded,
    success,
    tick,
    unresolved,
    unsent,
)
from tests.unit.core.language import Given, after, given

EFFECT, NO_EFFECT, ABSENT = i.Meaning.EFFECT, i.Meaning.NO_EFFECT, i.Meaning.ABSENT
PENDING, INCONCLUSIVE = i.Meaning.PENDING, i.Meaning.INCONCLUSIVE
NEVER = i.Retry.NEVER

OVER_MS = LEASE_MS + SKEW_MS + LAG_MS + SETTLE_MS
"""After its start: an attempt is over, and what came of it would be visible."""
LATE = OVER_MS + 1


def running(key: str = CHARGE) -> Given:
    """An action whose first attempt runs since T0."""
    return given(recorded(key), automatic(key), started(key=key))


def asking(key: str = CHARGE, *, at: int = LATE) -> Given:
    """An unknown action whose provider was asked `at`."""
    unknown = running(key).and_then(unresolved(key=key), lookup_due(at, key=key))
    return unknown.and_then(after(at, asked(key=key, at=at)))


def wait(tries: int, key: str = CHARGE) -> int:
    """The backoff that an action draws for itself."""
    return backoff_ms(key, tries, base_ms=BACKOFF_BASE_MS, cap_ms=BACKOFF_MAX_MS)


WEBHOOK = found_out(EFFECT, lookup=None)
FINAL: dict[Status, Given] = {
    Status.COMPLETED: running().and_then(succeeded(), completed()),
    Status.FAILED: running().and_then(refused(retry=NEVER), failed()),
    Status.EXPIRED: given(recorded(), automatic(), expired()),
    Status.CANCELLED: running().and_then(unsent(), cancelled()),
}

TWO = (
    asking(at=5)
    .and_then(kept(found_out(PENDING)), retry_due(6))
    .and_then(after(7, started(2, at=7, first_at=0), unresolved(2), lookup_due(90)))
)
"""Two attempts, and the answers of both were lost."""


# --- an effect ---------------------------------------------------------------------------------


def test_a_webhook_completes_what_is_unknown_or_still_out() -> None:
    """Proof completes an open action, whether its answer was lost or has not come yet."""
    running().when(WEBHOOK, at=5).then(kept(WEBHOOK), completed("webhook"))
    done = asking().when(WEBHOOK, at=LATE + 5).then(kept(WEBHOOK), completed("webhook"))
    (attempt,) = done.action().attempts
    assert attempt.status is AttemptStatus.SETTLED
    assert done.action().lookup is None


def test_a_lookup_that_finds_it_completes() -> None:
    """Found, with the right money, is proof."""
    found = found_out(EFFECT)
    asking().when(found, at=LATE + 5).then(kept(found), completed("lookup"))


def test_a_late_answer_to_an_old_question_still_proves_an_effect() -> None:
    """An effect that was seen is there, however old the question."""
    again = asking().and_then(after(LATE + 50_000, asked(2, at=LATE + 50_000)))
    old = found_out(EFFECT, lookup=1)
    again.when(old, at=LATE + 60_000).then(kept(old), completed("lookup"))


def test_proof_ends_a_review_for_want_of_knowledge() -> None:
    """needs_review is left by proof where it was opened because nobody knew."""
    tired = asking().and_then(review("lookups_exhausted"))
    tired.when(WEBHOOK, at=LATE + 5).then(kept(WEBHOOK), completed("webhook"))


def test_without_a_reference_the_key_names_the_effect() -> None:
    """A provider that gives no id is believed by our own key."""
    nameless = WEBHOOK.model_copy(update={"reference": None})
    running().when(nameless, at=5).then(kept(nameless), completed("webhook", reference=CHARGE))


@pytest.mark.parametrize("money", [EUR_499, Money(minor=4_990, currency="USD"), None])
def test_other_money_is_a_conflict_and_no_match(money: Money | None) -> None:
    """Amount or currency that differs, or is missing, goes to a person and completes nothing."""
    other = WEBHOOK.model_copy(update={"money": money})
    for history in (running(), asking(at=5)):
        left = history.when(other, at=9).then(kept(other), review("amount_differs"))
        assert left.action().status is Status.NEEDS_REVIEW
        again = WEBHOOK.model_copy(update={"source_id": "webhook:evt_2"})
        still = left.when(again, at=10).then(kept(again))
        assert still.action().status is Status.NEEDS_REVIEW


def test_an_action_without_money_matches_any_proof() -> None:
    """Where no money was asked for, none can differ."""
    found = found_out(EFFECT, key=TICKET, money=EUR_49_90)
    asking(TICKET).when(found, at=LATE + 5).then(kept(found), completed("lookup", key=TICKET))


def test_the_same_effect_again_changes_nothing_of_a_completed_action() -> None:
    """A second source for the same object is kept; another object is a second effect."""
    done = FINAL[Status.COMPLETED]
    done.when(WEBHOOK, at=5).then(kept(WEBHOOK))
    other = found_out(EFFECT, lookup=None, reference="ch_2")
    alarmed = done.when(other, at=5).then(kept(other), review("second_effect"))
    assert alarmed.action().status is Status.COMPLETED
    without_money = other.model_copy(update={"money": None})
    done.when(without_money, at=5).then(
        kept(without_money), review("second_effect"), review("amount_differs")
    )


def test_other_money_of_a_completed_action_is_an_alarm() -> None:
    """The effect that happened is not the one that was asked for."""
    other = WEBHOOK.model_copy(update={"money": EUR_499})
    FINAL[Status.COMPLETED].when(other, at=5).then(kept(other), review("amount_differs"))


@pytest.mark.parametrize("status", [Status.FAILED, Status.CANCELLED])
def test_proof_against_a_final_status_is_an_alarm(status: Status) -> None:
    """Final stays final; whoever relied on it hears."""
    alarmed = FINAL[status].when(WEBHOOK, at=5).then(kept(WEBHOOK), review("evidence_conflicts"))
    assert alarmed.action().status is status


@pytest.mark.parametrize("history", [given(recorded(), automatic()), FINAL[Status.EXPIRED]])
def test_an_effect_that_nobody_attempted_is_an_alarm(history: Given) -> None:
    """Somebody else did it, or our memory is wrong: a person looks before anything starts."""
    alarmed = history.when(WEBHOOK, at=5)
    alarmed.then(kept(WEBHOOK, attempts_upto=0), review("effect_without_attempt"))


def test_an_effect_after_a_definite_refusal_is_a_conflict() -> None:
    """Between attempts, with nothing open, an effect contradicts what was said before."""
    waiting = running().and_then(refused(), retry_due(50))
    left = waiting.when(WEBHOOK, at=5).then(kept(WEBHOOK), review("evidence_conflicts"))
    assert left.action().status is Status.NEEDS_REVIEW


# --- no effect ---------------------------------------------------------------------------------


def test_a_webhook_that_it_failed_fails_the_only_lost_attempt() -> None:
    """The provider's word that the one object came to nothing is a definite answer."""
    said = found_out(NO_EFFECT, lookup=None)
    asking().when(said, at=LATE).then(
        kept(said, denies=(1,)),
        refused(code="payment_failed", retry=NEVER),
        failed("payment_failed"),
    )


def test_a_webhook_that_it_failed_waits_for_the_answer_that_is_still_out() -> None:
    """While the call runs it is kept; where no answer comes it is the answer, and where another one
    comes somebody has to look.
    """
    said = found_out(NO_EFFECT, lookup=None)
    told = running().when(said, at=5).then(kept(said, denies=(1,)))
    assert told.action().status is Status.ATTEMPTING
    gone = refused(code="payment_failed", retry=NEVER)
    told.when(report(no_answer()), at=6).then(unresolved(), gone, failed("payment_failed"))
    told.when(tick(), at=LEASE_MS + SKEW_MS).then(
        unresolved(code="lease_lapsed"), gone, failed("payment_failed")
    )
    told.when(report(refusal()), at=6).then(refused(), failed("payment_failed"))
    done = told.when(report(success()), at=6)
    done.then(succeeded(), completed(), review("evidence_conflicts"))


def test_a_webhook_that_one_failed_says_nothing_of_two() -> None:
    """With more than one attempt it is not known whose object failed."""
    said = found_out(NO_EFFECT, lookup=None)
    TWO.when(said, at=9).then(kept(said, attempts_upto=2))


def test_a_failure_of_the_completed_object_is_a_conflict() -> None:
    """What was proven and is now said to have failed is for a person, by its reference."""
    done = FINAL[Status.COMPLETED]
    same = found_out(NO_EFFECT, lookup=None, reference="ch_1", source="webhook:evt_2")
    done.when(same, at=5).then(kept(same, denies=(1,)), review("evidence_conflicts"))
    two = TWO.and_then(kept(WEBHOOK, attempts_upto=2), completed("webhook"))
    two.when(same, at=9).then(kept(same, attempts_upto=2), review("evidence_conflicts"))


def test_another_object_that_failed_contradicts_only_where_there_was_one_attempt() -> None:
    """One attempt makes one object: that it failed and that it is there are two stories, whichever
    is told first. Of two attempts one may have failed.
    """
    other = found_out(NO_EFFECT, lookup=None, reference="ch_0", source="webhook:evt_2")
    FINAL[Status.COMPLETED].when(other, at=5).then(
        kept(other, denies=(1,)), review("evidence_conflicts")
    )
    failed_first = asking().when(other, at=LATE)
    gone = failed_first.then(
        kept(other, denies=(1,)),
        refused(code="payment_failed", retry=NEVER),
        failed("payment_failed"),
    )
    gone.when(WEBHOOK, at=LATE).then(kept(WEBHOOK), review("evidence_conflicts"))
    two = TWO.and_then(kept(WEBHOOK, attempts_upto=2), completed("webhook"))
    two.when(other, at=9).then(kept(other, attempts_upto=2))


@pytest.mark.parametrize("status", [Status.FAILED, Status.EXPIRED, Status.CANCELLED])
def test_a_failure_of_what_is_final_without_effect_agrees(status: Status) -> None:
    """Nothing happened, says one more source."""
    said = found_out(NO_EFFECT, lookup=None)
    then = FINAL[status].when(said, at=5)
    assert [fact.type for fact in then.decided.facts] == ["evidence.recorded"]


# --- absence -----------------------------------------------------------------------------------


def test_absence_counts_only_when_it_was_asked_late_enough() -> None:
    """Last possible byte, search lag and settle horizon must all lie before the question."""
    gone = found_out(ABSENT, key=NOTE)
    early = asking(NOTE, at=OVER_MS).when(gone, at=OVER_MS + 1)
    early.then(kept(gone), lookup_due(OVER_MS + 1 + LOOKUPS[1], key=NOTE))
    asking(NOTE, at=OVER_MS + 1).when(gone, at=OVER_MS + 2).then(
        kept(gone, denies=(1,)), absent(key=NOTE), failed("no_effect_found", key=NOTE)
    )


def test_reliable_absence_lets_a_keyed_action_try_again() -> None:
    """Surely no effect so far, and the same key: another attempt is safe."""
    gone = found_out(ABSENT)
    again = asking().when(gone, at=LATE + 5)
    again.then(kept(gone, denies=(1,)), absent(), retry_due(LATE + 5 + BACKOFF_BASE_MS))


def test_reliable_absence_lets_a_lookup_action_try_once_more_where_declared() -> None:
    """The second attempt of the class lookup is the catalogue's choice."""
    gone = found_out(ABSENT, key=TICKET)
    asking(TICKET).when(gone, at=LATE + 5).then(
        kept(gone, denies=(1,)),
        absent(key=TICKET),
        retry_due(LATE + 5 + BACKOFF_BASE_MS, key=TICKET),
    )


def test_an_old_absence_settles_no_newer_attempt() -> None:
    """A question asked before an attempt began says nothing about it."""
    history = (
        asking(at=5)
        .and_then(kept(found_out(PENDING)), retry_due(6))
        .and_then(after(7, started(2, at=7, first_at=0), unresolved(2), lookup_due(LATE * 2)))
    )
    second = history.and_then(after(LATE * 2, asked(2, at=LATE * 2, attempts_upto=1)))
    gone = found_out(ABSENT, lookup=2)
    left = second.when(gone, at=LATE * 2 + 5)
    action = left.before.and_then(after(LATE * 2 + 5, *left.decided.facts)).action()
    assert [attempt.status for attempt in action.attempts] == [
        AttemptStatus.ABSENT,
        AttemptStatus.UNRESOLVED,
    ]
    assert action.status is Status.UNKNOWN


def test_absence_says_nothing_about_a_call_that_is_out() -> None:
    """A running attempt is closed by its outcome or its lapse, never by a search."""
    history = asking(at=5).and_then(retry_due(6), after(7, started(2, at=7, first_at=0)))
    gone = found_out(ABSENT)
    left = history.when(gone, at=9).then(kept(gone))
    assert left.action().running is not None


def test_a_webhook_cannot_say_absent() -> None:
    """Only an answer to a question of ours can be an absence."""
    said = found_out(ABSENT, lookup=None, source="webhook:evt_3")
    asking().when(said, at=LATE + 5).then(kept(said))
    posing = said.model_copy(update={"lookup": 1})
    left = asking().when(posing, at=LATE + 5).then(kept(said))
    assert left.action().lookup is not None


def test_a_late_absence_is_kept_and_proves_nothing() -> None:
    """The answer to a question that has been asked again counts no more."""
    again = asking().and_then(after(LATE + 50_000, asked(2, at=LATE + 50_000)))
    old = found_out(ABSENT, lookup=1)
    left = again.when(old, at=LATE + 60_000).then(kept(old))
    assert left.action().is_open


def test_absence_of_what_is_in_review_closes_and_leaves_it() -> None:
    """The attempt is closed, the person keeps the action."""
    history = asking().and_then(review("operation_withdrawn"))
    gone = found_out(ABSENT)
    left = history.when(gone, at=LATE + 5).then(kept(gone, denies=(1,)), absent())
    assert left.action().status is Status.NEEDS_REVIEW
    assert not left.action().is_open


def test_absence_cannot_be_judged_without_the_operation() -> None:
    """Lag and horizon are the catalogue's; without them a person looks."""
    only_email = CATALOGUE_TEXT[: CATALOGUE_TEXT.index("[[operation]]")]
    only_email += CATALOGUE_TEXT[CATALOGUE_TEXT.rindex("[[operation]]") :]
    withdrawn = Config(catalogue(only_email), "sha256:other")
    gone = found_out(ABSENT)
    left = asking().under(withdrawn).when(gone, at=LATE + 5)
    left.then(kept(gone), review("operation_withdrawn"))


# --- neither -----------------------------------------------------------------------------------


@pytest.mark.parametrize("meaning", [PENDING, INCONCLUSIVE])
def test_an_answer_that_proves_nothing_leads_to_the_next_question(meaning: i.Meaning) -> None:
    """It is kept, and the schedule goes on."""
    said = found_out(meaning, key=NOTE)
    asking(NOTE).when(said, at=LATE + 5).then(
        kept(said), lookup_due(LATE + 5 + LOOKUPS[1], key=NOTE)
    )


def test_questions_run_out_into_a_person() -> None:
    """After the last rung of the schedule a person looks; nothing is ever failed by time."""
    history = asking(NOTE, at=5)
    for lookup in (1, 2):
        said = found_out(PENDING, key=NOTE, lookup=lookup)
        history = history.and_then(kept(said), lookup_due(9, key=NOTE), asked(lookup + 1, key=NOTE))
    last = found_out(PENDING, key=NOTE, lookup=3)
    left = history.when(last, at=9).then(kept(last), review("lookups_exhausted", key=NOTE))
    assert left.action(NOTE).is_open


def test_only_answers_use_up_the_schedule() -> None:
    """A question that proved nothing is put again, and at last a person looks all the same."""
    history = asking(NOTE, at=5)
    most = len(LOOKUPS) + LOOKUPS_UNANSWERED_MAX
    for lookup in range(1, most):
        said = found_out(INCONCLUSIVE, key=NOTE, lookup=lookup)
        slowest = LOOKUPS[min(lookup, len(LOOKUPS) - 1)]
        history = history.when(said, at=9).then(kept(said), lookup_due(9 + slowest, key=NOTE))
        history = history.and_then(asked(lookup + 1, key=NOTE))
    last = found_out(INCONCLUSIVE, key=NOTE, lookup=most)
    left = history.when(last, at=9).then(kept(last), review("lookups_exhausted", key=NOTE))
    assert left.action(NOTE).lookups_answered == 0


def test_an_answered_question_lets_a_keyed_action_probe_with_its_key() -> None:
    """After a lookup without proof the same key is the next question."""
    said = found_out(PENDING)
    asking(at=5).when(said, at=9).then(kept(said), retry_due(9 + wait(1)))


def test_a_webhook_without_proof_leaves_the_schedule_alone() -> None:
    """Progress is kept; the timer that stands stays."""
    said = found_out(PENDING, lookup=None)
    waiting = running().and_then(unresolved(), lookup_due(50))
    left = waiting.when(said, at=9).then(kept(said))
    assert left.action().timer is not None


# --- who may say so ----------------------------------------------------------------------------


def test_one_source_counts_once() -> None:
    """The same webhook or answer again changes nothing, in any status."""
    once = running().when(WEBHOOK, at=5).then(kept(WEBHOOK), completed("webhook"))
    once.when(WEBHOOK, at=6).then_unchanged("evidence_known")


def test_evidence_must_come_from_the_actions_own_account() -> None:
    """Another account's word, right in everything else, is refused."""
    foreign = found_out(EFFECT, lookup=None, account="other")
    running().when(foreign).then_rejected(Rejection.FOREIGN_ACCOUNT, action=CHARGE)
    namesake = found_out(EFFECT, lookup=None, provider="another")
    running().when(namesake).then_rejected(Rejection.FOREIGN_ACCOUNT, action=CHARGE)


@pytest.mark.parametrize("lookup", [0, 2])
def test_only_lookups_that_the_ledger_asked_for_count(lookup: int) -> None:
    """An answer names a question; a question that was not put has no answer."""
    said = found_out(EFFECT, lookup=1).model_copy(update={"lookup": lookup})
    asking().when(said, at=LATE).then_rejected(Rejection.UNKNOWN_LOOKUP, action=CHARGE)
    nameless = found_out(EFFECT, lookup=1).model_copy(update={"lookup": None})
    asking().when(nameless, at=LATE).then_rejected(Rejection.UNKNOWN_LOOKUP)


def test_evidence_for_an_unknown_key_makes_no_action() -> None:
    """An effect that we know nothing of never becomes a stream."""
    given().when(WEBHOOK).then_rejected(Rejection.UNKNOWN_ACTION)
    running().when(found_out(EFFECT, key=EMAIL, lookup=None)).then_rejected(
        Rejection.UNKNOWN_ACTION
    )


def test_time_of_a_question_is_log_time() -> None:
    """What bounds an absence is when the question was decided, not when it was answered."""
    action = asking(at=77).action()
    assert action.lookup is not None
    assert action.lookup.asked_at == T0 + 77
