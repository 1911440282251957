"""The review desk: which moves are safe for which case, and what comes of each."""

import pytest

from ledger.core.decide.resolving import moves
from ledger.core.facts import ActionCompleted, AnyFact
from ledger.core.limits import RESUMES_MAX
from ledger.core.rejections import Rejection
from ledger.core.state import FINAL, AttemptStatus, Status
from ledger.core.statement import Move
from tests.examples import (
    CHARGE,
    EMAIL,
    KEY_MARGIN_MS,
    KEY_WINDOW_MS,
    LEASE_MS,
    LOOKUPS,
    PAYOUT,
    SKEW_MS,
    STEP_MS,
    T0,
    TICKET,
    absent,
    asked,
    automatic,
    cancelled,
    completed,
    declined,
    expired,
    failed,
    lookup_due,
    offer,
    recorded,
    refused,
    review,
    started,
    tick,
    unresolved,
)
from tests.examples_of_people import (
    FREE,
    PEOPLE_MS,
    VALID_MS,
    approves,
    asking,
    ended,
    nonce_of,
    previewed,
    resolution,
    resolved,
    ruled,
    start_of,
    under,
)
from tests.unit.core.desk import (
    ASKED_ALREADY,
    CONFIRMED,
    DIFFERS,
    EMAIL_OVER,
    GIVEN_BACK,
    NEVER_BEGUN,
    OPEN,
    OPEN_EMAIL,
    OPEN_PAYOUT,
    OPEN_TICKET,
    OVER,
    PARTLY,
    RUNNING,
    UNDER,
    begun,
    offered,
    settles,
    unknown,
)
from tests.unit.core.language import Given, given
from tests.unit.core.waiting import BEGUN

EXISTS, NOTHING = Move.EFFECT_EXISTS, Move.NO_EFFECT
AGAIN, LOOK, NOTED = Move.TRY_AGAIN, Move.LOOK_AGAIN, Move.ACKNOWLEDGE
PAST_KEY = KEY_WINDOW_MS - KEY_MARGIN_MS
EXHAUSTED = begun().and_then(
    refused(), started(2), refused(2), started(3), refused(3), review("attempts_exhausted")
)
SOURCE = "person:5"

# --- what is offered ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "key", "at", "safe"),
    [
        pytest.param(OPEN, CHARGE, 9_500, {EXISTS, LOOK}, id="may-still-take-effect"),
        pytest.param(OPEN, CHARGE, OVER - 1, {EXISTS, LOOK}, id="not-quite-over"),
        pytest.param(OPEN, CHARGE, OVER, {EXISTS, NOTHING, AGAIN, LOOK}, id="over"),
        pytest.param(OPEN, CHARGE, PAST_KEY, {EXISTS, NOTHING, LOOK}, id="key-forgotten"),
        pytest.param(OPEN_PAYOUT, PAYOUT, PAST_KEY, {EXISTS, NOTHING, AGAIN, LOOK}, id="reference"),
        pytest.param(OPEN_TICKET, TICKET, OVER, {EXISTS, NOTHING, AGAIN, LOOK}, id="opted-in"),
        pytest.param(OPEN_EMAIL, EMAIL, EMAIL_OVER, {EXISTS, NOTHING}, id="one-attempt-only"),
        pytest.param(EXHAUSTED, CHARGE, OVER, {EXISTS, NOTHING}, id="attempts-exhausted"),
        pytest.param(GIVEN_BACK, CHARGE, 10, {NOTHING, AGAIN}, id="only-given-back"),
        pytest.param(NEVER_BEGUN, CHARGE, 10, {NOTHING, AGAIN}, id="never-begun"),
        pytest.param(DIFFERS, CHARGE, OVER, {EXISTS, NOTHING}, id="an-effect-was-seen"),
        pytest.param(PARTLY, CHARGE, OVER, {EXISTS, NOTHING}, id="a-part-exists"),
        pytest.param(CONFIRMED, CHARGE, OVER, {EXISTS}, id="the-provider-confirmed"),
        pytest.param(RUNNING, CHARGE, 4_500, {EXISTS}, id="under-way"),
        pytest.param(unknown(), CHARGE, OVER, set(), id="no-case"),
    ],
)
def test_only_what_is_safe_is_offered(known: Given, key: str, at: int, safe: set[Move]) -> None:
    """By what was sent, what may still come of it, and what the provider is known to hold."""
    assert offered(known, at=at, key=key) == safe


