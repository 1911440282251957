"""The log without a broker: seeded, in virtual time, with everything that Kafka may do to a writer.

Guarantees what Kafka guarantees and nothing more: a partition is one order of records that never
change; an idempotent producer's batches land in the order they were sent, each once, or not at all
with everything behind it. An acknowledged batch has landed; one without an acknowledgement may land
later, long after its producer is gone. Order between partitions and topics means nothing. The same
seed and the same calls give the same bytes.

Must never be softer than the broker: no fault here is one that Kafka could not produce, and none
that it can is left out. Called by the simulation, and by whoever wants a log in memory.
"""

import heapq
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ledger.core.records import Genesis
from ledger.log.envelope import CONTENT_TYPE, MARK_EPOCH, MARKS, encode
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.topics import WITH_GENESIS, Topic

Call = Callable[[], None]
Done = Callable[[list[Appended] | None], None]
"""What hears of a batch: where its records landed, or None where nobody knows."""


class VirtualTime:
    """Time by hand: what was asked for happens in the order of its moments, and no clock runs in
    between. `now` is milliseconds since the epoch.
    """

    def __init__(self, now: int) -> None:
        self.now = now
        self._queue: list[tuple[int, int, Call]] = []
        self._asked = 0

    def after(self, delay_ms: int, call: Call) -> None:
        """Make a call in so many milliseconds; calls for one moment come in the order of asking."""
        self._asked += 1
        heapq.heappush(self._queue, (self.now + max(0, delay_ms), self._asked, call))

    def run_next(self, *, before: int) -> bool:
        """Make the next call if its moment lies before the given one; False where there is none."""
        if not self._queue or self._queue[0][0] >= before:
            return False
        self.now, _, call = heapq.heappop(self._queue)
        call()
        return True

    def run(self, *, until: int) -> None:
        """Make every call before a moment, and arrive there."""
        while self.run_next(before=until):
            pass
        self.now = max(self.now, until)


@dataclass(frozen=True, slots=True)
class LogFaults:
    """How often and how long, each a share of all batches or a bound in milliseconds.

    `lost`: never lands. `unacknowledged`: lands, and its producer hears nothing. `late`: on its way
    for up to `late_ms`, also after its producer is gone. `split`: lands in two parts, between which
    others may write. `patience_ms`: after which a producer gives up on an answer. `clock_ms`: how
    far a broker's clock may be off, either way, changing as leaders change.
    """

    delay_ms: int = 5
    lost: float = 0.0
    unacknowledged: float = 0.0
    late: float = 0.0
    late_ms: int = 0
    split: float = 0.0
    patience_ms: int = 1_000
    clock_ms: int = 0
    clock_changes: float = 0.0


NO_FAULTS = LogFaults()
HALF = 0.5
"""How often what a lost process had sent reaches the broker."""


class SimulatedLog:
    """Every topic of an installation with so many partitions, from its genesis on."""

    def __init__(
        self, time: VirtualTime, chance: random.Random, *, partitions: int, generation: str
    ) -> None:
        self.time = time
        self.partitions = partitions
        self.generation = generation
        self.faults = NO_FAULTS
        self.landed: Callable[[str, int], None] = lambda _topic, _partition: None
        self._chance = chance
        self._records: dict[tuple[str, int], list[Record]] = {}
        self._begins: dict[tuple[str, int], int] = {}
        self._clock_off_ms: dict[tuple[str, int], int] = {}
        for topic in Topic:
            for partition in range(1 if topic is Topic.CONFIG else partitions):
                self._records[topic.value, partition] = []
                if topic in WITH_GENESIS:
                    self._begin(topic, partition)

    def _begin(self, topic: Topic, partition: int) -> None:
        genesis = Genesis(
            generation=self.generation, partition=partition, partitions=self.partitions
        )
        value = encode(genesis, event_id="genesis", source=f"/actionledger/{self.generation}")
        headers = (CONTENT_TYPE, (MARKS, MARK_EPOCH))
        self.append(topic.value, partition, [Outgoing(b"genesis", value, headers)])

    # Reading

    def read(
        self, topic: str, partition: int, offset: int, *, records_max: int | None = None
    ) -> list[Record]:
        """Records from an offset on, in order; what was forgotten is not there."""
        records = self._records[topic, partition]
        begin = max(offset, self._begins.get((topic, partition), 0))
        return records[begin:] if records_max is None else records[begin : begin + records_max]

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset of the next record to come."""
        return len(self._records[topic, partition])

    def begin_offset(self, topic: str, partition: int) -> int:
        """The offset of the oldest record that is kept."""
        return self._begins.get((topic, partition), 0)

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Let retention take what lies before an offset."""
        kept = min(before, self.end_offset(topic, partition))
        self._begins[topic, partition] = max(kept, self.begin_offset(topic, partition))

    # Writing

    def producer(self) -> "SimulatedProducer":
        """A new idempotent producer that waits for all acknowledgements."""
        return SimulatedProducer(self, self._chance)

    def append(self, topic: str, partition: int, records: Sequence[Outgoing]) -> list[Appended]:
        """Let records land now, at the broker's time."""
        place = (topic, partition)
        held = self._records[place]
        timestamp = self.time.now + self._clock(place)
        appended = []
        for record in records:
            offset = len(held)
            held.append(Record(topic, partition, offset, timestamp, *record))
            appended.append(Appended(offset, timestamp))
        self.landed(topic, partition)
        return appended

    def _clock(self, place: tuple[str, int]) -> int:
        """How far the clock of the partition's leader is off; it may run ahead and step back."""
        faults = self.faults
        if faults.clock_ms and self._chance.random() < faults.clock_changes:
            off_ms = self._chance.randint(-faults.clock_ms, faults.clock_ms)
            self._clock_off_ms[place] = off_ms
        return self._clock_off_ms.get(place, 0)


