"""In which order the actions of one business event may begin: what revises or compensates another
one waits until it is known what became of that.

Asked before a start, whenever something has been decided, and by the fold, which holds every start
in the log against it. What may have had its effect already waits for nobody: it is found out.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from ledger.core.facts import IntentRecorded
from ledger.core.invariants import invariant
from ledger.core.proof import effects_told, given_back
from ledger.core.state import EFFECT_IS_TOLD, OF_REVERSALS, Action, Status, Stream
from ledger.core.statement import Move

GIVEN_UP: Final = "compensation_failed"
"""The reason of the case that says: an effect is there, and what was to undo it did not."""


@dataclass(frozen=True, slots=True)
class Waits:
    """For which other action one waits, and why."""

    reason: Literal["revised_open", "original_open"]
    by: str


def waits_for(stream: Stream, action: Action) -> Waits | None:
    """For which other action of its stream an action waits before it may begin, or None."""
    if (action.revises is None and action.compensates is None) or action.is_open:
        return None
    for earlier in lineage(stream, action):
        if earlier.is_unsettled and earlier.key not in action.allowed:
            return Waits("revised_open", earlier.key)
    original = original_of(stream, action)
    if original is None:
        return None
    if not has_something_to_undo(original):
        return Waits("original_open", original.key)
    doubted = next((one for one in undoing(stream, action) if _is_in_doubt(one)), None)
    return None if doubted is None else Waits("original_open", doubted.key)


def undoing(stream: Stream, action: Action) -> Iterator[Action]:
    """What else of its stream undoes the same original as a compensation."""
    for one in stream.actions:
        if one.compensates == action.compensates and one.key != action.key:
            yield one


def _is_in_doubt(action: Action) -> bool:
    """Whether an action has come to its end, and evidence against that waits for a person."""
    return action.is_final and action.is_unsettled


def check_order(stream: Stream, action: Action) -> None:
    """Raises BrokenInvariantError where an action starts that must not: it is revised, or it has to
    wait for another one.
    """
    invariant(action.revised_by is None, "what is revised starts no more")
    invariant(waits_for(stream, action) is None, "a start waits for no other action")


def revised(stream: Stream, fact: IntentRecorded) -> tuple[Action, ...]:
    """The actions before an intent: the one that it revises starts no more."""
    return tuple(
        replace(one, revised_by=fact.action) if one.key == fact.revises else one
        for one in stream.actions
    )


def lineage(stream: Stream, action: Action) -> Iterator[Action]:
    """What an action revises, and what that revises, the newest first."""
    earlier = None if action.revises is None else stream.action(action.revises)
    while earlier is not None:
        yield earlier
        earlier = None if earlier.revises is None else stream.action(earlier.revises)


def original_of(stream: Stream, action: Action) -> Action | None:
    """The action that one compensates, or None."""
    return None if action.compensates is None else stream.action(action.compensates)


def reference_to_undo(stream: Stream, action: Action) -> str | None:
    """The provider's name for the effect that an action undoes; None where it undoes none, or one
    that nobody has named.
    """
    original = original_of(stream, action)
    return None if original is None else original.reference


def has_something_to_undo(original: Action) -> bool:
    """Whether it is settled that an effect is there: the action has completed, or a person has
    taken note of an effect that came to light after it had ended otherwise.
    """
    if original.is_unsettled or not original.is_final:
        return False
    return original.status is Status.COMPLETED or _was_noted(original) or _is_left(original)


def is_reversed(action: Action) -> bool:
    """Whether the effect of a completed action came to nothing later, or was given back in whole,
    and a person has taken note of it. Where it was done twice, that of one of both is not enough.
    """
    came_to_nothing = action.review == "evidence_conflicts" and not _stands_beside(action)
    is_back = came_to_nothing or (action.review in OF_REVERSALS and _is_given_back(action))
    is_noted = action.case is None and _was_noted(action)
    return action.status is Status.COMPLETED and is_back and is_noted


def _stands_beside(action: Action) -> bool:
    """Whether an effect is there beside one that came to nothing."""
    told = effects_told(action)
    nothing = () if action.told is None else action.told.nothing
    left = [name for name in told if name not in nothing]
    return 0 < len(left) < len(told)


def _is_given_back(action: Action) -> bool:
    """Whether all of its amount was given back, of each of its effects; what names no amount is all
    of one.
    """
    effects = max(1, len(effects_told(action)))
    whole, amounts = action.request.money, [one.minor for one in given_back(action)]
    if whole is None:
        return len(amounts) >= effects
    return sum(whole.minor if one is None else one for one in amounts) >= whole.minor * effects


def _was_noted(action: Action) -> bool:
    noted = action.resolved is not None and action.resolved.move is Move.ACKNOWLEDGE
    return noted and action.review in EFFECT_IS_TOLD


def _is_left(action: Action) -> bool:
    """Whether a person was told that an effect of the action itself is there, which its plan does
    not undo. Of a compensation the same case speaks of its original.
    """
    return action.review == GIVEN_UP and action.compensates is None


def is_without_effect(action: Action) -> bool:
    """Whether the action surely has no effect, and never will."""
    return action.is_final and not action.is_unsettled and not has_something_to_undo(action)
