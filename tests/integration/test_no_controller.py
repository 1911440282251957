"""A broker that has no controller for a moment: it was started just now, or got no processor."""

import secrets
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient

from ledger.log.admin import apply_topics
from ledger.log.kafka import KafkaLog
from ledger.log.trouble import LogUnreachableError
from tests.servers import Addresses

pytestmark = pytest.mark.servers


def forget(monkeypatch: pytest.MonkeyPatch, looks: int) -> list[int]:
    """Let clients know of no controller at their start, nor after so many looks at the cluster; the
    looks that are left of these.
    """
    left = [looks]
    begin, look = AIOKafkaClient.bootstrap, AIOKafkaClient.force_metadata_update

    def forget_it(client: Any) -> None:  # noqa: ANN401
        client.cluster.controller = None

    async def bootstrap(client: Any) -> None:  # noqa: ANN401 - aiokafka has no types
        await begin(client)
        forget_it(client)

    def force_metadata_update(client: Any) -> Any:  # noqa: ANN401
        looking = look(client)
        if left[0]:
            left[0] -= 1
            looking.add_done_callback(lambda _: forget_it(client))
        return looking

    monkeypatch.setattr(AIOKafkaClient, "bootstrap", bootstrap)
    monkeypatch.setattr(AIOKafkaClient, "force_metadata_update", force_metadata_update)
    return left


async def test_topics_are_made_as_soon_as_there_is_a_controller(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is asked for again."""
    left = forget(monkeypatch, looks=3)
    log = KafkaLog(servers.kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    assert await apply_topics(log, partitions=1, generation="first") == "first"
    assert left == [0]


async def test_a_cluster_that_stays_without_a_controller_is_told(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the name of the trouble, after a while."""
    forget(monkeypatch, looks=1_000)
    log = KafkaLog(servers.kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    with pytest.raises(LogUnreachableError, match="No controller is known"):
        await apply_topics(log, partitions=1, generation="first")
