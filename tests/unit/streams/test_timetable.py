"""When streams are due and who waits for capacity, where not every stream is held."""

from dataclasses import replace

import pytest

from ledger.core.inputs import Meaning, Retry
from ledger.core.state import Status, Stream
from streams import timetable as module
from streams.limits import DUE_AHEAD_MS, DUE_PAGE_MAX
from streams.timetable import Timetable
from tests.examples import (
    CONFIG,
    REFERENCE,
    STREAM,
    T0,
    found_out,
    not_sent,
    propose,
    refusal,
    report,
    success,
    tick,
)
from tests.examples_of_sagas import TRAVELS, do, plan, undo
from tests.ledgers import LedgerBuilder


def ready_streams(count: int) -> list[Stream]:
    """So many streams, each with a charge that waits for capacity."""
    builder = LedgerBuilder()
    for number in range(count):
        builder.take(propose(f"charge:v1:acme:e{number}"), executor=None)
    return list(builder.streams.values())


def test_what_is_held_is_never_asked_for() -> None:
    """An owner that holds every stream knows every timer."""
    timetable = Timetable()
    for stream in ready_streams(3):
        timetable.schedule(stream, T0, CONFIG)
    assert timetable.page_wanted(T0) is None
    assert timetable.ready_wanted() == 0
    assert len(timetable.awaiting) == 3


