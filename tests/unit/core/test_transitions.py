"""The table: every (status, fact) pair is declared, folds where it is accepted, and is a broken
invariant where it is not.
"""

from dataclasses import replace

import pytest

from ledger.core.evolve import Place, evolve
from ledger.core.facts import FACT_TYPES, AnyFact
from ledger.core.gates import Claim, ClaimStatus
from ledger.core.inputs import Meaning
from ledger.core.invariants import BrokenInvariantError
from ledger.core.state import (
    FINAL,
    OPEN,
    Action,
    Approval,
    Attempt,
    AttemptStatus,
    Case,
    Grant,
    Status,
    Stream,
)
from ledger.core.statement import Move
from ledger.core.transitions import ACCEPTED, TABLE
from tests.examples import (
    CHARGE,
    LEASE_MS,
    STREAM,
    T0,
    absent,
    asked,
    automatic,
    cancelled,
    completed,
    declined,
    expired,
    failed,
    found_out,
    kept,
    recorded,
    refused,
    retry_due,
    review,
    started,
    succeeded,
    unresolved,
    unsent,
)
from tests.examples_of_gates import (
    DEMAND,
    RUN_GATE,
    answered,
    asks_gate,
    blocked,
    gives_back,
    is_taken_back,
    keeps,
    superseded,
)
from tests.examples_of_people import (
    approves,
    asked_provider,
    asking,
    denied,
    ended,
    escalated,
    granted,
    preview_failed,
    previewed,
    resolution,
    resolved,
    withdrawn,
    withdraws,
)
from tests.unit.core.language import Given, given

PLACE = Place(offset=9, decided_at=T0 + 9)
OUTCOMES = frozenset(
    {
        "attempt.declined",
        "attempt.succeeded",
        "attempt.refused",
        "attempt.not_sent",
        "attempt.unresolved",
        "attempt.absent",
    }
)
EXAMPLES: dict[str, AnyFact] = {
    fact.type: fact
    for fact in (
        recorded(),
        automatic(),
        asked_provider(),
        preview_failed(),
        previewed(),
        asking(),
        escalated("managers"),
        granted(approves()),
        withdrawn(withdraws("ben")),
        ended("expired"),
        denied(),
        started(2),
        declined(),
        succeeded(),
        refused(),
        unsent(),
        unresolved(),
        absent(),
        retry_due(50),
        asked(),
        kept(found_out(Meaning.PENDING)),
        completed(),
        failed(),
        cancelled(),
        expired(),
        review("lookups_exhausted"),
        resolved(resolution(Move.EFFECT_EXISTS, case=1)),
        blocked(),
        asks_gate(sends=2),
        answered(),
        keeps(),
        gives_back(),
        is_taken_back(),
        superseded(),
    )
}
AFTER_FINAL = {
    *("evidence.recorded", "review.opened", "review.resolved"),
    *("gate.asked", "gate.answered", "gate.kept", "gate.closing", "gate.closed"),
}
CLAIMED = {
    "gate.asked": ClaimStatus.ASKED,
    "gate.answered": ClaimStatus.ASKED,
    "gate.kept": ClaimStatus.GRANTED,
    "gate.closing": ClaimStatus.GRANTED,
    "gate.closed": ClaimStatus.CLOSING,
}
"""What the action holds of the gate before each of its facts."""


def _approval(*, quorum: int) -> Approval:
    """What is asked, with one person's yes."""
    yes = granted(approves("ben"))
    grant = Grant(yes.person, yes.key_id, T0, yes.expires_at, yes.signed)
    return Approval(
        1, "nonce-1", T0, T0 + 9, "sha256:p", "row", "sha256:v", quorum, grants=(grant,)
    )


def _attempt(status: AttemptStatus) -> Attempt:
    return Attempt(1, 1, "executor-1", CHARGE, T0, T0 + LEASE_MS, status)


