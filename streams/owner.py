"""The owner of one ledger partition, without I/O: fold, open an epoch, decide, see that it landed
where it had to.

The same object runs behind Kafka and behind the simulated log. It never acts on what it sent, only
on what came back: a batch is decided on a copy, and the copy becomes the state when every record of
it is known to stand at the offset it was written for. It must never read a clock; log time and the
caller's monotonic milliseconds are arguments.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide.schedule import awaits_offer, due_at
from ledger.core.errors import LedgerError
from ledger.core.invariants import BrokenInvariantError, invariant
from ledger.core.limits import DECISION_BYTES_MAX, TICKS_MAX
from ledger.core.offers import Offer
from ledger.core.records import Adopted, Decision, EpochOpened, LedgerRecord
from ledger.core.state import Action, Status, Stream
from ledger.log.envelope import (
    Unreadable,
    encode_ledger,
    ledger_headers,
    outgoing,
    read_input,
    read_ledger,
)
from ledger.log.fold import PartitionFold, fold_decision
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.quarantine import quarantined
from ledger.log.topics import Topic
from streams.deciding import Made, Seat, config_of, holders_that_declined, make_decision, set_aside
from streams.offers import OfferBook

FAULT_PAUSE_MS = 600_000


class LostContinuityError(LedgerError):
    """A record did not land where it had to: somebody else wrote to the partition."""


class TruncatedLedgerError(LedgerError):
    """The partition ends before a position that was acknowledged: records are gone, and nobody may
    write.
    """


@dataclass(slots=True)
class Batch:
    """Decisions made and not yet known to have landed. `read` is what their bytes say when read
    back; `taken_mono_ms` is when the caller's clock began to run for them.
    """

    first_at: int
    taken_mono_ms: int
    decided_at: int
    adopted: Adopted | None
    config: Config | None
    records: list[Outgoing] = field(default_factory=list)
    read: list[Decision] = field(default_factory=list)
    streams: dict[str, Stream] = field(default_factory=dict)
    quarantine: list[Outgoing] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


class Owner:
    """Decides for one partition. Calls come in this order: feed …, barrier, opened, then take and
    landed in turn.
    """

    def __init__(self, partition: int, partitions: int, generation: str, nonce: str) -> None:
        self.partition = partition
        self.partitions = partitions
        self.generation = generation
        self.nonce = nonce
        self.fold = PartitionFold(partition)
        self.offers = OfferBook()
        self.streams: dict[str, Stream] = {}
        self._config: Config | None = None
        self._due: list[tuple[int, str]] = []
        self._scheduled: dict[str, int] = {}
        self._awaiting: dict[str, None] = {}
        self._ticking: set[str] = set()
        self._granted: set[str] = set()
        self._clock = (0, 0)

    # Folding and opening

    def feed(self, record: Record) -> LedgerRecord | None:
        """Fold the next ledger record, whoever wrote it; the record if it counts, None if it is
        void.
        """
        read = self.fold.feed(record)
        if self.fold.generation is not None:
            invariant(self.fold.generation == self.generation, "a ledger of another generation")
        if isinstance(read, Decision):
            self._settle(read)
        self._adopt(self.fold.adopted)
        return read

    def barrier(self) -> Outgoing:
        """The record that opens the next epoch, for exactly the place behind what was folded."""
        opened = EpochOpened(
            at=self.fold.next_offset,
            epoch=self.fold.epoch + 1,
            nonce=self.nonce,
            adopted=self.fold.adopted,
        )
        value = encode_ledger(opened, generation=self.generation, partition=self.partition)
        return Outgoing(b"epoch", value, ledger_headers(opened))

    def opened(self, appended: Appended, mono_ms: int) -> None:
        """The barrier was acknowledged. Raises LostContinuityError when it stands elsewhere: this
        owner must go.
        """
        self._check_place(self.fold.next_offset, appended)
        self.fold.epoch += 1
        self.fold.next_offset += 1
        # Log time of an epoch starts at its barrier's append time, so a slow owner cannot decide in
        # the past.
        self.fold.decided_at = max(self.fold.decided_at, appended.timestamp)
        self._clock = (max(appended.timestamp, self.running_at(mono_ms)), mono_ms)

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

    # Deciding

    def take(self, inputs: Sequence[Record], mono_ms: int) -> Batch:
        """Decide inputs in order, each on the state that the ones before lead to. Nothing counts
        until `landed`.
        """
        batch = Batch(
            first_at=self.fold.next_offset,
            taken_mono_ms=mono_ms,
            decided_at=self.fold.decided_at,
            adopted=self.fold.adopted,
            config=self._config,
        )
        running_at = self.running_at(mono_ms)
        next_offsets = dict(self.fold.positions)

        def stream_of(key: str) -> Stream:
            return batch.streams.get(key) or self.streams.get(key) or Stream(key)

        def pick(operation: str, declined: frozenset[str]) -> Offer | None:
            return self.offers.pick(operation, running_at, declined)

        def pick_for_new(operation: str) -> Offer | None:
            # Ticks on their way hold their slots: who waits longest is served first.
            if self._granted and self.offers.slots_left(running_at) <= len(self._granted):
                return None
            return self.offers.pick(operation, running_at, frozenset())

        for record in inputs:
            expected = next_offsets.get(record.topic, 0)
            if record.offset < expected:
                continue
            invariant(
                record.offset == expected or not expected or record.topic == Topic.INTERNAL,
                "an input was passed over: inboxes have no gaps",
            )
            next_offsets[record.topic] = record.offset + 1
            seat = Seat(
                at=batch.first_at + len(batch.records),
                epoch=self.fold.epoch,
                generation=self.generation,
                partition=self.partition,
                partitions=self.partitions,
                decided_at=max(batch.decided_at, record.timestamp),
                config=batch.config,
                stream_of=stream_of,
                pick=pick,
                pick_for_new=pick_for_new,
            )
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
            batch.adopted, batch.config = read.adopted, config_of(read.adopted)
        if made.offer_spent is not None:
            self.offers.reserve(made.offer_spent)
        if made.unreadable is not None:
            why = made.unreadable
            batch.reasons.append(f"{why.reason}: {why.detail}")
            batch.quarantine.append(quarantined(record, reason=why.reason, detail=why.detail))

    def _written(
        self, batch: Batch, made: Made
    ) -> tuple[bytes, Decision, Stream | None] | Unreadable:
        """A decision's bytes, what they say, and the stream after it; or why it cannot be so."""
        value = encode_ledger(made.decision, generation=self.generation, partition=self.partition)
        if len(value) > DECISION_BYTES_MAX:
            return Unreadable("too_large", f"its decision would have {len(value)} bytes")
        try:
            read = read_ledger(value)
            invariant(isinstance(read, Decision), "a decision reads back as a decision")
            assert isinstance(read, Decision)  # noqa: S101 - for the type checker
            if not read.facts:
                return value, read, None
            before = batch.streams.get(read.stream) or self.streams.get(read.stream)
            return value, read, fold_decision(before or Stream(read.stream), read)
        except (BrokenInvariantError, ValueError) as fault:
            return Unreadable("fault_in_fold", f"{type(fault).__name__}: {fault}")

    def landed(self, batch: Batch, appended: Sequence[Appended], mono_ms: int) -> None:
        """Every record was acknowledged. If each stands at its place the batch becomes the state.

        Raises LostContinuityError where one does not; then `lost` and reading what stands there
        comes next.
        """
        for read, place in zip(batch.read, appended, strict=True):
            self._check_place(read.at, place)
        for read in batch.read:
            self.fold.next_offset = read.at + 1
            self.fold.apply(read)
            self._settle(read, batch.streams.get(read.stream))
        self._adopt(batch.adopted)
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

    def _settle(self, read: Decision, folded: Stream | None = None) -> None:
        """Take over what an accepted decision says: state, timers, what waits for capacity.

        `folded` is the stream after the whole batch, folded from the same bytes when it was made.
        """
        is_tick = read.cause.topic == Topic.INTERNAL
        if is_tick:
            self._ticking.discard(read.stream)
            self._granted.discard(read.stream)
        if read.facts:
            before = self.streams.get(read.stream) or Stream(read.stream)
            self.streams[read.stream] = folded or fold_decision(before, read)
            self.offers.saw(read)
        if read.stream not in self.streams:
            return
        if is_tick and read.quarantined is not None:
            self._leave_alone(read.stream, read.decided_at + FAULT_PAUSE_MS)
        else:
            self._schedule(self.streams[read.stream], read.decided_at)

    def _adopt(self, adopted: Adopted | None) -> None:
        if adopted is None:
            return
        if self._config is None or self._config.content_hash != adopted.content_hash:
            self._config = config_of(adopted)
            for stream in self.streams.values():
                self._schedule(stream, self.fold.decided_at)

    # Timers and capacity

    def _schedule(self, stream: Stream, now: int) -> None:
        """Remember when the stream is next due, and whether it waits for capacity."""
        if self._config is None:
            return
        if any(awaits_offer(action, now) for action in stream.actions):
            self._awaiting[stream.key] = None
        when = self._next_due_of(stream, now)
        if when is None:
            self._scheduled.pop(stream.key, None)
        elif self._scheduled.get(stream.key) != when:
            self._scheduled[stream.key] = when
            heapq.heappush(self._due, (when, stream.key))

    def _leave_alone(self, key: str, until: int) -> None:
        """A fault of ours met a tick and would meet the next one as fast as the log can write, so
        what is due in the stream is tried again later.
        """
        self._awaiting.pop(key, None)
        self._scheduled[key] = until
        heapq.heappush(self._due, (until, key))

    def _next_due_of(self, stream: Stream, now: int) -> int | None:
        times = (self._due_at(action, now) for action in stream.actions if not action.is_final)
        return min((time for time in times if time is not None), default=None)

    def _due_at(self, action: Action, now: int) -> int | None:
        assert self._config is not None  # noqa: S101 - nothing is scheduled before that
        asked = action.request.operation, action.request.version
        if action.status is Status.READY and self._config.operation(*asked) is None:
            return now  # nobody will ever offer what is not in the catalogue any more
        return due_at(action, now, skew_ms=self._config.timing.skew_ms)

    def next_due_at(self) -> int | None:
        """When the next timer is due, in log time."""
        while self._due and self._scheduled.get(self._due[0][1]) != self._due[0][0]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def ticks(self, mono_ms: int) -> list[Outgoing]:
        """Ticks to append to `internal`: one a stream at most, for what is due and for what
        capacity has come for.
        """
        now = self.running_at(mono_ms)
        due: dict[str, int] = {}
        while (when := self.next_due_at()) is not None and when <= now and len(due) < TICKS_MAX:
            _, key = heapq.heappop(self._due)
            del self._scheduled[key]
            stream = self.streams[key]
            still = self._next_due_of(stream, now)
            if still is not None and still <= now:
                due[key] = when
            else:
                self._schedule(stream, now)
        granted = self._awaiting_capacity(now, TICKS_MAX - len(due))
        self._granted.update(granted)
        for key in granted:
            due.setdefault(key, now)
        fresh = [key for key in due if key not in self._ticking]
        self._ticking.update(fresh)
        return [self._tick(key, due[key]) for key in fresh]

    def _awaiting_capacity(self, now: int, keys_max: int) -> list[str]:
        """Streams that wait for capacity there is: no more than there are slots which no tick on
        its way may take, because a tick that finds none is a decision for nothing.
        """
        room = min(self.offers.slots_left(now) - len(self._ticking), keys_max)
        if room <= 0:
            return []
        found: list[str] = []
        known: dict[tuple[str, frozenset[str]], bool] = {}
        for key in list(self._awaiting):
            if key not in self._ticking and self._capacity_for(key, now, known):
                found.append(key)
                if len(found) == room:
                    break
        return found

    def _capacity_for(
        self, key: str, now: int, known: dict[tuple[str, frozenset[str]], bool]
    ) -> bool:
        """Whether an offer fits an action of the stream that still waits; forgets streams that wait
        no longer. `known` remembers what was looked up in the same breath.
        """
        waiting = [action for action in self.streams[key].actions if awaits_offer(action, now)]
        if not waiting:
            del self._awaiting[key]
            return False
        for action in waiting:
            wanted = (action.request.operation, holders_that_declined(action))
            if wanted not in known:
                known[wanted] = self.offers.pick(wanted[0], now, wanted[1]) is not None
            if known[wanted]:
                return True
        return False

    def _tick(self, key: str, due: int) -> Outgoing:
        tick = i.Tick(stream=key, generation=self.generation, due_at=due)
        return outgoing(
            tick,
            stream=key,
            subject=None,
            event_id=f"tick.{self.partition}.{self.fold.epoch}.{key}.{due}",
            source=f"/actionledger/{self.generation}/{self.partition}",
        )

    def offered(self, record: Record) -> None:
        """Take an offer from its topic; what is no offer is nobody's capacity."""
        offer = read_input(record)
        if isinstance(offer, i.Offered):
            self.offers.offered(offer, record.timestamp)
