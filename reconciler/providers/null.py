"""The `null` provider: every effect succeeds at once and nothing leaves the process.

For benchmarks, where the provider must cost nothing. It keeps the port's order (guard first), has
no memory, and can look nothing up. Must never be configured for effects that anyone wants.
"""

from collections.abc import AsyncIterator, Callable, Iterable

from ledger.core.mistakes import Found
from reconciler.providers.adapter import ANY_OPERATION, Adapter, ProviderSettings
from reconciler.providers.port import (
    IMPOSSIBLE,
    Capabilities,
    Deadlines,
    Declined,
    Finder,
    Inconclusive,
    ListedEffect,
    ListingFailed,
    Lookup,
    MappedWebhook,
    NotSent,
    Outcome,
    Performer,
    Previewer,
    ProviderRequest,
    Reliability,
    Retry,
    Succeeded,
    Unrecognised,
    WebhookMapping,
)

CAPABILITIES = Capabilities(
    reliability=Reliability.NONE,
    finds_by_key=IMPOSSIBLE,
    finds_by_reference=IMPOSSIBLE,
    finds_by_marker=IMPOSSIBLE,
    lists_effects=IMPOSSIBLE,
    previews=IMPOSSIBLE,
    key_window_ms=IMPOSSIBLE,
    key_chars_max=IMPOSSIBLE,
    settle_horizon_ms=IMPOSSIBLE,
    search_lag_ms=IMPOSSIBLE,
    replay_proven=IMPOSSIBLE,
    remembers=frozenset(),
    sends_webhooks=IMPOSSIBLE,
    retries_webhooks=IMPOSSIBLE,
)


_NO_EFFECTS: tuple[ListedEffect, ...] = ()


class NullPerformer:
    """Succeeds at once; the reference is the provider key."""

    async def perform(
        self,
        request: ProviderRequest,  # noqa: ARG002 - the port's signature
        *,
        provider_key: str,
        deadlines: Deadlines,  # noqa: ARG002
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """Ask the guard, then succeed."""
        try:
            before_first_byte()
        except Declined as declined:
            return NotSent(declined.code, Retry.LATER)
        return Succeeded(provider_key, {})

    async def close(self) -> None:
        """There is nothing to close."""


class NullFinder:
    """Cannot look anything up, and says so."""

    async def find(
        self,
        *,
        account: str,  # noqa: ARG002
        provider_key: str,  # noqa: ARG002
        action_key: str,  # noqa: ARG002
        reference: str | None,  # noqa: ARG002
        timeout_ms: int,  # noqa: ARG002
    ) -> Lookup:
        """Prove nothing."""
        return Inconclusive("lookup_impossible")

    async def list_effects(
        self,
        *,
        account: str,  # noqa: ARG002
        since_at: int,  # noqa: ARG002
        timeout_ms: int,  # noqa: ARG002
    ) -> AsyncIterator[ListedEffect]:
        """Raise: there is no list."""
        for effect in _NO_EFFECTS:
            yield effect
        raise ListingFailed("lookup_impossible")

    async def close(self) -> None:
        """There is nothing to close."""


class NullMapping:
    """No webhook ever comes from here."""

    def map(self, raw: bytes) -> MappedWebhook | Unrecognised:  # noqa: ARG002
        """Recognise nothing."""
        return Unrecognised("no_webhooks")


class _Null:
    """Nothing of it depends on any settings."""

    capabilities = CAPABILITIES
    place = None
    operations = frozenset({ANY_OPERATION})
    foreseen: frozenset[str] = frozenset()
    accounts: frozenset[str] = frozenset()

    def unreadable(self) -> Iterable[Found]:
        return ()

    def performer(self) -> Performer:
        return NullPerformer()

    def finder(self) -> Finder:
        return NullFinder()

    def previewer(self) -> Previewer | None:
        return None

    def mapping(self) -> WebhookMapping:
        return NullMapping()


def read(settings: ProviderSettings) -> Adapter:  # noqa: ARG001 - what every kind takes
    """The provider that does nothing, wherever it is configured."""
    return _Null()
