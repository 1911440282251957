"""Reads Stripe's own list of events, to find those that no webhook brought.

Guarantees that events come oldest first and that a list with a hole never passes for one without.
Stripe keeps events for 30 days (docs.stripe.com/api/events). An event's bytes are those of its
object in the list, so they need not be those of the webhook; its id is. One that cannot be read is
brought as well, for a person, and ends no reading. Has no way to make an effect.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final

from reconciler.providers.events import EventsFailed, ListedEvent
from reconciler.providers.http.answers import UnreadableAnswer
from reconciler.providers.http.pages import item_or_none
from reconciler.providers.http_exchange import Exchanges, HttpClient
from reconciler.providers.lookups import Unanswered
from reconciler.providers.stripe.asking import Asking, as_written
from reconciler.providers.stripe.effects import text_in
from reconciler.providers.stripe.mapping import SUBSCRIBED
from reconciler.providers.stripe.names import EVENTS

INTERVAL_MS: Final = 300_000
OVERLAP_MS: Final = 900_000
KEPT_MS: Final = 30 * 24 * 3_600_000


class StripeEvents:
    """Lists events at Stripe."""

    interval_ms = INTERVAL_MS
    overlap_ms = OVERLAP_MS
    kept_ms = KEPT_MS

    def __init__(
        self, base_url: str, api_keys: Mapping[str, str], *, http: Exchanges | None = None
    ) -> None:
        """`api_keys` by account name; `http` stands in for the network. Nothing is opened yet;
        raises ValueError for the URL.
        """
        self._asking = Asking(HttpClient(base_url) if http is None else http, api_keys)

    @property
    def accounts(self) -> frozenset[str]:
        """Those whose credential is known here."""
        return self._asking.accounts

    async def list_events(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[tuple[ListedEvent, ...]]:
        """The events that mean something here, oldest first; see the port."""
        query = {"types": list(SUBSCRIBED)}
        walk = self._asking.walk(
            account, EVENTS, query, since_at // 1000, timeout_ms, reading=as_written
        )
        try:
            async for stretch in walk:
                if stretch:
                    yield tuple(map(_listed, stretch))
        except Unanswered as unanswered:
            raise EventsFailed(unanswered.code) from None

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._asking.close()


def _listed(raw: bytes) -> ListedEvent:
    try:
        return ListedEvent(text_in(item_or_none(raw), "id"), raw)
    except UnreadableAnswer:
        return ListedEvent(None, raw)
