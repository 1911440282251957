"""Builds clients of providers from settings: performers for executors, finders for inquirers,
previewers for both.

Guarantees that addresses and credentials come from the settings it is given and from the files they
name, never from the environment or an intent, and that who asks for finders gets nothing that can
act. A credential is read when a client is built, so who only reads webhooks never sees one. Must
never open a connection. Called by the wiring of each process.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeVar, assert_never

from ledger.core.errors import LedgerError
from reconciler.providers import null
from reconciler.providers.http.credentials import UnreadableCredential, read_credentials
from reconciler.providers.http.description import Description
from reconciler.providers.http.finder import HttpFinder
from reconciler.providers.http.mapping import HttpMapping
from reconciler.providers.http.parsing import read_description
from reconciler.providers.http.performer import HttpPerformer
from reconciler.providers.http.previewer import HttpPreviewer
from reconciler.providers.port import (
    Capabilities,
    Finder,
    Performer,
    Previewer,
    WebhookMapping,
)
from reconciler.providers.simulated.adapter import SimulatedFinder, SimulatedPerformer
from reconciler.providers.simulated.capabilities import CAPABILITIES
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.providers.simulated.previewer import SimulatedPreviewer

_Built = TypeVar("_Built")
_Client = TypeVar("_Client", Performer, Finder, Previewer)


class UnusableProvider(LedgerError):
    """A provider's settings cannot be used; `name` says whose."""

    def __init__(self, name: str, problem: str, hint: str) -> None:
        super().__init__(f"The provider {name!r} {problem}.", hint=hint)
        self.name = name


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider as operators configure it; `name` is what the operation catalogue calls it.

    `api_keys` holds a credential for each account that this process may act or look on. Secrets are
    left out of the repr, so that no log line can show them. The kind `http` reads `adapter_file`,
    whose own address is used where `base_url` is None, and whose credentials are read from the
    files that it names, beside those of `api_keys`.
    """

    name: str
    kind: Literal["simulated", "null", "http"]
    base_url: str | None = None
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    webhook_secrets: Sequence[str] = field(default=(), repr=False)
    adapter_file: Path | None = None


class _Adapter(Protocol):
    """What every kind of provider can be asked for."""

    @property
    def capabilities(self) -> Capabilities:
        """What the provider promises on its accounts."""
        ...

    def performer(self) -> Performer:
        """A client that can act; raises UnusableProvider."""
        ...

    def finder(self) -> Finder:
        """A client that can only look; raises UnusableProvider."""
        ...

    def previewer(self) -> Previewer | None:
        """A client that can only foresee, or None where it cannot; raises UnusableProvider."""
        ...

    def mapping(self) -> WebhookMapping:
        """What reads its webhooks."""
        ...


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


def capabilities(settings: Sequence[ProviderSettings]) -> dict[str, Capabilities]:
    """What every provider promises on its accounts, by name; raises UnusableProvider."""
    return _each(settings, lambda adapter: adapter.capabilities)


def _each(
    settings: Sequence[ProviderSettings], build: Callable[[_Adapter], _Built]
) -> dict[str, _Built]:
    names = [one.name for one in settings]
    for name in names:
        if names.count(name) > 1:
            raise UnusableProvider(name, "is configured twice", "Give each provider its own name.")
    return {one.name: build(_adapter(one)) for one in settings}


def _adapter(settings: ProviderSettings) -> _Adapter:
    match settings.kind:
        case "simulated":
            return _Simulated(settings)
        case "http":
            return _Described(settings, _description(settings))
        case "null":
            return _Null()
        case _:
            assert_never(settings.kind)


@dataclass(frozen=True, slots=True)
class _Simulated:
    settings: ProviderSettings

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def performer(self) -> Performer:
        return _client(self.settings, None, self.settings.api_keys, SimulatedPerformer)

    def finder(self) -> Finder:
        return _client(self.settings, None, self.settings.api_keys, SimulatedFinder)

    def previewer(self) -> Previewer | None:
        return _client(self.settings, None, self.settings.api_keys, SimulatedPreviewer)

    def mapping(self) -> WebhookMapping:
        return SimulatedMapping()


@dataclass(frozen=True, slots=True)
class _Described:
    settings: ProviderSettings
    description: Description

    @property
    def capabilities(self) -> Capabilities:
        return self.description.capabilities

    def performer(self) -> Performer:
        described = self.description
        return _client(
            self.settings,
            described.base_url,
            self._api_keys(),
            lambda url, keys: HttpPerformer(described, url, keys),
        )

    def finder(self) -> Finder:
        described = self.description
        return _client(
            self.settings,
            described.base_url,
            self._api_keys(),
            lambda url, keys: HttpFinder(described, url, keys),
        )

    def previewer(self) -> Previewer | None:
        described = self.description
        if not described.previews:
            return None
        return _client(
            self.settings,
            described.base_url,
            self._api_keys(),
            lambda url, keys: HttpPreviewer(described, url, keys),
        )

    def mapping(self) -> WebhookMapping:
        return HttpMapping(self.description.webhook)

    def _api_keys(self) -> Mapping[str, str]:
        path = self.settings.adapter_file
        try:
            folder = Path() if path is None else path.parent
            return {**read_credentials(self.description, folder), **self.settings.api_keys}
        except UnreadableCredential as unreadable:
            problem = f"has no credential for the account {unreadable.account}: {unreadable}"
            hint = f"Write it into the file that {path} names under [credentials]."
            raise UnusableProvider(self.settings.name, problem, hint) from unreadable


class _Null:
    """Nothing of it depends on any settings."""

    @property
    def capabilities(self) -> Capabilities:
        return null.CAPABILITIES

    def performer(self) -> Performer:
        return null.NullPerformer()

    def finder(self) -> Finder:
        return null.NullFinder()

    def previewer(self) -> Previewer | None:
        return None

    def mapping(self) -> WebhookMapping:
        return null.NullMapping()


def _client(
    settings: ProviderSettings,
    own_url: str | None,
    api_keys: Mapping[str, str],
    build: Callable[[str, Mapping[str, str]], _Client],
) -> _Client:
    """A client at the address that the settings name, else at the description's own."""
    url = settings.base_url or own_url
    if url is None:
        raise UnusableProvider(settings.name, "has no base URL", "Set the address of its API.")
    try:
        return build(url, api_keys)
    except ValueError as error:
        problem = f"has an unusable base URL ({error})"
        raise UnusableProvider(settings.name, problem, "Correct it.") from error


def _description(settings: ProviderSettings) -> Description:
    """The description in the adapter file; the first mistake tells which line to look at."""
    path = settings.adapter_file
    if path is None:
        raise UnusableProvider(
            settings.name, "has no adapter file", "Set the path of the file that describes its API."
        )
    try:
        read = read_description(path)
    except OSError as error:
        problem = f"has an adapter file that cannot be read ({error.strerror})"
        raise UnusableProvider(settings.name, problem, f"Make {path} readable.") from error
    if isinstance(read, Description):
        return read
    more = f" (and {len(read) - 1} more)" if len(read) > 1 else ""
    problem = f"has mistakes in its adapter file: {read[0]}{more}"
    raise UnusableProvider(settings.name, problem, f"Correct {path}.")
