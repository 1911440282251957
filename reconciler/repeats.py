"""When two events with different ids are one thing that happened.

Guarantees that the answer follows from what the mapping read and from nothing else: same object,
type, provider's time, marks and amount are one fact, under however many event ids it was told. Must
never look at lines of files and lists: their times are days, and equal amounts on one day are
ordinary. Called by evidence and parking.
"""

import hashlib
from typing import Final

from pydantic_core import to_json

from ledger.log.webhook_record import WebhookSource
from reconciler.providers.port import MappedWebhook

_TOLD: Final = frozenset({"webhook", "pulled"})
TIME_MS_MAX: Final = 250_000_000_000_000
"""Year 9892: what a provider says beyond it is no time, and a `timestamptz` could not hold it."""


def fact_of(mapped: MappedWebhook, source: WebhookSource) -> str | None:
    """The hash of what happened; None where the event says too little to be told from others."""
    is_named = mapped.names or mapped.action_key or mapped.provider_key
    if source not in _TOLD or not is_named or not 0 < mapped.occurred_at <= TIME_MS_MAX:
        return None
    money = mapped.money
    said = (
        mapped.event_type,
        mapped.account,
        mapped.reference,
        mapped.reverses,
        mapped.action_key,
        mapped.provider_key,
        None if money is None else (money.minor, money.currency),
        mapped.occurred_at,
    )
    return hashlib.sha256(to_json(said)).hexdigest()
