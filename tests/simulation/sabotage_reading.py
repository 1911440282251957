"""Seeded bugs in what reads back and tells: the read model, cold streams, webhooks, callers."""

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from ledger.client.progress import ActionsSeen
from ledger.core.inputs import Report, Success
from ledger.core.records import Decision
from ledger.core.state import Stream
from ledger.log.envelope import read_input
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from ledger.log.topics import Topic
from projections.fold import Folding, Held, read_batch
from projections.states import ColdStreams
from streams.memory import StreamMemory
from streams.owner import Owner
from streams.timetable import DuePage, Timetable
from streams.waiting_inputs import Turn, WaitingInputs
from tests.simulation import finders, readmodel
from tests.simulation.provider import Event
from tests.simulation.sabotage import Saboteur

# --- cold streams ------------------------------------------------------------------------------


def _believes_any_answer(
    self: StreamMemory, keys: Sequence[str], cold: ColdStreams
) -> Mapping[str, Stream] | None:
    """What the database says is taken for what is, however far behind it was."""
    floor, self.cold_floor = self.cold_floor, -1
    came = _original_take_in(self, keys, cold)
    self.cold_floor = floor
    return came


_original_take_in = StreamMemory.take_in


def _knows_everything(self: StreamMemory, key: str) -> bool:
    """What is not held is taken for new."""
    return True


_original_let_go = StreamMemory.let_go


def _filter_hears_nothing(self: StreamMemory, pinned: Collection[str]) -> list[Stream]:
    """What is let go after the filter was begun is not in it."""
    kept, self._filter = self._filter, None
    gone = _original_let_go(self, pinned)
    self._filter = kept
    return gone


def _folded_to_nothing(self: StreamMemory, key: str) -> int:
    """A row that is ahead of what is being folded gets the same decisions again."""
    return 0


def _asks_for_no_timers(self: Timetable, now: int) -> DuePage | None:
    """The timers of streams that are let go are forgotten with them."""
    return None


def _no_stream_has_an_answer(self: WaitingInputs, partition: int, key: bytes | None) -> bool:
    """Timers win over answers that were read and wait."""
    return False


_original_decidable_internal = WaitingInputs.decidable_internal


def _times_wait_with_an_inbox(
    self: WaitingInputs,
    owner: Owner,
    due: Iterable[Record],
    is_out_of_reach: Callable[[str], bool],
    mono_ms: int,
) -> list[Record]:
    """While an input waits, whatever is due by time in its partition waits with it."""
    others = {part for topic, part in self.places() if topic != Topic.INTERNAL}
    if owner.partition not in others:
        return _original_decidable_internal(self, owner, due, is_out_of_reach, mono_ms)
    self._go_through(owner.partition, (), due, lambda _: Turn.WAITS, {})
    return []


def _internal_waits_in_order(
    self: WaitingInputs,
    owner: Owner,
    due: Iterable[Record],
    is_out_of_reach: Callable[[str], bool],
    mono_ms: int,
) -> list[Record]:
    """Behind a timer of a stream that is not to be had all timers of its partition wait."""
    return _original_decidable_internal(self, owner, due, lambda _: False, mono_ms)


def _passed_over_for_good(self: Owner, key: str, mono_ms: int) -> None:
    """A timer that is passed over does not come again."""


def _time_goes_on(
    self: WaitingInputs, owner: Owner, internal: Iterable[Record], mono_ms: int
) -> list[Record]:
    """Where an inbox is not read on its timers are decided as if it held no answer."""
    return list(internal)


_original_checkpoint = readmodel.ReadModel.checkpoint


def _checkpoint_at_the_end(self: readmodel.ReadModel, partition: int) -> PartitionFold | None:
    """A checkpoint names records as folded that were read and are not."""
    fold = _original_checkpoint(self, partition)
    if fold is not None:
        for record in self.world.log.read("ledger", partition, fold.next_offset):
            fold.feed(record)
    return fold


# --- the read model ----------------------------------------------------------------------------


def _offsets_before_rows(
    self: readmodel.Projector, tables: readmodel.Tables, records: Sequence[Record]
) -> None:
    """Offsets are written, and then the rows, if nothing comes between."""
    (read,) = read_batch(tables.folds, records)
    folding = Folding(tables.streams)
    changed = folding.add(read)
    tables._move(folding)
    if not self.may_break("before its commit"):
        self.go_on(partial(tables.commit, folding, changed, rows=self.model.makes_rows))


def _commits_whatever_stands_there(
    self: readmodel.Projector,
    tables: readmodel.Tables,
    start: int,
    folding: Folding,
    changed: dict[str, Held],
) -> None:
    """Nobody looks whether another projector was first."""
    tables.commit(folding, changed, rows=self.model.makes_rows)


def _swaps_at_once(self: readmodel.ReadModel, beside: readmodel.Tables) -> bool:
    """Rebuilt tables are put in place before they stand where the live ones do."""
    return True


