"""Fold facts into state: `evolve(stream, fact, at) -> stream`, pure, total over the table, never
wrong in silence.

Called by every reader with facts of accepted decisions only. An illegal transition or a version out
of turn is a broken invariant. It reads no clock: the time of a fact is its decision's.
"""

from dataclasses import dataclass, replace
from typing import assert_never

from ledger.core import facts as f
from ledger.core.invariants import invariant
from ledger.core.limits import SOURCES_KEPT_MAX
from ledger.core.state import OPEN, Action, Attempt, AttemptStatus, Lookup, Status, Stream, Timer
from ledger.core.table import ACCEPTED


@dataclass(frozen=True, slots=True)
class Place:
    """Where and when the decision that holds a fact stands: its ledger offset and its log time."""

    offset: int
    decided_at: int


def evolve(stream: Stream, fact: f.AnyFact, place: Place) -> Stream:
    """The stream after one fact. Raises BrokenInvariantError where the table or the versions forbid
    it.
    """
    if isinstance(fact, f.IntentRecorded):
        invariant(stream.action(fact.action) is None, "an action is recorded twice")
        invariant(fact.version == 1, "an action begins with version 1")
        return Stream(stream.key, (*stream.actions, _recorded(fact, place)))
    for position, action in enumerate(stream.actions):
        if action.key == fact.action:
            invariant(fact.version == action.version + 1, "an action's versions have no gap")
            invariant(
                (action.status, fact.type) in ACCEPTED,
                f"{fact.type} cannot follow the status {action.status}",
            )
            after = _after(action, fact, place)
            return Stream(
                stream.key,
                (*stream.actions[:position], after, *stream.actions[position + 1 :]),
            )
    invariant(condition=False, why="a fact names an action that was never recorded")
    return stream


def _recorded(fact: f.IntentRecorded, place: Place) -> Action:
    return Action(
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
    )


def _after(action: Action, fact: f.AnyFact, place: Place) -> Action:
    """The action after a fact that the table accepts."""
    now = place.decided_at
    action = replace(action, version=fact.version, updated_at=now)
    match fact:
        case f.PolicyDecided():
            return replace(action, status=Status.READY, policy_row=fact.row)
        case f.AttemptStarted():
            return _started(action, fact, now)
        case f.AttemptDeclined():
            return _ended(action, fact.attempt, AttemptStatus.DECLINED, fact.code, now)
        case f.AttemptSucceeded():
            succeeded = _ended(action, fact.attempt, AttemptStatus.SUCCEEDED, None, now)
            return replace(succeeded, reference=fact.reference, result=fact.result)
        case f.AttemptRefused():
            return _ended(action, fact.attempt, AttemptStatus.REFUSED, fact.code, now)
        case f.AttemptNotSent():
            return _ended(action, fact.attempt, AttemptStatus.NOT_SENT, fact.code, now)
        case f.AttemptUnresolved():
            return _ended(action, fact.attempt, AttemptStatus.UNRESOLVED, fact.code, now)
        case f.AttemptAbsent():
            return _ended(action, fact.attempt, AttemptStatus.ABSENT, "absent", now)
        case f.TimerSet():
            return replace(action, timer=Timer(fact.purpose, fact.due_at))
        case f.LookupStarted():
            asked = Lookup(fact.lookup, fact.attempts_upto, now, fact.answer_by)
            return replace(action, timer=None, lookup=asked, lookups_asked=fact.lookup)
        case f.EvidenceRecorded():
            return _with_evidence(action, fact)
        case f.ActionCompleted():
            return _completed(action, fact, now)
        case f.ActionFailed():
            invariant(not action.is_open, "failed while an attempt is open")
            return replace(action, status=Status.FAILED, timer=None, code=fact.code)
        case f.ActionCancelled():
            invariant(not action.is_open, "cancelled while an attempt is open")
            return replace(action, status=Status.CANCELLED, timer=None, code=fact.reason)
        case f.ActionExpired():
            invariant(not action.is_open, "expired while an attempt is open")
            return replace(action, status=Status.EXPIRED, timer=None)
        case f.ReviewOpened():
            status = action.status if action.is_final else Status.NEEDS_REVIEW
            return replace(action, status=status, timer=None, review=fact.reason)
        case f.IntentRecorded():
            invariant(condition=False, why="an intent begins an action")
            return action
        case _:
            assert_never(fact)


def _started(action: Action, fact: f.AttemptStarted, now: int) -> Action:
    last_token = action.attempts[-1].fencing_token if action.attempts else 0
    invariant(fact.attempt == len(action.attempts) + 1, "attempts are numbered without a gap")
    invariant(fact.fencing_token > last_token, "fencing tokens only grow")
    invariant(action.running is None, "two attempts at a time")
    started = Attempt(
        number=fact.attempt,
        fencing_token=fact.fencing_token,
        holder=fact.holder,
        provider_key=fact.provider_key,
        started_at=now,
        lease_until=fact.lease_until,
    )
    return replace(
        action,
        status=Status.ATTEMPTING,
        timer=None,
        attempts=(*action.attempts, started),
    )


def _ended(
    action: Action, number: int, status: AttemptStatus, code: str | None, now: int
) -> Action:
    """The attempt with its outcome; the action's status follows from whether anything is still
    open.
    """
    position = number - 1
    invariant(0 <= position < len(action.attempts), "an outcome names an attempt that is not there")
    attempt = action.attempts[position]
    invariant(attempt.status in OPEN, "an attempt has one outcome")
    ended = replace(attempt, status=status, code=code, ended_at=now)
    attempts = (*action.attempts[:position], ended, *action.attempts[position + 1 :])
    action = replace(action, attempts=attempts)
    if action.is_final or action.status is Status.NEEDS_REVIEW:
        return action
    return replace(action, status=_status_between_attempts(action))


def _status_between_attempts(action: Action) -> Status:
    if action.running is not None:
        return Status.ATTEMPTING
    return Status.UNKNOWN if action.is_open else Status.READY


def _with_evidence(action: Action, fact: f.EvidenceRecorded) -> Action:
    sources = (*action.sources, fact.source_id)[-SOURCES_KEPT_MAX:]
    if action.lookup is None or fact.lookup != action.lookup.number:
        return replace(action, sources=sources)
    return replace(
        action, sources=sources, lookup=None, lookups_answered=action.lookups_answered + 1
    )


def _completed(action: Action, fact: f.ActionCompleted, now: int) -> Action:
    """A proven effect closes every open attempt: all bear one key, and only one of them is open
    otherwise.
    """
    attempts = tuple(
        replace(attempt, status=AttemptStatus.SETTLED, ended_at=now)
        if attempt.status in OPEN
        else attempt
        for attempt in action.attempts
    )
    return replace(
        action,
        status=Status.COMPLETED,
        attempts=attempts,
        timer=None,
        lookup=None,
        reference=fact.reference,
        proof=fact.proof,
    )
