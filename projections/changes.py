"""Hears when the projections have moved on, so that doors and the inquirer need not ask and ask.

A notice says how far a partition's tables are, sent by Postgres when the rows are there to be read.
Notices are lost while a connection is; so after each reconnection the offsets are read, and whoever
waits has a time limit of their own. Called by doors, the inquirer and tests.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from projections.checksum import offsets_of
from projections.errors import AWAY
from projections.limits import DATABASE_WAIT_MS_MAX, DATABASE_WAIT_MS_MIN
from projections.statements import LIVE_SCHEMA, Connection

logger = logging.getLogger("actionledger")

CHANNEL: Final = "actionledger_changed"
"""Postgres channel of the notices; each says `partition:next_offset`."""


class Changes:
    """How far each partition's tables are known to be, and a way to wait for more."""

    def __init__(self) -> None:
        self._offsets: dict[int, int] = {}
        self._moved = asyncio.Event()

    def offset(self, partition: int) -> int:
        """Everything below this offset is in the tables; it may be more by now."""
        return self._offsets.get(partition, 0)

    def heard(self, partition: int, next_offset: int) -> None:
        """Take a notice; one that says less than is known changes nothing."""
        if next_offset > self.offset(partition):
            self._offsets[partition] = next_offset
            # Everybody who waits looks once; who comes later waits for the next.
            self._moved.set()
            self._moved = asyncio.Event()

    async def passed(self, partition: int, offset: int, *, timeout_ms: int) -> bool:
        """Wait until the record at `offset` is in the tables; False if it is not in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while self.offset(partition) <= offset:
                    await self._moved.wait()
        except TimeoutError:
            return False
        return True

    async def anything(self, *, timeout_ms: int) -> bool:
        """Wait until any partition moves on; False if none does in time."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._moved.wait()
        except TimeoutError:
            return False
        return True


@asynccontextmanager
async def listening(pool: asyncpg.Pool) -> AsyncIterator[Changes]:
    """Listen for as long as the block runs, over one connection of the pool, anew if it is lost."""
    changes = Changes()
    ready = asyncio.Event()
    task = asyncio.create_task(_listen(pool, changes, ready))
    try:
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if task.done():
            await task
        yield changes
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _listen(pool: asyncpg.Pool, changes: Changes, ready: asyncio.Event) -> None:
    wait_ms = DATABASE_WAIT_MS_MIN
    while True:
        try:
            async with pool.acquire() as connection:
                await _hear(connection, changes, ready)
                wait_ms = DATABASE_WAIT_MS_MIN
        except AWAY as away:
            # Before the first time it is the caller's trouble, not something to get over.
            if not ready.is_set():
                raise
            logger.warning("listening_interrupted", extra={"why": repr(away)[:200]})
        await asyncio.sleep(wait_ms / 1_000)
        wait_ms = min(2 * wait_ms, DATABASE_WAIT_MS_MAX)


async def _hear(connection: Connection, changes: Changes, ready: asyncio.Event) -> None:
    """Take notices until the connection is lost."""
    lost = asyncio.Event()

    def take(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        partition, _, next_offset = str(payload).partition(":")
        changes.heard(int(partition), int(next_offset))

    def gone(_connection: object) -> None:
        lost.set()

    connection.add_termination_listener(gone)
    try:
        await connection.add_listener(CHANNEL, take)
        # Listen first, then look how far the tables are: in this order nothing falls between.
        for partition, next_offset in (await offsets_of(connection, LIVE_SCHEMA)).items():
            changes.heard(partition, next_offset)
        ready.set()
        await lost.wait()
    finally:
        connection.remove_termination_listener(gone)
        if not connection.is_closed():
            await connection.remove_listener(CHANNEL, take)
