"""Fold the whole log anew into a schema beside the live one, compare the two byte for byte, and,
where it is asked for, put the new one in the live one's place.

Guarantees that the live schema is only read until it is replaced, that what is compared stood at
the same offsets, and that a crash leaves the old tables or the new ones; what a crash left beside
them is removed by the next run. Replay causes no effect: nothing here can reach a provider. Run by
`actionledger rebuild` and by whoever wants to know that nobody has edited a row.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import asyncpg

from ledger.core.snapshot import FOLD_VERSION
from ledger.log.reading import ReadableLog
from projections.checksum import (
    Checksum,
    RowDifference,
    checksum,
    cluster_of,
    offsets_of,
    row_differences,
)
from projections.errors import (
    AWAY,
    DatabaseUnavailableError,
    MigrationError,
    RebuildRunningError,
    SwapBlockedError,
)
from projections.limits import (
    BATCH_RECORDS_MAX,
    CATCH_UP_ROUNDS_MAX,
    SWAP_LAG_RECORDS_MAX,
    SWAP_PAUSE_MS,
    SWAP_TRIES_MAX,
)
from projections.migrate import NOT_PROJECTED, migrate
from projections.projector import Projector
from projections.rows import PROJECTED
from projections.statements import (
    BESIDE_SCHEMA,
    LIVE_SCHEMA,
    LONG_WORK,
    REPLACED_SUFFIX,
    Connection,
    check_schema,
    render,
    statements,
)
from projections.swap import swap

logger = logging.getLogger("actionledger")

_LOCK: Final = 0x616C_7262
"""First half of the advisory lock of a rebuild; the second is the hash of the schema's name."""

_HELD = (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError)
"""Somebody reads or writes a table just now."""


