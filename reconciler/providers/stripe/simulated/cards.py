"""Which test payment method does what: the names that Stripe publishes for test accounts.

docs.stripe.com/testing names the payment methods, docs.stripe.com/declines/codes the decline codes,
docs.stripe.com/error-codes the error codes. Pure data. Used by the rules and the objects.
"""

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Declined:
    """How Stripe says no to a card: an error code, and the issuer's reason."""

    code: str
    decline_code: str


DECLINES: Final = {
    "pm_card_visa_chargeDeclined": "generic_decline",
    "pm_card_visa_chargeDeclinedInsufficientFunds": "insufficient_funds",
    "pm_card_visa_chargeDeclinedLostCard": "lost_card",
    "pm_card_visa_chargeDeclinedStolenCard": "stolen_card",
    "pm_card_visa_chargeDeclinedVelocityLimitExceeded": "card_velocity_exceeded",
    "pm_card_chargeDeclinedExpiredCard": "expired_card",
    "pm_card_chargeDeclinedIncorrectCvc": "incorrect_cvc",
    "pm_card_chargeDeclinedProcessingError": "processing_error",
    "pm_card_authenticationRequired": "authentication_required",
}
"""By payment method, the decline code that it brings."""

_OWN_CODES: Final = frozenset(
    {"authentication_required", "expired_card", "incorrect_cvc", "processing_error"}
)
"""Declines that have an error code of their own; the others are `card_declined`."""

SLOW_METHODS: Final = frozenset({"pm_usBankAccount", "pm_sepaDebit"})
"""Bank debits: a payment is `processing` until the bank has answered, which takes days."""

PENDING_REFUND: Final = "pm_card_pendingRefund"
"""Refunds of it begin as `pending`."""

Settled = Literal["succeeded", "failed", "canceled"]


def declined(reason: str) -> Declined:
    """How Stripe words a decline for this reason; `card_declined` is one without a reason."""
    if reason == "card_declined":
        return Declined("card_declined", "generic_decline")
    return Declined(reason if reason in _OWN_CODES else "card_declined", reason)
