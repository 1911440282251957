"""What a kind of adapter is: from settings and a description to clients of one provider.

Guarantees nothing by itself; the promises of the clients are those of `port`, held by the contract
suite. A kind is one function (`Read`). Those that ship with the ledger are named in `kinds`, others
come from installed packages, by the entry point group `actionledger.adapters`.

Reading must never open a connection or need a credential: whoever only reads webhooks has none. A
credential is read when a client is built. Called by the registry and the command line.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

from ledger.core.errors import LedgerError
from ledger.core.mistakes import Found, Mistake
from reconciler.providers.port import (
    Capabilities,
    Finder,
    Performer,
    Previewer,
    WebhookMapping,
)

ANY_OPERATION = "*"
"""In `Adapter.operations`: every operation can be performed."""


class UnusableProvider(LedgerError):
    """A provider's settings cannot be used; `name` says whose."""

    def __init__(self, name: str, problem: str, hint: str) -> None:
        super().__init__(f"The provider {name!r} {problem}.", hint=hint)
        self.name = name


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider as operators configure it; `name` is what the operation catalogue calls it.

    `kind` is the adapter's. `adapter_file` is the description, where the kind has one; `base_url`
    takes the place of the address in it. `api_keys` holds a credential for each account that this
    process may act or look on, beside those whose files the description names. Secrets are left out
    of the repr, so that no log line can show them.
    """

    name: str
    kind: str
    base_url: str | None = None
    api_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    webhook_secrets: Sequence[str] = field(default=(), repr=False)
    adapter_file: Path | None = None


class Adapter(Protocol):
    """One provider as its settings and its description say, before anything is opened."""

    @property
    def capabilities(self) -> Capabilities:
        """What the provider promises on its accounts."""
        ...

    @property
    def place(self) -> str | None:
        """Where it acts, for people: an address without any secret. None where it is nowhere."""
        ...

    @property
    def operations(self) -> frozenset[str]:
        """The operations that it can perform; `ANY_OPERATION` among them stands for the rest."""
        ...

    @property
    def foreseen(self) -> frozenset[str]:
        """The operations of which it can say what would happen; `ANY_OPERATION` as above."""
        ...

    @property
    def accounts(self) -> frozenset[str]:
        """The accounts whose credentials the description names."""
        ...

    def unreadable(self) -> Iterable[Found]:
        """What a client would need and cannot be read now, by its place in the description:
        credentials above all. Opens files, and calls nobody.
        """
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


Read: TypeAlias = Callable[[ProviderSettings], Adapter | tuple[Mistake, ...]]
"""A kind of adapter, and what an entry point names: the adapter that the settings describe, or each
mistake of the description with its line. It may raise OSError, and UnusableProvider for settings
that have no description to point at. It opens nothing but the description.
"""
