"""Public failure cases that the core alone must answer, told on one stream each.

Each call that reaches a provider is an `attempt.started` here: there is no other way to one.
"""

import pytest

from ledger.core import inputs as i
from ledger.core.limits import LOOKUPS_UNANSWERED_MAX
from ledger.core.money import Money
from ledger.core.rejections import Rejection
from ledger.core.state import AttemptStatus, Status
from tests.examples import (
    CHARGE,
    EMAIL,
    EUR_49_90,
    EUR_499,
    LAG_MS,
    LEASE_MS,
    LOOKUP_ANSWER_MS,
    LOOKUPS,
    NOTE,
    PAYOUT,
    SETTLE_MS,
    SKEW_MS,
    STEP_MS,
    TICKET,
    cancel,
    decline,
    found_out,
    no_answer,
    offer,
    propose,
    refusal,
    report,
    request,
    success,
    tick,
)
from tests.unit.core.language import Story

EFFECT, NO_EFFECT = i.Meaning.EFFECT, i.Meaning.NO_EFFECT
PENDING, ABSENT = i.Meaning.PENDING, i.Meaning.ABSENT
LAPSE = LEASE_MS + SKEW_MS
DAY_MS = 24 * 3_600_000
ALWAYS = 400 * DAY_MS


def begun(key: str = CHARGE) -> Story:
    """An action that was proposed and started at once."""
    story = Story()
    story.hears(propose(key), offer=offer(key=key))
    assert story.action(key).status is Status.ATTEMPTING
    return story


def webhook(number: int, meaning: i.Meaning = EFFECT, **changes: object) -> i.Evidence:
    """A delivery of the provider's event `number`."""
    said = found_out(meaning, lookup=None, source=f"webhook:evt_{number}")
    return said.model_copy(update=changes)


@pytest.mark.case("C001")
def test_c001_a_lost_answer_asked_again_and_settled_twice_is_one_effect() -> None:
    """C001: the second submit is a replay of the unknown action, the first settlement webhook
    completes it and the second changes nothing.
    """
    story = begun()
    story.hears(report(no_answer()), at=30_000)
    story.hears(propose(), at=60_000, offer=offer(until=ALWAYS)).then_unchanged("replayed")
    assert story.action().status is Status.UNKNOWN
    story.hears(webhook(1), at=65_000)
    assert story.action().status is Status.COMPLETED
    story.hears(webhook(1), at=65_005).then_unchanged("evidence_known")
    assert story.count("attempt.started") == 1
    assert story.count("action.completed") == 1


@pytest.mark.case("C007")
def test_c007_an_intent_appended_twice_is_one_action() -> None:
    """C007: the second copy of a proposal is answered by the first and moves no version."""
    story = begun()
    version = story.action().version
    story.hears(propose(), at=3, offer=offer()).then_unchanged("replayed")
    assert story.action().version == version
    assert story.count("intent.recorded") == 1
    assert story.count("attempt.started") == 1


@pytest.mark.case("C009")
def test_c009_a_confirmed_creation_needs_no_reading_back() -> None:
    """C009: completed from the confirming answer on, whatever a later look says."""
    story = begun(TICKET)
    story.hears(report(success("88"), key=TICKET), at=5)
    assert story.action(TICKET).status is Status.COMPLETED
    assert story.count("attempt.started", TICKET) == 1


@pytest.mark.case("C017")
def test_c017_a_used_key_never_stands_for_other_parameters() -> None:
    """C017: after a definite refusal the same key with another card is a conflict that names the
    field; a key of its own goes ahead at once.
    """
    story = Story()
    first = propose(request=request(text="card c1"))
    story.hears(first, offer=offer())
    story.hears(report(refusal("card_declined", i.Retry.NEVER)), at=5)
    assert story.action().status is Status.FAILED
    then = story.hears(propose(request=request(text="card c2")), at=9, offer=offer())
    then.then_rejected(Rejection.CONFLICTED, action=CHARGE)
    assert then.decided.refused is not None
    (difference,) = then.decided.refused.details
    assert (difference.path, difference.message) == ("/params/text", '"card c1" -> "card c2"')
    other = f"{CHARGE}#second-card"
    story.hears(i.Propose(key=other, request=request(text="card c2")), at=9, offer=offer())
    assert story.action(other).status is Status.ATTEMPTING


