"""What a schema's projected rows are, as one digest: equal digests, equal rows, byte for byte.

A canonical dump is every table of the projector, its columns by name, its rows in the order of its
key, in Postgres's own text form under fixed settings. It is hashed as it comes and never held.
Called by rebuilds, by `actionledger replay`, and by tests of the laws; it changes nothing.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json

from projections.limits import DIFFERING_ROWS_MAX
from projections.rows import PROJECTED, Table
from projections.statements import LIVE_SCHEMA, Connection, render, statements

_DOMAIN = b"actionledger.projections.v1\n"
_TEXT_KEYS = frozenset(
    {
        "stream_key",
        "tenant_id",
        "action_id",
        "operation",
        "action_key",
        "account",
        "reference",
        "gate_key",
    }
)
# Each of these changes the text form of some column.
_FORM = """
set local timezone = 'UTC';
set local datestyle = 'ISO, YMD';
set local bytea_output = 'hex';
set local client_encoding = 'UTF8';
"""


@dataclass(frozen=True, slots=True)
class Checksum:
    """The digest of a schema at the offsets that the same snapshot has, and of each table."""

    sha256: str
    tables: Mapping[str, str]
    offsets: Mapping[int, int]

    def differing_tables(self, other: "Checksum") -> tuple[str, ...]:
        """Tables that are not the same."""
        return tuple(name for name in self.tables if self.tables[name] != other.tables[name])


@dataclass(frozen=True, slots=True)
class RowDifference:
    """A row that is only in one of two schemas, or in both: then the columns that differ."""

    table: str
    key: tuple[str, ...]
    live: dict[str, Any] | None
    beside: dict[str, Any] | None


async def checksum(
    connection: Connection,
    *,
    schema: str = LIVE_SCHEMA,
    progress: Callable[[str], None] | None = None,
) -> Checksum:
    """The digest in one snapshot; `progress` hears of each table before it is read."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute(_FORM)
        offsets = await offsets_of(connection, schema)
        tables: dict[str, str] = {}
        for table in PROJECTED:
            if progress is not None:
                progress(table.name)
            tables[table.name] = await _digest(connection, table, schema)
    whole = hashlib.sha256(_DOMAIN)
    for name, digest in tables.items():
        whole.update(f"{name} {digest}\n".encode())
    return Checksum(whole.hexdigest(), tables, offsets)


async def row_differences(
    connection: Connection, *, live: str, beside: str, tables: tuple[str, ...]
) -> tuple[RowDifference, ...] | None:
    """Some differing rows of each table, or None where the two schemas stand at other offsets."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute(_FORM)
        if await offsets_of(connection, live) != await offsets_of(connection, beside):
            return None
        found: list[RowDifference] = []
        for table in PROJECTED:
            if table.name in tables:
                found += await _differences(connection, table, live, beside)
    return tuple(found)


async def offsets_of(connection: Connection, schema: str) -> dict[int, int]:
    """Where each partition stands in a schema."""
    rows = await connection.fetch(statements("queries.sql", schema)["offsets"])
    return {row["partition"]: row["next_offset"] for row in rows}


async def cluster_of(connection: Connection, schema: str) -> str | None:
    """The Kafka cluster that a schema was filled from, where that is known."""
    rows = await connection.fetch(statements("queries.sql", schema)["offsets"])
    return next((row["cluster"] for row in rows if row["cluster"] is not None), None)


async def _digest(connection: Connection, table: Table, schema: str) -> str:
    hashed = hashlib.sha256()
    hashed.update(f"{table.name} {' '.join(table.columns)}\n".encode())

    async def take(data: bytes) -> None:
        hashed.update(data)

    columns, order = ", ".join(table.columns), ", ".join(map(_by_bytes, table.key))
    query = f"select {columns} from actionledger.{table.name} order by {order}"  # noqa: S608 - ours
    await connection.copy_from_query(render(query, schema), output=take, format="text")
    return hashed.hexdigest()


def _by_bytes(column: str) -> str:
    """A column to order by; the order must not depend on the locale of a database."""
    return f'{column} collate "C"' if column in _TEXT_KEYS else column


async def _differences(
    connection: Connection, table: Table, live: str, beside: str
) -> list[RowDifference]:
    key = ", ".join(table.key)
    shown = f"select {key}, row_to_json(stored)::text as shown from"
    named = ", ".join(f"coalesce(a.{one}, b.{one})::text as {one}" for one in table.key)
    query = f"""
        select {named}, a.shown as live, b.shown as beside
        from ({shown} {live}.{table.name} as stored) as a
        full join ({shown} {beside}.{table.name} as stored) as b using ({key})
        where a.shown is distinct from b.shown
        order by {", ".join(str(place + 1) for place in range(len(table.key)))}
        limit {DIFFERING_ROWS_MAX}
    """  # noqa: S608 - names of our own
    return [
        RowDifference(
            table.name,
            tuple(row[one] for one in table.key),
            *_only_differing(row["live"], row["beside"]),
        )
        for row in await connection.fetch(query)
    ]


def _only_differing(
    live: str | None, beside: str | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """Both rows without the columns in which they agree."""
    a = None if live is None else from_json(live)
    b = None if beside is None else from_json(beside)
    if a is None or b is None:
        return a, b
    differing = [column for column in a if a[column] != b[column]]
    return {column: a[column] for column in differing}, {column: b[column] for column in differing}
