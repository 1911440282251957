"""When two events with different ids are one thing that happened.

Guarantees that the answer follows from what the mapping read and from nothing else: same object,
type, meaning, provider's time, marks and amount are one fact, under however many event ids it was
told. Must never look at lines of files and lists: their times are days, and equal amounts on one
day are ordinary; nor at what gives back without a name of its own: two equal refunds of one charge
in one second are two. Called by evidence and parking.
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
    is_named = any((mapped.names, mapped.action_key, mapped.provider_key))
    if mapped.effect == "reversed":
        is_named = None not in {mapped.reference, mapped.reverses}
        is_named = is_named and mapped.reference != mapped.reverses
    if source not in _TOLD or not is_named or not 0 < mapped.occurred_at <= TIME_MS_MAX:
        return None
    money = mapped.money
    said = (
        mapped.event_type,
        # An object can go on within one second, under one type: pending first, then settled.
        mapped.meaning,
        mapped.effect,
        mapped.account,
        mapped.reference,
        mapped.reverses,
        mapped.action_key,
        mapped.provider_key,
        None if money is None else (money.minor, money.currency),
        mapped.occurred_at,
    )
    return hashlib.sha256(to_json(said)).hexdigest()
