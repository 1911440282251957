"""When the streams of a partition are next due, and which of them wait for capacity.

It knows every stream that is held. Of the others it knows those that are due soon, and some of
those that wait for capacity where there is some. The rest is read back from the projection a page
at a time, in the order of their timers or in which they began to wait, so that memory does not grow
with the number of unfinished actions. Nothing here decides; a tick that comes too early finds
nothing to do. Without I/O; called by the owner of a partition.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from zlib import crc32

from ledger.core.config import Config
from ledger.core.decide.approvals import lapse
from ledger.core.decide.asking import is_shown_otherwise
from ledger.core.decide.ruling import MAY_BE_RULED_ANEW, needs_ruling
from ledger.core.decide.schedule import (
    due_at,
    holders_that_declined,
    may_go_now,
    may_take_offer,
    turn,
)
from ledger.core.state import Action, Status, Stream
from streams.limits import (
    AWAITING_HELD_MAX,
    AWAITING_OPERATION_MIN,
    DUE_AHEAD_MS,
    DUE_HELD_MAX,
    DUE_PAGE_MAX,
    READY_PAGE_MAX,
)

BEGINNING = (0, "")
"""A place before every timer."""

Want = tuple[str, frozenset[str]]
"""An operation that waits for capacity, and the holders that gave the action back."""


@dataclass(frozen=True, slots=True)
class DuePage:
    """A question for the projection: what is due behind a place and up to a log time."""

    behind: tuple[int, str]
    until: int
    limit: int = DUE_PAGE_MAX


@dataclass(frozen=True, slots=True)
class ReadyPage:
    """A question for the projection: who waits for capacity for an operation, behind a place in the
    order in which they came to wait. `serial` tells one question from the same asked later.
    """

    operation: str
    behind: tuple[int, str]
    serial: int
    limit: int


class Timetable:
    """Timers and waiting streams of one partition, by key of the stream."""

    def __init__(self) -> None:
        self._due: list[tuple[int, str]] = []
        self._scheduled: dict[str, int] = {}
        self._awaiting: dict[str, tuple[Want, ...]] = {}
        self._known = Counter[str]()
        self._not_held: set[str] = set()
        self._not_held_of = Counter[str]()
        self._ready_to: dict[str, tuple[int, str]] = {}
        self._ready_through: set[str] = set()
        self._ready_asked: dict[str, ReadyPage] = {}
        self._ready_last = ""
        self._ready_serial = 0
        self._loaded_to = BEGINNING
        self._let_go_at: tuple[int, str] | None = None
        self._loads = False

    def read_back(self) -> None:
        """Not every stream is held: from now on the projection is asked for what is due."""
        if not self._loads:
            self._loads = True
            self.look_again()

    def look_again(self) -> None:
        """Ask the projection for everything that is due soon or waits, from the beginning."""
        self._loaded_to = BEGINNING
        self._ready_to.clear()
        self._ready_through.clear()
        self._ready_asked.clear()

    # What is due

    def schedule(self, stream: Stream, now: int, config: Config, *, spread_ms: int = 0) -> None:
        """Remember when the stream is next due, and whether it waits for capacity. What is due at
        once comes within `spread_ms`, each stream at a moment of its own.
        """
        wants = [
            (action.request.operation, holders_that_declined(action))
            for action in stream.actions
            if may_take_offer(action, now, config) and may_go_now(stream, action)
        ]
        self._await(stream.key, tuple(wants))
        when = next_due_of(stream, now, config)
        if when is not None and when <= now and spread_ms:
            when = now + crc32(stream.key.encode()) % spread_ms
        if when is None:
            self._scheduled.pop(stream.key, None)
        elif self._scheduled.get(stream.key) != when:
            self._put(stream.key, when)

    def leave_alone(self, key: str, until: int) -> None:
        """A fault of ours met a tick and would meet the next one as fast as the log can write, so
        what is due in the stream is tried again later.
        """
        self._await(key, ())
        self._put(key, until)

    def _put(self, key: str, when: int) -> None:
        self._scheduled[key] = when
        heapq.heappush(self._due, (when, key))

    def next_due_at(self) -> int | None:
        """When the next timer is due, in log time."""
        while self._due and self._scheduled.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def take_due(self, now: int) -> tuple[str, int] | None:
        """The stream whose timer is due first, no longer scheduled, and when it was due."""
        when = self.next_due_at()
        if when is None or when > now:
            return None
        _, key = heapq.heappop(self._due)
        del self._scheduled[key]
        return key, when

    # Who waits for capacity

    def _await(self, key: str, wants: tuple[Want, ...]) -> None:
        """What a stream that is held waits for; who waits already keeps its place."""
        before = self._awaiting.get(key, ())
        if before != wants:
            self._known.subtract(_undeclined(before))
            self._known.update(_undeclined(wants))
        if key in self._not_held:
            self._not_held.remove(key)
            self._not_held_of.subtract({operation for operation, _ in before})
        if wants:
            self._awaiting[key] = wants
        else:
            self._awaiting.pop(key, None)

    @property
    def awaiting(self) -> Mapping[str, tuple[Want, ...]]:
        """Streams that wait for capacity, who came first first, and what each waits for."""
        return self._awaiting

    # What is read back

    def let_go(self, stream: Stream, skew_ms: int) -> None:
        """The stream is not held any more, and its row is as it is: its timer comes back from
        there, unless that place in the order has been read already.

        A row stays in its place when its time has passed: an action that waits for capacity since
        its retry was due still stands there, and not where its deadline will be.
        """
        self._let_wait(stream.key)
        when, place = self._scheduled.get(stream.key), _place_of(stream)
        # Rows know no allowance for clocks, so they stand up to this much earlier in the order.
        if when is None or place is None or when <= self._loaded_to[0] + skew_ms:
            return
        if place > self._loaded_to:
            del self._scheduled[stream.key]
            self._let_go_at = place if self._let_go_at is None else min(self._let_go_at, place)

    def page_wanted(self, now: int) -> DuePage | None:
        """What to ask the projection for, or None while enough is known."""
        until = now + DUE_AHEAD_MS
        is_far_enough = self._loaded_to[0] >= now + DUE_AHEAD_MS // 2
        if not self._loads or is_far_enough or len(self._scheduled) > DUE_HELD_MAX:
            return None
        self._let_go_at = None
        return DuePage(self._loaded_to, until)

    def page_read(self, page: DuePage, found: list[tuple[int, str]]) -> None:
        """The streams of a page are held now, and scheduled. What was let go since it was asked for
        may stand in it as it was before: its place is read again.
        """
        end = found[-1] if len(found) >= page.limit else (page.until, "")
        if self._let_go_at is not None and self._let_go_at <= end:
            end = max(page.behind, (self._let_go_at[0] - 1, ""))
        self._loaded_to = end

    def _let_wait(self, key: str) -> None:
        """That a stream waits is remembered without it; where too many do, who waits for this
        operation is read back from its beginning. Each operation has room of its own, so that one
        without capacity hides no other.
        """
        operations = {operation for operation, _ in self._awaiting.get(key, ())}
        if not operations or key in self._not_held:
            return
        has_room = len(self._not_held) < AWAITING_HELD_MAX or any(
            self._not_held_of[operation] < AWAITING_OPERATION_MIN for operation in operations
        )
        if has_room:
            self._not_held.add(key)
            self._not_held_of.update(operations)
            return
        self._await(key, ())
        for operation in operations:
            self._ready_to.pop(operation, None)
            self._ready_through.discard(operation)
            self._ready_asked.pop(operation, None)

    def ready_wanted(self, offered: Collection[str]) -> ReadyPage | None:
        """What to ask the projection for, or None while of every operation that is offered enough
        are known who wait, or all. One operation after another has its turn.
        """
        if not self._loads:
            return None
        wanted = sorted(
            operation
            for operation in offered
            if operation not in self._ready_through
            and self._known[operation] <= READY_PAGE_MAX // 2
        )
        if not wanted:
            return None
        operation = next((one for one in wanted if one > self._ready_last), wanted[0])
        self._ready_last = operation
        page = self._ready_asked.get(operation)
        if page is None:
            self._ready_serial += 1
            behind = self._ready_to.get(operation, BEGINNING)
            page = ReadyPage(operation, behind, self._ready_serial, READY_PAGE_MAX)
            self._ready_asked[operation] = page
        return page

    def ready_read(self, page: ReadyPage, found: list[tuple[int, str]]) -> None:
        """The streams of a page are held now, or were known; fewer than asked for are the last.
        Who was let go without being remembered meanwhile may stand before the page: then it counts
        for nothing.
        """
        asked = self._ready_asked.get(page.operation)
        if asked is None or asked.serial != page.serial:
            return
        del self._ready_asked[page.operation]
        if len(found) < page.limit:
            self._ready_through.add(page.operation)
        else:
            self._ready_to[page.operation] = found[-1]


def _undeclined(wants: tuple[Want, ...]) -> list[str]:
    """Operations that any holder may be asked for: who was declined may wait for a new one."""
    return [operation for operation, declined in wants if not declined]


def next_due_of(stream: Stream, now: int, config: Config) -> int | None:
    """When time alone next changes the stream, in log time."""
    times = [
        _due_at(stream, action, now, config)
        for action in stream.actions
        if not action.is_final or action.claims
    ]
    if stream.gate is not None:
        times.append(stream.gate.due_at)
    return min([time for time in times if time is not None], default=None)


def _due_at(stream: Stream, action: Action, now: int, config: Config) -> int | None:
    asked = action.request.operation, action.request.version
    if action.status in MAY_BE_RULED_ANEW and action.blocked is None:
        if config.operation(*asked) is None:
            return now  # nobody will ever offer what is not in the catalogue any more
        if needs_ruling(action, config):
            return now
        if action.status is Status.READY and lapse(action, config, now) is not None:
            return now
        if is_shown_otherwise(stream, action):
            return now  # asked before an upgrade, with a preview that said less
    elif needs_ruling(action, config) and config.operation(*asked) is not None:
        return now
    if turn(stream, action, config, now) is not None:
        return now
    return due_at(action, now, skew_ms=config.timing.skew_ms)


def _place_of(stream: Stream) -> tuple[int, str] | None:
    """Where the stream's row stands in the order of timers, if it stands there."""
    times = [
        due_at(action, action.updated_at, skew_ms=0)
        for action in stream.actions
        if not action.is_final or action.claims
    ]
    if stream.gate is not None:
        times.append(stream.gate.due_at)
    first = min((time for time in times if time is not None), default=None)
    return None if first is None else (first, stream.key)
