"""Inputs that wait because their stream has to be loaded first.

Within one inbox partition nothing overtakes, so behind an input that waits its whole inbox waits;
the other inboxes of the partition go on. What is behind it is read on, as far as there is room: so
it is known of which streams something waits. A timer of one of those is passed over, because its
answer may be among it, and comes again; the timers of all others wait for nothing. What is internal
says nothing that is not derived from state again, so it holds up nothing either: what is about a
stream that is not to be had is passed over as if it had been lost. That is true of ticks and
messages alone: whatever else lies there has its turn, and is set aside. Without I/O; called by the
processor.
"""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum, auto
from itertools import islice

from ledger.core import inputs as i
from ledger.log.port import Record
from ledger.log.sizes import record_bytes
from ledger.log.topics import Topic
from streams.internal_inputs import Internal, read_internal
from streams.limits import (
    WAITING_BYTES_MAX,
    WAITING_INPUTS_MAX,
    WAITING_TRIED_MAX,
    WELL_AGAIN_MS,
)
from streams.owner import Owner


class Turn(Enum):
    """What becomes of an input in this round."""

    NOW = auto()
    WAITS = auto()
    PASSED_OVER = auto()


class Fullness:
    """Whether it is worth a word that too much waits: once, until all has been well for a while.
    What fills and empties in turn would be told every few seconds.
    """

    def __init__(self) -> None:
        self._full_at: int | None = None

    def begins(self, full: Collection[tuple[str, int]], mono_ms: int) -> bool:
        """Whether places are full now and none was for as long as `WELL_AGAIN_MS`."""
        if not full:
            return False
        last, self._full_at = self._full_at, mono_ms
        return last is None or mono_ms - last > WELL_AGAIN_MS


