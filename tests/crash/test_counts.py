"""Webhooks counted against what became of them, while workers and the broker are killed."""

from pathlib import Path

import pytest

from gateway import local
from tests.crash.counts import count_equality
from tests.patience import CAMPAIGN_SECONDS

pytestmark = pytest.mark.servers

WEBHOOKS = 3_000


@pytest.mark.timeout(CAMPAIGN_SECONDS)
async def test_every_webhook_counts_once_whoever_is_killed(
    own_servers: local.Servers, tmp_path: Path
) -> None:
    """A small run of `make counts`: each record has one row, each event decides once, each action
    has evidence once, and what is no webhook stands in quarantine once.
    """
    counted = await count_equality(own_servers, tmp_path, count=WEBHOOKS, workers=2, partitions=3)
    assert counted.wrong == []
    assert (counted.worker_kills, counted.broker_kills) == (9, 2)
    assert counted.matched == WEBHOOKS * 6 // 10
    assert counted.parked == WEBHOOKS * 2 // 10
    assert counted.unrecognised == WEBHOOKS // 10
