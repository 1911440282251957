"""The log without a broker: seeded, in virtual time, with everything that Kafka may do to a writer.

Guarantees what Kafka guarantees and nothing more: a partition is one order of records that never
change; an idempotent producer's batches land in the order they were sent, each once, or not at all
with everything behind it. An acknowledged batch has landed; one without an acknowledgement may land
later, long after its producer is gone. Order between partitions and topics means nothing. The same
seed and the same calls give the same bytes.

Must never be softer than the broker: no fault here is one that Kafka could not produce, and none
that it can is left out. Called by the simulation, and by whoever wants a log in memory.
"""

import random
import zlib
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from heapq import heappop, heappush
from typing import Any

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
        self._asked = asked = self._asked + 1
        heappush(self._queue, (self.now + delay_ms if delay_ms > 0 else self.now, asked, call))

    def clear(self) -> None:
        """Forget every call that was asked for."""
        self._queue.clear()

    def run(self, *, until: int) -> None:
        """Make every call before a moment, and arrive there."""
        queue = self._queue
        while queue and queue[0][0] < until:
            self.now, _, call = heappop(queue)
            call()
        self.now = max(self.now, until)


Struck = tuple[str, int]
"""A fault that happened: its name, and which of the occasions for it this was, counted from 1."""


class Draws:
    """Which faults happen, by one stream of chance for each of them: a fault that is left out
    leaves all the others as they were.

    With `only` nothing happens but what it names, by fault and occasion; a history that is lived
    again with what happened in it is the same history.
    """

    def __init__(self, seed: int, only: Mapping[str, frozenset[int]] | None = None) -> None:
        self.struck: list[Struck] = []
        self._seed = seed
        self._only = only
        self._occasions: dict[str, int] = {}
        self._streams: dict[str, Callable[[], float]] = {}

    def happens(self, fault: str, share: float) -> bool:
        """Whether a fault with this share of its occasions happens now."""
        if share <= 0:
            return False
        occasion = self._occasions[fault] = self._occasions.get(fault, 0) + 1
        if self._only is not None:
            happens = occasion in self._only.get(fault, ())
        else:
            stream = self._streams.get(fault) or self._stream(fault)
            happens = stream() < share
        if happens:
            self.struck.append((fault, occasion))
        return happens

    def _stream(self, fault: str) -> Callable[[], float]:
        own = random.Random(self._seed << 32 | zlib.crc32(fault.encode()))  # noqa: S311
        self._streams[fault] = own.random
        return own.random


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


@lru_cache(maxsize=256)
def _genesis(generation: str, partition: int, partitions: int) -> Outgoing:
    genesis = Genesis(generation=generation, partition=partition, partitions=partitions)
    value = encode(genesis, event_id="genesis", source=f"/actionledger/{generation}")
    return Outgoing(b"genesis", value, (CONTENT_TYPE, (MARKS, MARK_EPOCH)))


