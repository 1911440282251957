"""How every reader follows a ledger partition: the same acceptance, the same epoch, the same
positions.

A reader feeds records in offset order and gets back those that count. What is void is counted and
changes nothing. A record that is accepted by its place and cannot be read stops the reader: it is
never skipped.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self, assert_never

from ledger.core.evolve import Place, evolve_all
from ledger.core.gates import evolve_gate
from ledger.core.holds import Holds, after_order, parse_order
from ledger.core.invariants import BrokenInvariantError, invariant
from ledger.core.records import (
    Adopted,
    Decision,
    EpochOpened,
    Genesis,
    LedgerRecord,
    Verdict,
    accept,
)
from ledger.core.state import Stream
from ledger.log.envelope import read_ledger
from ledger.log.port import Record


class Begin(NamedTuple):
    """Where a reader of a partition may begin, and what it has to know there."""

    next_offset: int
    epoch: int
    holds: Holds = ()


class InForce(NamedTuple):
    """What a partition has adopted, by kind of configuration."""

    catalogue: Adopted | None = None
    holds: Holds = ()
    policy: Adopted | None = None
    people: Adopted | None = None

    def after(self, adopted: Adopted, decided_at: int) -> Self:
        """What is in force once a version was adopted at a log time."""
        match adopted.kind:
            case "catalogue":
                return self._replace(catalogue=adopted)
            case "policy":
                return self._replace(policy=adopted)
            case "people":
                return self._replace(people=adopted)
            case "hold" | "release":
                return self._replace(holds=holds_after(self.holds, adopted, decided_at))
            case _:
                assert_never(adopted.kind)


@dataclass(slots=True)
class PartitionFold:
    """Where a reader stands in one partition: all that decides whether the next record counts.

    `positions` holds, by inbox topic, the offset of the next input to decide; `decided_at` is the
    last log time; `adopted` is the catalogue in force, `policy` and `people` are what was adopted
    beside it.
    """

    partition: int
    generation: str | None = None
    partitions: int | None = None
    epoch: int = 0
    next_offset: int = 0
    decided_at: int = 0
    adopted: Adopted | None = None
    holds: Holds = ()
    policy: Adopted | None = None
    people: Adopted | None = None
    positions: dict[str, int] = field(default_factory=dict)
    void_count: int = 0

    def begin(self, begin: Begin) -> None:
        """Read on from there."""
        self.next_offset, self.epoch, self.holds = begin

    def feed(self, record: Record) -> LedgerRecord | None:
        """Take the next record; the record itself if it counts, None if it is void.

        Raises BrokenInvariantError when an offset is not the next one, or when bytes at an accepted
        place make no record. Bytes that make no record have no epoch, so they stand at no accepted
        place unless the processor wrote them: they stop the reader as well.
        """
        invariant(record.offset == self.next_offset, "ledger offsets have no gap")
        try:
            read = read_ledger(record.value)
        except ValueError as unreadable:
            where = f"ledger {self.partition} offset {record.offset}"
            raise BrokenInvariantError(
                f"unreadable record at {where}: {unreadable}"
            ) from unreadable
        self.next_offset = record.offset + 1
        if accept(self.epoch, record.offset, read) is not Verdict.ACCEPTED:
            self.void_count += 1
            return None
        self.apply(read)
        return read

    def skip(self, record: Record) -> None:
        """Pass over the next record, which is known to open no epoch."""
        invariant(record.offset == self.next_offset, "ledger offsets have no gap")
        self.next_offset = record.offset + 1

    def apply(self, read: LedgerRecord) -> None:
        """Move to behind an accepted record."""
        match read:
            case Decision():
                invariant(read.decided_at >= self.decided_at, "log time does not run back")
                self.decided_at = read.decided_at
                cause = read.cause
                expected = self.positions.get(cause.topic, 0)
                invariant(cause.offset >= expected, "an input is decided once")
                self.positions[cause.topic] = cause.offset + 1
                if read.adopted is not None:
                    self._adopt(read.adopted, read.decided_at)
            case Genesis():
                invariant(read.partition == self.partition, "the genesis of another partition")
                self.generation, self.partitions = read.generation, read.partitions
            case EpochOpened():
                self.epoch = read.epoch
                self.adopted = read.adopted or self.adopted
                self.holds = self.holds if read.holds is None else read.holds
                self.policy = read.policy or self.policy
                self.people = read.people or self.people

    @property
    def in_force(self) -> InForce:
        """What was adopted of each kind of configuration."""
        return InForce(self.adopted, self.holds, self.policy, self.people)

    def _adopt(self, adopted: Adopted, decided_at: int) -> None:
        after = self.in_force.after(adopted, decided_at)
        self.adopted, self.holds, self.policy, self.people = after


def holds_after(holds: Holds, adopted: Adopted, decided_at: int) -> Holds:
    """The holds in force after an adopted order; it was in order when it was adopted."""
    order = parse_order(adopted.content)
    invariant(order is not None, "an adopted order no longer parses")
    assert order is not None  # noqa: S101 - for the type checker; the line above survives -O
    return after_order(holds, adopted.kind, order, at=decided_at, offset=adopted.offset)


def fold_decision(stream: Stream, decision: Decision) -> Stream:
    """The stream after an accepted decision; what every projection of state is made of."""
    place = Place(offset=decision.at, decided_at=decision.decided_at)
    if decision.facts:
        stream = evolve_all(stream, decision.facts, place)
    if decision.gate:
        gate = stream.gate
        for said in decision.gate:
            gate = evolve_gate(gate, said, decision.decided_at)
        stream = Stream(stream.key, stream.actions, gate)
    return stream
