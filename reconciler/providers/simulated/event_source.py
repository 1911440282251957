"""Reads the simulated provider's own list of events, where those stand that it never sent.

Guarantees that a page that cannot be read ends the list with a name. Has no way to make an effect.
Built by the adapter, held by the inquirer.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Final

from reconciler.providers.events import EventsFailed, ListedEvent
from reconciler.providers.http_exchange import Answered, HttpClient, Message
from reconciler.providers.limits import LIST_PAGES_MAX
from reconciler.providers.lookups import Unanswered
from reconciler.providers.port import Deadlines
from reconciler.providers.simulated.adapter import read_form
from reconciler.providers.simulated.api import EVENTS_PATH, EventsAnswer

INTERVAL_MS: Final = 5_000
OVERLAP_MS: Final = 60_000
"""An event that is told late has the time at which it happened."""


class SimulatedEventSource:
    """Lists the simulated provider's events."""

    interval_ms = INTERVAL_MS
    overlap_ms = OVERLAP_MS
    kept_ms: int | None = None

    def __init__(self, base_url: str, api_keys: Mapping[str, str]) -> None:
        """`api_keys` by account name. Nothing is opened yet; raises ValueError for the URL."""
        self._http = HttpClient(base_url)
        self._api_keys = dict(api_keys)

    @property
    def accounts(self) -> frozenset[str]:
        """Those whose credential is known here."""
        return frozenset(self._api_keys)

    async def list_events(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[tuple[ListedEvent, ...]]:
        """Page through the provider's list; see the port."""
        credential = self._api_keys.get(account)
        if credential is None:
            raise EventsFailed("account_not_configured")
        after = "0"
        for _ in range(LIST_PAGES_MAX):
            exchanged = await self._http.exchange(
                Message(
                    "GET",
                    f"{EVENTS_PATH}?since={since_at}&after={after}",
                    (("Authorization", f"Bearer {credential}"),),
                    credential=credential,
                ),
                deadlines=Deadlines(connect_ms=timeout_ms, response_ms=timeout_ms),
            )
            if not isinstance(exchanged, Answered):
                raise EventsFailed(exchanged.trouble.value)
            try:
                answer = read_form(EventsAnswer, exchanged)
            except Unanswered as unanswered:
                raise EventsFailed(unanswered.code) from None
            yield tuple(
                ListedEvent(event.id, event.model_dump_json().encode()) for event in answer.events
            )
            if answer.next is None:
                return
            if answer.next == after:
                raise EventsFailed("cursor_repeats")
            after = answer.next
        raise EventsFailed("too_many_pages")

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()
