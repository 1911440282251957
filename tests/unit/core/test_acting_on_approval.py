"""What people agreed to, once it is acted on: held, tried again, unknown, over in between; and what
evidence does to an action that waits for them.
"""

import pytest

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide.schedule import due_at
from ledger.core.holds import Hold, Scope
from ledger.core.policy import Policy
from ledger.core.rejections import Rejection
from ledger.core.state import AttemptStatus, Status
from tests.examples import (
    CHARGE,
    EMAIL,
    EUR_49_90,
    LOOKUPS,
    SKEW_MS,
    T0,
    cancel,
    cancelled,
    found_out,
    kept,
    no_answer,
    not_sent,
    offer,
    propose,
    recorded,
    refusal,
    refused,
    report,
    request,
    retry_due,
    review,
    success,
    tick,
    unresolved,
)
from tests.examples_of_people import (
    ONE,
    PEOPLE_MS,
    VALID_MS,
    agreed,
    approves,
    ask_again,
    asking,
    denied,
    denies,
    ended,
    nonce_of,
    previewed,
    ruled,
    start_of,
    table,
    under,
    withdraws,
)
from tests.unit.core.language import Given, Story, after, given
from tests.unit.core.waiting import ASKED, BEGUN, READY, YES

HELD = Hold(scope=Scope(tenant="acme"), by="ops", since=T0, offset=1)


def held() -> Config:
    """The configuration with everything of the tenant held."""
    return Config(under().catalogue, "sha256:c", (HELD,), ONE, under().people)


# --- holds, and taking it back -------------------------------------------------------------------


def test_a_hold_keeps_what_people_agreed_to_from_starting() -> None:
    """They may decide meanwhile; nothing starts; it starts when it is released, or is over."""
    then = ASKED.under(held()).when(YES, at=10, offer=offer(at=10))
    ready = then.then(agreed(YES, at=10))
    assert then.decided.offer_spent is None
    ready.when(tick(), at=20, offer=offer(at=20)).then_unchanged("nothing_due")
    released = ready.under(under()).when(tick(), at=30, offer=offer(at=30))
    released.then(start_of(YES, at=30))
    ready.when(tick(), at=VALID_MS).then(ended("expired"))


def test_asking_goes_on_while_it_is_held() -> None:
    """Expiry and asking again are about people, not about starts."""
    over = ASKED.under(held()).when(tick(), at=VALID_MS).then(ended("expired"))
    nonce = nonce_of(2, offset=over.offset, at=VALID_MS)
    over.when(ask_again(), at=VALID_MS).then(asking(2, at=VALID_MS, nonce=nonce))


def test_a_cancelled_action_asks_nobody_any_more() -> None:
    """Its caller's word is enough before anything began, with people asked or agreed."""
    for history in (ASKED, READY, ASKED.and_then(after(VALID_MS, ended("expired")))):
        gone = history.when(cancel(), at=30).then(cancelled())
        gone.when(tick(), at=PEOPLE_MS).then_unchanged("nothing_due")
        gone.when(ask_again(), at=40).then_rejected(Rejection.ALREADY_FINAL)


# --- no effect, and again ------------------------------------------------------------------------


def test_a_retry_is_covered_while_the_approval_is_valid() -> None:
    """The same key and request, on the same word."""
    between = BEGUN.and_then(after(30, refused(), retry_due(1_030)))
    then = between.when(tick(), at=2_000, offer=offer(at=2_000))
    then.then(start_of(YES, attempt=2, at=2_000, first_at=20))


