"""What a statement reads for one webhook stays the same while the table grows.

A table that was never analysed is the case that counts: each installation has it in its first
minutes, and whenever more comes than the database has looked at. To the planner all indexes are the
same then, so every one that fits has to be good enough.
"""

import json
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg
import pytest

from projections.statements import LIVE_SCHEMA
from projections.statements import statements as projected
from reconciler.limits import (
    CHANGED_HASH_CHARS,
    CLOCKS_APART_MS,
    COMPOSITE_BACK_MS,
    SWEEP_ROWS_MAX,
)
from reconciler.matching import AWAITS_ACTION, AWAITS_REFERENCE, OUTCOME_OPEN, WITHOUT_MARK
from reconciler.sql_files import statements
from tests.integration.reconciling import migrated

pytestmark = pytest.mark.servers

ROWS: Final = 4_000
ASKED: Final = 20
BLOCKS_A_ROW_MAX: Final = 24
"""An index has three levels here, a row is one block, and some are read to find none."""

FILL: Final = """
insert into actionledger.webhooks (
    partition, topic_offset, provider, account, event_id, received_at, occurred_at, sha256,
    mapping_hash, event_type, meaning, effect, reference, classification, reason, action_key,
    matched_by, matched_at, fact
)
select
    0, n, 'simulated', 'main', 'evt_' || n, now(), now(), 'a', 'a', 'settled', 'final', 'exists',
    'ch_' || n, kind, case when kind = 'parked' then 'unknown_reference' end,
    case when kind = 'matched' then 'charge:v1:acme:' || n end,
    case when kind = 'matched' then 'reference' end,
    case when kind = 'matched' then now() end,
    'fact_' || n
from generate_series(1, $1) as n,
     lateral (select (array['matched', 'parked', 'duplicate'])[1 + n % 3] as kind) as of_it
"""
FILL_ACTIONS: Final = """
insert into actionledger.actions (
    tenant_id, action_id, operation, operation_version, action_key, stream_key, request_hash,
    target, amount_minor, currency, principal, environment, provider, account, reliability, status,
    version, attempts, step_deadline_at, intent_offset, epoch, ledger_partition, ledger_offset,
    created_at, updated_at
)
select
    'acme', 'renewal-' || n, 'charge', 1, 'charge:v1:acme:renewal-' || n, 'acme/' || n, 'a',
    'order:' || n, 4990, 'EUR', 'p', 'test', 'simulated', 'main', 'keyed', 'unknown', 1, 1, now(),
    0, 1, 0, n, now(), now()
from generate_series(1, $1) as n
"""
FILL_OFFSETS: Final = """
insert into actionledger.projection_offsets
    (partition, next_offset, epoch, decided_at, positions, void_count)
values (0, 1, 1, now(), '{}', 0)
"""
FILL_ATTEMPTS: Final = """
insert into actionledger.attempts (
    action_key, number, tenant_id, provider, account, fencing_token, holder, provider_key, status,
    started_at, lease_until
)
select
    'charge:v1:acme:renewal-' || n, 1, 'acme', 'simulated', 'main', 1, 'h', 'key_' || n,
    'unresolved',
    now() - interval '1 hour', now()
from generate_series(1, $1) as n
"""
FILL_REFERENCES: Final = """
insert into actionledger.provider_references (
    account, reference, action_key, tenant_id, stream_key, provider, seen_at, partition,
    ledger_offset
)
select
    'main', 'known_' || n, 'charge:v1:acme:renewal-' || n, 'acme', 'acme/' || n, 'simulated',
    now(), 0, n
from generate_series(1, $1) as n
"""
WAITING: Final = """
insert into actionledger.webhooks (
    partition, topic_offset, provider, account, event_id, received_at, occurred_at, sha256,
    mapping_hash, event_type, meaning, effect, reference, claimed_key, provider_key, amount_minor,
    currency, classification, reason, fact, about_operation, about_target
)
select
    1, n, 'simulated', 'main', 'waits_' || n, now(), now(), 'a', 'a', 'settled', 'final', 'exists',
    case when n % 4 = 0 then 'known_' || (1 + n * 7) end,
    case when n % 4 = 1 then 'charge:v1:acme:renewal-' || (1 + n * 7) end,
    case when n % 4 = 3 then 'key_' || (1 + n * 7) end,
    4990, 'EUR', 'parked',
    (array['reference_unknown', 'orphan_effect', 'reference_missing', 'reference_unknown'])
        [1 + n % 4],
    'waits_' || n,
    case when n % 4 = 2 then 'charge' end, case when n % 4 = 2 then 'order:' || (1 + n * 7) end
from generate_series(0, $1 * 4 - 1) as n
"""
"""So many of each kind: whose reference is known, whose action is, whose composite fits, and whose
key at the provider an attempt gave."""
ELSEWHERE: Final = 9  # a partition: the same events, delivered once more
ACCOUNTS: Final = (["simulated"] * ASKED, ["main"] * ASKED)
EVENTS: Final = [f"evt_{1 + number * 7}" for number in range(ASKED)]
AGAIN: Final = """
select array_agg(w) from (
    select * from actionledger.webhooks where event_id = any ($1) order by topic_offset
) as w
"""


