"""Builds clients of providers from settings: performers for executors, finders for inquirers.

Guarantees that addresses and credentials come from the settings it is given, never from the
environment or an intent, and that who asks for finders gets nothing that can act. Must never open a
connection. Called by the wiring of each process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, assert_never

from ledger.core.errors import LedgerError
from reconciler.providers import null
from reconciler.providers.http.description import Description
from reconciler.providers.http.finder import HttpFinder
from reconciler.providers.http.mapping import HttpMapping
from reconciler.providers.http.parsing import read_description
from reconciler.providers.http.performer import HttpPerformer
from reconciler.providers.port import Capabilities, Finder, Performer, WebhookMapping
from reconciler.providers.simulated.adapter import SimulatedFinder, SimulatedPerformer
from reconciler.providers.simulated.capabilities import CAPABILITIES
from reconciler.providers.simulated.mapping import SimulatedMapping


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
    whose own address is used where `base_url` is None.
    """

    name: str
    kind: Literal["simulated", "null", "http"]
    base_url: str | None = None
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    webhook_secrets: Sequence[str] = field(default=(), repr=False)
    adapter_file: Path | None = None


def performers(settings: Sequence[ProviderSettings]) -> dict[str, Performer]:
    """A performer for every provider, by name; raises UnusableProvider. Close each."""
    return {one.name: _performer(one) for one in _named_once(settings)}


def finders(settings: Sequence[ProviderSettings]) -> dict[str, Finder]:
    """A finder for every provider, by name; raises UnusableProvider. Close each."""
    return {one.name: _finder(one) for one in _named_once(settings)}


def webhook_mappings(settings: Sequence[ProviderSettings]) -> dict[str, WebhookMapping]:
    """The reader of every provider's webhooks, by name; raises UnusableProvider."""
    return {one.name: _mapping(one) for one in _named_once(settings)}


def capabilities(settings: Sequence[ProviderSettings]) -> dict[str, Capabilities]:
    """What every provider promises on its accounts, by name; raises UnusableProvider."""
    return {one.name: _capabilities(one) for one in _named_once(settings)}


def _named_once(settings: Sequence[ProviderSettings]) -> Sequence[ProviderSettings]:
    names = [one.name for one in settings]
    for name in names:
        if names.count(name) > 1:
            raise UnusableProvider(name, "is configured twice", "Give each provider its own name.")
    return settings


def _performer(settings: ProviderSettings) -> Performer:
    match settings.kind:
        case "simulated":
            try:
                return SimulatedPerformer(_base_url(settings), settings.api_keys)
            except ValueError as error:
                raise _bad_url(settings, error) from error
        case "http":
            description = _description(settings)
            try:
                url = _described_url(settings, description)
                return HttpPerformer(description, url, settings.api_keys)
            except ValueError as error:
                raise _bad_url(settings, error) from error
        case "null":
            return null.NullPerformer()
        case _:
            assert_never(settings.kind)


def _finder(settings: ProviderSettings) -> Finder:
    match settings.kind:
        case "simulated":
            try:
                return SimulatedFinder(_base_url(settings), settings.api_keys)
            except ValueError as error:
                raise _bad_url(settings, error) from error
        case "http":
            description = _description(settings)
            try:
                url = _described_url(settings, description)
                return HttpFinder(description, url, settings.api_keys)
            except ValueError as error:
                raise _bad_url(settings, error) from error
        case "null":
            return null.NullFinder()
        case _:
            assert_never(settings.kind)


def _mapping(settings: ProviderSettings) -> WebhookMapping:
    match settings.kind:
        case "simulated":
            return SimulatedMapping()
        case "http":
            return HttpMapping(_description(settings).webhook)
        case "null":
            return null.NullMapping()
        case _:
            assert_never(settings.kind)


def _capabilities(settings: ProviderSettings) -> Capabilities:
    match settings.kind:
        case "simulated":
            return CAPABILITIES
        case "http":
            return _description(settings).capabilities
        case "null":
            return null.CAPABILITIES
        case _:
            assert_never(settings.kind)


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


def _described_url(settings: ProviderSettings, description: Description) -> str:
    return settings.base_url or description.base_url or _base_url(settings)


def _base_url(settings: ProviderSettings) -> str:
    if settings.base_url is None:
        raise UnusableProvider(settings.name, "has no base URL", "Set the address of its API.")
    return settings.base_url


def _bad_url(settings: ProviderSettings, error: ValueError) -> UnusableProvider:
    return UnusableProvider(settings.name, f"has an unusable base URL ({error})", "Correct it.")
