"""Signers: whose word counts, and about what. None of it can be carried over to anything else."""

from itertools import combinations

import pytest

from ledger.core.inputs import Judged
from ledger.core.people import People
from ledger.core.rejections import Rejection
from ledger.core.state import Status
from ledger.core.statement import Say
from tests.examples import (
    CHARGE,
    CONFIG,
    PAYOUT,
    SKEW_MS,
    T0,
    offer,
    propose,
    recorded,
    request,
    tick,
)
from tests.examples_of_people import (
    ADA,
    EVERYBODY,
    ONE,
    PEOPLE,
    PEOPLE_MS,
    TWO,
    VALID_MS,
    agreed,
    approves,
    asking,
    ended,
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
)
from tests.unit.core.language import after, given
from tests.unit.core.waiting import ASKED, READY, YES, asked


def test_nobody_decides_for_whom_it_is_asked() -> None:
    """Neither who asks, nor under another name, nor those on whose behalf it is asked."""
    behalf = recorded().model_copy(update={"behalf": ("ada", "service:shop")})
    history = given(behalf, ruled(deadline=PEOPLE_MS), previewed(), asking()).under(under())
    history.when(approves("ada")).then_rejected(Rejection.REQUESTER_DECIDES)
    history.when(approves("eve")).then_rejected(Rejection.REQUESTER_DECIDES)
    history.when(approves("ben")).then(agreed(approves("ben")))
    served = people(ADA.model_copy(update={"principals": ("service:shop",)}), *EVERYBODY[1:])
    other = behalf.model_copy(update={"behalf": ("service:shop",)})
    again = given(other, ruled(deadline=PEOPLE_MS), previewed(), asking())
    again.under(under(ONE, served)).when(approves("ada")).then_rejected(Rejection.REQUESTER_DECIDES)


@pytest.mark.case("C115")
def test_c115_a_person_does_not_approve_what_an_agent_asks_for_them() -> None:
    """C115: the chain of those who ask includes the person: four eyes are not two."""
    proposed = given().under(under()).when(propose(behalf=("ada",)))
    history = proposed.before.and_then(after(0, *proposed.decided.facts))
    approval = history.action().approval
    assert approval is not None
    own = approves("ada", nonce=approval.nonce)
    history.when(own, offer=offer()).then_rejected(Rejection.REQUESTER_DECIDES)
    other = approves("ben", nonce=approval.nonce)
    history.when(other).then(agreed(other))


@pytest.mark.parametrize("behalf", ["Ada", "ADA", "Service:Shop"])
def test_a_slip_in_a_name_lets_nobody_approve_their_own(behalf: str) -> None:
    """Beside C115: whoever made the key of an agent wrote the person's name in large letters."""
    shopping = people(ADA.model_copy(update={"principals": ("service:shop",)}), *EVERYBODY[1:])
    asked_for = recorded().model_copy(update={"behalf": (behalf,)})
    history = given(asked_for, ruled(deadline=PEOPLE_MS), previewed(), asking())
    ours = history.under(under(ONE, shopping))
    ours.when(approves("ada")).then_rejected(Rejection.REQUESTER_DECIDES)
    ours.when(approves("ben")).then(agreed(approves("ben")))


FAULTS: dict[str, tuple[dict[str, object], Rejection]] = {
    "ledger": ({"ledger": "generation-0"}, Rejection.OTHER_LEDGER),
    "action": ({"key": PAYOUT}, Rejection.OTHER_ACTION),
    "tenant": ({"tenant": "globex"}, Rejection.OTHER_TENANT),
    "environment": ({"environment": "test"}, Rejection.OTHER_ENVIRONMENT),
    "request": ({"request_hash": "sha256:00"}, Rejection.OTHER_REQUEST),
    "nonce": ({"nonce": "nonce-0"}, Rejection.NONCE_DEAD),
    "policy": ({"policy_hash": "sha256:00"}, Rejection.OTHER_POLICY),
    "row": ({"row": "other"}, Rejection.OTHER_POLICY),
    "preview": ({"preview_hash": "sha256:00"}, Rejection.OTHER_PREVIEW),
    "no preview": ({"preview_hash": None}, Rejection.OTHER_PREVIEW),
    "end": ({"expires_at": T0 + VALID_MS + 1}, Rejection.EXPIRY_BEYOND_REQUEST),
    "issue": ({"issued_at": T0 + 10 + SKEW_MS + 1}, Rejection.ISSUED_IN_FUTURE),
}
ORDER = tuple(Rejection)


