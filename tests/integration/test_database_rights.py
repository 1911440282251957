"""Permissions on a real Postgres: every role on every table and view, against what is declared."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from projections.cold import ColdStore
from projections.grants import access_differences, stands_above_policies
from projections.migrate import NOT_PROJECTED, migrate
from projections.queries import Queries
from projections.query_rows import ALL
from projections.roles import TABLES, Role
from tests import examples as x
from tests.integration.database_rights import (
    OTHER,
    OWN,
    Relation,
    cells,
    fill,
    observed,
    relations,
)
from tests.ledgers import LedgerBuilder
from tests.patience import PATIENCE_SECONDS
from tests.projecting import project

pytestmark = pytest.mark.servers

DEFINER = """
create function actionledger_api_v1.totals() returns bigint language sql security definer
as 'select count(*) from actionledger.actions'
"""
MATERIALIZED = """
create materialized view actionledger_api_v1.totals as select count(*) from actionledger.actions;
grant select on actionledger_api_v1.totals to public
"""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection to a database with every table."""
    # A statement that is kept was parsed with the rights of whoever asked it first.
    connected = await asyncpg.connect(database_url, statement_cache_size=0)
    await migrate(connected)
    yield connected
    await connected.close()


@pytest.fixture
async def filled(connection: asyncpg.Connection) -> list[Relation]:
    """Every table and view, with rows of two tenants."""
    found = await relations(connection)
    await fill(connection, found)
    return found


@asynccontextmanager
async def pool_as(role: Role, database_url: str, *, size: int) -> AsyncIterator[asyncpg.Pool]:
    """A pool whose connections have the identity of a role, as if it had logged in."""

    async def become(connection: asyncpg.Connection) -> None:
        await connection.execute(f"set session authorization {role.value}")

    async with asyncpg.create_pool(database_url, min_size=size, max_size=size, init=become) as pool:
        yield pool


async def test_every_role_has_what_is_declared_on_every_table_and_nothing_else(
    connection: asyncpg.Connection, filled: list[Relation]
) -> None:
    """Each role tries each statement on each table and view, for each tenant and for none."""
    wrong = [
        f"{cell}: {seen}, declared {cell.declared()}"
        for cell in cells(filled)
        if (seen := await observed(connection, cell)) is not cell.declared()
    ]
    assert not wrong, "\n".join(wrong)


async def test_the_catalogue_is_as_declared_in_every_schema(connection: asyncpg.Connection) -> None:
    """Roles are no superusers, tenants' tables are forced, views ask with their reader's rights."""
    assert await access_differences(connection, "actionledger") == ()
    await migrate(connection, schema="beside", without=NOT_PROJECTED)
    assert await access_differences(connection, "beside") == ()


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("alter table actionledger.actions no force row level security", "no forced row-level"),
        ("alter table actionledger.streams disable row level security", "no forced row-level"),
        ("create table actionledger.sagas (tenant_id text)", "no forced row-level"),
        ("create table actionledger.quotas (target text)", "actionledger.quotas is not declared"),
        ("grant delete on actionledger.actions to actionledger_gateway", "gateway has delete"),
        ("grant select on actionledger.webhooks to public", "analyst has select"),
        ("revoke select on actionledger.streams from actionledger_processor", "lacks select"),
        ("alter view actionledger_api_v1.actions reset (security_invoker)", "owner's rights"),
        (
            "create policy leak on actionledger.actions to public using (true)",
            "actionledger.actions has the policy leak too much",
        ),
        (
            "alter policy actionledger_analyst on actionledger.attempts using (true)",
            "actionledger.attempts has a policy with another condition",
        ),
        (
            "alter policy actionledger_gateway on actionledger.attempts to public",
            "actionledger.attempts has another policy actionledger_gateway",
        ),
        (
            "drop policy actionledger_projector on actionledger.actions",
            "actionledger.actions lacks the policy actionledger_projector",
        ),
        (DEFINER, "the function actionledger_api_v1.totals() runs with its owner's rights"),
        (MATERIALIZED, "actionledger_analyst has select on actionledger_api_v1.totals"),
        (
            "grant select (state) on actionledger.streams to actionledger_gateway",
            "gateway has select on actionledger.streams",
        ),
    ],
)
async def test_what_is_not_as_declared_is_named(
    connection: asyncpg.Connection, broken: str, told: str
) -> None:
    """Family tenant: a table that is not forced, not declared, or open too far is a difference in
    words, whether by a right, a policy, a view, a function or a column.
    """
    await connection.execute(broken)
    found = await access_differences(connection, "actionledger")
    assert any(told in difference for difference in found), found


