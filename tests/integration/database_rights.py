"""What each role can really do to each table and view, tried out statement by statement.

Every try is made with the identity of the role itself, in a transaction that is undone. Called by
the tests of permissions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import asyncpg

from projections.roles import (
    ACCESS_SCHEMA,
    TABLES,
    TENANT_SETTING,
    VIEW_READERS,
    Guarded,
    Reach,
    Right,
    Role,
)

OWN, OTHER = "acme", "globex"


class Scope(StrEnum):
    """Which tenant's rows are tried for, by whoever may have one tenant only."""

    OWN_TENANT = "own tenant"
    OTHER_TENANT = "other tenant"
    NONE_SET = "none set"


class Seen(StrEnum):
    """What came of a try."""

    REACHED = "reached"
    NO_ROWS = "no rows"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or view with the columns that it has; `guarded` is None for a view."""

    schema: str
    name: str
    columns: dict[str, str]
    guarded: Guarded | None

    @property
    def place(self) -> str:
        """Its name in full."""
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the matrix."""

    role: Role
    relation: Relation
    right: Right
    scope: Scope

    def declared(self) -> Seen:
        """What must come of it."""
        guarded = self.relation.guarded
        if guarded is None:
            if self.right is not Right.SELECT or self.role not in VIEW_READERS:
                return Seen.REFUSED
            is_guarded, reach = "tenant_id" in self.relation.columns, _REACH[self.role]
        else:
            # They have rights for the sake of views and cannot name the table.
            if self.role is Role.ANALYST or self.right not in guarded.rights.get(self.role, ()):
                return Seen.REFUSED
            is_guarded, reach = guarded.has_tenant, guarded.reach_of(self.role)
        if not is_guarded or reach is Reach.ALL_TENANTS or self.scope is Scope.OWN_TENANT:
            return Seen.REACHED
        return Seen.NO_ROWS

    def __str__(self) -> str:
        """The cell in words."""
        return f"{self.role} {self.right} {self.relation.place} ({self.scope})"


_REACH = {
    Role.ANALYST: Reach.GRANTED_TENANTS,
    Role.OPERATOR: Reach.ALL_TENANTS,
}
"""Of the readers of views, written out once more: what is declared is not asked about itself."""


async def relations(connection: asyncpg.Connection) -> list[Relation]:
    """Every table and view of the product that is really there."""
    rows = await connection.fetch(
        "select n.nspname, c.relname, c.relkind = 'v' as is_view, array_agg(a.attname::text) as"
        " names, array_agg(format_type(a.atttypid, null)) as types"
        " from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped"
        " where n.nspname = any ($1::text[]) and c.relkind in ('r', 'p', 'm', 'v')"
        " group by 1, 2, 3 order by 1, 2",
        ["actionledger", "actionledger_api_v1", ACCESS_SCHEMA],
    )
    return [
        Relation(
            row["nspname"],
            row["relname"],
            dict(zip(row["names"], row["types"], strict=True)),
            None if row["is_view"] else TABLES[row["relname"]],
        )
        for row in rows
    ]


def cells(found: list[Relation]) -> Iterator[Cell]:
    """The whole matrix."""
    for relation in found:
        for role in Role:
            for right in Right:
                for scope in Scope:
                    yield Cell(role, relation, right, scope)


async def fill(connection: asyncpg.Connection, found: list[Relation]) -> None:
    """Put a row of each of two tenants, or one row, into every table. For a superuser."""
    for relation in found:
        if relation.guarded is not None and relation.name != "schema_migrations":
            for tenant in (OWN, OTHER) if relation.guarded.has_tenant else (OWN,):
                await _insert(connection, relation, tenant, number=0)
                if relation.name == "actions":
                    await _insert(connection, relation, tenant, number=_BLOCKED)


async def _insert(
    connection: asyncpg.Connection, relation: Relation, tenant: str, *, number: int
) -> None:
    values = {
        column: _value(column, kind, tenant, number)
        for column, kind in relation.columns.items()
        if column not in _LEFT_OUT.get(relation.name, ())
    }
    if relation.name == "gates":
        values["kind"] = "'run'"
    if relation.name == "webhooks":
        values["source"] = "'webhook'"
    columns = ", ".join(map(_quoted, values))
    statement = f"insert into {relation.place} ({columns}) values"
    await connection.execute(f"{statement} ({', '.join(values.values())})")


