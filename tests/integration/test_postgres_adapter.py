"""The adapter `postgres` on a real database: what it refuses, what it keeps, what it looks up."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
import pytest_asyncio

from ledger.core.money import Money
from reconciler.providers import postgres
from reconciler.providers.adapter import ProviderSettings
from reconciler.providers.kinds import adapter_of
from reconciler.providers.port import (
    Absent,
    Deadlines,
    Finder,
    Found,
    Inconclusive,
    NotSent,
    Outcome,
    Performer,
    ProviderRequest,
    Refused,
    Retry,
    Succeeded,
)
from tests.patience import PATIENCE_MS

pytestmark = pytest.mark.servers

EFFECTS_SQL = Path(postgres.__file__).with_name("effects.sql").read_text(encoding="utf-8")
TABLES = """
create table orders (
    id text primary key,
    state text not null default 'open',
    amount bigint not null default 0 constraint orders_not_negative check (amount >= 0),
    note jsonb
);
insert into orders (id) values ('A-1'), ('A-2'), ('A-3');
"""
DESCRIPTION = """\
format = 1
kind = "postgres"
key_window_ms = 2_592_000_000
settle_horizon_ms = 10_000
[credentials]
main = "acting.dsn"
[lookups]
main = "looking.dsn"
[perform."order.cancel"]
sql = \"\"\"
update orders set state = 'cancelled', amount = amount + :amount, note = :note::jsonb
where id = :order and state = 'open'  -- ':order' is no place here, nor is ::text
returning id, state, amount, clock_timestamp() as at
\"\"\"
[perform."order.cancel".values]
order = "{params.order}"
amount = "{params.amount}"
note = "{params.note}"
[perform."orders.touch"]
sql = "update orders set note = null where id = any (string_to_array(:orders, ','))"
rows = 1
rows_at_most = 2
values = { orders = "{params.orders}" }
"""
DEADLINES = Deadlines(connect_ms=PATIENCE_MS, response_ms=PATIENCE_MS)
REQUEST = ProviderRequest(
    action_key="order.cancel:v1:acme:A-1",
    operation="order.cancel",
    version=1,
    target=None,
    params={"order": "A-1", "amount": 5, "note": {"why": "Zoë's', drop table orders; --"}},
    money=Money(minor=4_990, currency="USD"),
    account="main",
    request_hash="sha256:" + "ab" * 32,
)


@dataclass
class Place:
    """A database, whoever acts in it and whoever looks, and its owner."""

    performer: Performer
    finder: Finder
    owner: asyncpg.Connection

    async def perform(
        self, *, deadlines: Deadlines = DEADLINES, operation: str = "order.cancel", **params: object
    ) -> Outcome:
        """Make the change of an order's own key."""
        request = replace(REQUEST, operation=operation, params={**REQUEST.params, **params})
        order = str(params.get("order", "A-1"))
        request = replace(request, action_key=f"{operation}:v1:acme:{order}")
        return await self.performer.perform(
            request,
            provider_key=request.action_key,
            deadlines=deadlines,
            before_first_byte=lambda: None,
        )

    async def find(self, order: str = "A-1", *, reference: str | None = None) -> object:
        """Look it up."""
        key = f"order.cancel:v1:acme:{order}"
        return await self.finder.find(
            account="main",
            provider_key=key,
            action_key=key,
            reference=reference,
            timeout_ms=PATIENCE_MS,
        )

    async def states(self) -> dict[str, str]:
        """What the table says."""
        rows = await self.owner.fetch("select id, state from orders order by id")
        return {row["id"]: row["state"] for row in rows}


@pytest_asyncio.fixture
async def place(empty_database_url: str, tmp_path: Path) -> AsyncIterator[Place]:
    """An empty database with the tables, a role that acts and a role that can only look."""
    owner = await asyncpg.connect(empty_database_url)
    await owner.execute(EFFECTS_SQL + TABLES)
    names = {name: f"{name}_{secrets.token_hex(4)}" for name in ("acting", "looking")}
    address = urlsplit(empty_database_url)
    for name, role in names.items():
        await owner.execute(f"create role {role} login password '{role}'")
        host = address.netloc.rpartition("@")[2]
        url = urlunsplit(address._replace(netloc=f"{role}:{role}@{host}"))
        (tmp_path / f"{name}.dsn").write_text(url, encoding="ascii")
    await owner.execute(
        f"grant select, insert on actionledger_effects to {names['acting']};"
        f"grant select, update on orders to {names['acting']};"
        f"grant select on actionledger_effects to {names['looking']}"
    )
    path = tmp_path / "shop.toml"
    path.write_text(DESCRIPTION, encoding="utf-8")
    adapter = adapter_of(ProviderSettings("shop", "postgres", adapter_file=path))
    place = Place(adapter.performer(), adapter.finder(), owner)
    yield place
    await place.performer.close()
    await place.finder.close()
    for role in names.values():
        await owner.execute(f"drop owned by {role}; drop role {role}")
    await owner.close()


