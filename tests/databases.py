"""Databases with every table for tests: each a copy of one that was migrated once for its server.

A copy costs a tenth of what the migrations do.
"""

import secrets
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from projections.migrate import migrate

_MIGRATED: Final[dict[str, str]] = {}
"""By the URL of a server's superuser: the database that copies are made of."""


def url_of(admin_url: str, name: str) -> str:
    """The URL of another database of a server."""
    return urlunsplit(urlsplit(admin_url)._replace(path=f"/{name}"))


async def make(admin_url: str, name: str) -> str:
    """Make a database with every table and nothing in them; its URL."""
    template = await _migrated(admin_url)
    await execute(admin_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    return url_of(admin_url, name)


async def complete(pool: asyncpg.Pool) -> None:
    """Make every table where there is none: on a server that a test has for itself."""
    async with pool.acquire() as connection:
        if await connection.fetchval("select to_regclass('actionledger.streams')") is None:
            await migrate(connection)


async def drop(admin_url: str, name: str) -> None:
    """Drop a database, connections included."""
    await execute(admin_url, f"DROP DATABASE {name} WITH (FORCE)")


async def forget(admin_url: str) -> None:
    """Drop what copies were made of: the server outlives the tests."""
    if admin_url in _MIGRATED:
        await drop(admin_url, _MIGRATED.pop(admin_url))


async def execute(url: str, statement: str) -> None:
    """Run one statement on a connection of its own: the server may have been killed meanwhile."""
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _migrated(admin_url: str) -> str:
    if admin_url not in _MIGRATED:
        name = f"migrated_{secrets.token_hex(6)}"
        await execute(admin_url, f"CREATE DATABASE {name}")
        connection = await asyncpg.connect(url_of(admin_url, name))
        try:
            await migrate(connection)
        finally:
            await connection.close()
        _MIGRATED[admin_url] = name
    return _MIGRATED[admin_url]
