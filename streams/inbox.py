"""The five inboxes as one group member reads them, partition by partition, from the ledger's own
positions.

Group membership only shares the partitions out. Positions are set from the ledger, commits serve
lag graphs and nothing else. Between `read` and the end of a round the round lock is held, and a
rebalance waits for it: no partition changes hands in the middle of a batch.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from ledger.log.kafka import CLOSE_DEADLINE_SECONDS, KafkaLog, LogUnreachableError, records_of
from ledger.log.port import Record
from ledger.log.topics import INBOXES

logger = logging.getLogger("actionledger")

ROUND_RECORDS_MAX = 4_000
START_DEADLINE_SECONDS = 60.0
HEARTBEATS_IN_A_SESSION = 10


class Inboxes(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    """One member of the processors' group."""

    def __init__(self, log: KafkaLog, group: str) -> None:
        self._log = log
        self.round = asyncio.Lock()
        self.assigned: frozenset[int] = frozenset()
        self.generation = 0
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=log.bootstrap,
            client_id=log.client_id,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=log.group_session_ms,
            heartbeat_interval_ms=log.group_session_ms // HEARTBEATS_IN_A_SESSION,
            rebalance_timeout_ms=60_000,
            max_poll_interval_ms=120_000,
            fetch_max_wait_ms=500,
            request_timeout_ms=20_000,
        )

    async def start(self) -> None:
        """Join the group. Raises LogUnreachableError."""
        topics = [self._log.prefix + topic for topic in INBOXES]
        self._consumer.subscribe(topics, listener=self)
        try:
            async with asyncio.timeout(START_DEADLINE_SECONDS):
                await self._consumer.start()
        except (KafkaError, TimeoutError) as failure:
            raise LogUnreachableError(
                f"No Kafka broker lets this process join its group ({failure!r}).",
                hint="Check the broker and that the topics exist: `actionledger topics check`.",
            ) from failure

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Wait for the round at work; after it nothing is decided for these partitions."""
        async with self.round:
            self.assigned = frozenset()
            self.generation += 1
            logger.info("partitions_revoked", extra={"partitions": len(revoked)})

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Nothing is read before the owner of a partition says from where."""
        self.assigned = frozenset(place.partition for place in assigned)
        self.generation += 1
        for place in assigned:
            self._consumer.seek(place, 0)
        if assigned:
            self._consumer.pause(*assigned)
        logger.info("partitions_assigned", extra={"partitions": sorted(self.assigned)})

    def read_from(self, partition: int, positions: Mapping[str, int]) -> None:
        """Read the inboxes of a partition from these offsets on."""
        for topic in INBOXES:
            place = TopicPartition(self._log.prefix + topic, partition)
            self._consumer.seek(place, positions.get(topic, 0))
            self._consumer.resume(place)

    async def read(self, timeout_ms: int) -> list[Record]:
        """What there is; empty when nothing came in time. Never cancel it: aiokafka leaks then."""
        fetched = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=ROUND_RECORDS_MAX)
        return records_of(fetched, len(self._log.prefix))

    async def end_offsets(self, partition: int, topics: Iterable[str]) -> dict[str, int]:
        """Where the inboxes of a partition end at this moment."""
        places = {TopicPartition(self._log.prefix + topic, partition): topic for topic in topics}
        found = await self._consumer.end_offsets(list(places))
        return {places[place]: offset for place, offset in found.items()}

    async def beginning_offset(self, topic: str, partition: int) -> int:
        """Where an inbox begins: behind 0 only where records do not live for ever."""
        place = TopicPartition(self._log.prefix + topic, partition)
        found = await self._consumer.beginning_offsets([place])
        return int(found[place])

    async def commit(self, positions: Mapping[tuple[str, int], int]) -> None:
        """Show where this member is. Losing a commit loses nothing."""
        places = {
            TopicPartition(self._log.prefix + topic, partition): offset
            for (topic, partition), offset in positions.items()
        }
        with contextlib.suppress(KafkaError):
            await self._consumer.commit(places)

    async def close(self) -> None:
        """Leave the group, within a deadline."""
        with contextlib.suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(CLOSE_DEADLINE_SECONDS):
                await self._consumer.stop()
