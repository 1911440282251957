"""Laws of windows: they part time, whatever the zone and whatever its clocks do."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from ledger.core.ceilings import Ceiling, zone_of
from ledger.core.ids import GateKind, gate_key, is_gate_key

ZONES = (
    *("UTC", "Europe/Paris", "America/New_York", "Asia/Shanghai", "Asia/Kolkata"),
    *("Australia/Lord_Howe", "America/St_Johns", "Pacific/Apia", "Pacific/Chatham"),
    *("Africa/Casablanca", "America/Sao_Paulo", "Antarctica/Troll"),
)
"""With half hours, quarter hours, both ways over the line of date, and clocks that move by half."""
DAY_MS = 86_400_000
LENGTHS_MS = {"hour": 3_600_000, "day": DAY_MS, "week": 7 * DAY_MS, "month": 31 * DAY_MS}
MOST_MS = 2 * 3_600_000
"""By which a clock is moved at most."""
moments = st.integers(1_767_225_600_000, 2_000_000_000_000)
zones = st.sampled_from(ZONES)
windows = st.sampled_from(sorted(LENGTHS_MS))


def ceiling(window: str, zone: str) -> Ceiling:
    """A ceiling with a window in a zone."""
    fields = {"name": "c", "per": "tenant", "window": window, "zone": zone, "side_effects": 1}
    return Ceiling.model_validate(fields)


@given(windows, zones, moments, st.integers(0, 40 * 86_400_000))
def test_a_window_is_one_stretch_of_time(window: str, zone: str, at: int, later: int) -> None:
    """Two moments of one window have no other window between them, and are no further apart than
    it is long.
    """
    one = ceiling(window, zone)
    if one.window_at(at) != one.window_at(at + later):
        return
    assert later < LENGTHS_MS[window] + MOST_MS
    for part in range(1, 8):
        assert one.window_at(at + later * part // 8) == one.window_at(at)


@given(windows, zones, moments)
def test_a_window_that_is_over_does_not_come_again(window: str, zone: str, at: int) -> None:
    """After its length, and what a clock can be moved, it is another."""
    one = ceiling(window, zone)
    assert one.window_at(at) != one.window_at(at + LENGTHS_MS[window] + MOST_MS)


@given(zones, moments)
def test_a_day_is_the_one_that_people_there_have(zone: str, at: int) -> None:
    """The date of the window is the date on the wall."""
    local = datetime.fromtimestamp(at / 1_000, UTC).astimezone(zone_of(zone))
    assert ceiling("day", zone).window_at(at) == local.date().isoformat()
    assert ceiling("month", zone).window_at(at) == local.date().isoformat()[:7]
    monday = local.date() - timedelta(days=local.weekday())
    year, week, _ = monday.isocalendar()
    assert ceiling("week", zone).window_at(at) == f"{year}-W{week:02}"


@given(windows, zones, moments)
def test_every_window_has_a_gate(window: str, zone: str, at: int) -> None:
    """Its key is the key of a stream, and says the window."""
    key = ceiling(window, zone).gate("acme", None, None, at)
    assert key is not None
    assert is_gate_key(key)
    assert key == f"acme/window:c:{ceiling(window, zone).window_at(at)}"


@given(st.sampled_from(list(GateKind)), st.text(min_size=1), st.text(min_size=1))
def test_every_text_names_a_gate_of_its_own(kind: GateKind, one: str, other: str) -> None:
    """Two names are two gates, and each is the key of a stream."""
    names = {one, other}
    try:
        keys = {gate_key("acme", kind, name) for name in names}
    except UnicodeEncodeError:
        return  # half of a pair of surrogates stands in no request
    assert len(keys) == len(names)
    assert all(is_gate_key(key) for key in keys)


@given(windows, zones, moments, st.text("aZ0:._-", min_size=1, max_size=40))
def test_the_key_of_a_gate_tells_its_window(window: str, zone: str, at: int, target: str) -> None:
    """Of a tenant and of a target, whatever the target is called; of another ceiling it tells
    nothing.
    """
    one = ceiling(window, zone)
    named = one.model_copy(update={"per": "target"})
    other = one.model_copy(update={"name": "c.d"})
    keys = (one.gate("acme", None, None, at), named.gate("acme", "r1", target, at))
    for key in keys:
        assert key is not None
        assert one.window_of(key) == one.window_at(at)
        assert other.window_of(key) is None
    assert one.window_of("acme/run:c:x") is None