def faulty(*names: str, by: str = "ada", say: Say = Say.APPROVE) -> Judged:
    """A decision with some things wrong, appended at 10."""
    fields = statement(by, say, at=10).model_dump()
    for name in names:
        fields |= FAULTS[name][0]
    said = type(statement()).model_validate(fields)
    changed = judged(said, at=10, by=by)
    return Judged(CHARGE, changed.signed, changed.appended_at, changed.ledger, said, changed.key_id)


@pytest.mark.law("S4")
@pytest.mark.parametrize("say", Say)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_decision_about_anything_else_counts_for_nothing(fault: str, say: Say) -> None:
    """One field that differs from what was asked, whatever was decided, and it is refused by its
    name.
    """
    for history, name in ((ASKED, "ada"), (READY, "ben")):
        history.when(faulty(fault, say=say, by=name), at=10).then_rejected(FAULTS[fault][1])


@pytest.mark.parametrize("pair", list(combinations(FAULTS, 2)))
def test_the_most_fundamental_fault_is_the_answer(pair: tuple[str, str]) -> None:
    """Of two things wrong the one that comes first among the refusals is named, whoever signs; only
    then is it asked who that is.
    """
    reasons = [FAULTS[name][1] for name in pair]
    first = min(reasons, key=ORDER.index)
    ASKED.when(faulty(*pair), at=10).then_rejected(first)
    for name, why in (("eve", Rejection.REQUESTER_DECIDES), ("cleo", Rejection.NOT_IN_GROUP)):
        expected = min((*reasons, why), key=ORDER.index)
        ASKED.when(faulty(*pair, by=name), at=10).then_rejected(expected)


@pytest.mark.case("C105")
def test_c105_an_approval_is_for_this_payload_and_no_other() -> None:
    """C105: other arguments, or another operation with the same, are refused and the approval is
    not used up; the same request asked for again is the same action, and runs.
    """
    changed = propose(request=request(text="changed"))
    READY.when(changed, at=30, offer=offer(at=30)).then_rejected(Rejection.CONFLICTED)
    other = given(recorded(PAYOUT), ruled(deadline=PEOPLE_MS, key=PAYOUT)).under(under())
    with_both = other.and_then(previewed(key=PAYOUT), asking(key=PAYOUT))
    carried = Judged(PAYOUT, YES.signed, T0 + 20, YES.ledger, YES.statement, YES.key_id)
    with_both.when(carried, at=20).then_rejected(Rejection.OTHER_ACTION)
    READY.when(propose(), at=30).then_unchanged("replayed")
    READY.when(tick(), at=30, offer=offer(at=30)).then(start_of(YES, at=30))


@pytest.mark.case("C113")
def test_c113_an_edited_request_is_not_covered_by_an_earlier_approval() -> None:
    """C113: an edit is another request: under the same key it is refused, and a yes to the earlier
    payload does not fit another.
    """
    edited = propose(request=request(money=request().money, text="15000 USD"))
    READY.when(edited, at=20).then_rejected(Rejection.CONFLICTED)
    stale = approves(at=10, request_hash="sha256:" + "0" * 64)
    ASKED.when(stale, at=10).then_rejected(Rejection.OTHER_REQUEST)


