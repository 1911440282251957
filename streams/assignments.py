"""The executor's bookkeeping, without I/O: its offers, the starts that spend them, and until when
it may act on each.

It acts on accepted starts that name its incarnation, each once. No two clocks need to agree: a
start names the offer it spends, and the executor counts every limit from the moment it sent that
offer, on its own clock. The broker took the offer later, so the executor always stops before the
ledger counts its lease as over. It must never decide what to do: request and key come from the log.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ledger.core.facts import AnyFact, AttemptStarted, IntentRecorded
from ledger.core.inputs import Decline, Offered, Report, ReportedOutcome
from ledger.core.limits import (
    OFFERS_UNSPENT_MAX,
    RECORDS_KEPT_BYTES_MAX,
    RECORDS_KEPT_MAX,
    STARTS_REMEMBERED_MAX,
)
from ledger.core.preview import Change
from ledger.core.records import Decision
from ledger.core.request import RecordedRequest, request_hash
from ledger.core.unchecked import writer_of
from ledger.log.envelope import MARK_EPOCH, MARK_START, marks_of, read_ledger
from ledger.log.fold import PartitionFold
from ledger.log.port import Record

LAPSED_MONO_MS = -(2**62)
"""Stands for an offer too old to be remembered: counted from here every lease is over."""

_report_of = writer_of(Report)


@dataclass(frozen=True, slots=True)
class _Sent:
    """When an offer was sent, on the holder's clock, and for how long; no broker took it before
    `appended_from`.
    """

    mono_ms: int = LAPSED_MONO_MS
    appended_from: int = 0
    valid_ms: int = 0


@dataclass(frozen=True, slots=True)
class Assignment:
    """A start that names this incarnation, with what is known of the offer that it spends."""

    start: AttemptStarted
    stream: str
    partition: int
    intent: IntentRecorded | None
    """None where it has to be read at `start.intent_offset`."""
    offered_mono_ms: int
    """When the offer was sent, on the executor's own monotonic clock."""
    offered_from: int = 0
    """Log time before which no broker can have taken the offer."""
    offer_valid_ms: int = 0
    """How long the offer was good for from when a broker took it."""

    def until(self, log_time: int) -> int:
        """A moment of log time as the latest it can be on the holder's clock."""
        return self.offered_mono_ms + (log_time - self.start.offered_at)

    def report(self, outcome: ReportedOutcome) -> Report:
        """What became of it, for the log."""
        start = self.start
        return _report_of(
            key=start.action,
            attempt=start.attempt,
            fencing_token=start.fencing_token,
            holder=start.holder,
            outcome=outcome,
        )

    def decline(self, code: str, changes: tuple[Change, ...] | None = None) -> Decline:
        """That nothing was sent and nothing will be; `changes` are the volatile facts that moved
        since people agreed.
        """
        start = self.start
        return Decline(
            key=start.action,
            attempt=start.attempt,
            fencing_token=start.fencing_token,
            holder=start.holder,
            code=code,
            changes=changes,
        )


def decided_at(start: AttemptStarted) -> int:
    """When a start was decided, in log time, computed from the deadline that it gives its call."""
    return start.deadline_at - start.connect_ms - start.response_ms


def objection(
    assignment: Assignment, request: RecordedRequest, mono_ms: int, *, margin_ms: int
) -> str | None:
    """Why the holder must not send now, or None. Asked last of all, with the connection open and no
    byte sent.
    """
    if request_hash(request) != assignment.start.request_hash:
        return "request_hash_differs"
    return untimely(assignment, mono_ms, margin_ms=margin_ms)


def untimely(assignment: Assignment, mono_ms: int, *, margin_ms: int) -> str | None:
    """Why it is too late to send, or None."""
    start = assignment.start
    if start.offered_at < assignment.offered_from:
        # Every limit below is counted from there: an earlier moment would stretch them all.
        return "offer_time_differs"
    if mono_ms >= assignment.until(start.lease_until) - margin_ms:
        return "lease_over"
    if mono_ms >= assignment.until(start.deadline_at):
        return "deadline_over"
    if not 0 <= decided_at(start) - start.offered_at <= assignment.offer_valid_ms:
        # They begin when it was decided: a moment that the offer was not good for stretches them.
        return "offer_over"
    if start.key_expires_at is not None and mono_ms >= assignment.until(start.key_expires_at):
        return "key_window_closed"
    if start.approval is not None and mono_ms >= assignment.until(start.approval.expires_at):
        return "approval_expired"
    return None


def intent_in(value: bytes, action: str) -> IntentRecorded | None:
    """The intent of an action in the bytes of the ledger record that recorded it; None where they
    hold none.
    """
    try:
        read = read_ledger(value)
    except ValueError:
        return None
    return intent_among(read.facts, action) if isinstance(read, Decision) else None


def intent_among(facts: Iterable[AnyFact], action: str) -> IntentRecorded | None:
    """The intent that was recorded for an action among the facts of one decision."""
    for fact in facts:
        if isinstance(fact, IntentRecorded) and fact.action == action:
            return fact
    return None


@dataclass(slots=True)
class _Place:
    """What this incarnation knows of one partition."""

    fold: PartitionFold
    sent: OrderedDict[int, _Sent] = field(default_factory=OrderedDict)
    sequence: int = 0
    outstanding: int = 0
    slots_offered: int = 0
    starts_since_offer: int = 0
    is_current: bool = False