_original_fold = Folding._fold


def _passes_what_has_no_meaning(
    self: Folding, partition: int, decision: Decision, value: bytes, changed: dict[str, Held]
) -> None:
    """A record that counts and cannot be folded is passed over."""
    with contextlib.suppress(Exception):
        _original_fold(self, partition, decision, value, changed)


# --- telling -----------------------------------------------------------------------------------


_original_keep = finders.Door._keep


def _answers_before_it_keeps(
    self: finders.Door, event: Event, received: Callable[[], None]
) -> None:
    """The provider hears that a webhook was received before it is kept."""
    received()
    _original_keep(self, event, lambda: None)


def _sweeps_nothing(self: finders.Inquirer) -> None:
    """What was parked stays parked, whatever becomes known."""


def _hears_anybody(self: ActionsSeen, record: Record) -> str | None:
    """A success is told at the word of whoever reports it."""
    given = read_input(record)
    if not isinstance(given, Report) or not isinstance(given.outcome, Success):
        return None
    action = self._action(given.key)
    if action is None or not 0 < given.attempt <= len(action.attempts):
        return None
    self._succeeded[given.key] = (given.attempt, given.outcome)
    return given.key


READING: Final[dict[str, Saboteur]] = {
    "waiting_answers_overtaken": Saboteur(
        "a timer wins over an answer that was read and waits",
        116,
        ((WaitingInputs, "has_of", _no_stream_has_an_answer),),
    ),
    "times_wait_with_an_inbox": Saboteur(
        "while an input waits for a damaged stream, the times of its partition stand still",
        884,
        ((WaitingInputs, "decidable_internal", _times_wait_with_an_inbox),),
    ),
    "times_wait_behind_a_damaged_stream": Saboteur(
        "a timer of a damaged stream holds up all others",
        97,
        ((WaitingInputs, "decidable_internal", _internal_waits_in_order),),
    ),
    "passed_over_for_good": Saboteur(
        "a timer that is passed over is never set again",
        3,
        ((Owner, "passed_over", _passed_over_for_good),),
    ),
    "time_goes_on_at_the_bound": Saboteur(
        "a timer wins over an answer that is not read, because too much waits",
        3_073,
        ((WaitingInputs, "without_ticks", _time_goes_on),),
    ),
    "put_off_for_good": Saboteur(
        "a timer that came while too much waited is never set again",
        71,
        ((Owner, "put_off", _passed_over_for_good),),
    ),
    "cold_state_below_the_floor": Saboteur(
        "a state is loaded that is older than what was let go",
        181,
        ((StreamMemory, "take_in", _believes_any_answer),),
    ),
    "not_held_is_new": Saboteur(
        "a stream that is not held is taken for new",
        0,
        ((StreamMemory, "knows", _knows_everything),),
    ),
    "filter_hears_nothing": Saboteur(
        "a stream that was let go is not in the filter, and is taken for new",
        2,
        ((StreamMemory, "let_go", _filter_hears_nothing),),
    ),
    "row_ahead_is_folded_again": Saboteur(
        "decisions that a loaded row holds are folded a second time",
        897,
        ((StreamMemory, "folded_to", _folded_to_nothing),),
    ),
    "timers_let_go": Saboteur(
        "the timers of streams that are not held are forgotten",
        3,
        ((Timetable, "page_wanted", _asks_for_no_timers),),
    ),
    "checkpoint_beyond_the_fold": Saboteur(
        "an owner begins behind records that were never projected",
        1_577,
        ((readmodel.ReadModel, "checkpoint", _checkpoint_at_the_end),),
    ),
    "projection_offset_alone": Saboteur(
        "offsets are written apart from their rows",
        2,
        ((readmodel.Projector, "_step", _offsets_before_rows),),
    ),
    "projection_commits_blindly": Saboteur(
        "a projector that stood still writes over what another has written since",
        549,
        ((readmodel.Projector, "_commit", _commits_whatever_stands_there),),
    ),
    "rebuild_swapped_in_early": Saboteur(
        "rebuilt rows replace the live ones before they have caught up",
        25,
        ((readmodel.ReadModel, "has_caught_up", _swaps_at_once),),
    ),
    "unfoldable_record_skipped": Saboteur(
        "the projection passes over a record that counts and cannot be folded",
        0,
        ((Folding, "_fold", _passes_what_has_no_meaning),),
    ),
    "webhook_answered_before_kept": Saboteur(
        "a webhook is acknowledged before it is kept",
        245,
        ((finders.Door, "_keep", _answers_before_it_keeps),),
    ),
    "parked_never_swept": Saboteur(
        "what is parked is matched only if its name was known when it came",
        47,
        ((finders.Inquirer, "_sweep", _sweeps_nothing),),
    ),
    "told_at_anybodys_word": Saboteur(
        "a caller is told a success that the ledger refuses",
        1104,
        ((ActionsSeen, "hear", _hears_anybody),),
    ),
}
