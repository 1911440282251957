"""Approvals: until when a word counts, how often, and what it is good for; asking again, turning to
others, taking it back, saying no.
"""

import pytest

from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.core.statement import Say
from tests.examples import (
    CHARGE,
    SKEW_MS,
    STEP_MS,
    T0,
    automatic,
    cancel,
    cancelled,
    completed,
    expired,
    offer,
    propose,
    recorded,
    succeeded,
    tick,
)
from tests.examples_of_people import (
    ESCALATE_MS,
    ESCALATING,
    PEOPLE_MS,
    TWO,
    VALID_MS,
    agreed,
    approves,
    ask_again,
    asking,
    denied,
    denies,
    ended,
    escalated,
    granted,
    judged,
    nonce_of,
    people,
    person,
    previewed,
    registered,
    ruled,
    start_of,
    statement,
    under,
    withdrawn,
    withdraws,
)
from tests.unit.core.language import Given, after, given
from tests.unit.core.waiting import ASKED, BEGUN, READY, YES, asked

# --- asking and agreeing -----------------------------------------------------------------------


def test_what_the_table_asks_for_waits_for_people() -> None:
    """It is ruled, shown and asked in the decision that records it, and no capacity is spent."""
    nonce = nonce_of(1, offset=0, at=0)
    then = given().under(under()).when(propose(), offer=offer())
    history = then.then(recorded(), ruled(deadline=PEOPLE_MS), previewed(), asking(nonce=nonce))
    assert then.decided.offer_spent is None
    assert history.action().status is Status.AWAITING_APPROVAL


@pytest.mark.law("S4")
def test_nothing_starts_before_people_agree() -> None:
    """Capacity at hand changes nothing."""
    ASKED.when(tick(), at=10, offer=offer(at=10)).then_unchanged("nothing_due")


def test_one_person_of_the_group_is_enough_where_one_is_asked_for() -> None:
    """The step begins with the agreement, and the action is ready."""
    history = ASKED.when(YES, at=10).then(agreed(YES, at=10))
    assert history.action().status is Status.READY
    assert history.action().step_deadline_at == T0 + 10 + STEP_MS


def test_capacity_at_hand_is_spent_in_the_decision_that_agrees() -> None:
    """The start carries everything that an executor needs to check it again."""
    then = ASKED.when(YES, at=10, offer=offer(at=5))
    then.then(agreed(YES, at=10), start_of(YES, at=10, offered=5))
    assert then.decided.offer_spent == offer(at=5)


def test_two_are_asked_for_and_two_have_to_agree() -> None:
    """The first leaves it waiting; the second begins the step, on both their words."""
    first, second = approves("ada", policy=TWO, at=10), approves("ben", policy=TWO, at=20)
    history = asked(TWO).when(first, at=10, offer=offer(at=10)).then(granted(first))
    assert history.action().status is Status.AWAITING_APPROVAL
    then = history.when(second, at=20, offer=offer(at=20))
    then.then(agreed(second, at=20), start_of(first, second, policy=TWO, at=20))


@pytest.mark.law("S4")
def test_a_quorum_counts_people_and_not_keys() -> None:
    """The same person with another key has said so already."""
    both = people(person("ada", "finance", keys=(registered("ada"), registered("zoe"))))
    first = approves("ada", policy=TWO, at=10)
    again = judged(statement("ada", policy=TWO, at=20), by="zoe")
    history = asked(TWO).under(under(TWO, both)).and_then(after(10, granted(first)))
    history.when(again, at=20).then_unchanged("approved_already")
    assert history.action().status is Status.AWAITING_APPROVAL


@pytest.mark.law("S4")
def test_a_quorum_counts_people_and_not_their_groups() -> None:
    """Family appr: who is in both groups that may decide is one person still."""
    both = people(person("ada", "finance", "managers"))
    first = approves("ada", policy=TWO, at=10)
    history = asked(TWO).under(under(TWO, both)).and_then(after(10, granted(first)))
    history.when(approves("ada", policy=TWO, at=20), at=20).then_unchanged("approved_already")
    assert history.action().status is Status.AWAITING_APPROVAL


