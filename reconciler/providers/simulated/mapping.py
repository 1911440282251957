"""What the simulated provider's webhooks mean.

Guarantees that any bytes have an answer. Must never verify or match: the first was done before, the
second is done after. Built by the registry, used by the webhook agent.
"""

from typing import Final, Literal, TypeAlias

from pydantic import ValidationError

from ledger.core.limits import TEXT_CHARS_MAX, WEBHOOK_BYTES_MAX
from ledger.core.strict_json import MalformedJson, parse
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.providers.simulated.api import JSON_DEPTH_MAX, Event

_Meaning: TypeAlias = tuple[Literal["final", "progress"], Literal["exists", "none", "pending"]]

_MEANINGS: Final[dict[str, _Meaning]] = {
    "effect.settled": ("final", "exists"),
    "effect.refused": ("final", "none"),
    "effect.pending": ("progress", "pending"),
}


class SimulatedMapping:
    """Reads the simulated provider's webhooks."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Say what one webhook body means; see the port."""
        try:
            value = parse(raw, depth_max=JSON_DEPTH_MAX, bytes_max=WEBHOOK_BYTES_MAX)
        except MalformedJson as fault:
            return Unrecognised(fault.code.value)
        event_type = value.get("type") if isinstance(value, dict) else None
        if not isinstance(event_type, str) or len(event_type) > TEXT_CHARS_MAX:
            return Unrecognised("no_event_type")
        if event_type not in _MEANINGS:
            return Unrecognised("unknown_event_type", event_type)
        try:
            event = Event.model_validate(value)
        except ValidationError:
            return Unrecognised("malformed_event", event_type)
        meaning, effect = _MEANINGS[event.type]
        return MappedWebhook(
            meaning=meaning,
            effect=effect,
            event_id=event.id,
            event_type=event.type,
            account=event.account,
            reference=event.data.effect_id,
            action_key=event.data.metadata.action_key,
            provider_key=event.data.key,
            money=event.data.amount,
            occurred_at=event.created_at,
        )
