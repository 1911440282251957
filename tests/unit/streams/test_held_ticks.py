"""Ticks that wait for the other inboxes of their partition to be read, and how many may."""

import pytest

from ledger.log.port import Record
from streams import held_ticks as module
from streams.held_ticks import HeldTicks


def ticks(*offsets: int, partition: int = 0) -> list[Record]:
    """Internal records of which only their place and size matter: 12 bytes each."""
    return [
        Record("internal", partition, one, 0, b"key", b"value", (("h", b"123"),)) for one in offsets
    ]


def test_what_waits_is_released_in_order_once_everything_before_it_was_read() -> None:
    """Each round of ticks by the ends of its own time."""
    held = HeldTicks()
    held.begin(0, {"intents": 0})
    held.hold(0, ticks(0, 1), {"intents": 1})
    held.hold(0, ticks(2), {"intents": 2})
    assert held.release() == {}
    held.passed("intents", 0, 1)
    assert held.release() == {0: ticks(0, 1)}
    held.passed("intents", 0, 2)
    assert held.release() == {0: ticks(2)}
    assert not held.is_holding()


@pytest.mark.parametrize(("bound", "most"), [("WAITING_INPUTS_MAX", 3), ("WAITING_BYTES_MAX", 36)])
def test_internal_is_not_read_on_while_too_much_of_it_waits(
    monkeypatch: pytest.MonkeyPatch, bound: str, most: int
) -> None:
    """In number and in bytes, over all partitions that hold some; there is room again however it
    came that they wait no longer. It was counted nowhere: behind one inbox that was not read on
    messages came in without an end.
    """
    monkeypatch.setattr(module, bound, most)
    held = HeldTicks()

    def fill() -> None:
        held.hold(0, ticks(0, 1), {"intents": 1})
        assert held.places_full() == set()
        held.hold(1, ticks(0, partition=1), {"intents": 1})
        assert held.places_full() == {("internal", 0), ("internal", 1)}

    held.begin(0, {"intents": 0})
    held.begin(1, {"intents": 0})
    fill()
    held.passed("intents", 0, 1)
    assert held.release() == {0: ticks(0, 1)}
    assert held.places_full() == set()
    held.begin(1, {"intents": 0})
    held.begin(0, {"intents": 0})
    fill()
    assert held.give_up(0) == ticks(0, 1)
    assert held.places_full() == set()
    assert held.give_up(0) == []
    assert held.is_holding()
    held.clear()
    assert not held.is_holding()
    held.begin(0, {"intents": 0})
    fill()