def in_status(status: Status, *, outcome: AttemptStatus = AttemptStatus.UNRESOLVED) -> Action:
    """An action put into a status, also one that nothing leads to yet, with one attempt that fits.

    This is the only place where a state is made without facts: the table declares more statuses
    than can be reached so far.
    """
    approval = None
    match status:
        case Status.AWAITING_APPROVAL | Status.READY | Status.BLOCKED:
            attempt = _attempt(AttemptStatus.NOT_SENT)
            approval = _approval(quorum=2 if status is Status.AWAITING_APPROVAL else 1)
        case Status.ATTEMPTING:
            attempt = _attempt(AttemptStatus.RUNNING)
        case Status.UNKNOWN | Status.NEEDS_REVIEW:
            attempt = _attempt(outcome)
        case _:
            attempt = _attempt(AttemptStatus.NOT_SENT)
    before = given(recorded()).action()
    needs_person = status is Status.NEEDS_REVIEW or status in FINAL
    case = Case(1, "evidence_conflicts", T0, 1) if needs_person else None
    return replace(before, status=status, attempts=(attempt,), approval=approval, case=case)


def before_fact(status: Status, kind: str) -> tuple[Action, AnyFact]:
    """An action in a status, and the fact as it could follow there if the cell lets it."""
    before, fact = in_status(status), EXAMPLES[kind]
    if kind == "attempt.unresolved" and status is Status.NEEDS_REVIEW:
        before = in_status(status, outcome=AttemptStatus.RUNNING)
    if kind == "action.superseded" and status is Status.NEEDS_REVIEW:
        before = in_status(status, outcome=AttemptStatus.NOT_SENT)
    if kind == "review.resolved" and status is Status.BLOCKED:
        fact = resolved(resolution(Move.ALLOW, case=1, accepts="payout:v1:acme:renewal-2"))
    claimed = CLAIMED.get(kind)
    if claimed is not None:
        grant = None if claimed is ClaimStatus.ASKED else 1
        claim = Claim(RUN_GATE, 3, claimed, DEMAND, ("run",), grant=grant)
        before = replace(before, claims=(claim,))
    return before, fact


def folded(action: Action, fact: AnyFact) -> Action:
    """The action after one fact, numbered as its next."""
    next_one = fact.model_copy(update={"version": action.version + 1})
    after = evolve(Stream(STREAM, (action,)), next_one, PLACE).action(action.key)
    assert after is not None
    return after


def test_every_pair_is_declared() -> None:
    """No status and no fact is without its cell, and none is declared that does not exist."""
    assert set(TABLE) == {(status, kind) for status in Status for kind in FACT_TYPES}
    assert set(EXAMPLES) == set(FACT_TYPES)


@pytest.mark.parametrize("pair", sorted(ACCEPTED))
def test_accepted_facts_fold(pair: tuple[Status, str]) -> None:
    """Every accepted cell folds, counts one version, keeps log time, and leaves the rest alone."""
    status, kind = pair
    before, fact = before_fact(status, kind)
    after = folded(before, fact)
    assert (after.version, after.updated_at) == (before.version + 1, PLACE.decided_at)
    kept_always = ("key", "request", "request_hash", "provider", "account", "reliability")
    for name in (*kept_always, "intent_offset", "recorded_at", "step_deadline_at"):
        assert getattr(after, name) == getattr(before, name)


@pytest.mark.parametrize("pair", sorted(set(TABLE) - ACCEPTED))
def test_broken_cells_raise(pair: tuple[Status, str]) -> None:
    """An accepted record that says what cannot be stops its reader, in every such cell."""
    status, kind = pair
    with pytest.raises(BrokenInvariantError):
        folded(*before_fact(status, kind))


@pytest.mark.law("S5")
@pytest.mark.parametrize("status", sorted(FINAL))
def test_final_statuses_stay(status: Status) -> None:
    """Of everything that may follow a final status, nothing changes it."""
    followers = {kind for before, kind in ACCEPTED if before is status}
    assert followers == AFTER_FINAL
    for kind in followers:
        assert folded(*before_fact(status, kind)).status is status


