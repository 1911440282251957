"""What can be wrong with the log, told apart by what a person has to do about it.

    LedgerError
    ├── LogUnreachableError   nobody answers, or not in time: start the broker, or wait
    ├── LogRefusedError       the broker answers, and will not: rights, a damaged record
    └── TruncatedLogError     a position lies outside the log: stop all writers

Guarantees that trouble which passes is never called lost records. Raised by readers and appenders.
"""

from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    CorruptRecordException,
    GroupAuthorizationFailedError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)

from ledger.core.errors import LedgerError

_OUTSIDE = (OffsetOutOfRangeError, NoOffsetForPartitionError)
_REFUSED = (
    TopicAuthorizationFailedError,
    GroupAuthorizationFailedError,
    ClusterAuthorizationFailedError,
    CorruptRecordException,
    RecordTooLargeError,
)


class LogUnreachableError(LedgerError):
    """No broker answered in time, or none that could."""


class LogRefusedError(LedgerError):
    """The broker will not give what this process asks for; asking again is no use."""


class TruncatedLogError(LedgerError):
    """The log ends before, or begins behind, a position that a reader holds: records are gone."""


def trouble_of(failure: KafkaError, doing: str) -> LedgerError:
    """The error of ours for one of the client's. `doing` says what was tried, as in "Reading"."""
    if isinstance(failure, _OUTSIDE):
        return TruncatedLogError(
            f"{doing}: a position is outside the log ({failure!r}).",
            hint="Compare the topics with `actionledger topics check` before anything runs on.",
        )
    if isinstance(failure, _REFUSED):
        return LogRefusedError(
            f"{doing}: the broker refused ({failure!r}).",
            hint="Check this principal's rights and the topics: `actionledger topics check`.",
        )
    return LogUnreachableError(
        f"{doing}: no broker answered as it should ({failure!r}).",
        hint="Check that the broker of ACTIONLEDGER_KAFKA runs; this process can be started again.",
    )
