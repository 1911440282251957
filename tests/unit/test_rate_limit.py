"""How often somebody may do something: counted by who it is, in any minute, in bounded memory."""

from gateway.http.rate_limit import WINDOW_S, RateLimit


def test_what_comes_too_often_is_not_counted() -> None:
    """A minute later there is room again, as much as was taken then."""
    limit = RateLimit(2, names_max=10)
    assert [limit.allows("ada", at) for at in (0.0, 1.0, 2.0)] == [True, True, False]
    assert limit.allows("ben", 2.0)
    assert limit.allows("ada", WINDOW_S)
    assert not limit.allows("ada", WINDOW_S + 0.5)
    assert limit.allows("ada", WINDOW_S + 1.0)
    assert (limit.times("ada", WINDOW_S + 1.0), limit.times("nobody", 0.0)) == (2, 0)


def test_who_was_not_heard_of_for_longest_is_forgotten() -> None:
    """However many there are, so many are remembered."""
    limit = RateLimit(1, names_max=2)
    assert limit.allows("ada", 0.0)
    assert limit.allows("ben", 0.0)
    assert not limit.allows("ada", 0.0)
    assert limit.allows("cyd", 0.0)
    assert not limit.allows("ben", 0.0)
    assert limit.allows("ada", 0.0)
