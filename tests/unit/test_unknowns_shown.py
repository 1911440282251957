"""`unknowns` at a terminal: spans are told as people say them."""

import time
from io import StringIO

from rich.console import Console

from gateway.cli.unknowns import _show_unknowns
from projections.views import UnknownView

HOUR_MS = 3_600_000


def test_spans_are_told_in_their_largest_parts() -> None:
    """A window of a day is no number of seconds."""
    now_ms = time.time_ns() // 1_000_000
    view = UnknownView(
        tenant_id="acme",
        action_key="charge:v1:acme:lost-1",
        target="order:A-1",
        amount_minor=4_990,
        currency="USD",
        provider="simulated",
        account="main",
        attempts=1,
        unknown_since=now_ms - 2 * HOUR_MS,
        next_due_at=now_ms + HOUR_MS - 30_000,
        updated_at=now_ms,
        next_step="lookup",
        key_used_at=now_ms - 2 * HOUR_MS,
        key_until=now_ms + 22 * HOUR_MS + 1_000,
    )
    written = StringIO()
    _show_unknowns(Console(file=written, width=200), [view])
    told = " ".join(written.getvalue().split())
    assert " 2 h none so far in 59 min" in told
    assert "8 % gone, ends in 2" in told
    assert " s " not in told.replace("59 s", "")
