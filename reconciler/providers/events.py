"""What an adapter may say of its provider's webhooks beyond their meaning: how they are signed,
where the provider lists what it has told, and on which accounts others act as well.

An adapter without `scheme` signs by Standard Webhooks; one without `event_source` has no list of
its events, and what it never sends is found by lookups alone. Called by the registry.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ledger.core.errors import LedgerError
from reconciler.schemes import Scheme


class EventsFailed(LedgerError):
    """A page of a provider's events could not be read; `code` says why. What came before holds."""

    def __init__(self, code: str) -> None:
        super().__init__(
            f"The provider's list of events ended early: {code}.",
            hint="It is read again from the last event seen, at the next time.",
        )
        self.code = code


@dataclass(frozen=True, slots=True)
class ListedEvent:
    """One event of the list: its id, where the provider gives one, and its body as the provider's
    mapping reads it.
    """

    event_id: str | None
    raw: bytes


class EventSource(Protocol):
    """Reads the provider's own list of events, to find those that it never sent. Held by the
    inquirer, who can therefore make no effect.
    """

    @property
    def accounts(self) -> frozenset[str]:
        """The accounts that it can ask for."""
        ...

    @property
    def interval_ms(self) -> int:
        """How often it is to be read."""
        ...

    @property
    def overlap_ms(self) -> int:
        """How far before the last event seen a reading begins: a list may show events late."""
        ...

    @property
    def kept_ms(self) -> int | None:
        """How long the provider keeps an event on its list; None where nobody has said."""
        ...

    def list_events(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[tuple[ListedEvent, ...]]:
        """Every event of the account at or after `since_at`, a page at a time.

        `timeout_ms` bounds each page. Raises EventsFailed when a page cannot be had.
        """
        ...

    async def close(self) -> None:
        """Close all connections; idempotent."""
        ...


@runtime_checkable
class SignsWebhooks(Protocol):
    """An adapter that says how its provider signs."""

    @property
    def scheme(self) -> Scheme:
        """How its webhooks are signed."""
        ...


@runtime_checkable
class ListsEvents(Protocol):
    """An adapter whose provider has a list of its events."""

    def event_source(self) -> EventSource | None:
        """What reads the list; None where the description names none. Raises UnusableProvider."""
        ...


@runtime_checkable
class SharesAccounts(Protocol):
    """An adapter that says which of its accounts others write to."""

    @property
    def shared_accounts(self) -> frozenset[str]:
        """The accounts on which the ledger is not the only one that makes effects."""
        ...


@runtime_checkable
class DescribedMapping(Protocol):
    """A mapping whose meaning is not in its code alone."""

    @property
    def described(self) -> str:
        """All that the meaning of a webhook depends on beside the code, as a text."""
        ...
