"""Public failure cases about one effect too many, where the core alone must answer: what is sent
again, what is told as a repetition, and what a part of a whole is.
"""

from collections import Counter

import pytest

from ledger.core import inputs as i
from ledger.core.state import Status
from tests.examples import (
    CHARGE,
    EMAIL,
    PAYOUT,
    STREAM,
    TICKET,
    found_out,
    no_answer,
    not_sent,
    offer,
    propose,
    refusal,
    report,
    request,
    success,
    tick,
)
from tests.ledgers import LedgerBuilder
from tests.unit.core.language import Story

ALWAYS = 400 * 24 * 3_600_000
RECIPIENTS = 20
REJECTED = 13


def begun(key: str) -> Story:
    """An action that was proposed and started at once."""
    story = Story()
    story.hears(propose(key), offer=offer(key=key))
    assert story.action(key).status is Status.ATTEMPTING
    return story


@pytest.mark.case("C005")
def test_c005_before_the_message_is_handed_over_it_may_be_sent_again() -> None:
    """C005: a break before the message was handed over proves that there is no copy: it is tried
    again under the same key, or a person may, where there is one attempt. A break after it proves
    nothing, and the action stays open.
    """
    story = begun(PAYOUT)
    story.hears(report(not_sent("closed_before_data"), key=PAYOUT), at=5)
    story.hears(tick(), at=10_000, offer=offer(key=PAYOUT, until=ALWAYS, incarnation="w2"))
    first, second = story.action(PAYOUT).attempts
    assert second.provider_key == first.provider_key
    story = begun(EMAIL)
    story.hears(report(not_sent("closed_before_data"), key=EMAIL), at=5)
    assert story.action(EMAIL).review == "one_attempt_only"
    assert not story.action(EMAIL).is_open
    story = begun(EMAIL)
    story.hears(report(no_answer("closed_after_data"), key=EMAIL), at=5)
    assert story.action(EMAIL).is_open


@pytest.mark.case("C007")
def test_c007_both_copies_stand_in_the_audit_and_one_counts() -> None:
    """C007: an input appended twice, because its first append seemed to fail, has two decisions:
    the first records it, the second names it as known and moves no version. Both say which offset
    they answer.
    """
    builder = LedgerBuilder()
    first, second = builder.take(propose()), builder.take(propose())
    assert first.cause.offset < second.cause.offset
    assert first.facts[0].type == "intent.recorded"
    assert second.facts == ()
    assert second.unchanged is not None
    action = builder.streams[STREAM].action(CHARGE)
    assert action is not None
    assert second.unchanged.action_version == action.version == len(first.facts)
    assert action.counted_attempts == 1


@pytest.mark.case("C007")
def test_c007_a_report_told_twice_counts_once() -> None:
    """C007: the same of what an executor says: the second copy of its report changes nothing."""
    story = begun(CHARGE)
    story.hears(report(success()), at=5)
    version = story.action().version
    story.hears(report(success()), at=6).then_unchanged("already_recorded")
    assert story.action().version == version


@pytest.mark.case("C009")
def test_c009_a_read_that_fails_after_the_creation_undoes_nothing() -> None:
    """C009: what was created is completed from its confirmation on; later looks that meet a limit
    prove nothing, and nobody creates again.
    """
    story = begun(TICKET)
    story.hears(report(success("88"), key=TICKET), at=5)
    for number in range(3):
        look = found_out(
            i.Meaning.INCONCLUSIVE, key=TICKET, lookup=None, source=f"webhook:read-{number}"
        )
        story.hears(look.model_copy(update={"code": "rate_limited"}), at=10 + number)
        assert story.action(TICKET).status is Status.COMPLETED
    story.hears(tick(), at=60_000, offer=offer(key=TICKET, until=ALWAYS))
    action = story.action(TICKET)
    assert (action.reference, action.review) == ("88", None)
    assert story.count("attempt.started", TICKET) == 1


