"""Names from outside as long as a text of the log may be: the tables take them, and find them."""

import random
from typing import Final

import asyncpg
import pytest

from ledger.core.ids import stream_key_of
from ledger.core.limits import TEXT_CHARS_MAX
from projections.errors import PartitionStoppedError
from projections.projector import Projector
from projections.statements import LIVE_SCHEMA, statements
from reconciler import sql_files as reconciling
from tests import examples as x
from tests.integration.reconciling import migrated
from tests.ledgers import LedgerBuilder, MemoryLog
from tests.projecting import project, projected

pytestmark = pytest.mark.servers

OTHER: Final = next(
    key
    for key in (f"charge:v1:acme:event-{number}" for number in range(50))
    if LedgerBuilder(2).partition(stream_key_of(key)) != LedgerBuilder(2).partition(x.STREAM)
)


def longest() -> str:
    """A text of full length, four bytes a character, of which nothing can be compressed away."""
    chance = random.Random(1)
    return "".join(chr(chance.randrange(0x10000, 0x40000)) for _ in range(TEXT_CHARS_MAX))


NAMES: Final = (longest(), "\\" * TEXT_CHARS_MAX, "\\x", "\\000", "")


def told(reference: str) -> LedgerBuilder:
    """Two partitions, in one of them an action with this name."""
    builder = LedgerBuilder(2)
    builder.take(x.propose())
    builder.take(x.report(x.success(reference)), later_ms=5)
    builder.take(x.propose(OTHER), later_ms=5)
    return builder


@pytest.mark.parametrize("reference", NAMES, ids=["long", "backslashes", "x", "octal", "empty"])
async def test_an_action_is_found_by_any_name_that_the_ledger_took(
    database_url: str, reference: str
) -> None:
    """One report with such a name ended the projector of every partition. It stands there once."""
    async with projected(database_url) as pool:
        await project(pool, told(reference))
        assert await pool.fetchval("select count(*) from actionledger.actions") == 2
        found = await pool.fetch(
            statements("queries.sql", LIVE_SCHEMA)["actions_by_reference"], "main", reference, 9
        )
        assert [row["action_key"] for row in found] == [x.CHARGE]
        again = "insert into actionledger.provider_references select * from"
        with pytest.raises(asyncpg.UniqueViolationError):
            await pool.execute(f"{again} actionledger.provider_references")


async def test_a_text_that_an_index_cannot_take_stops_its_partition_only(
    database_url: str,
) -> None:
    """Whatever index somebody adds: the others go on, and it is said which record it was."""
    async with projected(database_url) as pool:
        await pool.execute("create index too_small on actionledger.actions (provider_reference)")
        builder = told(longest())
        projector = Projector(MemoryLog(builder.everything()), pool, [0, 1])
        with pytest.raises(PartitionStoppedError, match="too_small") as stopped:
            await projector.run_until(builder.ends())
        home = builder.partition(x.STREAM)
        assert (stopped.value.partition, stopped.value.offset) == (home, builder.ends()[home] - 1)
        assert await pool.fetchval("select count(*) from actionledger.actions") == 2


INSERT: Final = """
insert into actionledger.webhooks (
    partition, topic_offset, provider, account, event_id, received_at, sha256, mapping_hash,
    effect, meaning, reference, claimed_key, classification, reason
) values (0, $1, 'simulated', 'main', $2, now(), 'a', 'a', 'exists', 'final', $2, $2, $3, $4)
on conflict do nothing
"""


@pytest.mark.parametrize("name", NAMES, ids=["long", "backslashes", "x", "octal", "empty"])
async def test_a_webhook_with_long_names_has_one_row_that_decides(
    database_url: str, name: str
) -> None:
    """It was set aside as a fault of ours; its second delivery repeats it like any other's."""
    async with migrated(database_url) as pool:
        for offset in (1, 2):
            await pool.execute(INSERT, offset, name, "parked", "orphan_effect")
        await pool.execute(INSERT, 3, name, "unrecognised", "unreadable")
        await pool.execute(INSERT, 4, f"{name[1:]}b", "parked", "reference_unknown")
        rows = await pool.fetch("select topic_offset from actionledger.webhooks order by 1")
        assert [row["topic_offset"] for row in rows] == [1, 3, 4]
        (found,) = await pool.fetch(
            reconciling.statements("reconciler", "parking.sql")["decided_events"],
            ["simulated"],
            ["main"],
            [name],
        )
        assert found["topic_offset"] == 1
