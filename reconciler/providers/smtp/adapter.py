"""The kind `smtp`: clients of a described mail server. Called by `kinds`."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass

from ledger.core.mistakes import Found, Mistake
from reconciler.providers.adapter import Adapter, ProviderSettings, UnusableProvider
from reconciler.providers.credentials import credentials_of, unreadable_credentials
from reconciler.providers.described import ForeseesNothing, described_file, read_described
from reconciler.providers.null import CAPABILITIES as NOTHING
from reconciler.providers.null import NullFinder, NullMapping
from reconciler.providers.port import (
    Capabilities,
    Finder,
    Performer,
    WebhookMapping,
)
from reconciler.providers.smtp.description import SmtpDescription, parse_smtp
from reconciler.providers.smtp.performer import SmtpPerformer


def read(settings: ProviderSettings) -> Adapter | tuple[Mistake, ...]:
    """The described server, or the mistakes; raises UnusableProvider, OSError."""
    return read_described(settings, described_file(settings), parse_smtp, _Smtp)


@dataclass(frozen=True, slots=True)
class _Smtp(ForeseesNothing):
    settings: ProviderSettings
    description: SmtpDescription

    @property
    def capabilities(self) -> Capabilities:
        # Some servers drop a second message with the same Message-ID; none has to.
        return NOTHING

    @property
    def place(self) -> str | None:
        server = self.description.server
        return f"smtp://{server.host}:{server.port}"

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(self.description.mails)

    @property
    def accounts(self) -> frozenset[str]:
        return frozenset(self.description.senders)

    def unreadable(self) -> Iterable[Found]:
        yield from unreadable_credentials(
            self.settings, "credentials", self.description.credentials
        )
        try:
            self._tls()
        except UnusableProvider:
            yield ("ca_file",), "cannot be read as PEM"

    def performer(self) -> Performer:
        passwords = credentials_of(self.settings, self.description.credentials)
        return SmtpPerformer(self.description, passwords, self._tls())

    def finder(self) -> Finder:
        return NullFinder()

    def mapping(self) -> WebhookMapping:
        return NullMapping()

    def _tls(self) -> ssl.SSLContext | None:
        server = self.description.server
        if server.tls == "none":
            return None
        folder = described_file(self.settings).parent
        path = None if server.ca_file is None else folder / server.ca_file
        try:
            return ssl.create_default_context(cafile=path)
        except (OSError, ValueError) as error:
            problem = f"has a ca_file that cannot be read ({type(error).__name__})"
            raise UnusableProvider(self.settings.name, problem, f"Make {path} readable.") from error
