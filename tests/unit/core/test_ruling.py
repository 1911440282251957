"""Ruling: which row applies, what becomes of an action when another table is adopted, and how long
it may wait for people.
"""

from dataclasses import replace

import pytest

from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.facts import AnyFact, IntentRecorded
from ledger.core.inputs import CallerOffer
from ledger.core.offers import offer_of_caller
from ledger.core.policy import Outcome, Policy
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from tests.asking import asked as asked_of
from tests.asking import policy as table_of
from tests.examples import (
    BACKOFF_BASE_MS,
    CHARGE,
    STEP_MS,
    T0,
    automatic,
    declined,
    expired,
    offer,
    propose,
    recorded,
    refused,
    retry_due,
    review,
    started,
    tick,
)
from tests.examples_of_people import (
    ESCALATING,
    FREE,
    NEVER,
    ONE,
    PEOPLE_MS,
    TWO,
    VALID_MS,
    agreed,
    approves,
    asking,
    denied,
    ended,
    granted,
    nonce_of,
    previewed,
    ruled,
    start_of,
    table,
    under,
    withdrawn,
    withdraws,
)
from tests.unit.core.beside import Event, world
from tests.unit.core.crossing import passes
from tests.unit.core.language import After, Given, after, given
from tests.unit.core.waiting import ASKED, BEGUN, READY, YES, asked

SAME = table(version=2)
"""The same row for the same people, in another text."""
RENAMED = table("renamed")
AUTOMATIC_READY = given(recorded(), automatic())


# --- for the first time ------------------------------------------------------------------------


def test_a_table_that_refuses_ends_it_at_once() -> None:
    """It never starts, whatever capacity is at hand, and no deadline has to pass."""
    then = given().under(under(NEVER)).when(propose(), offer=offer())
    history = then.then(recorded(), ruled(NEVER), denied())
    assert then.decided.offer_spent is None
    assert history.action().status is Status.DENIED
    history.when(propose(), at=5, offer=offer(at=5)).then_unchanged("replayed")
    history.when(approves(at=5), at=5).then_rejected(Rejection.NOTHING_ASKED)


def test_a_table_that_lets_it_go_ahead_starts_it_at_once() -> None:
    """Where the table asks nobody the start rests on nobody's word."""
    then = given().under(under(FREE)).when(propose(), offer=offer())
    then.then(recorded(), ruled(FREE), started())


def test_a_confirmation_is_one_persons_word() -> None:
    """It waits as what people have to decide does."""
    mild = table("mild", Outcome.CONFIRMATION)
    history = given().under(under(mild)).when(propose(), offer=offer())
    assert [fact.type for fact in history.decided.facts] == [
        "intent.recorded",
        "policy.decided",
        "preview.recorded",
        "approval.requested",
    ]


# --- another table, while it waits ---------------------------------------------------------------


def anew(policy: Policy, *, at: int, offset: int) -> tuple[AnyFact, ...]:
    """What follows where another row asks people, or the same row others."""
    nonce = nonce_of(2, offset=offset, at=at)
    is_renamed = policy.rows[0].name != ONE.rows[0].name
    shown = (previewed(2, policy=policy),) if is_renamed else ()
    return (ruled(policy), *shown, asking(2, policy=policy, at=at, nonce=nonce))


def test_the_same_row_of_another_text_asks_nobody_twice() -> None:
    """What people see stays as it is, and what they sign under the earlier text counts."""
    history = ASKED.under(under(SAME)).when(tick(), at=5).then(ruled(SAME))
    assert history.action().policy_hash == SAME.content_hash
    history.when(tick(), at=6).then_unchanged("nothing_due")
    then = history.when(YES, at=10, offer=offer(at=10))
    then.then(agreed(YES, at=10), start_of(YES, at=10))
    new = approves(at=10, policy=SAME)
    history.when(new, at=10).then_rejected(Rejection.OTHER_POLICY)


