"""Up to when the tables show all that the ledger held, in every partition.

Guarantees that a moment is named only after the tables have come to where the ledger ended then:
what was in the log before it is in the tables, however far behind a projector is. Without that a
composite would take the one action that it finds for the only one. Called by the inquirer's sweep.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import asyncpg

from projections.queries import Queries, lag


@dataclass(frozen=True, slots=True)
class _Wanted:
    at_ms: int
    ends: Mapping[int, int]


class ShownUpTo:
    """Asks where the ledger ends, and then waits until the tables have come so far."""

    def __init__(
        self, ends: Callable[[], Awaitable[Mapping[int, int]]], *, now_ms: Callable[[], int]
    ) -> None:
        """`ends` gives where each partition of the ledger ends at this moment, of all of them."""
        self._ends = ends
        self._now_ms = now_ms
        self._wanted: _Wanted | None = None
        self._shown_ms: int | None = None

    async def look(self, pool: asyncpg.Pool) -> int | None:
        """The last moment that is known to be shown, in milliseconds; None before the first one.
        Raises trouble of Kafka or Postgres.
        """
        if self._wanted is None:
            at_ms = self._now_ms()
            self._wanted = _Wanted(at_ms, await self._ends())
        behind = lag(await Queries(pool).offsets(), self._wanted.ends)
        if not any(behind.values()):
            self._shown_ms, self._wanted = self._wanted.at_ms, None
        return self._shown_ms