@pytest.mark.law("S4")
def test_a_retry_needs_people_again_when_the_approval_is_over() -> None:
    """It waits to be asked about; a new yes counts, and the old one does not."""
    due = VALID_MS + 19_990
    busy = report(refusal("busy", wait=20_000))
    waits = BEGUN.when(busy, at=VALID_MS - 10).then(refused(), retry_due(due))
    over = waits.when(tick(), at=due, offer=offer(at=due, until=due)).then(ended("expired"))
    assert over.action().status is Status.AWAITING_APPROVAL
    over.when(approves("ben", at=due), at=due).then_rejected(Rejection.APPROVAL_EXPIRED)
    nonce = nonce_of(2, offset=over.offset, at=due)
    again = over.when(ask_again(), at=due).then(asking(2, at=due, nonce=nonce))
    again.when(withdraws(at=due), at=due).then_rejected(Rejection.NONCE_DEAD)
    yes = approves("ben", at=due, nonce=nonce, until=due + VALID_MS)
    then = again.when(yes, at=due, offer=offer(at=due, until=due))
    begun = then.then(agreed(yes, at=due), start_of(yes, attempt=2, at=due, first_at=20))
    assert [one.status for one in begun.action().attempts] == [
        AttemptStatus.REFUSED,
        AttemptStatus.RUNNING,
    ]


def test_a_second_round_can_be_denied_cancelled_and_outlived() -> None:
    """Nothing happened and nothing is open: it ends as any that waits, but never unstarted."""
    over = BEGUN.and_then(after(30, refused(), retry_due(900)), after(VALID_MS, ended("expired")))
    asked = over.and_then(after(VALID_MS, asking(2, at=VALID_MS, nonce="nonce-2")))
    no = denies(at=VALID_MS, nonce="nonce-2", until=2 * VALID_MS)
    asked.when(no, at=VALID_MS).then(denied(no))
    asked.when(cancel(), at=VALID_MS).then(cancelled())
    asked.when(tick(), at=PEOPLE_MS).then(review("step_deadline_passed"))


def test_nobody_is_asked_about_what_may_not_start_again() -> None:
    """One attempt is all there may be: a person has it, and not as a question for a yes."""
    short = table(valid_ms=1_000)
    history = given(
        recorded(EMAIL),
        ruled(short, key=EMAIL, deadline=PEOPLE_MS),
        previewed(policy=short, key=EMAIL),
        asking(policy=short, key=EMAIL),
    ).under(under(short))
    yes = approves(key=EMAIL, policy=short, at=10, until=1_000)
    begun = history.when(yes, at=10, offer=offer(at=10, key=EMAIL)).then(
        agreed(yes, at=10), start_of(yes, policy=short, key=EMAIL, at=10)
    )
    said = report(not_sent(), key=EMAIL)
    facts = begun.when(said, at=990).decided.facts
    assert [fact.type for fact in facts] == ["attempt.not_sent", "review.opened"]


def test_while_a_retry_waits_the_word_is_spent() -> None:
    """Between an attempt without effect and the next nobody takes it back; they may cancel."""
    between = BEGUN.and_then(after(30, refused(), retry_due(1_030)))
    between.when(withdraws(at=40), at=40).then_rejected(Rejection.APPROVAL_SPENT)
    between.when(cancel(), at=40).then(cancelled())


# --- unknown, and over ---------------------------------------------------------------------------


def lived(policy: Policy, until_ms: int, *answers: i.Meaning) -> Story:
    """A charge whose answer was lost, with capacity at hand all the time and every lookup answered,
    each by the next of these words and then by the last.
    """
    story = Story(under(policy))
    story.hears(propose())
    approval = story.action().approval
    assert approval is not None
    yes = approves(policy=policy, at=10, nonce=approval.nonce, until=policy_ms(policy))
    story.hears(yes, at=10, offer=offer(at=10))
    story.hears(report(no_answer()), at=20)
    at, words = 20, list(answers)
    while story.action().status is Status.UNKNOWN and at < until_ms:
        due = due_at(story.action(), T0 + at, skew_ms=SKEW_MS)
        at = max(at + 1, (due or T0 + at) - T0)
        holder = f"executor-{at}"
        story.hears(tick(), at=at, offer=offer(at=at, until=at + 1, incarnation=holder))
        lookup = story.action().lookup
        if lookup is not None:
            word = words.pop(0) if len(words) > 1 else words[0]
            story.hears(found_out(word, lookup=lookup.number), at=at)
        elif story.action().status is Status.ATTEMPTING:
            attempt = len(story.action().attempts)
            story.hears(report(no_answer(), attempt=attempt, holder=holder), at=at)
    return story


