"""Becoming the owner of partitions: fold to the end, open an epoch, see that the inboxes are those
that the ledger has answered.

Guarantees that nobody decides on a partition that lost records, or whose inboxes began anew. Called
by the processor.
"""

import logging
import secrets
from collections.abc import Callable, Collection

from ledger.core.errors import LedgerError
from ledger.core.records import EpochOpened
from ledger.log.crashpoints import crash_point, crash_while
from ledger.log.kafka import KafkaLog, KafkaReader
from ledger.log.port import Appender
from ledger.log.reading import read_up_to
from ledger.log.topics import INBOXES, Topic
from ledger.log.trouble import TruncatedLogError
from streams.clock import check_skew, mono_ms, wall_ms
from streams.cold_loading import ColdLoading
from streams.limits import COLD_STREAMS_AT_ONCE_MAX
from streams.owner import Owner

logger = logging.getLogger("actionledger")


class NameTakenError(LedgerError):
    """Two processes run as one member of the group."""


def nonce_of(member: str | None) -> str:
    """What an owner is called in the epochs that it opens: drawn anew for each, with the name of
    its process in the group, if that has one.
    """
    drawn = secrets.token_hex(8)
    return drawn if member is None else f"{member}/{drawn}"


def check_name(owner: Owner, opened: EpochOpened) -> None:
    """Of two processes with one name the older one goes: each would take the other's place in the
    group for ever. Raises NameTakenError.

    What was opened before this owner's own first epoch is history, perhaps of the process that it
    stands in for; who opens one later runs beside it.
    """
    member, _, _ = owner.nonce.rpartition("/")
    other, _, _ = opened.nonce.rpartition("/")
    if owner.has_opened and opened.nonce != owner.nonce and member and member == other:
        raise NameTakenError(
            f"Another process runs as the member {member} too: it took over ledger "
            f"{owner.partition} after this one had it.",
            hint="Give every process an ACTIONLEDGER_MEMBER of its own, or none, and start this "
            "one again.",
        )


async def catch_up(
    log: KafkaLog,
    ends_reader: KafkaReader,
    cold: ColdLoading,
    owners: Collection[Owner],
    beat: Callable[[], None],
) -> None:
    """Fold each ledger partition from where its owner stands to its end. Raises TruncatedLogError,
    NameTakenError, ColdStoreError, and what reading raises.
    """
    begins = {(Topic.LEDGER.value, one.partition): one.fold.next_offset for one in owners}
    ends = await ends_reader.end_offsets(begins)
    for place, end in ends.items():
        if end < begins[place]:
            raise TruncatedLogError(
                f"Ledger {place[1]} ends at {end}, before {begins[place]}.",
                hint="Records that were acknowledged are gone. Stop all writers.",
            )
    behind = {place: begin for place, begin in begins.items() if begin < ends[place]}
    if not behind:
        return
    by_partition = {one.partition: one for one in owners}
    reader = await log.reader(behind)
    try:
        async for records in read_up_to(reader, begins, ends):
            for begin in range(0, len(records), COLD_STREAMS_AT_ONCE_MAX):
                part = records[begin : begin + COLD_STREAMS_AT_ONCE_MAX]
                await cold.bring_all(by_partition, part)
                for record in part:
                    owner = by_partition[record.partition]
                    read = owner.feed(record)
                    if isinstance(read, EpochOpened):
                        check_name(owner, read)
                crash_point("ledger_half_read")
                beat()
    finally:
        await reader.close()


async def open_epoch(appender: Appender, owner: Owner, *, skew_ms: int) -> None:
    """Append the barrier of the next epoch. Raises LostContinuityError where somebody else wrote,
    and ClockSkewError.
    """
    sent_at = wall_ms()
    appending = appender.append(Topic.LEDGER, owner.partition, [owner.barrier()])
    (appended,) = await crash_while("barrier_sent", appending)
    owner.opened(appended, mono_ms())
    crash_point("barrier_acked")
    check_skew(appended.timestamp, sent_at=sent_at, skew_ms=skew_ms)
    logger.info("epoch_opened", extra={"partition": owner.partition, "epoch": owner.fold.epoch})


async def check_positions(ends_reader: KafkaReader, owners: Collection[Owner]) -> None:
    """An inbox that ends before the position that the ledger answered was made anew: refuse to run.
    Raises TruncatedLogError.
    """
    places = [(topic.value, owner.partition) for owner in owners for topic in INBOXES]
    ends = await ends_reader.end_offsets(places)
    for owner in owners:
        for topic in INBOXES:
            end = ends[topic.value, owner.partition]
            if end < owner.position(topic):
                raise TruncatedLogError(
                    f"{topic} {owner.partition} ends at {end}; the ledger has answered inputs "
                    f"up to {owner.position(topic)}.",
                    hint="The topic was deleted or made anew. Restore it; never let it start over.",
                )
