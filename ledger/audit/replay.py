"""Fold the ledger again from its first record to any offset or time, and hold rows against it.

Guarantees that a replay is the product's own fold and causes nothing: it only reads. A record that
counts and cannot be folded ends it with its place; one that does not prove itself is told. Called
by `actionledger replay`, by the checker of crash tests and by auditors; `Replay` alone is pure,
`replay` reads a log.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue
from pydantic_core import from_json

from ledger.audit.proofs import Unproven, unproven
from ledger.audit.reading import feed_ledger
from ledger.audit.tree import Tree
from ledger.core.errors import LedgerError
from ledger.core.invariants import BrokenInvariantError
from ledger.core.limits import DIFFERENCES_MAX
from ledger.core.records import Decision, LedgerRecord
from ledger.core.snapshot import FOLD_VERSION, dump
from ledger.core.state import Stream
from ledger.log.envelope import read_ledger
from ledger.log.fold import PartitionFold, fold_decision
from ledger.log.port import Record
from ledger.log.reading import ReadableLog


class ReplayStoppedError(LedgerError):
    """A record that counts cannot be folded. What stands before it is in the replay."""

    def __init__(self, partition: int, offset: int, why: str) -> None:
        super().__init__(
            f"The replay of ledger partition {partition} stops at offset {offset}: {why}.",
            hint="Replay up to that offset, and look at the record with `actionledger log tail`.",
        )
        self.partition = partition
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Replayed:
    """A stream as the log has it: `next_offset` is one behind its newest decision."""

    stream: Stream
    next_offset: int


@dataclass(frozen=True, slots=True)
class StoredStream:
    """A stream as a projection has it, in the bytes of `core.snapshot`."""

    key: str
    next_offset: int
    fold_version: int
    state: bytes


@dataclass(frozen=True, slots=True)
class Differs:
    """One thing in which a stored stream is not what the log says.

    `path` is a JSON pointer into the state, or empty for the stream as a whole.
    """

    stream: str
    path: str
    log: JsonValue
    stored: JsonValue

    def __str__(self) -> str:
        where = f"{self.stream} {self.path}".rstrip()
        return f"{where}: the log says {self.log!r}, the projection {self.stored!r}"


@dataclass(frozen=True, slots=True)
class Head:
    """What somebody wrote down of a partition: how many records it had, and their hash."""

    size: int
    sha256: str


@dataclass(slots=True)
class Replay:
    """What a log has said so far. Feed it records of each partition in order, from the first on.

    With `as_of`, a partition's decisions after that log time are left out, and all that follow.
    `unproven` has the first of what does not prove itself any more, `unproven_count` counts all;
    with `heads` the records of earlier have to be what they were.
    """

    as_of: int | None = None
    heads: Mapping[int, Head] = field(default_factory=dict)
    trees: dict[int, Tree] = field(default_factory=dict)
    folds: dict[int, PartitionFold] = field(default_factory=dict)
    streams: dict[str, Replayed] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    decision_count: int = 0
    fact_count: int = 0
    unproven: list[Unproven] = field(default_factory=list)
    unproven_count: int = 0

    @property
    def void_count(self) -> int:
        """Records that count for nobody."""
        return sum(fold.void_count for fold in self.folds.values())

    def feed(self, record: Record) -> None:
        """Fold one record. Raises ReplayStoppedError."""
        if record.partition in self.ended:
            return
        fold = self.folds.setdefault(record.partition, PartitionFold(record.partition))
        try:
            if self._is_later(record, fold):
                self.ended.add(record.partition)
                return
            partitions, people = fold.partitions, fold.people
            read = fold.feed(record)
            self._hash(record)
            if read is not None:
                self._prove(unproven(record, read, partitions=partitions, people=people))
            if isinstance(read, Decision):
                self._fold(read)
        except (BrokenInvariantError, ValueError) as fault:
            raise ReplayStoppedError(record.partition, record.offset, str(fault)) from fault

    def _is_later(self, record: Record, fold: PartitionFold) -> bool:
        """Whether this record ends the replay of its partition; log time never runs back."""
        if self.as_of is None:
            return False
        read: LedgerRecord = read_ledger(record.value)
        return (
            isinstance(read, Decision)
            and read.decided_at > self.as_of
            and (read.epoch, read.at) == (fold.epoch, record.offset)
        )

    def _hash(self, record: Record) -> None:
        tree = self.trees.setdefault(record.partition, Tree())
        tree.add(record.value)
        known = self.heads.get(record.partition)
        if known is not None and known.size == tree.size and known.sha256 != tree.head():
            what = f"the first {known.size} records are not those that were written down"
            self._prove([Unproven(record.partition, record.offset, what)])

    def _prove(self, found: Iterable[Unproven]) -> None:
        for one in found:
            self.unproven_count += 1
            if len(self.unproven) < DIFFERENCES_MAX:
                self.unproven.append(one)

    def _fold(self, decision: Decision) -> None:
        self.decision_count += 1
        if not decision.facts and not decision.gate:
            return
        known = self.streams.get(decision.stream)
        before = Stream(decision.stream) if known is None else known.stream
        self.streams[decision.stream] = Replayed(fold_decision(before, decision), decision.at + 1)
        self.fact_count += len(decision.facts) + len(decision.gate or ())


async def replay(
    log: ReadableLog,
    partitions: Iterable[int],
    *,
    until: Mapping[int, int] | None = None,
    as_of: int | None = None,
    heads: Mapping[int, Head] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Replay partitions from offset 0 up to an offset of each, or up to where they end now. `heads`
    are what somebody wrote down of them earlier.

    `progress` hears of records read and of how many there are. Raises ReplayStoppedError and what
    the log raises.
    """
    replayed = Replay(as_of, heads or {})
    await feed_ledger(log, partitions, replayed.feed, until=until, progress=progress)
    return replayed


