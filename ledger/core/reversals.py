"""What was given back of an effect: by compensations of its own business event, or elsewhere.

A refund at the provider's desk, a dispute, a bank that takes its money back: the effect was there,
and the action stays completed. How much is known to have come back, and how much more may be given
back by ourselves, is told here from the stream alone.
"""

from typing import Final

from ledger.core.limits import INTEGER_MAX
from ledger.core.money import Money, format_money
from ledger.core.order import has_something_to_undo, is_reversed, original_of
from ledger.core.proof import effects_told, given_back
from ledger.core.state import Action, Reversal, Stream

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


def goes_beyond(stream: Stream, action: Action) -> str | None:
    """What was given back elsewhere of the original of a compensation, so that with this one more
    would come back than was taken; None where there is room, or a person lets it pass.
    """
    original = original_of(stream, action)
    foreign = () if original is None else reversed_elsewhere(stream, original)
    if original is None or not foreign:
        return None
    whole, told = original.request.money, names_of(foreign)
    if whole is None:
        return None if told in action.allowed else told
    elsewhere = minor_of(foreign, whole)
    told = f"{of_whole(elsewhere, whole)}: {told}"
    others = (
        one
        for one in compensations_of(stream, original)
        if one.key != action.key and has_something_to_undo(one) and not is_reversed(one)
    )
    undone = sum((one.request.money or whole).minor for one in (*others, action))
    return told if elsewhere + undone > whole.minor and told not in action.allowed else None


def differs_from_asked(stream: Stream, action: Action) -> str | None:
    """The original of a compensation, where its effect was told with another amount than was asked
    for, so that nobody can say here how much there is to give back; None where it was not, or a
    person lets this one pass.
    """
    original = original_of(stream, action)
    if original is None or original.request.money is None:
        return None
    is_open_to_doubt = original.review == "amount_differs" and original.key not in action.allowed
    return original.key if is_open_to_doubt else None


def of_whole(minor: int, whole: Money) -> str:
    """How much of how much: `12.00 EUR of 50.00 EUR`."""
    part = Money(minor=min(minor, INTEGER_MAX), currency=whole.currency)
    return f"{format_money(part)} of {format_money(whole)}"


def names_of(foreign: tuple[Reversal, ...], own: tuple[str, ...] = ()) -> str:
    """The providers' names for what was given back, as one short text."""
    text = ", ".join(sorted((*own, *(one.reference or one.name for one in foreign))))
    return text if len(text) <= _NAMES_CHARS_MAX else f"{text[:_NAMES_CHARS_MAX]}…"
