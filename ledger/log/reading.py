"""A log that can be read, as whoever folds it sees it: Kafka, the simulated log, records at hand.

A port is its guarantees: records of a partition come in offset order without a gap in what is kept,
nothing comes twice between two seeks, and a position outside the log is an error, never a jump.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from ledger.log.port import Record

Place = tuple[str, int]
"""A topic by its short name, and a partition."""


class LogReader(Protocol):
    """Reads assigned partitions from positions of its own."""

    async def read(self, *, timeout_ms: int, records_max: int = ...) -> list[Record]:
        """What there is, at once; an empty list when nothing came in time."""
        ...

    def pause(self, topic: str, partition: int) -> None:
        """Read nothing more from a partition."""
        ...

    async def end_offsets(self, places: Iterable[Place]) -> dict[Place, int]:
        """Where each partition ends at this moment: the offset of the next record."""
        ...

    async def close(self) -> None:
        """Stop reading, within a deadline."""
        ...


class ReadableLog(Protocol):
    """Gives readers."""

    async def reader(self, places: Mapping[Place, int]) -> LogReader:
        """A reader of the given partitions, each from its offset on."""
        ...
