"""What was given back of an effect: by compensations of its own business event, or elsewhere.

A refund at the provider's desk, a dispute, a bank that takes its money back: the effect was there,
and the action stays completed. How much is known to have come back, and how much more may be given
back by ourselves, is told here from the stream alone.
"""

from dataclasses import dataclass
from typing import Final, Literal

from ledger.core.inputs import OTHER_AMOUNT, PARTLY
from ledger.core.limits import INTEGER_MAX
from ledger.core.money import Money, format_money
from ledger.core.order import (
    has_something_to_undo,
    is_reversed,
    is_without_effect,
    original_of,
)
from ledger.core.proof import PERSON, effects_told, given_back, report_source
from ledger.core.state import Action, Reversal, Stream

AMOUNT_DIFFERS: Final = "original_amount_differs"
"""The reason of the case that says: nobody knows here how much of an effect there is to undo."""

RETURNED_ALREADY: Final = "returned_already"
"""The reason of the case that says: with this one more would come back than was taken."""

AMOUNT_OF: Final = "amount_of:"
"""Before the key of an action where a person lets its amount pass, and nothing else of it."""

_NAMES_CHARS_MAX: Final = 512


def compensations_of(stream: Stream, original: Action) -> tuple[Action, ...]:
    """What of its stream undoes an action."""
    return tuple(one for one in stream.actions if one.compensates == original.key)


def reversed_elsewhere(stream: Stream, action: Action) -> tuple[Reversal, ...]:
    """What was given back of an action that no compensation of it is known to have given back."""
    undoing = compensations_of(stream, action)
    own = {name for undo in undoing for name in (*effects_told(undo), undo.key)}
    return tuple(one for one in given_back(action) if one.reference not in own)


def minor_of(reversals: tuple[Reversal, ...], whole: Money) -> int:
    """How much was given back, in minor units; what names no amount is all of it. No sum is larger
    than what a number of the log can be: each word of a provider may be as large as that.
    """
    told = sum(whole.minor if one.minor is None else one.minor for one in reversals)
    return min(told, INTEGER_MAX)


def reversed_minor(action: Action) -> int:
    """How much of an action's amount was given back, by whomever, in minor units."""
    whole = action.request.money
    return 0 if whole is None else minor_of(given_back(action), whole)


def undone_minor(undo: Action, whole: Money) -> int:
    """How much a compensation gives back, in minor units: its amount, as often as it is known to
    have had its effect; all of the original where it names none.
    """
    return (undo.request.money or whole).minor * max(1, len(_done_again(undo)))


def _done_again(undo: Action) -> tuple[str, ...]:
    """The names of the effects of a compensation that its provider carried out more than once, but
    for those that came to nothing after all. Two names that people gave one effect are not two.
    """
    if undo.told is None or not undo.told.done_again:
        return ()
    return tuple(name for name in effects_told(undo) if name not in undo.told.nothing)


@dataclass(frozen=True, slots=True)
class KeptBack:
    """Why what undoes something may not be sent by itself, and what that is about."""

    reason: Literal["returned_already", "original_amount_differs"]
    names: str


def kept_back(stream: Stream, action: Action) -> KeptBack | None:
    """Why a compensation is a person's before it is sent, the first time or once more, or None: its
    first request may never have arrived, and then the same key makes the effect.
    """
    if action.compensates is None:
        return None
    if told := goes_beyond(stream, action):
        return KeptBack(RETURNED_ALREADY, told)
    if told := differs_from_asked(stream, action):
        return KeptBack(AMOUNT_DIFFERS, told)
    return None


def goes_beyond(stream: Stream, action: Action) -> str | None:
    """What was given back of the original of a compensation elsewhere, or once more than was asked
    for, so that with this one more would come back than was taken; None where there is room, or a
    person lets it pass.
    """
    original = original_of(stream, action)
    if original is None:
        return None
    foreign, whole = reversed_elsewhere(stream, original), original.request.money
    if whole is None:
        told = names_of(foreign)
        return None if not foreign or told in action.allowed else told
    others = [
        one
        for one in compensations_of(stream, original)
        if one.key != action.key
        and (one.is_open or has_something_to_undo(one))
        and not is_reversed(one)
    ]
    twice = [one for one in others if len(_done_again(one)) > 1]
    if not foreign and not twice:
        return None
    undone = sum((one.request.money or whole).minor for one in (*others, action))
    further = sum(undone_minor(one, whole) - (one.request.money or whole).minor for one in twice)
    elsewhere = minor_of(foreign, whole) + further
    names = names_of(foreign, tuple(name for one in twice for name in _done_again(one)))
    told = f"{of_whole(elsewhere, whole)}: {names}"
    return told if elsewhere + undone > whole.minor and told not in action.allowed else None


def differs_from_asked(stream: Stream, action: Action) -> str | None:
    """The original of a compensation, or what else undoes it, where its effect was told with
    another amount than was asked for, so that nobody can say here how much there is to give back;
    None where all is as it was asked for, or a person lets this one pass it.
    """
    original = original_of(stream, action)
    if original is None or original.request.money is None:
        return None
    for one in (original, *compensations_of(stream, original)):
        is_other = one.told is not None and bool(one.told.other_amount)
        is_other = is_other or is_told_otherwise(original, one) or _is_answered_otherwise(one)
        is_doubtful = is_other and not is_without_effect(one)
        is_known = one.key == action.key or f"{AMOUNT_OF}{one.key}" in action.allowed
        if is_doubtful and not is_known:
            return one.key
    return None


def is_told_otherwise(original: Action, undo: Action) -> bool:
    """Whether the provider told of its original that what a compensation gave back, by its name, is
    another amount than it was asked for.
    """
    asked, own = undo.request.money or original.request.money, {*effects_told(undo), undo.key}
    if asked is None or undo.compensates != original.key:
        return False
    return any(
        one.other_currency or one.minor not in {None, asked.minor}
        for one in given_back(original)
        if one.reference in own
    )


def _is_answered_otherwise(action: Action) -> bool:
    """Whether the answer to an action of money was that only a part of it was done, or another
    amount, and nobody but a person has said since that it is there.
    """
    if action.request.money is None or action.proof not in {None, PERSON}:
        return False
    codes = {one.code for one in action.attempts}
    in_part = {report_source(one.number, "partial") for one in action.attempts}
    return not codes.isdisjoint({PARTLY, OTHER_AMOUNT}) or not in_part.isdisjoint(action.sources)


def of_whole(minor: int, whole: Money) -> str:
    """How much of how much: `12.00 EUR of 50.00 EUR`."""
    part = Money(minor=min(minor, INTEGER_MAX), currency=whole.currency)
    return f"{format_money(part)} of {format_money(whole)}"


def names_of(foreign: tuple[Reversal, ...], own: tuple[str, ...] = ()) -> str:
    """The providers' names for what was given back, as one short text."""
    text = ", ".join(sorted((*own, *(one.reference or one.name for one in foreign))))
    return text if len(text) <= _NAMES_CHARS_MAX else f"{text[:_NAMES_CHARS_MAX]}…"
