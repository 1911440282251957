"""The log on Apache Kafka, through aiokafka.

Appends are idempotent with acks=all and bounded in time here, because an idempotent send of
aiokafka waits for ever: when the deadline passes, the outcome is unknown and the appender is spent.
Readers are assigned, never subscribed, and their positions come from the ledger or the database,
never from group offsets. `getmany` is never cancelled: cancelling it leaks its fetch counter.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from aiokafka.structs import ConsumerRecord

from ledger.core.errors import LedgerError
from ledger.core.limits import BATCH_BYTES_MAX, GROUP_SESSION_MS_DEFAULT, RECORD_BYTES_MAX
from ledger.log.port import Appended, AppendUnknownError, Outgoing, Record
from ledger.log.topics import Topic

APPEND_DEADLINE_SECONDS = 30.0
CLOSE_DEADLINE_SECONDS = 5.0
START_DEADLINE_SECONDS = 30.0
FETCH_BYTES_MAX = 16 * RECORD_BYTES_MAX
POLL_RECORDS_MAX = 10_000


class Start(Enum):
    """Where a reader begins when it holds no offset."""

    BEGINNING = "beginning"
    END = "end"


class LogUnreachableError(LedgerError):
    """No broker answered in time."""


class TruncatedLogError(LedgerError):
    """The log ends before, or begins behind, a position that a reader holds: records are gone."""


class KafkaAppender:
    """One idempotent producer. After any failure it is spent: sequence numbers of a failed batch
    poison the partition.
    """

    def __init__(self, producer: AIOKafkaProducer, prefix: str) -> None:
        self._producer = producer
        self._prefix = prefix

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """See `Appender.append`."""
        if not records:
            return []
        try:
            async with asyncio.timeout(APPEND_DEADLINE_SECONDS):
                if len(records) == 1:
                    return [await self._append_one(self._prefix + topic, partition, records[0])]
                return await self._append_batches(self._prefix + topic, partition, records)
        except (KafkaError, TimeoutError) as failure:
            raise AppendUnknownError(
                f"An append to {topic} {partition} was not acknowledged ({failure!r}).",
                hint="They may be in the log. Replace the appender; appending again is safe.",
            ) from failure

    async def _append_one(self, topic: str, partition: int, record: Outgoing) -> Appended:
        landed = await self._producer.send_and_wait(
            topic,
            value=record.value,
            key=record.key,
            partition=partition,
            headers=list(record.headers),
        )
        return Appended(landed.offset, landed.timestamp)

    async def _append_batches(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """Fill batches to the byte, queue them in order, then await them all."""
        waiting: list[tuple[int, asyncio.Future[Any]]] = []
        batch = self._producer.create_batch()
        size = 0
        for record in records:
            if self._fill(batch, record):
                size += 1
                continue
            waiting.append((size, await self._send(batch, topic, partition)))
            batch, size = self._producer.create_batch(), 1
            if not self._fill(batch, record):
                raise AppendUnknownError(
                    f"A record of {len(record.value)} bytes fits no batch.",
                    hint="Records are bounded before they are appended: this is a fault of ours.",
                )
        waiting.append((size, await self._send(batch, topic, partition)))
        appended: list[Appended] = []
        for count, future in waiting:
            landed = await future
            appended.extend(
                Appended(landed.offset + ordinal if landed.offset >= 0 else -1, landed.timestamp)
                for ordinal in range(count)
            )
        return appended

    def _fill(self, batch: Any, record: Outgoing) -> bool:  # noqa: ANN401 - aiokafka's untyped builder
        added = batch.append(
            key=record.key, value=record.value, timestamp=None, headers=list(record.headers)
        )
        return added is not None

    async def _send(self, batch: Any, topic: str, partition: int) -> "asyncio.Future[Any]":  # noqa: ANN401
        batch.close()
        future: asyncio.Future[Any] = await self._producer.send_batch(
            batch, topic, partition=partition
        )
        return future

    async def close(self) -> None:
        """Let go; a producer whose broker is gone never stops by itself, so this has a deadline."""
        with contextlib.suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(CLOSE_DEADLINE_SECONDS):
                await self._producer.stop()


class KafkaReader:
    """Reads assigned partitions in offset order from positions of its own."""

    def __init__(self, consumer: AIOKafkaConsumer, prefix: str) -> None:
        self._consumer = consumer
        self._prefix = prefix

    async def read(self, *, timeout_ms: int, records_max: int = POLL_RECORDS_MAX) -> list[Record]:
        """What there is, at once; an empty list when nothing came in time. Raises
        TruncatedLogError, LogUnreachableError.
        """
        try:
            fetched = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=records_max)
        except KafkaError as failure:
            raise TruncatedLogError(
                f"A position is outside the log ({failure!r}).",
                hint="Compare the topics with `actionledger topics check` before anything runs on.",
            ) from failure
        return records_of(fetched, len(self._prefix))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Read this partition from an offset on."""
        self._consumer.seek(TopicPartition(self._prefix + topic, partition), offset)

    def pause(self, topic: str, partition: int) -> None:
        """Read nothing more from a partition until `resume`."""
        self._consumer.pause(TopicPartition(self._prefix + topic, partition))

    def resume(self, topic: str, partition: int) -> None:
        """Read on where `pause` stopped."""
        self._consumer.resume(TopicPartition(self._prefix + topic, partition))

    async def end_offsets(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where each partition ends at this moment: the offset of the next record."""
        wanted = {
            TopicPartition(self._prefix + topic, part): (topic, part) for topic, part in places
        }
        found = await self._consumer.end_offsets(list(wanted))
        return {wanted[place]: offset for place, offset in found.items()}

    async def beginning_offsets(
        self, places: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """Where each partition begins: 0 wherever nothing is ever deleted."""
        wanted = {
            TopicPartition(self._prefix + topic, part): (topic, part) for topic, part in places
        }
        found = await self._consumer.beginning_offsets(list(wanted))
        return {wanted[place]: offset for place, offset in found.items()}

    async def close(self) -> None:
        """Stop reading, within a deadline."""
        with contextlib.suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(CLOSE_DEADLINE_SECONDS):
                await self._consumer.stop()


def records_of(
    fetched: Mapping[TopicPartition, Sequence[ConsumerRecord]], prefix_chars: int
) -> list[Record]:
    """Aiokafka's answer as records, partition by partition, in offset order."""
    return [
        Record(
            record.topic[prefix_chars:],
            record.partition,
            record.offset,
            record.timestamp,
            record.key,
            record.value or b"",  # a record without a value is one that says nothing
            record.headers,
        )
        for records in fetched.values()
        for record in records
    ]


class KafkaLog:
    """One Kafka cluster and the prefix under which an installation's topics stand."""

    def __init__(
        self,
        bootstrap: str,
        *,
        prefix: str = "actionledger.",
        client_id: str = "actionledger",
        group_session_ms: int = GROUP_SESSION_MS_DEFAULT,
    ) -> None:
        """`group_session_ms`: after so long without a word from a member of one of our groups the
        broker gives its partitions to others.
        """
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.client_id = client_id
        self.group_session_ms = group_session_ms

    async def appender(self) -> KafkaAppender:
        """A started producer of its own. Raises LogUnreachableError."""
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            client_id=self.client_id,
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_batch_size=BATCH_BYTES_MAX,
            max_request_size=4 * RECORD_BYTES_MAX,
            request_timeout_ms=10_000,
        )
        await self._started(producer)
        return KafkaAppender(producer, self.prefix)

    async def reader(
        self,
        places: Mapping[tuple[str, int], int | Start],
        *,
        fetch_bytes: int = FETCH_BYTES_MAX,
    ) -> KafkaReader:
        """A reader of the given partitions, each from its offset or from an end. Raises
        LogUnreachableError.
        """
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            client_id=self.client_id,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=500,
            fetch_min_bytes=1,
            max_partition_fetch_bytes=fetch_bytes,
            request_timeout_ms=10_000,
        )
        await self._started(consumer)
        by_place = {
            TopicPartition(self.prefix + topic, partition): start
            for (topic, partition), start in places.items()
        }
        consumer.assign(list(by_place))
        reader = KafkaReader(consumer, self.prefix)
        ends = [place for place, start in places.items() if start is Start.END]
        begins = [place for place, start in places.items() if start is Start.BEGINNING]
        found = await reader.end_offsets(ends) if ends else {}
        found |= await reader.beginning_offsets(begins) if begins else {}
        for place, start in places.items():
            reader.seek(*place, found[place] if isinstance(start, Start) else start)
        return reader

    async def read_one(self, topic: str, partition: int, offset: int) -> Record:
        """The record at an offset. Raises TruncatedLogError when there is none."""
        reader = await self.reader({(topic, partition): offset})
        try:
            async with asyncio.timeout(START_DEADLINE_SECONDS):
                while True:
                    records = await reader.read(timeout_ms=1_000, records_max=1)
                    if records:
                        return records[0]
        except TimeoutError as late:
            raise TruncatedLogError(
                f"Nothing at {topic} {partition} offset {offset}.",
                hint="Check that the topic is the one this installation wrote.",
            ) from late
        finally:
            await reader.close()

    async def _started(self, client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
        try:
            async with asyncio.timeout(START_DEADLINE_SECONDS):
                await client.start()
        except (KafkaError, TimeoutError) as failure:
            with contextlib.suppress(TimeoutError, KafkaError):
                async with asyncio.timeout(CLOSE_DEADLINE_SECONDS):
                    await client.stop()
            raise LogUnreachableError(
                f"No Kafka broker answers at {self.bootstrap}.",
                hint="Start it, or point ACTIONLEDGER_KAFKA at one.",
            ) from failure


__all__ = [
    "KafkaAppender",
    "KafkaLog",
    "KafkaReader",
    "LogUnreachableError",
    "Start",
    "Topic",
    "TruncatedLogError",
    "records_of",
]
