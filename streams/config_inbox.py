"""The config topic as the owners of partitions read it: whole, in order, kept for whoever adopts it
later.

Guarantees that an owner that begins has every version that was published by then. Decides nothing:
each owner adopts each version into its own partition. Called by the processor.
"""

from collections.abc import Iterable

from ledger.core.inputs import Publish
from ledger.core.invariants import invariant
from ledger.log.envelope import read_input
from ledger.log.kafka import KafkaReader
from ledger.log.port import Record
from ledger.log.reading import read_up_to
from ledger.log.topics import Topic
from ledger.log.trouble import TruncatedLogError
from streams.deciding import is_adoptable_catalogue

PLACE = (Topic.CONFIG.value, 0)


class ConfigInbox:
    """Every configuration record so far."""

    def __init__(self, reader: KafkaReader, ends: KafkaReader) -> None:
        """`reader` follows the topic from its beginning; `ends` tells where it ends at once."""
        self._reader = reader
        self._ends = ends
        self._records: list[Record] = []

    def since(self, offset: int) -> list[Record]:
        """The versions from an offset on."""
        return self._records[offset:]

    async def read(self) -> None:
        """Take in what has come meanwhile, without waiting. Raises what the reader raises."""
        self._take(await self._reader.read(timeout_ms=0))

    async def read_to_end(self, adopted_to: int) -> None:
        """Read what is there now. `adopted_to` is the offset behind the last version that an owner
        has answered: a topic that ends before it was made anew. Raises TruncatedLogError and what
        the reader raises.
        """
        end = (await self._ends.end_offsets([PLACE]))[PLACE]
        if end < adopted_to:
            raise TruncatedLogError(
                f"config ends at {end}; the ledger has answered versions up to {adopted_to}.",
                hint="The topic was deleted or made anew. Restore it; never let it start over.",
            )
        begins = {PLACE: len(self._records)}
        async for records in read_up_to(self._reader, begins, {PLACE: end}):
            self._take(records)

    def has_catalogue(self) -> bool:
        """Whether a catalogue is there that owners adopt; before that they can decide nothing."""
        given = (read_input(record) for record in self._records)
        return any(isinstance(one, Publish) and is_adoptable_catalogue(one) for one in given)

    def _take(self, records: Iterable[Record]) -> None:
        for record in records:
            invariant(record.offset == len(self._records), "configuration has no gap")
            self._records.append(record)
