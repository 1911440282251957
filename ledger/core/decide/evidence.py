"""Evidence: what a lookup or a webhook proves, in every status. Counted once by its source, kept
whatever it proves.

An effect completes only what is open; an absence counts only for attempts whose last possible byte,
the provider's search lag and its settle horizon all lie before the question; anything that
contradicts goes to a person with all its pieces.
"""

from typing import Final, assert_never

from ledger.core.catalogue import Operation
from ledger.core.decide.draft import Decided, Draft, replayed
from ledger.core.decide.schedule import (
    after_no_effect,
    find_out,
    is_disputed,
    review,
    try_again,
)
from ledger.core.facts import (
    ActionCompleted,
    ActionFailed,
    AttemptAbsent,
    AttemptRefused,
    EvidenceRecorded,
    Proof,
)
from ledger.core.inputs import Evidence, EvidenceKind, Meaning, Retry
from ledger.core.rejections import Refused, Rejection
from ledger.core.state import OPEN, Action, AttemptStatus, Lookup, Status

_PROOFS: Final[dict[EvidenceKind, Proof]] = {
    EvidenceKind.LOOKUP: "lookup",
    EvidenceKind.WEBHOOK: "webhook",
    EvidenceKind.SETTLEMENT: "settlement",
    EvidenceKind.LISTING: "listing",
}


def weigh(draft: Draft, given: Evidence) -> Decided:
    """Keep a piece of evidence and draw what follows from it."""
    action = draft.stream.action(given.key)
    if action is None:
        return Decided(refused=Refused(code=Rejection.UNKNOWN_ACTION))
    if (given.provider, given.account) != (action.provider, action.account):
        return Decided(refused=Refused(code=Rejection.FOREIGN_ACCOUNT, action=action.key))
    if given.source_id in action.sources:
        return replayed(action, "evidence_known")
    if given.kind is EvidenceKind.LOOKUP and not 0 < (given.lookup or 0) <= action.lookups_asked:
        return Decided(refused=Refused(code=Rejection.UNKNOWN_LOOKUP, action=action.key))
    lookup = given.lookup if given.kind is EvidenceKind.LOOKUP else None
    asked = action.lookup
    answered = asked if asked is not None and lookup == asked.number else None
    draft.add(
        EvidenceRecorded(
            action=action.key,
            version=draft.version(action.key),
            kind=given.kind,
            source_id=given.source_id,
            meaning=given.meaning,
            attempts_upto=len(action.attempts) if answered is None else answered.attempts_upto,
            lookup=lookup,
            reference=given.reference,
            money=given.money,
            code=given.code,
            raw_sha256=given.raw_sha256,
            occurred_at=given.occurred_at,
            reverses=given.reverses,
        )
    )
    match given.meaning:
        case Meaning.EFFECT:
            _effect(draft, action.key, given)
        case Meaning.NO_EFFECT:
            _no_effect(draft, action.key, given)
        case Meaning.ABSENT:
            if answered is not None:
                _absent(draft, action.key, given, answered)
        case Meaning.REVERSED | Meaning.PENDING | Meaning.INCONCLUSIVE:
            pass
        case _:
            assert_never(given.meaning)
    find_out(draft, action.key)
    return draft.decided()


def _effect(draft: Draft, key: str, given: Evidence) -> None:
    """Proof of an effect: it completes what is open if the money is the money asked for."""
    action = draft.action(key)
    asked_money = action.request.money
    if action.status is Status.COMPLETED and given.reference != action.reference:
        review(draft, key, "second_effect")
    elif asked_money is not None and given.money != asked_money:
        review(draft, key, "amount_differs")
    elif action.status is Status.COMPLETED:
        return
    elif not action.counted_attempts:
        review(draft, key, "effect_without_attempt")
    elif not action.is_open:
        review(draft, key, "evidence_conflicts")
    elif not is_disputed(action):
        draft.add(
            ActionCompleted(
                action=key,
                version=draft.version(key),
                proof=_PROOFS[given.kind],
                reference=given.reference or key,
            )
        )


def _no_effect(draft: Draft, key: str, given: Evidence) -> None:
    """The provider says that an object came to nothing. It speaks for one attempt only, and only if
    there was just one.
    """
    action = draft.action(key)
    if action.status is Status.COMPLETED:
        if given.reference == action.reference:
            review(draft, key, "evidence_conflicts")
        return
    unresolved = [
        attempt for attempt in action.attempts if attempt.status is AttemptStatus.UNRESOLVED
    ]
    if action.counted_attempts != 1 or not unresolved:
        return
    code = given.code or "no_effect"
    draft.add(
        AttemptRefused(
            action=key,
            version=draft.version(key),
            attempt=unresolved[0].number,
            code=code,
            retry=Retry.NEVER,
        )
    )
    if draft.action(key).status is Status.READY:
        after_no_effect(draft, key, code, Retry.NEVER)


def _absent(draft: Draft, key: str, given: Evidence, asked: Lookup) -> None:
    """The provider does not know it: reliable only for attempts that were over, and would be
    visible, when it was asked.
    """
    action = draft.action(key)
    operation = draft.operation(action)
    if operation is None:
        return
    settle_ms = draft.config.timing.skew_ms + operation.search_lag_ms + operation.settle_horizon_ms
    for attempt in action.attempts:
        over_at = attempt.lease_until + settle_ms
        if attempt.status not in OPEN or attempt.number > asked.attempts_upto:
            continue
        if attempt.status is AttemptStatus.UNRESOLVED and over_at < asked.asked_at:
            draft.add(
                AttemptAbsent(
                    action=key,
                    version=draft.version(key),
                    attempt=attempt.number,
                    source_id=given.source_id,
                )
            )
    after = draft.action(key)
    if after.status is Status.READY:
        _after_absence(draft, after)


def _after_absence(draft: Draft, action: Action) -> None:
    """Surely no effect so far: again with the same key where the class allows it, else the action
    has failed.
    """
    operation = draft.operation(action)
    if operation is not None and _may_repeat(action, operation):
        try_again(draft, action.key, operation, operation.retries.backoff_base_ms)
    else:
        draft.add(
            ActionFailed(
                action=action.key, version=draft.version(action.key), code="no_effect_found"
            )
        )


def _may_repeat(action: Action, operation: Operation) -> bool:
    if action.reliability in ("keyed", "reference"):
        return True
    return action.reliability == "lookup" and operation.second_attempt_after_absence
