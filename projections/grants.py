"""Brings rights and row-level security to what `projections.roles` declares, and compares them.

Guarantees that all of it changes in one transaction or nothing does, and that nothing is touched
where it is as declared: these statements wait for every reader of a table. A role that is not there
and may not be made is left out, with a line in the log; the next run makes up for it. Called with
every migration, of whatever schema, and by `actionledger doctor`.
"""

import hashlib
import logging
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from projections.roles import (
    ACCESS_SCHEMA,
    CONDITIONS,
    SCHEMA_USERS,
    TABLES,
    VIEW_READERS,
    Guarded,
    Right,
    Role,
)
from projections.statements import Connection, check_schema

logger = logging.getLogger("actionledger")

_OWNER: Final = "owner"
"""The policy of whoever owns the tables."""

_MARK: Final = "actionledger access "
"""Begins the comment of a schema that has what is declared; the digest of it follows."""


async def apply_access(connection: Connection, schema: str) -> None:
    """Make the roles and give each what it may do in the schema. Again changes nothing.

    For the owner of the schema. Raises what Postgres says; then nothing was done.
    """
    check_schema(schema)
    await _make_roles(connection)
    roles = await _roles_there(connection)
    owner = await connection.fetchval("select quote_ident(current_user)")
    views = await _relations(connection, f"{schema}_api_v1", "v")
    tables = {name: await _relations(connection, name, "r") for name in (schema, ACCESS_SCHEMA)}
    there = await _schemas_there(connection, _schema_users(schema))
    wanted = [*_schema_rights(schema, there, roles), *_view_rights(schema, views, roles)]
    for name, guarded in TABLES.items():
        at = guarded.schema or schema
        if name in tables[at]:
            wanted += _table_rights(f"{at}.{name}", guarded, roles, owner)
    mark = _MARK + hashlib.sha256("\n".join(wanted).encode()).hexdigest()
    known = "select obj_description(oid, 'pg_namespace') from pg_namespace where nspname = $1"
    is_marked = await connection.fetchval(known, schema) == mark
    if is_marked and not await access_differences(connection, schema):
        return
    surplus = await _surplus_policies(connection, schema, roles)
    wanted = [*surplus, *wanted]
    async with connection.transaction():
        await connection.execute(";\n".join([*wanted, f"comment on schema {schema} is '{mark}'"]))
    logger.info("database_access_applied", extra={"schema": schema, "roles": len(roles)})


async def _make_roles(connection: Connection) -> None:
    there = await _roles_there(connection)
    for role in Role:
        if role in there:
            continue
        try:
            async with connection.transaction():
                await connection.execute(f"create role {role.value} login")
        except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError):
            continue  # another database of this server made it at the same moment
        except asyncpg.InsufficientPrivilegeError:
            logger.warning("database_role_missing", extra={"role": role.value})


async def _roles_there(connection: Connection) -> frozenset[Role]:
    rows = await connection.fetch(
        "select rolname from pg_roles where rolname = any ($1::text[])", list(Role)
    )
    return frozenset(Role(row["rolname"]) for row in rows)


async def _schemas_there(connection: Connection, names: Collection[str]) -> frozenset[str]:
    rows = await connection.fetch(
        "select nspname from pg_namespace where nspname = any ($1::text[])", list(names)
    )
    return frozenset(row["nspname"] for row in rows)


async def _relations(connection: Connection, schema: str, kind: str) -> list[str]:
    rows = await connection.fetch(
        "select relname from pg_class as c join pg_namespace as n on n.oid = c.relnamespace"
        ' where n.nspname = $1 and c.relkind = $2::text::"char" order by relname',
        schema,
        kind,
    )
    return [row["relname"] for row in rows]


def _names(roles: Collection[Role]) -> str:
    return ", ".join(sorted(roles))


def _schema_users(schema: str) -> dict[str, tuple[Role, ...]]:
    """Who may name what is in which schema; nobody but its owner makes anything there."""
    return {
        schema: SCHEMA_USERS,
        f"{schema}_api_v1": VIEW_READERS,
        ACCESS_SCHEMA: (Role.OPERATOR,),
    }


def _schema_rights(schema: str, there: Collection[str], roles: frozenset[Role]) -> Iterator[str]:
    for name, users in _schema_users(schema).items():
        if roles and name in there:
            yield f"revoke all on schema {name} from {_names(roles)}"
            if named := roles & set(users):
                yield f"grant usage on schema {name} to {_names(named)}"


def _view_rights(schema: str, views: Sequence[str], roles: frozenset[Role]) -> Iterator[str]:
    """Views ask with the rights of their reader, so that the policies of tables hold for them."""
    for view in views:
        name = f"{schema}_api_v1.{view}"
        yield f"alter view {name} set (security_invoker = true)"
        if roles:
            yield f"revoke all on {name} from {_names(roles)}"
        if there := roles & set(VIEW_READERS):
            yield f"grant select on {name} to {_names(there)}"


