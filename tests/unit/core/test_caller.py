"""An action that its caller carries out itself: who may begin, what the caller's word proves, and
what happens when it is never heard of again.
"""

import pytest

from ledger.core import facts as f
from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.offers import Offer, offer_of_caller
from ledger.core.operation import Performer
from ledger.core.rejections import Rejection
from ledger.core.state import AttemptStatus, Status
from tests.examples import (
    BACKOFF_BASE_MS,
    CALL_MS,
    CHARGE,
    CONFIG,
    EMAIL,
    EUR_499,
    LAG_MS,
    LEASE_MS,
    LOOKUPS,
    SETTLE_MS,
    SKEW_MS,
    STEP_MS,
    T0,
    automatic,
    completed,
    expired,
    failed,
    found_out,
    kept,
    lookup_due,
    offer,
    operation_of,
    propose,
    recorded,
    refusal,
    refused,
    request,
    retry_due,
    review,
    started,
    succeeded,
    success,
    tick,
    unresolved,
)
from tests.unit.core.language import Given, Story, given

NONCE = "5f3a9c"
OTHER = "77b1d0"


def config(performer: Performer = "either", *, attests: bool = False) -> Config:
    """The shared catalogue, its operations carried out by whom a test says."""
    changes = {"performer": performer, "caller_attests_no_effect": attests}
    operations = tuple(one.model_copy(update=changes) for one in CONFIG.catalogue.operations)
    known = CONFIG.catalogue
    return Config(Catalogue(operations, known.content_hash, known.timing), known.content_hash)


def offers(nonce: str = NONCE, valid_ms: int = 5_000) -> i.CallerOffer:
    """A call offers itself."""
    return i.CallerOffer(nonce=nonce, valid_ms=valid_ms)


def at_hand(nonce: str = NONCE, *, at: int = 0, key: str = CHARGE) -> Offer:
    """The offer of a call as the owner takes it from the proposal."""
    return offer_of_caller(offers(nonce), operation_of(key).name, T0 + at)


def own(key: str = CHARGE) -> f.IntentRecorded:
    """The intent is in the ledger, for its caller to carry out."""
    return recorded(key).model_copy(update={"performer": "caller"})


def begun(attempt: int = 1, *, nonce: str = NONCE, at: int = 0, key: str = CHARGE) -> f.AnyFact:
    """An attempt of the caller itself begins."""
    return started(attempt, key=key, at=at, holder=f"caller:{nonce}", sequence=0, first_at=0)


def says(
    outcome: i.ReportedOutcome,
    *,
    nonce: str = NONCE,
    attempt: int = 1,
    key: str = CHARGE,
    principal: str = "agent:billing",
) -> i.CallerReport:
    """The caller says what became of its attempt."""
    return i.CallerReport(
        key=key,
        principal=principal,
        attempt=attempt,
        fencing_token=attempt,
        nonce=nonce,
        outcome=outcome,
    )


def running(key: str = CHARGE, *, attests: bool = False) -> Given:
    """An action that its caller carries out since T0."""
    history = given(own(key), automatic(key), begun(key=key))
    return history.under(config(attests=attests))


def test_a_proposal_that_is_an_offer_starts_for_that_call() -> None:
    """The start is written in the same decision and names the nonce, so that no other call acts."""
    given().under(config()).when(propose(caller=offers()), offer=at_hand()).then(
        own(), automatic(), begun()
    )


@pytest.mark.parametrize("performer", ["caller", "either"])
def test_an_offer_that_came_too_late_records_and_does_not_start(performer: Performer) -> None:
    """Without a fresh offer the action waits for its caller; no executor is given it."""
    then = given().under(config(performer)).when(propose(caller=offers()))
    waiting = then.then(own(), automatic())
    waiting.when(tick(), at=1, offer=offer(at=1)).then_unchanged("nothing_due")


def test_an_operation_may_demand_an_executor() -> None:
    """The catalogue decides who acts; the caller is told by name, and nothing is recorded."""
    asked = given().when(propose(caller=offers()), offer=at_hand())
    asked.then_rejected(Rejection.NEEDS_EXECUTOR)


def test_an_operation_may_demand_its_caller() -> None:
    """What no executor can do is not taken from who would leave it to one."""
    given().under(config("caller")).when(propose()).then_rejected(Rejection.NEEDS_CALLER)


def test_the_same_proposal_by_another_call_waits_while_one_acts() -> None:
    """A duplicate gets the action as it stands: it may not act beside the call that the start
    names.
    """
    again = running().when(propose(caller=offers(OTHER)), at=5, offer=at_hand(OTHER, at=5))
    again.then_unchanged("replayed")


def test_the_same_proposal_after_the_effect_is_answered_from_the_record() -> None:
    """The recorded result is the answer; nothing runs again."""
    done = running().and_then(succeeded(), completed())
    again = done.when(propose(caller=offers(OTHER)), at=5, offer=at_hand(OTHER, at=5))
    again.then_unchanged("replayed")


