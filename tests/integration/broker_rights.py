"""What a broker lets one principal do, asked cell by cell without changing anything.

Each question is one request about all topics at once, on one connection a principal: no client of a
library stands between, so a refused batch poisons nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
)
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import InitProducerIdRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from ledger.log.access import KafkaAccess

TIMEOUT_MS = 5_000
_NOTHING, _EXISTS, _BAD_PARTITIONS = 0, 36, 37
_NO_MEMBER_YET = (15, 16, 25)  # nobody coordinates the group, or nobody is in it
_TOPIC_REFUSED, _GROUP_REFUSED, _TRANSACTION_REFUSED = 29, 30, 53
_TOPIC_RESOURCE = 2

Codes = Iterable[tuple[str, int]]
Question = Callable[[AIOKafkaConnection, list[str]], Awaitable[Codes]]


@asynccontextmanager
async def connected(bootstrap: str, access: KafkaAccess) -> AsyncIterator[AIOKafkaConnection]:
    """One connection of one principal."""
    host, _, port = bootstrap.rpartition(":")
    connection = await create_conn(host, int(port), **access.options())
    try:
        yield connection
    finally:
        connection.close()


async def allowed(
    connection: AIOKafkaConnection, question: Question, topics: list[str]
) -> set[str]:
    """The topics for which the broker did not refuse; any other trouble is an error."""
    found = dict(await question(connection, topics))
    assert set(found) == set(topics)
    odd = set(found.values()) - {_NOTHING, _TOPIC_REFUSED, _EXISTS, _BAD_PARTITIONS}
    assert not odd, found
    return {topic for topic, code in found.items() if code != _TOPIC_REFUSED}


async def read(connection: AIOKafkaConnection, topics: list[str]) -> Codes:
    """Fetch from the beginning of each."""
    wanted = [(topic, [(0, 0, 1_024)]) for topic in topics]
    answer = await connection.send(FetchRequest(0, 0, 1_024 * len(topics), 0, wanted))
    return [(topic, parts[0][1]) for topic, parts in answer.topics]


async def write(connection: AIOKafkaConnection, topics: list[str]) -> Codes:
    """Append a record to each; what it says is nothing that any reader takes."""
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, 0, 16_384)
    batch.append(0, timestamp=0, key=b"asked", value=b"asked", headers=[])
    wanted = [(topic, [(0, bytes(batch.build()))]) for topic in topics]
    answer = await connection.send(ProduceRequest(None, -1, TIMEOUT_MS, wanted))
    return [(topic, parts[0][1]) for topic, parts in answer.topics]


async def create(connection: AIOKafkaConnection, topics: list[str]) -> Codes:
    """Ask whether each might be made; they are there already."""
    wanted: list[Any] = [(topic, 1, 1, [], []) for topic in topics]
    answer = await connection.send(CreateTopicsRequest(wanted, TIMEOUT_MS, validate_only=True))
    return [(topic, code) for topic, code, *_ in answer.topic_errors]


async def delete(connection: AIOKafkaConnection, topics: list[str]) -> Codes:
    """Delete each: the one question that would do what it asks."""
    answer = await connection.send(DeleteTopicsRequest(topics, TIMEOUT_MS))
    return [(topic, code) for topic, code in answer.topic_error_codes]


async def add_partitions(connection: AIOKafkaConnection, topics: list[str]) -> Codes:
    """Ask whether each might have more partitions."""
    wanted: list[Any] = [(topic, (9, None)) for topic in topics]
    asked = CreatePartitionsRequest(wanted, TIMEOUT_MS, validate_only=True)
    answer = await connection.send(asked)
    return [(topic, code) for topic, code, _ in answer.topic_errors]


async def delete_records(connection: AIOKafkaConnection, topics: list[str]) -> Codes:
    """Delete what lies before offset 0 of each, which is nothing."""
    wanted = [(topic, [(0, 0)]) for topic in topics]
    answer = await connection.send(DeleteRecordsRequest(wanted, TIMEOUT_MS))
    return [(topic, parts[0][2]) for topic, parts, *_ in answer.topics]


async def describe_settings(connection: AIOKafkaConnection, topics: list[str]) -> Codes:
    """See the settings of each."""
    wanted: list[Any] = [(_TOPIC_RESOURCE, topic, ["retention.ms"]) for topic in topics]
    answer = await connection.send(DescribeConfigsRequest(wanted))
    return [(name, code) for code, _, _, name, *_ in answer.resources]


async def alter_settings(connection: AIOKafkaConnection, topics: list[str]) -> Codes:
    """Ask whether a setting of each might be changed."""
    wanted: list[Any] = [(_TOPIC_RESOURCE, topic, [("retention.ms", "1")]) for topic in topics]
    answer = await connection.send(AlterConfigsRequest(wanted, validate_only=True))
    return [(name, code) for code, _, _, name in answer.resources]


async def may_join(connection: AIOKafkaConnection, group: str) -> bool:
    """Whether a group would have this principal as a member."""
    answer = await connection.send(HeartbeatRequest(group, 1, "nobody"))
    assert answer.error_code in {_GROUP_REFUSED, *_NO_MEMBER_YET}, answer
    return bool(answer.error_code != _GROUP_REFUSED)


async def may_fence(connection: AIOKafkaConnection, transactional_id: str) -> bool:
    """Whether this principal could end the producer of a transactional id."""
    try:
        answer = await connection.send(InitProducerIdRequest(transactional_id, TIMEOUT_MS))
    except KafkaError as failure:
        raise AssertionError(transactional_id) from failure
    return bool(answer.error_code != _TRANSACTION_REFUSED)