@pytest.mark.case("C019")
def test_c019_a_key_made_of_nothing_gives_nobody_another_ones_result() -> None:
    """C019: a key in which a value is missing is refused by name. Under a careless one that cannot
    be told from a good one, the second of two users is refused and learns no result.
    """
    story = Story()
    nobodys = i.Propose(key="charge:v1:acme:renewal-1#account_None", request=request())
    story.hears(nobodys, offer=offer()).then_rejected(Rejection.UNSTABLE_KEY)
    key = "charge:v1:acme:renewal-1#account"
    story.hears(i.Propose(key=key, request=request(text="user u1")), offer=offer())
    story.hears(report(success(), key=key), at=5)
    then = story.hears(i.Propose(key=key, request=request(text="user u2")), at=9)
    then.then_rejected(Rejection.CONFLICTED, action=key)
    assert "ch_1" not in str(then.decided)


@pytest.mark.case("C023")
def test_c023_our_memory_of_a_key_outlives_the_providers() -> None:
    """C023: two days on the same request is a replay of its result without a call, and a changed
    one is refused.
    """
    story = begun()
    story.hears(report(success("cus_1")), at=5)
    again = story.hears(propose(), at=2 * DAY_MS, offer=offer(until=ALWAYS))
    again.then_unchanged("replayed")
    assert again.decided.unchanged is not None
    assert again.decided.unchanged.reference == "cus_1"
    changed = story.hears(propose(request=request(text="new e-mail")), at=3 * DAY_MS)
    changed.then_rejected(Rejection.CONFLICTED)
    assert story.count("attempt.started") == 1


@pytest.mark.case("C025")
def test_c025_a_provider_without_proven_keys_is_not_tried_again() -> None:
    """C025: the class lookup gets no second attempt by itself; the change log settles it."""
    story = begun(NOTE)
    story.hears(report(no_answer(), key=NOTE), at=5)
    for at in (LOOKUPS[0] + 5, LOOKUPS[0] + 9):
        story.hears(tick(), at=at, offer=offer(key=NOTE, until=ALWAYS))
    story.hears(found_out(EFFECT, key=NOTE, reference="+5"), at=20_000)
    assert story.action(NOTE).status is Status.COMPLETED
    assert story.count("attempt.started", NOTE) == 1


@pytest.mark.case("C027")
def test_c027_a_stored_failure_is_told_as_a_replay() -> None:
    """C027: the same key again and again after a failure starts nothing and says that it is old."""
    story = begun()
    story.hears(report(refusal("no_funds", i.Retry.NEVER)), at=5)
    for hour in (1, 2, 3):
        then = story.hears(propose(), at=hour * 3_600_000, offer=offer(until=ALWAYS))
        then.then_unchanged("replayed")
        assert then.decided.unchanged is not None
        assert then.decided.unchanged.status == "failed"
    assert story.count("attempt.started") == 1


@pytest.mark.case("C029")
def test_c029_a_gateway_timeout_is_remembered_as_not_knowing() -> None:
    """C029: repeats are replays of unknown; only evidence moves it."""
    story = begun()
    story.hears(report(no_answer("http_504")), at=5)
    for at in (10, 20, 30):
        story.hears(propose(), at=at, offer=offer()).then_unchanged("replayed")
    action = story.action()
    assert (action.status, action.attempts[0].code) == (Status.UNKNOWN, "http_504")
    assert story.count("attempt.started") == 1


