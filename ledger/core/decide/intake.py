"""Intake: what an agent may ask for, and when it may take it back.

The order of the guards is the order of `Rejection`. A key that is known answers before anything
else is looked at, so that a repeated proposal gets the same answer under every later catalogue.
"""

from ledger.core.catalogue import Operation
from ledger.core.decide.compensations import (
    refusal_of_amount,
    refusal_of_compensation,
    refusal_of_target,
)
from ledger.core.decide.draft import Decided, Draft, replayed
from ledger.core.decide.ending import call_off
from ledger.core.decide.gate_demands import leaves_target_out
from ledger.core.decide.replans import give_way, refusal_of_revision
from ledger.core.decide.ruling import lacks_run, rule
from ledger.core.decide.schedule import awaits_caller, start
from ledger.core.facts import IntentRecorded, SagaPlace
from ledger.core.ids import ActionKey, MalformedId
from ledger.core.inputs import Cancel, Propose
from ledger.core.limits import (
    DIFFERENCES_MAX,
    STREAM_ACTIONS_MAX,
    STREAM_ACTIONS_ORDINARY_MAX,
)
from ledger.core.rejections import Detail, Refused, Rejection
from ledger.core.request import ABSENT, differences, recorded, request_hash
from ledger.core.sagas import is_compensation
from ledger.core.state import Action, Status
from ledger.core.unchecked import writer_of
from ledger.core.unstable_keys import Unstable, instabilities, left_over, left_over_in_target

_intent_recorded = writer_of(IntentRecorded)


def propose(draft: Draft, given: Propose) -> Decided:
    """Record a new intent and, where capacity is at hand, start it in the same decision."""
    refused = refusal_of_key(given)
    if refused is not None:
        return refused
    # A hash that came along was held against the request just now.
    key, digest = ActionKey.parse(given.key), given.request_hash or request_hash(given.request)
    known = draft.stream.action(given.key)
    if known is not None:
        if known.request_hash != digest or not _is_linked_alike(known, given):
            return _conflict(known, given)
        return _offered_again(draft, known, given)
    operation = draft.config.operation(key.operation, key.version)
    refused = refusal_of_new(draft, key, given, operation)
    if refused is not None:
        return refused
    assert operation is not None  # noqa: S101 - refused above
    record(draft, given, digest, operation)
    if given.revises is not None:
        give_way(draft)
    ruling = rule(draft, key, draft.action(given.key).request, operation)
    if lacks_run(draft, ruling.gates, given.run):
        return _refuse(Rejection.RUN_MISSING)
    ruled = draft.action(given.key)
    if leaves_target_out(ruled.gates, draft.config, ruled.request, operation):
        return refused_for_target()
    if draft.offer is not None:
        start(draft, given.key, operation)
    return draft.decided()


def _offered_again(draft: Draft, known: Action, given: Propose) -> Decided:
    """The action as it stands; or its next attempt, where its caller offers again to perform it."""
    operation = draft.operation(known)
    if given.caller is not None and operation is not None and operation.performer != "executor":
        if awaits_caller(known, draft.now):
            start(draft, known.key, operation)
        if draft.facts:
            return draft.decided()
    return replayed(known, "replayed")


def refusal_of_key(given: Propose) -> Decided | None:
    """Why a key and its request do not belong together, or None."""
    try:
        key = ActionKey.parse(given.key)
    except MalformedId as malformed:
        return _refuse(Rejection.MALFORMED_KEY, detail=("key", malformed.field, str(malformed)))
    if (key.operation, key.version) != (given.request.operation, given.request.version):
        return _refuse(Rejection.KEY_MISMATCH)
    if given.request_hash is not None and given.request_hash != request_hash(given.request):
        return _refuse(Rejection.HASH_MISMATCH)
    return None


def _is_given(draft: Draft, key: ActionKey, given: Propose, part: str) -> bool:
    """Whether a part of a key is not for this proposal to choose: what changes or undoes an action
    that was recorded, also by a version that took the name, bears its business event.
    """
    named = given.revises or given.compensates
    if (
        named is None
        or part == "occurrence"
        or all(one.key != named for one in draft.stream.actions)
    ):
        return False
    return part == "business_event" or ActionKey.parse(named).action_id.item == key.action_id.item


