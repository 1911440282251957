"""Connections to the databases of a description's accounts, kept and lent.

Guarantees that one that is lent has the table that the promise rests on. An address is a
credential: it is in no message. Must never say anything that changes rows. Called by performer and
finder.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final, TypeAlias

import asyncpg

from reconciler.providers.http_exchange import Trouble, connect_trouble
from reconciler.providers.limits import DATABASE_CONNECTIONS_MAX
from reconciler.providers.postgres.description import EFFECTS_TABLE
from reconciler.sql_files import statements

Connection: TypeAlias = asyncpg.pool.PoolConnectionProxy
_NO_TABLE: Final = "effects_table_unusable"


class NotConnected(Exception):
    """No usable connection came about; `code` says why, without any address."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Databases:
    """The databases by account. Nothing is opened before it is needed. Close it."""

    def __init__(self, addresses: Mapping[str, str], effects_table: str) -> None:
        self._addresses = dict(addresses)
        self._pools: dict[str, asyncpg.Pool] = {}
        self._opening = asyncio.Lock()
        raw = statements("reconciler.providers.postgres", "statements.sql")
        self.sql = {name: text.replace(EFFECTS_TABLE, effects_table) for name, text in raw.items()}

    def __contains__(self, account: str) -> bool:
        return account in self._addresses

    async def lend(self, account: str) -> Connection:
        """A connection, to be given back with `take`. Raises NotConnected; the caller sets the
        limit.
        """
        try:
            return await (await self._pool(account)).acquire()
        except NotConnected:
            raise
        except TimeoutError:
            raise NotConnected(Trouble.CONNECT_TIMED_OUT.value) from None
        except asyncpg.PostgresError as error:
            raise NotConnected(f"sqlstate_{(error.sqlstate or 'none').lower()}") from None
        except OSError as error:
            raise NotConnected(connect_trouble(error).value) from None
        except (asyncpg.InterfaceError, ValueError):
            raise NotConnected(Trouble.CONNECT_FAILED.value) from None

    async def take(self, account: str, connection: Connection, *, is_clean: object) -> None:
        """Take one back: kept for the next where it is clean, else dropped at once."""
        if not is_clean:
            # One that is gone already has left the pool by itself.
            with contextlib.suppress(asyncpg.InterfaceError):
                connection.terminate()
        pool = self._pools.get(account)
        if pool is not None:
            await pool.release(connection)

    async def close(self) -> None:
        """Drop all; idempotent."""
        while self._pools:
            _, pool = self._pools.popitem()
            pool.terminate()

    async def _pool(self, account: str) -> asyncpg.Pool:
        async with self._opening:
            pool = self._pools.get(account)
            if pool is None:
                pool = await asyncpg.create_pool(
                    self._addresses[account],
                    min_size=0,
                    max_size=DATABASE_CONNECTIONS_MAX,
                    init=self._check,
                    # The adapter says what it needs inside its transactions, and keeps nothing.
                    reset=_nothing_to_reset,
                )
                self._pools[account] = pool
            return pool

    async def _check(self, connection: asyncpg.Connection) -> None:
        if not await connection.fetchval(self.sql["check_table"]):
            raise NotConnected(_NO_TABLE)


async def _nothing_to_reset(connection: asyncpg.Connection) -> None:
    """Only clean connections are kept: their transaction is over, and took its settings along."""
