"""The local servers hold what they promise, on this machine and under this user."""

import asyncpg
import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.servers import Addresses

pytestmark = pytest.mark.servers


async def test_shared_servers_answer(servers: Addresses, database_url: str) -> None:
    """Kafka takes a topic and Postgres a query on a database of the test's own."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers.kafka_bootstrap)
    await admin.start()
    try:
        answer = await admin.create_topics([NewTopic("shared-servers-answer", 1, 1)])
        assert answer.topic_errors[0][1] == 0
    finally:
        await admin.close()
    connection = await asyncpg.connect(database_url)
    try:
        assert await connection.fetchval("SELECT 1") == 1
    finally:
        await connection.close()