def refusal_of_new(
    draft: Draft, key: ActionKey, given: Propose, operation: Operation | None
) -> Decided | None:
    """Why a new key may not enter, or None."""
    for unstable in instabilities(key.action_id, draft.now, given.occurrence):
        # What is given excuses itself alone, and nothing that stands beside it.
        if not _is_given(draft, key, given, unstable.part):
            detail = (f"/{unstable.part}", unstable.code, unstable.message)
            return _refuse(Rejection.UNSTABLE_KEY, detail=detail)
    missing = None if given.run is None else left_over(given.run)
    if missing is not None:
        return _refuse(Rejection.UNSTABLE_KEY, detail=("/run", Unstable.LEFT_OVER, missing))
    refused = _refusal_of_missing(draft, given)
    if refused is not None:
        return refused
    if operation is None:
        return _refuse(Rejection.UNKNOWN_OPERATION)
    for action in draft.stream.actions:
        other = ActionKey.parse(action.key)
        if (other.operation, other.action_id) == (key.operation, key.action_id):
            return _refuse(Rejection.OTHER_VERSION, action=action.key)
    refused = refusal_of_revision(draft.stream, key, given) or refusal_of_compensation(
        draft, given, operation
    )
    if refused is not None:
        return refused
    if not operation.allows(given.request.principal):
        return _refuse(Rejection.NOT_ALLOWED)
    if given.caller is not None and operation.performer == "executor":
        return _refuse(Rejection.NEEDS_EXECUTOR)
    if given.caller is None and operation.performer == "caller":
        return _refuse(Rejection.NEEDS_CALLER)
    problems = operation.check(given.request)
    if problems:
        details = tuple(
            Detail(path=problem.path, code=problem.code, message=problem.message)
            for problem in problems[:DIFFERENCES_MAX]
        )
        return Decided(refused=Refused(code=Rejection.INVALID_REQUEST, details=details))
    refused = refusal_of_target(draft, given, operation) or refusal_of_amount(draft.stream, given)
    if refused is not None:
        return refused
    is_ordinary = given.revises is None and given.compensates is None
    room = STREAM_ACTIONS_ORDINARY_MAX if is_ordinary else STREAM_ACTIONS_MAX
    return _refuse(Rejection.STREAM_FULL) if len(draft.stream.actions) >= room else None


def _refusal_of_missing(draft: Draft, given: Propose) -> Decided | None:
    """Why nobody can have meant this target, or None. What changes or undoes an action that was
    recorded has the target of that one.
    """
    target, named = given.request.target, given.revises or given.compensates
    missing = None if target is None else left_over_in_target(target)
    recorded_so = any(
        one.key == named and one.request.target == target for one in draft.stream.actions
    )
    if missing is None or recorded_so:
        return None
    return _refuse(Rejection.INVALID_REQUEST, detail=("/target", Unstable.LEFT_OVER, f"/{missing}"))


def record(
    draft: Draft,
    given: Propose,
    digest: str,
    operation: Operation,
    saga: SagaPlace | None = None,
) -> None:
    """Write down an intent that nothing refuses; what comes of it is ruled by others."""
    step_ms = operation.deadlines.step_ms
    if given.step_ms is not None:
        step_ms = min(step_ms, given.step_ms)
    draft.add(
        _intent_recorded(
            action=given.key,
            version=draft.version(given.key),
            request=recorded(given.request),
            request_hash=digest,
            provider=operation.provider,
            account=operation.account,
            reliability=operation.reliability,
            step_deadline_at=draft.now + step_ms,
            caller_deadline_at=None if given.step_ms is None else draft.now + given.step_ms,
            performer=None if given.caller is None else "caller",
            behalf=given.behalf or None,
            run=given.run,
            occurrence=given.occurrence,
            batch=given.batch,
            revises=given.revises,
            compensates=given.compensates,
            saga=saga,
        )
    )


def refused_for_target() -> Decided:
    """Nobody leaves out what is guarded or counted by."""
    said = "/target must be given: what it acts on is guarded, or its amounts are counted by it"
    return _refuse(Rejection.INVALID_REQUEST, detail=("/target", "target_missing", said))


def cancel(draft: Draft, given: Cancel) -> Decided:
    """Take back an action of which no attempt can have had an effect."""
    action = draft.stream.action(given.key)
    if action is None:
        return _refuse(Rejection.UNKNOWN_ACTION)
    if action.status is Status.CANCELLED:
        return replayed(action, "already_cancelled")
    if action.is_final:
        return _refuse(Rejection.ALREADY_FINAL, action=action.key)
    if is_compensation(action):
        return _refuse(Rejection.COMPENSATION_PLANNED, action=action.key)
    if action.is_open:
        return _refuse(Rejection.ATTEMPT_OPEN, action=action.key)
    if action.status is Status.NEEDS_REVIEW:
        return _refuse(Rejection.IN_REVIEW, action=action.key)
    call_off(draft, given.key, given.reason, principal=given.principal)
    return draft.decided()


def _refuse(
    code: Rejection, *, action: str | None = None, detail: tuple[str, str, str] | None = None
) -> Decided:
    details = () if detail is None else (Detail(path=detail[0], code=detail[1], message=detail[2]),)
    return Decided(refused=Refused(code=code, action=action, details=details))


def _is_linked_alike(known: Action, given: Propose) -> bool:
    """Whether a proposal names the same earlier actions as the one that is known."""
    return (known.revises, known.compensates) == (given.revises, given.compensates)


def _conflict(known: Action, given: Propose) -> Decided:
    """The same key for another request, or for another earlier action: which fields differ, was and
    now.
    """
    linked = (
        ("/revises", known.revises, given.revises),
        ("/compensates", known.compensates, given.compensates),
    )
    details = tuple(
        Detail(
            path=difference.path, code="differs", message=f"{difference.was} -> {difference.now}"
        )
        for difference in differences(known.request, given.request)
    )
    details += tuple(
        Detail(path=path, code="differs", message=f"{was or ABSENT} -> {now or ABSENT}")
        for path, was, now in linked
        if was != now
    )
    return Decided(refused=Refused(code=Rejection.CONFLICTED, action=known.key, details=details))
