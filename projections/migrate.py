"""Bring a schema to what this program needs: plain SQL files, each once, each whole.

Guarantees that every file is applied in one transaction together with its entry, that two processes
never apply at once, and that a file which was applied is never changed: its SHA-256 is kept. Files
are in dbmate's format (`-- migrate:up`, `-- migrate:down`). Most make the projector's tables; those
of `NOT_PROJECTED` belong to other parts. Called when processes start, and by rebuilds.
"""

import asyncio
import hashlib
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import asyncpg

from projections.errors import MigrationError, SchemaAheadError
from projections.grants import apply_access
from projections.limits import MIGRATION_LOCK_MS_MAX
from projections.statements import LIVE_SCHEMA, LONG_WORK, Connection, check_schema, render

FOLDER: Final = Path(__file__).parent / "schema"
NOT_PROJECTED: Final = frozenset(
    {"0010", "0013", "0014", "0017", "0018", "0019", "0020", "0022", "0023", "0026", "0031"}
)
"""Migrations whose tables no rebuild makes anew: they are other parts' own."""

_FILE: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_UP: Final = re.compile(
    r"^-- migrate:up[^\n]*\n(.*?)(?=^-- migrate:down|\Z)", re.DOTALL | re.MULTILINE
)
_LOCK: Final = 0x616C_6D69
"""First half of the advisory lock; the second is the hash of the schema's name."""

_BOOTSTRAP: Final = """
create schema if not exists actionledger;
create table if not exists actionledger.schema_migrations (
    version    text        not null primary key,
    name       text        not null,
    sha256     text        not null,
    applied_at timestamptz not null default now()
);
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file: its number as text, its name, the SQL that applies it, the hash of its bytes."""

    version: str
    name: str
    up: str
    sha256: str

    @property
    def file(self) -> str:
        """Its file name."""
        return f"{self.version}_{self.name}.sql"


def read_migrations(folder: Path = FOLDER) -> tuple[Migration, ...]:
    """Every migration of a folder by number. Raises MigrationError for a file that is none."""
    migrations: list[Migration] = []
    for path in sorted(folder.glob("*.sql")):
        raw = path.read_bytes()
        name = _FILE.fullmatch(path.name)
        up = _UP.search(raw.decode())
        if name is None or up is None or (migrations and migrations[-1].version == name[1]):
            raise MigrationError(
                f"{path.name} is not a migration.",
                hint="Name it NNNN_words.sql with a number of its own, and begin what it does with "
                "a line `-- migrate:up`.",
                file=path.name,
            )
        migrations.append(Migration(name[1], name[2], up[1], hashlib.sha256(raw).hexdigest()))
    return tuple(migrations)


async def migrate(
    connection: Connection,
    *,
    schema: str = LIVE_SCHEMA,
    folder: Path = FOLDER,
    without: Collection[str] = (),
) -> list[str]:
    """Apply what is missing and return the names of its files; again is safe, and does nothing.

    `without` names versions that are left out. Then brings in roles and rights as
    `projections.roles` declares them. Raises MigrationError where an applied file was changed,
    where SQL fails (its transaction is undone), or where the lock is not to be had, and
    SchemaAheadError where the database is ahead of this program.
    """
    check_schema(schema)
    wanted = [
        migration for migration in read_migrations(folder) if migration.version not in without
    ]
    await connection.execute(LONG_WORK)
    await _lock(connection, schema)
    try:
        await connection.execute(render(_BOOTSTRAP, schema))
        applied = {
            row["version"]: row["sha256"]
            for row in await connection.fetch(
                render("select version, sha256 from actionledger.schema_migrations", schema)
            )
        }
        _check(wanted, applied, schema)
        missing = [migration for migration in wanted if migration.version not in applied]
        for migration in missing:
            await _apply(connection, migration, schema)
        await _bring_access(connection, schema)
        return [migration.file for migration in missing]
    finally:
        if not connection.is_closed():
            await connection.execute("select pg_advisory_unlock($1, hashtext($2))", _LOCK, schema)


async def missing_migrations(connection: Connection, *, schema: str = LIVE_SCHEMA) -> list[str]:
    """The files that are not applied yet. Reads only; raises SchemaAheadError where the database is
    ahead of this program, and MigrationError where an applied file is another one.
    """
    wanted = list(read_migrations())
    rows = await connection.fetch(
        render("select version, sha256 from actionledger.schema_migrations", schema)
    )
    applied = {row["version"]: row["sha256"] for row in rows}
    _check(wanted, applied, schema)
    return [migration.file for migration in wanted if migration.version not in applied]


async def _lock(connection: Connection, schema: str) -> None:
    """Be the only one to migrate this schema, for the session: a transaction a file follows."""
    try:
        async with asyncio.timeout(MIGRATION_LOCK_MS_MAX / 1_000):
            await connection.execute("select pg_advisory_lock($1, hashtext($2))", _LOCK, schema)
    except TimeoutError:
        raise MigrationError(
            f"Another process has been migrating the schema {schema} for too long.",
            hint="Look for it in pg_stat_activity, and start again when it is done or ended.",
        ) from None


def _check(wanted: list[Migration], applied: dict[str, str], schema: str) -> None:
    """See that what was applied are files of this program. One that was changed first: a program
    that is merely newer has the same ones.
    """
    for migration in wanted:
        if applied.get(migration.version, migration.sha256) != migration.sha256:
            raise MigrationError(
                f"{migration.file} of this program is not the one that was applied to the schema "
                f"{schema}: it was changed after it had been applied.",
                hint="Run the program that set this database up; or undo the change and put what "
                "it does into a new file with the next number.",
                file=migration.file,
            )
    unknown = sorted(applied.keys() - {migration.version for migration in wanted})
    if unknown:
        raise SchemaAheadError(schema, unknown[0])


async def _bring_access(connection: Connection, schema: str) -> None:
    try:
        await apply_access(connection, schema)
    except asyncpg.PostgresError as refused:
        raise MigrationError(
            f"Rights in the schema {schema} were not applied: {refused}.",
            hint="Nothing of it was done. Run this as the owner of the schema and its tables.",
        ) from refused


async def _apply(connection: Connection, migration: Migration, schema: str) -> None:
    try:
        async with connection.transaction():
            await connection.execute(render(migration.up, schema))
            await connection.execute(
                render(
                    "insert into actionledger.schema_migrations (version, name, sha256)"
                    " values ($1, $2, $3)",
                    schema,
                ),
                migration.version,
                migration.name,
                migration.sha256,
            )
    except asyncpg.PostgresError as refused:
        raise MigrationError(
            f"{migration.file} was not applied to the schema {schema}: {refused}.",
            hint="Nothing of it was done. Give this role what it lacks, or correct the file.",
            file=migration.file,
        ) from refused
