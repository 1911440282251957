"""Compensations: what undoes another action of its business event, and is an action of its own.

It may be asked for before its original begins: then it is ruled and its budgets are reserved at
once, and it waits until the original's effect is there. What of an amount is to be undone is never
more than the original was. One that comes to nothing for good is a person's case, for the effect
that it was to undo is still there; one whose original has no effect is called off.
"""

from collections.abc import Iterator
from typing import Final

from ledger.core.catalogue import Operation
from ledger.core.decide.draft import Decided, Draft, refused_by
from ledger.core.decide.ending import NOT_BEGUN, NOTHING_TO_UNDO, call_off, review
from ledger.core.decide.judging import raise_reversals
from ledger.core.facts import (
    ActionCompleted,
    ActionDenied,
    ActionExpired,
    ActionFailed,
    EvidenceRecorded,
    IntentRecorded,
)
from ledger.core.inputs import Meaning, Propose
from ledger.core.money import Money, format_money
from ledger.core.order import (
    GIVEN_UP,
    has_something_to_undo,
    is_reversed,
    is_without_effect,
    lineage,
    original_of,
    undoing,
)
from ledger.core.rejections import Detail, Refused, Rejection
from ledger.core.reversals import (
    AMOUNT_DIFFERS,
    RETURNED_ALREADY,
    differs_from_asked,
    goes_beyond,
    is_told_otherwise,
    minor_of,
    reversed_elsewhere,
    undone_minor,
)
from ledger.core.state import Action, Status, Stream

_MONEY: Final = "/money"


# --- asking for one ------------------------------------------------------------------------------


def refusal_of_compensation(draft: Draft, given: Propose, operation: Operation) -> Decided | None:
    """Why a proposal may not compensate what it names, or None."""
    if given.compensates is None:
        return None
    original = draft.stream.action(given.compensates)
    if original is None:
        return _refused(Rejection.UNKNOWN_ORIGINAL, given.compensates)
    declared = draft.operation(original)
    if declared is None or declared.compensation != operation.name:
        return _refused(Rejection.NOT_A_COMPENSATION, original.key)
    if original.request.environment != given.request.environment:
        return _refused(Rejection.NOT_A_COMPENSATION, original.key)
    if _acts_elsewhere(draft, original, declared, operation):
        return _elsewhere(original, operation)
    if is_without_effect(original):
        return _refused(Rejection.NOTHING_TO_UNDO, original.key)
    return None


def _acts_elsewhere(
    draft: Draft, original: Action, declared: Operation, operation: Operation
) -> bool:
    """Whether an operation would undo an effect at another provider or account than it was done at,
    though the catalogue has one that acts there; or though what did it acts with the other now: its
    account was moved. What has no such pair is undone elsewhere by design, as a letter is by an
    e-mail, whatever further versions of what did it act where.
    """
    was, now = (original.provider, original.account), (operation.provider, operation.account)
    places = {(one.name, (one.provider, one.account)) for one in draft.config.catalogue.operations}
    is_moved = (declared.provider, declared.account) == now
    return was != now and ((operation.name, was) in places or is_moved)


def _elsewhere(original: Action, operation: Operation) -> Decided:
    was, now = (
        f"{original.provider}, {original.account}",
        f"{operation.provider}, {operation.account}",
    )
    message = (
        f"it was done at {was}, and {operation.name} v{operation.version} acts at {now}: a version "
        "of it that acts where it was done undoes it"
    )
    detail = Detail(path="", code="other_account", message=message)
    refused = Refused(code=Rejection.NOT_A_COMPENSATION, action=original.key, details=(detail,))
    return Decided(refused=refused)


def refusal_of_target(draft: Draft, given: Propose, operation: Operation) -> Decided | None:
    """Why a proposal may not undo its original on the target that it names, or None: it is that of
    the original, unless the original's operation declares that it may be any. Decision 30.
    """
    original = None if given.compensates is None else draft.stream.action(given.compensates)
    declared = None if original is None else draft.operation(original)
    if original is None or declared is None or declared.compensation_target == "any":
        return None
    was, now = original.request.target, given.request.target
    if operation.target is None or was == now:
        return None
    detail = Detail(
        path="/target", code="differs", message=f"{was or 'nothing'} -> {now or 'nothing'}"
    )
    refused = Refused(code=Rejection.OTHER_TARGET, action=original.key, details=(detail,))
    return Decided(refused=refused)


def refusal_of_amount(stream: Stream, given: Propose) -> Decided | None:
    """Why a proposal may not undo as much of its original as it says, or None: never more is undone
    than was done. What names no amount undoes all of it.
    """
    original = None if given.compensates is None else stream.action(given.compensates)
    if original is None:
        return None
    others = tuple(_that_count(stream, original, given))
    whole, own = original.request.money, given.request.money
    if whole is None:
        return refused_by(Rejection.COMPENSATION_EXCEEDS, others[0]) if others else None
    if own is not None and own.minor == 0:
        detail = Detail(
            path=f"{_MONEY}/minor",
            code="amount_zero",
            message=f"{_MONEY}/minor must be more than 0: there is nothing to give back",
        )
        return Decided(refused=Refused(code=Rejection.INVALID_REQUEST, details=(detail,)))
    if own is not None and own.currency != whole.currency:
        return _exceeds(original, "other_currency", f"the original is in {whole.currency}")
    taken = sum(undone_minor(one, whole) for one in others)
    taken += minor_of(reversed_elsewhere(stream, original), whole)
    if taken + (own or whole).minor <= whole.minor:
        return None
    left = format_money(Money(minor=max(0, whole.minor - taken), currency=whole.currency))
    return _exceeds(original, "amount_exceeds", f"{left} of {format_money(whole)} is left")


