"""Builds clients of providers from settings: performers for executors, finders for inquirers,
previewers for both.

Guarantees that addresses and credentials come from the settings it is given and from the files they
name, never from the environment or an intent, and that who asks for finders gets nothing that can
act. A credential is read when a client is built, so who only reads webhooks never sees one. Must
never open a connection. Called by the wiring of each process.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from reconciler.providers.adapter import Adapter, ProviderSettings, UnusableProvider
from reconciler.providers.events import (
    EventSource,
    ListsEvents,
    SharesAccounts,
    SignsWebhooks,
)
from reconciler.providers.kinds import adapter_of
from reconciler.providers.port import (
    Capabilities,
    Finder,
    Performer,
    Previewer,
    WebhookMapping,
)
from reconciler.schemes import STANDARD, Scheme

__all__ = [
    "ProviderSettings",
    "UnusableProvider",
    "capabilities",
    "event_sources",
    "finders",
    "performers",
    "previewers",
    "shared_accounts",
    "webhook_mappings",
    "webhook_schemes",
]

_Built = TypeVar("_Built")


def performers(settings: Sequence[ProviderSettings]) -> dict[str, Performer]:
    """A performer for every provider, by name; raises UnusableProvider. Close each."""
    return _each(settings, lambda adapter: adapter.performer())


def finders(settings: Sequence[ProviderSettings]) -> dict[str, Finder]:
    """A finder for every provider, by name; raises UnusableProvider. Close each."""
    return _each(settings, lambda adapter: adapter.finder())


def previewers(settings: Sequence[ProviderSettings]) -> dict[str, Previewer]:
    """A previewer for every provider that can say what a request would do, by name; raises
    UnusableProvider. Close each.
    """
    built = _each(settings, lambda adapter: adapter.previewer())
    return {name: one for name, one in built.items() if one is not None}


def webhook_mappings(settings: Sequence[ProviderSettings]) -> dict[str, WebhookMapping]:
    """The reader of every provider's webhooks, by name; raises UnusableProvider."""
    return _each(settings, lambda adapter: adapter.mapping())


def webhook_schemes(settings: Sequence[ProviderSettings]) -> dict[str, Scheme]:
    """How every provider signs its webhooks, by name; raises UnusableProvider."""
    return _each(
        settings,
        lambda adapter: adapter.scheme if isinstance(adapter, SignsWebhooks) else STANDARD,
    )


def shared_accounts(settings: Sequence[ProviderSettings]) -> frozenset[tuple[str, str]]:
    """The accounts that others write to, each with its provider's name; raises UnusableProvider."""
    built = _each(
        settings,
        lambda adapter: (
            adapter.shared_accounts if isinstance(adapter, SharesAccounts) else frozenset[str]()
        ),
    )
    return frozenset((name, account) for name, several in built.items() for account in several)


def event_sources(settings: Sequence[ProviderSettings]) -> dict[str, EventSource]:
    """A reader of every provider's list of events that has one, by name; raises UnusableProvider.
    Close each.
    """
    built = _each(
        settings,
        lambda adapter: adapter.event_source() if isinstance(adapter, ListsEvents) else None,
    )
    return {name: one for name, one in built.items() if one is not None}


def capabilities(settings: Sequence[ProviderSettings]) -> dict[str, Capabilities]:
    """What every provider promises on its accounts, by name; raises UnusableProvider."""
    return _each(settings, lambda adapter: adapter.capabilities)


def _each(
    settings: Sequence[ProviderSettings], build: Callable[[Adapter], _Built]
) -> dict[str, _Built]:
    names = [one.name for one in settings]
    for name in names:
        if names.count(name) > 1:
            raise UnusableProvider(name, "is configured twice", "Give each provider its own name.")
    return {one.name: build(adapter_of(one)) for one in settings}
