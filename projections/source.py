"""The ledger topic as a projector reads it: from where its tables stand, and of the right log only.

Guarantees that nothing is read into tables that were filled from another log, or from one that has
lost its end since: then it refuses to run. Called by the projector at the start of each session.
"""

import asyncio
from collections.abc import Mapping

from ledger.core.records import Genesis
from ledger.log.envelope import read_ledger
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from ledger.log.reading import LogReader, ReadableLog
from ledger.log.topics import Topic
from projections.errors import ForeignLogError
from projections.limits import GENESIS_WAIT_MS_MAX, READ_WAIT_MS

LEDGER = Topic.LEDGER.value


async def open_ledger(log: ReadableLog, folds: Mapping[int, PartitionFold]) -> LogReader:
    """A reader of the ledger from where each partition stands. Raises ForeignLogError."""
    reader = await log.reader({(LEDGER, part): fold.next_offset for part, fold in folds.items()})
    try:
        ends = await ledger_ends(reader, folds)
        for partition, fold in folds.items():
            if fold.next_offset > ends[partition]:
                raise ForeignLogError(
                    f"Ledger partition {partition} ends at {ends[partition]}; the tables know it "
                    f"up to {fold.next_offset}.",
                    hint="Records that counted are gone, or this is another log. Restore the log; "
                    "never project onto these tables.",
                    partition=partition,
                )
        known = {part: fold for part, fold in folds.items() if fold.generation is not None}
        await _check_genesis(log, known)
    except BaseException:
        await reader.close()
        raise
    return reader


async def ledger_ends(reader: LogReader, partitions: Mapping[int, object]) -> dict[int, int]:
    """Where each partition of the ledger ends now."""
    ends = await reader.end_offsets([(LEDGER, partition) for partition in partitions])
    return {partition: end for (_, partition), end in ends.items()}


async def _check_genesis(log: ReadableLog, folds: Mapping[int, PartitionFold]) -> None:
    """Compare the first record of each partition with what the tables know of it."""
    if not folds:
        return
    reader = await log.reader(dict.fromkeys(((LEDGER, part) for part in folds), 0))
    waiting = set(folds)
    try:
        async with asyncio.timeout(GENESIS_WAIT_MS_MAX / 1_000):
            while waiting:
                for record in await reader.read(timeout_ms=READ_WAIT_MS, records_max=1):
                    if record.partition in waiting:
                        waiting.remove(record.partition)
                        reader.pause(LEDGER, record.partition)
                        _compare(record, folds[record.partition])
    except TimeoutError:
        raise ForeignLogError(
            f"The first records of ledger partitions {sorted(waiting)} cannot be read.",
            hint="They must be kept for ever; check the topics before anything is projected.",
            partition=min(waiting),
        ) from None
    finally:
        await reader.close()


def _compare(record: Record, fold: PartitionFold) -> None:
    try:
        genesis = read_ledger(record.value)
    except ValueError:
        genesis = None
    expected = (0, fold.generation, fold.partitions)
    if isinstance(genesis, Genesis):
        found = (record.offset, genesis.generation, genesis.partitions)
        if found == expected:
            return
    raise ForeignLogError(
        f"Ledger partition {fold.partition} does not begin with the genesis of generation "
        f"{fold.generation}.",
        hint="The topics were made anew or belong to another installation. Point to the right "
        "ones, or project into an empty schema.",
        partition=fold.partition,
    )
