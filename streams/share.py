"""A share of the ledger's partitions, as one member of a group: who follows which is the group's
affair, from where is not.

Positions come from the follower; the group holds none. While `round` is held no partition changes
hands. `read` does not wait for a rebalance, so that whoever calls it can stop and can show that it
lives. Used by the inquirer.
"""

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from ledger.log import clients
from ledger.log.kafka import KafkaLog, records_of
from ledger.log.port import Record
from ledger.log.topics import Topic
from ledger.log.trouble import trouble_of
from streams.limits import LEDGER_ROUND_RECORDS_MAX, METADATA_AGE_MS_MAX, REBALANCE_TIMEOUT_MS

logger = logging.getLogger("actionledger")

_START_SECONDS = 60.0


class LedgerShare(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    """One member of a group over the ledger topic. `generation` grows with every change, and while
    `is_changing` nothing may be taken up.
    """

    def __init__(self, log: KafkaLog, group: str) -> None:
        self._log = log
        self._topic = log.prefix + Topic.LEDGER
        self.round = asyncio.Lock()
        self.assigned: frozenset[int] = frozenset()
        self.generation = 0
        self.is_changing = True
        self._reading: asyncio.Future[dict[TopicPartition, list[Any]]] | None = None
        self._consumer = AIOKafkaConsumer(
            **log.client_options,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="none",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=log.group_session_ms,
            heartbeat_interval_ms=log.group_heartbeat_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            metadata_max_age_ms=METADATA_AGE_MS_MAX,
            fetch_max_wait_ms=500,
        )

    async def start(self) -> None:
        """Join the group. Raises LogUnreachableError."""
        self._consumer.subscribe([self._topic], listener=self)
        options = self._log.client_options
        await clients.start(self._consumer, options, deadline_seconds=_START_SECONDS)

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        """Wait for the round at work; after it nothing of these partitions is taken up."""
        self.is_changing = True
        async with self.round:
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
        self.is_changing = False
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
        """What there is, in offset order; empty when nothing came in time, or while partitions
        change hands. Raises what ends a follower, see `ledger.log.trouble`.
        """
        if self._reading is None:
            self._reading = asyncio.ensure_future(
                self._consumer.getmany(timeout_ms=timeout_ms, max_records=LEDGER_ROUND_RECORDS_MAX)
            )
        # Never cancelled: aiokafka would count it as a read for ever.
        while not self._reading.done():
            await asyncio.wait({self._reading}, timeout=timeout_ms / 1000)
            if self.is_changing and not self._reading.done():
                return []
        reading, self._reading = self._reading, None
        try:
            fetched = reading.result()
        except KafkaError as failure:
            raise trouble_of(failure, "Reading the ledger") from failure
        clients.check_fetching(self._consumer)
        return records_of(fetched, len(self._log.prefix))

    async def drop(self) -> None:
        """Forget a read that was begun before the partitions changed hands: what it brings may
        begin elsewhere than where one reads on from now.
        """
        if self._reading is not None:
            await asyncio.wait({self._reading})
            self._reading = None

    async def end_offset(self, partition: int) -> int:
        """Where a partition ends now. Raises LogUnreachableError."""
        place = TopicPartition(self._topic, partition)
        try:
            found = await self._consumer.end_offsets([place])
        except KafkaError as failure:
            raise trouble_of(failure, "Reading the end of the ledger") from failure
        return int(found[place])

    async def close(self) -> None:
        """Leave the group, within a deadline."""
        await clients.end(self._consumer)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
