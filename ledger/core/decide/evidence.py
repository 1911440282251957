"""Evidence: pieces from providers, each counted once by its source and kept whatever it proves.

What it may prove says the table of `ledger.core.proof`. Which attempts it can speak for is found
here: an absence counts only for those whose last possible byte, the provider's search lag and its
settle horizon all lie before the question. Anything that contradicts goes to a person with all its
pieces.
"""

from typing import Final, assert_never

from ledger.core.catalogue import Operation
from ledger.core.decide.draft import Decided, Draft, replayed
from ledger.core.decide.ending import review
from ledger.core.decide.judging import Effect, closed_by, raise_reversals, tell_effect, tell_none
from ledger.core.decide.schedule import find_out, try_again
from ledger.core.evolve_evidence import reversal_of
from ledger.core.facts import ActionFailed, AttemptAbsent, EvidenceRecorded, Proof
from ledger.core.inputs import Evidence, EvidenceKind, Meaning
from ledger.core.order import original_of
from ledger.core.proof import (
    PROOF,
    May,
    contradicts_itself,
    counted,
    effects_told,
    is_told,
    larger,
    names_told,
    pending_told,
    reversals_told,
)
from ledger.core.rejections import Refused, Rejection
from ledger.core.reversals import minor_of, names_of, of_whole, reversed_elsewhere
from ledger.core.state import Action, Lookup, Status

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
    meaning = _meaning(draft, action, given)
    may = PROOF[given.kind, meaning, action.status]
    lookup = given.lookup if given.kind is EvidenceKind.LOOKUP else None
    asked = action.question if action.question and action.question.number == lookup else None
    is_of_reversal = _is_of_reversal(draft, action, given)
    denies = _denies(draft, action, given, asked) if may in _DENYING and not is_of_reversal else ()
    fact = EvidenceRecorded(
        action=action.key,
        version=draft.version(action.key),
        kind=given.kind,
        source_id=given.source_id,
        meaning=meaning,
        attempts_upto=len(action.attempts) if asked is None else asked.attempts_upto,
        lookup=lookup,
        reference=given.reference,
        money=given.money,
        code=given.code,
        raw_sha256=given.raw_sha256,
        occurred_at=given.occurred_at,
        reverses=given.reverses,
        denies=denies or None,
        for_good=True if denies and meaning is Meaning.NO_EFFECT else None,
    )
    draft.add(fact)
    match may:
        case _ if is_of_reversal:
            _not_given_back(draft, action, fact)
        case May.PROVE | May.CONFIRM:
            known = effects_told(action)
            is_new = (given.reference or action.key) not in known
            proof = _PROOFS[given.kind]
            tell_effect(draft, action.key, Effect(given.reference, given.money, proof, is_new))
        case May.CLOSE | May.DENY:
            code = given.code or "no_effect"
            if meaning is Meaning.ABSENT:
                _absent(draft, action.key, given, denies)
            else:
                tell_none(draft, action.key, denies, given.reference, code)
        case May.GIVE_BACK:
            _given_back(draft, action, fact)
        case May.KEEP if meaning is Meaning.PENDING:
            if contradicts_itself(draft.action(action.key)):
                review(draft, action.key, "evidence_conflicts")
        case May.KEEP | May.NEVER:
            pass
        case _:
            assert_never(may)
    find_out(draft, action.key)
    return draft.decided()


_AS_IT_HAPPENS: Final = frozenset({EvidenceKind.WEBHOOK, EvidenceKind.LOOKUP})
_DENYING: Final = frozenset({May.CLOSE, May.DENY})


def _meaning(draft: Draft, action: Action, given: Evidence) -> Meaning:
    """What a piece says of this action: what was given back of the original of a compensation is
    the effect of the compensation.
    """
    original = original_of(draft.stream, action)
    if given.meaning is not Meaning.REVERSED or original is None:
        return given.meaning
    is_its_effect = given.reverses is None or given.reverses in effects_told(original)
    return Meaning.EFFECT if is_its_effect else Meaning.REVERSED


def _is_of_reversal(draft: Draft, action: Action, given: Evidence) -> bool:
    """Whether a piece says that what was to give an effect back came to nothing: a refund that
    failed after all, a dispute that was won. The effect stays. Of what undoes another action, and
    of an effect that is the action's own, it is the word about that effect.
    """
    if given.meaning is not Meaning.NO_EFFECT or given.reverses is None:
        return False
    is_its_own = given.reference in {given.reverses, *effects_told(action)}
    return not is_its_own and original_of(draft.stream, action) is None


