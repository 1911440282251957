"""Stripe's objects, derived from the book and from what happened to them later.

Guarantees that an object is what the lines of the book and the happenings say and nothing else, so
it comes back whole after a restart. The fields and statuses are those of docs.stripe.com/api
(payment_intents/object, charges/object, refunds/object, disputes/object, balance_transactions).
Must never write. Used by the server, its rules and its events.
"""

from bisect import insort
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from ledger.core.wire import Count, Milliseconds, Text, Wire
from reconciler.providers.simulated.book import Line
from reconciler.providers.stripe.simulated import unread
from reconciler.providers.stripe.simulated.cards import PENDING_REFUND, SLOW_METHODS, declined

PAYMENT: Final = "payment_intent"
REFUND: Final = "refund"
METADATA: Final = "metadata."
_DECLINED: Final = 402
_FEE_PER_THOUSAND: Final = 29
_FEE_FIXED: Final = 30

Object = dict[str, JsonValue]


class Happening(Wire):
    """Something that became of an object after its request: a bank answered, a cardholder disputed.

    `status` is the new status of the object; of a dispute, which has an id of its own, `about` is
    the payment.
    """

    number: Count
    id: Text
    status: Text
    at: Milliseconds
    about: Text | None = None
    reason: Text | None = None
    amount: Count | None = None


@dataclass(frozen=True, slots=True)
class Thing:
    """One payment, refund or dispute as it stands now. Amounts are Stripe's minor units."""

    id: str
    account: str
    kind: str
    amount: int
    currency: str
    status: str
    created_ms: int
    detail: Mapping[str, str]
    reason: str | None = None
    of: str | None = None
    """What it takes from: the payment of a refund or of a dispute."""


@dataclass(slots=True)
class Shelf:
    """All objects of one server."""

    things: dict[str, Thing] = field(default_factory=dict)
    made: dict[str, Thing] = field(default_factory=dict)
    """Each as it was when it was made: what the same key is answered with."""
    order: defaultdict[tuple[str, str], list[str]] = field(
        default_factory=lambda: defaultdict(list)
    )
    taken: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def take(self, line: Line) -> None:
        """Put the object of a line of the book here, if it made one."""
        detail = line.detail
        if detail is None or line.amount is None:
            return
        if line.operation == PAYMENT and line.status == _DECLINED:
            self.put(_declined_payment(line, detail))
        elif line.effect_id is not None and line.committed_at is not None:
            self.put(_made(line, line.effect_id, detail, self.get(line.original or "")))

    def happen(self, happening: Happening) -> None:
        """Let something happen to an object; what is unknown is left alone."""
        about = self.things.get(happening.about or "")
        known = self.things.get(happening.id)
        if known is not None:
            self.things[known.id] = replace(
                known, status=happening.status, reason=happening.reason or known.reason
            )
        elif about is not None:
            self.put(
                Thing(
                    id=happening.id,
                    account=about.account,
                    kind="dispute",
                    amount=happening.amount or about.amount,
                    currency=about.currency,
                    status=happening.status,
                    created_ms=happening.at,
                    detail={},
                    reason=happening.reason,
                    of=about.id,
                )
            )

    def clear(self) -> None:
        """Forget everything."""
        self.things.clear()
        self.made.clear()
        self.order.clear()
        self.taken.clear()

    def get(self, object_id: str) -> Thing | None:
        """The object of this id."""
        return self.things.get(object_id)

    def of_account(self, account: str, kind: str) -> Sequence[str]:
        """Ids of an account's objects of one kind, in the order they were made."""
        return self.order.get((account, kind), ())

    def taken_from(self, payment: str, kind: str) -> Iterator[Thing]:
        """The refunds or disputes of a payment."""
        for object_id in self.taken.get(payment, ()):
            thing = self.things[object_id]
            if thing.kind == kind:
                yield thing

    def refunded(self, payment: str) -> int:
        """How much of a payment was given back, or is about to be."""
        counted = {"succeeded", "pending", "requires_action"}
        return sum(one.amount for one in self.taken_from(payment, REFUND) if one.status in counted)

    def put(self, thing: Thing) -> None:
        """Put a new object here."""
        self.things[thing.id] = self.made[thing.id] = thing
        insort(
            self.order[thing.account, thing.kind],
            thing.id,
            key=lambda object_id: self.things[object_id].created_ms,
        )
        if thing.of is not None:
            self.taken[thing.of].append(thing.id)


