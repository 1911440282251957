"""What a processor's shell does about streams that it does not hold: ask the read model, let inputs
wait meanwhile, look after timers that lie there, and let go of what is too much.

An answer is as old as the question, and comes after things have moved on; the database may be away.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from projections.states import ColdStreams
from streams.owner import Owner
from tests.simulation.readmodel import ReadModel

if TYPE_CHECKING:
    from tests.simulation.processors import Processor, Seat

KEEP_UP_MS = 1_000
FILTER_BYTES = 8
"""So small that some new keys are not told from old ones, and the read model is asked for them."""
KEYS_PAGE_MAX = 2
SOON_MS, SLOW_MS = 60, 4_000
PAGE_MAX = 1
"""Timers are read back one at a time, so that paging happens in small worlds."""


class Cold:
    """The read model as one processor sees it. Without one everything is held."""

    def __init__(self, processor: "Processor", model: ReadModel | None, held_max: int) -> None:
        self.processor = processor
        self.model = model
        self.held_max = held_max
        self._asking: set[int] = set()
        self._is_away = False
        self._owed: dict[int, set[str]] = {}
        """By partition, streams whose rows were found to lie: they are asked for by name."""

    def checkpoint(self, partition: int) -> PartitionFold | None:
        """Where a new owner may begin."""
        return None if self.model is None else self.model.checkpoint(partition)

    def bring_all(self, owner: Owner, records: Iterable[Record]) -> None:
        """Load what folding these ledger records needs, before anything else."""
        missing = [] if self.model is None else owner.missing(records)
        missing = [key for key in missing if not owner.memory.is_left_out(key)]
        if missing and self.model is not None:
            answer = self.model.load(owner.partition, missing)
            owner.memory.leave_out(answer.damaged)
            self._take_in(owner, missing, answer)

    def out_of_reach(self, owner: Owner) -> Callable[[str], bool]:
        """Which streams of an owner will not come soon: their rows lie, or the database is away."""
        return lambda key: self._is_away or key in self._owed.get(owner.partition, ())

    def bring(self, seat: "Seat", records: Iterable[Record]) -> None:
        """Ask for what deciding these inputs needs; they wait for the answer."""
        if self.model is None:
            return
        partition = seat.owner.partition
        missing = seat.owner.missing(records)
        if not missing or partition in self._asking:
            return
        processor, world = self.processor, self.processor.world
        self._asking.add(partition)
        if world.happens("database_away"):
            world.reach("database away")
            processor.after(world.soon(600), partial(self._asked_in_vain, partition))
        else:
            answer = self.model.load(partition, missing)
            slow = world.happens("database_slow")
            delay_ms = world.soon(SLOW_MS if slow else SOON_MS)
            processor.after(delay_ms, partial(self._answered, partition, missing, answer))

    def _asked_in_vain(self, partition: int) -> None:
        self._asking.discard(partition)
        self._is_away = True
        self._wake(partition)

    def _answered(self, partition: int, asked: Sequence[str], answer: ColdStreams) -> None:
        """Whoever owns the partition by now takes it for what it is: an answer of then."""
        self._asking.discard(partition)
        self._is_away = False
        seat = self.processor.seats.get(partition)
        if seat is not None:
            self._take_in(seat.owner, asked, answer)
            self._wake(partition)

    def _take_in(self, owner: Owner, asked: Sequence[str], answer: ColdStreams) -> bool:
        world = self.processor.world
        if not owner.take_in(asked, answer):
            world.reach("projection behind what is not held")
            return False
        owed = self._owed.setdefault(owner.partition, set())
        owed.difference_update(asked)
        owed.update(key for key in asked if not owner.memory.knows(key))
        if answer.damaged:
            world.reach("rows of a stream lie")
        world.reach("cold stream loaded" if answer.streams else "cold stream is new")
        return True

    def _wake(self, partition: int) -> None:
        seat = self.processor.seats.get(partition)
        if seat is not None:
            self.processor.wake(seat)

    def let_go(self, owner: Owner) -> None:
        """At the end of a round: forget what came to nothing, keep the bound."""
        floor = owner.memory.cold_floor
        owner.memory.forget_new()
        owner.let_go()
        if owner.memory.cold_floor > floor >= 0:
            self.processor.world.reach("stream let go")

    def keep_up(self, seat: "Seat") -> None:
        """Every so often: load what is due soon or may start, and see how far the projection is."""
        if self.model is None or self.processor.seats.get(seat.owner.partition) is not seat:
            return
        self.processor.after(KEEP_UP_MS, partial(self.keep_up, seat))
        owner, now = seat.owner, seat.owner.running_at(self.processor.mono_ms())
        page = owner.timetable.page_wanted(now)
        if page is not None:
            page = replace(page, limit=PAGE_MAX)
            due = self.model.due(owner.partition, page.behind, page.until, page.limit)
            keys = [key for _, key in due]
            self._hold(seat, keys, partial(owner.timetable.page_read, page, due))
        owed = sorted(self._owed.get(owner.partition, ()))
        if owed:
            self._hold(seat, owed, lambda: None)
        wanted = owner.ready_wanted(self.processor.mono_ms())
        if wanted is not None:
            wanted = replace(wanted, limit=PAGE_MAX)
            ready = self.model.ready(owner.partition, wanted.operation, wanted.behind, wanted.limit)
            unknown = [key for _, key in ready if key not in owner.timetable.awaiting]
            self._hold(seat, unknown, partial(owner.timetable.ready_read, wanted, ready))
        if owner.memory.wants_filter and owner.partition % 2:
            owner.memory.begin_filter(FILTER_BYTES)
            self._fill(owner, "")
        if owner.memory.is_over:
            owner.memory.projected(self.model.live.folds[owner.partition].next_offset)
        if not seat.is_busy:
            self.let_go(owner)
        if seat.waiting.places():
            self.processor.wake(seat)
        self.processor.keep_time(seat)

    def _fill(self, owner: Owner, behind: str) -> None:
        """Add a page of keys to the filter of an owner, and go on with the next a while later."""
        seat, world = self.processor.seats.get(owner.partition), self.processor.world
        if self.model is None or seat is None or seat.owner is not owner:
            return
        if world.happens("database_away"):
            self.processor.after(world.soon(SLOW_MS), partial(self._fill, owner, behind))
            return
        keys, projected_offset = self.model.keys(owner.partition, behind, KEYS_PAGE_MAX)
        if not owner.memory.fill(keys, projected_offset):
            return
        if len(keys) < KEYS_PAGE_MAX:
            owner.memory.filled()
            world.reach("filter filled")
        else:
            self.processor.after(world.soon(SLOW_MS), partial(self._fill, owner, keys[-1]))

    def _hold(self, seat: "Seat", keys: Sequence[str], then: Callable[[], None]) -> None:
        """Load what is not held of these, at once or a good while later, and go on from there."""
        assert self.model is not None
        unknown = [key for key in dict.fromkeys(keys) if not seat.owner.memory.knows(key)]
        if not unknown:
            then()
            return
        answer = self.model.load(seat.owner.partition, unknown)
        world = self.processor.world
        if world.happens("database_slow"):
            world.reach("database slow")
            later = partial(self._holds, seat, unknown, answer, then)
            self.processor.after(world.soon(SLOW_MS), later)
        else:
            self._holds(seat, unknown, answer, then)

    def _holds(
        self, seat: "Seat", asked: Sequence[str], answer: ColdStreams, then: Callable[[], None]
    ) -> None:
        is_still_ours = self.processor.seats.get(seat.owner.partition) is seat
        if is_still_ours and self._take_in(seat.owner, asked, answer):
            then()
            self.processor.keep_time(seat)