async def test_every_declared_table_is_there(filled: list[Relation]) -> None:
    """Nothing is declared that does not exist any more."""
    assert TABLES.keys() == {one.name for one in filled if one.guarded is not None}


async def test_an_action_of_another_tenant_is_not_there(
    database_url: str, filled: list[Relation]
) -> None:
    """Under the gateway's role one tenant's answers hold nothing of another's."""
    async with pool_as(Role.GATEWAY, database_url, size=1) as pool:
        queries = Queries(pool)
        own, other = f"charge:v1:{OWN}:e0", f"charge:v1:{OTHER}:e0"
        assert len(await queries.timeline(OWN, own)) == 1
        assert await queries.action(OWN, other) is None
        assert await queries.timeline(OWN, other) == ()
        assert await queries.attempts(OWN, other) == ()
        assert await queries.why_action(OWN, other) == ()
        assert {one.action_key for one in await queries.unknowns(OWN)} == {own}
        assert {one.tenant_id for one in await queries.cases(OWN)} == {OWN}
        # Without a tenant the role sees nobody's rows, whoever says that all are meant.
        assert await queries.unknowns(ALL) == ()


async def test_a_statement_that_forgets_the_tenant_finds_only_its_own_rows(
    connection: asyncpg.Connection, filled: list[Relation]
) -> None:
    """What the policy lets through does not depend on the words of the statement."""
    async with connection.transaction():
        await connection.execute("set local session authorization actionledger_gateway")
        await connection.execute("select set_config('actionledger.tenant', $1, true)", OWN)
        for relation in filled:
            guarded = relation.guarded
            if guarded is not None and guarded.has_tenant and Role.GATEWAY in guarded.rights:
                rows = await connection.fetch(f"select * from {relation.place}")  # noqa: S608
                assert {row["tenant_id"] for row in rows} == {OWN}, relation.place


async def test_a_connection_that_is_used_again_has_no_tenant_left(
    database_url: str, filled: list[Relation]
) -> None:
    """After an answer, an error and a cancelled question the next user of it begins with none."""
    everything = "select count(*) from actionledger.actions"
    async with pool_as(Role.GATEWAY, database_url, size=1) as pool:
        queries = Queries(pool)
        assert len(await queries.unknowns(OWN)) == 1
        assert await pool.fetchval(everything) == 0
        with pytest.raises(asyncpg.DataError):
            await queries.why_input(OWN, "intents", 2**40, 0)
        assert await pool.fetchval(everything) == 0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await queries.unknowns(OWN)
        assert await pool.fetchval(everything) == 0


async def test_tenants_side_by_side_on_few_connections_are_not_mixed(
    database_url: str, filled: list[Relation]
) -> None:
    """A hundred questions of two tenants over two connections: each gets its own rows."""
    async with pool_as(Role.GATEWAY, database_url, size=2) as pool:
        queries = Queries(pool)
        tenants = [OWN if number % 2 else OTHER for number in range(100)]
        answers = await asyncio.gather(*(queries.unknowns(tenant) for tenant in tenants))
        for tenant, answer in zip(tenants, answers, strict=True):
            assert [one.tenant_id for one in answer] == [tenant]