@pytest.mark.case("C103")
@pytest.mark.parametrize("history", [READY, BEGUN, BEGUN.and_then(succeeded(), completed())])
def test_c103_a_double_click_is_one_approval(history: Given) -> None:
    """The same yes again, or another by the same person, is answered by the action as it stands."""
    history.when(YES, at=30).then_unchanged("approved_already")
    history.when(approves(at=30), at=30, offer=offer(at=30)).then_unchanged("approved_already")


def test_a_yes_too_many_changes_nothing() -> None:
    """Enough people agreed before."""
    READY.when(approves("ben", at=30), at=30).then_unchanged("approved_already")


# --- time --------------------------------------------------------------------------------------


def test_a_yes_is_in_time_by_its_own_append() -> None:
    """The last millisecond counts, however late it is decided; the next one does not."""
    last = judged(statement(at=10), at=VALID_MS - 1)
    ASKED.when(last, at=VALID_MS - 1).then(agreed(last, at=VALID_MS - 1))
    late = judged(statement(at=10), at=VALID_MS)
    ASKED.when(late, at=VALID_MS).then_rejected(Rejection.APPROVAL_EXPIRED, action=CHARGE)


@pytest.mark.law("S4")
def test_a_start_needs_it_valid_at_its_own_time() -> None:
    """A yes that came in time and is decided late starts nothing; it is over."""
    last = judged(statement(at=10), at=VALID_MS - 1)
    then = ASKED.when(last, at=VALID_MS, offer=offer(at=VALID_MS, until=2 * VALID_MS))
    history = then.then(agreed(last, at=VALID_MS))
    history.when(tick(), at=VALID_MS).then(ended("expired"))


@pytest.mark.law("S4")
def test_a_start_on_both_sides_of_the_end() -> None:
    """One millisecond before it is over a start may still be; then it waits for people again."""
    before, over = VALID_MS - 1, VALID_MS
    begun = READY.when(tick(), at=before, offer=offer(at=before, until=over))
    begun.then(start_of(YES, at=before))
    history = READY.when(tick(), at=over, offer=offer(at=over, until=over)).then(ended("expired"))
    assert history.action().status is Status.AWAITING_APPROVAL


def test_a_statement_may_hold_for_less_than_was_asked() -> None:
    """Its own end counts for its timeliness and for the start."""
    short = approves(at=10, until=50)
    history = ASKED.when(short, at=10).then(agreed(short, at=10))
    history.when(tick(), at=49, offer=offer(at=49)).then(start_of(short, at=49, until=50))
    history.when(tick(), at=50, offer=offer(at=50)).then(ended("expired"))
    late = judged(statement(at=10, until=50), at=50)
    ASKED.when(late, at=50).then_rejected(Rejection.APPROVAL_EXPIRED)


def test_the_first_to_be_over_ends_what_two_agreed_to() -> None:
    """The start is valid as long as both are."""
    first, second = approves(at=10, policy=TWO), approves("ben", at=20, until=50, policy=TWO)
    history = asked(TWO).and_then(after(10, granted(first)), after(20, agreed(second, at=20)))
    begun = history.when(tick(), at=49, offer=offer(at=49))
    begun.then(start_of(first, second, policy=TWO, at=49, until=50))
    history.when(tick(), at=50, offer=offer(at=50)).then(ended("expired"))


def test_a_statement_may_not_hold_for_longer_than_was_asked() -> None:
    """Its end is at most the end of the request."""
    longer = approves(at=10, until=VALID_MS + 1)
    ASKED.when(longer, at=10).then_rejected(Rejection.EXPIRY_BEYOND_REQUEST)


