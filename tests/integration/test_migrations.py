"""The schema on a real Postgres: applied once and whole, never changed after, well described."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from projections.errors import MigrationError, SchemaAheadError
from projections.migrate import (
    FOLDER,
    NOT_PROJECTED,
    migrate,
    missing_migrations,
    read_migrations,
)
from projections.rows import PROJECTED, REFERENCES, Table

pytestmark = pytest.mark.servers


@pytest.fixture
async def connection(empty_database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to an empty database."""
    connected = await asyncpg.connect(empty_database_url)
    yield connected
    await connected.close()


async def tables(connection: asyncpg.Connection, schema: str) -> set[str]:
    """Names of a schema's tables."""
    rows = await connection.fetch("select tablename from pg_tables where schemaname = $1", schema)
    return {row["tablename"] for row in rows}


async def test_everything_is_applied_once(connection: asyncpg.Connection) -> None:
    """The first run applies every file in order, the second none."""
    assert await migrate(connection) == [migration.file for migration in read_migrations()]
    assert await migrate(connection) == []


@pytest.mark.parametrize("table", PROJECTED, ids=lambda table: table.name)
async def test_rows_fit_their_tables(connection: asyncpg.Connection, table: Table) -> None:
    """Columns and keys of a table are those that the projector's rows are made for."""
    await migrate(connection)
    columns = await connection.fetch(
        "select column_name from information_schema.columns"
        " where table_schema = 'actionledger' and table_name = $1 order by ordinal_position",
        table.name,
    )
    assert [row["column_name"] for row in columns] == list(table.columns)
    key = await connection.fetch(
        "select a.attname from pg_index i"
        " join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)"
        " where i.indrelid = $1::regclass and i.indisprimary"
        " order by array_position(i.indkey, a.attnum)",
        f"actionledger.{table.name}",
    )
    # Names by which actions are known stand in their key as hashes, which no primary key can hold.
    has_primary = table is not REFERENCES
    assert [row["attname"] for row in key] == (list(table.key) if has_primary else [])


async def test_another_schema_stands_beside(connection: asyncpg.Connection) -> None:
    """The projector's tables can be made in a second schema, with views of their own."""
    await migrate(connection)
    files = await migrate(connection, schema="beside", without=NOT_PROJECTED)
    assert NOT_PROJECTED.isdisjoint(file[:4] for file in files)
    made = {table.name for table in PROJECTED} | {"schema_migrations"}
    assert await tables(connection, "beside") == made
    assert await connection.fetchval("select count(*) from beside_api_v1.actions") == 0


@pytest.mark.parametrize("name", ["Beside", "a b", "1st", "", "x" * 41, 'a"; drop table b; --'])
async def test_a_name_that_needs_quoting_is_no_schema(
    connection: asyncpg.Connection, name: str
) -> None:
    """Names of schemas go into statements as they are, so only plain ones are taken."""
    with pytest.raises(ValueError, match="no name for a schema"):
        await migrate(connection, schema=name)


async def test_a_changed_file_is_refused(connection: asyncpg.Connection, tmp_path: Path) -> None:
    """A file that was applied and then edited is an error that names it."""
    path = tmp_path / "0001_first.sql"
    path.write_text("-- migrate:up\ncreate table actionledger.a ();\n")
    await migrate(connection, folder=tmp_path)
    path.write_text("-- migrate:up\ncreate table actionledger.a (b integer);\n")
    with pytest.raises(MigrationError, match="changed after") as refused:
        await migrate(connection, folder=tmp_path)
    assert refused.value.file == "0001_first.sql"
    assert not isinstance(refused.value, SchemaAheadError)


