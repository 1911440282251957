"""Writes one record to a described topic.

Guarantees the promises of the port: one produce request, once, to the leader that it was connected
to. No producer of the library stands in between, which would send again on its own: an idempotent
one keeps its own repetitions apart, and knows nothing of another attempt's. The guard runs when the
leader is connected, before the request is written. Built by the kind, held by executors only.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

import orjson
from aiokafka.client import AIOKafkaClient
from aiokafka.errors import KafkaError, NodeNotReadyError
from aiokafka.partitioner import DefaultPartitioner
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition

from ledger.log import clients
from ledger.log.access import CertificateError, KafkaAccess
from reconciler.providers.http.performer import names_of
from reconciler.providers.http.templates import Names, Unsendable
from reconciler.providers.http_exchange import Trouble
from reconciler.providers.kafka.description import KafkaDescription, RecordOf
from reconciler.providers.kafka.headers import headers_of
from reconciler.providers.limits import REQUEST_BYTES_MAX
from reconciler.providers.port import (
    Deadlines,
    Declined,
    NotSent,
    Outcome,
    ProviderRequest,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)

_ALL: Final = -1
_CLIENT_TIMEOUT_MS: Final = 600_000
"""Of the library; the port's own deadlines are shorter."""
_ANSWER_SECONDS: Final = 10.0
"""What one address has for each step of the first contact, however short a call's own deadline."""
_MAGIC: Final = 2

_LATER: Final = {
    2: "corrupt_message",
    19: "not_enough_replicas",
    89: "throttling_quota_exceeded",
}
"""Answers that say: nothing was written, try again. Those that are in neither table say nothing:
time-outs above all, replicas that were lost after the record was appended (20), and a partition
that has moved (3, 6): a broker that appended the record and lost the partition before the replicas
had it says the same as one that never had it, and the record may be with the next leader."""
_NEVER: Final = {
    10: "message_too_large",
    17: "invalid_topic",
    18: "record_list_too_large",
    29: "topic_not_authorised",
    31: "cluster_not_authorised",
    32: "invalid_timestamp",
    44: "policy_violation",
    87: "invalid_record",
}


