"""What a consumer reports back, as a webhook of the outbox.

Guarantees that any bytes have an answer. The form is our own; `consumer` writes it. Must never
verify. Built by the kind, used by the webhook agent.
"""

from typing import Literal

from pydantic import ValidationError

from ledger.core.limits import WEBHOOK_BYTES_MAX
from ledger.core.money import Money
from ledger.core.wire import Text, Wire
from reconciler.providers.port import MappedWebhook, Unrecognised


class EffectReport(Wire):
    """That one effect exists, by whoever made it: in the transaction that it was made in."""

    type: Literal["effect.made"] = "effect.made"
    event_id: Text
    account: Text
    action_key: Text
    provider_key: Text
    reference: Text
    money: Money | None = None
    occurred_at: int


class KafkaMapping:
    """Reads reports."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Say what one body means; see the port."""
        if len(raw) > WEBHOOK_BYTES_MAX:
            return Unrecognised("too_large")
        try:
            report = EffectReport.model_validate_json(raw)
        except ValidationError:
            return Unrecognised("not_a_report")
        return MappedWebhook(
            meaning="final",
            effect="exists",
            event_id=report.event_id,
            event_type=report.type,
            account=report.account,
            reference=report.reference,
            action_key=report.action_key,
            provider_key=report.provider_key,
            money=report.money,
            occurred_at=report.occurred_at,
        )