@pytest.mark.parametrize("policy", [TWO, ESCALATING, RENAMED, table(groups=())])
def test_another_row_or_other_people_are_asked_anew(policy: Policy) -> None:
    """Stricter, laxer, or only another name: what was asked is dead, and what is shown says which
    row it is.
    """
    history = ASKED.under(under(policy))
    after_it = history.when(tick(), at=5).then(
        ended("policy_changed"), *anew(policy, at=5, offset=history.offset)
    )
    assert after_it.action().status is Status.AWAITING_APPROVAL
    after_it.when(YES, at=10).then_rejected(Rejection.NONCE_DEAD)


def test_a_table_that_comes_back_brings_no_approval_back() -> None:
    """Family appr: what was signed while the first table held is for its own round; the same table
    once more asks under another nonce.
    """
    agreed_before = READY.under(under(TWO))
    other = agreed_before.when(tick(), at=30).then(
        ended("policy_changed"), *anew(TWO, at=30, offset=agreed_before.offset)
    )
    nonce = nonce_of(2, offset=agreed_before.offset, at=30)
    third = nonce_of(3, offset=other.offset, at=40)
    back = (
        other.under(under(ONE))
        .when(tick(), at=40)
        .then(
            ended("policy_changed", nonce=nonce),
            ruled(ONE),
            previewed(3),
            asking(3, at=40, nonce=third),
        )
    )
    assert back.action().status is Status.AWAITING_APPROVAL
    back.when(YES, at=50, offer=offer(at=50)).then_rejected(Rejection.NONCE_DEAD)


def test_a_table_that_asks_nobody_any_more_lets_it_go_ahead() -> None:
    """Its step begins, and nobody's word is needed."""
    history = ASKED.under(under(FREE)).when(tick(), at=5)
    ready = history.then(ended("policy_changed"), ruled(FREE, deadline=5 + STEP_MS))
    ready.when(tick(), at=6, offer=offer(at=6)).then(started(at=6))
    ready.when(YES, at=10).then_rejected(Rejection.NONCE_DEAD)
    ready.when(tick(), at=5 + STEP_MS).then(expired())


@pytest.mark.parametrize("history", [ASKED, READY, AUTOMATIC_READY])
def test_a_table_that_refuses_ends_what_has_not_begun(history: Given) -> None:
    """Waiting, ready by people's word, or ready by itself."""
    is_asked = history.action().asks is not None
    ends = (ended("policy_changed"),) if is_asked else ()
    gone = history.under(under(NEVER)).when(tick(), at=30, offer=offer(at=30))
    gone.then(*ends, ruled(NEVER), denied())


def test_a_ruling_comes_before_what_is_due_by_then() -> None:
    """A request that is over is asked anew where another table asks otherwise."""
    history = ASKED.under(under(TWO))
    history.when(tick(), at=VALID_MS).then(
        ended("policy_changed"), *anew(TWO, at=VALID_MS, offset=history.offset)
    )
    over = ASKED.and_then(after(VALID_MS, ended("expired"))).under(under(TWO))
    over.when(tick(), at=VALID_MS).then(*anew(TWO, at=VALID_MS, offset=over.offset))
    same = ASKED.and_then(after(VALID_MS, ended("expired"))).under(under(SAME))
    same.when(tick(), at=VALID_MS).then(ruled(SAME))


# --- another catalogue, while it waits -----------------------------------------------------------

READS_ONLY = table_of(
    """
    [[row]]
    name = "reads"
    when.kind = ["read"]
    outcome = "automatic"
    reason = "It changes nothing."

    [[row]]
    name = "charges"
    when.kind = ["money"]
    outcome = "people"
    reason = "Somebody looks at it."

    [[row]]
    name = "others"
    outcome = "deny"
    reason = "A test says so."
    """
)


def waits_as_a_read() -> Given:
    """Proposed while its operation counted as reading; nobody has offered to start it."""
    then = given().under(under(READS_ONLY, kind="read")).when(propose())
    return then.before.and_then(After(0, then.decided.facts))