class KafkaPerformer:
    """Writes records as a description says."""

    def __init__(self, described: KafkaDescription, access: Mapping[str, KafkaAccess]) -> None:
        """`access` by account. Nothing is opened yet."""
        self._described = described
        self._access = dict(access)
        self._clients: dict[str, AIOKafkaClient] = {}
        self._opening: dict[str, asyncio.Task[AIOKafkaClient]] = {}
        self._partitioner = DefaultPartitioner()

    async def perform(
        self,
        request: ProviderRequest,
        *,
        provider_key: str,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """Write one record, once; see the port."""
        record = self._described.records.get(request.operation)
        if record is None:
            return NotSent("operation_not_described", Retry.NEVER)
        if request.account not in self._access:
            return NotSent("account_not_configured", Retry.LATER)
        try:
            key, batch = _batch(record, request, provider_key)
        except (Unsendable, TypeError, UnicodeError):
            return NotSent(Trouble.UNSENDABLE.value, Retry.NEVER)
        try:
            async with asyncio.timeout(deadlines.connect_ms / 1000):
                client, partition, leader = await self._leader(request.account, record.topic, key)
        except TimeoutError:
            return NotSent(Trouble.CONNECT_TIMED_OUT.value, Retry.LATER)
        except (KafkaError, OSError, CertificateError):
            return NotSent(Trouble.CONNECT_FAILED.value, Retry.LATER)
        asks = ProduceRequest(
            None, _ALL, deadlines.response_ms, [(record.topic, [(partition, batch)])]
        )
        try:
            before_first_byte()
            async with asyncio.timeout(deadlines.response_ms / 1000):
                answer = await client.send(leader, asks)
        except Declined as declined:
            return NotSent(declined.code, Retry.LATER)
        except NodeNotReadyError:
            return NotSent(Trouble.CONNECT_FAILED.value, Retry.LATER)
        except TimeoutError:
            return Unresolved(Trouble.ANSWER_TIMED_OUT.value)
        except (KafkaError, OSError):
            return Unresolved(Trouble.CONNECTION_LOST.value)
        [(topic, [(partition, error, offset, *_)])] = answer.topics
        if error:
            client.force_metadata_update()
        return outcome_of(topic, partition, error, offset)

    async def close(self) -> None:
        """Close all connections; idempotent. What is being opened comes to its end first, unless it
        takes too long.
        """
        opening = list(self._opening.values())
        if opening:
            _, late = await asyncio.wait(opening, timeout=_ANSWER_SECONDS)
            for one in late:
                one.cancel()
            await asyncio.wait(opening)
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()

    async def _leader(
        self, account: str, topic: str, key: bytes
    ) -> tuple[AIOKafkaClient, int, int]:
        """The client, the partition of a key and the connected leader of it; raises KafkaError."""
        client = await self._client(account)
        partitions = sorted(client.cluster.partitions_for_topic(topic) or ())
        if not partitions:
            client.add_topic(topic)
            await client.force_metadata_update()
            partitions = sorted(client.cluster.partitions_for_topic(topic) or ())
        if not partitions:
            raise KafkaError("no such topic")
        # Of all partitions, so that a key stays where it is while one of them has no leader.
        partition = self._partitioner(key, partitions, partitions)
        leader = client.cluster.leader_for_partition(TopicPartition(topic, partition))
        if leader in {None, -1} or not await client.ready(leader):
            client.force_metadata_update()
            raise KafkaError("no leader")
        return client, partition, leader

    async def _client(self, account: str) -> AIOKafkaClient:
        """The account's client; a call that gives up leaves its opening to the next one. Raises
        KafkaError, OSError, CertificateError.
        """
        client = self._clients.get(account)
        if client is not None:
            return client
        opening = self._opening.get(account)
        if opening is None:
            opening = self._opening[account] = asyncio.ensure_future(self._opened(account))
            opening.add_done_callback(_heard)
        return await asyncio.shield(opening)

    async def _opened(self, account: str) -> AIOKafkaClient:
        try:
            client = AIOKafkaClient(
                bootstrap_servers=self._described.form.brokers.split(","),
                client_id="actionledger-outbox",
                request_timeout_ms=_CLIENT_TIMEOUT_MS,
                **self._access[account].options(),
            )
            try:
                await clients.meet(client, answer_seconds=_ANSWER_SECONDS)
            except BaseException:
                await client.close()
                raise
            self._clients[account] = client
            return client
        finally:
            del self._opening[account]


def _heard(opening: asyncio.Task[AIOKafkaClient]) -> None:
    """Of an opening that fails when every call has given up nobody else hears."""
    if not opening.cancelled():
        opening.exception()


def outcome_of(topic: str, partition: int, error: int, offset: int) -> Outcome:
    """What a broker's answer says of the one record in a request."""
    if error == 0:
        place = f"{topic}/{partition}/{offset}"
        return Succeeded(place, {"topic": topic, "partition": partition, "offset": offset})
    if error in _LATER:
        return Refused(f"kafka_{_LATER[error]}", Retry.LATER)
    if error in _NEVER:
        return Refused(f"kafka_{_NEVER[error]}", Retry.NEVER)
    return Unresolved(f"kafka_error_{error}" if error > 0 else "kafka_error_unknown")


def _batch(record: RecordOf, request: ProviderRequest, provider_key: str) -> tuple[bytes, bytes]:
    """The record's key, and a batch of it alone. Its time is that of this attempt: it belongs to
    the transport, and brokers keep records by it. Raises Unsendable, TypeError, UnicodeError.
    """
    names: Names = {**names_of(request), "provider_key": provider_key}
    text = record.key.text(names)
    if not text:
        raise Unsendable
    value = orjson.dumps(record.value.value(names), default=dict, option=orjson.OPT_SORT_KEYS)
    if len(value) > REQUEST_BYTES_MAX:
        raise Unsendable
    builder = DefaultRecordBatchBuilder(
        _MAGIC, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=2 * REQUEST_BYTES_MAX,
    )  # fmt: skip
    key = text.encode()
    added = builder.append(
        0, time.time_ns() // 1_000_000, key, value, headers_of(request, provider_key)
    )
    if added is None:
        raise Unsendable
    return key, bytes(builder.build())