@pytest.mark.case("C033")
def test_c033_a_killed_worker_leaves_unknown_and_never_running_for_ever() -> None:
    """C033: in progress while the lease lives, then unknown with a lookup planned."""
    story = begun()
    story.hears(propose(), at=LAPSE - 1).then_unchanged("replayed")
    story.hears(tick(), at=LAPSE - 1, offer=offer(until=ALWAYS)).then_unchanged("nothing_due")
    assert story.action().status is Status.ATTEMPTING
    story.hears(tick(), at=LAPSE, offer=offer(until=ALWAYS))
    action = story.action()
    assert (action.status, action.attempts[0].code) == (Status.UNKNOWN, "lease_lapsed")
    assert action.timer is not None
    assert action.timer.purpose == "lookup"
    assert story.count("attempt.started") == 1


@pytest.mark.case("C035")
def test_c035_a_slow_provider_gets_no_second_request_and_its_late_answer_counts() -> None:
    """C035: nobody else may send while an attempt has no result; the late one completes."""
    story = begun(NOTE)
    story.hears(tick(), at=LAPSE, offer=offer(key=NOTE, until=ALWAYS))
    story.hears(tick(), at=LAPSE + 1, offer=offer(key=NOTE, until=ALWAYS))
    story.hears(report(success("w_1"), key=NOTE), at=LAPSE + 4_000)
    assert story.action(NOTE).status is Status.COMPLETED
    assert story.count("attempt.started", NOTE) == 1


@pytest.mark.case("C037")
def test_c037_a_second_request_during_a_slow_call_starts_nothing() -> None:
    """C037: the claim stands before the effect, so the second submit finds it."""
    story = begun()
    story.hears(propose(), at=50, offer=offer()).then_unchanged("replayed")
    assert story.count("attempt.started") == 1


@pytest.mark.case("C039")
def test_c039_a_key_that_is_in_use_is_not_a_failure() -> None:
    """C039: the provider's "first still running" leaves the action unknown until it is found."""
    story = begun()
    story.hears(report(no_answer("key_in_use")), at=5)
    assert story.action().status is Status.UNKNOWN
    story.hears(tick(), at=5 + LOOKUPS[0])
    story.hears(found_out(EFFECT), at=6_000)
    assert story.action().status is Status.COMPLETED


@pytest.mark.case("C041")
def test_c041_a_slow_worker_keeps_its_attempt_and_loses_its_stale_token() -> None:
    """C041: no second start while the first may have sent; its late result is evidence for its own
    attempt. Where it gave the start back, another runs and the first one's word is void.
    """
    story = begun()
    story.hears(tick(), at=LAPSE, offer=offer(until=ALWAYS, incarnation="w2"))
    assert story.count("attempt.started") == 1
    story.hears(report(success("R1")), at=45_000)
    assert (story.action().status, story.action().reference) == (Status.COMPLETED, "R1")

    story = begun()
    story.hears(decline(), at=5)
    story.hears(tick(), at=5_000, offer=offer(until=ALWAYS, incarnation="w2"))
    assert story.action().attempts[1].holder == "w2"
    stale = report(success("R1"), attempt=2, token=1)
    story.hears(stale, at=5_500).then_rejected(Rejection.STALE_TOKEN)
    story.hears(report(success("R2"), attempt=2, holder="w2"), at=6_000)
    assert story.action().reference == "R2"


@pytest.mark.case("C045")
def test_c045_tokens_never_restart() -> None:
    """C045: each start has a larger token than every one before, whatever became of them."""
    story = begun()
    tokens = []
    for number in range(1, 4):
        tokens.append(story.action().attempts[-1].fencing_token)
        holder = "executor-1" if number == 1 else f"w{number}"
        story.hears(decline(attempt=number, holder=holder), at=number * 20_000)
        story.hears(
            tick(),
            at=number * 20_000 + 10_000,
            offer=offer(until=ALWAYS, incarnation=f"w{number + 1}"),
        )
    assert tokens == sorted(set(tokens))
    story.hears(report(success(), attempt=4, token=3, holder="w4"), at=90_000).then_rejected(
        Rejection.STALE_TOKEN
    )