def test_a_statement_is_not_issued_in_the_future() -> None:
    """A clock may be ahead by the skew, and no more."""
    on_time = judged(statement(at=10 + SKEW_MS), at=10)
    ASKED.when(on_time, at=10).then(agreed(on_time, at=10))
    ahead = judged(statement(at=11 + SKEW_MS), at=10)
    ASKED.when(ahead, at=10).then_rejected(Rejection.ISSUED_IN_FUTURE)


@pytest.mark.case("C107")
@pytest.mark.parametrize("until", [T0 + 10**18, 10**15])
def test_c107_an_end_that_is_no_time_is_refused_when_it_is_written(until: int) -> None:
    """What is no number of milliseconds is no statement; one far away outlives what was asked."""
    fields = statement().model_dump() | {"expires_at": until}
    if until > 2**53:
        with pytest.raises(ValueError, match="expires_at"):
            type(statement()).model_validate(fields)
    else:
        said = type(statement()).model_validate(fields)
        ASKED.when(judged(said)).then_rejected(Rejection.EXPIRY_BEYOND_REQUEST)
    for malformed in ("2026-13-45", "", "2026-08-18T10:00"):
        with pytest.raises(ValueError, match="expires_at"):
            type(statement()).model_validate(fields | {"expires_at": malformed})


# --- asking again ------------------------------------------------------------------------------


EXPIRED = ASKED.and_then(after(VALID_MS, ended("expired")))


def test_expired_is_never_a_denial() -> None:
    """When time is up the nonce is dead, and the action waits to be asked about again."""
    ASKED.when(tick(), at=VALID_MS - 1).then_unchanged("nothing_due")
    history = ASKED.when(tick(), at=VALID_MS).then(ended("expired"))
    assert history.action().status is Status.AWAITING_APPROVAL
    history.when(tick(), at=VALID_MS + 1).then_unchanged("nothing_due")
    history.when(approves(at=VALID_MS), at=VALID_MS).then_rejected(Rejection.APPROVAL_EXPIRED)


def test_one_call_asks_again_under_a_new_nonce() -> None:
    """The old yes is dead for good; a new one counts."""
    at, nonce = VALID_MS + 5, nonce_of(2, offset=EXPIRED.offset, at=VALID_MS + 5)
    history = EXPIRED.when(ask_again(), at=at).then(asking(2, at=at, nonce=nonce))
    history.when(approves(at=at), at=at).then_rejected(Rejection.NONCE_DEAD)
    late = at + VALID_MS
    again = approves(at=at, nonce=nonce, until=late)
    then = history.when(again, at=at, offer=offer(at=at, until=late))
    then.then(agreed(again, at=at), start_of(again, at=at))
    history.when(approves(at=late, nonce=nonce, until=late), at=late).then_rejected(
        Rejection.APPROVAL_EXPIRED
    )


def test_asking_again_ends_what_is_over_and_nobody_ended() -> None:
    """The call that comes with the end does both; before it, it is the request that is alive."""
    ASKED.when(ask_again(), at=VALID_MS - 1).then_unchanged("asked_already")
    nonce = nonce_of(2, offset=ASKED.offset, at=VALID_MS)
    again = asking(2, at=VALID_MS, nonce=nonce)
    ASKED.when(ask_again(), at=VALID_MS).then(ended("expired"), again)


@pytest.mark.parametrize("history", [READY, BEGUN, given(recorded(), automatic())])
def test_nobody_is_asked_again_about_what_does_not_wait(history: Given) -> None:
    """It is answered by the action as it stands."""
    history.when(ask_again(), at=30).then_unchanged("nobody_to_ask")


def test_asking_again_is_refused_by_name() -> None:
    """For no action, one that has its end, and one whose operation was withdrawn."""
    given().when(ask_again()).then_rejected(Rejection.UNKNOWN_ACTION)
    ASKED.and_then(expired()).when(ask_again()).then_rejected(Rejection.ALREADY_FINAL)
    gone = EXPIRED.under(under(name="gone"))
    gone.when(ask_again(), at=VALID_MS).then_rejected(Rejection.UNKNOWN_OPERATION)