def _not_given_back(draft: Draft, before: Action, fact: EvidenceRecorded) -> None:
    """What was said to have come back stays with whom it was taken for: whoever was told of it is
    told that it did not, and with how much that leaves.
    """
    raised = {one.reference for one in reversed_elsewhere(draft.stream, before) if one.raised}
    if fact.reference is None or fact.reference not in raised:
        return
    _told_anew(draft, before, f"not {fact.reference}")


def _told_anew(draft: Draft, before: Action, said: str) -> None:
    """Tell a person how much is known to have come back by now, and what was said of it."""
    left, whole = reversed_elsewhere(draft.stream, draft.action(before.key)), before.request.money
    names = said if not left else f"{names_of(left)}; {said}"
    told = names if whole is None else f"{of_whole(minor_of(left, whole), whole)}: {names}"
    review(draft, before.key, "reversed_elsewhere", told)


def _denies(draft: Draft, action: Action, given: Evidence, asked: Lookup | None) -> tuple[int, ...]:
    """The attempts of which a piece says for sure that they had no effect.

    That an object came to nothing is about one attempt, and known to be only where there was just
    one. An absence is about those that were over, and would be visible, when it was asked.
    """
    tries = tuple(counted(action))
    if given.meaning is Meaning.NO_EFFECT:
        return (tries[0].number,) if len(tries) == 1 else ()
    operation = draft.operation(action)
    if asked is None or operation is None:
        return ()
    settle_ms = draft.config.timing.skew_ms + operation.search_lag_ms + operation.settle_horizon_ms
    return tuple(
        one.number
        for one in tries
        if one.number <= asked.attempts_upto and one.lease_until + settle_ms < asked.asked_at
    )


def _given_back(draft: Draft, before: Action, fact: EvidenceRecorded) -> None:
    """What was given back was there. Whose doing it was, and what follows, is another question."""
    key, action = before.key, draft.action(before.key)
    asked, money, said = action.request.money, fact.money, reversal_of(before, fact)
    known = None
    for one in reversals_told(before):
        if one.name == said.name:
            known = larger(known, one.minor)
    is_other_currency = asked is not None and money is not None and money.currency != asked.currency
    if is_other_currency or (known is not None and said.minor not in {None, known}):
        review(draft, key, "amount_differs")
    if effects_told(action) and _is_taken_again(action, fact):
        _told_anew(draft, before, f"{fact.reference} told both ways")
    if action.told == before.told:
        return
    if len(names_told(action)) > 1:
        review(draft, key, "second_effect")
    if not action.counted_attempts:
        review(draft, key, "effect_without_attempt")
    if contradicts_itself(action):
        review(draft, key, "evidence_conflicts")
    raise_reversals(draft, key)


def _is_taken_again(action: Action, fact: EvidenceRecorded) -> bool:
    """Whether something is said to have come back of which it was said that it did not: a word that
    is late, or a dispute that was won and then lost after all. Which it is can nobody tell here.
    What is told as it happens may be either; a statement repeats both for months.
    """
    nothing = () if action.told is None else action.told.nothing
    return fact.kind in _AS_IT_HAPPENS and fact.reference in nothing


def _absent(draft: Draft, key: str, given: Evidence, denies: tuple[int, ...]) -> None:
    """The provider does not know it: what that closes is tried again where the class allows it."""
    closes = closed_by(draft.action(key), denies)
    for attempt in closes:
        draft.add(
            AttemptAbsent(
                action=key,
                version=draft.version(key),
                attempt=attempt.number,
                source_id=given.source_id,
            )
        )
    after = draft.action(key)
    if is_told(after) or pending_told(after):
        if denies and contradicts_itself(after):
            review(draft, key, "evidence_conflicts")
    elif closes and after.status is Status.READY:
        _after_absence(draft, after)


def _after_absence(draft: Draft, action: Action) -> None:
    """Surely no effect so far: again with the same key where the class allows it, else the action
    has failed.
    """
    operation = draft.operation(action)
    for_good = None if action.told is None else action.told.for_good
    may_repeat = operation is not None and _may_repeat(action, operation)
    if operation is not None and may_repeat and for_good is None:
        try_again(draft, action.key, operation, operation.retries.backoff_base_ms)
    else:
        code = for_good or "no_effect_found"
        draft.add(ActionFailed(action=action.key, version=draft.version(action.key), code=code))


def _may_repeat(action: Action, operation: Operation) -> bool:
    if action.reliability in ("keyed", "reference"):
        return True
    return action.reliability == "lookup" and operation.second_attempt_after_absence