def next_of(history: Given) -> Given:
    """What follows when an executor offers to start it: it has not started."""
    then = history.when(tick(), at=5, offer=offer(at=5))
    assert then.decided.offer_spent is None
    return history.and_then(After(5, then.decided.facts))


def test_an_operation_that_became_riskier_is_ruled_anew_before_it_starts() -> None:
    """What another catalogue says of it counts for everything that has not begun."""
    history = next_of(waits_as_a_read().under(under(READS_ONLY, kind="money")))
    assert history.action().policy_row == "charges"
    assert history.action().status is Status.AWAITING_APPROVAL


def test_an_operation_that_the_table_refuses_now_never_starts() -> None:
    """It ends, as it would under another table."""
    history = next_of(waits_as_a_read().under(under(READS_ONLY, kind="deploy")))
    assert history.action().status is Status.DENIED


def test_who_may_not_ask_any_more_starts_nothing_that_waits() -> None:
    """Whoever may ask is asked before the table is, for what waits for people too."""
    for history in (waits_as_a_read(), ASKED):
        after_it = next_of(for_others(history))
        assert after_it.action().status is Status.DENIED
        assert after_it.action().policy_row == "principals"


def test_what_does_not_fit_its_declaration_any_more_starts_nothing_that_waits() -> None:
    """What would be refused if it were asked for now is no more for having waited, nor for a
    person's yes.
    """
    for history in (waits_as_a_read(), ASKED, READY):
        after_it = next_of(history.under(tightened(history.config)))
        assert after_it.action().status is Status.DENIED
        assert after_it.action().policy_row == "declaration"


def test_what_has_begun_goes_on_where_its_request_would_be_refused_now() -> None:
    """An attempt that runs is waited for, whatever another catalogue says of what it asks."""
    BEGUN.under(tightened(BEGUN.config)).when(tick(), at=30).then_unchanged("nothing_due")


def test_a_caller_starts_nothing_that_it_may_not_ask_for_any_more() -> None:
    """No executor stands between it and the effect."""
    own = CallerOffer(nonce="m" * 20, valid_ms=5_000)
    history = for_others(
        waits_as_a_read().under(under(READS_ONLY, kind="read", performer="either"))
    )
    given_offer = offer_of_caller(own, "charge", T0 + 5)
    then = history.when(propose(caller=own), at=5, offer=given_offer)
    assert then.decided.offer_spent is None


def test_a_catalogue_that_makes_no_difference_asks_nobody_twice() -> None:
    """Nothing is due, and what people granted stays."""
    history = ASKED.under(under(ONE, description="Another text."))
    history.when(tick(), at=5).then_unchanged("nothing_due")


def tightened(config: Config) -> Config:
    """The same configuration, but that amounts have to be whole thousands."""
    catalogue = config.catalogue
    operations = tuple(
        one.model_copy(update={"amount_multiple_of": {"EUR": 1_000}})
        for one in catalogue.operations
    )
    return replace(config, catalogue=Catalogue(operations, "sha256:other", catalogue.timing))


def for_others(history: Given) -> Given:
    """The same under a catalogue by which only somebody else may ask."""
    catalogue = history.config.catalogue
    operations = tuple(
        one.model_copy(update={"principals": ("agent:other",)}) for one in catalogue.operations
    )
    fewer = Catalogue(operations, catalogue.content_hash, catalogue.timing)
    return history.under(replace(history.config, catalogue=fewer))


# --- another table, when it is ready -------------------------------------------------------------


def test_the_same_row_keeps_what_people_granted() -> None:
    """The tick that rules it anew may start it, on the word that was given under the other text."""
    then = READY.under(under(SAME)).when(tick(), at=30, offer=offer(at=30))
    then.then(ruled(SAME), start_of(YES, at=30))


@pytest.mark.law("S4")
def test_nothing_starts_under_a_table_that_was_not_asked() -> None:
    """A start that meets another table than it was ruled by waits for its ruling."""
    own = recorded().model_copy(update={"performer": "caller"})
    config = under(TWO, performer="caller")
    waiting = given(own, automatic()).under(config)
    calls = CallerOffer(nonce="n", valid_ms=1_000)
    mine = offer_of_caller(calls, "charge", T0 + 5)
    waiting.when(propose(caller=calls), at=5, offer=mine).then_unchanged("replayed")


