"""Which streams get a tick now: what is due, and what capacity has come for.

At most one tick of a stream is on its way, and no more for capacity than there are slots: a tick
that finds none is a decision for nothing. Without I/O; called by the owner of a partition.
"""

from collections.abc import Iterable

from ledger.core.config import Config
from ledger.core.limits import TICKS_MAX
from streams.limits import PASSED_OVER_MS, PASSED_OVER_MS_MAX
from streams.memory import StreamMemory
from streams.offers import OfferBook
from streams.timetable import Timetable, Want, next_due_of


class Ticking:
    """The ticks of one partition that are written and not decided."""

    def __init__(self, timetable: Timetable, offers: OfferBook) -> None:
        self._timetable = timetable
        self._offers = offers
        self.on_their_way: set[str] = set()
        """Streams with a tick that is not decided."""
        self._granted: set[str] = set()
        self._pauses: dict[str, int] = {}
        """How long the last tick of a stream was put off that is passed over again and again."""

    @property
    def slots_promised(self) -> int:
        """Slots that ticks on their way may take."""
        return len(self._granted)

    def decided(self, stream: str) -> None:
        """The tick of a stream was answered."""
        self.on_their_way.discard(stream)
        self._granted.discard(stream)

    def passed_over(self, stream: str, now: int) -> None:
        """The tick of a stream was not decided: it comes again later, and ever later until the
        stream comes or changes, because each is a record of the log.
        """
        pause_ms = min(PASSED_OVER_MS_MAX, max(PASSED_OVER_MS, 2 * self._pauses.get(stream, 0)))
        self._pauses[stream] = pause_ms
        self.put_off(stream, now + pause_ms)

    def put_off(self, stream: str, until: int) -> None:
        """The tick of a stream was not decided, and comes again then."""
        self.decided(stream)
        self._timetable.leave_alone(stream, until)

    def came(self, stream: str) -> None:
        """The stream is there, or has changed: whatever held up its tick is over."""
        self._pauses.pop(stream, None)

    def next(self, now: int, memory: StreamMemory, config: Config) -> dict[str, int]:
        """The streams to tick, and since when each is due; they are on their way from here on."""
        due: dict[str, int] = {}
        while len(due) < TICKS_MAX and (came := self._timetable.take_due(now)) is not None:
            key, when = came
            stream = memory.get(key)
            # Of a stream that is not held nothing is known but that its time has come.
            still = when if stream is None else next_due_of(stream, now, config)
            if still is not None and still <= now:
                due[key] = when
            elif stream is not None:
                self._timetable.schedule(stream, now, config)
        granted = self._awaiting_capacity(now, TICKS_MAX - len(due))
        if not due and not granted:
            return due
        self._granted.update(granted)
        for key in granted:
            due.setdefault(key, now)
        fresh = {key: when for key, when in due.items() if key not in self.on_their_way}
        self.on_their_way.update(fresh)
        return fresh

    def _awaiting_capacity(self, now: int, keys_max: int) -> list[str]:
        """Streams that wait for capacity there is, who came first first."""
        if not self._timetable.awaiting:
            return []
        room = min(self._offers.slots_left(now) - len(self.on_their_way), keys_max)
        if room <= 0:
            return []
        found: list[str] = []
        known: dict[Want, bool] = {}
        for key, wants in self._timetable.awaiting.items():
            if key not in self.on_their_way and self._capacity_for(wants, now, known):
                found.append(key)
                if len(found) == room:
                    break
        return found

    def _capacity_for(self, wants: Iterable[Want], now: int, known: dict[Want, bool]) -> bool:
        """Whether an offer fits one of these. `known` remembers what was looked up in the same
        breath.
        """
        for want in wants:
            if want not in known:
                known[want] = self._offers.pick(want[0], now, want[1]) is not None
            if known[want]:
                return True
        return False
