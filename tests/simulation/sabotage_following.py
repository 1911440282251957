"""Seeded bugs in what carries decisions: acceptance, positions, offers, ticks, executors."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from ledger.core.evolve import Place, evolve_all
from ledger.core.facts import AnyFact
from ledger.core.inputs import Decidable
from ledger.core.offers import Offer
from ledger.core.records import Cause, Decision, EpochOpened, Genesis, LedgerRecord, Verdict, accept
from ledger.core.request import RecordedRequest
from ledger.core.state import Stream
from ledger.log import fold
from ledger.log.envelope import Unreadable, read_ledger
from ledger.log.port import Appended, Record
from streams import assignments, deciding, owner
from streams.assignments import Assignment
from streams.held_ticks import HeldTicks
from streams.offers import OfferBook, _Standing
from streams.owner import Batch, Owner
from tests.simulation import executors, processors
from tests.simulation.sabotage import Saboteur

# --- acceptance --------------------------------------------------------------------------------


def _accepts_any_place(epoch: int, offset: int, record: LedgerRecord) -> Verdict:
    match record:
        case Genesis():
            return Verdict.ACCEPTED if offset == 0 else Verdict.VOID_OFFSET
        case EpochOpened():
            return Verdict.ACCEPTED if record.epoch == epoch + 1 else Verdict.VOID_EPOCH
        case Decision():
            return Verdict.ACCEPTED if record.epoch == epoch else Verdict.VOID_EPOCH


def _accepts_an_epoch_twice(epoch: int, offset: int, record: LedgerRecord) -> Verdict:
    match record:
        case EpochOpened():
            return Verdict.ACCEPTED if record.epoch in {epoch, epoch + 1} else Verdict.VOID_EPOCH
        case _:
            return accept(epoch, offset, record)


def _checks_no_place(self: Owner, at: int, appended: Appended) -> None:
    """The record that was sent is taken for the record that stands there."""


def _positions_before_landing(self: Owner, batch: Batch) -> None:
    """Inputs count as decided as soon as they are sent."""
    for read in batch.read:
        self.fold.positions[read.cause.topic] = read.cause.offset + 1


_original_append = processors.Processor._append


def _append_and_move_on(self: processors.Processor, seat: processors.Seat, batch: Batch) -> None:
    _positions_before_landing(seat.owner, batch)
    _original_append(self, seat, batch)


def _forgets_the_batch_and_goes_on(self: processors.Processor, seat: processors.Seat) -> None:
    """After a loss the inputs of the batch are not read again."""
    self.world.reach("continuity lost")
    seat.owner.lost()
    self._catch_up(seat)


def _skips_poison(
    record: Record, cause: Cause, seat: deciding.Seat, why: Unreadable, stream_key: str = ""
) -> None:
    """What cannot be read is passed over without a word."""


def _poison_ends_the_process(
    self: processors.Processor, seat: processors.Seat, batch: Batch
) -> None:
    """What cannot be read ends whoever reads it, again and again."""
    if batch.quarantine:
        self.crash("poison")
    else:
        _original_put(self, seat, batch)


_original_put = processors.Processor._put
_original_decided = deciding._decided


def _decides_what_lives_elsewhere(
    record: Record, given: Decidable, cause: Cause, seat: deciding.Seat, stream_key: str | None
) -> deciding.Made:
    """A key is decided in whatever partition it comes in."""
    key = record.key if stream_key is None else stream_key.encode()
    anywhere = replace(seat, partition=0, partitions=1)
    return _original_decided(record._replace(key=key), given, cause, anywhere, stream_key)


_original_make = deciding.make_decision


def _time_of_the_input(record: Record, seat: deciding.Seat) -> deciding.Made | None:
    """A decision has the time of its input, though that of the one before is later."""
    return _original_make(record, replace(seat, decided_at=record.timestamp))


def _any_time_will_do(appended_at: int, *, running_at: int, skew_ms: int) -> None:
    """An input from the future is taken for what it says."""


def _evolves_by_the_wall_clock(stream: Stream, facts: Sequence[AnyFact], place: Place) -> Stream:
    return evolve_all(stream, facts, replace(place, decided_at=time.time_ns() // 1_000_000))


# --- offers and ticks --------------------------------------------------------------------------


_original_pick, _original_left = OfferBook.pick, OfferBook._left


def _picks_what_has_lapsed(
    self: OfferBook, operation: str, running_at: int, declined: frozenset[str]
) -> Offer | None:
    """An offer stands until another one comes."""
    offer = _original_pick(self, operation, 0, declined)
    return None if offer is None else replace(offer, until_at=2**52)


def _all_slots_left(self: OfferBook, standing: _Standing) -> int:
    """Starts that an offer was spent on do not count against it."""
    return standing.offered.slots


def _is_always_read(self: HeldTicks, partition: int, ends: Mapping[str, int]) -> bool:
    """A timer waits for nobody."""
    return True


# --- executors ---------------------------------------------------------------------------------


def _looks_before_connecting(self: executors.Executor, call: executors.Call) -> None:
    """The last check is the one before the connection was opened."""
    if not self.may_break("before the first byte"):
        self.go_on(lambda: self._first_byte(call, self.world.time.now))


def _waits_on_any_connection(
    self: executors.Executor, call: executors.Call, checked_at: int
) -> None:
    """Between the last check and the first byte any time may pass."""
    _original_first_byte(self, call, self.world.time.now)


_original_first_byte = executors.Executor._first_byte
_original_objection = assignments.objection


def _minds_the_lease_only(
    assignment: Assignment, request: RecordedRequest, mono_ms: int, *, margin_ms: int
) -> str | None:
    """A call may begin as long as its lease lives."""
    code = _original_objection(assignment, request, mono_ms, margin_ms=margin_ms)
    return None if code in {"deadline_over", "key_window_closed"} else code


_original_begin = executors.Executor._begin


def _counts_from_reading(self: executors.Executor, assignment: Assignment) -> None:
    """The lease is counted from when the start was read, not from when the offer was sent."""
    _original_begin(self, replace(assignment, offered_mono_ms=self.mono_ms()))


class _Gullible(fold.PartitionFold):
    """A reader to whom everything counts that stands in the log."""

    def feed(self, record: Record) -> LedgerRecord:
        """Take the next record, whoever wrote it."""
        self.next_offset = record.offset + 1
        return read_ledger(record.value)


FOLLOWING: Final[dict[str, Saboteur]] = {
    "no_place_check": Saboteur(
        "a record counts wherever it stands, a late batch of an old producer too",
        15,
        ((fold, "accept", _accepts_any_place),),
    ),
    "equal_epoch_accepted": Saboteur(
        "an epoch may be opened a second time",
        15,
        ((fold, "accept", _accepts_an_epoch_twice),),
    ),
    "own_record_not_checked": Saboteur(
        "what was sent is believed to stand where it was meant to",
        12,
        ((Owner, "_check_place", _checks_no_place),),
    ),
    "inputs_not_read_again": Saboteur(
        "after a loss of continuity the batch is forgotten with its inputs",
        109,
        ((processors.Processor, "_lost", _forgets_the_batch_and_goes_on),),
    ),
    "offset_before_ack": Saboteur(
        "inputs count as decided when they are sent",
        0,
        ((processors.Processor, "_append", _append_and_move_on),),
    ),
    "poison_skipped": Saboteur(
        "a record that cannot be read is passed over in silence",
        10,
        ((deciding, "_quarantined", _skips_poison),),
    ),
    "poison_blocks_its_partition": Saboteur(
        "a record that cannot be read ends whoever reads it",
        10,
        ((processors.Processor, "_put", _poison_ends_the_process),),
    ),
    "one_key_on_two_partitions": Saboteur(
        "a key is decided in whatever partition it comes in",
        207,
        ((deciding, "_decided", _decides_what_lives_elsewhere),),
    ),
    "log_time_of_the_input": Saboteur(
        "log time runs back where a broker's clock does",
        3,
        ((owner, "make_decision", _time_of_the_input),),
    ),
    "time_from_the_future": Saboteur(
        "an input or an offer from the future takes log time with it",
        123,
        ((processors, "check_not_ahead", _any_time_will_do),),
    ),
    "wall_clock_in_the_fold": Saboteur(
        "a state has the time at which it was folded",
        0,
        ((fold, "evolve_all", _evolves_by_the_wall_clock),),
    ),
    "lapsed_offer_spent": Saboteur(
        "an offer stands until another one comes, also when it is read again after an outage",
        1,
        ((OfferBook, "pick", _picks_what_has_lapsed),),
    ),
    "offer_spent_twice": Saboteur(
        "what an offer was spent on does not count against it",
        6,
        ((OfferBook, "_left", _all_slots_left),),
    ),
    "tick_not_held_back": Saboteur(
        "a timer fires before an outcome that already lies in the inbox",
        136,
        ((HeldTicks, "_is_read_to", _is_always_read),),
    ),
    "lease_from_reading": Saboteur(
        "the holder counts its lease from when it reads its start",
        35,
        ((executors.Executor, "_begin", _counts_from_reading),),
    ),
    "last_check_before_connecting": Saboteur(
        "nobody looks again once the connection is open",
        86,
        ((executors.Executor, "_connected", _looks_before_connecting),),
    ),
    "any_time_before_the_first_byte": Saboteur(
        "between the last check and the first byte any time may pass",
        556,
        ((executors.Executor, "_first_byte", _waits_on_any_connection),),
    ),
    "lease_is_all_that_counts": Saboteur(
        "deadline and key window are checked where a start is decided, and not before the call",
        58,
        ((executors, "objection", _minds_the_lease_only),),
    ),
    "void_starts_acted_on": Saboteur(
        "an executor acts on a start that does not count",
        22,
        ((assignments, "PartitionFold", _Gullible),),
    ),
}
