"""What a projector holds between two interruptions: its writer, its reader, and the streams that
are folded on top of what is committed.

Guarantees that a stream which stands in a batch that is not written yet is never let go of. Called
by the projector.
"""

from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from ledger.log.reading import LogReader
from ledger.log.sizes import Sizes
from projections.fold import Batch, Held
from projections.limits import STREAMS_HELD_BYTES_MAX, STREAMS_HELD_MAX
from projections.rows import STREAMS
from projections.statements import Connection
from projections.writer import BatchWriter

_KEY: Final = STREAMS.columns.index("stream_key")
_NEXT_OFFSET: Final = STREAMS.columns.index("next_offset")
_STATE: Final = STREAMS.columns.index("state")


@dataclass(slots=True)
class Session:
    """One writer, one reader, and what is folded in memory on top of what is committed.

    `settled` are streams that nothing is expected of, with where they stood when they were written;
    `unwritten` those of batches that are not written, with where they stand in them. `unread` are
    records for which the batch in the making had no room. `damaged` are streams whose rows lie,
    with the reason.
    """

    writer: BatchWriter
    loader: Connection
    reader: LogReader
    folds: dict[int, PartitionFold]
    held: dict[str, Held] = field(default_factory=dict)
    paused: set[int] = field(default_factory=set)
    settled: list[tuple[str, int]] = field(default_factory=list)
    unwritten: dict[str, int] = field(default_factory=dict)
    sizes: Sizes = field(default_factory=Sizes)
    unread: list[Record] = field(default_factory=list)
    damaged: dict[str, str] = field(default_factory=dict)

    def hold(self, key: str, held: Held) -> None:
        """Keep a stream as the one used last."""
        # Out and in again: the order of the dictionary is the order of last use.
        self.held.pop(key, None)
        self.held[key] = held

    def written(self, batch: Batch) -> None:
        """A batch was committed. What streams take counts from here on: before it was bounded with
        the batch, and those that are settled are let go next.
        """
        self.settled += batch.settled
        leaving = {key for key, _ in batch.settled}
        for row in batch.rows.get(STREAMS.name, ()):
            key, next_offset = row[_KEY], row[_NEXT_OFFSET]
            if self.unwritten.get(key) == next_offset:
                del self.unwritten[key]
            if key in self.held and key not in leaving:
                self.sizes.drop(key)
                self.sizes.add(key, len(row[_STATE]))

    def _drop(self, key: str) -> None:
        del self.held[key]
        self.sizes.drop(key)

    def let_go(self) -> None:
        """Forget settled streams, and of others the oldest beyond what memory is meant to hold.

        Never while a batch is being folded, nor one that stands in a batch not written yet: such a
        stream is elsewhere than it was written, or among the newest.
        """
        for key, next_offset in self.settled:
            held = self.held.get(key)
            if held is not None and held.next_offset == next_offset:
                self._drop(key)
        self.settled.clear()
        for key in list(islice(self.held, max(0, len(self.held) - STREAMS_HELD_MAX))):
            self._drop(key)
        if self.sizes.total_bytes > STREAMS_HELD_BYTES_MAX:
            for key in [key for key in self.held if key not in self.unwritten]:
                if self.sizes.total_bytes <= STREAMS_HELD_BYTES_MAX:
                    break
                self._drop(key)
