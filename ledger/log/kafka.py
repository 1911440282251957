"""The log on Apache Kafka, through aiokafka.

Appends are idempotent with acks=all and bounded in time here, because an idempotent send of
aiokafka waits for ever: when the deadline passes, the outcome is unknown and the appender is spent.
Readers are assigned, never subscribed, and their positions come from the ledger or the database,
never from group offsets. `getmany` is never cancelled: cancelling it leaks its fetch counter.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any, cast

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, MessageSizeTooLargeError
from aiokafka.structs import ConsumerRecord, RecordMetadata

from ledger.core.limits import BATCH_BYTES_MAX, GROUP_SESSION_MS_DEFAULT, RECORD_BYTES_MAX
from ledger.log import clients
from ledger.log.access import OPEN, KafkaAccess
from ledger.log.port import Appended, AppendUnknownError, Headers, Outgoing, Record
from ledger.log.topics import Topic
from ledger.log.trouble import LogUnreachableError, TruncatedLogError, trouble_of

APPEND_DEADLINE_SECONDS = 30.0
ONE_RECORD_DEADLINE_SECONDS = 30.0
ONE_RECORD_FETCH_BYTES = 4_096
"""The broker gives at least one batch, however large; nothing behind it is wanted."""

CUT_CLOSE_SECONDS = 1.0
"""What a producer may take to send what it has when an append was given up: whoever stops while the
broker is away has to end in time.
"""

FETCH_WAIT_MS = 500
"""How long the broker keeps a fetch that finds nothing: a client without work hardly costs any."""

BEHIND_RECORDS_MIN = 100
FETCH_WAIT_BEHIND_MS = 50
"""And while so many come at a time. What lies unread for a tenth of a second is left out of the
next fetch, which waits for the other partitions: one that was far behind stood still for half a
second after each of its pieces.
"""

FETCH_BYTES_MAX = 2 * RECORD_BYTES_MAX
POLL_RECORDS_MAX = 10_000
HEARTBEATS_IN_A_SESSION = 10


class Start(Enum):
    """Where a reader begins when it holds no offset."""

    BEGINNING = "beginning"
    END = "end"


class KafkaAppender:
    """One idempotent producer. After any failure it is spent: sequence numbers of a failed batch
    poison the partition.
    """

    def __init__(self, producer: AIOKafkaProducer, prefix: str) -> None:
        self._producer = producer
        self._prefix = prefix
        self._is_cut = False

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
        except asyncio.CancelledError:
            self._is_cut = True
            raise
        except MessageSizeTooLargeError as failure:
            raise AppendUnknownError(
                f"The broker takes nothing as large as an append to {topic} {partition}.",
                hint="Its setting max.message.bytes is too small: see `actionledger topics check`.",
            ) from failure
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
        return place_of(landed)

    async def _append_batches(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """Fill batches to the byte, queue them in order, then await them all."""
        sizes: list[int] = []
        waiting: list[asyncio.Future[RecordMetadata]] = []
        try:
            for batch, size in self._batches(records):
                waiting.append(await self._send(batch, topic, partition))
                sizes.append(size)
            landed = await asyncio.gather(*waiting)
        except BaseException:
            # No failure of a batch behind the first is left for nobody to hear.
            for future in waiting:
                future.cancel()
            raise
        return [
            place_of(first, ordinal)
            for first, count in zip(landed, sizes, strict=True)
            for ordinal in range(count)
        ]

    def _batches(self, records: Sequence[Outgoing]) -> Iterator[tuple[Any, int]]:
        """Batches with as many records as fit, and how many those are."""
        batch, size = self._producer.create_batch(), 0
        for record in records:
            if not self._fill(batch, record):
                yield batch, size
                batch, size = self._producer.create_batch(), 0
                if not self._fill(batch, record):
                    raise AppendUnknownError(
                        f"A record of {len(record.value)} bytes fits no batch.",
                        hint="Records are bounded before they are appended: a fault of ours.",
                    )
            size += 1
        yield batch, size

    def _fill(self, batch: Any, record: Outgoing) -> bool:  # noqa: ANN401 - has no types
        added = batch.append(
            key=record.key, value=record.value, timestamp=None, headers=list(record.headers)
        )
        return added is not None

    async def _send(
        self,
        batch: Any,  # noqa: ANN401 - has no types
        topic: str,
        partition: int,
    ) -> "asyncio.Future[RecordMetadata]":
        batch.close()
        future: asyncio.Future[RecordMetadata] = await self._producer.send_batch(
            batch, topic, partition=partition
        )
        return future

    async def close(self) -> None:
        """Let go within a deadline, a short one where somebody has given up waiting for an append;
        what was not acknowledged may or may not be in the log.
        """
        seconds = CUT_CLOSE_SECONDS if self._is_cut else clients.CLOSE_DEADLINE_SECONDS
        await clients.end(self._producer, deadline_seconds=seconds)


def place_of(landed: RecordMetadata, ordinal: int = 0) -> Appended:
    """Where a record of an acknowledged batch stands; offset -1 where the broker knows only that it
    has the batch.

    Then it answers with no offset and no log start, and aiokafka counts its records up from -1: a
    number that looks like a place and is none.
    """
    if landed.offset < 0 or landed.log_start_offset == -1:
        return Appended(-1, landed.timestamp)
    return Appended(landed.offset + ordinal, landed.timestamp)


class KafkaReader:
    """Reads assigned partitions in offset order from positions of its own."""

    def __init__(self, consumer: AIOKafkaConsumer, prefix: str) -> None:
        self._consumer = consumer
        self._prefix = prefix

    async def read(self, *, timeout_ms: int, records_max: int = POLL_RECORDS_MAX) -> list[Record]:
        """What there is, at once; an empty list when nothing came in time. Raises
        TruncatedLogError, LogUnreachableError, LogRefusedError.
        """
        try:
            fetched = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=records_max)
        except KafkaError as failure:
            raise trouble_of(failure, "Reading") from failure
        clients.check_fetching(self._consumer)
        records = records_of(fetched, len(self._prefix))
        is_behind = len(records) >= BEHIND_RECORDS_MIN
        wait_ms = FETCH_WAIT_BEHIND_MS if is_behind else FETCH_WAIT_MS
        clients.wait_in_fetches(self._consumer, wait_ms)
        return records

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Read this partition from an offset on."""
        self._consumer.seek(TopicPartition(self._prefix + topic, partition), offset)

    def pause(self, topic: str, partition: int) -> None:
        """Read nothing more from a partition until `resume`."""
        self._consumer.pause(TopicPartition(self._prefix + topic, partition))

    def resume(self, topic: str, partition: int) -> None:
        """Read on where `pause` stopped."""
        self._consumer.resume(TopicPartition(self._prefix + topic, partition))

    async def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that `read` gives, marks of transactions passed over."""
        place = TopicPartition(self._prefix + topic, partition)
        return int(await self._consumer.position(place))

    async def end_offsets(self, places: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Where each partition ends at this moment: the offset of the next record.

        Asked over the connection that fetches, so it may wait for a fetch that waits for records: a
        reader without partitions of its own answers at once. Raises LogUnreachableError.
        """
        wanted = self._named(places)
        try:
            clients.ask_about(self._consumer, {place.topic for place in wanted})
            found = await self._consumer.end_offsets(list(wanted))
        except KafkaError as failure:
            raise trouble_of(failure, "Asking where partitions end") from failure
        return {wanted[place]: offset for place, offset in found.items()}

    async def beginning_offsets(
        self, places: Iterable[tuple[str, int]]
    ) -> dict[tuple[str, int], int]:
        """Where each partition begins: 0 wherever nothing is ever deleted. Raises
        LogUnreachableError.
        """
        wanted = self._named(places)
        try:
            clients.ask_about(self._consumer, {place.topic for place in wanted})
            found = await self._consumer.beginning_offsets(list(wanted))
        except KafkaError as failure:
            raise trouble_of(failure, "Asking where partitions begin") from failure
        return {wanted[place]: offset for place, offset in found.items()}

    def _named(self, places: Iterable[tuple[str, int]]) -> dict[TopicPartition, tuple[str, int]]:
        return {TopicPartition(self._prefix + topic, part): (topic, part) for topic, part in places}

    async def begin(self, places: Mapping[tuple[str, int], int | Start]) -> None:
        """Read the given partitions from now on. Raises LogUnreachableError."""
        if places or self._consumer.assignment():
            self._consumer.assign(list(self._named(places)))
        ends = [place for place, start in places.items() if start is Start.END]
        begins = [place for place, start in places.items() if start is Start.BEGINNING]
        found = await self.end_offsets(ends) if ends else {}
        found |= await self.beginning_offsets(begins) if begins else {}
        for place, start in places.items():
            self.seek(*place, found[place] if isinstance(start, Start) else start)

    async def close(self) -> None:
        """Stop reading, within a deadline."""
        await clients.end(self._consumer)


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
            _valued(record.headers),
        )
        for records in fetched.values()
        for record in records
    ]