def _declined_payment(line: Line, detail: Mapping[str, str]) -> Thing:
    """A payment whose card was declined: Stripe keeps it, and waits for another card."""
    amount = line.amount
    assert amount is not None  # noqa: S101 - its caller looked
    return Thing(
        id=declined_id(line.request_id),
        account=line.account,
        kind=PAYMENT,
        amount=int(detail["amount"]),
        currency=amount.currency,
        status="requires_payment_method",
        created_ms=line.decided_at,
        detail=detail,
        reason=line.code,
    )


def declined_id(request_id: str) -> str:
    """The id of the payment that a declined request leaves behind."""
    return f"pi_d{request_id.removeprefix('rq_')}"


def _made(line: Line, made: str, detail: Mapping[str, str], original: Thing | None) -> Thing:
    amount = line.amount
    assert amount is not None  # noqa: S101 - its caller looked
    if line.operation == REFUND:
        method = "" if original is None else original.detail.get("payment_method", "")
        status = "pending" if method == PENDING_REFUND else "succeeded"
    elif detail.get("payment_method") in SLOW_METHODS:
        status = "processing"
    else:
        status = "requires_capture" if detail.get("capture_method") == "manual" else "succeeded"
    return Thing(
        id=made,
        account=line.account,
        kind=line.operation,
        amount=int(detail["amount"]),
        currency=amount.currency,
        status=status,
        created_ms=line.committed_at or line.decided_at,
        detail=detail,
        of=line.original,
    )


# --- as Stripe shows them -------------------------------------------------------------------------


def metadata_of(thing: Thing) -> dict[str, JsonValue]:
    """What the request wrote into the object's metadata."""
    return {
        name.removeprefix(METADATA): value
        for name, value in thing.detail.items()
        if name.startswith(METADATA)
    }


def charge_id(payment: str) -> str:
    """The charge of a payment; each has one here."""
    return f"ch_{payment.removeprefix('pi_')}"


def payment_of_charge(charge: str) -> str:
    """The payment whose charge this is."""
    return f"pi_{charge.removeprefix('ch_')}"


def shown(thing: Thing) -> Object:
    """The object as the API shows it now."""
    match thing.kind:
        case "payment_intent":
            return payment_shown(thing)
        case "refund":
            return refund_shown(thing)
        case _:
            return dispute_shown(thing)


def payment_shown(thing: Thing) -> Object:
    """A PaymentIntent."""
    received = thing.amount if thing.status == "succeeded" else 0
    capturable = thing.amount if thing.status == "requires_capture" else 0
    reason = thing.reason
    error: JsonValue = None
    if thing.status == "requires_payment_method" and reason is not None:
        error = {
            "type": "card_error",
            "code": declined(reason).code,
            "decline_code": declined(reason).decline_code,
        }
    return {
        **unread.PAYMENT,
        "id": thing.id,
        "object": "payment_intent",
        "amount": thing.amount,
        "amount_capturable": capturable,
        "amount_received": received,
        "canceled_at": None,
        "cancellation_reason": reason if thing.status == "canceled" else None,
        "capture_method": thing.detail.get("capture_method", "automatic"),
        "confirmation_method": "automatic",
        "created": thing.created_ms // 1000,
        "currency": thing.currency.lower(),
        "customer": thing.detail.get("customer"),
        "description": thing.detail.get("description"),
        "last_payment_error": error,
        "latest_charge": charge_id(thing.id),
        "livemode": False,
        "metadata": metadata_of(thing),
        "next_action": None,
        "payment_method": thing.detail.get("payment_method") if error is None else None,
        "payment_method_types": ["card"],
        "status": thing.status,
    }


