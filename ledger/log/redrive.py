"""What it takes to put a quarantined record back where it came from, and when that cannot help.

Guarantees the same bytes, key and headers on the same topic and partition, with one header more
that names the place it was set aside at. Such a record counts once however often it is put back:
every input bears its own identity (an action key, an attempt, a source id, a webhook's event).
Pure; called by the quarantine desk.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger.log.attention_record import read_attention
from ledger.log.envelope import Unreadable, read_input
from ledger.log.port import Outgoing, Record, batch_bytes_of
from ledger.log.quarantine import DETAIL_CHARS_MAX, QuarantinedRecord
from ledger.log.topics import INBOXES, Topic, batch_bytes_max, partition_of
from ledger.log.webhook_record import read_webhook

SOURCE_HEADER: Final = "redriven-from"
"""Header of a record that was put back: the place it was first set aside at, `intents/3/17`."""

REDRIVABLE: Final[frozenset[str]] = frozenset(
    {*INBOXES, Topic.WEBHOOKS, Topic.ATTENTION} - {Topic.INTERNAL}
)


class Obstacle(StrEnum):
    """Why a redrive cannot help, the most fundamental first."""

    NOT_REDRIVABLE = "not_redrivable"
    DAMAGED = "damaged"
    TOO_LARGE = "too_large"
    STILL_UNREADABLE = "still_unreadable"
    MISROUTED = "misrouted"
    REDRIVEN_ALREADY = "redriven_already"


@dataclass(frozen=True, slots=True)
class Blocked:
    """An obstacle, and what to do instead."""

    obstacle: Obstacle
    why: str


@dataclass(frozen=True, slots=True)
class Redrive:
    """The record to append, and where."""

    topic: str
    partition: int
    record: Outgoing


_ELSEWHERE: Final = {
    Topic.INTERNAL: "The owner of the partition derives it again by itself; nothing is lost.",
    Topic.CONFIG: "Publish it again (`actionledger catalogue publish`, `hold`, `release`): put "
    "back, an old version would become the newest.",
}


def plan_redrive(entry: QuarantinedRecord, partitions: int) -> Redrive | Blocked:
    """What a redrive of a quarantined record would append; or why it cannot help."""
    if entry.topic not in REDRIVABLE:
        why = _ELSEWHERE.get(Topic(entry.topic)) if entry.topic in set(Topic) else None
        return Blocked(
            Obstacle.NOT_REDRIVABLE, why or "Nothing on this topic is taken from its inbox."
        )
    if entry.whole_bytes is not None:
        return Blocked(
            Obstacle.TOO_LARGE,
            f"Of its {entry.whole_bytes} bytes {entry.kept_bytes} are kept: it had no room here, "
            "or the name of a header is not UTF-8. A part of it is not what was sent: its sender "
            "has to send it anew.",
        )
    if entry.reason == Obstacle.TOO_LARGE:
        return Blocked(
            Obstacle.TOO_LARGE,
            "It, or the decision on it, is larger than a record may be, and would be set aside "
            "again. Its sender has to say the same in less.",
        )
    try:
        original = entry.original()
    except ValueError as damaged:
        return Blocked(Obstacle.DAMAGED, f"{str(damaged).capitalize()}.")
    stood = Record(
        entry.topic, entry.partition, 0, 0, original.key, original.value, original.headers
    )
    unreadable = _unreadable(stood)
    if unreadable is not None:
        return Blocked(
            Obstacle.STILL_UNREADABLE,
            f"This version cannot read these bytes either ({unreadable.reason}: "
            f"{unreadable.detail[:DETAIL_CHARS_MAX]}). Its sender has to send it anew.",
        )
    if entry.partition >= partitions:
        return Blocked(
            Obstacle.MISROUTED,
            f"Its topic has no partition {entry.partition}: who wrote this did not read it there.",
        )
    if entry.topic != Topic.WEBHOOKS and not _is_at_home(stood, partitions):
        return Blocked(
            Obstacle.MISROUTED,
            f"Its key does not belong to partition {entry.partition}, so that the ledger refuses "
            "it there. Its sender has to send it anew, by its key.",
        )
    source = next((value for name, value in original.headers if name == SOURCE_HEADER), None)
    headers = tuple(header for header in original.headers if header[0] != SOURCE_HEADER)
    marked = (*headers, (SOURCE_HEADER, source or entry.place.encode()))
    put_back = original._replace(headers=marked)
    if batch_bytes_of(put_back) > batch_bytes_max(Topic(entry.topic)):
        return Blocked(
            Obstacle.TOO_LARGE,
            "It came in a compressed batch: by itself it is larger than its topic takes. Its "
            "sender has to send it anew.",
        )
    return Redrive(entry.topic, entry.partition, put_back)


def _unreadable(record: Record) -> Unreadable | None:
    """Why the consumer of its topic cannot read a record, or None where it can."""
    match record.topic:
        case Topic.WEBHOOKS:
            read: object = read_webhook(record)
        case Topic.ATTENTION:
            read = read_attention(record)
        case _:
            read = read_input(record)
    return read if isinstance(read, Unreadable) else None


def _is_at_home(record: Record, partitions: int) -> bool:
    try:
        key = (record.key or b"").decode()
    except UnicodeDecodeError:
        return False
    return bool(key) and partition_of(key, partitions) == record.partition