def _that_count(stream: Stream, original: Action, given: Propose) -> Iterator[Action]:
    """The compensations of an original that have had an effect, or still may. What a new one
    revises counts no more once it gives way, or once a person has noted that its effect came to
    nothing.
    """
    earlier = None if given.revises is None else stream.action(given.revises)
    revised = () if earlier is None else (earlier, *lineage(stream, earlier))
    for one in stream.actions:
        if one.compensates != original.key or is_without_effect(one):
            continue
        gives_way = is_reversed(one) or not (one.is_final or one.is_unsettled)
        if one not in revised or not gives_way:
            yield one


def _refused(code: Rejection, action: str) -> Decided:
    return Decided(refused=Refused(code=code, action=action))


def _exceeds(original: Action, code: str, message: str) -> Decided:
    detail = Detail(path=_MONEY, code=code, message=message)
    refused = Refused(code=Rejection.COMPENSATION_EXCEEDS, action=original.key, details=(detail,))
    return Decided(refused=refused)


# --- what follows --------------------------------------------------------------------------------


def follow_compensations(draft: Draft) -> None:
    """Call off what has nothing to undo, and hand to a person what came to nothing itself."""
    for action in draft.stream.actions:
        original = original_of(draft.stream, action)
        if original is None:
            continue
        raise_reversals(draft, original.key)
        if is_told_otherwise(original, action) and _is_told_now(draft, original, action):
            review(draft, original.key, "amount_differs")
        if is_without_effect(original) and action.status in NOT_BEGUN and not action.is_open:
            call_off(draft, action.key, NOTHING_TO_UNDO)
        elif has_something_to_undo(original) and _is_given_up(draft, original, action):
            review(draft, action.key, GIVEN_UP, original.key)
        elif action.status in NOT_BEGUN and (told := goes_beyond(draft.stream, action)):
            # What came back may be what is on its way: its answer says so, or runs out of time.
            if not _is_another_on_its_way(draft.stream, action):
                review(draft, action.key, RETURNED_ALREADY, told)
        elif _has_its_turn(action) and (told := differs_from_asked(draft.stream, action)):
            review(draft, action.key, AMOUNT_DIFFERS, told)
        elif action.status in NOT_BEGUN and not action.has_begun:
            late = _undone_late(draft.stream, original, action)
            if late is not None:
                review(draft, action.key, "suspected_duplicate", late)


def _is_told_now(draft: Draft, original: Action, action: Action) -> bool:
    """Whether this very decision tells, with the original, of what a compensation gave back; or by
    which name that is.
    """
    return any(
        (isinstance(fact, ActionCompleted) and fact.action == action.key)
        or (
            isinstance(fact, EvidenceRecorded)
            and (fact.action, fact.meaning) == (original.key, Meaning.REVERSED)
        )
        for fact in draft.facts
    )


def _undone_late(stream: Stream, original: Action, action: Action) -> str | None:
    """What has undone so much of the original, though nobody knew when this compensation was asked
    for, that with this one it would be more than there was; None where nothing has, or a person
    lets this one pass it.
    """
    others = [one for one in undoing(stream, action) if has_something_to_undo(one)]
    late = (one.key for one in others if one.status is not Status.COMPLETED)
    name = next((key for key in late if key not in action.allowed), None)
    whole = original.request.money
    if name is None or whole is None:
        return name
    undone = (one for one in (*others, action) if not is_reversed(one))
    taken = sum((one.request.money or whole).minor for one in undone)
    return name if taken > whole.minor else None


def _is_another_on_its_way(stream: Stream, action: Action) -> bool:
    """Whether an answer to another compensation of the same original is still awaited."""
    return any(one.running is not None for one in undoing(stream, action))


def _has_its_turn(action: Action) -> bool:
    """Whether nothing but people, or a wait of its own, keeps an action from its next start."""
    return action.status in NOT_BEGUN and action.status is not Status.BLOCKED


def _is_given_up(draft: Draft, original: Action, action: Action) -> bool:
    """Whether a compensation has come to nothing, and a person has yet to be told: by this very
    decision, or while nobody knew whether there was anything to undo. In between something else may
    have been asked for that undoes as much.
    """
    if _has_just_ended(draft, action):
        return True
    is_over = action.status in {Status.FAILED, Status.EXPIRED} and is_without_effect(action)
    is_told = action.review == GIVEN_UP or action.revised_by is not None
    return is_over and not is_told and _is_still_to_undo(draft.stream, original, action)


def _has_just_ended(draft: Draft, action: Action) -> bool:
    """Whether this very decision ends it: it failed, ran out, or the table denies it at its turn.
    Whom the table denies it at once hears so, and a person who denies it knows.
    """
    of_it = [fact for fact in draft.facts if getattr(fact, "action", None) == action.key]
    is_new = any(isinstance(fact, IntentRecorded) for fact in of_it)
    return any(
        isinstance(fact, ActionFailed | ActionExpired)
        or (isinstance(fact, ActionDenied) and fact.by == "policy" and not is_new)
        for fact in of_it
    )


def _is_still_to_undo(stream: Stream, original: Action, action: Action) -> bool:
    """Whether what a compensation was to undo is undone by nothing else, whole or in part."""
    whole = original.request.money
    others = [one for one in undoing(stream, action) if not is_without_effect(one)]
    if whole is None:
        return not others
    elsewhere = minor_of(reversed_elsewhere(stream, original), whole)
    taken = elsewhere + sum(undone_minor(one, whole) for one in others)
    own = (action.request.money or whole).minor
    return taken < own or taken + own <= whole.minor
