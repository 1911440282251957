"""Log lines that strangers cause: one in a while, and nothing grows with their number."""

from gateway.http.log_throttle import LogThrottle


def test_one_line_of_a_kind_in_a_while_with_how_many_were_left_out() -> None:
    """The first is told at once, the rest when the while is over; other kinds are not held up."""
    lines = LogThrottle(every_seconds=10)
    assert lines.left_out("a", 100.0) == 0
    assert [lines.left_out("a", 100.0 + second) for second in range(1, 10)] == [None] * 9
    assert lines.left_out("b", 105.0) == 0
    assert lines.left_out("a", 110.0) == 9
    assert lines.left_out("a", 111.0) is None
    assert lines.left_out("a", 500.0) == 1


def test_a_thousand_kinds_are_one_kind_more() -> None:
    """Whoever makes every line look different fills no memory, and is told now and then."""
    lines = LogThrottle(every_seconds=10, kinds_max=4)
    told = [lines.left_out(number, 100.0) for number in range(1_000)]
    assert told.count(0) == 5
    assert len(lines._written) <= 5
    assert lines.left_out("later", 111.0) is not None
