"""`unknowns` at a terminal: spans are told as people say them."""

import time
from io import StringIO

from rich.console import Console

from gateway.cli.unknowns import _show, show_unknowns
from projections.query_rows import UnknownRow

HOUR_MS = 3_600_000


def view(now_ms: int) -> UnknownRow:
    """A charge whose answer was lost two hours ago."""
    return UnknownRow(
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


def test_spans_are_told_in_their_largest_parts() -> None:
    """A window of a day is no number of seconds."""
    written = StringIO()
    show_unknowns(Console(file=written, width=200), [view(time.time_ns() // 1_000_000)])
    told = " ".join(written.getvalue().split())
    assert " 2 h none so far in 59 min" in told
    assert "8 % gone, ends in 2" in told
    assert " s " not in told.replace("59 s", "")


def test_a_list_says_whose_it_is_and_that_it_was_cut() -> None:
    """Nothing of a tenant that was misspelt is nothing of that one alone."""
    found = [view(time.time_ns() // 1_000_000)]
    for listed, tenant, limit, said in (
        ([], "Acme", 100, "No action of Acme is uncertain."),
        ([], None, 100, "No action is uncertain."),
        (found, None, 1, "The oldest 1; there may be more: see --limit."),
    ):
        written = StringIO()
        _show(Console(file=written, width=200), listed, tenant, limit)
        assert said in written.getvalue()
    written = StringIO()
    _show(Console(file=written, width=200), found, None, 2)
    assert "more" not in written.getvalue()