async def test_a_change_and_its_row_are_one(place: Place) -> None:
    """What is returned is kept and found again; values are bound, whatever they say."""
    outcome = await place.perform()
    assert isinstance(outcome, Succeeded)
    assert {name: outcome.result[name] for name in ("id", "state", "amount", "rows")} == {
        "id": "A-1",
        "state": "cancelled",
        "amount": 5,
        "rows": 1,
    }
    assert await place.states() == {"A-1": "cancelled", "A-2": "open", "A-3": "open"}
    assert await place.owner.fetchval("select note->>'why' from orders where id = 'A-1'") == (
        "Zoë's', drop table orders; --"
    )
    assert await place.find() == Found(
        outcome.reference, REQUEST.money, outcome.result, "order.cancel:v1:acme:A-1"
    )
    assert await place.perform() == outcome


@pytest.mark.parametrize(
    ("params", "outcome"),
    [
        ({"order": "A-9"}, Refused("rows_affected_0", Retry.NEVER)),
        ({"amount": -1}, Refused("sqlstate_23514_orders_not_negative", Retry.NEVER)),
        ({"amount": "many"}, Refused("sqlstate_22000", Retry.NEVER)),
        ({"amount": None}, Refused("sqlstate_23502", Retry.NEVER)),
        ({"note": "{"}, Refused("sqlstate_22p02", Retry.NEVER)),
        ({"order": "A-1\0"}, NotSent("request_unsendable", Retry.NEVER)),
        (
            {"operation": "orders.touch", "orders": "A-1,A-2,A-3"},
            Refused("rows_affected_3", Retry.NEVER),
        ),
        ({"operation": "orders.drop"}, NotSent("operation_not_described", Retry.NEVER)),
    ],
)
async def test_a_no_leaves_nothing(place: Place, params: dict[str, Any], outcome: Outcome) -> None:
    """A constraint, a value that does not fit, other numbers of rows: named, and taken back."""
    operation = str(params.pop("operation", "order.cancel"))
    assert await place.perform(operation=operation, **params) == outcome
    assert set((await place.states()).values()) == {"open"}
    assert await place.owner.fetchval("select count(*) from actionledger_effects") == 0
    assert isinstance(await place.find(), Absent)


async def test_rows_may_be_a_range(place: Place) -> None:
    """As many as the description allows is a success."""
    assert isinstance(await place.perform(operation="orders.touch", orders="A-1,A-2"), Succeeded)


async def test_another_request_under_the_key_is_refused(place: Place) -> None:
    """The row keeps the hash of the whole request, and answers for that one only."""
    await place.perform()
    other = replace(REQUEST, request_hash="sha256:" + "cd" * 32)
    outcome = await place.performer.perform(
        other,
        provider_key=REQUEST.action_key,
        deadlines=DEADLINES,
        before_first_byte=lambda: None,
    )
    assert outcome == Refused("key_reused", Retry.NEVER)


async def test_a_lock_that_lasts_is_a_no_for_now(place: Place) -> None:
    """Who waits for somebody else's row longer than the deadline has done nothing."""
    async with place.owner.transaction():
        await place.owner.execute("select * from orders where id = 'A-1' for update")
        short = Deadlines(connect_ms=PATIENCE_MS, response_ms=200)
        outcome = await place.perform(deadlines=short)
    assert isinstance(outcome, Refused | NotSent)
    assert outcome.retry is Retry.LATER
    assert set((await place.states()).values()) == {"open"}
    assert isinstance(await place.perform(), Succeeded)


async def test_a_transaction_under_way_is_no_absence(place: Place) -> None:
    """While somebody holds the key, nobody says that there is no effect."""
    async with place.owner.transaction():
        await place.owner.execute(
            "select pg_advisory_xact_lock(hashtextextended($1, 6160438))", REQUEST.action_key
        )
        assert await place.find() == Inconclusive("in_progress")
    assert isinstance(await place.find(), Absent)


async def test_two_at_once_are_one_change(place: Place) -> None:
    """Who comes second waits, and is shown what the first one did."""
    first, second = await asyncio.gather(place.perform(), place.perform())
    assert isinstance(first, Succeeded)
    assert first == second


async def test_references_lead_to_their_own_action(place: Place) -> None:
    """A reference that nobody knows, or that is another action's, proves nothing."""
    outcome = await place.perform(order="A-2")
    assert isinstance(outcome, Succeeded)
    found = await place.find("A-2", reference=outcome.reference)
    assert isinstance(found, Found)
    assert await place.find("A-1", reference=outcome.reference) == Inconclusive(
        "effect_of_another_action"
    )
    assert await place.find("A-1", reference="none") == Inconclusive("reference_not_found")


async def test_without_the_table_nothing_is_sent(place: Place) -> None:
    """A table that does not keep keys apart would promise nothing: no change is made with it."""
    await place.owner.execute(
        "alter table actionledger_effects drop constraint actionledger_effects_pkey"
    )
    assert await place.perform() == NotSent("effects_table_unusable", Retry.LATER)
    assert await place.find() == Inconclusive("effects_table_unusable")
    await place.owner.execute("drop table actionledger_effects")
    assert await place.perform() == NotSent("effects_table_unusable", Retry.LATER)


async def test_who_looks_can_do_nothing_else(place: Place) -> None:
    """The role of lookups has no right but to read that one table, and lists with it."""
    await place.perform(order="A-1")
    await place.perform(order="A-3")
    listing = place.finder.list_effects(account="main", since_at=0, timeout_ms=PATIENCE_MS)
    keys = [effect.action_key async for effect in listing]
    assert keys == ["order.cancel:v1:acme:A-1", "order.cancel:v1:acme:A-3"]