def compare(streams: Mapping[str, Replayed], stored: Iterable[StoredStream]) -> tuple[Differs, ...]:
    """Where stored streams differ from the log at the same offsets; empty when they do not.

    At most DIFFERENCES_MAX for one stream; a stream that is missing on one side is one difference.
    """
    found: list[Differs] = []
    seen: set[str] = set()
    for row in stored:
        seen.add(row.key)
        known = streams.get(row.key)
        if known is None:
            found.append(Differs(row.key, "", None, "a stream that the log does not have"))
        else:
            found += _differences(known, row)
    found += [
        Differs(key, "", _said(known.stream), None)
        for key, known in streams.items()
        if key not in seen
    ]
    return tuple(sorted(found, key=lambda one: (one.stream, one.path)))


def _said(stream: Stream) -> str:
    return "a gate" if stream.gate is not None else f"{len(stream.actions)} action(s)"


def _differences(known: Replayed, row: StoredStream) -> list[Differs]:
    found: list[Differs] = []
    if row.next_offset != known.next_offset:
        found.append(Differs(row.key, "next_offset", known.next_offset, row.next_offset))
    if row.fold_version != FOLD_VERSION:
        found.append(Differs(row.key, "fold_version", FOLD_VERSION, row.fold_version))
        return found
    expected = dump(known.stream)
    if row.state == expected:
        return found
    try:
        state = from_json(row.state)
    except ValueError:
        return [*found, Differs(row.key, "", "a state", "bytes that are no JSON")]
    within = list(_walk(row.key, "", from_json(expected), state))[:DIFFERENCES_MAX]
    # The same values in other bytes are a difference too: the state is exact.
    return found + (within or [Differs(row.key, "", "the same values", "other bytes")])


def _walk(stream: str, path: str, log: JsonValue, stored: JsonValue) -> Iterable[Differs]:
    if isinstance(log, dict) and isinstance(stored, dict):
        for key in sorted(log.keys() | stored.keys()):
            yield from _walk(stream, f"{path}/{key}", log.get(key), stored.get(key))
    elif isinstance(log, list) and isinstance(stored, list):
        for place in range(max(len(log), len(stored))):
            a = log[place] if place < len(log) else None
            b = stored[place] if place < len(stored) else None
            yield from _walk(stream, f"{path}/{place}", a, b)
    # True equals 1 in Python and is another value in JSON.
    elif type(log) is not type(stored) or log != stored:
        yield Differs(stream, path, log, stored)
