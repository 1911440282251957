"""What a described provider's webhooks mean.

Guarantees that any bytes have an answer. Must never verify or match: the first was done before, the
second is done after. Built by the registry, used by the webhook agent.
"""

import dataclasses

from ledger.core.limits import TEXT_CHARS_MAX, WEBHOOK_BYTES_MAX
from reconciler.providers.http.answers import (
    UnreadableAnswer,
    is_among_several,
    key_at,
    read_json,
    text_at,
    time_at,
)
from reconciler.providers.http.description import Composite, EventRow, Webhook
from reconciler.providers.http.effects import holds
from reconciler.providers.port import About, MappedWebhook, Unrecognised
from reconciler.schemes import STANDARD, hash_id


class HttpMapping:
    """Reads webhooks as a description says; one without any recognises nothing."""

    def __init__(self, webhook: Webhook | None) -> None:
        self._webhook = webhook

    @property
    def described(self) -> str:
        """What a description says of the meaning of webhooks; how they are signed and listed is
        none of it.
        """
        webhook = self._webhook
        return repr(webhook and dataclasses.replace(webhook, scheme=STANDARD, pull=None))

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:
        """Say what one webhook body means; see the port."""
        webhook = self._webhook
        if webhook is None:
            return Unrecognised("no_webhooks")
        if len(raw) > WEBHOOK_BYTES_MAX:
            return Unrecognised("too_large")
        try:
            event = read_json(raw)
        except UnreadableAnswer:
            return Unrecognised("not_json")
        if is_among_several(event, webhook.event_type):
            # One of them would be told, and nobody would ever hear of the others.
            return Unrecognised("several_events")
        try:
            event_type = key_at(event, webhook.event_type, TEXT_CHARS_MAX)
        except UnreadableAnswer:
            event_type = None
        if event_type is None:
            return Unrecognised("no_event_type")
        rows = webhook.meanings.get(event_type)
        if rows is None:
            return Unrecognised("unknown_event_type", event_type)
        row = next((row for row in rows if holds(event, row.equals)), None)
        if row is None:
            return Unrecognised("unknown_event_state", event_type)
        try:
            return _mapped(raw, event, event_type, webhook, row)
        except UnreadableAnswer:
            return Unrecognised("malformed_event", event_type)


def _mapped(
    raw: bytes, event: object, event_type: str, webhook: Webhook, row: EventRow
) -> MappedWebhook:
    """A webhook of a known type; raises UnreadableAnswer."""
    event_id = hash_id(raw) if webhook.event_id is None else text_at(event, webhook.event_id)
    account = text_at(event, webhook.account)
    reverses = text_at(event, webhook.reverses) if row.is_of_reversal else None
    if event_id is None or account is None or (row.is_of_reversal and reverses is None):
        # A giving back that came to nothing would else be word that the effect did.
        raise UnreadableAnswer
    return MappedWebhook(
        meaning=row.meaning,
        effect=row.effect,
        event_id=event_id,
        event_type=event_type,
        account=account,
        reference=text_at(event, webhook.reference),
        action_key=key_at(event, webhook.action_key, TEXT_CHARS_MAX),
        provider_key=key_at(event, webhook.provider_key, TEXT_CHARS_MAX),
        money=None if webhook.money is None else webhook.money.read(event),
        occurred_at=time_at(event, webhook.occurred_at.path, webhook.occurred_at.unit),
        reverses=reverses,
        about=None if webhook.composite is None else _about(event, webhook.composite),
    )


def _about(event: object, composite: Composite) -> About | None:
    """What a webhook says that it is about; None where it does not say all of it in texts that a
    name can be: what else it bears, a key of ours above all, counts all the same.
    """
    chars_max = TEXT_CHARS_MAX - len(composite.target_prefix)
    try:
        operation = text_at(event, composite.operation)
        target = key_at(event, composite.target, chars_max)
    except UnreadableAnswer:
        return None
    if operation is None or target is None:
        return None
    return About(operation, composite.target_prefix + target)
