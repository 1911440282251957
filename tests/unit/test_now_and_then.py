"""Log lines that strangers cause: one in a while, and nothing grows with their number."""

from gateway.http.now_and_then import NowAndThen


def test_one_line_of_a_kind_in_a_while_with_how_many_were_left_out() -> None:
    """The first is told at once, the rest when the while is over; other kinds are not held up."""
    lines = NowAndThen(every_seconds=10)
    assert lines.say("a", 100.0) == 0
    assert [lines.say("a", 100.0 + second) for second in range(1, 10)] == [None] * 9
    assert lines.say("b", 105.0) == 0
    assert lines.say("a", 110.0) == 9
    assert lines.say("a", 111.0) is None
    assert lines.say("a", 500.0) == 1


def test_a_thousand_kinds_are_one_kind_more() -> None:
    """Whoever makes every line look different fills no memory, and is told now and then."""
    lines = NowAndThen(every_seconds=10, kinds_max=4)
    told = [lines.say(number, 100.0) for number in range(1_000)]
    assert told.count(0) == 5
    assert len(lines._told) <= 5
    assert lines.say("later", 111.0) is not None