def test_timers_are_read_back_page_by_page_and_then_in_time() -> None:
    """A full page is followed by the next one behind it; a short one is all until so far ahead."""
    timetable = Timetable()
    timetable.read_back()
    first = timetable.page_wanted(T0)
    assert first is not None
    assert (first.behind, first.until) == (module.BEGINNING, T0 + DUE_AHEAD_MS)
    timetable.page_read(first, [(T0, f"acme/e{number:04}") for number in range(DUE_PAGE_MAX)])
    second = timetable.page_wanted(T0)
    assert second is not None
    assert second.behind == (T0, f"acme/e{DUE_PAGE_MAX - 1:04}")
    timetable.page_read(second, [])
    assert timetable.page_wanted(T0) is None
    third = timetable.page_wanted(T0 + DUE_AHEAD_MS // 2 + 1)
    assert third is not None
    assert third.behind == (T0 + DUE_AHEAD_MS, "")


def test_a_stream_that_is_let_go_keeps_a_timer_that_was_read_already() -> None:
    """Its place in the order lies behind the reader and would not be read again; a later timer
    comes back from the projection.
    """
    (stream,) = ready_streams(1)
    deadline = stream.actions[0].step_deadline_at
    soon, later = Timetable(), Timetable()
    for timetable in (soon, later):
        timetable.read_back()
        timetable.schedule(stream, T0, CONFIG)
    page = soon.page_wanted(deadline)
    assert page is not None
    soon.page_read(page, [])
    soon.let_go(stream, CONFIG.timing.skew_ms)
    later.let_go(stream, CONFIG.timing.skew_ms)
    assert (soon.next_due_at(), later.next_due_at()) == (deadline, None)


def test_a_deadline_behind_a_retry_that_is_due_stays_known() -> None:
    """The row of an action that waits for capacity stands where its retry was due; that place has
    been read, so its deadline does not come back from there.
    """
    builder = LedgerBuilder()
    builder.take(propose())
    builder.take(report(not_sent()))
    (stream,) = builder.streams.values()
    action = stream.actions[0]
    assert action.timer is not None
    timetable = Timetable()
    timetable.read_back()
    page = timetable.page_wanted(T0)
    assert page is not None
    assert action.timer.due_at < page.until < action.step_deadline_at
    timetable.page_read(page, [])
    timetable.schedule(stream, action.timer.due_at, CONFIG)
    timetable.let_go(stream, CONFIG.timing.skew_ms)
    assert timetable.next_due_at() == action.step_deadline_at


def test_what_is_let_go_while_a_page_is_on_its_way_is_read_again() -> None:
    """The page was asked for while the stream was held, and may show it as it was before."""
    (stream,) = ready_streams(1)
    deadline = stream.actions[0].step_deadline_at
    timetable = Timetable()
    timetable.read_back()
    timetable.schedule(stream, T0, CONFIG)
    page = timetable.page_wanted(deadline)
    timetable.let_go(stream, CONFIG.timing.skew_ms)
    assert page is not None
    timetable.page_read(page, [])
    again = timetable.page_wanted(deadline)
    assert again is not None
    assert again.behind < (deadline, stream.key) < (again.until, "")


def test_who_waits_for_capacity_waits_on_without_being_held() -> None:
    """What it waits for is known; only where too many wait are others read back later."""
    timetable = Timetable()
    timetable.read_back()
    assert timetable.ready_wanted() > 0
    timetable.ready_read(timetable.ready_wanted(), 0)
    assert timetable.ready_wanted() == 0
    (stream,) = ready_streams(1)
    timetable.schedule(stream, T0, CONFIG)
    timetable.let_go(stream, CONFIG.timing.skew_ms)
    assert timetable.awaiting == {stream.key: (("charge", frozenset()),)}


def test_beyond_the_bound_waiting_streams_are_read_back_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Memory does not grow with what waits; when half of those known have begun, more are asked
    for.
    """
    monkeypatch.setattr(module, "AWAITING_HELD_MAX", 4)
    timetable = Timetable()
    timetable.read_back()
    timetable.ready_read(timetable.ready_wanted(), 0)
    streams = ready_streams(6)
    for stream in streams:
        timetable.schedule(stream, T0, CONFIG)
    assert len(timetable.awaiting) == 4
    assert timetable.ready_wanted() == 0
    for stream in streams[:3]:
        timetable.schedule(Stream(stream.key), T0, CONFIG)
    assert timetable.ready_wanted() == 3


def test_a_new_configuration_looks_at_everything_again() -> None:
    """What was read under the former one may be due at another time now."""
    timetable = Timetable()
    timetable.read_back()
    page = timetable.page_wanted(T0)
    assert page is not None
    timetable.page_read(page, [])
    timetable.look_again()
    again = timetable.page_wanted(T0)
    assert again is not None
    assert again.behind == module.BEGINNING


def test_what_is_due_is_taken_once() -> None:
    """Whoever takes it sees to it that it is scheduled again."""
    (stream,) = ready_streams(1)
    timetable = Timetable()
    timetable.schedule(stream, T0, CONFIG)
    assert timetable.take_due(T0) is None
    when = timetable.next_due_at()
    assert when is not None
    assert timetable.take_due(when) == (stream.key, when)
    assert timetable.take_due(when) is None


def test_what_another_action_blocks_is_not_due_because_its_operation_is_gone() -> None:
    """A planned undo whose operation was withdrawn waits for its turn: a tick would find nothing to
    do, and so would the next one.
    """
    builder = LedgerBuilder(config=TRAVELS)
    builder.take(plan(), executor=None)
    (stream,) = builder.streams.values()
    kept = tuple(one for one in TRAVELS.catalogue.operations if one.name != "payout")
    without = replace(TRAVELS, catalogue=replace(TRAVELS.catalogue, operations=kept))
    for config in (TRAVELS, without):
        assert module.next_due_of(stream, T0, config) == stream.actions[0].step_deadline_at


def test_what_has_lost_its_turn_waits_for_no_capacity() -> None:
    """An undo is ready, and the one before it comes into doubt: it gives its turn back, and no tick
    is written for capacity that it may not take.
    """
    builder = LedgerBuilder(config=TRAVELS)
    builder.take(plan())
    for item in ("flight", "hotel"):
        builder.take(tick())
        builder.take(report(success(), key=do(item)))
    builder.take(tick())
    builder.take(report(refusal("declined", Retry.NEVER), key=do("car")))
    builder.take(tick())
    builder.take(report(success(), key=undo("hotel")))
    stream = builder.streams[STREAM]
    timetable = Timetable()
    timetable.schedule(stream, T0, TRAVELS)
    assert list(timetable.awaiting) == [STREAM]
    builder.take(found_out(Meaning.NO_EFFECT, key=undo("hotel"), lookup=None, reference=REFERENCE))
    stream = builder.streams[STREAM]
    assert [one.status for one in stream.actions if one.key == undo("flight")] == [Status.BLOCKED]
    timetable.schedule(stream, T0, TRAVELS)
    assert list(timetable.awaiting) == []
