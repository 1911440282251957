"""Building a client that needs an address and credentials: shared by the kinds of adapter.

Guarantees that what is wrong with an address is told with the provider's name. Called by kinds.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from reconciler.providers.adapter import ProviderSettings, UnusableProvider
from reconciler.providers.events import EventSource
from reconciler.providers.port import Finder, Performer, Previewer

_Client = TypeVar("_Client", Performer, Finder, Previewer, EventSource)


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
