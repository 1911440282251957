"""Stripe's minor units and ours, which are those of ISO 4217, and where the two differ.

Guarantees that an amount is converted exactly or refused: nothing is rounded. Three of Stripe's
rules part from ISO (docs.stripe.com/currencies): ISK and UGX have no decimals but are written with
two, MGA has two and is written with none, and amounts in currencies with three decimals end in 0.
Pure.
"""

from typing import Final

from pydantic import ValidationError

from ledger.core.limits import INTEGER_MAX
from ledger.core.money import Money, code_of, exponent

_HUNDREDFOLD: Final = frozenset({"ISK", "UGX"})
_HUNDREDTH: Final = frozenset({"MGA"})
_THREE: Final = 3


def stripe_amount(money: Money) -> int | None:
    """The amount as Stripe writes it, or None where Stripe cannot be asked for it."""
    if money.currency in _HUNDREDFOLD:
        amount = money.minor * 100
        return amount if amount <= INTEGER_MAX else None
    if money.currency in _HUNDREDTH:
        return None if money.minor % 100 else money.minor // 100
    if exponent(money.currency) >= _THREE and money.minor % 10:
        return None
    return money.minor


def money_of(amount: int, currency: str) -> Money | None:
    """What Stripe's amount and lower-case currency come to; None if that is no money of ours."""
    code = code_of(currency)
    if code in _HUNDREDFOLD:
        if amount % 100:
            return None
        amount //= 100
    if code in _HUNDREDTH:
        amount *= 100
    try:
        return Money(minor=amount, currency=code)
    except ValidationError:
        return None
