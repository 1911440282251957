"""The kind `http`: clients of an API that a description describes.

Guarantees that the address is the operator's: from the settings, or from the description. Called by
`kinds`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from ledger.core.mistakes import Found, Mistake
from reconciler.providers.adapter import Adapter, ProviderSettings
from reconciler.providers.clients import described_client
from reconciler.providers.credentials import unreadable_credentials
from reconciler.providers.described import file_of, read_described
from reconciler.providers.events import EventSource
from reconciler.providers.http.description import Description
from reconciler.providers.http.event_source import HttpEventSource
from reconciler.providers.http.finder import HttpFinder
from reconciler.providers.http.mapping import HttpMapping
from reconciler.providers.http.parsing import parse_description
from reconciler.providers.http.performer import HttpPerformer
from reconciler.providers.http.previewer import HttpPreviewer
from reconciler.providers.port import (
    Capabilities,
    Finder,
    Performer,
    Previewer,
    WebhookMapping,
)
from reconciler.schemes import STANDARD, Scheme


def read(settings: ProviderSettings) -> Adapter | tuple[Mistake, ...]:
    """The described provider, or the mistakes; raises UnusableProvider, OSError."""
    return read_described(settings, file_of(settings), parse_description, _Http)


@dataclass(frozen=True, slots=True)
class _Http:
    settings: ProviderSettings
    description: Description

    @property
    def capabilities(self) -> Capabilities:
        return self.description.capabilities

    @property
    def place(self) -> str | None:
        return self.settings.base_url or self.description.base_url

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(self.description.performs)

    @property
    def foreseen(self) -> frozenset[str]:
        return frozenset(self.description.previews)

    @property
    def accounts(self) -> frozenset[str]:
        return frozenset(self.description.credentials)

    def unreadable(self) -> Iterable[Found]:
        return unreadable_credentials(self.settings, "credentials", self.description.credentials)

    def performer(self) -> Performer:
        described = self.description
        return described_client(self.settings, described, partial(HttpPerformer, self.description))

    def finder(self) -> Finder:
        described = self.description
        return described_client(self.settings, described, partial(HttpFinder, self.description))

    def previewer(self) -> Previewer | None:
        described = self.description
        if not described.previews:
            return None
        return described_client(self.settings, described, partial(HttpPreviewer, self.description))

    def mapping(self) -> WebhookMapping:
        return HttpMapping(self.description.webhook)

    @property
    def scheme(self) -> Scheme:
        """How its webhooks are signed."""
        webhook = self.description.webhook
        return STANDARD if webhook is None else webhook.scheme

    @property
    def shared_accounts(self) -> frozenset[str]:
        """The accounts that others write to as well."""
        return self.description.shared_accounts

    def event_source(self) -> EventSource | None:
        """What reads the list of events, where one is described."""
        described = self.description
        pull = None if described.webhook is None else described.webhook.pull
        if pull is None:
            return None
        return described_client(self.settings, described, partial(HttpEventSource, described, pull))
