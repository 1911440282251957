"""The kind `smtp`: clients of a described mail server. Called by `kinds`."""

import ssl
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ledger.core.mistakes import Found, Mistake
from reconciler.providers.adapter import Adapter, ProviderSettings, UnusableProvider
from reconciler.providers.credentials import credentials_of, unreadable_credentials
from reconciler.providers.described import described_file, text_of
from reconciler.providers.null import NullFinder, NullMapping
from reconciler.providers.port import (
    IMPOSSIBLE,
    Capabilities,
    Finder,
    Performer,
    Previewer,
    Reliability,
    WebhookMapping,
)
from reconciler.providers.smtp.description import SmtpDescription, parse_smtp
from reconciler.providers.smtp.performer import SmtpPerformer

CAPABILITIES: Final = Capabilities(
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
"""Of every mail server: some drop a second message with the same Message-ID, none has to."""


def read(settings: ProviderSettings) -> Adapter | tuple[Mistake, ...]:
    """The described server, or the mistakes; raises UnusableProvider, OSError."""
    text = text_of(described_file(settings))
    described = parse_smtp(text) if isinstance(text, str) else text
    return _Smtp(settings, described) if isinstance(described, SmtpDescription) else described


@dataclass(frozen=True, slots=True)
class _Smtp:
    settings: ProviderSettings
    description: SmtpDescription

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    @property
    def place(self) -> str | None:
        server = self.description.server
        return f"smtp://{server.host}:{server.port}"

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(self.description.mails)

    @property
    def foreseen(self) -> frozenset[str]:
        return frozenset()

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

    def previewer(self) -> Previewer | None:
        return None

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
