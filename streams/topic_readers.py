"""The partitions of some topics, each topic read by a Kafka client of its own.

A fetch names every partition of its client and is answered about all of them, whether something
came or not: with one client for five inboxes a record reaches its reader twice as late as with
five. Clients read ahead while what they gave before is worked on. Guarantees that nothing is given
that was read before its partition was assigned or placed anew, and that nothing is left out. Used
by a group member.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from ledger.core.limits import RECORD_BYTES_MAX
from ledger.log.kafka import KafkaLog, KafkaReader
from ledger.log.port import Record

READING_MS = 1_000
"""After so long without a record a client is looked at again, whether it still fetches."""

Place = tuple[str, int]
"""A topic by its short name, and a partition."""


class _OneTopic:
    """A client, what it is reading, and what it has read and not given yet."""

    def __init__(self, topic: str, reader: KafkaReader) -> None:
        self.topic = topic
        self.reader = reader
        self.partitions: frozenset[int] = frozenset()
        self.reading: asyncio.Task[list[Record]] | None = None
        self._read: list[Record] = []
        self._failure: BaseException | None = None

    def go_on(self, records_max: int) -> "asyncio.Task[list[Record]]":
        """Read, unless it does. Never cancelled: aiokafka would count it as a read for ever."""
        if self.reading is None:
            reading = self.reader.read(timeout_ms=READING_MS, records_max=records_max)
            self.reading = asyncio.create_task(reading)
        return self.reading

    def take(self) -> list[Record]:
        """What has been read, given once. Raises what reading raised, whoever saw its end."""
        self._end_reading()
        if self._failure is not None:
            raise self._failure
        read, self._read = self._read, []
        return read

    def forget(self, partition: int) -> None:
        """What was read of a partition and not given is not wanted: it is read from elsewhere."""
        self._end_reading()
        self._read = [record for record in self._read if record.partition != partition]

    def has_given_all(self) -> bool:
        """Whether everything below the client's positions was given."""
        return not self._read and (self.reading is None or not self.reading.done())

    def _end_reading(self) -> None:
        """The client has moved its positions when a read is done, and not before."""
        if self.reading is not None and self.reading.done():
            reading, self.reading = self.reading, None
            self._failure = self._failure or reading.exception()
            if self._failure is None:
                self._read += reading.result()


class TopicReaders:
    """Reads the same partitions of some topics. Calls come in this order: start, then assign and
    read_on whenever a share changes, and read.
    """

    def __init__(self, log: KafkaLog, topics: Sequence[str], *, records_max: int) -> None:
        """`topics` by their short names; `records_max` are taken of one topic at a time."""
        self._log = log
        self._topics = topics
        self._records_max = records_max
        self._readers: list[_OneTopic] = []
        self._held_back: set[Place] = set()

    async def start(self) -> None:
        """Start a client for each topic; they read nothing yet. Raises LogUnreachableError,
        LogRefusedError.
        """
        for topic in self._topics:
            reader = await self._log.reader({}, fetch_bytes=RECORD_BYTES_MAX)
            self._readers.append(_OneTopic(topic, reader))

    async def assign(self, partitions: Collection[int]) -> None:
        """These partitions and no others from now on; each is read when `read_on` says from where,
        and what was read before is forgotten.
        """
        self._held_back.clear()
        for one in self._readers:
            for partition in one.partitions:
                one.forget(partition)
            one.partitions = frozenset(partitions)
            await one.reader.begin({(one.topic, partition): 0 for partition in partitions})
            for partition in partitions:
                one.reader.pause(one.topic, partition)

    def read_on(self, partition: int, positions: Mapping[str, int]) -> None:
        """Read a partition on, each topic from its offset or from the beginning; nothing of it is
        held back.
        """
        self._held_back = {place for place in self._held_back if place[1] != partition}
        for one in self._readers:
            one.forget(partition)
            one.reader.seek(one.topic, partition, positions.get(one.topic, 0))
            one.reader.resume(one.topic, partition)

    def hold_back(self, places: Collection[Place]) -> None:
        """Read nothing from these places for now, and on from all others held back before. What was
        read of them already still comes.
        """
        wanted = set(places)
        for one in self._readers:
            for topic, partition in wanted - self._held_back:
                if topic == one.topic:
                    one.reader.pause(topic, partition)
            for topic, partition in self._held_back - wanted:
                if topic == one.topic:
                    one.reader.resume(topic, partition)
        self._held_back = wanted

    async def read(self, timeout_ms: int) -> list[Record]:
        """What there is, each place in offset order; empty when nothing came in time. Raises
        TruncatedLogError, LogUnreachableError, LogRefusedError.
        """
        reading = [one.go_on(self._records_max) for one in self._readers]
        await asyncio.wait(reading, timeout=timeout_ms / 1_000, return_when=asyncio.FIRST_COMPLETED)
        return [record for one in self._readers for record in one.take()]

    async def read_to(self, places: Collection[Place]) -> dict[Place, int]:
        """Up to where `read` has given everything, offsets without a record included; nothing of a
        topic of which more was read than given.
        """
        found: dict[Place, int] = {}
        for one in self._readers:
            for topic, partition in places:
                if topic == one.topic and partition in one.partitions:
                    position = await one.reader.position(topic, partition)
                    # Asked behind it: what is read meanwhile was not given.
                    if one.has_given_all():
                        found[topic, partition] = position
        return found

    async def close(self) -> None:
        """Stop reading, each client within a deadline."""
        await asyncio.gather(*(one.reader.close() for one in self._readers))
        reading = [one.reading for one in self._readers if one.reading is not None]
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
