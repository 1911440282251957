"""What a statement reads for one webhook stays the same while the table grows.

A table that was never analysed is the case that counts: each installation has it in its first
minutes, and whenever more comes than the database has looked at. To the planner all indexes are the
same then, so every one that fits has to be good enough.
"""

import json
from typing import Final

import asyncpg
import pytest

from reconciler.statements import statements
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
        await pool.execute(FILL, ROWS)
        rows = await pool.fetchval(AGAIN, EVENTS)
        assert len(rows) == ASKED
        moved = [(ELSEWHERE, *row[1:]) for row in rows]
        asked = {
            "decided_events": (*ACCOUNTS, EVENTS),
            "known_references": (*ACCOUNTS, [f"ch_{number}" for number in range(ASKED)]),
            "record_first": (moved,),
            "record_duplicates": (moved,),
        }
        read = {
            name: await blocks_read(pool, sql[name], *arguments)
            for name, arguments in asked.items()
        }
    assert {
        name: blocks for name, blocks in read.items() if blocks > ASKED * BLOCKS_A_ROW_MAX
    } == {}