@dataclass(slots=True, eq=False)
class _Batch:
    """Records on their way to one place, and who waits to hear where they landed."""

    place: tuple[str, int]
    records: Sequence[Outgoing]
    done: Done
    landed: list[Appended]


class SimulatedProducer:
    """One idempotent producer. After one batch without an answer it is spent, like the real one."""

    def __init__(self, log: SimulatedLog, chance: random.Random) -> None:
        self._log = log
        self._chance = chance
        self._lands_after: dict[tuple[str, int], int] = {}
        self._broken: dict[tuple[str, int], None] = {}
        self._waiting: list[_Batch] = []
        self._is_cut_off = False
        self.is_spent = False

    def abandon(self) -> None:
        """Its process is gone: nobody hears of its batches any more, and what left still lands."""
        self._waiting.clear()
        self.is_spent = True
        self._is_cut_off = self._chance.random() < HALF

    def send(self, topic: str, partition: int, records: Sequence[Outgoing], done: Done) -> None:
        """Send one batch. `done` hears exactly once, unless the producer was abandoned before."""
        faults, chance, time = self._log.faults, self._chance, self._log.time
        batch = _Batch((topic, partition), records, done, [])
        if self.is_spent:
            time.after(0, lambda: done(None))
            return
        self._waiting.append(batch)
        if batch.place in self._broken or chance.random() < faults.lost:
            # What is missing breaks the sequence: nothing behind it is ever accepted.
            self._broken[batch.place] = None
        else:
            self._set_out(batch)
        time.after(faults.patience_ms, lambda: self._give_up(batch))

    def _set_out(self, batch: _Batch) -> None:
        """Put a batch on its way, behind those before it; perhaps in two parts."""
        faults, chance, time = self._log.faults, self._chance, self._log.time
        bound_ms = faults.late_ms if chance.random() < faults.late else faults.delay_ms
        lands_at = max(
            time.now + chance.randint(0, bound_ms), self._lands_after.get(batch.place, 0)
        )
        cut, count = len(batch.records), len(batch.records)
        if count > 1 and chance.random() < faults.split:
            cut = chance.randint(1, count - 1)
        rest_at = lands_at + (chance.randint(0, faults.delay_ms) if cut < count else 0)
        hears = chance.random() >= faults.unacknowledged
        for start, end, moment in ((0, cut, lands_at), (cut, count, rest_at)):
            if start < end:
                part = partial(self._land, batch, start, end, hears=hears)
                time.after(moment - time.now, part)
        self._lands_after[batch.place] = rest_at

    def _land(self, batch: _Batch, start: int, end: int, *, hears: bool) -> None:
        if self._is_cut_off:
            return
        topic, partition = batch.place
        batch.landed += self._log.append(topic, partition, batch.records[start:end])
        if hears and end == len(batch.records):
            ack_ms = self._chance.randint(0, self._log.faults.delay_ms)
            self._log.time.after(ack_ms, lambda: self._hear(batch))

    def _hear(self, batch: _Batch) -> None:
        if batch in self._waiting:
            self._waiting.remove(batch)
            batch.done(batch.landed)

    def _give_up(self, batch: _Batch) -> None:
        """After its patience the producer knows nothing, and is of no more use."""
        if batch not in self._waiting:
            return
        waiting, self._waiting, self.is_spent = self._waiting, [], True
        for one in waiting:
            one.done(None)


class SimulatedGroup:
    """Who owns which partition, by the coordinator's word. Members learn of it late or never, so
    two may believe that they own the same one.
    """

    def __init__(self, partitions: int) -> None:
        self.generation = 0
        self._partitions = partitions
        self._members: list[str] = []

    def join(self, member: str) -> None:
        """Add a member; everybody's share may change."""
        if member not in self._members:
            self._members.append(member)
            self.generation += 1

    def leave(self, member: str) -> None:
        """Remove a member that left, or that was not heard of for too long."""
        if member in self._members:
            self._members.remove(member)
            self.generation += 1

    def assigned(self, member: str) -> tuple[int, ...]:
        """The partitions of a member now; none where it is no member."""
        if member not in self._members:
            return ()
        place, members = self._members.index(member), len(self._members)
        return tuple(range(place, self._partitions, members))
