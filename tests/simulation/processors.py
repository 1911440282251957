"""Processors: the product's `Owner` behind a shell that does what the Kafka shell does, step by
step, and may end or stand still between any two steps.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ledger.log.port import Appended, Outgoing, Record
from ledger.log.topics import Topic
from streams.clock import ClockSkewError, check_not_ahead
from streams.held_ticks import HELD_BACK_BY, HeldTicks
from streams.owner import Batch, LostContinuityError, Owner
from streams.waiting_inputs import WaitingInputs
from tests.simulation.catalogue import SKEW_MS
from tests.simulation.cold import Cold
from tests.simulation.processes import Process
from tests.simulation.readmodel import ReadModel
from tests.simulation.world import GENERATION, World

SESSION_MS = 400
"""After which the coordinator gives the partitions of a silent member to others."""
FETCH_MAX = 6
LATE_MS = 3_000
"""How long a message between actions and gates may be on its way."""
PATIENCE_MS = 4_000
"""Longer than any answer of a broker takes: an old time in a late answer is not a wrong one."""
CONFIG, OFFERS, INTERNAL = Topic.CONFIG.value, Topic.OFFERS.value, Topic.INTERNAL.value
LEDGER, QUARANTINE = Topic.LEDGER.value, Topic.QUARANTINE.value
HELD_BY = tuple(topic.value for topic in HELD_BACK_BY)
READ = (*HELD_BY, INTERNAL)


@dataclass(slots=True)
class Seat:
    """What a processor holds of one partition that it owns, or believes to own."""

    owner: Owner
    positions: dict[str, int] = field(default_factory=dict)
    held: HeldTicks = field(default_factory=HeldTicks)
    waiting: WaitingInputs = field(default_factory=WaitingInputs)
    is_open: bool = False
    is_busy: bool = False
    wakes: bool = False
    full: set[tuple[str, int]] = field(default_factory=set)
    """Inboxes that are not read on, because too much of them waits."""
    timer_at: int | None = None
    losses: int = 0


Then = Callable[[Seat, list[Appended]], None]


class Processor(Process):
    """One member of the processors' group."""

    def __init__(self, world: World, number: int, model: ReadModel | None = None) -> None:
        super().__init__(world, "processor", number)
        self.cold = Cold(self, model, world.weather.held_max or 0)
        self.seats: dict[int, Seat] = {}
        self._generation = 0
        self._deaf_until = 0
        for topic in READ:
            self.listen(topic, self._inbox_heard)
        self.listen(CONFIG, lambda _partition: self._config_heard())
        self.listen(OFFERS, self._offer_heard)
        self._offers_from = [self._offers_begin(part) for part in range(world.partitions)]
        world.listen_to_group(self._group_heard)
        world.join(self.name)

    # Who owns what

    def gone(self) -> None:
        """The coordinator notices a silent member after its session."""
        self.world.time.after(SESSION_MS, lambda: self.world.leave(self.name))

    def paused(self, pause_ms: int) -> None:
        """A member that is silent for too long loses its partitions, and learns of it later."""
        if pause_ms > SESSION_MS:
            self.world.reach("owner paused past its session")
            self.world.time.after(SESSION_MS, lambda: self.world.leave(self.name))
            self.after(pause_ms, lambda: self.world.join(self.name))

    def _group_heard(self) -> None:
        if not self.is_gone:
            wait_ms = max(0, self._deaf_until - self.world.time.now)
            self.after(wait_ms + self.world.soon(150), self.learn)

    def _may_be_cut_off(self) -> None:
        """The coordinator loses sight of a member that goes on writing: two owners at once."""
        if self.world.happens("processor_cut_off"):
            cut_off_ms = self.world.chance.randint(1, 1_500)
            self.world.reach("two owners at once")
            self.trace(f"cut off from its group for {cut_off_ms} ms")
            self._deaf_until = self.world.time.now + cut_off_ms
            self.world.leave(self.name)
            self.after(cut_off_ms, lambda: self.world.join(self.name))

    def learn(self) -> None:
        """Hear from the coordinator; every change of the group opens every partition anew."""
        if self._generation == self.world.group.generation:
            return
        if self.world.time.now < self._deaf_until:
            self._group_heard()
            return
        self._generation = self.world.group.generation
        known, self.seats = self.seats, {}
        for partition in self.world.group.assigned(self.name):
            before = known.get(partition)
            # Nobody keeps state about which a batch on its way may yet decide.
            owner = None if before is None or before.is_busy else before.owner
            self._take(partition, owner)

    def _take(self, partition: int, owner: Owner | None) -> None:
        """Fold the ledger to its end and send the barrier of the next epoch."""
        if self.is_gone:
            return
        if owner is None and self.world.happens("forgets") and self._is_nobodys(partition):
            # Nobody owned it for days: retention took ticks that nobody read.
            self.world.reach("ticks forgotten")
            log = self.world.log
            log.forget(INTERNAL, partition, log.end_offset(INTERNAL, partition))
        nonce = f"{self.name}.{self._generation}"
        if owner is None:
            begin = self.cold.checkpoint(partition)
            owner = Owner(partition, self.world.partitions, GENERATION, nonce, checkpoint=begin)
            if self.cold.model is not None:
                owner.memory.held_max = self.cold.held_max
                self.world.reach("began at a checkpoint" if begin else "began at genesis")
        seat = Seat(owner)
        self.seats[partition] = seat
        self._catch_up(seat)
        seat.is_busy = True
        barrier = [seat.owner.barrier()]
        if not self.may_break("with its ledger folded"):
            self.go_on(lambda: self._send(seat, LEDGER, barrier, self._opened))

    def _is_nobodys(self, partition: int) -> bool:
        """Whether no living process has been an owner of the partition until now."""
        others = (one for one in self.world.inhabitants if isinstance(one, Processor))
        return all(one is self or one.is_gone or partition not in one.seats for one in others)

    def _catch_up(self, seat: Seat) -> None:
        owner = seat.owner
        records = self.world.log.read(LEDGER, owner.partition, owner.fold.next_offset)
        self.cold.bring_all(owner, records)
        for record in records:
            owner.feed(record)

    def _send(self, seat: Seat, topic: str, records: list[Outgoing], then: Then) -> None:
        """Append for a seat; an answer for a seat that was given up is nobody's."""

        def done(appended: list[Appended]) -> None:
            if self.seats.get(seat.owner.partition) is seat:
                then(seat, appended)

        self.send(topic, seat.owner.partition, records, done)

    def _opened(self, seat: Seat, appended: list[Appended]) -> None:
        if self.may_break("with its epoch opened"):
            return
        try:
            seat.owner.opened(appended[0], self.mono_ms())
        except LostContinuityError:
            self.world.reach("barrier collided")
            self.crash("its barrier stands elsewhere")
            return
        self._check_clock(appended)
        if self.is_gone:
            return
        self.trace(f"owns {seat.owner.partition} in epoch {seat.owner.fold.epoch}")
        seat.is_open, seat.is_busy = True, False
        self._resume(seat)
        self.cold.keep_up(seat)

    def _resume(self, seat: Seat) -> None:
        """Read on from the ledger's own positions."""
        partition = seat.owner.partition
        seat.positions = {topic: seat.owner.position(topic) for topic in HELD_BY}
        begins = self.world.log.begin_offset(INTERNAL, partition)
        seat.positions[INTERNAL] = max(begins, seat.owner.position(INTERNAL))
        if not self._may_read(seat):
            return
        seat.held.begin(partition, seat.positions)
        seat.full = set()
        seat.waiting.forget(partition)
        self.wake(seat)

    # Rounds

    def _inbox_heard(self, partition: int) -> None:
        seat = self.seats.get(partition)
        if seat is not None:
            self.wake(seat)

    def _config_heard(self) -> None:
        for partition in list(self.seats):
            self._inbox_heard(partition)

    def wake(self, seat: Seat) -> None:
        """Look at the inboxes soon, once."""
        if seat.is_open and not seat.is_busy and not seat.wakes:
            seat.wakes = True
            self.after(self.world.soon(20), lambda: self._round(seat))

    def _round(self, seat: Seat) -> None:
        """Read some, decide, append; take over when it is known to have landed."""
        seat.wakes = False
        if self.seats.get(seat.owner.partition) is not seat or seat.is_busy:
            return
        self._may_be_cut_off()
        if not self._has_work(seat):
            self.keep_time(seat)
            return
        records = self._decidable(seat)
        if self.is_gone:
            return
        batch = seat.owner.take(records, self.mono_ms())
        if not batch.records:
            self.cold.let_go(seat.owner)
            self.keep_time(seat)
            if records:
                self.wake(seat)
            return
        seat.is_busy = True
        if self.world.lines is not None:
            for read in batch.read:
                self.trace(f"decides {read.cause.topic} {read.cause.offset} at {read.at}")
        if not self.may_break("with a batch decided"):
            self.go_on(lambda: self._put(seat, batch))

    def _put(self, seat: Seat, batch: Batch) -> None:
        """Set aside what nobody can read, then append; a seat that was given up appends as well, as
        a process does that does not know yet.
        """
        if batch.quarantine:
            self.world.reach("quarantined")
            self._send(
                seat,
                QUARANTINE,
                batch.quarantine,
                lambda seat, _: self._append(seat, batch),
            )
        else:
            self._append(seat, batch)

    def _append(self, seat: Seat, batch: Batch) -> None:
        self._send(
            seat,
            LEDGER,
            batch.records,
            lambda seat, appended: self._appended(seat, batch, appended),
        )

    def _appended(self, seat: Seat, batch: Batch, appended: list[Appended]) -> None:
        if self.may_break("with a batch landed"):
            return
        owner = seat.owner
        has_landed = True
        try:
            owner.landed(batch, appended, self.mono_ms())
            self._check_clock(appended)
        except LostContinuityError:
            has_landed = False
            self._lost(seat)
        if has_landed and not self.is_gone:
            self._say(owner, batch)
        if not self.is_gone:
            seat.is_busy = False
            self.cold.let_go(owner)
            self.keep_time(seat)
            self.wake(seat)

    def _say(self, owner: Owner, batch: Batch) -> None:
        """What the decisions that stand say to gates and actions; some of it is lost, late, or
        comes twice.
        """
        for partition, messages in owner.messages(batch).items():
            if self.may_break("with messages to say"):
                return
            if self.world.happens("message_lost"):
                self.world.reach("message to or from a gate lost")
                continue
            for delay_ms in self._delays():
                self.after(delay_ms, partial(self._tell, partition, messages))

    def _delays(self) -> list[int]:
        """After which times a message goes on its way."""
        world, delays = self.world, [0]
        if world.happens("message_late"):
            world.reach("message to or from a gate late")
            delays = [world.chance.randint(1, LATE_MS)]
        if world.happens("message_twice"):
            world.reach("message to or from a gate twice")
            delays.append(world.chance.randint(1, LATE_MS))
        return delays

    def _tell(self, partition: int, messages: list[Outgoing]) -> None:
        self.send(INTERNAL, partition, messages, lambda _: None)

    def _check_clock(self, appended: list[Appended]) -> None:
        """A broker whose time of what was just appended is far from ours ends this process."""
        apart_ms = abs(appended[-1].timestamp - self.world.time.now)
        if apart_ms > SKEW_MS + PATIENCE_MS:
            self.world.reach("clocks too far apart")
            self.crash(f"clocks are {apart_ms} ms apart")

    def _is_ahead(self, seat: Seat, records: list[Record]) -> bool:
        """Inputs and offers from the future end this process: nothing is decided in their time."""
        ours = max(seat.owner.running_at(self.mono_ms()), self.world.time.now)
        newest = max([record.timestamp for record in records], default=0)
        try:
            check_not_ahead(newest, running_at=ours, skew_ms=SKEW_MS)
        except ClockSkewError:
            self.world.reach("record from the future refused")
            self.crash("a record comes from the future")
            return True
        return False

    def _lost(self, seat: Seat) -> None:
        """Somebody else wrote: fold what stands there and decide again, once."""
        self.world.reach("continuity lost")
        owner = seat.owner
        seat.losses += 1
        epoch = owner.fold.epoch
        owner.lost()
        self._catch_up(seat)
        if seat.losses > 1 or owner.fold.epoch != epoch:
            self.crash("another owner writes")
            return
        self.world.reach("decided again after a loss")
        self._resume(seat)

    def _may_read(self, seat: Seat) -> bool:
        """An inbox that ends before the position that the ledger has answered was made anew: refuse
        to run.
        """
        log, partition = self.world.log, seat.owner.partition
        for topic in READ:
            if log.end_offset(topic, partition) < seat.positions[topic]:
                self.world.reach("inbox made anew refused")
                self.crash(f"{topic} was made anew")
                return False
        return True

    def _has_work(self, seat: Seat) -> bool:
        """Whether a round would find anything; most that are asked for find nothing."""
        end_of, partition, positions = (
            self.world.log.end_offset,
            seat.owner.partition,
            seat.positions,
        )
        for topic in READ:
            if end_of(topic, partition) != positions[topic]:
                return True
        is_behind = end_of(CONFIG, 0) > seat.owner.position(CONFIG)
        return is_behind or seat.held.is_holding() or bool(seat.waiting.places())

    def _decidable(self, seat: Seat) -> list[Record]:
        """The inputs to decide now: configuration first, ticks last and only when they may; nothing
        before its stream is held.
        """
        owner, waiting = seat.owner, seat.waiting
        fresh, ticks = self._read(seat)
        config = self.world.log.read(CONFIG, 0, owner.position(CONFIG))
        if self._is_ahead(seat, [*config, *fresh, *ticks]):
            return []
        self.cold.bring(seat, [*waiting.first(owner.partition), *fresh, *ticks])
        work = waiting.decidable(owner, fresh)
        for record in fresh:
            seat.held.read(record)
        due = self._held(seat, ticks)
        out_of_reach = self.cold.out_of_reach(owner)
        now = waiting.decidable_internal(owner, due, out_of_reach, self.mono_ms())
        seat.full = waiting.places_full() | seat.held.places_full()
        if seat.full:
            self.world.reach("inbox not read on")
        if waiting.places():
            self.world.reach("input waited for its stream")
            if now:
                self.world.reach("timer or message decided beside an input that waits")
        return [*config, *work, *now]

    def _read(self, seat: Seat) -> tuple[list[Record], list[Record]]:
        """Some of what lies in the inboxes, topics in any order, each in its own; and the ticks."""
        log, partition, positions = self.world.log, seat.owner.partition, seat.positions
        ends = {topic: log.end_offset(topic, partition) for topic in READ}
        fresh = [
            topic
            for topic in READ
            if ends[topic] != positions[topic] and (topic, partition) not in seat.full
        ]
        if not fresh or (
            any(ends[topic] < positions[topic] for topic in READ) and not self._may_read(seat)
        ):
            return [], []
        if len(fresh) > 1:
            self.world.chance.shuffle(fresh)
        records: list[Record] = []
        ticks: list[Record] = []
        for topic in fresh:
            some = self.world.chance.randint(1, FETCH_MAX)
            found = log.read(topic, partition, positions[topic], records_max=some)
            if found:
                positions[topic] = found[-1].offset + 1
                (ticks if topic == INTERNAL else records).extend(found)
        return records, ticks

    def _held(self, seat: Seat, ticks: list[Record]) -> list[Record]:
        """Ticks wait until whatever could answer them was read to where it ended by then; messages
        before them do not.
        """
        log, partition = self.world.log, seat.owner.partition
        if seat.waiting.stands_still(partition):
            came = [*seat.held.give_up(partition), *ticks]
            rest = seat.waiting.without_ticks(seat.owner, came, self.mono_ms())
            if len(rest) < len(came):
                self.world.reach("tick put off while its partition stands still")
            if rest:
                self.world.reach("message decided while its partition stands still")
            return rest
        messages, ticks = (list(some) for some in seat.held.messages_first(partition, ticks))
        if ticks:
            ends = {topic: log.end_offset(topic, partition) for topic in HELD_BY}
            seat.held.hold(partition, ticks, ends)
        released = [*messages, *seat.held.release().get(partition, [])]
        if seat.held.is_holding():
            self.world.reach("tick held back")
            self.wake(seat)
        return released

    # Time and capacity

    def _offers_begin(self, partition: int) -> int:
        """Offers are read from their end; or again from the beginning, where somebody who came back
        after an outage lost its place.
        """
        if self.world.happens("offers_replayed"):
            self.world.reach("offers replayed")
            return 0
        return self.world.log.end_offset(OFFERS, partition)

    def _offer_heard(self, partition: int) -> None:
        log = self.world.log
        if log.end_offset(OFFERS, partition) < self._offers_from[partition]:
            # It was made anew: read on from its end, as after any outage.
            self._offers_from[partition] = 0
        records = log.read(OFFERS, partition, self._offers_from[partition])
        self._offers_from[partition] = log.end_offset(OFFERS, partition)
        seat = self.seats.get(partition)
        if seat is not None:
            self.after(self.world.soon(10), lambda: self._offered(seat, records))

    def _offered(self, seat: Seat, records: list[Record]) -> None:
        if self._is_ahead(seat, records):
            return
        for record in records:
            seat.owner.offered(record)
        self.keep_time(seat)

    def keep_time(self, seat: Seat) -> None:
        """Append the ticks that are due, and look again when the next one will be."""
        if not seat.is_open or self.seats.get(seat.owner.partition) is not seat:
            return
        if seat.waiting.stands_still(seat.owner.partition):
            return
        ticks = seat.owner.ticks(self.mono_ms())
        if ticks:
            self.world.reach("ticked")
            self._send(seat, INTERNAL, ticks, lambda _seat, _appended: None)
        due = seat.owner.next_due_at()
        if due is None:
            return
        wait_ms = max(1, due - seat.owner.running_at(self.mono_ms()))
        at = self.world.time.now + wait_ms
        if seat.timer_at is None or at < seat.timer_at or seat.timer_at <= self.world.time.now:
            seat.timer_at = at
            self.after(wait_ms, lambda: self.keep_time(seat))
