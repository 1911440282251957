"""The kind `postgres`: clients of a described database. Called by `kinds`."""

from collections.abc import Iterable
from dataclasses import dataclass

from ledger.core.mistakes import Found, Mistake
from reconciler.providers.adapter import Adapter, ProviderSettings
from reconciler.providers.credentials import credentials_of, unreadable_credentials
from reconciler.providers.described import ForeseesNothing, described_file, read_described
from reconciler.providers.null import NullMapping
from reconciler.providers.port import (
    IMPOSSIBLE,
    POSSIBLE,
    Capabilities,
    Finder,
    Performer,
    Reliability,
    Remembered,
    WebhookMapping,
)
from reconciler.providers.postgres.connecting import Databases
from reconciler.providers.postgres.description import PostgresDescription, parse_postgres
from reconciler.providers.postgres.finder import PostgresFinder
from reconciler.providers.postgres.performer import PostgresPerformer

KEY_CHARS_MAX = 1_024
"""An index of Postgres takes more; a key that long is none."""


def read(settings: ProviderSettings) -> Adapter | tuple[Mistake, ...]:
    """The described database, or the mistakes; raises UnusableProvider, OSError."""
    return read_described(settings, described_file(settings), parse_postgres, _Postgres)


@dataclass(frozen=True, slots=True)
class _Postgres(ForeseesNothing):
    settings: ProviderSettings
    description: PostgresDescription

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            reliability=Reliability.KEYED,
            finds_by_key=POSSIBLE,
            finds_by_reference=POSSIBLE,
            finds_by_marker=POSSIBLE,
            lists_effects=POSSIBLE,
            previews=IMPOSSIBLE,
            key_window_ms=self.description.key_window_ms,
            key_chars_max=KEY_CHARS_MAX,
            settle_horizon_ms=self.description.settle_horizon_ms,
            search_lag_ms=0,
            replay_proven=POSSIBLE,
            remembers=frozenset({Remembered.SUCCESS}),
            sends_webhooks=IMPOSSIBLE,
            retries_webhooks=IMPOSSIBLE,
        )

    @property
    def place(self) -> str | None:
        return f"the databases of {', '.join(sorted(self.description.credentials))}"

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(self.description.changes)

    @property
    def accounts(self) -> frozenset[str]:
        return frozenset(self.description.credentials)

    def unreadable(self) -> Iterable[Found]:
        described = self.description
        yield from unreadable_credentials(self.settings, "credentials", described.credentials)
        yield from unreadable_credentials(self.settings, "lookups", described.lookups)

    def performer(self) -> Performer:
        described = self.description
        addresses = credentials_of(self.settings, described.credentials)
        return PostgresPerformer(described, Databases(addresses, described.effects_table))

    def finder(self) -> Finder:
        described = self.description
        files = {**described.credentials, **described.lookups}
        addresses = credentials_of(self.settings, files)
        return PostgresFinder(Databases(addresses, described.effects_table))

    def mapping(self) -> WebhookMapping:
        return NullMapping()
