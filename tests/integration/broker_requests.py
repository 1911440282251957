"""Requests to a Kafka broker that the client library has no call for."""

from collections.abc import Mapping
from typing import Any, ClassVar

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest
from aiokafka.protocol.types import Array, Boolean, Float64, Int16, Int32, Schema, String

_TEXT = String("utf-8")
_ENTITY = ("entity", Array(("entity_type", _TEXT), ("entity_name", _TEXT)))


class _QuotasResponse(Response):  # type: ignore[misc] # aiokafka has no types
    API_KEY = 49
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("entries", Array(("error_code", Int16), ("error_message", _TEXT), _ENTITY)),
    )


class _QuotasStruct(RequestStruct):  # type: ignore[misc] # aiokafka has no types
    API_KEY = 49
    API_VERSION = 0
    RESPONSE_TYPE = _QuotasResponse
    SCHEMA = Schema(
        (
            "entries",
            Array(_ENTITY, ("ops", Array(("key", _TEXT), ("value", Float64), ("remove", Boolean)))),
        ),
        ("validate_only", Boolean),
    )


class _Quotas(Request[_QuotasStruct]):  # type: ignore[misc] # aiokafka has no types
    API_KEY: ClassVar[int] = 49

    def __init__(self, entries: list[Any]) -> None:
        self._entries = entries

    def build(self, kind: type[_QuotasStruct]) -> _QuotasStruct:
        return kind(self._entries, False)  # noqa: FBT003 - the protocol's own field


async def limit_bytes_per_second(bootstrap: str, client_id: str, byte_rate: int) -> None:
    """Give one client id a quota of bytes produced."""
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        quota = ("producer_byte_rate", float(byte_rate), False)
        answer = await admin._send_request(_Quotas([([("client-id", client_id)], [quota])]))
        assert [entry[0] for entry in answer.entries] == [0], answer
    finally:
        await admin.close()


async def commit_for_a_moment(
    bootstrap: str, group: str, offsets: Mapping[TopicPartition, int]
) -> None:
    """Commit offsets of an empty group that expire at once, as those of a group do that nobody
    joined for weeks.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        node = await admin.find_coordinator(group)
        by_topic: dict[str, list[tuple[int, int, str]]] = {}
        for place, offset in offsets.items():
            by_topic.setdefault(place.topic, []).append((place.partition, offset, ""))
        request = OffsetCommitRequest(group, -1, "", 1, list(by_topic.items()))
        answer = await admin._send_request(request, node)
        assert {code for _, parts in answer.topics for _, code in parts} == {0}, answer
    finally:
        await admin.close()
