"""Previews and volatile facts: what people are shown, who says so, and what ends their approval
when it is no longer true.
"""

from typing import Any

import pytest

from ledger.core.canonical import canonicalize
from ledger.core.facts import AnyFact
from ledger.core.inputs import Decline
from ledger.core.limits import FORESEEN_BYTES_MAX, PREVIEW_WAIT_MS, PREVIEWS_MAX
from ledger.core.preview import Change, Foreseen, moved, preview_hash
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from tests.examples import (
    LOOKUP_ANSWER_MS,
    T0,
    decline,
    declined,
    offer,
    propose,
    recorded,
    refused,
    retry_due,
    review,
    tick,
    unresolved,
)
from tests.examples_of_people import (
    CHANGES,
    FORESEEN,
    FREE,
    ONE,
    PEOPLE_MS,
    TWO,
    VALID_MS,
    agreed,
    approves,
    ask_again,
    asked_provider,
    asking,
    ended,
    foresees,
    granted,
    nonce_of,
    people,
    preview,
    preview_due,
    preview_failed,
    previewed,
    ruled,
    start_of,
    under,
)
from tests.unit.core.language import Given, after, given
from tests.unit.core.waiting import BEGUN, READY

PROVIDER = under(ONE, preview="provider")
LOOKING = given(recorded(), ruled(deadline=PEOPLE_MS), asked_provider()).under(PROVIDER)
SHOWN = preview_hash(preview(foreseen=FORESEEN))
FORETOLD = LOOKING.and_then(
    after(100, previewed(foreseen=FORESEEN), asking(at=100, foreseen=FORESEEN))
)
YES = approves(at=110, preview_hash=SHOWN)
STARTED = FORETOLD.and_then(
    after(110, agreed(YES, at=110), start_of(YES, at=110, foreseen=FORESEEN))
)


# --- by the provider -----------------------------------------------------------------------------


def test_the_provider_is_asked_before_people_are() -> None:
    """Where the operation says so nobody is asked before there is something to show."""
    history = (
        given()
        .under(PROVIDER)
        .when(propose(), offer=offer())
        .then(recorded(), ruled(deadline=PEOPLE_MS), asked_provider())
    )
    assert history.action().approval is None
    history.when(ask_again(), at=5).then_unchanged("preview_under_way")
    history.when(approves(at=5), at=5).then_rejected(Rejection.NOTHING_ASKED)


def test_what_the_provider_foresees_is_shown_and_signed() -> None:
    """People are asked about it, and only about it."""
    nonce = nonce_of(1, offset=LOOKING.offset, at=100)
    history = LOOKING.when(foresees(), at=100).then(
        previewed(foreseen=FORESEEN), asking(at=100, nonce=nonce, foreseen=FORESEEN)
    )
    blind = approves(at=110, nonce=nonce)
    history.when(blind, at=110).then_rejected(Rejection.OTHER_PREVIEW)
    seen = approves(at=110, nonce=nonce, preview_hash=SHOWN)
    then = history.when(seen, at=110, offer=offer(at=110))
    then.then(agreed(seen, at=110), start_of(seen, at=110, foreseen=FORESEEN))


def test_a_preview_counts_once_and_for_what_was_asked() -> None:
    """Again, of another number, of another account, of nothing: each is answered by its name."""
    FORETOLD.when(foresees(), at=120).then_unchanged("already_recorded")
    LOOKING.when(foresees(2), at=120).then_unchanged("not_asked_for")
    READY.when(foresees(), at=120).then_unchanged("not_asked_for")
    given().when(foresees()).then_rejected(Rejection.UNKNOWN_ACTION)
    for other in ({"provider": "other"}, {"account": "other"}):
        foreign = foresees().model_copy(update=other)
        LOOKING.when(foreign, at=5).then_rejected(Rejection.FOREIGN_ACCOUNT)


def test_a_preview_that_comes_late_counts_until_it_is_asked_for_again() -> None:
    """Nobody has been told otherwise before."""
    late = LOOKING.when(foresees(), at=LOOKUP_ANSWER_MS + 5)
    assert [fact.type for fact in late.decided.facts] == ["preview.recorded", "approval.requested"]
    again = LOOKING.and_then(after(LOOKUP_ANSWER_MS, asked_provider(2, at=LOOKUP_ANSWER_MS)))
    again.when(foresees(), at=LOOKUP_ANSWER_MS + 5).then_unchanged("not_asked_for")


# --- that fails ----------------------------------------------------------------------------------


