"""When streams are due and who waits for capacity, where not every stream is held."""

from dataclasses import replace

import pytest

from ledger.core.inputs import Meaning, Retry
from ledger.core.state import Status, Stream
from streams import timetable as module
from streams.limits import DUE_AHEAD_MS, DUE_PAGE_MAX, READY_PAGE_MAX
from streams.timetable import Timetable
from tests.examples import (
    CONFIG,
    REFERENCE,
    STREAM,
    T0,
    decline,
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


def ready_streams(count: int, operation: str = "charge") -> list[Stream]:
    """So many streams, each with an action that waits for capacity."""
    builder = LedgerBuilder()
    for number in range(count):
        builder.take(propose(f"{operation}:v1:acme:{operation}-{number}"), executor=None)
    return list(builder.streams.values())


def test_what_is_held_is_never_asked_for() -> None:
    """An owner that holds every stream knows every timer."""
    timetable = Timetable()
    for stream in ready_streams(3):
        timetable.schedule(stream, T0, CONFIG)
    assert timetable.page_wanted(T0) is None
    assert timetable.ready_wanted(["charge"]) is None
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


def read_through(timetable: Timetable, operation: str = "charge") -> None:
    """The projection has nobody of this operation who waits."""
    page = timetable.ready_wanted([operation])
    assert page is not None
    assert (page.operation, page.behind) == (operation, module.BEGINNING)
    timetable.ready_read(page, [])
    assert timetable.ready_wanted([operation]) is None


def test_who_waits_for_capacity_waits_on_without_being_held() -> None:
    """What it waits for is known; only where too many wait are others read back later."""
    timetable = Timetable()
    timetable.read_back()
    read_through(timetable)
    (stream,) = ready_streams(1)
    timetable.schedule(stream, T0, CONFIG)
    timetable.let_go(stream, CONFIG.timing.skew_ms)
    assert timetable.awaiting == {stream.key: (("charge", frozenset()),)}


@pytest.fixture
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four streams are remembered that are not held, two of each operation, in pages of four."""
    monkeypatch.setattr(module, "AWAITING_HELD_MAX", 4)
    monkeypatch.setattr(module, "AWAITING_OPERATION_MIN", 2)
    monkeypatch.setattr(module, "READY_PAGE_MAX", 4)


def let_go(timetable: Timetable, streams: list[Stream]) -> None:
    """None of these is held any more."""
    for stream in streams:
        timetable.let_go(stream, CONFIG.timing.skew_ms)


@pytest.mark.usefixtures("_few")
def test_beyond_the_bound_waiting_streams_are_read_back_later() -> None:
    """Memory does not grow with what waits and is not held; when half of those known have begun,
    more are asked for, from the beginning.
    """
    timetable = Timetable()
    timetable.read_back()
    read_through(timetable)
    streams = ready_streams(6)
    for stream in streams:
        timetable.schedule(stream, T0, CONFIG)
    assert len(timetable.awaiting) == 6
    let_go(timetable, streams)
    assert len(timetable.awaiting) == 4
    assert timetable.ready_wanted(["charge"]) is None
    for stream in streams[:2]:
        timetable.schedule(Stream(stream.key), T0, CONFIG)
    page = timetable.ready_wanted(["charge"])
    assert page is not None
    assert page.behind == module.BEGINNING


@pytest.mark.usefixtures("_few")
def test_an_operation_without_capacity_keeps_room_for_every_other() -> None:
    """However many wait for one, of another the first are known, and those behind are asked for."""
    timetable = Timetable()
    timetable.read_back()
    for operation in ("charge", "email"):
        read_through(timetable, operation)
    emails, charges = ready_streams(9, "email"), ready_streams(3)
    for stream in emails + charges:
        timetable.schedule(stream, T0, CONFIG)
    let_go(timetable, emails + charges)
    wants = [wants[0][0] for wants in timetable.awaiting.values()]
    assert (wants.count("email"), wants.count("charge")) == (4, 2)
    page = timetable.ready_wanted(["charge"])
    assert page is not None
    assert page.operation == "charge"


@pytest.mark.usefixtures("_few")
def test_those_under_a_hold_are_passed_page_by_page() -> None:
    """A page without anybody who may begin is followed by the next one behind it: they hide nobody.
    A release looks at them again.
    """
    timetable = Timetable()
    timetable.read_back()
    first = timetable.ready_wanted(["charge"])
    assert first is not None
    timetable.ready_read(first, [(T0, f"acme/e{number}") for number in range(4)])
    second = timetable.ready_wanted(["charge"])
    assert second is not None
    assert second.behind == (T0, "acme/e3")
    timetable.ready_read(second, [(T0, "acme/e4")])
    assert timetable.ready_wanted(["charge"]) is None
    timetable.look_again()
    read_through(timetable)


@pytest.mark.usefixtures("_few")
def test_those_let_go_while_a_page_is_on_its_way_are_read_again() -> None:
    """The page may end behind one that is not remembered, and was asked for before that."""
    timetable = Timetable()
    timetable.read_back()
    streams = ready_streams(6)
    page = timetable.ready_wanted(["charge"])
    assert page is not None
    for stream in streams:
        timetable.schedule(stream, T0, CONFIG)
    let_go(timetable, streams)
    timetable.ready_read(page, [])
    for stream in streams[:4]:
        timetable.schedule(Stream(stream.key), T0, CONFIG)
    read_through(timetable)


def test_operations_have_their_turn_one_after_another() -> None:
    """Pages and pages of one do not keep another waiting; what nobody offers is not read."""
    timetable = Timetable()
    timetable.read_back()
    asked = []
    for number in range(4):
        page = timetable.ready_wanted(["charge", "email"])
        assert page is not None
        asked.append(page.operation)
        timetable.ready_read(page, [(T0 + number, "acme/e")] * page.limit)
    assert asked == ["charge", "email", "charge", "email"]
    assert timetable.ready_wanted([]) is None


def test_who_was_declined_by_all_there_are_hides_nobody() -> None:
    """What waits for a holder that has yet to come does not count as enough."""
    builder = LedgerBuilder()
    for number in range(READY_PAGE_MAX):
        key = f"charge:v1:acme:e{number}"
        builder.take(propose(key))
        builder.take(decline(key=key), executor=None)
    timetable = Timetable()
    timetable.read_back()
    for stream in builder.streams.values():
        timetable.schedule(stream, T0 + 2_000, CONFIG)
    assert len(timetable.awaiting) == READY_PAGE_MAX
    assert timetable.ready_wanted(["charge"]) is not None


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