# --- escalation --------------------------------------------------------------------------------


def test_further_groups_may_decide_after_a_time() -> None:
    """Not before it, once only, and with all who might before."""
    history = asked(ESCALATING)
    early = approves("cleo", policy=ESCALATING, at=ESCALATE_MS - 1)
    history.when(early, at=ESCALATE_MS - 1).then_rejected(Rejection.NOT_IN_GROUP)
    history.when(tick(), at=ESCALATE_MS - 1).then_unchanged("nothing_due")
    wider = history.when(tick(), at=ESCALATE_MS).then(escalated("managers"))
    wider.when(tick(), at=ESCALATE_MS).then_unchanged("nothing_due")
    for name in ("cleo", "ada"):
        yes = approves(name, policy=ESCALATING, at=ESCALATE_MS)
        wider.when(yes, at=ESCALATE_MS).then(agreed(yes, at=ESCALATE_MS))


def test_a_start_names_the_groups_that_could_decide() -> None:
    """An executor checks the manager's word against the groups as they were widened."""
    yes = approves("cleo", policy=ESCALATING, at=ESCALATE_MS)
    wider = asked(ESCALATING).and_then(after(ESCALATE_MS, escalated("managers")))
    then = wider.when(yes, at=ESCALATE_MS, offer=offer(at=ESCALATE_MS, until=VALID_MS))
    begun = start_of(yes, policy=ESCALATING, at=ESCALATE_MS)
    assert begun.approval is not None
    groups = begun.approval.model_copy(update={"groups": ("finance", "managers")})
    then.then(agreed(yes, at=ESCALATE_MS), begun.model_copy(update={"approval": groups}))


# --- taking it back, and saying no ---------------------------------------------------------------


def test_a_yes_is_taken_back_before_anything_begins() -> None:
    """While more people are asked, and when all have agreed; then it waits for people again."""
    first = approves(policy=TWO, at=10)
    back = withdraws(policy=TWO, at=20)
    waiting = asked(TWO).and_then(after(10, granted(first)))
    assert waiting.when(back, at=20).then(withdrawn(back)).action().approval is not None
    history = READY.when(withdraws(at=20), at=20).then(withdrawn(withdraws(at=20)))
    assert history.action().status is Status.AWAITING_APPROVAL
    assert history.action().step_deadline_at == T0 + PEOPLE_MS
    history.when(tick(), at=30, offer=offer(at=30)).then_unchanged("nothing_due")


@pytest.mark.law("S4")
def test_a_copy_of_a_yes_that_was_taken_back_is_void() -> None:
    """Whoever has the bytes cannot bring it back; neither can another yes from before. A new one
    can.
    """
    history = READY.and_then(after(20, withdrawn(withdraws(at=20))))
    for copy in (YES, approves(at=15), approves(at=20 + SKEW_MS)):
        late = judged(copy.statement, at=30 + SKEW_MS) if copy.statement else copy
        history.when(late, at=30 + SKEW_MS).then_rejected(Rejection.NONCE_DEAD)
    anew = approves(at=21 + SKEW_MS)
    history.when(anew, at=21 + SKEW_MS).then(agreed(anew, at=21 + SKEW_MS))
    other = approves("ben", at=21)
    history.when(other, at=21).then(agreed(other, at=21))


