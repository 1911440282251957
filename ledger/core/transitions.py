"""One declared cell for every (status, fact) pair: accept, or broken.

`evolve` asks it before it folds, so an illegal transition in an accepted record is a broken
invariant and never a silent change. A test walks every cell. The marks: A accept, and a dot for
broken.
"""

from typing import Final, Literal

from ledger.core.state import Status

Cell = Literal["accept", "broken"]

COLUMNS: Final = (
    Status.PROPOSED,
    Status.AWAITING_APPROVAL,
    Status.BLOCKED,
    Status.READY,
    Status.ATTEMPTING,
    Status.UNKNOWN,
    Status.NEEDS_REVIEW,
    Status.COMPLETED,
    Status.FAILED,
    Status.DENIED,
    Status.EXPIRED,
    Status.CANCELLED,
    Status.SUPERSEDED,
)
"""The statuses in the order in which tables of rules have them: those that end come last."""

_ROWS = """
                     pr aa bl re  at un nr  co fa de ex ca su
policy.decided       A  A  A  A   .  .  .   .  .  .  .  .  .
action.blocked       A  A  A  A   .  .  .   .  .  .  .  .  .
gate.asked           .  A  A  A   .  .  A   A  A  A  A  A  A
gate.answered        .  A  A  .   .  .  A   A  A  A  A  A  A
gate.kept            .  A  A  A   A  A  A   A  A  A  A  A  A
gate.closing         .  A  A  A   A  A  A   A  A  A  A  A  A
gate.closed          A  A  A  A   A  A  A   A  A  A  A  A  A
preview.started      .  A  .  .   .  .  .   .  .  .  .  .  .
preview.failed       .  A  .  .   .  .  .   .  .  .  .  .  .
preview.recorded     .  A  .  .   .  .  .   .  .  .  .  .  .
approval.requested   .  A  .  .   .  .  .   .  .  .  .  .  .
approval.escalated   .  A  .  .   .  .  .   .  .  .  .  .  .
approval.granted     .  A  .  .   .  .  .   .  .  .  .  .  .
approval.withdrawn   .  A  A  A   .  .  .   .  .  .  .  .  .
approval.ended       .  A  A  A   .  .  .   .  .  .  .  .  .
attempt.started      .  .  .  A   .  A  .   .  .  .  .  .  .
attempt.declined     .  .  .  .   A  A  A   .  .  .  .  .  .
attempt.succeeded    .  .  .  .   A  A  A   .  .  .  .  .  .
attempt.refused      .  .  .  .   A  A  A   .  .  .  .  .  .
attempt.not_sent     .  .  .  .   A  A  A   .  .  .  .  .  .
attempt.unresolved   .  .  .  .   A  .  A   .  .  .  .  .  .
attempt.absent       .  .  .  .   .  A  A   .  .  .  .  .  .
timer.set            .  A  .  A   .  A  .   .  .  .  .  .  .
lookup.started       .  .  .  .   .  A  A   .  .  .  .  .  .
evidence.recorded    A  A  A  A   A  A  A   A  A  A  A  A  A
action.completed     .  .  .  .   A  A  A   .  .  .  .  .  .
action.failed        .  .  .  A   .  .  .   .  .  .  .  .  .
action.denied        A  A  A  A   .  .  .   .  .  .  .  .  .
action.cancelled     A  A  A  A   .  .  .   .  .  .  .  .  .
action.expired       A  A  A  A   .  .  .   .  .  .  .  .  .
action.superseded    A  A  A  A   .  .  A   .  .  .  .  .  .
review.opened        A  A  A  A   A  A  A   A  A  A  A  A  A
review.resolved      .  .  A  .   .  .  A   A  A  A  A  A  A
"""


def _read(rows: str) -> dict[tuple[Status, str], Cell]:
    """The rows as cells; `intent.recorded` has no row, because it begins an action."""
    cells: dict[tuple[Status, str], Cell] = {}
    for line in rows.strip().splitlines()[1:]:
        fact_type, *marks = line.split()
        for status, mark in zip(COLUMNS, marks, strict=True):
            cells[status, fact_type] = "accept" if mark == "A" else "broken"
    for status in COLUMNS:
        cells[status, "intent.recorded"] = "broken"
    return cells


TABLE: dict[tuple[Status, str], Cell] = _read(_ROWS)
"""Every pair; a pair that is not here does not exist."""

ACCEPTED: frozenset[tuple[Status, str]] = frozenset(
    pair for pair, cell in TABLE.items() if cell == "accept"
)