@pytest.mark.parametrize("kind", sorted(OUTCOMES - {"attempt.unresolved"}))
def test_an_attempt_has_one_outcome(kind: str) -> None:
    """An ended attempt cannot end again, whatever the action's status allows."""
    for status in (Status.UNKNOWN, Status.NEEDS_REVIEW):
        for outcome in set(AttemptStatus) - OPEN:
            with pytest.raises(BrokenInvariantError):
                folded(in_status(status, outcome=outcome), EXAMPLES[kind])


def test_an_outcome_names_an_attempt_that_is_there() -> None:
    """Attempt 0 and attempt 2 of one are nobody's."""
    for number in (0, 2):
        with pytest.raises(BrokenInvariantError):
            folded(in_status(Status.UNKNOWN), refused(number))


@pytest.mark.parametrize("fact", [failed(), cancelled(), expired()])
def test_nothing_ends_without_effect_while_an_attempt_is_open(fact: AnyFact) -> None:
    """Failed, cancelled and expired say that nothing happened: never while something may have."""
    ready = replace(in_status(Status.READY), attempts=(_attempt(AttemptStatus.UNRESOLVED),))
    with pytest.raises(BrokenInvariantError):
        folded(ready, fact)


def test_versions_have_no_gap_and_no_repeat() -> None:
    """A fact is the next one of its action or it is broken."""
    stream = given(recorded()).stream
    for version in (0, 1, 3):
        with pytest.raises(BrokenInvariantError):
            evolve(stream, automatic().model_copy(update={"version": version}), PLACE)


def test_an_action_begins_once_and_with_version_one() -> None:
    """A second intent under a key, or a beginning in the middle, is broken."""
    first = recorded().model_copy(update={"version": 1})
    with pytest.raises(BrokenInvariantError):
        evolve(given(recorded()).stream, first, PLACE)
    with pytest.raises(BrokenInvariantError):
        evolve(Stream(STREAM), recorded().model_copy(update={"version": 2}), PLACE)


def test_a_fact_names_an_action_that_was_recorded() -> None:
    """Facts of nothing are broken."""
    with pytest.raises(BrokenInvariantError):
        evolve(Stream(STREAM), automatic().model_copy(update={"version": 1}), PLACE)


@pytest.mark.law("S17")
@pytest.mark.parametrize(("attempt", "token"), [(1, 2), (3, 2), (2, 1), (2, 0)])
def test_attempts_are_numbered_and_tokens_grow(attempt: int, token: int) -> None:
    """Neither number nor token may repeat, fall behind or skip."""
    history = given(recorded(), automatic(), started(), refused())
    start = started(attempt).model_copy(update={"fencing_token": token})
    with pytest.raises(BrokenInvariantError):
        history.and_then(start)
    history.and_then(started(2).model_copy(update={"fencing_token": 7}))


def test_two_attempts_never_run_at_once() -> None:
    """The table says so by status; the fold says so by what is running."""
    running = replace(in_status(Status.UNKNOWN), attempts=(_attempt(AttemptStatus.RUNNING),))
    with pytest.raises(BrokenInvariantError):
        folded(running, started(2))


def test_folding_leaves_other_actions_alone() -> None:
    """A fact changes the one action it names."""
    other = f"{CHARGE}#fee"
    history: Given = given(
        recorded(), recorded().model_copy(update={"action": other}), automatic(other)
    )
    first, second = history.stream.actions
    assert (first.status, second.status) == (Status.PROPOSED, Status.READY)
    assert [action.key for action in history.stream.actions] == [CHARGE, other]


def test_sources_are_remembered_up_to_their_limit() -> None:
    """Evidence counts once for as many sources as an action remembers; the oldest go first."""
    history = given(recorded(), automatic())
    for number in range(300):
        said = found_out(Meaning.PENDING, lookup=None, source=f"webhook:{number}")
        history = history.and_then(kept(said, attempts_upto=0))
    sources = history.action().sources
    assert len(sources) == 256
    assert (sources[0], sources[-1]) == ("webhook:44", "webhook:299")