def test_a_preview_that_fails_is_asked_for_again_after_a_while() -> None:
    """And nobody is asked meanwhile."""
    history = LOOKING.when(foresees(foreseen=None), at=50).then(
        preview_failed(), preview_due(50 + PREVIEW_WAIT_MS)
    )
    history.when(ask_again(), at=60).then_unchanged("preview_under_way")
    history.when(foresees(), at=60).then_unchanged("already_recorded")
    history.when(tick(), at=49 + PREVIEW_WAIT_MS).then_unchanged("nothing_due")
    history.when(tick(), at=50 + PREVIEW_WAIT_MS).then(asked_provider(2, at=50 + PREVIEW_WAIT_MS))


def test_more_than_anybody_could_read_is_no_preview() -> None:
    """It is bounded as an intent is; what is larger counts as a preview that failed."""
    empty = len(canonicalize(Foreseen(observed={"log": ""}).model_dump(exclude_none=True)))
    fits = Foreseen(observed={"log": "x" * (FORESEEN_BYTES_MAX - empty)})
    shown = LOOKING.when(foresees(foreseen=fits), at=50).decided.facts
    assert shown[0].type == "preview.recorded"
    larger = Foreseen(observed={"log": "x" * (FORESEEN_BYTES_MAX - empty + 1)})
    (failed, _) = LOOKING.when(foresees(foreseen=larger), at=50).decided.facts
    assert failed == preview_failed().model_copy(update={"version": 4, "code": "too_large"})


def test_a_preview_that_stays_out_is_asked_for_again() -> None:
    """When its time is up, and not before."""
    LOOKING.when(tick(), at=LOOKUP_ANSWER_MS - 1).then_unchanged("nothing_due")
    again = asked_provider(2, at=LOOKUP_ANSWER_MS)
    LOOKING.when(tick(), at=LOOKUP_ANSWER_MS).then(again)


def failing(times: int, *, begin: Given = LOOKING, first: int = 1) -> tuple[Given, int]:
    """A preview that fails so often in a row, by turns with a word and without; and when it is next
    due.
    """
    history, at = begin, 0
    for number in range(first, first + times):
        if number % 2:
            history = history.and_then(after(at, preview_failed(number), preview_due(at + 9)))
            at += 9
        else:
            at += LOOKUP_ANSWER_MS
        if number < first + times - 1:
            history = history.and_then(after(at, asked_provider(number + 1, at=at)))
    return history, at


def test_a_preview_that_keeps_failing_is_a_persons_case() -> None:
    """Five in a row, said or unsaid, and somebody has to look."""
    history, at = failing(PREVIEWS_MAX - 1)
    again = history.when(tick(), at=at).then(asked_provider(PREVIEWS_MAX, at=at))
    last = again.when(foresees(PREVIEWS_MAX, foreseen=None), at=at).then(
        preview_failed(PREVIEWS_MAX), preview_due(at + PREVIEW_WAIT_MS)
    )
    due = at + PREVIEW_WAIT_MS
    in_review = last.when(tick(), at=due).then(review("preview_failed"))
    assert in_review.action().status is Status.NEEDS_REVIEW
    lapsed = again.when(tick(), at=at + LOOKUP_ANSWER_MS)
    lapsed.then(review("preview_failed"))


def test_failures_are_counted_in_a_row() -> None:
    """A preview that was there in between begins the count anew, however many there were."""
    before, at = failing(PREVIEWS_MAX - 1)
    asked = before.and_then(after(at, asked_provider(PREVIEWS_MAX, at=at)))
    shown = previewed(PREVIEWS_MAX, foreseen=FORESEEN)
    there = asked.and_then(after(at, shown, asking(at=at, foreseen=FORESEEN), ended("expired")))
    number = PREVIEWS_MAX + 1
    anew = there.when(ask_again(), at=at).then(asked_provider(number, at=at))
    late = at + LOOKUP_ANSWER_MS
    anew.when(tick(), at=late).then(asked_provider(number + 1, at=late))


def test_an_operation_that_foresees_nothing_any_more_is_asked_about_as_it_is() -> None:
    """The catalogue may take the provider out of it: then the request itself is shown."""
    history = LOOKING.under(under())
    at = LOOKUP_ANSWER_MS
    nonce = nonce_of(1, offset=history.offset, at=at)
    history.when(tick(), at=at).then(previewed(2), asking(at=at, nonce=nonce))


def test_asking_again_has_the_provider_asked_again() -> None:
    """What it foresaw is as old as the request that came to nothing; one question at a time."""
    over = FORETOLD.and_then(after(100 + VALID_MS, ended("expired")))
    at = 200 + VALID_MS
    history = over.when(ask_again(), at=at).then(asked_provider(2, at=at))
    history.when(ask_again(), at=at + 1).then_unchanged("preview_under_way")
    nonce, other = nonce_of(2, offset=history.offset, at=at + 5), Foreseen(effect="Nothing.")
    history.when(foresees(2, foreseen=other), at=at + 5).then(
        previewed(2, foreseen=other), asking(2, at=at + 5, nonce=nonce, foreseen=other)
    )


