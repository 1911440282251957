"""What Stripe's events mean.

Guarantees that any bytes have an answer. Must never verify or match: the first was done before, the
second is done after. Built by the kind, used by the webhook agent.

Types are those of docs.stripe.com/api/events/types. A payment is settled by its own events; those
of its charges say the same of the same object. A refund with our mark is an effect of its own, one
without it was made by somebody else and gives back what a payment took. A dispute gives it back
while it is open and when it is lost; under one reference, so it counts once. An inquiry
(`warning_…`) moves no money. Endpoints of Connect in live mode are sent events of test mode too,
under the same secret (docs.stripe.com/connect/webhooks): they speak of nothing that happened here.
Nor does an event of a connected account, which names it under `account`: nothing is done there for
one of ours, and whoever has it can write our mark into what is theirs.
"""

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from ledger.core.limits import TEXT_CHARS_MAX, WEBHOOK_BYTES_MAX
from ledger.core.strict_json import character_fault
from reconciler.providers.http.answers import UnreadableAnswer, read_json, value_at
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.providers.stripe.effects import (
    metadata_in,
    money_in,
    seconds_in,
    text_in,
    text_or_none,
)
from reconciler.providers.stripe.names import ACCOUNT, ACTION_KEY, PROVIDER_KEY

_Meaning: TypeAlias = Literal["final", "progress", "irrelevant"]
_Says: TypeAlias = Literal["exists", "none", "pending", "reversed"]
_Said: TypeAlias = tuple[_Meaning, _Says]

_PENDING: Final[_Said] = ("progress", "pending")
_PAYMENTS: Final[Mapping[str, _Said]] = {
    "payment_intent.succeeded": ("final", "exists"),
    "payment_intent.amount_capturable_updated": ("final", "exists"),
    "payment_intent.payment_failed": ("final", "none"),
    "payment_intent.canceled": ("final", "none"),
    "payment_intent.processing": _PENDING,
    "payment_intent.requires_action": _PENDING,
    "payment_intent.partially_funded": _PENDING,
}
_CHARGES: Final[Mapping[str, _Said]] = {
    "charge.succeeded": ("final", "exists"),
    # The payment may be tried again with another card: its own event says how it ended.
    "charge.failed": _PENDING,
    "charge.pending": _PENDING,
}
_REFUNDS: Final = frozenset(
    {"refund.created", "refund.updated", "refund.failed", "charge.refund.updated"}
)
_DISPUTES: Final = frozenset(
    {
        "charge.dispute.created",
        "charge.dispute.updated",
        "charge.dispute.closed",
        "charge.dispute.funds_withdrawn",
        "charge.dispute.funds_reinstated",
    }
)
_IRRELEVANT: Final = frozenset(
    {
        "payment_intent.created",
        "charge.captured",
        "charge.updated",
        # The sum of all refunds of a charge; each has an event of its own (since 2024-10-28).
        "charge.refunded",
    }
)
_KNOWN: Final = frozenset({*_PAYMENTS, *_CHARGES, *_REFUNDS, *_DISPUTES, *_IRRELEVANT})
SUBSCRIBED: Final = tuple(
    sorted({*_PAYMENTS, *_CHARGES, *_REFUNDS, *_DISPUTES} - {"charge.refund.updated"})
)
"""What a webhook endpoint is to be subscribed to, and what the list of events is asked for: at most
20 types (docs.stripe.com/api/events/list)."""

_LOST: Final = "lost"
_WON: Final = "won"
_REINSTATED: Final = "charge.dispute.funds_reinstated"
_TAKEN_BACK: Final = frozenset({"charge.dispute.created", "charge.dispute.funds_withdrawn"})
_REFUND_STATES: Final[Mapping[str, _Said]] = {
    "succeeded": ("final", "exists"),
    "failed": ("final", "none"),
    "canceled": ("final", "none"),
}


_FOREIGN_REFUND_STATES: Final[Mapping[str, _Said]] = {
    **_REFUND_STATES,
    "succeeded": ("final", "reversed"),
}