def test_a_changed_request_conflicts_whoever_would_act() -> None:
    """An offer does not make another request of the same key acceptable."""
    changed = propose(request=request(money=EUR_499), caller=offers(OTHER))
    running().when(changed, offer=at_hand(OTHER)).then_rejected(Rejection.CONFLICTED)


def test_a_caller_may_offer_again_while_its_action_waits() -> None:
    """An offer that lapsed is made again, and then the start is its own."""
    waiting = given(own(), automatic()).under(config())
    waiting.when(propose(caller=offers(OTHER)), at=9, offer=at_hand(OTHER, at=9)).then(
        started(at=9, holder=f"caller:{OTHER}", sequence=0)
    )


def test_an_offer_is_good_for_one_start_however_often_it_comes() -> None:
    """A proposal that lies twice in the log names the same call: it had its turn, and does not act
    again. Another call may.
    """
    attests = config(attests=True)
    over = given(own(), automatic(), begun(), refused(), retry_due(9)).under(attests)
    over.when(propose(caller=offers()), at=20, offer=at_hand(at=20)).then_unchanged("replayed")
    over.when(propose(caller=offers(OTHER)), at=20, offer=at_hand(OTHER, at=20)).then(
        begun(2, nonce=OTHER, at=20)
    )


def test_a_caller_that_offers_for_an_executors_action_is_told_how_it_stands() -> None:
    """Who acts was settled when the intent was recorded."""
    waiting = given(recorded(), automatic()).under(config())
    again = waiting.when(propose(caller=offers()), at=9, offer=at_hand(at=9))
    again.then_unchanged("replayed")


def test_an_executor_withdrawn_for_is_not_replaced_by_a_caller() -> None:
    """An operation that has come to demand an executor starts nothing for a caller any more."""
    waiting = given(own(), automatic())
    again = waiting.when(propose(caller=offers()), at=9, offer=at_hand(at=9))
    again.then_unchanged("replayed")


def test_a_callers_success_completes() -> None:
    """Its word proves the effect, with its reference."""
    done = running().when(says(success()), at=7).then(succeeded(), completed())
    assert done.action().reference == "ch_1"


def test_a_callers_no_effect_is_proof_where_the_operation_says_so() -> None:
    """A refusal for ever then fails the action."""
    said = says(refusal("card_declined", i.Retry.NEVER))
    running(attests=True).when(said).then(
        refused(code="card_declined", retry=i.Retry.NEVER), failed("card_declined")
    )


@pytest.mark.parametrize(
    "outcome",
    [refusal("busy"), i.NotSent(code="busy", retry=i.Retry.NEVER)],
    ids=["refused", "not_sent"],
)
def test_a_callers_no_effect_is_else_only_its_word(outcome: i.ReportedOutcome) -> None:
    """The attempt stays unresolved, and the provider is asked."""
    running().when(says(outcome)).then(unresolved(code="unattested:busy"), lookup_due(LOOKUPS[0]))


def test_without_lookups_an_unattested_no_effect_is_for_a_person() -> None:
    """Nobody else could tell."""
    running(EMAIL).when(says(refusal("busy"), key=EMAIL)).then(
        unresolved(key=EMAIL, code="unattested:busy"), review("no_way_to_find_out", key=EMAIL)
    )


@pytest.mark.parametrize(
    "changed", [{"nonce": OTHER}, {"principal": "agent:other"}], ids=["nonce", "principal"]
)
def test_only_the_call_that_was_started_is_heard(changed: dict[str, str]) -> None:
    """Another nonce or another principal is no holder of this start."""
    said = says(success()).model_copy(update=changed)
    running().when(said).then_rejected(Rejection.STALE_TOKEN)


def test_an_executors_report_is_not_heard_of_a_callers_attempt() -> None:
    """Each speaks on its own topic for its own attempts, and neither for the other's."""
    report = i.Report(
        key=CHARGE, attempt=1, fencing_token=1, holder=f"caller:{NONCE}", outcome=success()
    )
    running().when(report).then_rejected(Rejection.STALE_TOKEN)
    declined = i.Decline(
        key=CHARGE, attempt=1, fencing_token=1, holder=f"caller:{NONCE}", code="shutdown"
    )
    running().when(declined).then_rejected(Rejection.STALE_TOKEN)


def test_a_caller_does_not_speak_for_an_executors_attempt() -> None:
    """The nonce behind the prefix is no incarnation's name."""
    by_executor = given(recorded(), automatic(), started(holder=NONCE)).under(config())
    by_executor.when(says(success())).then_rejected(Rejection.STALE_TOKEN)


def test_a_caller_that_is_never_heard_of_again_leaves_an_unknown() -> None:
    """Its lease lapses, and the provider is asked whatever becomes of the caller."""
    lapsed_at = LEASE_MS + SKEW_MS
    running().when(tick(), at=lapsed_at).then(
        unresolved(code="lease_lapsed"), lookup_due(lapsed_at + LOOKUPS[0])
    )