def _valued(headers: Sequence[tuple[str, bytes | None]]) -> Headers:
    """Headers as they are; one that has no value, as some clients write it, with an empty one."""
    for _, value in headers:
        if value is None:
            return tuple((name, value or b"") for name, value in headers)
    return cast("Headers", headers)


class KafkaLog:
    """One Kafka cluster and the prefix under which an installation's topics stand."""

    def __init__(
        self,
        bootstrap: str,
        *,
        prefix: str = "actionledger.",
        client_id: str = "actionledger",
        access: KafkaAccess = OPEN,
        group_session_ms: int = GROUP_SESSION_MS_DEFAULT,
        group_member: str | None = None,
    ) -> None:
        """`group_session_ms`: after so long without a word from a member of one of our groups the
        broker gives its partitions to others. `group_member` is this process's own name in its
        group, borne by no other: whoever comes back under it within the session gets its partitions
        again. `access` says as whom the broker is asked.
        """
        self.bootstrap = bootstrap
        self.prefix = prefix
        self.client_id = client_id
        self.access = access
        self.group_session_ms = group_session_ms
        self.group_member = group_member
        self.group_heartbeat_ms = group_session_ms // HEARTBEATS_IN_A_SESSION

    @cached_property
    def client_options(self) -> dict[str, Any]:
        """What every client of this log is made with. Raises CertificateError."""
        return {
            "bootstrap_servers": self.bootstrap,
            "client_id": self.client_id,
            **self.access.options(),
        }

    async def appender(self) -> KafkaAppender:
        """A started producer of its own. Raises LogUnreachableError, LogRefusedError."""
        producer = AIOKafkaProducer(
            **self.client_options,
            acks="all",
            enable_idempotence=True,
            linger_ms=0,
            max_batch_size=BATCH_BYTES_MAX,
            max_request_size=4 * RECORD_BYTES_MAX,
            request_timeout_ms=10_000,
        )
        await clients.start(producer, self.client_options)
        return KafkaAppender(producer, self.prefix)

    async def reader(
        self,
        places: Mapping[tuple[str, int], int | Start],
        *,
        fetch_bytes: int = FETCH_BYTES_MAX,
    ) -> KafkaReader:
        """A reader of the given partitions, each from its offset or from an end; with none it only
        tells where partitions end. Raises LogUnreachableError, LogRefusedError.
        """
        consumer = AIOKafkaConsumer(
            **self.client_options,
            enable_auto_commit=False,
            auto_offset_reset="none",
            fetch_max_wait_ms=FETCH_WAIT_MS,
            fetch_min_bytes=1,
            max_partition_fetch_bytes=fetch_bytes,
            request_timeout_ms=10_000,
        )
        await clients.start(consumer, self.client_options)
        reader = KafkaReader(consumer, self.prefix)
        try:
            await reader.begin(places)
        except BaseException:
            await reader.close()
            raise
        return reader

    async def read_one(self, topic: str, partition: int, offset: int) -> Record:
        """The record at an offset. Raises TruncatedLogError when there is none, LogUnreachableError
        when there is one and it does not come in time, and what a reader raises.
        """
        place = (topic, partition)
        reader = await self.reader({place: offset}, fetch_bytes=ONE_RECORD_FETCH_BYTES)
        try:
            async with asyncio.timeout(ONE_RECORD_DEADLINE_SECONDS):
                records: list[Record] = []
                while not records:
                    records = await reader.read(timeout_ms=1_000, records_max=1)
        except TimeoutError:
            records = []
        finally:
            await reader.close()
        if not records and await self._end(place) > offset:
            raise LogUnreachableError(
                f"{topic} {partition} offset {offset} did not come, though the partition goes on.",
                hint="See whether the broker is slow; this process can be started again.",
            )
        if not records or records[0].offset != offset:
            raise TruncatedLogError(
                f"Nothing at {topic} {partition} offset {offset}.",
                hint="Check that the topic is the one this installation wrote.",
            )
        return records[0]

    async def _end(self, place: tuple[str, int]) -> int:
        """Where a partition ends, asked by a reader of its own: one that fetches waits for that."""
        reader = await self.reader({})
        try:
            ends = await reader.end_offsets([place])
        finally:
            await reader.close()
        return ends[place]


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
