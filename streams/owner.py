"""The owner of one ledger partition, without I/O: fold, open an epoch, decide, see that it landed
where it had to.

The same object runs behind Kafka and behind the simulated log. It never acts on what it sent, only
on what came back: a batch is decided on a copy, and the copy becomes the state when every record of
it is known to stand at the offset it was written for. It must never read a clock; log time and the
caller's monotonic milliseconds are arguments.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.errors import LedgerError
from ledger.core.ids import is_stream_key
from ledger.core.invariants import BrokenInvariantError, invariant
from ledger.core.limits import DECISION_BYTES_MAX
from ledger.core.offers import Offer
from ledger.core.records import Decision, LedgerRecord
from ledger.core.state import Stream
from ledger.core.unchecked import written_with
from ledger.log.envelope import (
    Unreadable,
    encode_ledger,
    holds_nul,
    ledger_headers,
    outgoing,
    read_input,
    read_ledger,
)
from ledger.log.fold import InForce, PartitionFold, fold_decision
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.quarantine import quarantined
from ledger.log.topics import Topic, partition_of
from projections.states import ColdStreams
from streams.barriers import barrier_of
from streams.deciding import Made, Seat, config_of, is_of_tick, make_decision, set_aside
from streams.limits import STREAMS_HELD_MAX
from streams.memory import StreamMemory
from streams.offers import OfferBook
from streams.ticking import Ticking
from streams.timetable import ReadyPage, Timetable

FAULT_PAUSE_MS = 600_000

ADOPTION_SPREAD_MS = 2_000
"""Over how long the streams come to their turn that a new configuration makes due at once."""


class LostContinuityError(LedgerError):
    """A record did not land where it had to: somebody else wrote to the partition."""


class TruncatedLedgerError(LedgerError):
    """The partition ends before a position that was acknowledged: records are gone, and nobody may
    write.
    """


class ForeignCheckpointError(LedgerError):
    """The database was filled from another log than the one that is to be decided on."""


@dataclass(slots=True)
class Batch:
    """Decisions made and not yet known to have landed. `read` is what their bytes say when read
    back; `taken_mono_ms` is when the caller's clock began to run for them. `messages` are said when
    they have landed, and not before.
    """

    partition: int
    first_at: int
    taken_mono_ms: int
    decided_at: int
    in_force: InForce
    config: Config | None
    records: list[Outgoing] = field(default_factory=list)
    read: list[Decision] = field(default_factory=list)
    streams: dict[str, Stream] = field(default_factory=dict)
    messages: list[i.Message] = field(default_factory=list)
    quarantine: list[Outgoing] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


class Owner:
    """Decides for one partition. Calls come in this order: feed …, barrier, opened, then take and
    landed in turn. What it is about to feed or to take may need streams that are not held:
    `missing` names them, `take_in` takes in what the projection has of them.
    """

    def __init__(
        self,
        partition: int,
        partitions: int,
        generation: str,
        nonce: str,
        *,
        checkpoint: PartitionFold | None = None,
        held_max: int = STREAMS_HELD_MAX,
    ) -> None:
        """`nonce` names this owner among all. `checkpoint` is where the projection of the partition
        stands; without one the ledger is fed from its genesis.
        """
        self.partition = partition
        self.partitions = partitions
        self.generation = generation
        self.nonce = nonce
        self.fold = PartitionFold(partition) if checkpoint is None else checkpoint
        self.offers = OfferBook(self.fold.next_offset)
        self.memory = StreamMemory(held_max)
        self.timetable = Timetable()
        self._config: Config | None = None
        self._in_force = InForce()
        self.ticking = Ticking(self.timetable, self.offers)
        self._clock = (0, 0)
        self._opened_at = 0
        if checkpoint is not None:
            self.memory.begin_at(checkpoint.next_offset)
            self.timetable.read_back()
            self._adopt()

    # Folding and opening

    def feed(self, record: Record) -> LedgerRecord | None:
        """Fold the next ledger record, whoever wrote it; the record if it counts, None if it is
        void.
        """
        read = self.fold.feed(record)
        if self.fold.generation is not None:
            invariant(self.fold.generation == self.generation, "a ledger of another generation")
        if isinstance(read, Decision):
            self._settle(read, len(record.value))
        self._adopt()
        return read

    def barrier(self) -> Outgoing:
        """The record that opens the next epoch."""
        return barrier_of(self.fold, generation=self.generation, nonce=self.nonce)

    def opened(self, appended: Appended, mono_ms: int) -> None:
        """The barrier was acknowledged. Raises LostContinuityError when it stands elsewhere: this
        owner must go.
        """
        self._check_place(self.fold.next_offset, appended)
        self.fold.epoch += 1
        self.fold.next_offset += 1
        # Log time of an epoch starts at its barrier's append time, so a slow owner cannot decide in
        # the past. Nobody else knows that time: it is not folded, or an owner that is overtaken
        # while a clock steps back would find that log time runs back.
        self._opened_at = appended.timestamp
        self._clock = (max(appended.timestamp, self.running_at(mono_ms)), mono_ms)

    @property
    def has_opened(self) -> bool:
        """Whether it has opened an epoch; before that, what others opened is history."""
        return self._opened_at > 0

    @property
    def is_configured(self) -> bool:
        """Whether a configuration was adopted; before that only `config` is decided."""
        return self._config is not None

    def position(self, topic: str) -> int:
        """The offset of the next input of an inbox: one behind the highest that the ledger has
        answered.
        """
        return self.fold.positions.get(topic, 0)

    # Time

    def heard(self, timestamp: int, mono_ms: int, sent_mono_ms: int) -> None:
        """An append of our own, sent at `sent_mono_ms`, was acknowledged with this broker time.

        By now the broker's clock is somewhere between that and that plus the time on the way. The
        log time that ran on here is kept inside these bounds: two clocks drift apart for weeks, and
        an acknowledgement that took long brings an old time.
        """
        latest = timestamp + max(0, mono_ms - sent_mono_ms)
        self._clock = (min(max(timestamp, self.running_at(mono_ms)), latest), mono_ms)

    def running_at(self, mono_ms: int) -> int:
        """Log time as it runs on between appends."""
        appended_at, at_mono_ms = self._clock
        return appended_at + max(0, mono_ms - at_mono_ms)

    def ahead_ms(self, mono_ms: int) -> int:
        """How far the time of the last decision is before that of the brokers now, or 0: they were
        set back since, and until they are there again no offer is good for what is decided.
        """
        return max(0, self.fold.decided_at - self.running_at(mono_ms))

    # Deciding

    def take(self, inputs: Sequence[Record], mono_ms: int) -> Batch:
        """Decide inputs in order, each on the state that the ones before lead to. Nothing counts
        until `landed`.
        """
        batch = Batch(
            partition=self.partition,
            first_at=self.fold.next_offset,
            taken_mono_ms=mono_ms,
            decided_at=max(self.fold.decided_at, self._opened_at),
            in_force=self.fold.in_force,
            config=self._config,
        )
        running_at = self.running_at(mono_ms)
        next_offsets = dict(self.fold.positions)

        def stream_of(key: str) -> Stream:
            return batch.streams.get(key) or self.memory.stream(key)

        def pick(operation: str, declined: frozenset[str]) -> Offer | None:
            return self.offers.pick(operation, running_at, declined)

        def pick_for_new(operation: str) -> Offer | None:
            # Ticks on their way hold their slots: who waits longest is served first.
            promised = self.ticking.slots_promised
            if promised and self.offers.slots_left(running_at) <= promised:
                return None
            return self.offers.pick(operation, running_at, frozenset())

        seat = Seat(
            at=batch.first_at,
            epoch=self.fold.epoch,
            generation=self.generation,
            partition=self.partition,
            partitions=self.partitions,
            decided_at=batch.decided_at,
            running_at=running_at,
            config=batch.config,
            in_force=batch.in_force,
            stream_of=stream_of,
            pick=pick,
            pick_for_new=pick_for_new,
        )
        for record in inputs:
            expected = next_offsets.get(record.topic, 0)
            if record.offset < expected:
                continue
            # Offsets without a record are the marks of somebody's transaction: whoever reads from
            # a position gets everything behind it, or hears that it lies outside the log.
            next_offsets[record.topic] = record.offset + 1
            seat.at = batch.first_at + len(batch.records)
            seat.decided_at = max(batch.decided_at, record.timestamp)
            seat.config, seat.in_force = batch.config, batch.in_force
            made = make_decision(record, seat)
            if made is not None:
                self._write(batch, record, made)
        return batch

    def _write(self, batch: Batch, record: Record, made: Made) -> None:
        """Add a decision to the batch, and fold what its own bytes say. One that cannot be written
        gets a small answer instead: nothing behind its input waits.
        """
        written = self._written(batch, made)
        if isinstance(written, Unreadable):
            made = set_aside(record, made, written)
            written = self._written(batch, made)
        assert not isinstance(written, Unreadable), written.detail  # noqa: S101 - it is small
        value, read, after = written
        batch.records.append(
            Outgoing(read.stream.encode() or b"partition", value, ledger_headers(read))
        )
        batch.read.append(read)
        batch.decided_at = read.decided_at
        if after is not None:
            batch.streams[read.stream] = after
        if read.adopted is not None:
            batch.in_force = batch.in_force.after(read.adopted, read.decided_at)
            batch.config = config_of(batch.in_force)
        if made.offer_spent is not None:
            self.offers.reserve(made.offer_spent)
        if made.unreadable is not None:
            why = made.unreadable
            batch.reasons.append(f"{why.reason}: {why.detail}")
            batch.quarantine.append(quarantined(record, reason=why.reason, detail=why.detail))
        batch.messages += made.messages

    def _written(
        self, batch: Batch, made: Made
    ) -> tuple[bytes, Decision, Stream | None] | Unreadable:
        """A decision's bytes, what they say, and the stream after it; or why it cannot be so."""
        try:
            value = encode_ledger(
                made.decision, generation=self.generation, partition=self.partition
            )
            if len(value) > DECISION_BYTES_MAX:
                return Unreadable("too_large", f"its decision would have {len(value)} bytes")
            # The projector stops at it, and with it every reader of the partition.
            if holds_nul(value):
                return Unreadable("nul_character", "its decision would hold the character U+0000")
            read = read_ledger(value)
            invariant(isinstance(read, Decision), "a decision reads back as a decision")
            assert isinstance(read, Decision)  # noqa: S101 - for the type checker
            if not read.facts and not read.gate:
                return value, read, None
            before = batch.streams.get(read.stream) or self.memory.stream(read.stream)
            return value, read, fold_decision(before, read)
        except (BrokenInvariantError, ValueError) as fault:
            return Unreadable("fault_in_fold", f"{type(fault).__name__}: {fault}")

    def landed(self, batch: Batch, appended: Sequence[Appended], mono_ms: int) -> None:
        """Every record was acknowledged. If each stands at its place the batch becomes the state.

        Raises LostContinuityError where one does not; then `lost` and reading what stands there
        comes next.
        """
        for read, place in zip(batch.read, appended, strict=True):
            self._check_place(read.at, place)
        for read, record in zip(batch.read, batch.records, strict=True):
            self.fold.next_offset = read.at + 1
            self.fold.apply(read)
            self._settle(read, len(record.value), batch.streams.get(read.stream))
        self._adopt()
        self.offers.settle_reservations()
        if appended:
            self.heard(appended[-1].timestamp, mono_ms, batch.taken_mono_ms)

    def lost(self) -> None:
        """The batch did not land as decided: forget it. What did land comes back through `feed`."""
        self.offers.settle_reservations()

    def _check_place(self, at: int, appended: Appended) -> None:
        if appended.offset == at:
            return
        if 0 <= appended.offset < at:
            raise TruncatedLedgerError(
                f"Ledger {self.partition} took a record for {at} at {appended.offset}.",
                hint="Records that were acknowledged are gone. Stop all writers; restore the log.",
            )
        raise LostContinuityError(
            f"Ledger {self.partition}: a record for offset {at} stands at {appended.offset}.",
            hint="Another owner writes; read what stands there and decide again, once.",
        )

    def _settle(self, read: Decision, size_bytes: int, folded: Stream | None = None) -> None:
        """Take over what an accepted decision says: state, timers, what waits for capacity.

        `folded` is the stream after the whole batch, folded from the same bytes when it was made.
        """
        is_tick = read.cause.topic == Topic.INTERNAL and is_of_tick(read)
        if is_tick:
            self.ticking.decided(read.stream)
        self.ticking.came(read.stream)
        if read.facts or read.gate:
            if self.memory.is_left_out(read.stream):
                self.memory.pass_over(read.stream, read.at + 1)
            # A row that was loaded may be ahead of what is being folded here.
            elif read.at >= self.memory.folded_to(read.stream):
                after = folded or fold_decision(self.memory.stream(read.stream), read)
                self.memory.put(after, read.at + 1, size_bytes)
            self.offers.saw(read)
        stream = self.memory.get(read.stream)
        if stream is None or self._config is None:
            return
        if is_tick and read.quarantined is not None:
            self.timetable.leave_alone(read.stream, read.decided_at + FAULT_PAUSE_MS)
        else:
            self.timetable.schedule(stream, read.decided_at, self._config)

    def _adopt(self) -> None:
        """Take over the configuration that the fold has come to, and look at what waits again."""
        in_force = self.fold.in_force
        is_known = in_force == self._in_force
        # What is equal is kept as well: the next look finds the very same.
        self._in_force = in_force
        if is_known:
            return
        config = config_of(in_force)
        if config is not None:
            self._config = config
            for stream in self.memory:
                self.timetable.schedule(
                    stream, self.fold.decided_at, config, spread_ms=ADOPTION_SPREAD_MS
                )
            self.timetable.look_again()

    # What is held

    def missing(self, records: Iterable[Record]) -> list[str]:
        """Keys of the streams that these inputs, or ledger records, are about and that have to be
        loaded first, in their order.
        """
        named = (self._missing_of(record) for record in records)
        return list(dict.fromkeys(key for key in named if key is not None))

    def is_missing(self, record: Record) -> bool:
        """Whether the stream of an input has to be loaded before it can be decided."""
        return self._missing_of(record) is not None

    def _missing_of(self, record: Record) -> str | None:
        """Its stream as the key of the record names it: another one makes it misrouted."""
        if self.memory.cold_floor < 0 or record.key is None:
            return None
        key = record.key.decode(errors="replace")
        return None if self.memory.knows(key) or not is_stream_key(key) else key

    def take_in(self, keys: Sequence[str], cold: ColdStreams) -> bool:
        """Take in what the projection says of streams that are not held, in this order: of those
        that wait for capacity the first is served first. False where the projection has not come
        far enough to say anything; then ask again.
        """
        came = self.memory.take_in(keys, cold)
        if came is None:
            return False
        for stream in came.values():
            self.ticking.came(stream.key)
            if self._config is not None:
                self.timetable.schedule(stream, self.fold.decided_at, self._config)
        return True

    def let_go(self) -> None:
        """Keep what is held within its bound, as far as the projection has come."""
        if self._config is None or not self.memory.is_over:
            return
        self.timetable.read_back()
        for stream in self.memory.let_go(self.ticking.on_their_way):
            self.timetable.let_go(stream, self._config.timing.skew_ms)

    # Timers and capacity

    def next_due_at(self) -> int | None:
        """When the next timer is due, in log time."""
        return self.timetable.next_due_at()

    def ready_wanted(self, mono_ms: int) -> ReadyPage | None:
        """Who waits for capacity that there is and has to be read back, or None."""
        return self.timetable.ready_wanted(self.offers.operations(self.running_at(mono_ms)))

    def ticks(self, mono_ms: int) -> list[Outgoing]:
        """Ticks to append to `internal`: one a stream at most, for what is due and for what
        capacity has come for.
        """
        if self._config is None:
            return []
        fresh = self.ticking.next(self.running_at(mono_ms), self.memory, self._config)
        return [self._tick(key, when) for key, when in fresh.items()]

    def passed_over(self, key: str, mono_ms: int) -> None:
        """The tick of a stream is not decided, because an input about it waits, or because it is
        not to be had. It comes again; before that, once the stream comes or changes.
        """
        self.ticking.passed_over(key, self.running_at(mono_ms))

    def put_off(self, key: str, mono_ms: int) -> None:
        """The tick of a stream is not decided, because time stands still in the partition. It comes
        again as soon as ticks are asked for.
        """
        self.ticking.put_off(key, self.running_at(mono_ms))

    def _tick(self, key: str, due: int) -> Outgoing:
        tick = i.Tick(stream=key, generation=self.generation, due_at=due)
        return outgoing(
            tick,
            stream=key,
            subject=None,
            event_id=f"tick.{self.partition}.{self.fold.epoch}.{key}.{due}",
            source=f"/actionledger/{self.generation}/{self.partition}",
        )

    def messages(self, batch: Batch) -> dict[int, list[Outgoing]]:
        """What the decisions of a batch say to gates and actions, by partition of `internal`."""
        saying: dict[int, list[Outgoing]] = {}
        for place, message in enumerate(batch.messages):
            stream = i.stream_of_message(message)
            said = written_with(message, generation=self.generation)
            saying.setdefault(partition_of(stream, self.partitions), []).append(
                outgoing(
                    said,
                    stream=stream,
                    subject=None,
                    event_id=f"message.{self.partition}.{self.fold.epoch}.{batch.first_at}.{place}",
                    source=f"/actionledger/{self.generation}/{self.partition}",
                )
            )
        return saying

    def offered(self, record: Record) -> None:
        """Take an offer from its topic; what is no offer is nobody's capacity."""
        offer = read_input(record)
        if isinstance(offer, i.Offered):
            self.offers.offered(offer, record.timestamp)