class WaitingInputs:
    """By partition and inbox the inputs that could not be decided yet, in order."""

    def __init__(self) -> None:
        self._inboxes: dict[int, dict[str, deque[Record]]] = {}
        self._of_stream: Counter[tuple[int, bytes | None]] = Counter()
        self._count = 0
        self._bytes = 0

    def clear(self) -> None:
        """Nothing is owned any more; what waited is read again."""
        self._inboxes.clear()
        self._of_stream.clear()
        self._count = self._bytes = 0

    def forget(self, partition: int) -> None:
        """The partition is read again from other positions."""
        for inbox in self._inboxes.pop(partition, {}).values():
            while inbox:
                self._take(inbox)

    def places(self) -> set[tuple[str, int]]:
        """Inboxes in which something waits."""
        return {(topic, part) for part, inboxes in self._inboxes.items() for topic in inboxes}

    def places_full(self) -> set[tuple[str, int]]:
        """Inboxes of which nothing more is to be read, because too much waits."""
        return self.places() if self._is_full() else set()

    def stands_still(self, partition: int) -> bool:
        """Whether an inbox that may answer a timer is not read on, so that nothing of the partition
        that is due by time can be done.
        """
        waits = self._inboxes.get(partition, ())
        return self._is_full() and any(topic != Topic.INTERNAL for topic in waits)

    def _is_full(self) -> bool:
        return self._count >= WAITING_INPUTS_MAX or self._bytes >= WAITING_BYTES_MAX

    def first(self, partition: int) -> list[Record]:
        """Those that wait and have their turn next, each inbox in order."""
        inboxes = self._inboxes.get(partition, {}).values()
        return [one for inbox in inboxes for one in islice(inbox, WAITING_TRIED_MAX)]

    def decidable(self, owner: Owner, fresh: Iterable[Record]) -> list[Record]:
        """Of what waits and of what came behind it the inputs that can be decided now, each inbox
        in order. What is internal has its turn after them: see `decidable_internal`.
        """
        now: list[Record] = []

        def turn(record: Record) -> Turn:
            return Turn.WAITS if owner.is_missing(record) else Turn.NOW

        waits = self._inboxes.get(owner.partition, ())
        # A list: texts of a set are in another order in each process, and so was what is decided.
        topics = [topic for topic in waits if topic != Topic.INTERNAL]
        self._go_through(owner.partition, topics, fresh, turn, {Turn.NOW: now})
        return now

    def decidable_internal(
        self,
        owner: Owner,
        due: Iterable[Record],
        is_out_of_reach: Callable[[str], bool],
        mono_ms: int,
    ) -> list[Record]:
        """Of the messages and ticks that wait for no other inbox those that can be decided now. A
        tick that is passed over comes again, and so does a message: its sender waits for an answer.

        `is_out_of_reach` says of a stream that is not held that it will not be had soon.
        """
        now: list[Record] = []

        def turn(record: Record) -> Turn:
            has_answer = self.has_of(owner.partition, record.key)
            is_missing = owner.is_missing(record)
            if not has_answer and not is_missing:
                return Turn.NOW
            given = _read(owner, record)
            # Whatever else lies there is set aside, for which nobody looks at a stream.
            if given is None or (not is_missing and not isinstance(given, i.Tick)):
                return Turn.NOW
            key = (record.key or b"").decode()
            is_over = (has_answer and isinstance(given, i.Tick)) or is_out_of_reach(key)
            if is_over and isinstance(given, i.Tick):
                owner.passed_over(key, mono_ms)
            return Turn.PASSED_OVER if is_over else Turn.WAITS

        into = {Turn.NOW: now, Turn.PASSED_OVER: []}
        self._go_through(owner.partition, (Topic.INTERNAL.value,), due, turn, into)
        return now

    def without_ticks(self, owner: Owner, internal: Iterable[Record], mono_ms: int) -> list[Record]:
        """What has its turn of the internal records of a partition that stands still. Its ticks
        cannot wait, or what is said between actions and gates would wait behind them; they come
        again once time goes on.
        """
        rest: list[Record] = []
        for record in internal:
            given = _read(owner, record)
            if isinstance(given, i.Tick):
                owner.put_off(given.stream, mono_ms)
            else:
                rest.append(record)
        return rest

    def has_of(self, partition: int, key: bytes | None) -> bool:
        """Whether an input about this stream waits in an inbox that may answer a timer."""
        return key is not None and (partition, key) in self._of_stream

    def _go_through(
        self,
        partition: int,
        topics: Sequence[str],
        fresh: Iterable[Record],
        turn: Callable[[Record], Turn],
        into: dict[Turn, list[Record]],
    ) -> None:
        """Give out what waits in these inboxes and what came fresh, until in each one waits."""
        inboxes = self._inboxes.setdefault(partition, {})
        for topic in topics:
            inbox = inboxes.get(topic, deque())
            for _ in range(min(len(inbox), WAITING_TRIED_MAX)):
                given = turn(inbox[0])
                if given is Turn.WAITS:
                    break
                into[given].append(self._take(inbox))
            if not inbox:
                inboxes.pop(topic, None)
        for record in fresh:
            given = Turn.WAITS if record.topic in inboxes else turn(record)
            if given is Turn.WAITS:
                self._put(inboxes.setdefault(record.topic, deque()), record)
            else:
                into[given].append(record)

    def _put(self, inbox: deque[Record], record: Record) -> None:
        inbox.append(record)
        self._count += 1
        self._bytes += record_bytes(record)
        if record.topic != Topic.INTERNAL:
            self._of_stream[record.partition, record.key] += 1

    def _take(self, inbox: deque[Record]) -> Record:
        record = inbox.popleft()
        self._count -= 1
        self._bytes -= record_bytes(record)
        if record.topic != Topic.INTERNAL:
            stream = record.partition, record.key
            self._of_stream[stream] -= 1
            if not self._of_stream[stream]:
                del self._of_stream[stream]
        return record


def _read(owner: Owner, record: Record) -> Internal | None:
    return read_internal(
        record,
        generation=owner.generation,
        partition=owner.partition,
        partitions=owner.partitions,
    )
