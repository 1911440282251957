"""A database with the projector's tables, and a projector over records at hand."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable

import asyncpg

from ledger.log.port import Record
from ledger.log.reading import ReadableLog
from projections.checksum import checksum
from projections.projector import Projector
from tests import databases
from tests.ledgers import LedgerBuilder, MemoryLog
from tests.patience import PATIENCE_SECONDS

LOOK_SECONDS = 0.01
CUT = (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.AdminShutdownError, OSError)
"""What comes of a connection that somebody cut."""


@contextlib.asynccontextmanager
async def projected(url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a database with every table, made where it has none."""
    async with asyncpg.create_pool(url, min_size=1, max_size=6) as pool:
        await databases.complete(pool)
        yield pool


async def project(
    pool: asyncpg.Pool, builder: LedgerBuilder, *, batch_records: int = 500
) -> Projector:
    """Project everything that was built."""
    log = MemoryLog(builder.everything())
    projector = Projector(log, pool, list(builder.ends()), batch_records=batch_records)
    await projector.run_until(builder.ends())
    return projector


async def digest(pool: asyncpg.Pool, schema: str = "actionledger") -> str:
    """The digest of a schema's projected rows."""
    async with pool.acquire() as connection:
        return (await checksum(connection, schema=schema)).sha256


@contextlib.asynccontextmanager
async def running(
    log: ReadableLog, pool: asyncpg.Pool, partitions: Iterable[int], *, batch_records: int = 500
) -> AsyncIterator[Projector]:
    """A projector that follows a log for as long as the block runs; if it ends before, the block
    fails with what ended it.
    """
    projector = Projector(log, pool, list(partitions), batch_records=batch_records)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(projector.run(stop))
        try:
            yield projector
        finally:
            stop.set()


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait until a condition holds."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise AssertionError(f"never: {what}") from None


async def projected_to(pool: asyncpg.Pool, ends: dict[int, int]) -> None:
    """Wait until the tables stand at the given offsets, over whichever connection lives."""
    query = "select partition, next_offset from actionledger.projection_offsets"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            # A pool lends a connection that was cut until it has heard of it.
            with contextlib.suppress(*CUT):
                rows = await pool.fetch(query)
                if {row["partition"]: row["next_offset"] for row in rows} == ends:
                    return
            await asyncio.sleep(LOOK_SECONDS)


def by_place(records: Iterable[Record], partition: int) -> list[Record]:
    """Those of one partition."""
    return [record for record in records if record.partition == partition]