def _quoted(column: str) -> str:
    return f'"{column}"'


_BLOCKED = 2
"""Number of a row that is blocked: no status stands in every view."""

_LEFT_OUT = {"webhooks": ("action_key", "matched_by", "matched_at")}


def _value(column: str, kind: str, tenant: str, number: int) -> str:
    """Some value as SQL that is fit for the column, another one for another tenant or number."""
    named = {
        "tenant_id": f"'{tenant}'",
        "decision": "'approve'",
        "action_key": f"'charge:v1:{tenant}:e{number}'",
        "role_name": f"'{Role.ANALYST.value if tenant == OWN else 'another_analyst'}'",
        "status": "'blocked'" if number == _BLOCKED else "'unknown'",
        "saga_role": "'step'",
        "reason": "'second_effect'",
        "reliability": "'keyed'",
        "classification": "'irrelevant'",
        "ordinal": "0",
        "kind": "'alarm'",
        "holds": f"'[{_hold(OWN)}, {_hold(OTHER)}]'",
    }
    different = (number * 2 + (tenant == OTHER)) + 100
    by_kind = {
        "text": f"'{tenant}-{number}'",
        "name": f"'{tenant}-{number}'",
        "text[]": "'{}'",
        "json": "'{}'",
        "bytea": "''",
        "timestamp with time zone": "now()",
        "boolean": "true",
    }
    return named.get(column) or by_kind.get(kind) or str(different)


def _hold(tenant: str) -> str:
    scope = f'{{"tenant": "{tenant}"}}'
    return f'{{"scope": {scope}, "by": "ops", "reason": "", "since": 1, "offset": 1}}'


async def observed(connection: asyncpg.Connection, cell: Cell) -> Seen:
    """What really comes of it. The connection is a superuser's and as before afterwards."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        if cell.scope is Scope.NONE_SET:
            await connection.execute(f"delete from {ACCESS_SCHEMA}.analyst_tenants")  # noqa: S608
            if cell.relation.name == "analyst_tenants":
                await _insert(connection, cell.relation, OWN, number=0)
        await connection.execute(f"set local session authorization {cell.role.value}")
        if cell.scope is not Scope.NONE_SET:
            await connection.execute("select set_config($1, $2, true)", TENANT_SETTING, OWN)
        return await _tried(connection, cell)
    except asyncpg.InsufficientPrivilegeError:
        return Seen.REFUSED
    except (
        asyncpg.WrongObjectTypeError,
        asyncpg.ObjectNotInPrerequisiteStateError,
        asyncpg.FeatureNotSupportedError,
    ):
        if cell.relation.guarded is not None:
            raise
        return Seen.REFUSED  # a view that nobody at all can write to
    finally:
        await transaction.rollback()


async def _tried(connection: asyncpg.Connection, cell: Cell) -> Seen:
    tenant = OTHER if cell.scope is Scope.OTHER_TENANT else OWN
    place, columns = cell.relation.place, cell.relation.columns
    where = f" where tenant_id = '{tenant}'" if "tenant_id" in columns else ""
    column = _quoted(next(iter(columns)))
    said = ""
    match cell.right:
        case Right.SELECT:
            found = await connection.fetch(f"select * from {place}{where}")  # noqa: S608
            said = f"SELECT {len(found) if where else 'any'}"
        case Right.INSERT if cell.relation.guarded is None:
            itself = f"insert into {place} select * from {place}"  # noqa: S608
            said = await connection.execute(itself)
        case Right.INSERT:
            await _insert(connection, cell.relation, tenant, number=1)
            said = "INSERT 0 1"
        case Right.UPDATE:
            unchanged = f"update {place} set {column} = {column}{where}"  # noqa: S608
            said = await connection.execute(unchanged)
        case Right.DELETE:
            said = await connection.execute(f"delete from {place}{where}")  # noqa: S608
        case Right.TRUNCATE:
            said = await connection.execute(f"truncate {place}")
        case _ as unknown:
            assert_never(unknown)
    return Seen.NO_ROWS if said.endswith(" 0") else Seen.REACHED