def test_another_table_waits_for_the_preview_that_is_under_way() -> None:
    """The provider is not asked twice, and people are asked by the row that holds when it says."""
    history = LOOKING.under(under(TWO, preview="provider"))
    waiting = history.when(tick(), at=5).then(ruled(TWO))
    nonce = nonce_of(1, offset=waiting.offset, at=100)
    waiting.when(foresees(), at=100).then(
        previewed(policy=TWO, foreseen=FORESEEN),
        asking(policy=TWO, at=100, nonce=nonce, foreseen=FORESEEN),
    )


@pytest.mark.parametrize("begin", ["asked", "expired", "granted"])
def test_another_table_has_the_provider_asked_again(begin: str) -> None:
    """What it foresaw for the round before may be days old: nobody is asked by it under the row
    that holds now.
    """
    day = 86_400_000
    over = after(100 + VALID_MS, ended("expired"))
    history = {
        "asked": FORETOLD,
        "expired": FORETOLD.and_then(over),
        "granted": FORETOLD.and_then(after(110, agreed(YES, at=110))),
    }[begin].under(under(TWO, preview="provider"))
    at = 2 * day if begin == "expired" else 120
    was_ended = () if begin == "expired" else (ended("policy_changed"),)
    looking = history.when(tick(), at=at).then(*was_ended, ruled(TWO), asked_provider(2, at=at))
    nonce, other = nonce_of(2, offset=looking.offset, at=at + 5), Foreseen(effect="Nothing.")
    looking.when(foresees(2, foreseen=other), at=at + 5).then(
        previewed(2, policy=TWO, foreseen=other),
        asking(2, policy=TWO, at=at + 5, nonce=nonce, foreseen=other),
    )


def test_a_signer_who_counts_no_more_has_the_provider_asked_again() -> None:
    """The next round is another one, whatever ended the last."""
    agreed_to = FORETOLD.and_then(after(110, agreed(YES, at=110)))
    revoked = agreed_to.under(under(ONE, people(), preview="provider"))
    revoked.when(tick(), at=120, offer=offer(at=120)).then(
        ended("signer_revoked"), asked_provider(2, at=120)
    )


def test_what_goes_ahead_by_itself_waits_for_no_preview() -> None:
    """Another table may make a failed preview nobody's business."""
    history = LOOKING.and_then(after(50, preview_failed(), preview_due(9_000)))
    ready = history.under(under(FREE, preview="provider")).when(tick(), at=60)
    assert [fact.type for fact in ready.decided.facts] == ["policy.decided"]
    known = history.and_then(after(60, *ready.decided.facts)).under(under(FREE))
    assert known.action().timer is None
    begun = known.when(tick(), at=70, offer=offer(at=70))
    assert [fact.type for fact in begun.decided.facts] == ["attempt.started"]


# --- what moves ----------------------------------------------------------------------------------


def moved_away(attempt: int = 1) -> Decline:
    """An executor read again what people were shown, and it was no longer so."""
    return decline(attempt=attempt).model_copy(
        update={"code": "volatile_changed", "changes": CHANGES}
    )


def given_back(attempt: int = 1) -> AnyFact:
    """The start that came of nothing by it."""
    return declined(attempt).model_copy(update={"code": "volatile_changed"})


@pytest.mark.law("S4")
def test_a_fact_that_moved_ends_the_approval_and_asks_anew() -> None:
    """Both values are told, the provider is asked again, and the earlier yes is dead."""
    history = STARTED.when(moved_away(), at=150).then(
        given_back(), ended("volatile_changed", changes=CHANGES), asked_provider(2, at=150)
    )
    assert history.action().status is Status.AWAITING_APPROVAL
    assert history.action().step_deadline_at == T0 + PEOPLE_MS
    history.when(YES, at=160).then_rejected(Rejection.NONCE_DEAD)
    history.when(tick(), at=160, offer=offer(at=160)).then_unchanged("nothing_due")
    now = Foreseen(effect="Takes nothing.", observed={"balance": 3, "state": "open"})
    nonce = nonce_of(2, offset=history.offset, at=170)
    history.when(foresees(2, foreseen=now), at=170).then(
        previewed(2, foreseen=now), asking(2, at=170, nonce=nonce, foreseen=now)
    )


def test_what_the_request_alone_shows_is_asked_anew_at_once() -> None:
    """Where the operation has no provider to ask any more nobody waits for one."""
    history = STARTED.under(under())
    nonce = nonce_of(2, offset=history.offset, at=150)
    history.when(moved_away(), at=150).then(
        given_back(),
        ended("volatile_changed", changes=CHANGES),
        previewed(2),
        asking(2, at=150, nonce=nonce),
    )


