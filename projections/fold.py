"""From ledger records to row changes, without I/O: the one step of every projector.

`read_batch` says what counts and which streams it touches, the shell brings those it does not hold,
`Folding` makes the rows. The same code runs live, in a rebuild and in the simulation, and what
comes of a log does not depend on where batches begin. A record that counts and cannot be folded
stops its partition at exactly that offset; what stands before it and other partitions go on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

from ledger.core.evolve import Place, evolve, evolve_all
from ledger.core.facts import AnyFact, PreviewRecorded, ReviewOpened, ReviewResolved
from ledger.core.gates import AnyGateFact, evolve_gate
from ledger.core.ids import is_gate_key
from ledger.core.invariants import BrokenInvariantError, invariant
from ledger.core.records import Decision
from ledger.core.state import FINAL, Action, Attempt, Stream
from ledger.log.envelope import fact_texts, holds_nul
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from projections.errors import DamagedRowsError, PartitionStoppedError, PartitionWaitsError
from projections.gate_rows import gate_event_rows, gate_row, reservation_row
from projections.rows import (
    ACTIONS,
    APPROVAL_DECISIONS,
    APPROVALS,
    ATTEMPTS,
    DECISIONS,
    EVENTS,
    GATE_EVENTS,
    GATE_RESERVATIONS,
    GATES,
    PREVIEWS,
    REFERENCES,
    REVIEW_CASES,
    REVIEW_RESOLUTIONS,
    STREAMS,
    Row,
    action_row,
    approval_decision_row,
    approval_row,
    attempt_row,
    decision_row,
    event_rows,
    preview_row,
    reference_row,
    resolution_row,
    review_row,
    stream_row,
)

KEY_PARTS = 4
"""Operation, version, tenant, action id."""
_NAMING = frozenset({"attempt.succeeded", "evidence.recorded", "action.completed"})
"""Facts that may bring a provider's name for the action to light."""
_ASKING = frozenset(
    {
        "preview.recorded",
        "approval.requested",
        "approval.escalated",
        "approval.granted",
        "approval.withdrawn",
        "approval.ended",
        "action.denied",
    }
)
"""Facts about what people are asked and say."""
_IN_BETWEEN = _ASKING | {"review.opened"}
"""Facts whose rows tell how their action stood right behind them."""


class Held(NamedTuple):
    """A folded stream; decisions below `next_offset` are in it."""

    stream: Stream
    next_offset: int


@dataclass(frozen=True, slots=True)
class PartitionRead:
    """Records of one partition: where they begin and end, and the decisions that count."""

    start: PartitionFold
    fold: PartitionFold
    records: Sequence[Record]
    decisions: Sequence[tuple[Decision, bytes]]
    """Each with the bytes that it was read from."""
    stopped: PartitionStoppedError | None = None


@dataclass(slots=True)
class Batch:
    """Everything that one transaction writes: from where to where, and the rows by table."""

    starts: dict[int, PartitionFold] = field(default_factory=dict)
    folds: dict[int, PartitionFold] = field(default_factory=dict)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    stopped: list[PartitionStoppedError] = field(default_factory=list)
    settled: list[tuple[str, int]] = field(default_factory=list)
    """Streams of final actions that hold nothing, and where they stand: likely never to be touched
    again.
    """
    record_count: int = 0
    size_bytes: int = 0

    @property
    def event_count(self) -> int:
        """Facts in this batch."""
        return sum(len(self.rows.get(table.name, ())) for table in (EVENTS, GATE_EVENTS))


def read_batch(
    folds: Mapping[int, PartitionFold], records: Iterable[Record]
) -> list[PartitionRead]:
    """Accept or void records of any partitions, each in offset order; `folds` stay as they are."""
    by_partition: dict[int, list[Record]] = {}
    for record in records:
        by_partition.setdefault(record.partition, []).append(record)
    return [_read(folds[partition], by_partition[partition]) for partition in sorted(by_partition)]


def streams_touched(reads: Iterable[PartitionRead]) -> set[str]:
    """Keys of the streams that folding will need."""
    return {decision.stream for read in reads for decision, _ in read.decisions if _says(decision)}


def _says(decision: Decision) -> bool:
    """Whether it changes its stream."""
    return bool(decision.facts or decision.gate)


def _read(start: PartitionFold, records: Sequence[Record]) -> PartitionRead:
    fold = replace(start, positions=dict(start.positions))
    decisions: list[tuple[Decision, bytes]] = []
    for place, record in enumerate(records):
        value = record.value
        try:
            read = fold.feed(record)
            invariant(read is None or not holds_nul(value), "a text holds U+0000")
        except BrokenInvariantError as broken:
            # `fold` may stand between two records now: read again what came before.
            before = _read(start, records[:place])
            stopped = PartitionStoppedError(start.partition, record.offset, str(broken))
            return replace(before, stopped=stopped)
        if isinstance(read, Decision):
            decisions.append((read, value))
    return PartitionRead(start, fold, records, decisions)


