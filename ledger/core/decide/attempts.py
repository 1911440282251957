"""Attempts: what a holder's word about its own start leads to.

A report counts for the attempt whose token it bears, whenever it comes. After the attempt has an
outcome it is late evidence: it is kept, and it moves nothing except where it proves what the ledger
denies, which is a person's case.
"""

from typing import Final, assert_never

from ledger.core import inputs as i
from ledger.core.decide.asking import ask, end
from ledger.core.decide.draft import Decided, Draft, replayed
from ledger.core.decide.ending import review
from ledger.core.decide.judging import (
    Effect,
    close_denied,
    raise_contradictions,
    raise_reversals,
    tell_effect,
    tell_none,
)
from ledger.core.decide.schedule import (
    after_decline,
    after_no_effect,
    find_out,
    is_disputed,
)
from ledger.core.facts import (
    ActionCompleted,
    AttemptDeclined,
    AttemptNotSent,
    AttemptRefused,
    AttemptSucceeded,
    AttemptUnresolved,
    EvidenceRecorded,
)
from ledger.core.limits import TEXT_CHARS_MAX
from ledger.core.offers import caller_holder, is_caller
from ledger.core.proof import contradicts_itself, effects_told, is_told, report_source
from ledger.core.rejections import Refused, Rejection
from ledger.core.state import OPEN, Action, Attempt, AttemptStatus, Status
from ledger.core.unchecked import writer_of

UNATTESTED: Final = "unattested:"
"""Before the code of a "no effect" that the caller says and the operation does not take for proof.
"""

_attempt_succeeded, _action_completed = writer_of(AttemptSucceeded), writer_of(ActionCompleted)


def report(draft: Draft, given: i.Report) -> Decided:
    """Record the outcome of an attempt and what follows from it."""
    named = _named(draft, given, given.holder)
    if isinstance(named, Decided):
        return named
    if is_caller(given.holder):
        return Decided(refused=Refused(code=Rejection.STALE_TOKEN, action=given.key))
    return _reported(draft, *named, given.outcome)


def report_of_caller(draft: Draft, given: i.CallerReport) -> Decided:
    """Record what a caller says of the attempt that it performed itself.

    Its word proves an effect. That there was none it proves only where the operation says so, and
    else leaves the attempt unresolved.
    """
    named = _named(draft, given, caller_holder(given.nonce))
    if isinstance(named, Decided):
        return named
    action, attempt = named
    if given.principal != action.request.principal:
        return Decided(refused=Refused(code=Rejection.STALE_TOKEN, action=action.key))
    outcome = given.outcome
    if isinstance(outcome, i.Refusal | i.NotSent):
        operation = draft.operation(action)
        if operation is None or not operation.caller_attests_no_effect:
            outcome = i.NoAnswer(code=f"{UNATTESTED}{outcome.code}"[:TEXT_CHARS_MAX])
    return _reported(draft, action, attempt, outcome)


def _reported(
    draft: Draft, action: Action, attempt: Attempt, outcome: i.ReportedOutcome
) -> Decided:
    if attempt.status not in OPEN:
        return _late(draft, action, attempt, outcome)
    key, version, number = action.key, draft.version(action.key), attempt.number
    match outcome:
        case i.Success(reference=reference, result=result):
            draft.add(
                _attempt_succeeded(
                    action=key, version=version, attempt=number, reference=reference, result=result
                )
            )
            if not is_disputed(action):
                _complete(draft, key, reference)
            if action.told is not None:
                _told_before(draft, action, reference)
        case i.PartialSuccess():
            return _partly_succeeded(draft, action, attempt, outcome)
        case i.Refusal(code=code, retry=retry, retry_after_ms=wait_ms):
            draft.add(
                AttemptRefused(action=key, version=version, attempt=number, code=code, retry=retry)
            )
            _without_effect(draft, key, code, retry, wait_ms)
        case i.NotSent(code=code, retry=retry):
            draft.add(AttemptNotSent(action=key, version=version, attempt=number, code=code))
            _without_effect(draft, key, code, retry)
        case i.NoAnswer(code=code):
            if attempt.status is AttemptStatus.UNRESOLVED:
                return replayed(action, "already_unresolved")
            draft.add(AttemptUnresolved(action=key, version=version, attempt=number, code=code))
            close_denied(draft, key)
            find_out(draft, key)
        case _:
            assert_never(outcome)
    return draft.decided()


def _told_before(draft: Draft, before: Action, reference: str) -> None:
    """Hold an effect that its holder names against what evidence had told before."""
    is_new = reference not in effects_told(before)
    told = Effect(reference, before.request.money, None, is_new)
    raise_contradictions(draft, before.key, told)
    raise_reversals(draft, before.key)


def _without_effect(
    draft: Draft, key: str, code: str, retry: i.Retry, wait_ms: int | None = None
) -> None:
    """An attempt definitely had no effect: what follows, unless one has been told."""
    action = draft.action(key)
    if is_told(action) and contradicts_itself(action):
        review(draft, key, "evidence_conflicts")
    else:
        after_no_effect(draft, key, code, retry, wait_ms)


