"""What the simulated Stripe tells: events, kept for its own list and sent as webhooks.

Guarantees that an event is on disk before it is told of, keeps its id, and shows the object as it
was then. Types are those of docs.stripe.com/api/events/types, the signature that of
docs.stripe.com/webhooks (`t=…,v1=…`, HMAC-SHA256 with the text of the secret). The server is its
only caller.
"""

import hashlib
import hmac
import os
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from pydantic import Field

from ledger.core.wire import Count, Json, Milliseconds, Text, Wire
from reconciler.providers.simulated.faults import WebhookStep
from reconciler.providers.simulated.webhooks import Told
from reconciler.providers.stripe.names import VERSION
from reconciler.providers.stripe.simulated.objects import (
    PAYMENT,
    Happening,
    Object,
    Shelf,
    Thing,
    charge_shown,
    refund_shown,
    shown,
)

JOURNAL_NAME: Final = "events.jsonl"
_FILE_MODE: Final = 0o600
_OPENED: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW


class Kept(Wire):
    """One line of the journal: an event, a happening, or both."""

    account: Text
    event_id: Text | None = None
    type: Text | None = None
    created_at: Milliseconds = 0
    event: dict[str, Json] = Field(default_factory=dict)
    happening: Happening | None = None
    number: Count


class Journal:
    """Events and happenings of one server, on disk."""

    def __init__(self, folder: Path, shelf: Shelf) -> None:
        """Read what is there and let it happen again. The book must have been read before."""
        self._path = folder / JOURNAL_NAME
        self._shelf = shelf
        self._events: defaultdict[str, list[Kept]] = defaultdict(list)
        self._last = 0
        self._descriptor = os.open(self._path, _OPENED, _FILE_MODE)
        for raw in self._path.read_bytes().splitlines(keepends=True):
            if raw.endswith(b"\n"):
                self._take(Kept.model_validate_json(raw))

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def reset(self) -> None:
        """Forget everything."""
        os.ftruncate(self._descriptor, 0)
        self._events.clear()
        self._last = 0

    @property
    def next_number(self) -> int:
        """The number of the next line, which no other line has."""
        return self._last + 1

    def happen(self, account: str, happening: Happening) -> None:
        """Write down that something happened, and let it show."""
        self._write(Kept(account=account, happening=happening, number=self.next_number))

    def events(self, account: str) -> Sequence[Kept]:
        """The account's events, oldest first."""
        return self._events.get(account, ())

    def tell(
        self, account: str, about: Sequence[tuple[str, Object]], key: str | None
    ) -> list[Kept]:
        """Write events of these types about these objects, `key` being that of the request."""
        told: list[Kept] = []
        for event_type, object_now in about:
            number, now = self.next_number, time.time_ns() // 1_000_000
            event: dict[str, Json] = {
                "id": f"evt_{number}",
                "object": "event",
                "api_version": VERSION,
                "created": now // 1000,
                "data": {"object": object_now},
                "livemode": False,
                "pending_webhooks": 1,
                "request": {"id": f"req_{number}" if key else None, "idempotency_key": key},
                "type": event_type,
            }
            kept = Kept(
                account=account,
                event_id=f"evt_{number}",
                type=event_type,
                created_at=now,
                event=event,
                number=number,
            )
            self._write(kept)
            told.append(kept)
        return told

    def _write(self, kept: Kept) -> None:
        os.write(self._descriptor, kept.model_dump_json().encode() + b"\n")
        self._take(kept)

    def _take(self, kept: Kept) -> None:
        self._last = max(self._last, kept.number)
        if kept.happening is not None:
            self._shelf.happen(kept.happening)
        if kept.event_id is not None:
            self._events[kept.account].append(kept)


def events_of(thing: Thing, shelf: Shelf) -> list[tuple[str, Object]]:
    """The events of an object that was just made, or that something just happened to."""
    is_new = shelf.made.get(thing.id) is thing
    match thing.kind:
        case "payment_intent":
            return _of_payment(thing, shelf, is_new=is_new)
        case "refund":
            return _of_refund(thing, shelf, is_new=is_new)
        case _:
            return _of_dispute(thing, is_new=is_new)


def _of_payment(thing: Thing, shelf: Shelf, *, is_new: bool) -> list[tuple[str, Object]]:
    told = {
        "succeeded": "payment_intent.succeeded",
        "processing": "payment_intent.processing",
        "requires_capture": "payment_intent.amount_capturable_updated",
        "requires_payment_method": "payment_intent.payment_failed",
        "canceled": "payment_intent.canceled",
    }
    charged = {
        "succeeded": "charge.succeeded",
        "processing": "charge.pending",
        "requires_capture": "charge.succeeded",
        "requires_payment_method": "charge.failed",
    }
    about: list[tuple[str, Object]] = []
    payment = shown(thing)
    if is_new:
        about.append(("payment_intent.created", payment))
    if thing.status in charged:
        about.append((charged[thing.status], charge_shown(thing, shelf)))
    about.append((told[thing.status], payment))
    return about


def _of_refund(thing: Thing, shelf: Shelf, *, is_new: bool) -> list[tuple[str, Object]]:
    refund = refund_shown(thing)
    if not is_new:
        updated = [("refund.updated", refund), ("charge.refund.updated", refund)]
        return [*updated, ("refund.failed", refund)] if thing.status == "failed" else updated
    payment = shelf.get(thing.of or "")
    if payment is None or payment.kind != PAYMENT:
        return [("refund.created", refund)]
    return [("refund.created", refund), ("charge.refunded", charge_shown(payment, shelf))]


def _of_dispute(thing: Thing, *, is_new: bool) -> list[tuple[str, Object]]:
    dispute = shown(thing)
    if is_new:
        opened = [("charge.dispute.created", dispute)]
        is_inquiry = thing.status.startswith("warning")
        withdrawn = [] if is_inquiry else [("charge.dispute.funds_withdrawn", dispute)]
        return [*opened, *withdrawn]
    closed = [("charge.dispute.closed", dispute)]
    if thing.status == "won":
        closed.append(("charge.dispute.funds_reinstated", dispute))
    return closed


# --- as webhooks ----------------------------------------------------------------------------------


def planned(steps: Sequence[WebhookStep], kept: Sequence[Kept]) -> list[Told]:
    """The sendings of a request's events, step by step."""
    told: list[Told] = []
    for step in steps:
        events = list(reversed(kept)) if step.kind == "out_of_order" else list(kept)
        for one in events:
            body = orjson.dumps(_wrong(one.event) if step.kind == "wrong_amount" else one.event)
            sending = Told(
                one.event_id or "",
                body.decode(),
                step.delay_ms,
                is_forged=step.kind == "forged",
            )
            told.extend([sending] * (2 if step.kind == "twice" else 1))
    return told


def _wrong(event: dict[str, Any]) -> dict[str, Any]:
    """The same event with ten times every amount of its object."""
    data = event["data"]
    inner = {
        name: value * 10 if name.startswith("amount") and isinstance(value, int) else value
        for name, value in data["object"].items()
    }
    return {**event, "data": {**data, "object": inner}}


def signed(event_id: str, body: str, secret: str) -> dict[str, str]:
    """The header of a body that is sent now; the id stands in the body."""
    _ = event_id
    stamp = int(time.time())
    made = hmac.new(secret.encode(), f"{stamp}.{body}".encode(), hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json; charset=utf-8",
        "stripe-signature": f"t={stamp},v1={made}",
    }