def test_a_start_that_is_given_back_for_another_reason_keeps_the_approval() -> None:
    """It is tried again on the same word."""
    back = STARTED.when(decline(), at=150)
    assert [fact.type for fact in back.decided.facts] == ["attempt.declined", "timer.set"]


def test_facts_of_what_nobody_was_asked_about_end_nothing() -> None:
    """A start on nobody's word has nothing that could move."""
    plain = given(recorded(), ruled(FREE)).under(under(FREE))
    begun = plain.when(tick(), at=5, offer=offer(at=5))
    told = plain.and_then(after(5, *begun.decided.facts)).when(moved_away(), at=10)
    assert [fact.type for fact in told.decided.facts] == ["attempt.declined", "timer.set"]


def test_while_an_attempt_is_open_nothing_that_moves_ends_its_approval() -> None:
    """The same request is only asked about again: its own effect may have moved what people saw."""
    open_one = STARTED.and_then(after(150, unresolved(), retry_due(200)))
    again = start_of(YES, attempt=2, at=200, foreseen=FORESEEN, is_shown=False, first_at=110)
    then = open_one.when(tick(), at=200, offer=offer(at=200))
    back = then.then(again).when(moved_away(2), at=210)
    assert "approval.ended" not in {fact.type for fact in back.decided.facts}


def test_a_retry_after_no_effect_shows_again_what_must_hold() -> None:
    """Nothing has happened: what people saw must still be so when it is tried again."""
    between = STARTED.and_then(after(150, refused(), retry_due(1_150)))
    then = between.when(tick(), at=2_000, offer=offer(at=2_000))
    again = start_of(YES, attempt=2, at=2_000, first_at=110, foreseen=FORESEEN)
    moved_on = then.then(again).when(moved_away(2), at=2_010)
    anew = moved_on.then(
        given_back(2), ended("volatile_changed", changes=CHANGES), asked_provider(2, at=2_010)
    )
    shown = anew.and_then(after(2_020, previewed(2), asking(2, at=2_020, nonce="nonce-2")))
    yes = approves(at=2_030, nonce="nonce-2", until=2_020 + VALID_MS)
    other = offer(at=2_030, incarnation="executor-2")
    begun = shown.when(yes, at=2_030, offer=other)
    begun.then(
        agreed(yes, at=2_030),
        start_of(yes, attempt=3, at=2_030, first_at=110, holder="executor-2"),
    )


def test_a_denial_and_a_preview_of_another_round_do_not_meet() -> None:
    """A yes to the first round is no yes to the second, although both show the same."""
    second = BEGUN.and_then(
        after(30, declined(), ended("volatile_changed", changes=CHANGES)),
        after(30, previewed(2), asking(2, at=30, nonce="nonce-2")),
    )
    second.when(approves(at=40), at=40).then_rejected(Rejection.NONCE_DEAD)
    good = approves(at=40, nonce="nonce-2")
    second.when(good, at=40).then(granted(good, deadline=40 + 300_000))


def test_facts_move_beyond_their_tolerance_only() -> None:
    """A whole number may move as far as declared, both ways; anything else must be equal."""
    was: dict[str, Any] = {"balance": 100, "state": "open", "flag": True}
    assert moved(was, was, {}) == ()
    for now, tolerance in ((105, 5), (95, 5)):
        assert moved(was, was | {"balance": now}, {"balance": tolerance}) == ()
        (change,) = moved(was, was | {"balance": now}, {"balance": tolerance - 1})
        assert change == Change(name="balance", was="100", now=str(now))
    assert moved(was, was | {"flag": 1}, {"flag": 9}) == (Change(name="flag", was="true", now="1"),)
    gone = {name: value for name, value in was.items() if name != "state"}
    assert moved(was, gone, {}) == (Change(name="state", was='"open"', now="(absent)"),)
    assert moved(gone, was, {}) == (Change(name="state", was="(absent)", now='"open"'),)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ([True], [1]),
        ([0, [False]], [0, [0]]),
        ({"x": 1}, {"x": True}),
        ({"x": {"y": [None]}}, {"x": {"y": [False]}}),
        (0, False),
    ],
)
def test_what_is_of_another_type_at_any_depth_has_moved(was: Any, now: Any) -> None:  # noqa: ANN401
    """True is no 1 in JSON, wherever it stands; members may come in any order."""
    (change,) = moved({"a": was}, {"a": now}, {"a": 9})
    assert change.was != change.now
    assert moved({"a": {"x": was, "y": now}}, {"a": {"y": now, "x": was}}, {}) == ()