def _partly_succeeded(
    draft: Draft, action: Action, attempt: Attempt, outcome: i.PartialSuccess
) -> Decided:
    """Neither success nor failure is true of the whole: a person gets it with its pieces, and it
    stays open until then. Nothing is tried again: that would repeat the part that exists.
    """
    key, number = action.key, attempt.number
    source = report_source(number, outcome.kind)
    if attempt.code == i.PARTLY or source in action.sources:
        return replayed(action, "already_recorded")
    if attempt.status is AttemptStatus.UNRESOLVED:
        draft.add(
            EvidenceRecorded(
                action=key,
                version=draft.version(key),
                kind=i.EvidenceKind.REPORT,
                source_id=source,
                meaning=i.Meaning.EFFECT,
                attempts_upto=number,
                reference=outcome.reference,
                code=i.PARTLY,
            )
        )
    else:
        draft.add(
            AttemptUnresolved(
                action=key,
                version=draft.version(key),
                attempt=number,
                code=i.PARTLY,
                reference=outcome.reference,
                result=outcome.result,
            )
        )
    review(draft, key, i.PARTLY)
    _told_before(draft, action, outcome.reference)
    return draft.decided()


def decline(draft: Draft, given: i.Decline) -> Decided:
    """Take a start back that its holder will not act on: no byte left."""
    named = _named(draft, given, given.holder)
    if isinstance(named, Decided):
        return named
    action, attempt = named
    if is_caller(attempt.holder):
        return Decided(refused=Refused(code=Rejection.STALE_TOKEN, action=action.key))
    if attempt.status not in OPEN:
        return replayed(action, "attempt_already_ended")
    draft.add(
        AttemptDeclined(
            action=action.key,
            version=draft.version(action.key),
            attempt=attempt.number,
            code=given.code,
        )
    )
    operation = draft.operation(action)
    after = draft.action(action.key)
    may_ask_anew = after.status is Status.READY and after.asks is not None
    may_ask_anew = may_ask_anew and after.revised_by is None
    if given.changes and operation is not None and may_ask_anew:
        end(draft, action.key, "volatile_changed", given.changes)
        ask(draft, action.key, operation)
        return draft.decided()
    after_decline(draft, action.key)
    return draft.decided()


def _named(
    draft: Draft, given: i.Report | i.CallerReport | i.Decline, holder: str
) -> tuple[Action, Attempt] | Decided:
    """The attempt that an input speaks of, or the refusal of one that may not speak of it."""
    action = draft.stream.action(given.key)
    if action is None:
        return Decided(refused=Refused(code=Rejection.UNKNOWN_ACTION))
    if not 0 < given.attempt <= len(action.attempts):
        return Decided(refused=Refused(code=Rejection.UNKNOWN_ATTEMPT, action=action.key))
    attempt = action.attempts[given.attempt - 1]
    if (attempt.fencing_token, attempt.holder) != (given.fencing_token, holder):
        return Decided(refused=Refused(code=Rejection.STALE_TOKEN, action=action.key))
    return action, attempt


def _complete(draft: Draft, key: str, reference: str) -> None:
    draft.add(
        _action_completed(
            action=key, version=draft.version(key), proof="report", reference=reference
        )
    )


def _late(draft: Draft, action: Action, attempt: Attempt, outcome: i.ReportedOutcome) -> Decided:
    """A report about an attempt that has its outcome: the same again changes nothing, another is
    kept as evidence.
    """
    source = report_source(attempt.number, outcome.kind)
    said_before = outcome.kind == attempt.status
    if isinstance(outcome, i.Success):
        said_before = said_before and outcome.reference == action.reference
    if said_before or source in action.sources:
        return replayed(action, "already_recorded")
    match outcome:
        case i.Success() | i.PartialSuccess():
            meaning, code = i.Meaning.EFFECT, None
            reference: str | None = outcome.reference
        case i.Refusal() | i.NotSent():
            meaning, reference, code = i.Meaning.NO_EFFECT, None, outcome.code
        case i.NoAnswer():
            return replayed(action, "attempt_already_ended")
        case _:
            assert_never(outcome)
    is_none = meaning is i.Meaning.NO_EFFECT
    retry = outcome.retry if isinstance(outcome, i.Refusal | i.NotSent) else None
    draft.add(
        EvidenceRecorded(
            action=action.key,
            version=draft.version(action.key),
            kind=i.EvidenceKind.REPORT,
            source_id=source,
            meaning=meaning,
            attempts_upto=attempt.number,
            reference=reference,
            code=code,
            denies=(attempt.number,) if is_none else None,
            for_good=True if retry is i.Retry.NEVER else None,
        )
    )
    if is_none:
        tell_none(draft, action.key, (attempt.number,), None, code or "no_effect")
        return draft.decided()
    is_new = reference not in effects_told(action)
    tell_effect(draft, action.key, Effect(reference, action.request.money, None, is_new))
    if isinstance(outcome, i.PartialSuccess):
        review(draft, action.key, i.PARTLY)
    return draft.decided()
