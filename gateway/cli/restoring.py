"""`restore`: fill a database that is empty, or gone, from the log alone."""

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

import typer

from gateway.cli.output import Json, Output
from ledger.core.errors import LedgerError

if TYPE_CHECKING:
    from rich.console import Console

    from gateway.local.progress import Report
    from gateway.settings import Settings
    from projections.restore import Restored

PANEL = "Operating"


class NoDatabaseError(LedgerError):
    """The database is not there, and this login may not make it."""


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("restore", rich_help_panel=PANEL)(restore)


def restore(as_json: Json = False) -> None:
    """Fill an empty database from the log alone: tables, rights and every row, and say how long it
    took.

    Makes the database where it was dropped. Run again after it was ended half-way, it goes on. It
    needs nothing but the log, and reads it only; a projector may run beside it.

    Example: actionledger restore
    """
    from gateway.cli.place import settings
    from gateway.cli.progress import progress

    out = Output("restore", as_json=as_json)
    with progress() as report:
        done = asyncio.run(restored(settings(database_role=None), report))
    out.answer(done, lambda console: _show(console, done))


async def restored(settings: "Settings", report: "Report") -> "Restored":
    """Restore the installation's database. Raises NoDatabaseError, and what `restore` raises."""
    from gateway.cli.pace import Pace
    from gateway.wiring.installation import open_log, open_pool
    from ledger.log.admin import cluster_id
    from ledger.log.follow import genesis_of
    from projections.restore import restore

    log = open_log(settings, "cli")
    genesis = await genesis_of(log)
    cluster = await cluster_id(log)
    await require_database(settings.database_url)
    pace = Pace(report)
    async with await open_pool(settings) as pool:
        return await restore(
            log, pool, range(genesis.partitions), cluster=cluster, progress=pace.tell
        )


async def require_database(url: str) -> None:
    """Make the database if it is not there. Raises NoDatabaseError."""
    import asyncpg

    try:
        await (await asyncpg.connect(url)).close()
    except asyncpg.InvalidCatalogNameError:
        parts = urlsplit(url)
        name = parts.path.lstrip("/")
        connection = await asyncpg.connect(urlunsplit(parts._replace(path="/postgres")))
        try:
            quoted = await connection.fetchval("select quote_ident($1)", name)
            # In an order of texts that no upgrade changes: indexes rest on it.
            await connection.execute(
                f"create database {quoted} template template0 encoding 'UTF8' locale 'C'"
            )
        except asyncpg.InsufficientPrivilegeError as refused:
            raise NoDatabaseError(
                f"There is no database {name}, and {parts.username} may not make it.",
                hint=f"As an administrator: createdb -O {parts.username} {name} -T template0 "
                "--locale=C; a local installation makes it with `actionledger down` and "
                "`actionledger up`.",
            ) from refused
        finally:
            await connection.close()


def _show(console: "Console", done: "Restored") -> None:
    rate = done.event_count / done.seconds if done.seconds else 0.0
    console.print(
        f"Restored {done.record_count:,} records, {done.event_count:,} events, in "
        f"{done.seconds:,.1f} s ({rate:,.0f} events/s)."
    )
    console.print(f"  {done.sha256}")