def charge_shown(thing: Thing, shelf: Shelf) -> Object:
    """The charge of a PaymentIntent, with the metadata that Stripe copies onto it."""
    failed = thing.status == "requires_payment_method"
    refunded = shelf.refunded(thing.id)
    return {
        **unread.CHARGE,
        "id": charge_id(thing.id),
        "object": "charge",
        "amount": thing.amount,
        "amount_captured": thing.amount if thing.status == "succeeded" else 0,
        "amount_refunded": refunded,
        "balance_transaction": f"txn_{thing.id}" if thing.status == "succeeded" else None,
        "captured": thing.status == "succeeded",
        "created": thing.created_ms // 1000,
        "currency": thing.currency.lower(),
        "description": thing.detail.get("description"),
        "disputed": any(shelf.taken_from(thing.id, "dispute")),
        "failure_code": declined(thing.reason).code if failed and thing.reason else None,
        "livemode": False,
        "metadata": metadata_of(thing),
        "paid": thing.status in {"succeeded", "requires_capture"},
        "payment_intent": thing.id,
        "refunded": refunded >= thing.amount,
        "status": "failed"
        if failed
        else "pending"
        if thing.status == "processing"
        else "succeeded",
    }


def refund_shown(thing: Thing) -> Object:
    """A Refund."""
    payment = thing.of or ""
    return {
        **unread.REFUND,
        "id": thing.id,
        "object": "refund",
        "amount": thing.amount,
        "balance_transaction": f"txn_{thing.id}" if thing.status == "succeeded" else None,
        "charge": charge_id(payment),
        "created": thing.created_ms // 1000,
        "currency": thing.currency.lower(),
        "failure_reason": thing.reason if thing.status == "failed" else None,
        "metadata": metadata_of(thing),
        "payment_intent": payment,
        "reason": thing.detail.get("reason"),
        "receipt_number": None,
        "status": thing.status,
    }


def dispute_shown(thing: Thing) -> Object:
    """A Dispute. Its metadata is its own: it carries none of the payment's."""
    payment = thing.of or ""
    return {
        "id": thing.id,
        "object": "dispute",
        "amount": thing.amount,
        "charge": charge_id(payment),
        "created": thing.created_ms // 1000,
        "currency": thing.currency.lower(),
        "livemode": False,
        "metadata": {},
        "payment_intent": payment,
        "reason": thing.reason or "fraudulent",
        "status": thing.status,
    }


@dataclass(frozen=True, slots=True)
class Movement:
    """One balance transaction: what an object moved on the account's balance, in minor units."""

    id: str
    source: Thing
    category: str
    gross: int
    fee: int


def movements(shelf: Shelf, account: str) -> list[Movement]:
    """The account's balance transactions, oldest first.

    The categories are those of docs.stripe.com/reports/reporting-categories.
    """
    found: list[Movement] = []
    for kind, category, sign in ((PAYMENT, "charge", 1), (REFUND, "refund", -1)):
        for object_id in shelf.of_account(account, kind):
            thing = shelf.things[object_id]
            if thing.status == "succeeded":
                fee = thing.amount * _FEE_PER_THOUSAND // 1000 + _FEE_FIXED if sign > 0 else 0
                found.append(Movement(f"txn_{thing.id}", thing, category, sign * thing.amount, fee))
    for object_id in shelf.of_account(account, "dispute"):
        thing = shelf.things[object_id]
        found.append(Movement(f"txn_{thing.id}", thing, "dispute", -thing.amount, 0))
        if thing.status == "won":
            again = Movement(f"txn_{thing.id}_won", thing, "dispute_reversal", thing.amount, 0)
            found.append(again)
    return sorted(found, key=lambda one: one.source.created_ms)
