"""Stripe's objects as effects: whose they are, how much, and whether the money moves.

Guarantees that an object is taken only if it is exactly what the API reference shows; anything else
is `UnreadableAnswer`. Statuses are those of docs.stripe.com/payments/paymentintents/lifecycle and
docs.stripe.com/refunds. Pure. Used by performer, finder and mapping.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from ledger.core.limits import TEXT_CHARS_MAX
from ledger.core.money import Money
from ledger.core.strict_json import character_fault
from reconciler.providers.http.answers import UnreadableAnswer, value_at
from reconciler.providers.limits import REFERENCE_CHARS_MAX
from reconciler.providers.stripe.amounts import money_of
from reconciler.providers.stripe.names import (
    ACCOUNT,
    ACTION_KEY,
    OPERATION,
    PROVIDER_KEY,
    REQUEST_HASH,
)

State: TypeAlias = Literal["exists", "none", "pending"]

PAYMENT: Final = "payment_intent"
REFUND: Final = "refund"

_STATES: Final[Mapping[str, Mapping[str, State]]] = {
    PAYMENT: {
        "succeeded": "exists",
        # A hold that was asked for with capture_method = manual; the hold is the effect then.
        "requires_capture": "exists",
        "processing": "pending",
        "requires_action": "pending",
        "requires_confirmation": "pending",
        # Declined, and nobody has tried it again: no money has moved.
        "requires_payment_method": "none",
        "canceled": "none",
    },
    REFUND: {
        "succeeded": "exists",
        "pending": "pending",
        "requires_action": "pending",
        "failed": "none",
        "canceled": "none",
    },
}


@dataclass(frozen=True, slots=True)
class Effect:
    """A PaymentIntent or a Refund; `created_at` in milliseconds, by Stripe's clock."""

    reference: str
    kind: str
    status: str
    state: State
    money: Money | None
    created_at: int
    marks: Mapping[str, str]
    payment: str | None

    @property
    def action_key(self) -> str | None:
        """The action that made it, by our mark."""
        return self.marks.get(ACTION_KEY)

    @property
    def provider_key(self) -> str | None:
        """The idempotency key that it was made under, by our mark."""
        return self.marks.get(PROVIDER_KEY)

    @property
    def request_hash(self) -> str | None:
        """The hash of the request that made it, by our mark."""
        return self.marks.get(REQUEST_HASH)

    @property
    def account(self) -> str | None:
        """Our name of the account that it was made on, by our mark."""
        return self.marks.get(ACCOUNT)

    @property
    def operation(self) -> str:
        """The operation that made it; Stripe's word where it is not ours."""
        return self.marks.get(OPERATION) or self.kind

    @property
    def result(self) -> dict[str, JsonValue]:
        """What of it is worth keeping: bounded, and without personal fields."""
        told: dict[str, JsonValue] = {
            "id": self.reference,
            "object": self.kind,
            "status": self.status,
            "created": self.created_at,
        }
        if self.money is not None:
            told["amount"] = {"minor": self.money.minor, "currency": self.money.currency}
        if self.payment is not None:
            told["payment_intent"] = self.payment
        return told


def effect_of(value: object) -> Effect:
    """A payment or a refund; raises UnreadableAnswer."""
    kind = text_in(value, "object")
    states = _STATES.get(kind)
    if states is None:
        raise UnreadableAnswer
    status = text_in(value, "status")
    # Of a hold that was captured in part, less was taken than asked for.
    amount = "amount_received" if kind == PAYMENT and status == "succeeded" else "amount"
    return Effect(
        reference=text_in(value, "id"),
        kind=kind,
        status=status,
        # A status of a later version of the API is not understood: neither there nor not.
        state=states.get(status, "pending"),
        money=money_in(value, amount),
        created_at=seconds_in(value, "created"),
        marks=metadata_in(value),
        payment=text_or_none(value, "payment_intent") if kind == REFUND else None,
    )


def text_in(value: object, name: str) -> str:
    """A text that can be a name; raises UnreadableAnswer."""
    text = value_at(value, (name,))
    if isinstance(text, str) and 0 < len(text) <= REFERENCE_CHARS_MAX and not character_fault(text):
        return text
    raise UnreadableAnswer


def text_or_none(value: object, name: str) -> str | None:
    """The same, or None where there is none; an object in its place counts by its id."""
    inner = value_at(value, (name,))
    if inner is None:
        return None
    return text_in(inner, "id") if isinstance(inner, dict) else text_in(value, name)


def money_in(value: object, name: str) -> Money | None:
    """An amount with the object's currency; None for a currency that we do not know, which is
    nobody's action. Raises UnreadableAnswer.
    """
    amount = value_at(value, (name,))
    if isinstance(amount, bool) or not isinstance(amount, int) or amount < 0:
        raise UnreadableAnswer
    return money_of(amount, text_in(value, "currency"))


def seconds_in(value: object, name: str) -> int:
    """A time stamp of Stripe as milliseconds; raises UnreadableAnswer."""
    seconds = value_at(value, (name,))
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 <= seconds < 2**40:
        raise UnreadableAnswer
    return seconds * 1000


def metadata_in(value: object) -> dict[str, str]:
    """The texts in an object's metadata; without any it is empty."""
    metadata = value_at(value, ("metadata",))
    if not isinstance(metadata, dict):
        return {}
    return {
        name: text
        for name, text in metadata.items()
        if isinstance(text, str) and len(text) <= TEXT_CHARS_MAX and not character_fault(text)
    }
