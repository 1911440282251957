"""Fold the whole log anew into a schema beside the live one, and compare the two byte for byte.

Guarantees that the live schema is only read, and that what is compared stood at the same offsets.
Replay causes no effect: nothing here can reach a provider. Run by `actionledger rebuild` and by
whoever wants to know that nobody has edited a row.
"""

from collections.abc import Callable
from dataclasses import dataclass

import asyncpg

from ledger.log.reading import ReadableLog
from projections.checksum import (
    Checksum,
    RowDifference,
    checksum,
    cluster_of,
    offsets_of,
    row_differences,
)
from projections.limits import BATCH_RECORDS_MAX, CATCH_UP_ROUNDS_MAX
from projections.migrate import PROJECTED_VERSION_MAX, migrate
from projections.projector import Projector
from projections.statements import BESIDE_SCHEMA, LIVE_SCHEMA, check_schema, render


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """How far a rebuild is: records folded of those there are."""

    phase: str
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """Both digests at the same offsets, and where they differ some of the rows that do.

    `differences` is None where the live schema moved on too fast to show rows; the digests count.
    """

    live: Checksum
    beside: Checksum
    record_count: int
    differences: tuple[RowDifference, ...] | None = ()

    @property
    def is_equal(self) -> bool:
        """Whether the live rows are what the log says, byte for byte."""
        return self.live.sha256 == self.beside.sha256


async def rebuild(
    log: ReadableLog,
    pool: asyncpg.Pool,
    *,
    live: str = LIVE_SCHEMA,
    beside: str = BESIDE_SCHEMA,
    batch_records: int = BATCH_RECORDS_MAX,
    progress: Callable[[RebuildProgress], None] | None = None,
) -> Rebuilt:
    """Project from offset 0 to where the live schema stands into `beside`, made anew, and compare.

    `beside` is left behind for whoever wants to look, or to swap it in. Raises what a projector and
    a migration raise. Again is safe: it begins from nothing.
    """
    if check_schema(live) == check_schema(beside):
        raise ValueError("a schema cannot be rebuilt into itself")

    def say(phase: str, done: int, total: int) -> None:
        if progress is not None:
            progress(RebuildProgress(phase, done, total))

    async with pool.acquire() as connection:
        say("checksum", 0, 0)
        of_live = await checksum(connection, schema=live)
        cluster = await cluster_of(connection, live)
        await drop_schema(connection, beside)
        await migrate(connection, schema=beside, version_max=PROJECTED_VERSION_MAX)
    total = sum(of_live.offsets.values())
    projector = Projector(
        log,
        pool,
        list(of_live.offsets),
        schema=beside,
        cluster=cluster,
        batch_records=batch_records,
    )
    say("fold", 0, total)
    await projector.run_until(of_live.offsets, lambda done: say("fold", done, total))
    async with pool.acquire() as connection:
        say("compare", total, total)
        of_beside = await checksum(connection, schema=beside)
    differences: tuple[RowDifference, ...] | None = ()
    if of_live.sha256 != of_beside.sha256:
        tables = of_live.differing_tables(of_beside)
        differences = await _explain(projector, pool, live, beside, tables)
    return Rebuilt(of_live, of_beside, projector.counts.records, differences)


async def drop_schema(connection: asyncpg.pool.PoolConnectionProxy, schema: str) -> None:
    """Remove a schema that is not the live one, with its views; again is safe."""
    if schema == LIVE_SCHEMA:
        raise ValueError("the live schema is never dropped")
    for name in ("actionledger_api_v1", "actionledger"):
        await connection.execute(render(f"drop schema if exists {name} cascade", schema))


async def _explain(
    projector: Projector, pool: asyncpg.Pool, live: str, beside: str, tables: tuple[str, ...]
) -> tuple[RowDifference, ...] | None:
    """Follow the live schema until both stand at the same offsets, then compare row by row."""
    for _ in range(CATCH_UP_ROUNDS_MAX):
        async with pool.acquire() as connection:
            found = await row_differences(connection, live=live, beside=beside, tables=tables)
            if found is not None:
                return found
            ends = await offsets_of(connection, live)
        await projector.run_until(ends)
    return None