class Afterwards(Enum):
    """What becomes of the rebuilt tables."""

    KEEP = "keep"
    """They stay beside the live ones, for whoever wants to look."""
    SWAP = "swap"
    """They take the place of the live ones, which are dropped."""


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
    `other_versions` are how many live states other versions wrote: these differ in their bytes,
    and need not in what they say. `seconds` is what folding took, and `swapped_at` are the offsets
    at which the new tables took the place of the old ones.
    """

    live: Checksum
    beside: Checksum
    record_count: int
    seconds: float
    differences: tuple[RowDifference, ...] | None = ()
    swapped_at: Mapping[int, int] | None = None
    other_versions: Mapping[int, int] = field(default_factory=dict)

    @property
    def is_equal(self) -> bool:
        """Whether the live rows are what the log says, byte for byte."""
        return self.live.sha256 == self.beside.sha256


Say = Callable[[str, int, int], None]


async def rebuild(
    log: ReadableLog,
    pool: asyncpg.Pool,
    *,
    live: str = LIVE_SCHEMA,
    beside: str = BESIDE_SCHEMA,
    batch_records: int = BATCH_RECORDS_MAX,
    afterwards: Afterwards = Afterwards.KEEP,
    progress: Callable[[RebuildProgress], None] | None = None,
) -> Rebuilt:
    """Project from offset 0 to where the live schema stands into `beside`, made anew, and compare;
    then keep it or let it take over, whether it was equal or not: the log is right.

    Raises what a projector and a migration raise, RebuildRunningError, and what `swap` raises.
    Again is safe: it begins from nothing.
    """
    if check_schema(live) == check_schema(beside):
        raise ValueError("a schema cannot be rebuilt into itself")

    def say(phase: str, done: int, total: int) -> None:
        if progress is not None:
            progress(RebuildProgress(phase, done, total))

    async with _alone(pool, live) as connection, _room(connection, live, beside):
        say("checksum", 0, 0)
        others = await _other_versions(connection, live)
        of_live = await checksum(connection, schema=live)
        cluster = await cluster_of(connection, live)
        await _remove_leftovers(connection, live, beside)
        await migrate(connection, schema=beside, without=NOT_PROJECTED)

        def projector(partitions: Mapping[int, int]) -> Projector:
            return Projector(
                log,
                pool,
                list(partitions),
                schema=beside,
                cluster=cluster,
                batch_records=batch_records,
            )

        total = sum(of_live.offsets.values())
        folding = projector(of_live.offsets)
        began_s = time.monotonic()
        say("fold", 0, total)
        await folding.run_until(of_live.offsets, lambda done: say("fold", done, total))
        seconds = round(time.monotonic() - began_s, 2)
        say("compare", total, total)
        of_beside = await checksum(connection, schema=beside)
        differences: tuple[RowDifference, ...] | None = ()
        if of_live.sha256 != of_beside.sha256:
            tables = of_live.differing_tables(of_beside)
            differences = await _explain(folding, pool, live, beside, tables)
        swapped_at = None
        if afterwards is Afterwards.SWAP:

            async def catch_up(ends: Mapping[int, int]) -> None:
                await projector(ends).run_until(ends)

            await _require_same_shape(connection, live, beside)
            # Nobody shall plan a query on tables of which Postgres knows nothing yet.
            for table in PROJECTED:
                await connection.execute(f"analyze {beside}.{table.name}")
            swapped_at = await _take_over(connection, live, beside, catch_up, say)
            await _remove_leftovers(connection, live, beside)
    return Rebuilt(
        of_live, of_beside, folding.counts.records, seconds, differences, swapped_at, others
    )


async def drop_schema(connection: Connection, schema: str) -> None:
    """Remove a schema that is not the live one, with its views; again is safe."""
    if schema == LIVE_SCHEMA:
        raise ValueError("the live schema is never dropped")
    for name in ("actionledger_api_v1", "actionledger"):
        await connection.execute(render(f"drop schema if exists {name} cascade", schema))


@asynccontextmanager
async def _alone(pool: asyncpg.Pool, live: str) -> AsyncIterator[Connection]:
    """A connection, while no other process rebuilds this schema."""
    async with pool.acquire() as connection:
        # It waits while others fold, and the lock ends with its session.
        await connection.execute(LONG_WORK)
        lock = (_LOCK, live)
        taken = "select pg_try_advisory_lock($1, hashtext($2))"
        if not await connection.fetchval(taken, *lock):
            raise RebuildRunningError(
                f"The schema {live} is being rebuilt by another process.",
                hint="Wait for it, or end it; that leaves the live tables alone.",
            )
        try:
            yield connection
        finally:
            if not connection.is_closed():
                await connection.execute("select pg_advisory_unlock($1, hashtext($2))", *lock)


@asynccontextmanager
async def _room(connection: Connection, live: str, beside: str) -> AsyncIterator[None]:
    """Remove what was built where the database fails: half of it is of no use, and the room that it
    takes may be what the live tables lack.
    """
    try:
        yield
    except (DatabaseUnavailableError, asyncpg.PostgresError):
        with contextlib.suppress(*AWAY):
            await _remove_leftovers(connection, live, beside)
        raise


async def _other_versions(connection: Connection, schema: str) -> dict[int, int]:
    """By version of the fold how many states another one than this wrote."""
    rows = await connection.fetch(statements("queries.sql", schema)["fold_versions"])
    found = {row["fold_version"]: row["count"] for row in rows}
    found.pop(FOLD_VERSION, None)
    return found


async def _remove_leftovers(connection: Connection, live: str, beside: str) -> None:
    """What a rebuild that was ended left: half-built tables, or replaced ones."""
    for schema in (beside, live + REPLACED_SUFFIX):
        await drop_schema(connection, schema)


async def _require_same_shape(connection: Connection, live: str, beside: str) -> None:
    """Only tables of the same migrations may change places: the list of them stays where it is."""
    files = "select version, sha256 from actionledger.schema_migrations where version <> all ($1)"
    found = [
        {tuple(row) for row in await connection.fetch(render(files, name), list(NOT_PROJECTED))}
        for name in (live, beside)
    ]
    if found[0] != found[1]:
        raise MigrationError(
            f"The schema {live} was not brought to this version of the program.",
            hint="Start the set-up step first, then swap.",
        )


async def _take_over(
    connection: Connection,
    live: str,
    beside: str,
    catch_up: Callable[[Mapping[int, int]], Awaitable[None]],
    say: Say,
) -> Mapping[int, int]:
    """Follow the live tables until little is left, then stop their writer for that and exchange."""
    why = ""
    for attempt in range(SWAP_TRIES_MAX):
        for _ in range(CATCH_UP_ROUNDS_MAX):
            ends = await offsets_of(connection, live)
            stand = await offsets_of(connection, beside)
            if sum(ends.values()) - sum(stand.values()) <= SWAP_LAG_RECORDS_MAX:
                break
            await catch_up(ends)
        say("swap", attempt, 0)
        try:
            return await swap(
                connection,
                live=live,
                beside=beside,
                replaced=live + REPLACED_SUFFIX,
                catch_up=catch_up,
            )
        except _HELD as held:
            why = str(held)
            logger.info("swap_waits", extra={"why": why})
        await asyncio.sleep(SWAP_PAUSE_MS / 1_000)
    raise SwapBlockedError(
        f"Tables of {live} were held by others each of {SWAP_TRIES_MAX} times ({why}).",
        hint="Nothing was exchanged. Look for long transactions in pg_stat_activity.",
    )


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
