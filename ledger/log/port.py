"""The log as the rest of the product sees it: records, appends that land or do not, readers with
positions.

Two logs stand behind it, Kafka and the simulated one. An append either returns where every record
landed or raises `AppendUnknownError`: then the records may or may not be in the log, and the
appender is spent. Offsets of one append are consecutive unless somebody else wrote in between,
which is what the continuity check looks for.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from ledger.core.errors import LedgerError

Headers = tuple[tuple[str, bytes], ...]


class Record(NamedTuple):
    """One record as read. `topic` is the short name (`intents`), `timestamp` the broker's append
    time in milliseconds.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes
    headers: Headers


class Outgoing(NamedTuple):
    """One record to append."""

    key: bytes
    value: bytes
    headers: Headers = ()


def size_of(record: Outgoing) -> int:
    """The bytes of a record: of its key, its value and its headers. Of a name that is not UTF-8,
    which a reader has with half a surrogate pair for each byte that is none, too.
    """
    headers = sum(len(name.encode(errors="replace")) + len(value) for name, value in record.headers)
    return len(record.key) + len(record.value) + headers


def batch_bytes_of(record: Outgoing) -> int:
    """At most what a broker counts of a record that is sent by itself: with its batch around it,
    and a length before each part.
    """
    return size_of(record) + _AROUND_BYTES + len(record.headers) * _AROUND_HEADER_BYTES


_AROUND_BYTES: Final = 128
_AROUND_HEADER_BYTES: Final = 10


class Appended(NamedTuple):
    """Where a record landed and the broker's append time."""

    offset: int
    timestamp: int


class AppendUnknownError(LedgerError):
    """The records may or may not be in the log. The appender that raised it must be replaced."""


class Appender(Protocol):
    """Appends durably: what has returned survives the crash of any process."""

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """Append in order to one partition and wait until all are acknowledged by all replicas in
        sync.
        """
        ...

    async def close(self) -> None:
        """Wait for nothing and let go of the connection."""
        ...