@pytest.mark.case("C047")
def test_c047_trouble_between_the_start_and_the_first_byte_loses_and_doubles_nothing() -> None:
    """C047: with the holder's word that no byte left it is tried again; without, it is unknown."""
    story = begun()
    story.hears(decline(), at=5)
    assert story.action().status is Status.READY
    story = begun()
    story.hears(tick(), at=LAPSE)
    assert story.action().status is Status.UNKNOWN


@pytest.mark.case("C051")
def test_c051_a_webhook_of_the_first_try_does_not_touch_the_second() -> None:
    """C051: attempt 1 was declined by the provider, attempt 2 accepted; the failure event of the
    first comes last and changes nothing.
    """
    story = begun()
    story.hears(report(refusal("card_declined"), attempt=1), at=5)
    story.hears(tick(), at=9_000, offer=offer(until=ALWAYS))
    before = story.hears(webhook(1, NO_EFFECT, reference="pi_a"), at=9_001)
    assert [fact.type for fact in before.decided.facts] == ["evidence.recorded"]
    assert story.action().status is Status.ATTEMPTING
    story.hears(report(success("pi_b"), attempt=2), at=9_500)
    story.hears(webhook(2, NO_EFFECT, reference="pi_a"), at=9_600)
    action = story.action()
    assert (action.status, action.reference, action.review) == (Status.COMPLETED, "pi_b", None)
    assert story.count("attempt.started") == 2


@pytest.mark.case("C053")
def test_c053_events_out_of_order_end_where_the_last_state_is() -> None:
    """C053: completed, then in progress, then queued: final absorbs, and all are kept."""
    story = begun()
    story.hears(webhook(1), at=5)
    story.hears(webhook(2, PENDING), at=6)
    story.hears(webhook(3, PENDING), at=7)
    assert story.action().status is Status.COMPLETED
    assert story.count("evidence.recorded") == 3


@pytest.mark.case("C055")
def test_c055_two_identical_deliveries_are_applied_once() -> None:
    """C055: the second delivery of one event changes nothing, before and after completion."""
    story = begun()
    story.hears(webhook(1, PENDING), at=5)
    story.hears(webhook(1, PENDING), at=5).then_unchanged("evidence_known")
    story.hears(webhook(2), at=6)
    story.hears(webhook(2), at=6).then_unchanged("evidence_known")
    assert story.count("evidence.recorded") == 2
    assert story.count("action.completed") == 1


@pytest.mark.case("C081")
def test_c081_a_genuine_event_of_other_money_or_another_account_completes_nothing() -> None:
    """C081: less money, another currency and another merchant account each leave it open, with the
    first two for a person and the third refused by name.
    """
    for money in (EUR_499, Money(minor=EUR_49_90.minor, currency="JPY")):
        story = begun()
        story.hears(webhook(1, money=money), at=5)
        assert story.action().status is Status.NEEDS_REVIEW
        assert story.action().review == "amount_differs"
    story = begun()
    foreign = webhook(1, account="other")
    story.hears(foreign, at=5).then_rejected(Rejection.FOREIGN_ACCOUNT)
    assert story.action().status is Status.ATTEMPTING


@pytest.mark.case("C085")
def test_c085_silence_never_settles_and_a_later_list_does() -> None:
    """C085: "processing" keeps it open as long as it takes; a list that says done ends it."""
    story = begun(PAYOUT)
    story.hears(report(no_answer("processing"), key=PAYOUT), at=5)
    story.hears(tick(), at=5 + LOOKUPS[0])
    story.hears(found_out(PENDING, key=PAYOUT), at=5_500)
    assert story.action(PAYOUT).status is Status.UNKNOWN
    late = found_out(EFFECT, key=PAYOUT, lookup=None)
    story.hears(late, at=3 * DAY_MS)
    assert story.action(PAYOUT).status is Status.COMPLETED