@dataclass(slots=True)
class _Touched:
    """A stream in a batch: as it was, as it is, and by action the newest decision about it; of a
    gate the newest that changed it.
    """

    partition: int
    before: Stream
    after: Stream
    next_offset: int
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    newest: Decision | None = None


class Folding:
    """A batch in the making: reads are added as they come, rows of states are made once, at last.

    `streams` is what is known of streams, looked at as reads are added; it is never changed here.
    Nor are those `damaged` whose rows lie, each with the reason: who changes one of them waits.
    """

    def __init__(
        self, streams: Mapping[str, Held], damaged: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self._streams = streams
        self._damaged = damaged
        self._batch = Batch()
        self._touched: dict[str, _Touched] = {}
        self._references: dict[Row, Row] = {}
        self._approvals: dict[Row, Row] = {}
        self._events: list[Row] = self._rows(EVENTS.name)
        self._decisions: list[Row] = self._rows(DECISIONS.name)
        self._reviews: list[Row] = self._rows(REVIEW_CASES.name)
        self._resolutions: list[Row] = self._rows(REVIEW_RESOLUTIONS.name)
        self._previews: list[Row] = self._rows(PREVIEWS.name)
        self._signed: list[Row] = self._rows(APPROVAL_DECISIONS.name)
        self._reservations: dict[Row, Row] = {}

    @property
    def record_count(self) -> int:
        """Records added so far, those that count for nothing included."""
        return self._batch.record_count

    @property
    def size_bytes(self) -> int:
        """What the values of those records take together."""
        return self._batch.size_bytes

    @property
    def has_work(self) -> bool:
        """Whether there is anything to write, or to say."""
        return bool(self._batch.record_count or self._batch.stopped)

    @property
    def stopped_partitions(self) -> set[int]:
        """Partitions that stopped in this batch."""
        return {stopped.partition for stopped in self._batch.stopped}

    def fold_of(self, partition: int) -> PartitionFold | None:
        """Where a partition stands behind what was added, or None if nothing moved it."""
        return self._batch.folds.get(partition)

    def add(self, read: PartitionRead) -> dict[str, Held]:
        """Fold one partition's decisions; the streams that they changed, as they are now."""
        partition = read.start.partition
        stopped = read.stopped
        changed: dict[str, Held] = {}
        for decision, value in read.decisions:
            try:
                if _says(decision):
                    self._refuse_damaged(decision.stream)
                    self._fold(partition, decision, value, changed)
                else:
                    self._decisions.append(decision_row(decision, partition))
            except Exception as fault:  # noqa: BLE001 - the record counts: stop here
                stopped = _stopped(partition, decision.at, fault)
                before = [record for record in read.records if record.offset < decision.at]
                read = _read(read.start, before)
                break
        if stopped is not None:
            self._batch.stopped.append(stopped)
        self._batch.record_count += len(read.records)
        self._batch.size_bytes += sum([len(record.value) for record in read.records])
        if read.fold.next_offset > read.start.next_offset:
            self._batch.starts.setdefault(partition, read.start)
            self._batch.folds[partition] = read.fold
        return changed

    def seal(self) -> Batch:
        """The batch; nothing is added afterwards."""
        streams, actions = self._rows(STREAMS.name), self._rows(ACTIONS.name)
        attempts, gates = self._rows(ATTEMPTS.name), self._rows(GATES.name)
        for touched in self._touched.values():
            after, partition = touched.after, touched.partition
            tenant = after.key.partition("/")[0]
            streams.append(stream_row(after, partition, touched.next_offset))
            if after.gate is not None and touched.newest is not None:
                gates.append(gate_row(after.key, after.gate, partition, touched.newest))
            elif all(_is_settled(action) for action in after.actions):
                self._batch.settled.append((after.key, touched.next_offset))
            for action, before in _changed(touched.before, after):
                if action.key not in touched.places:
                    # Another action's fact tells that it is revised; no column of its own does.
                    continue
                offset, epoch = touched.places[action.key]
                actions.append(action_row(action, after.key, partition, offset, epoch))
                for attempt in _changed_tries(before, action):
                    attempts.append(attempt_row(action, attempt, tenant))
        self._rows(REFERENCES.name).extend(self._references.values())
        self._rows(APPROVALS.name).extend(self._approvals.values())
        self._rows(GATE_RESERVATIONS.name).extend(self._reservations.values())
        return self._batch

    def _rows(self, table: str) -> list[Row]:
        return self._batch.rows.setdefault(table, [])

    def _refuse_damaged(self, key: str) -> None:
        if key in self._damaged:
            raise DamagedRowsError(key, self._damaged[key])

    def _fold(
        self, partition: int, decision: Decision, value: bytes, changed: dict[str, Held]
    ) -> None:
        """Fold a decision whole, or raise and leave everything as it was."""
        key = decision.stream
        touched = self._touched.get(key)
        if touched is None:
            before, next_offset = self._streams.get(key) or Held(Stream(key), 0)
            touched = _Touched(partition, before, before, next_offset)
        # A row that was loaded may be ahead of its partition: what it has is not folded twice.
        if decision.at < touched.next_offset:
            return
        stream, facts = touched.after, decision.facts
        place = Place(decision.at, decision.decided_at)
        tenant = key.partition("/")[0]
        reviews: list[Row] = []
        resolutions: list[Row] = []
        references: list[Row] = []
        asking: list[tuple[AnyFact, Action]] = []
        # Where no row tells of a state in between, none is made.
        at_once = _IN_BETWEEN.isdisjoint([fact.type for fact in facts])
        if at_once:
            stream = evolve_all(stream, facts, place)
        for fact in facts:
            if not at_once:
                stream = evolve(stream, fact, place)
            kind = fact.type
            if kind in _NAMING:
                row = reference_row(decision, fact, stream, partition)
                if row is not None:
                    references.append(row)
            elif kind == "intent.recorded":
                _check_identity(stream, fact)
            elif kind in _ASKING:
                asking.append((fact, _of(stream, fact)))
            elif isinstance(fact, ReviewOpened):
                reviews.append(review_row(decision, fact, _of(stream, fact), partition))
            elif isinstance(fact, ReviewResolved):
                resolutions.append(resolution_row(decision, fact, partition))
        held: list[Row] = []
        if decision.gate:
            stream, held = _fold_gate(stream, decision, decision.gate, partition)
        if facts:
            self._events += event_rows(decision, fact_texts(value, decision), tenant, partition)
        self._reviews += reviews
        self._resolutions += resolutions
        for fact, after in asking:
            self._ask(decision, fact, after, partition)
        for row in references:
            # The first time counts, in this batch as in the table.
            self._references.setdefault(row[: len(REFERENCES.key)], row)
        if decision.gate:
            self._rows(GATE_EVENTS.name).extend(gate_event_rows(decision, partition))
            self._reservations |= {row[: len(GATE_RESERVATIONS.key)]: row for row in held}
            touched.newest = decision
        self._touched[key] = touched
        touched.after, touched.next_offset = stream, decision.at + 1
        stand = (decision.at, decision.epoch)
        for fact in facts:
            touched.places[fact.action] = stand
        changed[key] = Held(stream, touched.next_offset)

    def _ask(self, decision: Decision, fact: AnyFact, after: Action, partition: int) -> None:
        """The rows of a fact about what people are asked and say."""
        if isinstance(fact, PreviewRecorded):
            self._previews.append(preview_row(decision, fact, partition))
            return
        row = approval_row(decision, fact, after, partition)
        if row is not None:
            self._approvals[row[: len(APPROVALS.key)]] = row
        said = approval_decision_row(decision, fact, after, partition)
        if said is not None:
            self._signed.append(said)


def _stopped(partition: int, offset: int, fault: Exception) -> PartitionStoppedError:
    if isinstance(fault, DamagedRowsError):
        return PartitionWaitsError(partition, offset, fault)
    return PartitionStoppedError(partition, offset, f"{type(fault).__name__}: {fault}")


def fold_batch(reads: Iterable[PartitionRead], streams: Mapping[str, Held]) -> Batch:
    """The rows that these reads lead to, on top of the streams that are known."""
    folding = Folding(streams)
    for read in reads:
        folding.add(read)
    return folding.seal()


def _fold_gate(
    stream: Stream, decision: Decision, said: Sequence[AnyGateFact], partition: int
) -> tuple[Stream, list[Row]]:
    """The stream after what a decision says about a gate, and the reservations that it changed."""
    invariant(is_gate_key(stream.key), "a fact about a gate stands in a foreign stream")
    rows: list[Row] = []
    gate = stream.gate
    for fact in said:
        before, gate = gate, evolve_gate(gate, fact, decision.decided_at)
        row = reservation_row(decision, fact, before, gate, partition)
        if row is not None:
            rows.append(row)
    return replace(stream, gate=gate), rows


def _is_settled(action: Action) -> bool:
    """Whether nothing about it is likely to follow: it is final, and no gate owes it an answer."""
    return action.status in FINAL and not any(one.waits_for_message for one in action.claims)


def _of(stream: Stream, fact: AnyFact) -> Action:
    action = stream.action(fact.action)
    if action is None:
        raise BrokenInvariantError("a fact names an action that was never recorded")
    return action


def _check_identity(stream: Stream, fact: AnyFact) -> None:
    """The stream is the action's own, as every reader by key takes for granted."""
    parts = fact.action.split(":")
    invariant(len(parts) == KEY_PARTS, "an action's key lacks a part")
    event = parts[3].partition("#")[0].partition("~")[0]
    invariant(f"{parts[2]}/{event}" == stream.key, "an action stands in a foreign stream")


def _changed(before: Stream, after: Stream) -> Iterable[tuple[Action, Action | None]]:
    """Actions that are not the very objects they were, each with what it was."""
    known = len(before.actions)
    for place, action in enumerate(after.actions):
        was = before.actions[place] if place < known else None
        if action is not was:
            yield action, was


def _changed_tries(before: Action | None, after: Action) -> Iterable[Attempt]:
    known = () if before is None else before.attempts
    for place, attempt in enumerate(after.attempts):
        if place >= len(known) or attempt is not known[place]:
            yield attempt