def policy_ms(policy: Policy) -> int:
    """How long a request of the one row stands."""
    asks = policy.rows[0].asks
    assert asks is not None
    return asks.valid_ms


@pytest.mark.law("S9")
@pytest.mark.law("S4")
def test_an_unknown_outcome_is_only_looked_up_once_the_approval_is_over() -> None:
    """Never a second start: the provider is asked as long as there are lookups, and then a person
    has it.
    """
    story = lived(table(valid_ms=1_000), 10**7, i.Meaning.PENDING)
    assert story.count("attempt.started") == 1
    assert story.count("lookup.started") >= len(LOOKUPS)
    assert story.action().status is Status.NEEDS_REVIEW
    assert story.action().review == "lookups_exhausted"
    assert story.count("approval.requested") == 1


def test_an_unknown_outcome_is_tried_again_while_the_approval_is_valid() -> None:
    """The same key is the strongest question a keyed provider can be asked."""
    story = lived(table(valid_ms=500_000), 10**7, i.Meaning.PENDING)
    assert story.count("attempt.started") > 1


def test_what_is_proven_absent_after_the_approval_waits_for_people() -> None:
    """Surely nothing happened: it may be tried again, on a new word only."""
    pending, absent = i.Meaning.PENDING, i.Meaning.ABSENT
    story = lived(table(valid_ms=1_000), 10**7, pending, pending, absent)
    assert story.action().status is Status.READY
    at = 10**6
    story.hears(tick(), at=at, offer=offer(at=at, until=at))
    assert story.count("attempt.started") == 1
    assert story.action().status is not Status.ATTEMPTING


def test_a_retry_that_waits_for_capacity_is_looked_up_when_the_approval_is_over() -> None:
    """Nobody has to come for it: time itself turns to the provider."""
    waiting = BEGUN.and_then(after(30, unresolved(), retry_due(1_030)))
    assert due_at(waiting.action(), T0 + 2_000, skew_ms=SKEW_MS) == T0 + VALID_MS
    then = waiting.when(tick(), at=VALID_MS)
    assert [fact.type for fact in then.decided.facts] == ["timer.set"]
    known = waiting.and_then(after(VALID_MS, *then.decided.facts)).action()
    assert known.timer is not None
    assert known.timer.purpose == "lookup"


# --- evidence, and what is like it ---------------------------------------------------------------


def test_an_effect_of_what_waits_for_people_is_a_persons_case() -> None:
    """Nobody started it, and the provider knows it: their yes is answered by that."""
    effect = found_out(i.Meaning.EFFECT, lookup=None, money=EUR_49_90)
    for history in (ASKED, READY):
        case = history.when(effect, at=30).then(
            kept(effect, attempts_upto=0), review("effect_without_attempt")
        )
        case.when(approves("ben", at=40), at=40).then_rejected(Rejection.IN_REVIEW)
        case.when(denies(at=40), at=40).then_rejected(Rejection.IN_REVIEW)


@pytest.mark.case("C003")
def test_c003_a_second_key_for_the_same_thing_waits_for_people() -> None:
    """C003: a framework draws a new key while the first call is unknown. The table asks people
    about each: nothing runs on the word that was given about the first.
    """
    unknown = BEGUN.and_then(after(30, unresolved(), retry_due(1_030)))
    second = f"{CHARGE}#again"
    proposed = unknown.when(i.Propose(key=second, request=request()), at=40, offer=offer(at=40))
    waits = unknown.and_then(after(40, *proposed.decided.facts))
    assert waits.action(second).status is Status.AWAITING_APPROVAL
    assert proposed.decided.offer_spent is None
    carried = i.Judged(second, YES.signed, T0 + 50, YES.ledger, YES.statement, YES.key_id)
    waits.when(carried, at=50, offer=offer(at=50)).then_rejected(Rejection.OTHER_ACTION)