async def blocks_read(pool: asyncpg.Pool, statement: str, *arguments: object) -> int:
    """How many blocks a statement looks at; what it writes is undone."""
    async with pool.acquire() as connection:
        deed = connection.transaction()
        await deed.start()
        told = await connection.fetchval(
            f"explain (analyze, buffers, format json) {statement}", *arguments
        )
        await deed.rollback()
    plan = json.loads(told)[0]["Plan"]
    blocks = plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
    assert isinstance(blocks, int)
    return blocks


async def test_a_webhook_is_looked_up_by_its_own_name(database_url: str) -> None:
    """Whether an event has a row, whose reference it names, and which rows it repeats are found
    without reading what else its account had.
    """
    sql = statements("reconciler", "parking.sql")
    async with migrated(database_url) as pool:
        await pool.execute("alter table actionledger.webhooks set (autovacuum_enabled = false)")
        await pool.execute("alter table actionledger.attempts set (autovacuum_enabled = false)")
        await pool.execute(FILL, ROWS)
        await pool.execute(FILL_ATTEMPTS, ROWS)
        rows = await pool.fetchval(AGAIN, EVENTS)
        assert len(rows) == ASKED
        moved = [(ELSEWHERE, *row[1:]) for row in rows]
        asked = {
            "decided_events": (*ACCOUNTS, EVENTS),
            "known_references": (*ACCOUNTS, [f"ch_{number}" for number in range(ASKED)]),
            "known_keys": (*ACCOUNTS, [f"key_{number}" for number in range(ASKED)]),
            "record_first": (moved,),
            "record_duplicates": (moved,),
        }
        read = {
            name: await blocks_read(pool, sql[name], *arguments)
            for name, arguments in asked.items()
        }
        read["settled_lines"] = await blocks_read(
            pool,
            statements("reconciler", "settled_lines.sql")["settled_lines"],
            [ELSEWHERE] * ASKED,
            list(range(ASKED)),
            *ACCOUNTS,
            EVENTS,
            [f"charge:v1:acme:{number}" for number in range(ASKED)],
            [f"ch_{number}" for number in range(ASKED)],
            CHANGED_HASH_CHARS,
        )
    assert {
        name: blocks for name, blocks in read.items() if blocks > ASKED * BLOCKS_A_ROW_MAX
    } == {}


async def test_a_stream_without_a_row_is_looked_up_by_its_own_key(database_url: str) -> None:
    """Whether it has actions, or is a gate, is found without reading those of others: it is asked
    of every new key.
    """
    async with migrated(database_url) as pool:
        for table in ("actions", "gates", "streams"):
            await pool.execute(f"alter table actionledger.{table} set (autovacuum_enabled = false)")
        await pool.execute(FILL_ACTIONS, ROWS)
        await pool.execute(FILL_OFFSETS)
        half = ASKED // 2
        gone, new = ([f"{name}/{1 + 7 * n}" for n in range(half)] for name in ("acme", "globex"))
        for file, name in (("cold.sql", "cold"), ("queries.sql", "streams")):
            sql = projected(file, LIVE_SCHEMA)[name]
            given = ([0], gone + new) if name == "cold" else (gone + new,)
            rows = await pool.fetch(sql, *given)
            assert {(row["stream_key"], row["state"]) for row in rows} == {
                (key, None) for key in gone
            }
            assert await blocks_read(pool, sql, *given) <= ASKED * BLOCKS_A_ROW_MAX


async def test_what_can_be_matched_is_found_without_reading_what_cannot(database_url: str) -> None:
    """A few webhooks of thousands can be matched now: the sweep reads them, and for each of them
    what it names.
    """
    sql = statements("reconciler", "parking.sql")
    async with migrated(database_url) as pool:
        for table in ("webhooks", "actions", "attempts", "provider_references"):
            await pool.execute(f"alter table actionledger.{table} set (autovacuum_enabled = false)")
        for fill in (FILL, FILL_ACTIONS, FILL_ATTEMPTS, FILL_REFERENCES):
            await pool.execute(fill, ROWS)
        await pool.execute(WAITING, ASKED)
        now = datetime.now(UTC)
        month_ago, later = now - timedelta(days=30), now + timedelta(minutes=1)
        before_all = (-1, -1)
        asked: dict[str, tuple[object, ...]] = {
            "lock_matchable": (
                sorted(AWAITS_REFERENCE),
                sorted(AWAITS_ACTION),
                month_ago,
                *before_all,
                SWEEP_ROWS_MAX,
            ),
            "lock_composites": (
                sorted(WITHOUT_MARK),
                month_ago,
                later,
                *before_all,
                SWEEP_ROWS_MAX,
                sorted(OUTCOME_OPEN),
                timedelta(milliseconds=COMPOSITE_BACK_MS),
                timedelta(milliseconds=CLOCKS_APART_MS),
            ),
        }
        found = {name: len(await pool.fetch(sql[name], *given)) for name, given in asked.items()}
        assert found == {"lock_matchable": 3 * ASKED, "lock_composites": ASKED}
        read = {name: await blocks_read(pool, sql[name], *given) for name, given in asked.items()}
    assert {
        name: blocks for name, blocks in read.items() if blocks > found[name] * BLOCKS_A_ROW_MAX
    } == {}
