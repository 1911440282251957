"""How often somebody may do something: counted by who it is, in any minute, in bounded memory."""

from gateway.http.pace import WINDOW_S, Pace


def test_what_comes_too_often_is_not_counted() -> None:
    """A minute later there is room again, as much as was taken then."""
    pace = Pace(2, kinds_max=10)
    assert [pace.allows("ada", at) for at in (0.0, 1.0, 2.0)] == [True, True, False]
    assert pace.allows("ben", 2.0)
    assert pace.allows("ada", WINDOW_S)
    assert not pace.allows("ada", WINDOW_S + 0.5)
    assert pace.allows("ada", WINDOW_S + 1.0)
    assert (pace.times("ada", WINDOW_S + 1.0), pace.times("nobody", 0.0)) == (2, 0)


def test_who_was_not_heard_of_for_longest_is_forgotten() -> None:
    """However many there are, so many are remembered."""
    pace = Pace(1, kinds_max=2)
    assert pace.allows("ada", 0.0)
    assert pace.allows("ben", 0.0)
    assert not pace.allows("ada", 0.0)
    assert pace.allows("cyd", 0.0)
    assert not pace.allows("ben", 0.0)
    assert pace.allows("ada", 0.0)
