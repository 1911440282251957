"""The review desk: to what a resolution is bound, whose word it is, and what evidence still does
before and after it.
"""

from typing import Any

import pytest

from ledger.core import inputs as i
from ledger.core.inputs import Meaning
from ledger.core.limits import RESOLUTION_VALID_MS_MAX
from ledger.core.policy import Policy
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.core.statement import Move, Resolution
from tests.examples import (
    CHARGE,
    EUR_499,
    PAYOUT,
    REFERENCE,
    SKEW_MS,
    T0,
    asked,
    completed,
    found_out,
    kept,
    offer,
    recorded,
    refusal,
    report,
    review,
    started,
    success,
    unresolved,
)
from tests.examples_of_evidence import kept_report
from tests.examples_of_people import (
    ADA,
    FREE,
    approves,
    judged,
    people,
    resolution,
    resolved,
    ruled,
    under,
)
from tests.unit.core.desk import (
    DIFFERS,
    NEVER_BEGUN,
    OPEN,
    OVER,
    UNDER,
    settles,
    unknown,
)
from tests.unit.core.language import Given, Story, after, given

EXISTS, NOTHING, AGAIN = Move.EFFECT_EXISTS, Move.NO_EFFECT, Move.TRY_AGAIN
CASE = 5


def said(move: Move = EXISTS, *, at: int = OVER, **changes: Any) -> i.Judged:  # noqa: ANN401
    """What ada signs about the open charge, with something changed."""
    return judged(resolution(move, case=CASE, at=at).model_copy(update=changes))


def after_resolution(move: Move, known: Given = OPEN) -> Given:
    """The action once a person has settled its case."""
    story = Story(known.config)
    story.known = known
    story.hears(settles(known, move, at=OVER), at=OVER)
    assert story.action().case is None
    return story.known


# --- to what it is bound -----------------------------------------------------------------------


@pytest.mark.law("S4")
@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ledger": "generation-0"}, Rejection.OTHER_LEDGER),
        ({"key": PAYOUT}, Rejection.OTHER_ACTION),
        ({"tenant": "globex"}, Rejection.OTHER_TENANT),
        ({"environment": "test"}, Rejection.OTHER_ENVIRONMENT),
        ({"request_hash": "sha256:00"}, Rejection.OTHER_REQUEST),
        ({"case": CASE - 1}, Rejection.CASE_MOVED),
        ({"case": CASE + 1}, Rejection.CASE_MOVED),
        ({"moved": CASE - 1}, Rejection.CASE_MOVED),
        ({"moved": CASE + 1}, Rejection.CASE_MOVED),
    ],
)
def test_a_resolution_settles_no_other_case(changes: dict[str, Any], code: Rejection) -> None:
    """Whatever is signed for something else counts for nothing here."""
    given_input = said(**changes)
    moved_here = i.Judged(
        CHARGE,
        given_input.signed,
        given_input.appended_at,
        given_input.ledger,
        given_input.statement,
        given_input.key_id,
    )
    OPEN.when(moved_here, at=OVER).then_rejected(code, action=CHARGE)


@pytest.mark.parametrize(
    "news",
    [
        pytest.param(kept(found_out(Meaning.PENDING, lookup=None)), id="a-webhook"),
        pytest.param(kept(found_out(Meaning.INCONCLUSIVE, lookup=None)), id="that-proves-nothing"),
        pytest.param(review("evidence_conflicts"), id="another-reason"),
    ],
)
@pytest.mark.parametrize("move", Move)
def test_evidence_between_looking_and_signing_makes_it_another_case(
    news: Any,  # noqa: ANN401 - one of several facts
    move: Move,
) -> None:
    """Nobody settles what they have not seen; who looks again can."""
    signed_before = settles(OPEN, move, at=OVER)
    known = OPEN.and_then(after(OVER + 1, news))
    known.when(signed_before, at=OVER + 2).then_rejected(Rejection.CASE_MOVED, action=CHARGE)
    if move is EXISTS:
        again = settles(known, move, at=OVER + 3)
        known.when(again, at=OVER + 3).then(
            resolved(again.statement), completed("person", reference="ch_person")
        )


