"""The ledger from its first record on, as auditors read it: once, in order, up to an end that is
fixed when reading begins.

Guarantees that whoever is fed gets every record of a partition below its end and none behind it.
Called by replays and by what tries another table on what was asked before.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from ledger.log.port import Record
from ledger.log.reading import ReadableLog
from ledger.log.topics import Topic

LEDGER: Final = Topic.LEDGER.value
_WAIT_MS: Final = 250
_RECORDS_MAX: Final = 2_000


async def feed_ledger(
    log: ReadableLog,
    partitions: Iterable[int],
    feed: Callable[[Record], None],
    *,
    until: Mapping[int, int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Feed the records of partitions up to an offset of each, or up to where they end now.

    `progress` hears of records read and of how many there are. Raises what `feed` and the log
    raise.
    """
    places = {(LEDGER, partition): 0 for partition in partitions}
    reader = await log.reader(places)
    try:
        found = await reader.end_offsets(places)
        ends = {
            partition: end if until is None else min(end, until.get(partition, 0))
            for (_, partition), end in found.items()
        }
        done, total = dict.fromkeys(ends, 0), sum(ends.values())
        for partition, end in ends.items():
            if end == 0:
                reader.pause(LEDGER, partition)
        while any(done[partition] < end for partition, end in ends.items()):
            records = await reader.read(timeout_ms=_WAIT_MS, records_max=_RECORDS_MAX)
            for record in records:
                if record.offset < ends[record.partition]:
                    feed(record)
                    done[record.partition] = record.offset + 1
                if record.offset + 1 >= ends[record.partition]:
                    reader.pause(LEDGER, record.partition)
            if progress is not None and records:
                progress(sum(done.values()), total)
    finally:
        await reader.close()