@pytest.mark.case("C013")
def test_c013_one_bad_recipient_costs_the_other_nineteen_nothing() -> None:
    """C013: twenty recipients are twenty actions of one event. One is rejected; handing the whole
    in again, three times, replays all of them, and nobody is sent to twice.
    """
    story = Story()
    keys = [f"{EMAIL}#recipient-{number:02}" for number in range(1, RECIPIENTS + 1)]
    for number, key in enumerate(keys, start=1):
        story.hears(i.Propose(key=key, request=request(EMAIL)), offer=offer(key=EMAIL))
        rejected = refusal("mailbox_unavailable", i.Retry.NEVER)
        outcome = rejected if number == REJECTED else success(f"<{number}@mail>")
        story.hears(report(outcome, key=key), at=number)
    for again in range(3):
        for key in keys:
            then = story.hears(
                i.Propose(key=key, request=request(EMAIL)),
                at=1_000 * (again + 1),
                offer=offer(key=EMAIL, until=ALWAYS),
            )
            then.then_unchanged("replayed")
    states = Counter(story.action(key).status for key in keys)
    assert states == {Status.COMPLETED: RECIPIENTS - 1, Status.FAILED: 1}
    assert story.action(keys[REJECTED - 1]).status is Status.FAILED
    assert all(story.count("attempt.started", key) == 1 for key in keys)


@pytest.mark.case("C013")
def test_c013_a_retry_of_one_part_touches_no_other() -> None:
    """C013: where the rejection is for now, the part that met it is tried again, alone."""
    story = Story()
    keys = [f"{PAYOUT}#part-{number}" for number in range(3)]
    for number, key in enumerate(keys):
        story.hears(i.Propose(key=key, request=request(PAYOUT)), offer=offer(key=PAYOUT))
        outcome = refusal("busy") if number == 1 else success(f"po_{number}")
        story.hears(report(outcome, key=key), at=5)
    story.hears(tick(), at=20_000, offer=offer(key=PAYOUT, until=ALWAYS, incarnation="w2"))
    assert [story.count("attempt.started", key) for key in keys] == [1, 2, 1]


def half_done(key: str = PAYOUT) -> i.Report:
    """The provider sent one part of two."""
    parts = '{"part_1": {"exists": true, "id": "m-1"}, "part_2": {"exists": false, "error": "9"}}'
    said = f'{{"kind": "partial", "reference": "m-1", "result": {parts}}}'
    return report(i.PartialSuccess.model_validate_json(said), key=key)


@pytest.mark.case("C015")
def test_c015_some_of_the_parts_is_a_persons_case_with_its_pieces() -> None:
    """C015: one part exists and one does not: neither completed nor failed, and never tried again,
    which would repeat the part that exists. What became of each part stands in the log.
    """
    story = begun(PAYOUT)
    then = story.hears(half_done(), at=5)
    assert [fact.type for fact in then.decided.facts] == ["attempt.unresolved", "review.opened"]
    assert '"exists":false' in then.decided.facts[0].model_dump_json()
    for at in (10_000, 100_000):
        story.hears(tick(), at=at, offer=offer(key=PAYOUT, until=ALWAYS, incarnation="w2"))
    story.hears(half_done(), at=200_000).then_unchanged("already_recorded")
    story.hears(propose(PAYOUT), at=200_001).then_unchanged("replayed")
    action = story.action(PAYOUT)
    assert (action.status, action.review) == (Status.NEEDS_REVIEW, "partly_succeeded")
    assert action.is_open
    assert story.count("attempt.started", PAYOUT) == 1


@pytest.mark.case("C015")
def test_c015_a_webhook_of_one_part_does_not_complete_the_whole() -> None:
    """C015: the part that exists is announced with its reference, and is still only a part; a word
    that comes when the attempt counts as lost is the same case.
    """
    story = begun(PAYOUT)
    story.hears(half_done(), at=5)
    seen = found_out(i.Meaning.EFFECT, key=PAYOUT, lookup=None, reference="m-1")
    story.hears(seen, at=6)
    assert story.action(PAYOUT).status is Status.NEEDS_REVIEW
    story = begun(PAYOUT)
    story.hears(report(no_answer(), key=PAYOUT), at=5)
    story.hears(half_done(), at=6)
    assert story.action(PAYOUT).review == "partly_succeeded"
    assert story.count("action.completed", PAYOUT) == 0


@pytest.mark.case("C037")
def test_c037_the_claim_stands_in_the_record_that_knows_the_intent() -> None:
    """C037: intent and start are facts of one decision, so no second submit can fall between."""
    builder = LedgerBuilder()
    first = builder.take(propose())
    assert [fact.type for fact in first.facts] == [
        "intent.recorded",
        "policy.decided",
        "attempt.started",
    ]
    for later_ms in (50, 1_000, 3_000):
        again = builder.take(propose(), later_ms=later_ms)
        assert again.unchanged is not None
        assert again.unchanged.status == "attempting"
