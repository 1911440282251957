"""Ticks that wait: a timer must not win over an answer that already lies in an inbox.

Without I/O. A tick is released once the other inboxes of its partition were read to where they
ended when the tick was seen; an outcome lying there is then decided before the lapse, or it waits
and the lapse with it: see `streams.waiting_inputs`. What waits here is bounded: the shell reads no
more of `internal` while it is full. Called by the processor.
"""

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ledger.log.envelope import is_message
from ledger.log.port import Record
from ledger.log.sizes import record_bytes
from ledger.log.topics import Topic
from streams.limits import WAITING_BYTES_MAX, WAITING_INPUTS_MAX

HELD_BACK_BY = (Topic.INTENTS, Topic.APPROVALS, Topic.ATTEMPTS, Topic.EVIDENCE)
"""Inboxes that may hold the answer to a timer."""


@dataclass(frozen=True, slots=True)
class _Held:
    """Ticks of one round, and where the other inboxes of their partition ended when they came."""

    ticks: Sequence[Record]
    ends: Mapping[str, int]


class HeldTicks:
    """The ticks of every owned partition, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: dict[int, deque[_Held]] = defaultdict(deque)
        self._read_to: dict[tuple[str, int], int] = {}
        self.count = 0
        """How many records wait, over all partitions."""
        self._bytes = 0

    def begin(self, partition: int, positions: Mapping[str, int]) -> None:
        """A partition is read from these offsets on; ticks that waited come again."""
        self.give_up(partition)
        for topic, position in positions.items():
            self._read_to[topic, partition] = position

    def clear(self) -> None:
        """Nothing is owned any more."""
        self._waiting.clear()
        self._read_to.clear()
        self.count = self._bytes = 0

    def read(self, record: Record) -> None:
        """A record that is no tick was read: it is decided before any tick released after it, or
        waits, and no tick of its stream is decided before it.
        """
        self._read_to[record.topic, record.partition] = record.offset + 1

    def passed(self, topic: str, partition: int, position: int) -> None:
        """Everything below a position was read: behind the last record there may be marks of
        somebody's transaction, which are never read.
        """
        place = topic, partition
        self._read_to[place] = max(position, self._read_to.get(place, 0))

    def messages_first(
        self, partition: int, internal: Sequence[Record]
    ) -> tuple[Sequence[Record], Sequence[Record]]:
        """What of the internal records that came may be decided now, and what has to wait: messages
        between actions and gates wait for nothing, but nothing overtakes a tick before them.
        """
        if self._waiting.get(partition):
            return (), internal
        count = next(
            (place for place, record in enumerate(internal) if not is_message(record)),
            len(internal),
        )
        return internal[:count], internal[count:]

    def is_holding(self) -> bool:
        """Whether some tick waits."""
        return self.count > 0

    def places_full(self) -> set[tuple[str, int]]:
        """Inboxes of which nothing more is to be read, because too much of them waits."""
        is_full = self.count >= WAITING_INPUTS_MAX or self._bytes >= WAITING_BYTES_MAX
        holding = [partition for partition, waiting in self._waiting.items() if waiting]
        return {(Topic.INTERNAL.value, partition) for partition in holding} if is_full else set()

    def hold(self, partition: int, ticks: Sequence[Record], ends: Mapping[str, int]) -> None:
        """Ticks came; `ends` is where the inboxes of HELD_BACK_BY end now, asked after reading."""
        self._waiting[partition].append(_Held(ticks, ends))
        self.count += len(ticks)
        self._bytes += sum(map(record_bytes, ticks))

    def release(self) -> dict[int, list[Record]]:
        """By partition the ticks that wait no longer."""
        released: dict[int, list[Record]] = {}
        for partition, waiting in self._waiting.items():
            while waiting and self._is_read_to(partition, waiting[0].ends):
                released.setdefault(partition, []).extend(self._take(waiting))
        return released

    def give_up(self, partition: int) -> list[Record]:
        """What waits in a partition, in its order; nothing is waited for any more."""
        waiting = self._waiting.pop(partition, deque())
        return [record for _ in range(len(waiting)) for record in self._take(waiting)]

    def _take(self, waiting: deque[_Held]) -> Sequence[Record]:
        ticks = waiting.popleft().ticks
        self.count -= len(ticks)
        self._bytes -= sum(map(record_bytes, ticks))
        return ticks

    def _is_read_to(self, partition: int, ends: Mapping[str, int]) -> bool:
        return all(self._read_to.get((topic, partition), 0) >= end for topic, end in ends.items())