def test_every_offer_says_what_it_would_do() -> None:
    """One sentence for each, and another where nothing began."""
    said = {
        one.move: one.sentence
        for known in (OPEN, NEVER_BEGUN)
        for one in moves(known.action(), UNDER.operation("charge", 1), UNDER, T0 + OVER)
    }
    assert all(sentence.endswith(".") for sentence in said.values())
    assert said[NOTHING] == (
        "The action is cancelled: nothing of it was ever sent, and nothing will be."
    )
    assert "may be two" not in said[AGAIN]


@pytest.mark.parametrize("fact", [completed(), failed(), cancelled(), expired()])
def test_an_alarm_of_a_final_action_is_only_noted(fact: AnyFact) -> None:
    """What is final stays as it is: there is nothing else to do about it."""
    open_one = unknown()
    if not isinstance(fact, ActionCompleted):
        open_one = given(recorded(), ruled(FREE)).under(UNDER)
    known = open_one.and_then(fact, review("effect_without_attempt"))
    assert known.action().status in FINAL
    assert offered(known, at=OVER) == {NOTED}
    said = settles(known, NOTED, at=OVER)
    then = known.when(said, at=OVER, offer=offer(at=OVER))
    left = then.then(resolved(said.statement))
    assert left.action().status is known.action().status
    assert left.action().case is None


def test_an_operation_that_nobody_declares_any_more_is_neither_tried_nor_asked_about() -> None:
    """That there is an effect can still be said; that there is none, of what was never sent: nobody
    knows any more how long the provider takes.
    """
    safe = {one.move for one in moves(OPEN.action(), None, UNDER, T0 + OVER)}
    assert safe == {EXISTS}
    safe = {one.move for one in moves(NEVER_BEGUN.action(), None, UNDER, T0 + OVER)}
    assert safe == {NOTHING}


def test_people_let_an_action_go_on_only_so_often() -> None:
    """Each time costs as much as the first; in the end somebody says what is so."""
    known = OPEN
    for number in range(RESUMES_MAX):
        at = OVER + number * 10
        said = resolution(LOOK, case=known.action().version, at=at)
        known = known.and_then(resolved(said), review("lookups_exhausted"))
    assert offered(known, at=OVER) == {EXISTS, NOTHING}


# --- an effect exists --------------------------------------------------------------------------


@pytest.mark.parametrize("known", [OPEN, DIFFERS, PARTLY, RUNNING])
def test_an_effect_that_a_person_found_completes(known: Given) -> None:
    """Open attempts are settled by their word, under the reference that they signed."""
    said = settles(known, EXISTS, at=OVER)
    history = known.when(said, at=OVER).then(
        resolved(said.statement),
        completed("person", reference="ch_person"),
    )
    action = history.action()
    assert (action.status, action.proof, action.reference) == ("completed", "person", "ch_person")
    assert [one.status for one in action.attempts] == [AttemptStatus.SETTLED]
    assert action.case is None


@pytest.mark.parametrize("move", Move)
def test_a_reference_stands_where_there_is_an_effect_and_nowhere_else(move: Move) -> None:
    """Nothing is completed without a name at the provider, and no other word carries one."""
    wrong = None if move is EXISTS else "ch_1"
    said = settles(OPEN, move, at=OVER, reference=wrong)
    OPEN.when(said, at=OVER).then_rejected(Rejection.REFERENCE_UNFIT, action=CHARGE)


# --- there was none ----------------------------------------------------------------------------


@pytest.mark.law("S12")
def test_no_effect_fails_once_nothing_can_come_of_it_any_more() -> None:
    """Every open attempt is closed by the person's word, and none will follow."""
    said = settles(OPEN, NOTHING, at=OVER)
    history = OPEN.when(said, at=OVER, offer=offer(at=OVER)).then(
        resolved(said.statement),
        absent(source=SOURCE),
        failed("resolved_no_effect"),
    )
    assert history.action().status is Status.FAILED
    assert not history.action().is_open


@pytest.mark.law("S12")
@pytest.mark.parametrize("move", [NOTHING, AGAIN])
def test_who_looked_too_early_has_not_seen_the_end(move: Move) -> None:
    """A word given before the last effect could show counts for nothing, however late it comes."""
    early = settles(OPEN, move, at=OVER - 1)
    OPEN.when(early, at=OVER + 50).then_rejected(Rejection.MOVE_NOT_SAFE, action=CHARGE)


@pytest.mark.law("S12")
@pytest.mark.parametrize("move", [NOTHING, AGAIN, LOOK])
def test_a_person_does_not_undo_what_the_provider_confirmed(move: Move) -> None:
    """Only that it is there can be said of it."""
    said = settles(CONFIRMED, move, at=OVER)
    CONFIRMED.when(said, at=OVER).then_rejected(Rejection.MOVE_NOT_SAFE)