@pytest.mark.law("S4")
@pytest.mark.parametrize("policy", [TWO, RENAMED])
def test_another_row_takes_back_what_people_granted(policy: Policy) -> None:
    """It waits again, as long as it may wait for people, and starts on no earlier word."""
    history = READY.under(under(policy))
    waiting = history.when(tick(), at=30, offer=offer(at=30)).then(
        ended("policy_changed"), *anew(policy, at=30, offset=history.offset)
    )
    assert waiting.action().status is Status.AWAITING_APPROVAL
    assert waiting.action().step_deadline_at == T0 + PEOPLE_MS
    waiting.when(tick(), at=40, offer=offer(at=40)).then_unchanged("nothing_due")


def test_what_was_ready_by_itself_waits_for_people_where_they_are_asked_now() -> None:
    """From then on it has the time that people have."""
    history = AUTOMATIC_READY.under(under(ONE))
    waiting = history.when(tick(), at=30, offer=offer(at=30)).then(
        ruled(ONE, deadline=30 + PEOPLE_MS),
        previewed(),
        asking(at=30, nonce=nonce_of(1, offset=history.offset, at=30)),
    )
    assert waiting.action().step_deadline_at == T0 + 30 + PEOPLE_MS


def test_a_retry_that_was_due_has_nothing_to_do_with_people() -> None:
    """A start that was given back leaves a timer; people are asked, and nobody else is."""
    back = AUTOMATIC_READY.and_then(started(), declined(), retry_due(BACKOFF_BASE_MS))
    history = back.under(under(ONE))
    nonce = nonce_of(1, offset=history.offset, at=30)
    waiting = history.when(tick(), at=30).then(
        ruled(ONE, deadline=30 + PEOPLE_MS), previewed(), asking(at=30, nonce=nonce)
    )
    assert waiting.action().timer is None
    waiting.when(tick(), at=BACKOFF_BASE_MS).then_unchanged("nothing_due")
    withdraw = withdraws(at=40, nonce=nonce, until=30 + VALID_MS)
    yes = approves(at=35, nonce=nonce, until=30 + VALID_MS)
    again = waiting.and_then(after(35, agreed(yes, at=35))).and_then(
        after(35, start_of(yes, attempt=2, at=35), declined(2), retry_due(5_000))
    )
    taken_back = again.when(withdraw, at=40).then(withdrawn(withdraw))
    taken_back.when(tick(), at=5_000).then_unchanged("nothing_due")


def test_what_has_begun_goes_on_under_its_row() -> None:
    """While an attempt runs, and between an attempt without effect and the next."""
    BEGUN.under(under(NEVER)).when(tick(), at=30).then_unchanged("nothing_due")
    between = BEGUN.and_then(after(30, refused(), retry_due(1_030))).under(under(NEVER))
    then = between.when(tick(), at=2_000, offer=offer(at=2_000, incarnation="executor-2"))
    then.then(start_of(YES, attempt=2, at=2_000, first_at=20, holder="executor-2"))


def test_a_start_that_was_given_back_is_no_beginning() -> None:
    """Nobody acted on it: another table rules it anew."""
    back = BEGUN.and_then(after(30, declined(), retry_due(1_030))).under(under(NEVER))
    back.when(tick(), at=40).then(ended("policy_changed"), ruled(NEVER), denied())


def test_an_operation_that_was_withdrawn_is_a_persons_case() -> None:
    """What waits for people can never start; their word is answered by that."""
    for history in (ASKED, READY):
        case = history.under(under(ONE, name="gone")).when(tick(), at=30)
        in_review = case.then(review("operation_withdrawn"))
        ben = approves("ben", at=40)
        in_review.when(ben, at=40).then_rejected(Rejection.IN_REVIEW)