async def test_a_database_that_is_ahead_is_refused(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    """A program older than its database does not run."""
    (tmp_path / "0001_first.sql").write_text("-- migrate:up\nselect 1;\n")
    newer = tmp_path / "0002_second.sql"
    newer.write_text("-- migrate:up\nselect 1;\n")
    await migrate(connection, folder=tmp_path)
    newer.unlink()
    with pytest.raises(SchemaAheadError, match="does not know"):
        await migrate(connection, folder=tmp_path)


async def test_what_is_missing_is_told_and_what_is_ahead_is_refused(
    connection: asyncpg.Connection,
) -> None:
    """Family operations: whoever looks after an older program was put back is told to run the newer
    one, not to set up once more.
    """
    await migrate(connection)
    assert await missing_migrations(connection) == []
    newest = read_migrations()[-1]
    await connection.execute(
        "delete from actionledger.schema_migrations where version = $1", newest.version
    )
    assert await missing_migrations(connection) == [newest.file]
    await connection.execute(
        "insert into actionledger.schema_migrations (version, name, sha256)"
        " values ('9999', 'of_next_year', 'ab')"
    )
    with pytest.raises(SchemaAheadError, match="9999") as refused:
        await missing_migrations(connection)
    assert "run the newer version" in refused.value.hint


async def test_a_failing_file_leaves_nothing(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    """A file that fails half-way is undone, those before it stay, and it can be corrected."""
    (tmp_path / "0001_first.sql").write_text("-- migrate:up\ncreate table actionledger.a ();\n")
    second = tmp_path / "0002_second.sql"
    second.write_text("-- migrate:up\ncreate table actionledger.b ();\nselect 1 / 0;\n")
    with pytest.raises(MigrationError, match="division by zero"):
        await migrate(connection, folder=tmp_path)
    assert await tables(connection, "actionledger") == {"a", "schema_migrations"}
    second.write_text("-- migrate:up\ncreate table actionledger.b ();\n-- migrate:down\nboom\n")
    assert await migrate(connection, folder=tmp_path) == ["0002_second.sql"]


async def test_a_file_may_take_longer_than_the_limit_of_the_database(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    """Whoever limits statements means those of others: an index on a large table would never be."""
    (tmp_path / "0001_slow.sql").write_text("-- migrate:up\nselect pg_sleep(0.3);\n")
    await connection.execute("set statement_timeout = '100ms'")
    assert await migrate(connection, folder=tmp_path) == ["0001_slow.sql"]


@pytest.mark.parametrize("name", ["0001_First.sql", "1_first.sql", "first.sql"])
def test_a_file_that_is_no_migration_is_refused(tmp_path: Path, name: str) -> None:
    """A misnamed file would be applied by nobody and missed by everybody."""
    (tmp_path / name).write_text("-- migrate:up\nselect 1;\n")
    with pytest.raises(MigrationError):
        read_migrations(tmp_path)


def test_two_files_of_one_number_are_refused(tmp_path: Path) -> None:
    """The order of files is never a matter of their words."""
    for name in ("0001_a.sql", "0001_b.sql"):
        (tmp_path / name).write_text("-- migrate:up\nselect 1;\n")
    with pytest.raises(MigrationError):
        read_migrations(tmp_path)


async def test_processes_that_start_together_migrate_once(empty_database_url: str) -> None:
    """Of several that migrate at the same moment one does, and the others wait for it."""

    async def run() -> list[str]:
        connected = await asyncpg.connect(empty_database_url)
        try:
            return await migrate(connected)
        finally:
            await connected.close()

    applied = await asyncio.gather(*(run() for _ in range(4)))
    assert sorted(map(len, applied)) == [0, 0, 0, len(read_migrations())]


async def test_every_column_for_analysts_is_explained(connection: asyncpg.Connection) -> None:
    """Views of the versioned schema have a comment each, and so has every column of theirs."""
    await migrate(connection)
    unexplained = await connection.fetch(
        """
        select c.relname, a.attname
        from pg_class c
        join pg_attribute a on a.attrelid = c.oid and a.attnum >= 0
        where c.relnamespace = 'actionledger_api_v1'::regnamespace
          and col_description(c.oid, a.attnum) is null
        union all
        select c.relname, '(view)'
        from pg_class c
        where c.relnamespace = 'actionledger_api_v1'::regnamespace
          and obj_description(c.oid, 'pg_class') is null
        """
    )
    assert [tuple(row) for row in unexplained] == []


async def test_analysts_read_views_and_nothing_else(
    connection: asyncpg.Connection, empty_database_url: str
) -> None:
    """Their role reads the versioned views, cannot write, sees no table, and not for long."""
    await migrate(connection)
    password = secrets.token_urlsafe(16)
    await connection.execute(f"alter role actionledger_analyst password '{password}'")
    parts = urlsplit(empty_database_url)
    address = f"actionledger_analyst:{password}@{parts.hostname}:{parts.port}"
    analyst = await asyncpg.connect(urlunsplit(parts._replace(netloc=address)))
    try:
        assert await analyst.fetch("select * from actionledger_api_v1.actions") == []
        assert await analyst.fetchval("show default_transaction_read_only") == "on"
        assert await analyst.fetchval("show statement_timeout") == "30s"
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await analyst.fetch("select * from actionledger.actions")
        await analyst.execute("set default_transaction_read_only = off")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await analyst.execute("delete from actionledger_api_v1.actions")
    finally:
        await analyst.close()


async def test_an_owner_who_may_make_no_roles_migrates_too(
    connection: asyncpg.Connection, empty_database_url: str
) -> None:
    """Without the right to make roles the tables and views are there all the same."""
    name, password = f"owner_{secrets.token_hex(6)}", secrets.token_urlsafe(16)
    await connection.execute(f"create role {name} login password '{password}'")
    database = urlsplit(empty_database_url).path[1:]
    await connection.execute(f"alter database {database} owner to {name}")
    parts = urlsplit(empty_database_url)
    address = f"{name}:{password}@{parts.hostname}:{parts.port}"
    owner = await asyncpg.connect(urlunsplit(parts._replace(netloc=address)))
    try:
        assert await migrate(owner) == [migration.file for migration in read_migrations()]
        assert await owner.fetch("select * from actionledger_api_v1.progress") == []
    finally:
        await owner.close()
        await connection.execute(f"alter database {database} owner to current_user")
        await connection.execute(f"reassign owned by {name} to current_user")
        await connection.execute(f"drop owned by {name}")
        await connection.execute(f"drop role {name}")


def test_what_goes_down_is_what_went_up() -> None:
    """Every file says how to undo it, for those who run them with another tool."""
    for path in FOLDER.glob("*.sql"):
        assert "\n-- migrate:down\n" in path.read_text(encoding="utf-8"), path.name


_SHAPE = """
select c.table_schema, c.table_name, c.column_name, c.data_type,
    col_description(format('%I.%I', c.table_schema, c.table_name)::regclass, c.ordinal_position)
from information_schema.columns as c
where c.table_schema in ('actionledger', 'actionledger_api_v1')
union all
select i.schemaname, i.tablename, i.indexname, i.indexdef, null
from pg_indexes as i
where i.schemaname = 'actionledger'
order by 1, 2, 3, 4
"""


async def test_the_newest_file_can_be_undone_and_done_again(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    """What goes down leaves every table, index, view and comment as the files before made them."""
    *earlier, newest = sorted(FOLDER.glob("*.sql"))
    for path in earlier:
        (tmp_path / path.name).write_bytes(path.read_bytes())
    await migrate(connection, folder=tmp_path)
    before = await connection.fetch(_SHAPE)
    up, _, down = newest.read_text(encoding="utf-8").partition("\n-- migrate:down\n")
    await connection.execute(up)
    after = await connection.fetch(_SHAPE)
    assert after != before
    await connection.execute(down)
    assert await connection.fetch(_SHAPE) == before
    await connection.execute(up)
    assert await connection.fetch(_SHAPE) == after