@pytest.mark.parametrize("known", [NEVER_BEGUN, GIVEN_BACK])
def test_what_never_began_is_cancelled(known: Given) -> None:
    """Nothing can have failed that was never sent."""
    said = settles(known, NOTHING, at=10)
    by_her = cancelled().model_copy(update={"principal": "ada", "reason": "resolved_no_effect"})
    history = known.when(said, at=10).then(resolved(said.statement), by_her)
    assert history.action().status is Status.CANCELLED


def test_what_waits_for_nobodys_word_any_more_can_still_have_failed() -> None:
    """Refused once, its approval over, its declaration gone: a person says that it is nothing."""
    known = BEGUN.and_then(refused(), ended("expired"), review("operation_withdrawn"))
    said = settles(known, NOTHING, at=OVER, name="ben")
    history = known.when(said, at=OVER).then(resolved(said.statement), failed("resolved_no_effect"))
    assert history.action().status is Status.FAILED
    unasked = given(recorded(), ruled(deadline=PEOPLE_MS), review("preview_failed")).under(under())
    word = settles(unasked, NOTHING, at=10)
    unasked.when(word, at=10).then(
        resolved(word.statement),
        cancelled().model_copy(update={"principal": "ada", "reason": "resolved_no_effect"}),
    )


# --- try again ---------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [OPEN, OPEN_PAYOUT, OPEN_TICKET])
def test_a_person_has_it_tried_again_with_the_same_key(known: Given) -> None:
    """Capacity at hand is spent in the same decision, and the step begins anew."""
    key = known.stream.actions[0].key
    said = settles(known, AGAIN, at=OVER, key=key)
    then = known.when(said, at=OVER, offer=offer(at=OVER, until=OVER + 10, key=key))
    history = then.then(
        resolved(said.statement, step=OVER + STEP_MS),
        absent(key=key, source=SOURCE),
        started(2, key=key, at=OVER, first_at=0),
    )
    action = history.action(key)
    assert action.step_deadline_at == T0 + OVER + STEP_MS
    assert {one.provider_key for one in action.attempts} == {key}


def test_without_capacity_it_is_ready_and_waits_for_some() -> None:
    """The next tick with an offer starts it."""
    said = settles(OPEN, AGAIN, at=OVER)
    history = OPEN.when(said, at=OVER).then(
        resolved(said.statement, step=OVER + STEP_MS),
        absent(source=SOURCE),
    )
    assert history.action().status is Status.READY
    later = OVER + 500
    history.when(tick(), at=later, offer=offer(at=later, until=later + 10)).then(
        started(2, at=later, first_at=0)
    )


@pytest.mark.law("S9")
@pytest.mark.parametrize(
    ("known", "key", "at"),
    [
        pytest.param(OPEN, CHARGE, PAST_KEY, id="past-the-key-window"),
        pytest.param(OPEN_EMAIL, EMAIL, EMAIL_OVER, id="class-none"),
        pytest.param(EXHAUSTED, CHARGE, OVER, id="attempts-exhausted"),
        pytest.param(DIFFERS, CHARGE, OVER, id="an-effect-was-seen"),
    ],
)
def test_nobody_can_have_tried_again_what_could_happen_twice(
    known: Given, key: str, at: int
) -> None:
    """A person's word opens no bar that keeps one effect one."""
    said = settles(known, AGAIN, at=at, key=key)
    known.when(said, at=at, offer=offer(at=at, key=key)).then_rejected(Rejection.MOVE_NOT_SAFE)


@pytest.mark.law("S9")
def test_the_key_window_counts_when_it_is_decided_and_not_when_it_was_signed() -> None:
    """A word that comes late does not open what has closed meanwhile."""
    said = settles(OPEN, AGAIN, at=PAST_KEY - 1)
    OPEN.when(said, at=PAST_KEY).then_rejected(Rejection.MOVE_NOT_SAFE)


def test_who_gave_it_back_is_asked_again_where_a_person_says_so() -> None:
    """Their limit begins anew too: what was wrong with them may be mended."""
    said = settles(GIVEN_BACK, AGAIN, at=100)
    then = GIVEN_BACK.when(said, at=100, offer=offer(at=100))
    history = then.then(
        resolved(said.statement, step=100 + STEP_MS),
        started(2, at=100, first_at=100),
    )
    assert (history.action().declines, history.and_then(declined(2)).action().declines) == (0, 1)


def test_the_deadline_of_the_caller_wins() -> None:
    """No person lets an action go on beyond the time that its caller gave it."""
    limited = recorded().model_copy(update={"caller_deadline_at": T0 + OVER + 100})
    known = given(limited, ruled(FREE), started(), unresolved(), review("lookups_exhausted")).under(
        UNDER
    )
    said = settles(known, AGAIN, at=OVER)
    known.when(said, at=OVER).then(
        resolved(said.statement, step=OVER + 100),
        absent(source=SOURCE),
    )
    late = settles(known, AGAIN, at=OVER + 100)
    known.when(late, at=OVER + 100).then_rejected(Rejection.MOVE_NOT_SAFE)


