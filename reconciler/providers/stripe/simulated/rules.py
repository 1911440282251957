"""What Stripe refuses by what it holds: declined cards, and refunds of what is not there.

Guarantees that the answer comes from the book and the test payment method alone. Refunds follow
docs.stripe.com/refunds: in part, several times, together at most what was paid, nothing of a
payment that is disputed. Called by the desk in the step that would make the effect.
"""

from collections.abc import Callable
from typing import Final

from reconciler.providers.simulated.api import Problem
from reconciler.providers.simulated.book import Arrival
from reconciler.providers.simulated.effects import Not
from reconciler.providers.stripe.simulated.cards import DECLINES
from reconciler.providers.stripe.simulated.objects import PAYMENT, REFUND, Shelf

TOO_MUCH: Final = "refund_over_what_is_left"
"""Of our own making: Stripe gives this error no code."""

NOTHING_PAID: Final = "nothing_to_refund"
"""Likewise."""


def rule_of(shelf: Shelf) -> Callable[[Arrival], Not | None]:
    """Why a request has no effect, by what is on the shelf."""

    def rule(arrival: Arrival) -> Not | None:
        if arrival.operation == REFUND:
            return _refund(arrival, shelf)
        reason = DECLINES.get((arrival.detail or {}).get("payment_method", ""))
        return None if reason is None else _no(402, reason, "Your card was declined.")

    return rule


def _refund(arrival: Arrival, shelf: Shelf) -> Not | None:
    name = arrival.body.original or ""
    payment = shelf.get(name)
    if payment is None or payment.kind != PAYMENT or payment.account != arrival.account:
        return _no(404, "resource_missing", f"No such payment_intent: '{name}'")
    if payment.status != "succeeded":
        return _no(400, NOTHING_PAID, "This PaymentIntent does not have a successful charge.")
    if any(one.status != "won" for one in shelf.taken_from(name, "dispute")):
        return _no(400, "charge_disputed", "The charge has been charged back.")
    left = payment.amount - shelf.refunded(name)
    if left <= 0:
        return _no(400, "charge_already_refunded", "The charge has already been refunded.")
    amount = int((arrival.detail or {})["amount"])
    if amount > left:
        return _no(400, TOO_MUCH, f"Refund amount ({amount}) is greater than what is left ({left})")
    return None


def _no(status: int, code: str, message: str) -> Not:
    return Not(status, Problem(code=code, message=message))
