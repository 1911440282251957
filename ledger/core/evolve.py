"""Fold facts into state: `evolve(stream, fact, at) -> stream`, pure, total over the table, never
wrong in silence.

Called by every reader with facts of accepted decisions only. An illegal transition or a version out
of turn is a broken invariant. It reads no clock: the time of a fact is its decision's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from ledger.core import facts as f
from ledger.core.evolve_claims import claimed
from ledger.core.evolve_evidence import (
    told_of_name,
    told_of_part,
    told_of_refusal,
    with_evidence,
)
from ledger.core.evolve_people import moved_on, opened, question, resolved, ruled
from ledger.core.invariants import BrokenInvariantError, invariant
from ledger.core.order import check_order, revised
from ledger.core.state import (
    OPEN,
    Action,
    Attempt,
    AttemptStatus,
    Blocked,
    Dry,
    Lookup,
    SagaRole,
    Status,
    Stream,
    Timer,
)
from ledger.core.transitions import ACCEPTED
from ledger.core.unchecked import maker_of

_TELLING: Final = frozenset(
    {
        f.AttemptDeclined,
        f.AttemptSucceeded,
        f.AttemptRefused,
        f.AttemptNotSent,
        f.AttemptUnresolved,
        f.AttemptAbsent,
        f.EvidenceRecorded,
    }
)
"""What tells a person who looks at a case something that they had not seen."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when the decision that holds a fact stands: its ledger offset and its log time."""

    offset: int
    decided_at: int


def evolve(stream: Stream, fact: f.AnyFact, place: Place) -> Stream:
    """The stream after one fact. Raises BrokenInvariantError where the table or the versions forbid
    it.
    """
    if type(fact) is f.IntentRecorded:
        invariant(stream.action(fact.action) is None, "an action is recorded twice")
        invariant(fact.version == 1, "an action begins with version 1")
        earlier = stream.actions if fact.revises is None else revised(stream, fact)
        return Stream(stream.key, (*earlier, _recorded(fact, place)))
    position = _position(stream.actions, fact)
    action = stream.actions[position]
    _check(stream, action, fact)
    after = _action_with(action, _changes_of(action, fact, place))
    return Stream(stream.key, (*stream.actions[:position], after, *stream.actions[position + 1 :]))


def evolve_all(stream: Stream, facts: Sequence[f.AnyFact], place: Place) -> Stream:
    """The stream after all facts of one decision: as `evolve` of one after the other. What is made
    here nobody has seen yet, so the second fact about an action fills it on instead of copying it.
    """
    if len(facts) == 1:
        return evolve(stream, facts[0], place)
    made: set[str] = set()
    for fact in facts:
        if fact.action in made:
            action = stream.actions[_position(stream.actions, fact)]
            _check(stream, action, fact)
            _fill_action(action, _changes_of(action, fact, place))
        else:
            stream = evolve(stream, fact, place)
            made.add(fact.action)
    return stream


def _position(actions: Sequence[Action], fact: f.AnyFact) -> int:
    for position, action in enumerate(actions):
        if action.key == fact.action:
            return position
    raise BrokenInvariantError("a fact names an action that was never recorded")


def _check(stream: Stream, action: Action, fact: f.AnyFact) -> None:
    """Whether a fact may follow. Raises BrokenInvariantError."""
    invariant(fact.version == action.version + 1, "an action's versions have no gap")
    if (action.status, fact.type) not in ACCEPTED:
        raise BrokenInvariantError(f"{fact.type} cannot follow the status {action.status}")
    if type(fact) is f.AttemptStarted:
        check_order(stream, action)


def _recorded(fact: f.IntentRecorded, place: Place) -> Action:
    return _action_of(
        key=fact.action,
        version=1,
        status=Status.PROPOSED,
        request=fact.request,
        request_hash=fact.request_hash,
        provider=fact.provider,
        account=fact.account,
        reliability=fact.reliability,
        intent_offset=place.offset,
        recorded_at=place.decided_at,
        updated_at=place.decided_at,
        step_deadline_at=fact.step_deadline_at,
        caller_deadline_at=fact.caller_deadline_at,
        performer=fact.performer,
        behalf=fact.behalf,
        run=fact.run,
        occurrence=fact.occurrence,
        batch=fact.batch,
        revises=fact.revises,
        compensates=fact.compensates,
        saga=None if fact.saga is None else _role(fact.saga),
    )