def test_the_outcome_of_an_attempt_moves_the_case_too() -> None:
    """A lease that lapses, or a late report, is news."""
    known = unknown().and_then(review("amount_differs"))
    before = known.action().case
    late = known.when(report(refusal()), at=9_000)
    left = known.and_then(after(9_000, *late.decided.facts))
    moved = left.action().case
    assert before is not None
    assert moved is not None
    assert (before.moved_version, moved.moved_version) == (5, 6)
    assert moved.opened_version == before.opened_version


def test_a_further_reason_belongs_to_the_case_that_is_open() -> None:
    """It keeps its number and its time; what is asked is the newest reason."""
    known = OPEN.and_then(after(9_900, review("evidence_conflicts")))
    case = known.action().case
    assert case is not None
    assert (case.opened_version, case.moved_version) == (CASE, CASE + 1)
    assert (case.reason, case.opened_at) == ("evidence_conflicts", T0 + 9_000)


@pytest.mark.law("S5")
def test_proof_settles_a_case_by_itself() -> None:
    """Where the provider says that it is there nobody has to be asked, and nobody settles it."""
    signed_before = settles(OPEN, NOTHING, at=OVER)
    proven = OPEN.when(found_out(Meaning.EFFECT, lookup=None), at=OVER + 1).then(
        kept(found_out(Meaning.EFFECT, lookup=None)), completed("webhook")
    )
    assert proven.action().case is None
    proven.when(signed_before, at=OVER + 2).then_rejected(Rejection.NO_CASE, action=CHARGE)


def test_nothing_is_settled_that_is_no_case() -> None:
    """What goes on by itself is nobody's to end."""
    unknown().when(said(), at=OVER).then_rejected(Rejection.NO_CASE, action=CHARGE)


def test_an_approval_settles_nothing_and_a_resolution_approves_nothing() -> None:
    """Each answers what it was signed for."""
    OPEN.when(approves(), at=OVER).then_rejected(Rejection.NOTHING_ASKED)


# --- replays -----------------------------------------------------------------------------------


@pytest.mark.parametrize("move", [EXISTS, NOTHING, AGAIN, Move.LOOK_AGAIN])
def test_a_double_click_is_one_resolution(move: Move) -> None:
    """The same again is answered by the action as it stands."""
    settled = after_resolution(move)
    twice = settles(OPEN, move, at=OVER)
    settled.when(twice, at=OVER + 1, offer=offer(at=OVER + 1)).then_unchanged("resolved_already")


def test_what_was_tried_again_cannot_be_tried_again_by_a_copy() -> None:
    """The next case is another one: an old word does not reach it."""
    first = settles(OPEN, AGAIN, at=OVER)
    open_again = after_resolution(AGAIN).and_then(
        after(OVER, started(2, at=OVER, first_at=0), unresolved(2), review("lookups_exhausted"))
    )
    assert open_again.action().case is not None
    open_again.when(first, at=OVER + 9, offer=offer(at=OVER)).then_unchanged("resolved_already")
    other = judged(resolution(AGAIN, "ben", case=CASE, at=OVER))
    open_again.when(other, at=OVER + 9).then_rejected(Rejection.CASE_MOVED)


def test_two_people_who_disagree_do_not_both_count() -> None:
    """The first one settles it; the other finds no case any more."""
    settled = after_resolution(NOTHING)
    by_ben = judged(resolution(EXISTS, "ben", case=CASE, at=OVER))
    settled.when(by_ben, at=OVER + 1).then_rejected(Rejection.NO_CASE, action=CHARGE)


# --- whose word, and until when ----------------------------------------------------------------


@pytest.mark.law("S4")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("eve", Rejection.REQUESTER_DECIDES),
        ("dan", Rejection.NOT_FOR_TENANT),
        ("zoe", Rejection.UNKNOWN_SIGNER),
    ],
)
def test_who_may_not_decide_settles_nothing(name: str, code: Rejection) -> None:
    """Neither who asked for it, nor who is for another tenant, nor a stranger."""
    OPEN.when(judged(resolution(EXISTS, name, case=CASE, at=OVER)), at=OVER).then_rejected(code)