@pytest.mark.case("C087")
def test_c087_what_may_have_happened_is_not_cancelled() -> None:
    """C087: a cancellation of an open action is refused, so the late success finds it open."""
    story = begun()
    story.hears(report(no_answer()), at=5)
    story.hears(cancel(), at=60_000).then_rejected(Rejection.ATTEMPT_OPEN)
    story.hears(webhook(1), at=90_000)
    assert story.action().status is Status.COMPLETED


@pytest.mark.case("C095")
def test_c095_an_empty_search_that_came_too_early_is_not_absence() -> None:
    """C095: the index runs behind; nothing is created on its word, and the next search finds it."""
    story = begun(NOTE)
    story.hears(report(no_answer(), key=NOTE), at=5)
    story.hears(tick(), at=5 + LOOKUPS[0])
    story.hears(found_out(ABSENT, key=NOTE), at=5_100)
    assert story.action(NOTE).status is Status.UNKNOWN
    assert story.action(NOTE).is_open
    story.hears(tick(), at=5_100 + LOOKUPS[1])
    story.hears(found_out(EFFECT, key=NOTE, lookup=2), at=26_000)
    assert story.action(NOTE).status is Status.COMPLETED
    assert story.count("attempt.started", NOTE) == 1


@pytest.mark.case("C099")
def test_c099_not_found_lets_nothing_start_before_index_delay_and_processing_time() -> None:
    """C099: the second attempt of a searchable operation waits until the first can no longer
    happen; one moment earlier there is none.
    """
    over = LEASE_MS + SKEW_MS + LAG_MS + SETTLE_MS
    for asked_at, starts in ((over, 1), (over + 1, 2)):
        story = begun(TICKET)
        story.hears(tick(), at=LAPSE)
        story.hears(tick(), at=asked_at)
        assert story.action(TICKET).lookup is not None
        story.hears(found_out(ABSENT, key=TICKET), at=asked_at + 50)
        story.hears(tick(), at=asked_at + 10_000, offer=offer(key=TICKET, until=ALWAYS))
        assert story.count("attempt.started", TICKET) == starts


@pytest.mark.case("C101")
def test_c101_age_never_turns_unknown_into_failed() -> None:
    """C101: thirty hours without an answer from the provider leave it open, looked up again and
    again, then shown to a person; never failed and never sent a second time. The answer that comes
    after that still counts.
    """
    story = begun(NOTE)
    story.hears(tick(), at=LAPSE)
    now = LAPSE
    while now < 30 * 3_600_000:
        now += LOOKUP_ANSWER_MS * 5
        story.hears(tick(), at=now, offer=offer(key=NOTE, until=ALWAYS))
        assert story.action(NOTE).is_open
    action = story.action(NOTE)
    assert (action.status, action.review) == (Status.NEEDS_REVIEW, "lookups_exhausted")
    assert story.count("lookup.started", NOTE) == len(LOOKUPS) + LOOKUPS_UNANSWERED_MAX
    assert story.count("attempt.started", NOTE) == 1
    assert story.count("action.failed", NOTE) == 0
    found = found_out(EFFECT, key=NOTE, lookup=action.lookups_asked)
    assert story.hears(found, at=now).decided.facts[-1].type == "action.completed"


@pytest.mark.case("C005")
def test_c005_a_message_whose_acceptance_hangs_is_sent_once() -> None:
    """C005: break after the last byte: nobody sends it again by itself, a person is asked."""
    story = begun(EMAIL)
    story.hears(report(no_answer("closed_after_data"), key=EMAIL), at=5)
    for at in range(1, 6):
        story.hears(tick(), at=at * STEP_MS, offer=offer(key=EMAIL, until=ALWAYS))
    action = story.action(EMAIL)
    assert (action.status, action.review) == (Status.NEEDS_REVIEW, "no_way_to_find_out")
    assert [attempt.status for attempt in action.attempts] == [AttemptStatus.UNRESOLVED]
    assert story.count("attempt.started", EMAIL) == 1