@pytest.mark.law("S4")
def test_a_copy_of_a_withdrawal_takes_nothing_back_again() -> None:
    """Sent once more it holds as it did; against a yes that followed it counts for nothing, up to
    the last moment in which that yes could not have been signed. A new one does.
    """
    back = withdraws(at=20)
    history = READY.when(back, at=20).then(withdrawn(back))
    for said in (back, withdraws(at=30)):
        history.when(said, at=30).then_unchanged("withdrawn_already")
    anew = approves(at=21 + SKEW_MS)
    agreed_anew = history.when(anew, at=21 + SKEW_MS).then(agreed(anew, at=21 + SKEW_MS))
    for copy in (back, withdraws(at=20 + SKEW_MS)):
        late = judged(copy.statement, at=30 + SKEW_MS) if copy.statement else copy
        agreed_anew.when(late, at=30 + SKEW_MS).then_rejected(Rejection.NONCE_DEAD)
    again = withdraws(at=22 + SKEW_MS)
    agreed_anew.when(again, at=22 + SKEW_MS).then(withdrawn(again))


def test_only_ones_own_yes_can_be_taken_back() -> None:
    """Who granted nothing takes nothing back."""
    READY.when(withdraws("ben", at=20), at=20).then_rejected(Rejection.NOTHING_TO_WITHDRAW)
    ASKED.when(withdraws(at=20), at=20).then_rejected(Rejection.NOTHING_TO_WITHDRAW)


@pytest.mark.parametrize("say", [Say.DENY, Say.WITHDRAW])
def test_what_has_begun_is_beyond_anybodys_word(say: Say) -> None:
    """The approval was spent on the start."""
    said = judged(statement(decision=say, at=30))
    BEGUN.when(said, at=30).then_rejected(Rejection.APPROVAL_SPENT, action=CHARGE)
    done = BEGUN.and_then(succeeded(), completed())
    done.when(said, at=30).then_rejected(Rejection.ALREADY_FINAL, action=CHARGE)


@pytest.mark.parametrize("history", [ASKED, READY])
def test_one_no_is_enough(history: Given) -> None:
    """Whoever may decide ends it, while people are asked and before it begins; nothing starts."""
    no = denies("ben", at=20, comment="Not hers.")
    after_it = history.when(no, at=20, offer=offer(at=20)).then(denied(no))
    assert after_it.action().status is Status.DENIED
    after_it.when(tick(), at=30, offer=offer(at=30)).then_unchanged("nothing_due")
    ben = approves("ben", at=30)
    after_it.when(ben, at=30).then_rejected(Rejection.ALREADY_FINAL)
    after_it.when(withdraws(at=30), at=30).then_rejected(Rejection.ALREADY_FINAL)


def test_a_no_that_is_said_again_holds() -> None:
    """Sent again because no answer was heard, or said by a second person too, it counts once; of
    what ended otherwise, or under another nonce, there is nothing to deny.
    """
    no = denies("ben", at=20)
    denied_by_ben = ASKED.when(no, at=20).then(denied(no))
    for again in (no, denies("ben", at=30), denies("ada", at=30)):
        denied_by_ben.when(again, at=30).then_unchanged("denied_already")
    old = denies("ben", at=30, nonce="0" * 32)
    denied_by_ben.when(old, at=30).then_rejected(Rejection.ALREADY_FINAL)
    ASKED.and_then(cancelled()).when(no, at=30).then_rejected(Rejection.ALREADY_FINAL)


def test_who_may_not_say_yes_may_not_say_no() -> None:
    """Otherwise anybody could stop anything."""
    for name, why in (("cleo", Rejection.NOT_IN_GROUP), ("eve", Rejection.REQUESTER_DECIDES)):
        ASKED.when(denies(name, at=20), at=20).then_rejected(why)


def test_nobody_is_asked_about_what_goes_ahead_by_itself() -> None:
    """A signature about it is no approval and no denial."""
    history = given(recorded(), automatic()).under(under())
    history.when(approves(at=5), at=5).then_rejected(Rejection.NOTHING_ASKED)


def test_a_cancelled_action_is_over_for_everybody() -> None:
    """Its caller takes it back while it waits, and when it is ready."""
    for history in (ASKED, READY):
        gone = history.when(cancel(), at=30).then(cancelled())
        gone.when(approves("ben", at=40), at=40).then_rejected(Rejection.ALREADY_FINAL)
