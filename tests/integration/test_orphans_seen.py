"""Whose an effect without an action is, in real tables: by a whole key, and by nothing like one."""

import asyncpg
import pytest

from ledger.core.ids import ActionKey, MalformedId
from ledger.core.people import EVERY_TENANT
from reconciler.orphans import find_orphan, list_orphans
from reconciler.parking import Position
from tests.integration.reconciling import migrated

pytestmark = pytest.mark.servers

ACME, GLOBEX = "charge:v1:acme:renewal-1", "charge:v1:globex:renewal-1"
LIKE_ACME = "charge:v1:acme:a b"
WHOSE: dict[tuple[str | None, str | None], str | None] = {
    (ACME, None): "acme",
    (None, GLOBEX): "globex",
    (LIKE_ACME, GLOBEX): "globex",
    (ACME, "sha256-of-something"): "acme",
    (ACME, ACME): "acme",
    (ACME, GLOBEX): None,
    (LIKE_ACME, None): None,
    (None, None): None,
}
TEXTS = (
    *(ACME, LIKE_ACME, "", ":", "charge:v1:acme:", "charge:v0:acme:a", "charge:v10000:acme:a"),
    *(
        "a.b_c.d:v9999:A.c-m_e:e#i~2",
        "a:v1:acme:e~1",
        "a:v1:acme:e~02",
        "a:v1:acme:e#",
        "a:v1:t:e:f",
    ),
    *(
        "Charge:v1:acme:a",
        "a..b:v1:acme:a",
        "é:v1:acme:a",
        "a:v1:é:a",
        "a:v1:acme:a\n",
        "\na:v1:t:e",
    ),
    *(f"{'o' * 64}:v1:t:e", f"{'o' * 65}:v1:t:e", f"a:v1:{'t' * 128}:e", f"a:v1:{'t' * 129}:e"),
    f"{'o' * 64}:v9999:{'t' * 128}:{'e' * 128}#{'i' * 128}~9999",
    f"{'o' * 64}:v9999:{'t' * 128}:{'e' * 128}#{'i' * 129}~9999",
)


async def written(pool: asyncpg.Pool, offset: int, claimed: str | None, keyed: str | None) -> None:
    """One row of an effect without an action."""
    await pool.execute(
        "insert into actionledger.webhooks (partition, topic_offset, provider, account, event_id,"
        " received_at, sha256, mapping_hash, claimed_key, provider_key, classification, reason)"
        " values (0, $1, 'p', 'main', 'evt_' || $1::bigint, now(), '', '', $2, $3, 'parked',"
        " 'line_changed')",
        offset,
        claimed,
        keyed,
    )


async def test_a_tenant_sees_what_bears_its_keys_and_nothing_else(database_url: str) -> None:
    """The mark counts, and the key at the provider; a text that is like a key is none, and what
    bears the keys of two tenants is shown to who decides for all.
    """
    async with migrated(database_url) as pool:
        for offset, (claimed, keyed) in enumerate(WHOSE):
            await written(pool, offset, claimed, keyed)
        for who in ("acme", "globex", EVERY_TENANT):
            seen = {
                f"0/{offset}"
                for offset, tenant in enumerate(WHOSE.values())
                if who in {tenant, EVERY_TENANT}
            }
            found, total = await list_orphans(pool, (who,), limit=100)
            assert ({one.place for one in found}, total) == (seen, len(seen)), who
            for offset in range(len(WHOSE)):
                one = await find_orphan(pool, (who,), Position(0, offset))
                assert (one is not None) == (f"0/{offset}" in seen), (who, offset)


async def test_tables_and_ledger_read_the_same_keys(database_url: str) -> None:
    """Each text is a key of the same tenant to both, or none to both."""
    tenants: dict[int, str] = {}
    for offset, text in enumerate(TEXTS):
        try:
            tenants[offset] = ActionKey.parse(text).tenant
        except MalformedId:
            continue
    assert len(tenants) == 5
    async with migrated(database_url) as pool:
        for offset, text in enumerate(TEXTS):
            await written(pool, offset, text, None)
        everybody = set(tenants.values())
        found, _ = await list_orphans(pool, everybody, limit=100)
        assert {one.place for one in found} == {f"0/{offset}" for offset in tenants}
        for offset, tenant in tenants.items():
            assert await find_orphan(pool, (tenant,), Position(0, offset)) is not None
            assert await find_orphan(pool, everybody - {tenant}, Position(0, offset)) is None
