"""Inputs that wait for their stream, and what goes on beside them."""

from ledger.log.port import Record
from streams.waiting_inputs import WaitingInputs


def record(topic: str, offset: int, key: str) -> Record:
    """An input of which only its place and its stream matter."""
    return Record(topic, 0, offset, 0, key.encode(), b"", ())


def test_behind_an_input_that_waits_its_inbox_waits_and_others_go_on() -> None:
    """Within one inbox nothing overtakes; between inboxes there is no order."""
    waiting = WaitingInputs()
    inputs = [
        record("intents", 0, "held"),
        record("intents", 1, "cold"),
        record("intents", 2, "held"),
        record("attempts", 0, "held"),
    ]
    go_on = waiting.keep_back(0, inputs, lambda one: one.key == b"cold")
    assert [(one.topic, one.offset) for one in go_on] == [("intents", 0), ("attempts", 0)]
    assert waiting.places() == {("intents", 0)}
    assert [one.offset for one in waiting.take(0)] == [1, 2]
    assert waiting.places() == set()


def test_what_waits_keeps_its_order_over_rounds() -> None:
    """What was put back first comes first."""
    waiting = WaitingInputs()
    waiting.keep_back(0, [record("intents", 0, "cold")], lambda _: True)
    waiting.keep_back(0, [record("intents", 1, "cold")], lambda _: True)
    assert [one.offset for one in waiting.take(0)] == [0, 1]


def test_a_partition_that_is_read_again_has_nothing_that_waits() -> None:
    """It comes again from its position."""
    waiting = WaitingInputs()
    waiting.keep_back(0, [record("intents", 0, "cold")], lambda _: True)
    waiting.keep_back(1, [record("intents", 0, "cold")], lambda _: True)
    waiting.forget(0)
    assert list(waiting.partitions()) == [1]
    waiting.clear()
    assert list(waiting.partitions()) == []
