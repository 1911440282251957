"""Up to when the tables show all of the ledger: never sooner than every partition is there."""

import pytest

from reconciler.projection_progress import ShownUpTo
from tests.integration.reconciling import migrated

pytestmark = pytest.mark.servers


async def test_a_moment_is_shown_once_every_partition_is_where_the_ledger_ended_then(
    database_url: str,
) -> None:
    """One that lags holds all back, and where the ledger has grown since is no matter."""
    ends, now_ms = {0: 5, 1: 7}, 1_000

    async def ledger_ends() -> dict[int, int]:
        return dict(ends)

    shown = ShownUpTo(ledger_ends, now_ms=lambda: now_ms)
    async with migrated(database_url) as pool:

        async def project(partition: int, next_offset: int) -> None:
            await pool.execute(
                "insert into actionledger.projection_offsets"
                " (partition, next_offset, epoch, decided_at, positions, void_count)"
                " values ($1, $2, 1, now(), '{}', 0)"
                " on conflict (partition) do update set next_offset = $2",
                partition,
                next_offset,
            )

        assert await shown.look(pool) is None
        await project(0, 5)
        assert await shown.look(pool) is None, "of the other one nothing is known"
        await project(1, 6)
        now_ms, ends[0] = 2_000, 6
        assert await shown.look(pool) is None
        await project(1, 7)
        assert await shown.look(pool) == 1_000
        now_ms = 3_000
        assert await shown.look(pool) == 1_000, "the ledger has grown by one"
        await project(0, 6)
        assert await shown.look(pool) == 3_000
