"""Put a schema that was built beside the live one in its place, in one transaction.

Guarantees that whoever reads or writes finds the old tables or the new ones, whole, and that new
ones stand at least where the old ones stood: otherwise nothing is done. What the projector does not
own (webhooks, positions, the list of migrations) stays where it is. Names stay, so that prepared
statements of every process are planned anew by themselves; rights and policies come with the new
tables, because the same migrations made them. Called by `rebuild` and nobody else.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from ledger.log.crashpoints import crash_point
from projections.checksum import offsets_of
from projections.errors import RebuildBehindError, SwapBlockedError
from projections.limits import SWAP_FROZEN_MS_MAX, SWAP_LOCK_MS_MAX, SWAP_WRITER_MS_MAX
from projections.statements import Connection, check_schema

_KINDS: Final = {
    "r": "table",
    "p": "table",
    "v": "view",
    "m": "materialized view",
    "function": "function",
}
_OBJECTS: Final = """
select c.oid, c.relkind::text as kind, quote_ident(c.relname) as name
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = $1 and c.relkind in ('r', 'p', 'v', 'm') and c.relname <> 'schema_migrations'
union all
select
    p.oid,
    'function',
    quote_ident(p.proname) || '(' || pg_get_function_identity_arguments(p.oid) || ')'
from pg_proc as p
join pg_namespace as n on n.oid = p.pronamespace
where n.nspname = $1
order by kind, name
"""
# A view or a foreign key names a table by its number: it would stay with the old one.
_BUILT_ON: Final = """
select v.oid::regclass::text as name
from pg_depend as d
join pg_rewrite as r on r.oid = d.objid and d.classid = 'pg_rewrite'::regclass
join pg_class as v on v.oid = r.ev_class
where d.refclassid = 'pg_class'::regclass
  and d.refobjid = any ($1::oid[])
  and v.oid <> all ($1::oid[])
union
select conrelid::regclass::text
from pg_constraint
where confrelid = any ($1::oid[]) and conrelid <> all ($1::oid[])
order by name
"""


@dataclass(frozen=True, slots=True)
class _Object:
    """Something of a schema: its number, what it is, and its name there."""

    oid: int
    kind: str
    name: str

    def move(self, schema: str, into: str) -> str:
        """The statement that moves it."""
        return f"alter {_KINDS[self.kind]} {schema}.{self.name} set schema {into}"


async def swap(
    connection: Connection,
    *,
    live: str,
    beside: str,
    replaced: str,
    catch_up: Callable[[Mapping[int, int]], Awaitable[None]],
) -> dict[int, int]:
    """Stop the writer, let `catch_up` bring `beside` to the offsets at which it stopped, exchange.

    The old tables are in `replaced` afterwards. Returns those offsets. Raises RebuildBehindError,
    SwapBlockedError, and what Postgres says where somebody holds a table for longer than a moment:
    then nothing was done, and again is safe.
    """
    for name in (live, beside, replaced):
        check_schema(name)
    async with connection.transaction():
        await connection.execute(
            f"set local lock_timeout = {SWAP_WRITER_MS_MAX};"
            # A process that freezes in here must not keep everybody else from the tables.
            f"set local idle_in_transaction_session_timeout = {SWAP_FROZEN_MS_MAX};"
            f"lock table {live}.projection_offsets in share row exclusive mode;"
            f"set local lock_timeout = {SWAP_LOCK_MS_MAX}"
        )
        ends = await offsets_of(connection, live)
        await catch_up(ends)
        crash_point("rebuild_caught_up")
        await _require_caught_up(connection, beside, ends)
        pairs = [(live, beside, replaced)]
        pairs.append((f"{live}_api_v1", f"{beside}_api_v1", f"{replaced}_api_v1"))
        old = [await _objects(connection, schema) for schema, _, _ in pairs]
        new = [await _objects(connection, schema) for _, schema, _ in pairs]
        await _require_free(connection, old, new)
        for pair, out, into in zip(pairs, old, new, strict=True):
            await connection.execute(";\n".join(_moves(pair, out, into)))
        crash_point("tables_swapped")
    return ends


async def _require_caught_up(connection: Connection, beside: str, ends: Mapping[int, int]) -> None:
    stand = await offsets_of(connection, beside)
    behind = {part: end for part, end in ends.items() if stand.get(part, -1) < end}
    if behind:
        raise RebuildBehindError(
            f"The rebuilt tables stand behind the live ones in partitions {sorted(behind)}.",
            hint="Nothing was exchanged. Rebuild again; the live tables go on.",
        )


async def _objects(connection: Connection, schema: str) -> list[_Object]:
    rows = await connection.fetch(_OBJECTS, schema)
    return [_Object(row["oid"], row["kind"], row["name"]) for row in rows]


async def _require_free(
    connection: Connection, old: list[list[_Object]], new: list[list[_Object]]
) -> None:
    leaving = [
        one.oid
        for out, into in zip(old, new, strict=True)
        for one in out
        if one.kind != "function" and one.name in {other.name for other in into}
    ]
    rows = await connection.fetch(_BUILT_ON, leaving)
    if rows:
        names = ", ".join(row["name"] for row in rows)
        raise SwapBlockedError(
            f"Something is built on the tables that would be replaced: {names}.",
            hint="Nothing was exchanged. Drop it, swap, and make it again on the new ones.",
        )


def _moves(pair: tuple[str, str, str], out: list[_Object], into: list[_Object]) -> Iterator[str]:
    """Everything that has a successor goes out, then the successors come in."""
    live, beside, replaced = pair
    successors = {one.name for one in into}
    yield f"create schema {replaced}"
    tables = [f"{live}.{one.name}" for one in out if one.kind == "r" and one.name in successors]
    if tables:
        # All at once and briefly: behind this lock everybody waits.
        yield f"lock table {', '.join(tables)} in access exclusive mode"
    yield from (one.move(live, replaced) for one in out if one.name in successors)
    yield from (one.move(beside, live) for one in into)
