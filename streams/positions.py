"""Where the inquirer is in each ledger partition, in Postgres.

Guarantees that a saved position only moves forward and never counts for another log. The statements
are in `inquirer.sql`. Called by the inquirer only.
"""

from datetime import UTC, datetime, timedelta

import asyncpg

from ledger.core.errors import LedgerError
from reconciler.limits import ACQUIRE_SECONDS
from reconciler.sql_files import statements
from streams.inquiring import Position
from streams.limits import UNKNOWN_WATCHED_MAX

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ForeignPositionError(LedgerError):
    """A position was saved for another log than this one."""


async def load_positions(pool: asyncpg.Pool, *, generation: str) -> dict[int, Position]:
    """By partition where to begin: one's own position, or the projector's. Raises
    ForeignPositionError.
    """
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
        rows = await connection.fetch(_sql("inquirer_positions"))
    foreign = {row["generation"] for row in rows} - {generation, None}
    if foreign:
        raise ForeignPositionError(
            f"The database holds positions in the log {sorted(foreign)}, not in {generation}.",
            hint="Point ACTIONLEDGER_DATABASE at the database of this log.",
        )
    return {
        row["partition"]: Position(row["next_offset"], row["epoch"])
        for row in rows
        if row["generation"] is not None
    }


async def save_position(
    pool: asyncpg.Pool, partition: int, position: Position, *, generation: str, now_ms: int
) -> None:
    """Remember a position; one that is behind the saved one changes nothing."""
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
        await connection.execute(
            _sql("save_position"),
            partition,
            position.next_offset,
            position.epoch,
            generation,
            _EPOCH + timedelta(milliseconds=now_ms),
        )


async def load_unknown(pool: asyncpg.Pool, partition: int) -> list[tuple[str, str]]:
    """The actions of a partition that are uncertain in the read model, each with its stream."""
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
        rows = await connection.fetch(_sql("unknown_actions"), partition, UNKNOWN_WATCHED_MAX)
    return [(row["action_key"], row["stream_key"]) for row in rows]


def _sql(name: str) -> str:
    return statements("streams", "inquirer.sql")[name]