def _role(place: f.SagaPlace) -> SagaRole:
    return SagaRole(place.saga, place.step, place.steps, place.role, place.reads is True)


_Changes = Mapping[str, object]
_action_of, _action_with, _fill_action = maker_of(Action)
_attempt_of, _attempt_with, _ = maker_of(Attempt)


def _changes_of(action: Action, fact: f.AnyFact, place: Place) -> _Changes:
    """The fields that a fact changes."""
    changes = _changes(action, fact, place.decided_at)
    changes["version"] = fact.version
    changes["updated_at"] = place.decided_at
    if action.case is not None and type(fact) in _TELLING:
        changes["case"] = replace(action.case, moved_version=fact.version)
    return changes


def _changes(action: Action, fact: f.AnyFact, now: int) -> dict[str, object]:
    """The fields that a fact changes beyond version and time. First come the facts of every action:
    to find that a fact is of no given class is not free.
    """
    match fact:
        case f.PolicyDecided():
            return ruled(action, fact)
        case f.AttemptStarted():
            return _started(action, fact, now)
        case f.AttemptSucceeded():
            return _succeeded(action, fact, now)
        case f.ActionCompleted():
            return _completed(action, fact, now)
        case f.AttemptDeclined():
            return _ended(action, fact.attempt, AttemptStatus.DECLINED, fact.code, now)
        case f.AttemptRefused():
            ended = _ended(action, fact.attempt, AttemptStatus.REFUSED, fact.code, now)
            return ended | {"told": told_of_refusal(action, fact)}
        case f.AttemptNotSent():
            return _ended(action, fact.attempt, AttemptStatus.NOT_SENT, fact.code, now)
        case f.AttemptUnresolved():
            ended = _ended(action, fact.attempt, AttemptStatus.UNRESOLVED, fact.code, now)
            return ended | {"told": told_of_part(action, fact)}
        case f.AttemptAbsent():
            return _ended(action, fact.attempt, AttemptStatus.ABSENT, "absent", now)
        case f.PreviewStarted():
            dry = Dry(fact.preview, _previews_failed(action), answer_by=fact.answer_by)
            return {"timer": None, "dry": dry}
        case f.PreviewFailed():
            return {"dry": Dry(fact.preview, _previews_failed(action), code=fact.code)}
        case f.PreviewRecorded():
            dry = Dry(fact.preview, content=fact.content, content_hash=fact.preview_hash)
            return {"timer": None, "dry": dry}
        case f.ApprovalRequested():
            return {"approval": question(fact, now)}
        case (
            f.ApprovalEscalated() | f.ApprovalGranted() | f.ApprovalWithdrawn() | f.ApprovalEnded()
        ):
            return moved_on(action, fact, now)
        case f.ActionBlocked():
            return _blocked(fact)
        case f.GateAsked() | f.GateAnswered() | f.GateKept() | f.GateClosing() | f.GateClosed():
            return claimed(action, fact, now)
        case f.ActionDenied():
            return _closed(action, Status.DENIED, fact.by)
        case f.TimerSet():
            return {"timer": Timer(fact.purpose, fact.due_at)}
        case f.LookupStarted():
            asked = Lookup(fact.lookup, fact.attempts_upto, now, fact.answer_by)
            asking = {"lookup": asked, "question": asked, "lookups_asked": fact.lookup}
            return {"timer": None} | asking
        case f.EvidenceRecorded():
            return with_evidence(action, fact)
        case f.ActionFailed():
            return _closed(action, Status.FAILED, fact.code)
        case f.ActionCancelled():
            return _closed(action, Status.CANCELLED, fact.reason)
        case f.ActionExpired():
            return _closed(action, Status.EXPIRED, None)
        case f.ActionSuperseded():
            return _closed(action, Status.SUPERSEDED, fact.by) | {"case": None}
        case f.ReviewOpened():
            return opened(action, fact, now)
        case f.ReviewResolved():
            return resolved(action, fact)
        case f.IntentRecorded():
            invariant(condition=False, why="an intent begins an action")
            return {}
        case _:
            assert_never(fact)