class StripeMapping:
    """Reads Stripe's events."""

    def __init__(self, accounts: frozenset[str], *, livemode: bool | None = None) -> None:
        """`accounts` of the description: where there is one, an event without our mark is its;
        where there are several, that of the secret that verified it. `livemode` is that of the
        keys, where it is said.
        """
        self._only = next(iter(accounts)) if len(accounts) == 1 else None
        self._livemode = livemode

    @property
    def described(self) -> str:
        """What the meaning of an event depends on beside the code."""
        return repr((self._only, self._livemode))

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Say what one event means; see the port."""
        if len(raw) > WEBHOOK_BYTES_MAX:
            return Unrecognised("too_large")
        try:
            event = read_json(raw)
        except UnreadableAnswer:
            return Unrecognised("not_json")
        event_type = value_at(event, ("type",))
        if (
            not isinstance(event_type, str)
            or not 0 < len(event_type) <= TEXT_CHARS_MAX
            or character_fault(event_type) is not None
        ):
            return Unrecognised("no_event_type")
        if event_type not in _KNOWN:
            return Unrecognised("unknown_event_type", event_type)
        if self._livemode is not None and value_at(event, ("livemode",)) is not self._livemode:
            return Unrecognised("other_mode", event_type)
        if value_at(event, ("account",)) is not None:
            return Unrecognised("other_account", event_type)
        try:
            return self._mapped(event, event_type)
        except UnreadableAnswer:
            return Unrecognised("malformed_event", event_type)

    def _mapped(self, event: object, event_type: str) -> MappedWebhook | Unrecognised:
        """An event of a known type; raises UnreadableAnswer."""
        about = value_at(event, ("data", "object"))
        marks = metadata_in(about)
        account = marks.get(ACCOUNT) or self._only
        meaning, effect = _said(about, event_type, marks)
        payment = text_or_none(about, "payment_intent")
        # A charge is its payment: what is known of the effect is known by the payment's name.
        is_charge = event_type in _CHARGES and payment is not None
        gives_back = event_type in _DISPUTES or (
            event_type in _REFUNDS and marks.get(ACTION_KEY) is None
        )
        money = money_in(about, _amount_of(event_type, about))
        if money is None and meaning == "final":
            # An amount that cannot be compared with the action's own settles nothing.
            raise UnreadableAnswer
        return MappedWebhook(
            meaning=meaning,
            effect=effect,
            event_id=text_in(event, "id"),
            event_type=event_type,
            account=account,
            reference=payment if is_charge else text_in(about, "id"),
            action_key=marks.get(ACTION_KEY),
            provider_key=marks.get(PROVIDER_KEY),
            money=money,
            occurred_at=seconds_in(event, "created"),
            reverses=(payment or text_or_none(about, "charge")) if gives_back else None,
        )


def _said(about: object, event_type: str, marks: Mapping[str, str]) -> _Said:
    if event_type in _IRRELEVANT:
        return "irrelevant", "pending"
    if event_type in _REFUNDS:
        status = text_in(about, "status")
        if marks.get(ACTION_KEY) is not None:
            return _REFUND_STATES.get(status, _PENDING)
        # One that fails after it had succeeded gives back what it took: nothing was given back.
        return _FOREIGN_REFUND_STATES.get(status, _PENDING)
    if event_type in _DISPUTES:
        status = text_in(about, "status")
        if event_type == _REINSTATED or status == _WON:
            return "final", "none"
        takes = event_type in _TAKEN_BACK and not status.startswith("warning")
        return ("final", "reversed") if takes or status == _LOST else _PENDING
    if event_type == "charge.succeeded" and value_at(about, ("captured",)) is not True:
        return _PENDING
    return _PAYMENTS.get(event_type) or _CHARGES[event_type]


def _amount_of(event_type: str, about: object) -> str:
    """Where the amount stands that the event speaks of."""
    match event_type:
        case "payment_intent.succeeded":
            return "amount_received"
        case "payment_intent.amount_capturable_updated":
            return "amount_capturable"
        case "charge.succeeded" if value_at(about, ("captured",)) is True:
            return "amount_captured"
        case _:
            return "amount"
