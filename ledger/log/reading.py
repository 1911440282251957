"""A log that can be read, as whoever folds it sees it: Kafka, the simulated log, records at hand.

A port is its guarantees: records of a partition come in offset order without a gap in what is kept,
nothing comes twice between two seeks, and a position outside the log is an error, never a jump.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Protocol

from ledger.log.port import Record
from ledger.log.trouble import LogUnreachableError

LOOK_MS = 500
STALLED_SECONDS_MAX = 60.0
"""Longer than a broker needs to come back; then whoever reads ends and is started again."""

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


async def read_up_to(
    reader: LogReader, begins: Mapping[Place, int], ends: Mapping[Place, int]
) -> AsyncIterator[list[Record]]:
    """Records in batches until every place was read from its begin to its end, and perhaps further.

    Raises LogUnreachableError where the log promises records and gives none for a minute, and what
    the reader raises.
    """
    left = {place: end for place, end in ends.items() if begins[place] < end}
    time = asyncio.get_running_loop().time
    while left:
        since = time()
        while not (records := await reader.read(timeout_ms=LOOK_MS)):
            if time() - since > STALLED_SECONDS_MAX:
                raise LogUnreachableError(
                    f"No records of {sorted(left)} came, though there are some.",
                    hint="Check the broker: partitions may be without a leader.",
                )
        for record in records:
            place = (record.topic, record.partition)
            if place in left and record.offset + 1 >= left[place]:
                del left[place]
        yield records