def _table_rights(name: str, guarded: Guarded, roles: frozenset[Role], owner: str) -> Iterator[str]:
    if roles:
        yield f"revoke all on {name} from {_names(roles)}"
    for role in sorted(roles & guarded.rights.keys()):
        rights = ", ".join(sorted(guarded.rights[role]))
        yield f"grant {rights} on {name} to {role.value}"
    if not guarded.has_tenant:
        return
    yield f"alter table {name} enable row level security"
    yield f"alter table {name} force row level security"
    # Rebuilds and backups are the owner's; without a policy it would see nothing of its own.
    yield f"drop policy if exists {_OWNER} on {name}"
    yield f"create policy {_OWNER} on {name} to {owner} using (true) with check (true)"
    for role in Role:
        yield f"drop policy if exists {role.value} on {name}"
        if role in roles and role in guarded.rights:
            yield _policy(name, guarded, role)


def _policy(name: str, guarded: Guarded, role: Role) -> str:
    condition = CONDITIONS[guarded.reach_of(role)]
    policy = f"create policy {role.value} on {name}"
    if guarded.rights[role] == {Right.SELECT}:
        return f"{policy} for select to {role.value} using ({condition})"
    return f"{policy} to {role.value} using ({condition}) with check ({condition})"


async def stands_above_policies(connection: Connection, schema: str) -> bool:
    """Whether this login sees every tenant's rows whatever the policies say.

    A superuser, one with BYPASSRLS, or the owner, whose own policy lets it. Tables that are not
    there have no owner.
    """
    found = await connection.fetchval(
        "select rolsuper or rolbypassrls or exists ("
        "  select from pg_tables"
        "  where schemaname = $1 and pg_has_role(tableowner, 'usage')"
        ") from pg_roles where rolname = current_user",
        check_schema(schema),
    )
    return bool(found)


async def access_differences(connection: Connection, schema: str) -> tuple[str, ...]:
    """What in the database is not as declared, a sentence each. Reads the catalogue only."""
    roles = await _roles_there(connection)
    found = [f"the role {role.value} is not there" for role in Role if role not in roles]
    found += [
        f"the role {row['rolname']} is a superuser or beyond policies"
        for row in await connection.fetch(
            "select rolname from pg_roles where rolname = any ($1::text[])"
            " and (rolsuper or rolbypassrls or rolcreaterole or rolcreatedb) order by rolname",
            list(Role),
        )
    ]
    for row in await connection.fetch(_UNGUARDED, [schema, ACCESS_SCHEMA]):
        found.append(f"{row['name']} has a tenant and no forced row-level security")
    for row in await connection.fetch(_NOT_INVOKER, f"{schema}_api_v1"):
        found.append(f"the view {row['name']} asks with its owner's rights")
    found += [
        f"the function {row['name']} runs with its owner's rights"
        for row in await connection.fetch(_DEFINERS, _schemas(schema))
    ]
    found += await _right_differences(connection, schema, roles)
    found += await _policy_differences(connection, schema, roles)
    return tuple(found)


def _schemas(schema: str) -> list[str]:
    return [schema, ACCESS_SCHEMA, f"{schema}_api_v1"]


_UNGUARDED: Final = """
select c.oid::regclass::text as name
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
join pg_attribute as a on a.attrelid = c.oid and a.attname = 'tenant_id' and not a.attisdropped
where n.nspname = any ($1::text[])
  and c.relkind in ('r', 'p', 'm')
  and not (c.relrowsecurity and c.relforcerowsecurity)
order by 1
"""
_NOT_INVOKER: Final = """
select c.oid::regclass::text as name
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
where n.nspname = $1
  and c.relkind = 'v'
  and not ('security_invoker=true' = any (coalesce(c.reloptions, '{}')))
order by 1
"""
_DEFINERS: Final = """
select p.oid::regprocedure::text as name
from pg_proc as p
join pg_namespace as n on n.oid = p.pronamespace
where n.nspname = any ($1::text[]) and p.prosecdef
order by 1
"""
_POLICIES: Final = """
select
    schemaname, tablename, policyname, permissive = 'PERMISSIVE' as is_permissive,
    roles::text[] as roles, cmd, coalesce(qual, '') as qual, coalesce(with_check, '') as with_check
from pg_policies
where schemaname = any ($1::text[])
order by schemaname, tablename, policyname
"""
# A column may be given without its table. Nothing here is.
_RIGHTS: Final = """
select c.relname, n.nspname, r.rolname, p.privilege
from pg_class as c
join pg_namespace as n on n.oid = c.relnamespace
cross join unnest($2::text[]) as r (rolname)
cross join unnest($3::text[]) as p (privilege)
where n.nspname = any ($1::text[])
  and c.relkind in ('r', 'p', 'm', 'v')
  and case
      when p.privilege in ('delete', 'truncate')
      then has_table_privilege(r.rolname, c.oid, p.privilege)
      else has_any_column_privilege(r.rolname, c.oid, p.privilege)
  end
"""


