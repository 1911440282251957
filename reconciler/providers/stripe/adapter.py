"""The kind `stripe`: clients of Stripe as a description says what is performed there.

Guarantees that the address is the operator's, and that what is promised is what Stripe publishes;
where Stripe publishes nothing, the description has to answer. Called by `kinds`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Final

from ledger.core.mistakes import Found, Mistake
from reconciler.providers.adapter import Adapter, ProviderSettings
from reconciler.providers.clients import described_client
from reconciler.providers.credentials import unreadable_credentials
from reconciler.providers.described import file_of, read_described
from reconciler.providers.events import EventSource
from reconciler.providers.port import (
    POSSIBLE,
    Answer,
    Capabilities,
    Duration,
    Finder,
    Performer,
    Previewer,
    Reliability,
    Remembered,
    WebhookMapping,
)
from reconciler.providers.stripe.description import StripeDescription, parse_stripe
from reconciler.providers.stripe.event_source import StripeEvents
from reconciler.providers.stripe.finder import StripeFinder
from reconciler.providers.stripe.mapping import StripeMapping
from reconciler.providers.stripe.names import KEY_CHARS_MAX, KEY_WINDOW_MS
from reconciler.providers.stripe.performer import StripePerformer
from reconciler.providers.stripe.previewer import StripePreviewer
from reconciler.schemes import STRIPE, Scheme

SEARCH_LAG_MS: Final = 60_000
"""Absence rests on lists, which are never behind (docs.stripe.com/search). The minute is that of
the search, kept as a margin."""


def capabilities_of(settle_horizon_ms: Duration, replay_proven: Answer) -> Capabilities:
    """What Stripe publishes, and what the description has to answer."""
    return Capabilities(
        reliability=Reliability.KEYED,
        finds_by_key=POSSIBLE,
        finds_by_reference=POSSIBLE,
        finds_by_marker=POSSIBLE,
        lists_effects=POSSIBLE,
        # Of refunds: what is left of the payment. Nobody knows what a card will answer.
        previews=POSSIBLE,
        key_window_ms=KEY_WINDOW_MS,
        key_chars_max=KEY_CHARS_MAX,
        settle_horizon_ms=settle_horizon_ms,
        search_lag_ms=SEARCH_LAG_MS,
        replay_proven=replay_proven,
        # A 500 as well: the second call then shows nothing of the first.
        remembers=frozenset(Remembered),
        sends_webhooks=POSSIBLE,
        retries_webhooks=POSSIBLE,
    )


def read(settings: ProviderSettings) -> Adapter | tuple[Mistake, ...]:
    """The described accounts, or the mistakes; raises UnusableProvider, OSError."""
    return read_described(settings, file_of(settings), parse_stripe, _Stripe)


@dataclass(frozen=True, slots=True)
class _Stripe:
    settings: ProviderSettings
    description: StripeDescription

    @property
    def capabilities(self) -> Capabilities:
        described = self.description
        return capabilities_of(described.settle_horizon_ms, described.replay_proven)

    @property
    def place(self) -> str | None:
        return self.settings.base_url or self.description.base_url

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(self.description.performs)

    @property
    def foreseen(self) -> frozenset[str]:
        performs = self.description.performs
        return frozenset(name for name, one in performs.items() if one.makes == "refund")

    @property
    def accounts(self) -> frozenset[str]:
        return frozenset(self.description.credentials)

    def unreadable(self) -> Iterable[Found]:
        return unreadable_credentials(self.settings, "credentials", self.description.credentials)

    def performer(self) -> Performer:
        described = self.description
        return described_client(
            self.settings, described, partial(StripePerformer, self.description)
        )

    def finder(self) -> Finder:
        return described_client(self.settings, self.description, StripeFinder)

    def previewer(self) -> Previewer | None:
        described = self.description
        if not self.foreseen:
            return None
        return described_client(
            self.settings, described, partial(StripePreviewer, self.description)
        )

    def mapping(self) -> WebhookMapping:
        return StripeMapping(self.accounts, livemode=self.description.livemode)

    @property
    def scheme(self) -> Scheme:
        """How its webhooks are signed."""
        return STRIPE

    @property
    def shared_accounts(self) -> frozenset[str]:
        """The accounts that others write to as well."""
        return self.description.shared_accounts

    def event_source(self) -> EventSource | None:
        """What reads its list of events; raises UnusableProvider."""
        return described_client(self.settings, self.description, StripeEvents)