def test_for_whom_it_is_asked_settles_nothing() -> None:
    """They are on the side of who asks."""
    asked_for_ada = recorded().model_copy(update={"behalf": ("ada",)})
    known = given(asked_for_ada, ruled(FREE), review("operation_withdrawn")).under(UNDER)
    word = settles(known, NOTHING, at=10)
    known.when(word, at=10).then_rejected(Rejection.REQUESTER_DECIDES)
    by_ben = settles(known, NOTHING, at=10, name="ben")
    assert known.when(by_ben, at=10).decided.refused is None


def test_a_signature_that_proves_nothing_settles_nothing() -> None:
    """The refusal of who looked at it is the answer."""
    forged = i.Judged(CHARGE, said().signed, T0 + OVER, "generation-1", None, "")
    OPEN.when(forged, at=OVER).then_rejected(Rejection.SIGNATURE_INVALID, action=CHARGE)


@pytest.mark.parametrize(("name", "counts"), [("ada", True), ("cleo", False)])
def test_the_table_may_say_who_settles(name: str, counts: object) -> None:
    """Without a word of it anybody who is registered for the tenant may."""
    of_finance = Policy(FREE.rows, FREE.content_hash, ("finance",))
    given_input = judged(resolution(EXISTS, name, case=CASE, at=OVER))
    assert OPEN.when(given_input, at=OVER).decided.refused is None
    then = OPEN.under(under(of_finance)).when(given_input, at=OVER)
    if counts:
        assert then.decided.refused is None
    else:
        then.then_rejected(Rejection.NOT_IN_GROUP)


@pytest.mark.parametrize(
    ("issued", "until", "at", "code"),
    [
        (OVER, OVER + 100, OVER + 100, Rejection.APPROVAL_EXPIRED),
        (OVER, OVER + RESOLUTION_VALID_MS_MAX + 1, OVER, Rejection.EXPIRY_BEYOND_REQUEST),
        (OVER + SKEW_MS + 1, OVER + 9_000, OVER, Rejection.ISSUED_IN_FUTURE),
        (OVER + SKEW_MS, OVER + 9_000, OVER, None),
        (OVER, OVER + 100, OVER + 99, None),
    ],
)
def test_a_resolution_counts_from_when_it_was_issued_for_ten_minutes_at_the_most(
    issued: int, until: int, at: int, code: Rejection | None
) -> None:
    """By the time of its own append."""
    word = resolution(EXISTS, case=CASE, at=issued, until=until)
    then = OPEN.when(judged(word, at=at), at=at + 5)
    if code is None:
        then.then(resolved(word), completed("person", reference="ch_person"))
    else:
        then.then_rejected(code, action=CHARGE)


def test_whose_key_was_revoked_settles_nothing() -> None:
    """By the people in force when it is decided."""
    revoked = people(ADA.model_copy(update={"revoked": True}))
    OPEN.under(under(FREE, revoked)).when(said(), at=OVER).then_rejected(Rejection.UNKNOWN_SIGNER)


# --- evidence after a resolution ---------------------------------------------------------------


@pytest.mark.law("S5")
def test_another_effect_than_the_one_that_a_person_found_is_an_alarm() -> None:
    """Two names at the provider may be two effects: somebody has to look, and nothing is undone."""
    done = after_resolution(EXISTS)
    webhook = found_out(Meaning.EFFECT, lookup=None, reference="ch_9")
    left = done.when(webhook, at=OVER + 5).then(kept(webhook), review("second_effect"))
    assert left.action().status is Status.COMPLETED
    assert left.action().reference == "ch_person"
    assert left.action().case is not None
    by_report = done.when(report(success("ch_9")), at=OVER + 5)
    by_report.then(
        kept_report("succeeded", Meaning.EFFECT, reference="ch_9"), review("second_effect")
    )


