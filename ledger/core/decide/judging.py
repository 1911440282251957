"""What follows from a piece of evidence once it is kept: an effect, none, or one that was given
back.

Each asks what has been told by now, never which piece came last, so that late, early, repeated and
reordered evidence leads to the same. What may be proven at all says `ledger.core.proof`.
"""

from dataclasses import dataclass

from ledger.core.decide.draft import Draft
from ledger.core.decide.ending import review, review_anew
from ledger.core.decide.schedule import after_no_effect, is_disputed
from ledger.core.facts import ActionCompleted, AttemptRefused, Proof
from ledger.core.inputs import Retry
from ledger.core.money import Money
from ledger.core.order import has_something_to_undo
from ledger.core.proof import (
    contradicts_itself,
    effects_told,
    is_told,
    names_told,
    pending_told,
    reversals_told,
)
from ledger.core.reversals import (
    compensations_of,
    minor_of,
    names_of,
    of_whole,
    reversed_elsewhere,
    undone_minor,
)
from ledger.core.state import Action, Attempt, AttemptStatus, Status


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect that a piece tells: under which name, with which money, and what completes the
    action where it does; None where the piece is no proof of its own.
    """

    name: str | None
    money: Money | None
    proof: Proof | None
    is_new: bool


def tell_effect(draft: Draft, key: str, told: Effect) -> None:
    """Draw what follows from an effect that was told: it completes what is open where nothing
    speaks against it, and else is a person's.
    """
    action = draft.action(key)
    asked = action.request.money
    fits = asked is None or told.money == asked
    is_proof = told.proof is not None and fits and action.is_open and not action.is_final
    if is_proof and not is_disputed(action) and not contradicts_itself(action):
        draft.add(
            ActionCompleted(
                action=key,
                version=draft.version(key),
                proof=told.proof or "report",
                reference=told.name or key,
            )
        )
    raise_contradictions(draft, key, told)
    if not fits:
        review(draft, key, "amount_differs")
    raise_reversals(draft, key)


def raise_contradictions(draft: Draft, key: str, told: Effect) -> None:
    """Hand to a person what an effect contradicts: another one, or that there can be none."""
    action = draft.action(key)
    is_other = told.name is not None and action.reference not in {None, told.name}
    if len(names_told(action)) > 1 and told.name is not None and (told.is_new or is_other):
        review(draft, key, "second_effect")
    if not action.counted_attempts:
        review(draft, key, "effect_without_attempt")
    if contradicts_itself(action):
        review(draft, key, "evidence_conflicts")


def tell_none(draft: Draft, key: str, denies: tuple[int, ...], name: str | None, code: str) -> None:
    """Draw what follows from the word that there was no effect: it closes what it speaks for, and
    where an effect has been told too a person gets both.
    """
    speaks = bool(denies) or name in names_told(draft.action(key))
    for attempt in closed_by(draft.action(key), denies):
        draft.add(
            AttemptRefused(
                action=key,
                version=draft.version(key),
                attempt=attempt.number,
                code=code,
                retry=Retry.NEVER,
            )
        )
    after = draft.action(key)
    is_for_good = after.told is not None and after.told.for_good is not None
    if is_told(after) or pending_told(after):
        if speaks and contradicts_itself(after):
            review(draft, key, "evidence_conflicts")
    elif denies and is_for_good and after.status is Status.READY:
        after_no_effect(draft, key, code, Retry.NEVER)


def closed_by(action: Action, denies: tuple[int, ...]) -> tuple[Attempt, ...]:
    """The attempts that a denial closes: those that are over and have no outcome. None while
    something of the action is still moving at its provider.
    """
    if pending_told(action):
        return ()
    return tuple(
        one
        for one in action.attempts
        if one.number in denies and one.status is AttemptStatus.UNRESOLVED
    )


def close_denied(draft: Draft, key: str) -> None:
    """An attempt became unresolved: close it if the provider had said already that it came to
    nothing, while its answer was still out.
    """
    action = draft.action(key)
    told = action.told
    if told is not None and told.for_good is not None:
        tell_none(draft, key, told.denied, None, told.for_good)


# --- what was given back -------------------------------------------------------------------------


def raise_reversals(draft: Draft, key: str) -> None:
    """Hand to a person what was given back of an effect beyond what the ledger gave back itself;
    and with it that more came back than was taken.

    While a compensation is open it may be its effect: then it waits until that is settled.
    """
    action = draft.action(key)
    if not reversals_told(action) or not effects_told(action):
        return
    undoing = compensations_of(draft.stream, action)
    foreign = reversed_elsewhere(draft.stream, action)
    if all(one.raised for one in foreign) or any(one.is_open for one in undoing):
        return
    whole, told = action.request.money, names_of(foreign)
    if whole is None:
        review_anew(draft, key, "reversed_elsewhere", told)
        return
    told = f"{of_whole(minor_of(foreign, whole), whole)}: {told}"
    review_anew(draft, key, "reversed_elsewhere", told)
    undone = [one for one in undoing if has_something_to_undo(one)]
    total = minor_of(foreign, whole) + sum(undone_minor(one, whole) for one in undone)
    if total > whole.minor:
        told = names_of(foreign, tuple(one.reference or one.key for one in undone))
        review(draft, key, "returned_too_much", f"{of_whole(total, whole)}: {told}")
