"""The kind `simulated`: clients of the provider that ships with the ledger. Called by `kinds`."""

from collections.abc import Iterable
from dataclasses import dataclass

from ledger.core.mistakes import Found
from reconciler.providers.adapter import ANY_OPERATION, Adapter, ProviderSettings
from reconciler.providers.clients import client_at
from reconciler.providers.events import EventSource
from reconciler.providers.port import (
    Capabilities,
    Finder,
    Performer,
    Previewer,
    WebhookMapping,
)
from reconciler.providers.simulated.adapter import SimulatedFinder, SimulatedPerformer
from reconciler.providers.simulated.capabilities import CAPABILITIES
from reconciler.providers.simulated.event_source import SimulatedEventSource
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.providers.simulated.previewer import SimulatedPreviewer


def read(settings: ProviderSettings) -> Adapter:
    """The simulated provider at the address of the settings; it has no description."""
    return _Simulated(settings)


@dataclass(frozen=True, slots=True)
class _Simulated:
    settings: ProviderSettings

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def place(self) -> str | None:
        return self.settings.base_url

    @property
    def operations(self) -> frozenset[str]:
        return frozenset({ANY_OPERATION})

    @property
    def foreseen(self) -> frozenset[str]:
        return frozenset({ANY_OPERATION})

    @property
    def accounts(self) -> frozenset[str]:
        return frozenset(self.settings.api_keys)

    def unreadable(self) -> Iterable[Found]:
        return ()

    def performer(self) -> Performer:
        return client_at(self.settings, None, self.settings.api_keys, SimulatedPerformer)

    def finder(self) -> Finder:
        return client_at(self.settings, None, self.settings.api_keys, SimulatedFinder)

    def previewer(self) -> Previewer | None:
        return client_at(self.settings, None, self.settings.api_keys, SimulatedPreviewer)

    def mapping(self) -> WebhookMapping:
        return SimulatedMapping()

    def event_source(self) -> EventSource | None:
        """What reads its list of events."""
        return client_at(self.settings, None, self.settings.api_keys, SimulatedEventSource)
