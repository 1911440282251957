"""Fill an empty database from the log alone, timed: tables, rights, and every row of the projector.

Guarantees that what comes out is what a live projection would have written, byte for byte, because
it is the same projector; ended half-way it goes on where it stopped. Rows of others (webhooks) are
not made here. Run by `actionledger restore`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import asyncpg

from ledger.log.reading import ReadableLog
from ledger.log.topics import Topic
from projections.checksum import checksum, offsets_of
from projections.migrate import migrate
from projections.projector import Projector
from projections.statements import LIVE_SCHEMA, LONG_WORK


@dataclass(frozen=True, slots=True)
class Restored:
    """What was written, how long it took, and the digest of what is there now.

    `began_at` is where the tables stood before: nothing of them where the database was empty.
    """

    began_at: dict[int, int]
    offsets: dict[int, int]
    record_count: int
    event_count: int
    seconds: float
    sha256: str


async def restore(
    log: ReadableLog,
    pool: asyncpg.Pool,
    partitions: Sequence[int],
    *,
    cluster: str | None = None,
    progress: Callable[[str, int, int], None] = lambda _phase, _done, _total: None,
) -> Restored:
    """Make the tables and project everything that the log holds now.

    `progress` hears of a phase, records done and records there are. Raises what a migration and a
    projector raise. Again is safe: it goes on from what is there.
    """
    began_s = time.monotonic()
    places = {(Topic.LEDGER.value, partition): 0 for partition in partitions}
    reader = await log.reader(places)
    try:
        ends = {part: end for (_, part), end in (await reader.end_offsets(places)).items()}
    finally:
        await reader.close()
    async with pool.acquire() as connection:
        await migrate(connection)
        began_at = await offsets_of(connection, LIVE_SCHEMA)
    left = sum(max(0, end - began_at.get(part, 0)) for part, end in ends.items())
    projector = Projector(log, pool, partitions, cluster=cluster)
    progress("project", 0, left)
    await projector.run_until(ends, lambda done: progress("project", done, left))
    async with pool.acquire() as connection:
        await connection.execute(LONG_WORK)
        progress("checksum", 0, 0)
        found = await checksum(connection)
        # Whoever plans a query now should know how large the tables have become.
        await connection.execute("analyze")
    return Restored(
        began_at,
        dict(found.offsets),
        projector.counts.records,
        projector.counts.events,
        round(time.monotonic() - began_s, 2),
        found.sha256,
    )