# --- and the approval it needs -----------------------------------------------------------------

OF_PEOPLE = BEGUN.and_then(unresolved(), review("lookups_exhausted"))


def test_an_approval_that_still_holds_covers_the_next_attempt() -> None:
    """It is for the same key and payload, and its time is not over."""
    at = OVER + 20
    said = settles(OF_PEOPLE, AGAIN, at=at, name="ben")
    yes = approves(at=10)
    then = OF_PEOPLE.when(said, at=at, offer=offer(at=at, until=at + 10))
    then.then(
        resolved(said.statement, step=at + STEP_MS, people_until=at + PEOPLE_MS),
        absent(source=f"person:{OF_PEOPLE.action().version}"),
        start_of(yes, attempt=2, at=at, first_at=20),
    )


@pytest.mark.law("S4")
def test_an_approval_that_is_over_is_asked_anew() -> None:
    """People have to agree once more before anything is sent, and have time for it."""
    at = VALID_MS + 5
    said = settles(OF_PEOPLE, AGAIN, at=at, name="ben")
    then = OF_PEOPLE.when(said, at=at, offer=offer(at=at, until=at + 10))
    nonce = nonce_of(2, offset=OF_PEOPLE.offset, at=at)
    history = then.then(
        resolved(said.statement, step=at + STEP_MS, people_until=at + PEOPLE_MS),
        absent(source=f"person:{OF_PEOPLE.action().version}"),
        ended("expired"),
        asking(2, at=at, nonce=nonce),
    )
    assert history.action().status is Status.AWAITING_APPROVAL
    assert history.action().step_deadline_at == T0 + at + PEOPLE_MS


@pytest.mark.law("S4")
def test_what_was_never_agreed_to_is_asked_about_first() -> None:
    """A resolution is no approval."""
    waiting = given(recorded(), ruled(deadline=PEOPLE_MS), review("preview_failed")).under(under())
    said = settles(waiting, AGAIN, at=100)
    nonce = nonce_of(1, offset=waiting.offset, at=100)
    history = waiting.when(said, at=100, offer=offer(at=100)).then(
        resolved(said.statement, step=100 + STEP_MS, people_until=100 + PEOPLE_MS),
        previewed(),
        asking(at=100, nonce=nonce),
    )
    assert history.action().status is Status.AWAITING_APPROVAL
    assert history.action().step_deadline_at == T0 + 100 + PEOPLE_MS


def test_another_table_rules_first_what_has_not_begun() -> None:
    """What is tried again goes by the table in force."""
    known = given(recorded(), automatic(), review("operation_withdrawn")).under(UNDER)
    said = settles(known, AGAIN, at=100)
    known.when(said, at=100, offer=offer(at=100)).then(
        resolved(said.statement, step=100 + STEP_MS),
        ruled(FREE),
        started(at=100),
    )


# --- look again --------------------------------------------------------------------------------


def test_the_provider_is_asked_again_from_the_first_rung() -> None:
    """What was asked before does not count against the schedule, and numbers go on."""
    known = OPEN
    for number in range(1, 4):
        known = known.and_then(asked(number))
    said = settles(known, LOOK, at=OVER)
    assert known.action().lookup is not None
    history = known.when(said, at=OVER).then(resolved(said.statement))
    assert history.action().status is Status.UNKNOWN
    fresh = settles(OPEN, LOOK, at=OVER)
    history = OPEN.when(fresh, at=OVER).then(
        resolved(fresh.statement),
        lookup_due(OVER + LOOKUPS[0]),
    )
    due = OVER + LOOKUPS[0]
    history.when(tick(), at=due).then(asked(1, at=due))


def test_a_question_that_is_open_stays_the_one() -> None:
    """No second one is put beside it."""
    said = settles(ASKED_ALREADY, LOOK, at=OVER)
    history = ASKED_ALREADY.when(said, at=OVER).then(resolved(said.statement))
    assert history.action().lookup is not None


@pytest.mark.parametrize("known", [NEVER_BEGUN, RUNNING, DIFFERS])
def test_what_is_not_open_or_disputed_is_not_asked_about_again(known: Given) -> None:
    """Another answer would settle nothing."""
    said = settles(known, LOOK, at=LEASE_MS + SKEW_MS)
    known.when(said, at=LEASE_MS + SKEW_MS).then_rejected(Rejection.MOVE_NOT_SAFE)
