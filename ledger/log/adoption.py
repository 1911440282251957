"""Whether the partitions have taken up what was published: read from their ledgers, which say so.

Guarantees to count an answer only where it is accepted, by the rule of every reader. Needs no
database and no owner's word; where it begins late it must know the epoch there. Called by commands
that publish configuration.
"""

import asyncio
from collections.abc import Callable, Mapping

from ledger.log.envelope import MARK_CONFIG, MARK_EPOCH, marks_of
from ledger.log.fold import PartitionFold
from ledger.log.kafka import KafkaLog
from ledger.log.port import Record
from ledger.log.topics import Topic

READ_MS = 200


class Adoption:
    """Every partition up to its answer to the config record at an offset. Without I/O."""

    def __init__(self, folds: Mapping[int, PartitionFold], offset: int) -> None:
        """`folds` says where reading begins in each partition."""
        self._folds = folds
        self._offset = offset

    def feed(self, record: Record) -> None:
        """Read the next ledger record of a partition."""
        fold = self._folds[record.partition]
        marks = marks_of(record)
        if marks is not None and MARK_EPOCH not in marks and MARK_CONFIG not in marks:
            fold.skip(record)
        else:
            fold.feed(record)

    @property
    def waiting(self) -> tuple[int, ...]:
        """Partitions that have not answered it yet."""
        return tuple(
            part
            for part, fold in sorted(self._folds.items())
            if fold.positions.get(Topic.CONFIG, 0) <= self._offset
        )


async def await_adopted(
    log: KafkaLog,
    folds: Mapping[int, PartitionFold],
    offset: int,
    *,
    timeout_ms: int,
    progress: Callable[[int], None] = lambda _: None,
) -> tuple[int, ...]:
    """Wait until every partition has answered the config record at an offset; those that have not
    within `timeout_ms`. `progress` hears how many have. Raises what a reader raises.
    """
    adoption = Adoption(folds, offset)
    reader = await log.reader(
        {(Topic.LEDGER.value, part): fold.next_offset for part, fold in folds.items()}
    )
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            while waiting := adoption.waiting:
                progress(len(folds) - len(waiting))
                for record in await reader.read(timeout_ms=READ_MS):
                    adoption.feed(record)
    except TimeoutError:
        return adoption.waiting
    finally:
        await reader.close()
    progress(len(folds))
    return ()
