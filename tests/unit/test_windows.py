"""Live windows: what was handled lately, added up over members, in bounded room."""

import pytest

from reconciler.windows import (
    LATENCY_BOUNDS_MS,
    SLICE_MS,
    WINDOW_MS,
    WebhookWindow,
    Windows,
    live_of,
)

NOW = 1_800_000_000_000


def windows(window: WebhookWindow, now_ms: int = NOW, **changes: object) -> Windows:
    """What a member writes down."""
    written: dict[str, object] = {
        "webhooks": window.webhooks(now_ms),
        "matched_within": window.matched_within(now_ms),
    }
    return Windows.model_validate(written | changes)


def test_it_counts_by_provider_and_by_what_became_of_them() -> None:
    """Every webhook is counted once under its provider; those that matched by their latency."""
    window = WebhookWindow()
    for latency_ms in (3, 40, 41):
        window.add("stripe", "matched", now_ms=NOW, matched_after_ms=latency_ms)
    window.add("stripe", "parked", now_ms=NOW, matched_after_ms=None)
    window.add("shop", "duplicate", now_ms=NOW, matched_after_ms=None)
    assert window.webhooks(NOW) == {
        "shop": {"duplicate": 1},
        "stripe": {"matched": 3, "parked": 1},
    }
    within = dict(zip(LATENCY_BOUNDS_MS, window.matched_within(NOW), strict=False))
    assert (within[5], within[50]) == (1, 2)


def test_what_is_older_than_the_window_is_forgotten_and_takes_no_room() -> None:
    """A window over a day holds no more than one over five minutes."""
    window = WebhookWindow()
    for second in range(0, 24 * 3_600, 5):
        window.add("shop", "parked", now_ms=NOW + second * 1_000, matched_after_ms=None)
    end = NOW + 24 * 3_600 * 1_000
    assert len(window._slices) <= WINDOW_MS // SLICE_MS + 1
    counted = window.webhooks(end)["shop"]["parked"]
    assert counted <= WINDOW_MS // 5_000
    assert window.webhooks(end + WINDOW_MS) == {}


def test_members_are_added_up() -> None:
    """Rates and latencies are those of all members; what waits in the tables is said once, by who
    looked last.
    """
    first, second = WebhookWindow(), WebhookWindow()
    for _ in range(98):
        first.add("shop", "matched", now_ms=NOW, matched_after_ms=20)
    for _ in range(2):
        second.add("shop", "matched", now_ms=NOW, matched_after_ms=200)
    live = live_of(
        [
            windows(first, unmatched={"parked:reference_unknown": 7}, unmatched_at=NOW - 1),
            windows(second, unmatched={"parked:reference_unknown": 5}, unmatched_at=NOW),
        ]
    )
    assert live.members == 2
    assert live.webhooks_per_s["shop"]["matched"] == pytest.approx(100 / (WINDOW_MS / 1_000))
    assert (live.matched_p50_ms, live.matched_p99_ms) == (20.0, 250.0)
    assert live.unmatched == {"parked:reference_unknown": 5}


def test_nothing_seen_is_no_latency() -> None:
    """Where nothing matched no figure is made up, and beyond the last bound it is not hidden."""
    assert live_of([]).matched_p99_ms is None
    window = WebhookWindow()
    window.add("shop", "matched", now_ms=NOW, matched_after_ms=LATENCY_BOUNDS_MS[-1] + 1)
    assert live_of([windows(window)]).matched_p99_ms == float("inf")