async def _right_differences(
    connection: Connection, schema: str, roles: frozenset[Role]
) -> list[str]:
    """Tables that are not declared, and rights that a role has too many or too few."""
    schemas = [schema, ACCESS_SCHEMA]
    tables = {(name, one) for name in schemas for one in await _relations(connection, name, "r")}
    declared = {(guarded.schema or schema, name): guarded for name, guarded in TABLES.items()}
    found = [f"{at}.{name} is not declared" for at, name in sorted(tables - declared.keys())]
    wanted = {
        (*place, role.value, right.value)
        for place, guarded in declared.items()
        if place in tables
        for role in roles & guarded.rights.keys()
        for right in guarded.rights[role]
    }
    views = await _relations(connection, f"{schema}_api_v1", "v")
    wanted |= {
        (f"{schema}_api_v1", view, role.value, Right.SELECT.value)
        for view in views
        for role in roles & set(VIEW_READERS)
    }
    rows = await connection.fetch(_RIGHTS, _schemas(schema), sorted(roles), list(Right))
    given = {(row["nspname"], row["relname"], row["rolname"], row["privilege"]) for row in rows}
    for at, name, role, right in sorted(given ^ wanted):
        word = "has" if (at, name, role, right) in given else "lacks"
        found.append(f"{role} {word} {right} on {at}.{name}")
    return found


async def _policy_differences(
    connection: Connection, schema: str, roles: frozenset[Role]
) -> list[str]:
    """Policies that nobody declared, that are missing, or that say something else. One is enough to
    open a table, for rows are seen that any of them lets through.
    """
    rows = await connection.fetch(_POLICIES, [schema, ACCESS_SCHEMA])
    there = {(row["schemaname"], row["tablename"], row["policyname"]): row for row in rows}
    found, alike = [], defaultdict[str, list[tuple[str, tuple[str, str]]]](list)
    for at, name, policy, declared in _declared_policies(schema, roles):
        row = there.pop((at, name, policy), None)
        if row is None:
            if await connection.fetchval("select to_regclass($1) is not null", f"{at}.{name}"):
                found.append(f"{at}.{name} lacks the policy {policy}")
            continue
        said = (row["is_permissive"], row["roles"] == [policy] or policy == _OWNER, row["cmd"])
        conditions = (row["qual"], row["with_check"])
        if said != (True, True, declared.command) or (
            declared.condition == "true" and set(conditions) - {"true", ""}
        ):
            found.append(f"{at}.{name} has another policy {policy}")
        alike[f"{declared.condition} {declared.command}"].append((f"{at}.{name}", conditions))
    found += [f"{at}.{name} has the policy {policy} too much" for at, name, policy in there]
    for several in alike.values():
        # Postgres writes a condition in its own way, and the same one everywhere in the same.
        (usual, _), *_ = Counter(conditions for _, conditions in several).most_common(1)
        others = sorted({place for place, conditions in several if conditions != usual})
        found += [f"{place} has a policy with another condition" for place in others]
    return found


async def _surplus_policies(
    connection: Connection, schema: str, roles: frozenset[Role]
) -> list[str]:
    """What takes away the policies that nobody declared."""
    declared = {(at, name, one) for at, name, one, _ in _declared_policies(schema, roles)}
    rows = await connection.fetch(_POLICIES, [schema, ACCESS_SCHEMA])
    found = [(row["schemaname"], row["tablename"], row["policyname"]) for row in rows]
    return [
        f'drop policy "{policy.replace(chr(34), chr(34) * 2)}" on {at}.{name}'
        for at, name, policy in found
        if (at, name, policy) not in declared
    ]


@dataclass(frozen=True, slots=True)
class _Declared:
    """What a policy is for, and lets through."""

    command: str
    condition: str


def _declared_policies(
    schema: str, roles: frozenset[Role]
) -> Iterator[tuple[str, str, str, _Declared]]:
    """Schema, table and name of every policy, with what it is to say."""
    for name, guarded in TABLES.items():
        if not guarded.has_tenant:
            continue
        at = guarded.schema or schema
        yield at, name, _OWNER, _Declared("ALL", "true")
        for role in sorted(roles & guarded.rights.keys()):
            command = "SELECT" if guarded.rights[role] == {Right.SELECT} else "ALL"
            yield at, name, role.value, _Declared(command, CONDITIONS[guarded.reach_of(role)])