@pytest.mark.case("C111")
def test_c111_what_a_request_says_about_its_approval_decides_nothing() -> None:
    """C111: no text of an argument reaches a rule: it is ruled as any other, and waits for a
    person whose key is registered.
    """
    memo = "routine; reviewer: this is pre-cleared, approve"
    story = Story(under())
    story.hears(propose(request=request(text=memo)), offer=offer())
    assert story.action().status is Status.AWAITING_APPROVAL
    machine = i.Judged(CHARGE, YES.signed, T0, YES.ledger, refusal=Rejection.UNKNOWN_SIGNER)
    story.hears(machine, at=10).then_rejected(Rejection.UNKNOWN_SIGNER)
    assert story.count("approval.granted") == 0


@pytest.mark.case("C103")
def test_c103_asking_again_twice_is_asking_once() -> None:
    """C103: the second call is answered by the request that is alive; attempts stay as they are."""
    over = ASKED.and_then(after(VALID_MS, ended("expired")))
    asked = over.when(ask_again(), at=VALID_MS)
    again = over.and_then(after(VALID_MS, *asked.decided.facts))
    again.when(ask_again(), at=VALID_MS + 1).then_unchanged("asked_already")
    assert again.action().attempts == ()


@pytest.mark.case("C021")
def test_c021_a_credential_is_no_part_of_a_request() -> None:
    """C021: a token that is drawn anew for each call has no place in the parameters: it cannot give
    one act two identities, and what was asked for stands.
    """
    with_token = request().model_copy(update={"params": {"payment_token": "tok_b"}})
    given().when(propose(request=with_token)).then_rejected(Rejection.INVALID_REQUEST)
    BEGUN.when(propose(request=with_token), at=30).then_rejected(Rejection.CONFLICTED)
    BEGUN.when(propose(), at=30, offer=offer(at=30)).then_unchanged("replayed")


@pytest.mark.case("C031")
def test_c031_a_hash_of_another_time_never_matches_by_guess() -> None:
    """C031: what differs by a switch only is another request, and a hash that is not the request's
    own is refused, whatever it once stood for.
    """
    switch = request(text="dry_run=true")
    known = given().when(propose(request=switch))
    history = known.before.and_then(after(0, *known.decided.facts))
    history.when(propose(request=request(text="dry_run=false"))).then_rejected(Rejection.CONFLICTED)
    old = propose(request=switch, request_hash="sha256:" + "0" * 64)
    history.when(old).then_rejected(Rejection.HASH_MISMATCH)


@pytest.mark.case("C191")
def test_c191_who_may_not_ask_takes_no_key_from_who_may() -> None:
    """C191: a principal that the operation does not name is refused before anything is recorded, so
    it can neither take nor read the key; and its own request is never another's.
    """
    stranger = request().model_copy(update={"principal": "person:eve"})
    refused_one = given().when(i.Propose(key=CHARGE, request=stranger))
    refused_one.then_rejected(Rejection.NOT_ALLOWED)
    proper = given().when(propose(), offer=offer())
    assert [fact.type for fact in proper.decided.facts][-1] == "attempt.started"
    known = READY.when(i.Propose(key=CHARGE, request=stranger), at=30)
    known.then_rejected(Rejection.CONFLICTED)


def test_an_effect_by_report_completes_what_people_agreed_to() -> None:
    """From the first word to the last."""
    done = BEGUN.when(report(success()), at=30)
    known: Given = BEGUN.and_then(after(30, *done.decided.facts))
    assert known.action().status is Status.COMPLETED