def test_a_signature_that_proves_nothing_is_refused_by_its_own_name() -> None:
    """Whoever looked at it says why; without a reason it is invalid."""
    for why in (None, Rejection.UNKNOWN_SIGNER, Rejection.SIGNER_REVOKED):
        unproven = Judged(CHARGE, YES.signed, T0, YES.ledger, refusal=why)
        ASKED.when(unproven).then_rejected(why or Rejection.SIGNATURE_INVALID, action=CHARGE)
    given().when(YES).then_rejected(Rejection.UNKNOWN_ACTION)


NOBODY_KNOWS = people(*EVERYBODY[1:])
OTHERWISE: dict[str, People] = {
    "the person is gone": NOBODY_KNOWS,
    "the person is revoked": people(ADA.model_copy(update={"revoked": True}), *EVERYBODY[1:]),
    "the key is revoked": people(
        ADA.model_copy(update={"keys": (registered("ada").model_copy(update={"revoked": True}),)}),
        *EVERYBODY[1:],
    ),
    "the key is over": people(
        ADA.model_copy(
            update={"keys": (registered("ada").model_copy(update={"not_after": T0 + 30}),)}
        ),
        *EVERYBODY[1:],
    ),
    "the key is another's": people(
        person("ada", "finance", keys=()), person("ann", "finance", keys=(registered("ada"),))
    ),
    "of another group": people(ADA.model_copy(update={"groups": ("sales",)}), *EVERYBODY[1:]),
    "for another tenant": people(ADA.model_copy(update={"tenants": ("globex",)}), *EVERYBODY[1:]),
    "asks for it": people(ADA.model_copy(update={"principals": ("agent:billing",)})),
}


@pytest.mark.law("S4")
@pytest.mark.parametrize("why", OTHERWISE)
def test_a_grant_ends_with_its_signer(why: str) -> None:
    """Between the grant and the start its person or key may cease to count: then nothing starts,
    and people are asked anew at once.
    """
    history = READY.under(under(ONE, OTHERWISE[why]))
    nonce = nonce_of(2, offset=history.offset, at=30)
    again = history.when(tick(), at=30, offer=offer(at=30)).then(
        ended("signer_revoked"), asking(2, at=30, nonce=nonce)
    )
    assert again.action().status is Status.AWAITING_APPROVAL
    if len(OTHERWISE[why].people) > 2:
        ben = approves("ben", at=40, nonce=nonce, until=30 + VALID_MS)
        again.when(ben, at=40).then(agreed(ben, at=40))


def test_a_key_counts_up_to_its_end() -> None:
    """The start one millisecond before the key is over is still on its word."""
    history = READY.under(under(ONE, OTHERWISE["the key is over"]))
    history.when(tick(), at=29, offer=offer(at=29)).then(start_of(YES, at=29))
    history.when(approves(at=30), at=30).then_rejected(Rejection.UNKNOWN_SIGNER)


def test_a_revoked_signer_does_not_make_up_a_quorum() -> None:
    """The first of two is revoked before the second agrees: nothing starts on their word."""
    first, second = approves(policy=TWO, at=10), approves("ben", policy=TWO, at=20)
    revoked = under(TWO, OTHERWISE["the person is revoked"])
    history = asked(TWO).and_then(after(10, granted(first))).under(revoked)
    both = history.when(second, at=20, offer=offer(at=20)).then(agreed(second, at=20))
    ends = both.when(tick(), at=20, offer=offer(at=20))
    assert [fact.type for fact in ends.decided.facts] == ["approval.ended", "approval.requested"]


def test_people_are_those_of_the_configuration_in_force() -> None:
    """A decision is held against who is registered now, not when people were asked."""
    ASKED.under(under(ONE, NOBODY_KNOWS)).when(YES, at=10).then_rejected(Rejection.UNKNOWN_SIGNER)
    assert PEOPLE.person("ada") == ADA
    assert CONFIG.people.people == ()