async def test_an_analyst_is_known_by_login_and_by_nothing_it_can_set(
    connection: asyncpg.Connection, filled: list[Relation]
) -> None:
    """A login of its own sees the tenants that its name was given, whatever it sets or becomes."""
    name = f"analyst_{secrets.token_hex(6)}"
    await connection.execute(f"create role {name} login in role actionledger_analyst")
    try:
        await connection.execute(
            "insert into actionledger_access.analyst_tenants values ($1, $2)", name, OTHER
        )
        mine = "select array_agg(distinct tenant_id) from actionledger_api_v1.actions"
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(f"set local session authorization {name}")
        assert await connection.fetchval(mine) == [OTHER]
        await connection.execute("select set_config('actionledger.tenant', $1, true)", OWN)
        assert await connection.fetchval(mine) == [OTHER]
        # It may become the group, and then has what the group was given: here the first tenant.
        for forbidden in (
            "set local role actionledger_operator",
            "insert into actionledger_access.analyst_tenants values (current_user, 'acme')",
            "set local row_security = off; select * from actionledger_api_v1.actions",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                async with connection.transaction():
                    await connection.execute(forbidden)
        await transaction.rollback()
    finally:
        await connection.execute(f"drop owned by {name}; drop role {name}")


async def test_the_next_run_takes_away_what_somebody_gave(
    connection: asyncpg.Connection,
) -> None:
    """Setting up again brings the database back to what is declared, and is quiet where it is."""
    await connection.execute("grant all on actionledger.actions to actionledger_gateway")
    await connection.execute("alter table actionledger.actions no force row level security")
    await connection.execute('create policy "a ""leak""" on actionledger.actions using (true)')
    await connection.execute(
        "alter policy actionledger_analyst on actionledger.attempts using (true);"
        "grant update (status) on actionledger.actions to actionledger_gateway"
    )
    await migrate(connection)
    assert await access_differences(connection, "actionledger") == ()


async def test_setting_up_again_waits_for_no_reader(
    connection: asyncpg.Connection, database_url: str
) -> None:
    """Where all is as declared no table is locked: an analyst's long question holds up nothing."""
    reader = await asyncpg.connect(database_url)
    try:
        async with reader.transaction(), asyncio.timeout(PATIENCE_SECONDS):
            await reader.fetch("select * from actionledger_api_v1.actions")
            await migrate(connection)
    finally:
        await reader.close()


async def test_each_process_can_do_its_work_under_its_role(
    connection: asyncpg.Connection, database_url: str
) -> None:
    """What the projector writes is what the processor loads and the gateway answers with."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.no_answer()), later_ms=4_000)
    async with pool_as(Role.PROJECTOR, database_url, size=3) as pool:
        await project(pool, builder)
    async with pool_as(Role.PROCESSOR, database_url, size=1) as pool:
        found = await ColdStore(pool).load({0: [x.STREAM]})
        assert found[0].streams.keys() == {x.STREAM}
    async with pool_as(Role.GATEWAY, database_url, size=1) as pool:
        action = await Queries(pool).action("acme", x.CHARGE)
        assert action is not None
        assert action.status == "unknown"


async def test_who_stands_above_policies_is_known(
    connection: asyncpg.Connection, database_url: str
) -> None:
    """A superuser does, and the owner; no role of a process or a person does."""
    assert await stands_above_policies(connection, "actionledger")
    for role in Role:
        async with pool_as(role, database_url, size=1) as pool, pool.acquire() as one:
            assert not await stands_above_policies(one, "actionledger")


async def test_a_person_sees_what_waits_for_the_own_tenants(
    database_url: str, filled: list[Relation], connection: asyncpg.Connection
) -> None:
    """The gateway's login finds what waits for the tenants that it was told, for all where that is
    meant, and for none where nobody said.
    """
    assert filled
    await connection.execute("update actionledger.actions set status = 'awaiting_approval'")
    async with pool_as(Role.GATEWAY, database_url, size=2) as pool:
        queries = Queries(pool)
        for tenants, seen in (
            ([OWN], {OWN}),
            ([OWN, OTHER], {OWN, OTHER}),
            (["*"], {OWN, OTHER}),
            ([], set()),
            (["nobody"], set()),
            (ALL, set()),
        ):
            assert {one.tenant_id for one in await queries.waiting(tenants)} == seen, tenants
