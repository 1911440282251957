"""One member of a consumer group that shares out partitions and nothing else.

Positions come from whoever reads, never from the group; commits serve lag graphs. Between `read`
and the end of a round the round lock is held, and a rebalance waits for it: no partition changes
hands in the middle of a batch. `read` itself never waits for a rebalance, so whoever calls it can
stop and can show that it lives. With a name of its own (static membership) a member that comes back
within its session gets its partitions again and nobody else is disturbed. Used by the processor and
by the inquirer.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from ledger.log import clients
from ledger.log.crashpoints import crash_point
from ledger.log.kafka import KafkaLog, records_of
from ledger.log.port import Record
from ledger.log.trouble import LogUnreachableError, trouble_of
from streams.limits import METADATA_AGE_MS_MAX, REBALANCE_TIMEOUT_MS

logger = logging.getLogger("actionledger")

JOIN_SECONDS_MAX = 90.0
"""Above the rebalance timeout, after which the group goes on without a member that hangs."""

ROUND_MS_MAX = 120_000
"""A member that takes no records for so long loses its partitions. Epochs keep them safe anyway."""


def whole(assigned: Collection[TopicPartition], topics: Collection[str]) -> frozenset[int]:
    """Partitions of which every topic was given. Whoever shares them out while a broker comes back
    may not see all topics; without one of its topics a partition has no reader until it is shared
    out again.
    """
    given = set(assigned)
    return frozenset(
        place.partition
        for place in given
        if all(TopicPartition(topic, place.partition) in given for topic in topics)
    )


class GroupMember(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    """A share of the partitions of some topics. `generation` grows with every change."""

    def __init__(
        self, log: KafkaLog, group: str, topics: Sequence[str], *, records_max: int
    ) -> None:
        """`topics` by their short names; `records_max` are taken in one round."""
        self._log = log
        self._topics = [log.prefix + topic for topic in topics]
        self._records_max = records_max
        self.round = asyncio.Lock()
        self.assigned: frozenset[int] = frozenset()
        self.generation = 0
        self.is_changing = True
        """Whether partitions are changing hands: from when they are asked back until they are given
        out again nothing may be decided or taken up.
        """
        self.has_joined = False
        self._join_by_s = 0.0
        self._held_back: set[TopicPartition] = set()
        self._reading: asyncio.Future[dict[TopicPartition, list[Any]]] | None = None
        self._consumer = AIOKafkaConsumer(
            **log.client_options,
            group_id=group,
            group_instance_id=log.group_member,
            enable_auto_commit=False,
            auto_offset_reset="none",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=log.group_session_ms,
            heartbeat_interval_ms=log.group_heartbeat_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            metadata_max_age_ms=METADATA_AGE_MS_MAX,
            max_poll_interval_ms=ROUND_MS_MAX,
            fetch_max_wait_ms=500,
            request_timeout_ms=20_000,
        )

    async def start(self) -> None:
        """Begin to join the group; `read` goes on with it. Raises LogUnreachableError."""
        await clients.start(self._consumer, self._log.client_options)
        # After the start, which would otherwise wait for the first assignment and hear nothing.
        self._consumer.subscribe(self._topics, listener=self)
        self._join_by_s = asyncio.get_running_loop().time() + JOIN_SECONDS_MAX

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Wait for the round at work; after it nothing is done for these partitions."""
        self.is_changing = True
        async with self.round:
            self.generation += 1
            crash_point("partitions_revoked")
            logger.info("partitions_revoked", extra={"partitions": len(revoked)})

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Nothing is read before whoever reads a partition says from where."""
        self._held_back.clear()
        self.assigned = whole(assigned, self._topics)
        for place in assigned:
            self._consumer.seek(place, 0)
        if assigned:
            self._consumer.pause(*assigned)
        self.generation += 1
        self.is_changing = False
        self.has_joined = True
        logger.info("partitions_assigned", extra={"partitions": sorted(self.assigned)})

    def read_on(self, partition: int, positions: Mapping[str, int]) -> None:
        """Read a partition of one's own on, each topic from its offset or from the beginning."""
        prefix_chars = len(self._log.prefix)
        for topic in self._topics:
            place = TopicPartition(topic, partition)
            self._consumer.seek(place, positions.get(topic[prefix_chars:], 0))
            self._consumer.resume(place)

    def hold_back(self, places: Collection[tuple[str, int]]) -> None:
        """Read nothing from these places for now, and on from all others held back before."""
        wanted = {TopicPartition(self._log.prefix + topic, part) for topic, part in places}
        if fresh := wanted - self._held_back:
            self._consumer.pause(*fresh)
        if over := self._held_back - wanted:
            self._consumer.resume(*over)
        self._held_back = wanted

    async def read(self, timeout_ms: int) -> list[Record]:
        """What there is, in offset order; empty when nothing came in time, or while partitions
        change hands.

        Raises TruncatedLogError, LogUnreachableError, LogRefusedError: then this member is no use
        any more.
        """
        if self._reading is None:
            self._reading = asyncio.ensure_future(
                self._consumer.getmany(timeout_ms=timeout_ms, max_records=self._records_max)
            )
        # It ends in time by itself, but for a rebalance, for which it waits without an end. It is
        # never cancelled: aiokafka would count it as a read for ever.
        while not self._reading.done():
            await asyncio.wait({self._reading}, timeout=timeout_ms / 1_000)
            if self.is_changing and not self._reading.done():
                self._check_joining()
                return []
        reading, self._reading = self._reading, None
        try:
            fetched = reading.result()
        except KafkaError as failure:
            raise trouble_of(failure, "Reading as a member of a group") from failure
        clients.check_fetching(self._consumer)
        return records_of(fetched, len(self._log.prefix))

    async def read_to(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Up to where `read` has given everything, offsets without a record included; nothing
        while a read is under way.
        """
        if self._reading is not None:
            return {}
        assigned = self._consumer.assignment()
        found: dict[tuple[str, int], int] = {}
        for topic, partition in places:
            place = TopicPartition(self._log.prefix + topic, partition)
            if place in assigned:
                found[topic, partition] = await self._consumer.position(place)
        return found

    async def drop(self) -> None:
        """Forget a read that was begun before the partitions changed hands: what it brings may
        begin elsewhere than where one reads on from now.
        """
        if self._reading is not None:
            await asyncio.wait({self._reading})
            self._reading = None

    def _check_joining(self) -> None:
        if not self.has_joined and asyncio.get_running_loop().time() > self._join_by_s:
            raise LogUnreachableError(
                f"No Kafka broker let this process join its group in {JOIN_SECONDS_MAX:.0f} s.",
                hint="Check the broker, and whether another member hangs in its rebalance.",
            )

    async def end_offset(self, topic: str, partition: int) -> int:
        """Where a partition ends now. Raises LogUnreachableError."""
        place = TopicPartition(self._log.prefix + topic, partition)
        try:
            found = await self._consumer.end_offsets([place])
        except KafkaError as failure:
            raise trouble_of(failure, f"Reading the end of {topic}") from failure
        return int(found[place])

    async def commit(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Show where this member is. Losing a commit loses nothing."""
        places = {
            TopicPartition(self._log.prefix + topic, partition): offset
            for (topic, partition), offset in positions.items()
        }
        try:
            await self._consumer.commit(places)
        except KafkaError as failure:
            logger.warning("positions_not_committed", extra={"reason": repr(failure)})

    async def close(self) -> None:
        """Leave the group, within a deadline; a member with a name of its own only stops, and is
        waited for until its session is over.
        """
        await clients.end(self._consumer)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
