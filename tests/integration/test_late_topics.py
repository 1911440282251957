"""A group member that cannot see its topics at first shares them out as soon as it can.

A broker that comes back after a crash takes requests before it knows all of its topics again.
Whoever joins a group in that moment must not be left with nothing to read.
"""

import secrets
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from ledger.log.port import Record
from streams.agents import add_agent
from tests.integration.faust_kit import Workshop, until
from tests.servers import Addresses


async def test_topics_that_appear_later_are_read(servers: Addresses) -> None:
    """An app that joined its group before its topic was there reads it within seconds."""
    topic = f"t{secrets.token_hex(4)}.late"
    producer = AIOKafkaProducer(bootstrap_servers=servers.kafka_bootstrap)
    await producer.start()
    shop = Workshop(servers.kafka_bootstrap, topic, 1, producer)
    seen: list[bytes] = []

    async def handle(records: Sequence[Record]) -> None:
        seen.extend(record.value for record in records)

    running = shop.start(lambda app: add_agent(app, topic, handle, deadline_ms=5_000))
    try:
        consumer = running.app.safe_consumer
        await until(consumer.is_member, "the app is in its group")
        assert consumer.assignment() == set()
        admin = AIOKafkaAdminClient(bootstrap_servers=servers.kafka_bootstrap)
        await admin.start()
        await admin.create_topics([NewTopic(topic, 1, 1)])
        await admin.close()
        await shop.put(b"now")
        await until(lambda: seen == [b"now"], "its topic is read")
    finally:
        await running.stopped()
        await producer.stop()