@dataclass(slots=True)
class _Kept:
    """The bytes of the newest ledger records: a start that waited for capacity points to an intent
    that was read a while ago.
    """

    values: OrderedDict[tuple[int, int], bytes] = field(default_factory=OrderedDict)
    size_bytes: int = 0

    def put(self, record: Record) -> None:
        """Keep one more, and let go of the oldest."""
        self.values[record.partition, record.offset] = record.value
        self.size_bytes += len(record.value)
        while self.size_bytes > RECORDS_KEPT_BYTES_MAX or len(self.values) > RECORDS_KEPT_MAX:
            _, value = self.values.popitem(last=False)
            self.size_bytes -= len(value)


class Assignments:
    """The offers and starts of one incarnation, which has a random name and never reads a record
    twice: whoever seeks, resets or forks is another one.
    """

    def __init__(
        self, incarnation: str, operations: tuple[str, ...], slots_by_partition: dict[int, int]
    ) -> None:
        self.incarnation = incarnation
        self.operations = operations
        self._slots = slots_by_partition
        self._places = {part: _Place(PartitionFold(part)) for part in slots_by_partition}
        self._acted: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._kept = _Kept()
        self._slots_each: int | None = None
        self._mark = MARK_START + incarnation.encode()

    def begin(self, partition: int, *, next_offset: int, epoch: int) -> None:
        """Read a partition from a point at which its epoch is known."""
        fold = self._places[partition].fold
        fold.next_offset, fold.epoch = next_offset, epoch

    def caught_up(self, partition: int) -> None:
        """Everything that lay in the partition when this incarnation began has been read: now it
        may act.
        """
        self._places[partition].is_current = True

    def next_offset(self, partition: int) -> int:
        """The next ledger offset to read."""
        return self._places[partition].fold.next_offset

    def feed(self, record: Record) -> list[Assignment]:
        """Read one ledger record; the starts in it that are to be acted on."""
        place = self._places[record.partition]
        self._kept.put(record)
        marks = marks_of(record)
        if marks is not None and MARK_EPOCH not in marks and self._mark not in marks:
            place.fold.skip(record)
            return []
        read = place.fold.feed(record)
        if not isinstance(read, Decision):
            return []
        assigned = [
            self._assigned(place, read, fact)
            for fact in read.facts
            if isinstance(fact, AttemptStarted) and fact.holder == self.incarnation
        ]
        return [one for one in assigned if one is not None]

    def _assigned(self, place: _Place, read: Decision, start: AttemptStarted) -> Assignment | None:
        """The assignment of a start, or None: before everything old is read, for a start that was
        assigned before, and for an offer that was never made here. Of the last somebody else bears
        this name and may act on it, so that nothing can be said of it here.
        """
        identity = (start.action, start.attempt)
        is_mine = 0 < start.offer_sequence <= place.sequence
        if not place.is_current or not is_mine or identity in self._acted:
            return None
        place.outstanding += 1
        place.starts_since_offer += 1
        self._acted[identity] = None
        while len(self._acted) > STARTS_REMEMBERED_MAX * 16:
            self._acted.popitem(last=False)
        # Of an offer too old to be remembered the lease is over: it is declined like any other.
        sent = place.sent.get(start.offer_sequence, _Sent())
        intent = self._intent_of(place, read, start)
        return Assignment(
            start,
            read.stream,
            place.fold.partition,
            intent,
            sent.mono_ms,
            sent.appended_from,
            sent.valid_ms,
        )

    def _intent_of(
        self, place: _Place, read: Decision, start: AttemptStarted
    ) -> IntentRecorded | None:
        if start.intent_offset == read.at:
            return intent_among(read.facts, start.action)
        value = self._kept.values.get((place.fold.partition, start.intent_offset))
        return None if value is None else intent_in(value, start.action)

    def ended(self, assignment: Assignment) -> None:
        """The report or decline of an assignment is durable: its slot is free again."""
        self._places[assignment.partition].outstanding -= 1

    def wants_to_offer(self, partition: int) -> bool:
        """Whether the ledger may start less than half of what is free here, or more than twice as
        much: time for a new offer before the old one lapses.
        """
        place = self._places[partition]
        known = max(0, place.slots_offered - place.starts_since_offer)
        free = self._free(partition)
        return place.is_current and (known * 2 <= free > 0 or known > 2 * free)

    def withdraw(self) -> None:
        """Nothing is free from now on: the next offer of a partition takes back the one before."""
        self._slots = dict.fromkeys(self._slots, 0)

    def limit(self, slots_each: int | None) -> None:
        """Offer no more than so many slots for each partition, until told otherwise."""
        self._slots_each = slots_each

    def _free(self, partition: int) -> int:
        free = max(0, self._slots[partition] - self._places[partition].outstanding)
        return free if self._slots_each is None else min(free, self._slots_each)

    def offer(
        self, partition: int, mono_ms: int, *, valid_ms: int, appended_from: int = 0
    ) -> Offered | None:
        """The next offer for a partition, or None while it must not act there. Call it right before
        sending. No broker can take it before `appended_from`, in log time.
        """
        place = self._places[partition]
        if not place.is_current:
            return None
        place.sequence += 1
        place.sent[place.sequence] = _Sent(mono_ms, appended_from, valid_ms)
        while len(place.sent) > OFFERS_UNSPENT_MAX:
            place.sent.popitem(last=False)
        place.slots_offered, place.starts_since_offer = self._free(partition), 0
        return Offered(
            incarnation=self.incarnation,
            sequence=place.sequence,
            operations=self.operations,
            slots=place.slots_offered,
            seen_offset=place.fold.next_offset - 1,
            valid_ms=valid_ms,
        )
