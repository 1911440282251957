"""One member of a consumer group that shares out partitions and nothing else.

The client that belongs to the group reads nothing: others do, one for each topic. Positions come
from whoever reads, never from the group; commits serve lag graphs. Between `read` and the end of a
round the round lock is held, and a rebalance waits for it: no partition changes hands in the middle
of a batch. `read` itself never waits for a rebalance, so whoever calls it can stop and show that
it lives. With a name of its own (static membership) a member that comes back within its session
gets its partitions again and nobody else is disturbed. Used by the processor and by the inquirer.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError, UnknownError

from ledger.core.errors import LedgerError
from ledger.log import clients
from ledger.log.crashpoints import crash_point
from ledger.log.kafka import KafkaLog
from ledger.log.port import Record
from ledger.log.trouble import LogUnreachableError, trouble_of
from streams.limits import METADATA_AGE_MS_MAX, REBALANCE_TIMEOUT_MS
from streams.topic_readers import TopicReaders

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


SHOWN_SECONDS = 0.5
"""How often a member asks the client of its group whether all is well."""


class GroupMember(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    """A share of the partitions of some topics. `generation` grows with every change."""

    def __init__(
        self, log: KafkaLog, group: str, topics: Sequence[str], *, records_max: int
    ) -> None:
        """`topics` by their short names; `records_max` are taken of each in one round."""
        self._log = log
        self._topics = [log.prefix + topic for topic in topics]
        self._readers = TopicReaders(log, topics, records_max=records_max)
        self.round = asyncio.Lock()
        self.assigned: frozenset[int] = frozenset()
        self.generation = 0
        self.is_changing = True
        """Whether partitions are changing hands: from when they are asked back until they are given
        out again nothing may be decided or taken up.
        """
        self.has_joined = False
        self._join_by_s = 0.0
        self._shown_at_s = 0.0
        self._showing: asyncio.Task[Any] | None = None
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
            request_timeout_ms=20_000,
        )

    async def start(self) -> None:
        """Begin to join the group; `read` goes on with it. Raises LogUnreachableError."""
        await self._readers.start()
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
        for place in assigned:
            self._consumer.seek(place, 0)
        if assigned:
            self._consumer.pause(*assigned)
        self.assigned = whole(assigned, self._topics)
        await self._readers.assign(self.assigned)
        self.generation += 1
        self.is_changing = False
        self.has_joined = True
        logger.info("partitions_assigned", extra={"partitions": sorted(self.assigned)})

    def read_on(self, partition: int, positions: Mapping[str, int]) -> None:
        """Read a partition of one's own on, each topic from its offset or from the beginning."""
        self._readers.read_on(partition, positions)

    def hold_back(self, places: Collection[tuple[str, int]]) -> None:
        """Read nothing from these places for now, and on from all others held back before. What was
        read of them already still comes.
        """
        self._readers.hold_back(places)

    async def read(self, timeout_ms: int) -> list[Record]:
        """What there is, each topic of a partition in offset order; empty when nothing came in
        time. What comes while partitions change hands is nobody's.

        Raises TruncatedLogError, LogUnreachableError, LogRefusedError: then this member is no use
        any more.
        """
        self.show_that_it_reads()
        if not self.has_joined:
            self._check_joining()
        return await self._readers.read(timeout_ms)

    async def read_to(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """Up to where `read` has given everything, offsets without a record included; nothing of a
        topic of which more was read than given.
        """
        return await self._readers.read_to(places)

    def show_that_it_reads(self) -> None:
        """Ask the client of the group for records, of which it has none: it leaves the group when
        nobody has asked for long, and says what went wrong in the group only to whoever asks.
        """
        now_s = asyncio.get_running_loop().time()
        if self._showing is None:
            if now_s - self._shown_at_s < SHOWN_SECONDS:
                return
            self._shown_at_s = now_s
            self._showing = asyncio.create_task(self._consumer.getmany(timeout_ms=0))
        # It ends at once, but for a rebalance, for which it waits without an end. It is never
        # cancelled: aiokafka would count it as a read for ever.
        if self._showing.done():
            showing, self._showing = self._showing, None
            try:
                showing.result()
            except KafkaError as failure:
                raise self._trouble_of(failure) from failure
            clients.check_fetching(self._consumer)

    def _trouble_of(self, failure: KafkaError) -> LedgerError:
        """What to do about it: the client does not know the broker's word for a name in use."""
        name, doing = self._log.group_member, "Reading as a member of a group"
        if name is not None and UnknownError.__name__ in repr(failure):
            return LogUnreachableError(
                f"{doing}: the broker let the member {name} go ({failure!r}).",
                hint="See that no other process has the same ACTIONLEDGER_MEMBER; this process can "
                "be started again.",
            )
        return trouble_of(failure, doing)

    def _check_joining(self) -> None:
        if asyncio.get_running_loop().time() > self._join_by_s:
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
        await asyncio.gather(clients.end(self._consumer), self._readers.close())
        if self._showing is not None:
            self._showing.cancel()
            await asyncio.gather(self._showing, return_exceptions=True)
