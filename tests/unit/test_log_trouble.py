"""Which trouble with the log is which, and where an acknowledged record stands."""

import pytest
from aiokafka.errors import (
    CorruptRecordException,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NoOffsetForPartitionError,
    NotLeaderForPartitionError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
    TopicAuthorizationFailedError,
)
from aiokafka.structs import RecordMetadata, TopicPartition

from ledger.log.kafka import place_of
from ledger.log.port import Appended
from ledger.log.trouble import (
    LogRefusedError,
    LogUnreachableError,
    TruncatedLogError,
    trouble_of,
)


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (OffsetOutOfRangeError(), TruncatedLogError),
        (NoOffsetForPartitionError(), TruncatedLogError),
        (TopicAuthorizationFailedError("ledger"), LogRefusedError),
        (CorruptRecordException(), LogRefusedError),
        (KafkaConnectionError(), LogUnreachableError),
        (KafkaTimeoutError(), LogUnreachableError),
        (NotLeaderForPartitionError(), LogUnreachableError),
        (RequestTimedOutError(), LogUnreachableError),
        (KafkaError("Unexpected exception in heartbeat task"), LogUnreachableError),
    ],
)
def test_trouble_that_passes_is_never_called_lost_records(
    failure: KafkaError, kind: type[Exception]
) -> None:
    """Only a position outside the log says that records are gone; a broker that is away is not."""
    assert type(trouble_of(failure, "Reading")) is kind


def acknowledged(offset: int, *, log_start: int, timestamp: int = 1_000) -> RecordMetadata:
    """What the broker answered to a batch."""
    place = TopicPartition("actionledger.intents", 2)
    return RecordMetadata(place.topic, 2, place, offset, timestamp, 1, log_start)


def test_records_of_a_batch_stand_behind_each_other() -> None:
    """The broker gives the place of the first record; the others follow."""
    first = acknowledged(40, log_start=0)
    assert [place_of(first, ordinal).offset for ordinal in range(3)] == [40, 41, 42]


def test_a_batch_that_the_broker_has_but_cannot_find_has_no_place() -> None:
    """An acknowledged duplicate comes without an offset, and no number counted up from that is one:
    offset 6 would be the decision on somebody else's intent.
    """
    duplicate = acknowledged(-1, log_start=-1)
    assert [place_of(duplicate, ordinal).offset for ordinal in range(3)] == [-1, -1, -1]
    seventh_of_a_shared_batch = acknowledged(-1 + 7, log_start=-1)
    assert place_of(seventh_of_a_shared_batch) == Appended(-1, 1_000)
