"""The topics, one per authority of the writer, and which partition a stream lives on.

The five inboxes and the ledger have the same number of partitions, fixed for life by the genesis
record at offset 0. Partition numbers follow Kafka's own murmur2 partitioner, so that a client in
any language reaches the same partition.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from aiokafka.partitioner import murmur2

from ledger.core.limits import (
    INTENT_BYTES_MAX,
    QUARANTINE_BATCH_BYTES_MAX,
    RECORD_BYTES_MAX,
    WEBHOOK_BYTES_MAX,
)


class Topic(StrEnum):
    """Short names; on the broker they stand behind the prefix."""

    INTENTS = "intents"
    APPROVALS = "approvals"
    ATTEMPTS = "attempts"
    EVIDENCE = "evidence"
    INTERNAL = "internal"
    LEDGER = "ledger"
    WEBHOOKS = "webhooks"
    CONFIG = "config"
    ATTENTION = "attention"
    OFFERS = "offers"
    QUARANTINE = "quarantine"


INBOXES: tuple[Topic, ...] = (
    Topic.INTENTS,
    Topic.APPROVALS,
    Topic.ATTEMPTS,
    Topic.EVIDENCE,
    Topic.INTERNAL,
)
WITH_GENESIS: frozenset[Topic] = frozenset(
    {Topic.INTENTS, Topic.APPROVALS, Topic.ATTEMPTS, Topic.EVIDENCE, Topic.LEDGER}
)
FOREVER_MS = -1
DAYS_3_MS = 3 * 24 * 3_600_000
HOUR_MS = 3_600_000


INPUT_BYTES_MAX: dict[Topic, int] = {Topic.INTENTS: INTENT_BYTES_MAX * 2}
"""The largest record that is an input, where it is less than RECORD_BYTES_MAX: an intent as the
door takes it, and what is written around it.
"""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it must be on the broker. `retention_ms` of -1 keeps its records for ever.

    `batch_bytes_max` is what the broker calls the size of a message: it bounds what a producer puts
    together, so it is never below BATCH_BYTES_MAX. Whoever reads a record bounds the record.
    """

    topic: Topic
    partitions: int
    retention_ms: int
    batch_bytes_max: int


def batch_bytes_max(topic: Topic) -> int:
    """What a topic takes at once."""
    match topic:
        case Topic.WEBHOOKS:
            return WEBHOOK_BYTES_MAX * 2
        case Topic.QUARANTINE:
            return QUARANTINE_BATCH_BYTES_MAX
        case _:
            return RECORD_BYTES_MAX


def specs(partitions: int) -> tuple[TopicSpec, ...]:
    """Every topic of an installation with `partitions` partitions a stream topic."""
    retention = {Topic.INTERNAL: DAYS_3_MS, Topic.OFFERS: HOUR_MS}
    return tuple(
        TopicSpec(
            topic=topic,
            partitions=1 if topic is Topic.CONFIG else partitions,
            retention_ms=retention.get(topic, FOREVER_MS),
            batch_bytes_max=batch_bytes_max(topic),
        )
        for topic in Topic
    )


@lru_cache(maxsize=65_536)
def partition_of(key: str, partitions: int) -> int:
    """The partition that a stream key (or any record key) belongs to."""
    hashed: int = murmur2(key.encode()) & 0x7FFFFFFF
    return hashed % partitions
