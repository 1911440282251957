"""What the owner of a partition reads back: where to begin, streams it has let go of, and which of
them are due.

Guarantees that every answer comes with the offset up to which it speaks, taken in the same
snapshot; what it means is for the owner to say. Asks within a short deadline and raises
ColdStoreError when there is no answer: whoever waits for it holds up only what needs it. It never
writes. Called by the processor.
"""

import asyncio
from collections.abc import Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import asyncpg

from ledger.core.errors import LedgerError
from ledger.core.invariants import invariant
from ledger.log.fold import PartitionFold
from projections.errors import AWAY
from projections.limits import COLD_CALL_MS_MAX, STREAMS_ASKED_MAX
from projections.statements import LIVE_SCHEMA, Connection, statements
from projections.states import ColdStreams, KeysPage, held_of, one_snapshot, own_of
from projections.writer import fold_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class ColdStoreError(LedgerError):
    """The database does not answer now. What needs it waits; nothing is lost."""


class ColdStore:
    """Reads of one schema over a pool."""

    def __init__(self, pool: asyncpg.Pool, schema: str = LIVE_SCHEMA) -> None:
        self._pool = pool
        self._schema = schema
        self._sql = statements("cold.sql", schema)

    async def checkpoints(self, partitions: Collection[int]) -> dict[int, PartitionFold]:
        """Where the projection of each partition stands; none for one never projected."""
        async with self._asking() as connection:
            rows = await connection.fetch(self._sql["checkpoints"], list(partitions))
        return {row["partition"]: fold_of(row) for row in rows if row["generation"] is not None}

    async def load(self, keys: Mapping[int, Collection[str]]) -> dict[int, ColdStreams]:
        """By partition its streams among `keys`, and up to where the projection speaks."""
        wanted = [key for of_partition in keys.values() for key in of_partition]
        invariant(len(wanted) <= STREAMS_ASKED_MAX, "more streams asked for than one query may")
        async with self._asking() as connection:
            rows = await connection.fetch(self._sql["cold"], list(keys), wanted)
        projected = dict.fromkeys(keys, 0)
        found: dict[int, list[asyncpg.Record]] = {partition: [] for partition in keys}
        for row in rows:
            projected[row["partition"]] = row["projected_offset"]
            if row["stream_key"] is not None:
                found[row["partition"]].append(row)
        return {
            partition: await self._cold(partition, projected[partition], found[partition])
            for partition in keys
        }

    async def _cold(
        self, partition: int, projected_offset: int, rows: list[asyncpg.Record]
    ) -> ColdStreams:
        """What rows of a partition say; those that this program did not write are asked for again,
        in one snapshot with their facts, for as long as that takes.

        Another connection answers then, perhaps of a standby that is behind: the answer speaks up
        to where both do, and a stream that had a row is not new. Raises ColdStoreError.
        """
        held, foreign = own_of(rows)
        if not foreign:
            return ColdStreams(projected_offset, held)
        async with self._asking(is_long=True) as connection, _snapshot(connection):
            again = await connection.fetch(
                self._sql["cold"], [partition], list(foreign), timeout=COLD_CALL_MS_MAX / 1_000
            )
            loaded = await held_of(
                connection, [row for row in again if row["stream_key"] is not None], self._schema
            )
        gone = foreign.keys() - loaded.streams.keys() - loaded.damaged.keys()
        if gone:
            raise ColdStoreError(
                f"The row of {min(gone)} was there and is not any more.",
                hint="A standby that is behind has answered, perhaps; it is asked again.",
            )
        again_to = min((row["projected_offset"] for row in again), default=0)
        return ColdStreams(min(projected_offset, again_to), held | loaded.streams, loaded.damaged)

    async def keys(self, partitions: Collection[int], behind: str, limit: int) -> KeysPage:
        """Of the next `limit` streams behind a key, in the order of the database, those of these
        partitions.
        """
        async with self._asking() as connection:
            rows = await connection.fetch(self._sql["keys"], list(partitions), behind, limit)
        projected = {row["partition"]: row["projected_offset"] for row in rows}
        found = [(row["partition"], row["stream_key"]) for row in rows]
        is_last = not rows or rows[0]["length"] < limit
        return KeysPage(
            projected,
            [(part, key) for part, key in found if key is not None],
            None if is_last else rows[0]["last_key"],
        )

    async def projected(self, partitions: Collection[int]) -> dict[int, int]:
        """How far the projection of each partition has come."""
        async with self._asking() as connection:
            rows = await connection.fetch(self._sql["projected"], list(partitions))
        return {row["partition"]: row["next_offset"] for row in rows}

    async def due(
        self, partition: int, behind: tuple[int, str], until: int, limit: int
    ) -> list[tuple[int, str]]:
        """Times and streams of what is due in a partition, in order, behind a given place in that
        order and up to `until`: log times before any allowance for clocks.
        """
        async with self._asking() as connection:
            rows = await connection.fetch(self._sql["due"], partition, *behind, until, limit)
        return [(row["due_at"], row["stream_key"]) for row in rows]

    async def ready(
        self, partition: int, operation: str, behind: tuple[int, str], limit: int
    ) -> list[tuple[int, str]]:
        """Since when and in which streams actions of an operation wait for capacity, who waits
        longest first, behind a given place in that order.
        """
        async with self._asking() as connection:
            rows = await connection.fetch(self._sql["ready"], partition, operation, *behind, limit)
        return [(row["since"], row["stream_key"]) for row in rows]

    @asynccontextmanager
    async def _asking(self, *, is_long: bool = False) -> "AsyncIterator[Connection]":
        """A connection for one short question, or for one whose parts are bounded by themselves."""
        seconds = COLD_CALL_MS_MAX / 1_000
        try:
            async with (
                asyncio.timeout(None if is_long else seconds),
                self._pool.acquire(timeout=seconds) as connection,
            ):
                yield connection
        except AWAY as away:
            raise ColdStoreError(
                f"The database does not answer ({away!r}).",
                hint="Inputs about streams that are not in memory wait for it; start it again.",
            ) from away


@asynccontextmanager
async def _snapshot(connection: Connection) -> "AsyncIterator[None]":
    """One snapshot for as long as it takes. Whatever fails in it ends the connection: where the
    network says nothing any more, a rollback would wait for ever.
    """
    seconds = COLD_CALL_MS_MAX / 1_000
    snapshot = one_snapshot(connection)
    try:
        async with asyncio.timeout(seconds):
            await snapshot.start()
        yield
        async with asyncio.timeout(seconds):
            await snapshot.commit()
    except BaseException:
        connection.terminate()
        raise