def test_the_effect_that_a_person_found_is_no_alarm() -> None:
    """The provider says the same as they did."""
    done = after_resolution(EXISTS)
    webhook = found_out(Meaning.EFFECT, lookup=None, reference="ch_person")
    done.when(webhook, at=OVER + 5).then(kept(webhook))
    other_money = found_out(Meaning.EFFECT, lookup=None, reference="ch_person", money=EUR_499)
    done.when(other_money, at=OVER + 5).then(kept(other_money), review("amount_differs"))


@pytest.mark.law("S12")
@pytest.mark.parametrize("known", [OPEN, DIFFERS])
def test_an_effect_after_a_persons_no_is_an_alarm_that_changes_nothing(known: Given) -> None:
    """It stays failed, because its callers have been told; and a person sees both."""
    failed_one = after_resolution(NOTHING, known)
    webhook = found_out(Meaning.EFFECT, lookup=None, source="webhook:evt_2")
    left = failed_one.when(webhook, at=OVER + 5).then(kept(webhook), review("evidence_conflicts"))
    assert left.action().status is Status.FAILED
    assert left.action().case is not None
    again = found_out(Meaning.EFFECT, lookup=None, source="webhook:evt_3")
    more = left.when(again, at=OVER + 6).then(kept(again))
    case = more.action().case
    assert case is not None
    assert case.moved_version == more.action().version
    noted = settles(more, Move.ACKNOWLEDGE, at=OVER + 7)
    done = more.when(noted, at=OVER + 7).then(resolved(noted.statement))
    assert (done.action().status, done.action().case) == (Status.FAILED, None)


def test_the_same_alarm_is_raised_again_after_it_was_noted() -> None:
    """Who took note of one effect has not seen the next one."""
    known = after_resolution(EXISTS).and_then(review("second_effect"))
    noted = after_resolution(Move.ACKNOWLEDGE, known)
    webhook = found_out(Meaning.EFFECT, lookup=None, reference="ch_10")
    noted.when(webhook, at=OVER + 5).then(kept(webhook), review("second_effect"))


def test_an_effect_after_what_never_began_was_given_up_is_an_alarm() -> None:
    """Nobody of ours sent it: that is worth a look, and cancelled stays cancelled."""
    cancelled_one = after_resolution(NOTHING, NEVER_BEGUN)
    webhook = found_out(Meaning.EFFECT, lookup=None)
    left = cancelled_one.when(webhook, at=OVER + 5).then(
        kept(webhook, attempts_upto=0), review("effect_without_attempt")
    )
    assert left.action().status is Status.CANCELLED


def test_an_effect_of_what_was_closed_stops_what_is_tried_again() -> None:
    """The second attempt may have made another one: a person has to look, and nothing follows."""
    retried = after_resolution(AGAIN).and_then(after(OVER, started(2, at=OVER, first_at=0)))
    late = retried.when(report(success()), at=OVER + 5)
    left = late.then(
        kept_report("succeeded", Meaning.EFFECT, reference=REFERENCE),
        review("evidence_conflicts"),
    )
    assert left.action().status is Status.NEEDS_REVIEW


def test_an_answer_to_the_question_before_still_counts_after_it_is_asked_anew() -> None:
    """Numbers of lookups go on, so that no answer is taken for another's."""
    waiting = OPEN.and_then(after(9_500, asked(at=9_500)))
    going_on = after_resolution(Move.LOOK_AGAIN, waiting)
    proof = found_out(Meaning.EFFECT, lookup=1)
    done = going_on.when(proof, at=OVER + 5).then(kept(proof), completed("lookup"))
    assert done.action().status is Status.COMPLETED


def test_a_resolution_is_what_it_is_on_the_wire() -> None:
    """A comment is never left out, and no move is made up."""
    fields = resolution(EXISTS, case=CASE).model_dump(mode="json")
    for wrong in ({"comment": ""}, {"move": "refund"}, {"reference": ""}, {"decision": "approve"}):
        with pytest.raises(ValueError, match="validation error"):
            Resolution.model_validate(fields | wrong)