class SimulatedLog:
    """Every topic of an installation with so many partitions, from its genesis on.

    `chance` draws how long things take, `draws` which faults happen.
    """

    def __init__(
        self,
        time: VirtualTime,
        chance: random.Random,
        *,
        partitions: int,
        generation: str,
        draws: Draws | None = None,
    ) -> None:
        self.time = time
        self.partitions = partitions
        self.generation = generation
        self.faults = NO_FAULTS
        self.draws = draws or Draws(chance.getrandbits(32))
        self.landed: Callable[[str, int], None] = lambda _topic, _partition: None
        self.landings = 0
        """How many records have landed, on any topic."""
        self._chance = chance
        self._records: dict[tuple[str, int], list[Record]] = {}
        self._numbers: dict[tuple[str, int], list[int]] = {}
        self._true_times: dict[tuple[str, int], list[int]] = {}
        self._begins: dict[tuple[str, int], int] = {}
        self._clock_off_ms: dict[tuple[str, int], int] = {}
        self._room: dict[tuple[str, int], int] = {}
        self._put_away: dict[tuple[str, int], tuple[list[Any], ...]] = {}
        for topic in Topic:
            for partition in range(1 if topic is Topic.CONFIG else partitions):
                place = (topic.value, partition)
                self._start_over(place)

    def _start_over(self, place: tuple[str, int]) -> None:
        self._records[place], self._numbers[place], self._true_times[place] = [], [], []
        if place[0] in WITH_GENESIS:
            self.append(*place, [_genesis(self.generation, place[1], self.partitions)])

    # Reading

    def read(
        self, topic: str, partition: int, offset: int, *, records_max: int | None = None
    ) -> list[Record]:
        """Records from an offset on, in order; what was forgotten is not there."""
        place = (topic, partition)
        begin = max(offset, self._begins[place]) if place in self._begins else offset
        records = self._records[place]
        return records[begin:] if records_max is None else records[begin : begin + records_max]

    def end_offset(self, topic: str, partition: int) -> int:
        """The offset of the next record to come."""
        return len(self._records[topic, partition])

    def begin_offset(self, topic: str, partition: int) -> int:
        """The offset of the oldest record that is kept."""
        return self._begins.get((topic, partition), 0)

    def landed_before(self, topic: str, partition: int, landing: int) -> int:
        """Where a partition ended when the record of that number, among all records, landed."""
        return bisect_left(self._numbers[topic, partition], landing)

    def landing_of(self, topic: str, partition: int, offset: int) -> int:
        """Which of all records this one was, in the order in which they landed."""
        return self._numbers[topic, partition][offset]

    def landed_at(self, topic: str, partition: int, offset: int) -> int:
        """The true time at which a record landed, whatever the broker's clock said."""
        return self._true_times[topic, partition][offset]

    # What operators and retention do

    def forget(self, topic: str, partition: int, before: int) -> None:
        """Let retention take what lies before an offset."""
        kept = min(before, self.end_offset(topic, partition))
        self._begins[topic, partition] = max(kept, self.begin_offset(topic, partition))

    def make_anew(self, topic: str, partition: int, *, records_max: int | None = None) -> None:
        """Somebody deletes a partition and makes it anew: its offsets begin at 0 again. It takes no
        more than `records_max` records until it is restored.
        """
        place = (topic, partition)
        self._put_away[place] = tuple(part[place] for part in self._parts())
        if records_max is not None:
            self._room[place] = records_max
        self._start_over(place)

    def restore(self, topic: str, partition: int) -> None:
        """Put what was deleted back, and behind it what has landed meanwhile."""
        place = (topic, partition)
        if place not in self._put_away:
            return
        self._room.pop(place, None)
        own = topic in WITH_GENESIS
        for part, kept in zip(self._parts(), self._put_away.pop(place), strict=True):
            part[place] = [*kept, *part[place][own:]]
        for offset, record in enumerate(records := self._records[place]):
            records[offset] = record._replace(offset=offset)
        self.landed(topic, partition)

    def _parts(self) -> tuple[dict[tuple[str, int], list[Any]], ...]:
        return (self._records, self._numbers, self._true_times)

    def set_clocks(self, off_ms: int) -> None:
        """Set the clocks of all brokers: so much ahead of the true time, or behind it."""
        for place in self._records:
            self._clock_off_ms[place] = off_ms

    # Writing

    def producer(self) -> "SimulatedProducer":
        """A new idempotent producer that waits for all acknowledgements."""
        return SimulatedProducer(self, self._chance)

    def append(self, topic: str, partition: int, records: Sequence[Outgoing]) -> list[Appended]:
        """Let records land now, at the broker's time; none where there is no room for them."""
        place = (topic, partition)
        held, numbers = self._records[place], self._numbers[place]
        times, now = self._true_times[place], self.time.now
        if place in self._room and len(held) + len(records) > self._room[place]:
            return []
        timestamp = now + self._clock(place)
        appended = []
        for record in records:
            offset = len(held)
            held.append(Record(topic, partition, offset, timestamp, *record))
            numbers.append(self.landings)
            times.append(now)
            self.landings += 1
            appended.append(Appended(offset, timestamp))
        self.landed(topic, partition)
        return appended

    def _clock(self, place: tuple[str, int]) -> int:
        """How far the clock of the partition's leader is off; it may run ahead and step back."""
        faults = self.faults
        if faults.clock_ms and self.draws.happens("clock_changes", faults.clock_changes):
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
        log = self._log
        faults, time = log.faults, log.time
        batch = _Batch((topic, partition), records, done, [])
        if self.is_spent:
            time.after(0, lambda: done(None))
            return
        self._waiting.append(batch)
        heard_at = None
        if batch.place in self._broken or log.draws.happens("batch_lost", faults.lost):
            # What is missing breaks the sequence: nothing behind it is ever accepted.
            self._broken[batch.place] = None
        else:
            heard_at = self._set_out(batch)
        if heard_at is None or heard_at >= time.now + faults.patience_ms:
            time.after(faults.patience_ms, lambda: self._give_up(batch))

    def _set_out(self, batch: _Batch) -> int | None:
        """Put a batch on its way, behind those before it; perhaps in two parts. When its producer
        will hear of it, or None.
        """
        faults, chance, time, draws = (
            self._log.faults,
            self._chance,
            self._log.time,
            self._log.draws,
        )
        now, bound_ms = time.now, faults.delay_ms
        if faults.late and draws.happens("batch_late", faults.late):
            bound_ms = faults.late_ms
        lands_at = max(now + chance.randint(0, bound_ms), self._lands_after.get(batch.place, 0))
        cut, count = 0, len(batch.records)
        rest_at = lands_at
        if count > 1 and draws.happens("batch_split", faults.split):
            cut = chance.randint(1, count - 1)
            rest_at += chance.randint(0, faults.delay_ms)
            time.after(lands_at - now, partial(self._land, batch, 0, cut))
        self._lands_after[batch.place] = rest_at
        heard_at: int | None = rest_at + chance.randint(0, faults.delay_ms)
        if faults.unacknowledged and draws.happens("batch_unacknowledged", faults.unacknowledged):
            heard_at = None
        land = self._land_and_hear if heard_at == rest_at else self._land
        time.after(rest_at - now, partial(land, batch, cut, count))
        if heard_at is not None and heard_at > rest_at:
            time.after(heard_at - now, partial(self._hear, batch))
        return heard_at

    def _land(self, batch: _Batch, start: int, end: int) -> None:
        if self._is_cut_off:
            return
        topic, partition = batch.place
        landed = self._log.append(topic, partition, batch.records[start:end])
        batch.landed += landed
        if not landed:
            self._broken[batch.place] = None

    def _land_and_hear(self, batch: _Batch, start: int, end: int) -> None:
        self._land(batch, start, end)
        self._hear(batch)

    def _hear(self, batch: _Batch) -> None:
        if len(batch.landed) < len(batch.records):
            patience_ms = self._log.faults.patience_ms
            self._log.time.after(patience_ms, lambda: self._give_up(batch))
        elif batch in self._waiting:
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