# --- how long it may wait ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "history", [ASKED, ASKED.and_then(after(VALID_MS, ended("expired"))), asked(ESCALATING)]
)
def test_people_have_their_time_and_no_more(history: Given) -> None:
    """One millisecond before the end it still waits; at it the action is over, unstarted."""
    assert history.action().step_deadline_at == T0 + PEOPLE_MS
    history.when(tick(), at=PEOPLE_MS).then(expired())
    before = history.when(tick(), at=PEOPLE_MS - 1).decided.facts
    assert "action.expired" not in {fact.type for fact in before}


def test_the_step_begins_when_people_agree() -> None:
    """It may take as long as the operation says, from the last yes on."""
    long = table(valid_ms=2 * PEOPLE_MS)
    late = PEOPLE_MS - 1
    waiting = given(
        recorded(), ruled(long, deadline=PEOPLE_MS), previewed(policy=long), asking(policy=long)
    ).under(under(long))
    yes = approves(policy=long, at=late, until=2 * PEOPLE_MS)
    ready = waiting.when(yes, at=late).then(agreed(yes, at=late))
    ready.when(tick(), at=late + STEP_MS - 1).then_unchanged("nothing_due")
    ready.when(tick(), at=late + STEP_MS).then(expired())


OWN_MS = 30_000


def own(given_ms: int = OWN_MS) -> IntentRecorded:
    """An intent whose caller gave it a deadline of its own."""
    step_ms = min(given_ms, STEP_MS)
    return recorded(step_ms=step_ms).model_copy(update={"caller_deadline_at": T0 + given_ms})


@pytest.mark.parametrize("given_ms", [OWN_MS, STEP_MS, 2 * STEP_MS])
def test_the_callers_own_deadline_holds_for_people_too(given_ms: int) -> None:
    """Neither their time nor the step they begin goes beyond it, even where the step is shorter."""
    long = table(valid_ms=4 * STEP_MS)
    nonce = nonce_of(1, offset=0, at=0)
    history = (
        given()
        .under(under(long))
        .when(propose(step_ms=given_ms))
        .then(
            own(given_ms),
            ruled(long, deadline=given_ms),
            previewed(policy=long),
            asking(policy=long, nonce=nonce),
        )
    )
    history.when(tick(), at=given_ms).then(expired())
    yes = approves(policy=long, at=given_ms - 1, nonce=nonce, until=4 * STEP_MS)
    ready = history.when(yes, at=given_ms - 1).then(granted(yes, deadline=given_ms))
    ready.when(tick(), at=given_ms).then(expired())


def test_the_callers_own_deadline_outlives_another_table() -> None:
    """Who is asked later has no more time than the caller gave, and neither has the step."""
    ready = given(own(), automatic()).under(under(ONE))
    waiting = ready.when(tick(), at=30)
    assert waiting.decided.facts[0] == ruled(ONE, deadline=OWN_MS).model_copy(update={"version": 3})
    history = given(own(), ruled(ONE, deadline=OWN_MS), previewed(), asking()).under(under(FREE))
    history.when(tick(), at=30).then(ended("policy_changed"), ruled(FREE, deadline=OWN_MS))


# --- who carries it out --------------------------------------------------------------------------


def test_an_executor_never_takes_what_its_caller_carries_out() -> None:
    """Where both may, people's word starts nothing by itself: the caller offers again."""
    event = Event(world(table_of(asked_of("charge") + passes()), performer="either"))
    calls = CallerOffer(nonce="n" * 20, valid_ms=1_000)
    event.propose(CHARGE, caller=calls)
    assert event.propose(CHARGE, caller=calls) == []
    event.says(CHARGE)
    assert event.goes_on() == []
    assert event.action(CHARGE).status is Status.READY
    at = event.now + 1
    own_offer = offer_of_caller(calls, "charge", T0 + at)
    begun = event.hears(propose(caller=calls), at=at, offer=own_offer)
    assert [fact.type for fact in begun.decided.facts] == ["attempt.started"]
