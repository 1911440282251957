"""A group member that cannot see its topics at first shares them out as soon as it can.

A broker that comes back after a crash takes requests before it knows all of its topics again.
Whoever joins a group in that moment must not be left with nothing to read.
"""

import logging
import secrets
from collections.abc import AsyncIterator, Sequence

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from faust.types import TP

from ledger.log.port import Record
from streams.agents import add_agent
from streams.app import SafeApp
from tests.integration.faust_kit import Running, Workshop, until
from tests.servers import Addresses


@pytest.fixture
async def shop(servers: Addresses, caplog: pytest.LogCaptureFixture) -> AsyncIterator[Workshop]:
    """A workshop whose topic is not there yet. What its group does is in the log of a failure."""
    caplog.set_level(logging.INFO)
    producer = AIOKafkaProducer(bootstrap_servers=servers.kafka_bootstrap)
    await producer.start()
    try:
        topic = f"t{secrets.token_hex(4)}.late"
        yield Workshop(servers.kafka_bootstrap, topic, 1, producer)
    finally:
        await producer.stop()


async def appears(shop: Workshop, running: Running) -> None:
    """The topic comes with a record in it when the app has its place in the group, and nothing."""
    consumer = running.app.safe_consumer
    await until(consumer.is_member, "the app is in its group")
    assert consumer.assignment() == set()
    admin = AIOKafkaAdminClient(bootstrap_servers=shop.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(shop.topic, 1, 1)])
    finally:
        await admin.close()
    await shop.put(b"now")


async def test_topics_that_appear_later_are_read(shop: Workshop) -> None:
    """An app that joined its group before its topic was there reads it within seconds."""
    seen: list[bytes] = []

    async def handle(records: Sequence[Record]) -> None:
        seen.extend(record.value for record in records)

    running = shop.start(lambda app: add_agent(app, shop.topic, handle, deadline_ms=5_000))
    try:
        await appears(shop, running)
        # More than once where the group shares out again before the first commit.
        await until(lambda: set(seen) == {b"now"}, "its topic is read")
    finally:
        await running.stopped()


async def test_nothing_is_read_before_an_assignment_is_taken_over(
    shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While agents and offsets are made ready for partitions after none, nothing is handed out."""
    seen: list[bytes] = []
    reading: list[bool] = []

    async def handle(records: Sequence[Record]) -> None:
        seen.extend(record.value for record in records)

    def watched(app: SafeApp) -> None:
        add_agent(app, shop.topic, handle, deadline_ms=5_000)
        consumer, agents = app.safe_consumer, app.agents
        share, seek = agents.on_rebalance, consumer.perform_seek

        async def on_rebalance(revoked: set[TP], assigned: set[TP]) -> None:
            reading.append(bool(assigned) and consumer.flow_active)
            await share(revoked, assigned)

        async def perform_seek() -> None:
            reading.append(consumer.flow_active)
            await seek()

        monkeypatch.setattr(agents, "on_rebalance", on_rebalance)
        monkeypatch.setattr(consumer, "perform_seek", perform_seek)

    running = shop.start(watched)
    try:
        await appears(shop, running)
        await until(lambda: set(seen) == {b"now"}, "its topic is read")
        assert len(reading) >= 3
        assert not any(reading)
    finally:
        await running.stopped()