def test_a_class_without_lookups_is_never_run_again() -> None:
    """One attempt, then a person; a call that offers again is told so."""
    story = Story(config())
    story.hears(propose(EMAIL, caller=offers()), offer=at_hand(key=EMAIL))
    story.hears(tick(), at=LEASE_MS + SKEW_MS)
    assert story.action(EMAIL).status is Status.NEEDS_REVIEW
    again = propose(EMAIL, caller=offers(OTHER))
    at = LEASE_MS + SKEW_MS + 5
    story.hears(again, at=at, offer=at_hand(OTHER, at=at, key=EMAIL)).then_unchanged("replayed")


def test_a_keyed_unknown_is_run_again_with_the_same_key_once_the_provider_was_asked() -> None:
    """The first question comes before the same key again, and the next call may then begin."""
    story = Story(config())
    story.hears(propose(caller=offers()), offer=at_hand())
    lapsed_at = LEASE_MS + SKEW_MS
    story.hears(tick(), at=lapsed_at)
    early = lapsed_at + 1
    again = propose(caller=offers(OTHER))
    story.hears(again, at=early, offer=at_hand(OTHER, at=early)).then_unchanged("replayed")
    asked_at = lapsed_at + LOOKUPS[0]
    story.hears(tick(), at=asked_at)
    story.hears(again, at=asked_at, offer=at_hand(OTHER, at=asked_at)).then_unchanged("replayed")
    story.hears(found_out(i.Meaning.PENDING), at=asked_at + 1)
    later = asked_at + 2
    story.hears(again, at=later, offer=at_hand(OTHER, at=later))
    second = story.action().attempts[1]
    assert second.holder == f"caller:{OTHER}"
    assert second.provider_key == story.action().attempts[0].provider_key


def test_the_key_window_ends_a_callers_retries_too() -> None:
    """After it the same key could be a second effect, whoever sends it."""
    story = Story(config())
    story.hears(propose(caller=offers()), offer=at_hand())
    story.hears(tick(), at=LEASE_MS + SKEW_MS)
    story.hears(tick(), at=LEASE_MS + SKEW_MS + LOOKUPS[0])
    answered_at = LEASE_MS + SKEW_MS + LOOKUPS[0] + 1
    story.hears(found_out(i.Meaning.PENDING), at=answered_at)
    operation = operation_of(CHARGE)
    assert operation.key_window_ms is not None
    closed = operation.key_window_ms - operation.key_margin_ms
    again = propose(caller=offers(OTHER))
    story.hears(again, at=closed, offer=at_hand(OTHER, at=closed)).then_unchanged("replayed")


def test_a_reliable_absence_lets_the_caller_try_again_after_the_backoff() -> None:
    """Surely nothing happened: the next offer after the wait starts the second attempt."""
    story = Story(config())
    story.hears(propose(caller=offers()), offer=at_hand())
    lapsed_at = LEASE_MS + SKEW_MS
    story.hears(tick(), at=lapsed_at)
    asked_at = lapsed_at + SETTLE_MS + LAG_MS + LOOKUPS[0]
    story.hears(tick(), at=asked_at)
    story.hears(found_out(i.Meaning.ABSENT), at=asked_at + 1)
    assert story.action().status is Status.READY
    soon = asked_at + 2
    again = propose(caller=offers(OTHER))
    story.hears(again, at=soon, offer=at_hand(OTHER, at=soon)).then_unchanged("replayed")
    due = asked_at + 1 + BACKOFF_BASE_MS
    story.hears(again, at=due, offer=at_hand(OTHER, at=due))
    assert [one.status for one in story.action().attempts] == [
        AttemptStatus.ABSENT,
        AttemptStatus.RUNNING,
    ]


def test_a_caller_that_never_began_lets_the_action_expire() -> None:
    """Its own deadline passes without a start: nothing happened and nothing will."""
    waiting = given(own(), automatic()).under(config())
    waiting.when(tick(), at=STEP_MS).then(expired())


def test_a_late_word_of_the_caller_still_proves_the_effect() -> None:
    """The lease is over and the success is true all the same."""
    lost = running().and_then(unresolved(code="lease_lapsed"), lookup_due(LOOKUPS[0]))
    lost.when(says(success()), at=LEASE_MS + 9).then(succeeded(), completed())


def test_the_lease_of_a_caller_is_its_calls_deadline_and_the_margin() -> None:
    """No longer than an executor's."""
    decided = given().under(config()).when(propose(caller=offers()), offer=at_hand()).decided
    start = decided.facts[2]
    assert isinstance(start, f.AttemptStarted)
    assert (start.deadline_at - T0, start.lease_until - T0) == (CALL_MS, LEASE_MS)


def test_evidence_settles_a_callers_attempt_like_any_other() -> None:
    """A webhook completes what the caller never reported."""
    paid = found_out(i.Meaning.EFFECT, lookup=None)
    running().when(paid).then(kept(paid), completed("webhook"))
