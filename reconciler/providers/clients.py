"""Building a client that needs an address and credentials: shared by the kinds of adapter.

Guarantees that what is wrong with an address is told with the provider's name. Called by kinds.
"""

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from reconciler.providers.adapter import ProviderSettings, UnusableProvider
from reconciler.providers.credentials import credentials_of
from reconciler.providers.events import EventSource
from reconciler.providers.port import Finder, Performer, Previewer

_Client = TypeVar("_Client", Performer, Finder, Previewer, EventSource)


class Addressed(Protocol):
    """A description that names an address and, by account, the file of a credential."""

    @property
    def base_url(self) -> str | None:
        """Where the API is, unless the settings say otherwise."""
        ...

    @property
    def credentials(self) -> Mapping[str, str]:
        """The files, by account."""
        ...


def described_client(
    settings: ProviderSettings,
    described: Addressed,
    build: Callable[[str, Mapping[str, str]], _Client],
) -> _Client:
    """A client of a described API, with the credentials that the description names; raises
    UnusableProvider.
    """
    keys = credentials_of(settings, described.credentials)
    return client_at(settings, described.base_url, keys, build)


def client_at(
    settings: ProviderSettings,
    own_url: str | None,
    api_keys: Mapping[str, str],
    build: Callable[[str, Mapping[str, str]], _Client],
) -> _Client:
    """A client at the address that the settings name, else at the description's own; raises
    UnusableProvider.
    """
    url = settings.base_url or own_url
    if url is None:
        raise UnusableProvider(settings.name, "has no base URL", "Set the address of its API.")
    try:
        return build(url, api_keys)
    except ValueError as error:
        problem = f"has an unusable base URL ({error})"
        raise UnusableProvider(settings.name, problem, "Correct it.") from error
