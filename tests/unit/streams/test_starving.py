"""Who waits for capacity that there is begins, whoever else waits in the same partition."""

from dataclasses import replace
from typing import Final

import pytest

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.holds import Hold, Scope
from ledger.core.state import Status, Stream
from streams import timetable as module
from streams.memory import StreamMemory
from streams.offers import OfferBook
from streams.ticking import Ticking
from streams.timetable import Timetable
from tests.examples import CONFIG, T0, propose
from tests.ledgers import LedgerBuilder

OTHERS: Final = 40
LATE: Final = "acme/late"


class Desk:
    """What an owner knows of who waits, with a projection of all streams behind it and room for a
    few; one executor offers charges.
    """

    def __init__(self, streams: list[Stream], config: Config = CONFIG) -> None:
        self.stored = {stream.key: stream for stream in streams}
        self.config = config
        self.timetable = Timetable()
        self.timetable.read_back()
        self.memory = StreamMemory(4)
        self.memory.projected(10**6)
        self.book = OfferBook()
        self.ticking = Ticking(self.timetable, self.book)

    def offer(self) -> None:
        """Capacity for charges comes."""
        offered = i.Offered(
            incarnation="x",
            sequence=1,
            operations=("charge",),
            slots=100,
            seen_offset=10**6,
            valid_ms=60_000,
        )
        self.book.offered(offered, T0)

    def decided(self, stream: Stream) -> None:
        """A stream is held, and let go when there is no room for it."""
        self.memory.put(stream, 1)
        self.timetable.schedule(stream, T0, self.config)
        for gone in self.memory.let_go(()):
            self.timetable.let_go(gone, CONFIG.timing.skew_ms)

    def keeps_up(self) -> None:
        """Read back what is wanted, a page, as the processor does every so often."""
        page = self.timetable.ready_wanted(self.book.operations(T0))
        if page is None:
            return
        rows = sorted(
            (action.updated_at, stream.key)
            for stream in self.stored.values()
            for action in stream.actions
            if action.status is Status.READY and action.request.operation == page.operation
        )
        found = [row for row in rows if row > page.behind][: page.limit]
        for _, key in found:
            if key not in self.timetable.awaiting:
                self.decided(self.stored[key])
        self.timetable.ready_read(page, found)

    def begins(self) -> bool:
        """Whether the one who came last has a tick within as many rounds as all pages take."""
        for _ in range(OTHERS):
            self.keeps_up()
            if LATE in self.ticking.next(T0 + 10, self.memory, self.config):
                return True
        return False


def world(operation: str) -> list[Stream]:
    """Many who wait for one operation, and then one who waits for a charge."""
    builder = LedgerBuilder()
    for number in range(OTHERS):
        builder.take(propose(f"{operation}:v1:other:e{number}"), executor=None)
    builder.take(propose("charge:v1:acme:late"), executor=None, later_ms=1)
    return list(builder.streams.values())


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for a tenth of them."""
    monkeypatch.setattr(module, "AWAITING_HELD_MAX", 4)
    monkeypatch.setattr(module, "AWAITING_OPERATION_MIN", 2)
    monkeypatch.setattr(module, "READY_PAGE_MAX", 4)


@pytest.mark.parametrize("comes", ["before", "after"])
def test_an_operation_without_capacity_holds_up_no_other(comes: str) -> None:
    """More wait for it than an owner remembers; whether capacity for the other one comes before or
    after all of them came to wait.
    """
    desk = Desk(world("email"))
    if comes == "before":
        desk.offer()
    for stream in desk.stored.values():
        desk.decided(stream)
    desk.offer()
    assert desk.begins()


@pytest.mark.parametrize("operation", ["email", "charge"])
def test_those_under_a_hold_hide_nobody_from_a_new_owner(operation: str) -> None:
    """It reads on behind them, also where they wait for the same operation."""
    hold = Hold(scope=Scope(tenant="other"), by="ops", since=T0, offset=1)
    desk = Desk(world(operation), replace(CONFIG, holds=(hold,)))
    desk.offer()
    assert desk.begins()
    assert not any(key.startswith("other/") for key in desk.timetable.awaiting)


def test_a_release_begins_with_who_waited_longest() -> None:
    """What a hold kept from being remembered is read again."""
    hold = Hold(scope=Scope(tenant="other"), by="ops", since=T0, offset=1)
    desk = Desk(world("charge"), replace(CONFIG, holds=(hold,)))
    desk.offer()
    assert desk.begins()
    desk.config = CONFIG
    desk.timetable.look_again()
    desk.keeps_up()
    assert any(key.startswith("other/") for key in desk.ticking.next(T0 + 10, desk.memory, CONFIG))
