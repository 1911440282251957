"""A share of the ledger's partitions, as one member of a group: who follows which is the group's
affair, from where is not.

Positions come from the follower; the group holds none. While `round` is held no partition changes
hands. `read` is never cancelled: aiokafka leaks then. Used by the inquirer.
"""

import asyncio
import contextlib
import logging

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from ledger.log.kafka import CLOSE_DEADLINE_SECONDS, KafkaLog, LogUnreachableError, records_of
from ledger.log.port import Record
from ledger.log.topics import Topic
from streams.limits import LEDGER_ROUND_RECORDS_MAX, REBALANCE_TIMEOUT_MS

logger = logging.getLogger("actionledger")

_START_SECONDS = 60.0


class LedgerShare(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    """One member of a group over the ledger topic. `generation` grows with every change."""

    def __init__(self, log: KafkaLog, group: str) -> None:
        self._log = log
        self._topic = log.prefix + Topic.LEDGER
        self.round = asyncio.Lock()
        self.assigned: frozenset[int] = frozenset()
        self.generation = 0
        self.is_member = False
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=log.bootstrap,
            client_id=log.client_id,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=log.group_session_ms,
            heartbeat_interval_ms=log.group_heartbeat_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            fetch_max_wait_ms=500,
        )

    async def start(self) -> None:
        """Join the group. Raises LogUnreachableError."""
        self._consumer.subscribe([self._topic], listener=self)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await self._consumer.start()
        except (KafkaError, TimeoutError) as failure:
            raise LogUnreachableError(
                f"No Kafka broker lets this process join its group ({failure!r}).",
                hint="Check the broker and that the topics exist: `actionledger topics check`.",
            ) from failure

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Wait for the round at work; after it nothing of these partitions is taken up."""
        async with self.round:
            self.assigned = frozenset()
            self.generation += 1
        logger.info("partitions_revoked", extra={"partitions": len(revoked)})

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        """Read nothing before the follower says from where."""
        for place in assigned:
            self._consumer.seek(place, 0)
        if assigned:
            self._consumer.pause(*assigned)
        self.assigned = frozenset(place.partition for place in assigned)
        self.generation += 1
        self.is_member = True
        logger.info("partitions_assigned", extra={"partitions": sorted(self.assigned)})

    def read_from(self, partition: int, offset: int) -> None:
        """Read a partition of one's own from an offset on."""
        place = TopicPartition(self._topic, partition)
        self._consumer.seek(place, offset)
        self._consumer.resume(place)

    def pause(self, partition: int) -> None:
        """Read nothing more of a partition until `resume`."""
        self._consumer.pause(TopicPartition(self._topic, partition))

    def resume(self, partition: int) -> None:
        """Read on."""
        self._consumer.resume(TopicPartition(self._topic, partition))

    async def read(self, timeout_ms: int) -> list[Record]:
        """What there is, in offset order; empty when nothing came in time."""
        fetched = await self._consumer.getmany(
            timeout_ms=timeout_ms, max_records=LEDGER_ROUND_RECORDS_MAX
        )
        return records_of(fetched, len(self._log.prefix))

    async def end_offset(self, partition: int) -> int:
        """Where a partition ends now."""
        place = TopicPartition(self._topic, partition)
        found = await self._consumer.end_offsets([place])
        return int(found[place])

    async def close(self) -> None:
        """Leave the group, within a deadline."""
        with contextlib.suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(CLOSE_DEADLINE_SECONDS):
                await self._consumer.stop()
