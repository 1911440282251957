"""The desk of what providers state and no action explains, as doors and pages use it.

Guarantees that a word is durable in the log before it is answered for, and that nothing else is
changed: it settles no action. Built when the gateway starts.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import Final, Protocol

import asyncpg

from ledger.log.port import Appender
from ledger.log.topics import Topic
from reconciler.orphan_notes import OrphanNote
from reconciler.orphans import Orphan, find_orphan, list_orphans, noted
from reconciler.parking import Position

NOTE_SECONDS_MAX: Final = 10.0

WHY: Final[Mapping[str, str]] = {
    "orphan_effect": "The provider has an effect that no action here has made.",
    "line_changed": "The provider says something else under the id of a line than before.",
    "effect_not_listed": "The action is completed, and the provider's whole list lacks its effect.",
}
"""The reasons for which a person is shown it, each in a sentence."""


class OrphansPort(Protocol):
    """What people see of it, and their word. Tenants are those for which somebody decides."""

    async def orphans(self, tenants: Collection[str], *, limit: int) -> tuple[list[Orphan], int]:
        """The oldest that nobody has looked at, and how many there are."""
        ...

    async def orphan(self, tenants: Collection[str], place: Position) -> Orphan | None:
        """One by its place, looked at or not."""
        ...

    async def note(self, orphan: Orphan, said: OrphanNote) -> None:
        """Write a word down. Raises LedgerError or TimeoutError where it is not known to be."""
        ...


class OrphanDesk:
    """The desk over the tables and the receiver's log."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        appender: Appender,
        *,
        partitions: int,
        now_ms: Callable[[], int],
    ) -> None:
        """`appender` writes in the receiver's role."""
        self._pool = pool
        self._appender = appender
        self._partitions = partitions
        self._now_ms = now_ms

    async def orphans(self, tenants: Collection[str], *, limit: int) -> tuple[list[Orphan], int]:
        """The oldest that nobody has looked at, and how many there are."""
        return await list_orphans(self._pool, tenants, limit=limit)

    async def orphan(self, tenants: Collection[str], place: Position) -> Orphan | None:
        """One by its place, looked at or not."""
        return await find_orphan(self._pool, tenants, place)

    async def note(self, orphan: Orphan, said: OrphanNote) -> None:
        """Write a word down; see the port."""
        partition, record = noted(orphan, said, partitions=self._partitions, at_ms=self._now_ms())
        async with asyncio.timeout(NOTE_SECONDS_MAX):
            await self._appender.append(Topic.WEBHOOKS, partition, [record])


class NoOrphans:
    """The desk of a door without tables."""

    async def orphans(self, _tenants: Collection[str], *, limit: int) -> tuple[list[Orphan], int]:
        """None, whatever the limit."""
        return [][:limit], 0

    async def orphan(self, _tenants: Collection[str], _place: Position) -> Orphan | None:
        """None."""
        return None

    async def note(self, orphan: Orphan, said: OrphanNote) -> None:
        """Never called: there is nothing to say a word of."""
        raise NotImplementedError(f"{said.by} speaks of {orphan.place}")