def _blocked(fact: f.ActionBlocked) -> dict[str, object]:
    blocked, until = Blocked(fact.reason, fact.by, fact.version), fact.wait_until
    return {"status": Status.BLOCKED, "blocked": blocked, "wait_until": until, "timer": None}


def _previews_failed(action: Action) -> int:
    """How many previews in a row came to nothing, the one that is being asked for with them."""
    dry = action.dry
    return 0 if dry is None else dry.failed + (dry.answer_by is not None)


def _started(action: Action, fact: f.AttemptStarted, now: int) -> dict[str, object]:
    last_token = action.attempts[-1].fencing_token if action.attempts else 0
    invariant(fact.attempt == len(action.attempts) + 1, "attempts are numbered without a gap")
    invariant(fact.fencing_token > last_token, "fencing tokens only grow")
    invariant(action.running is None, "two attempts at a time")
    invariant(not action.awaits_gates, "a start holds every gate that it asked")
    started = _attempt_of(
        number=fact.attempt,
        fencing_token=fact.fencing_token,
        holder=fact.holder,
        provider_key=fact.provider_key,
        started_at=now,
        lease_until=fact.lease_until,
    )
    return {
        "status": Status.ATTEMPTING,
        "timer": None,
        "attempts": (*action.attempts, started),
    }


def _ended(
    action: Action, number: int, outcome: AttemptStatus, code: str | None, now: int
) -> dict[str, object]:
    """The attempt with its outcome; the status follows from whether anything is still open."""
    position = number - 1
    invariant(0 <= position < len(action.attempts), "an outcome names an attempt that is not there")
    attempt = action.attempts[position]
    invariant(attempt.status in OPEN, "an attempt has one outcome")
    ended = _attempt_with(attempt, {"status": outcome, "code": code, "ended_at": now})
    attempts = (*action.attempts[:position], ended, *action.attempts[position + 1 :])
    is_open = any(one.status in OPEN for one in attempts)
    # A question about attempts that are all settled is nobody's question any more.
    lookup = action.lookup if is_open else None
    changes: dict[str, object] = {"attempts": attempts, "lookup": lookup}
    if action.status is Status.NEEDS_REVIEW:
        return changes
    if attempts[-1].status is AttemptStatus.RUNNING:
        return {**changes, "status": Status.ATTEMPTING}
    return {**changes, "status": Status.UNKNOWN if is_open else Status.READY}


def _succeeded(action: Action, fact: f.AttemptSucceeded, now: int) -> dict[str, object]:
    """Completion is a fact of its own; until it comes the action stays what it was."""
    ended = _ended(action, fact.attempt, AttemptStatus.SUCCEEDED, None, now)
    kept = {"status": action.status, "reference": fact.reference, "result": fact.result}
    return ended | kept | {"told": told_of_name(action, fact)}


def _completed(action: Action, fact: f.ActionCompleted, now: int) -> dict[str, object]:
    """A proven effect closes every open attempt: all bear one key, and only one of them is open
    otherwise.
    """
    attempts = tuple(
        _attempt_with(attempt, {"status": AttemptStatus.SETTLED, "ended_at": now})
        if attempt.status in OPEN
        else attempt
        for attempt in action.attempts
    )
    return {
        "status": Status.COMPLETED,
        "attempts": attempts,
        "timer": None,
        "lookup": None,
        "reference": fact.reference,
        "proof": fact.proof,
        "told": told_of_name(action, fact),
        # Proof settles what only waited for it. What contradicts it opens another case.
        "case": None,
    }


def _closed(action: Action, status: Status, code: str | None) -> dict[str, object]:
    """A final status without an effect: nothing may be open."""
    invariant(not action.is_open, f"{status} while an attempt is open")
    return {"status": status, "timer": None, "code": code}
