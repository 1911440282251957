"""Progress of long work: a bar on a terminal, plain lines elsewhere, on stderr in both cases.

Guarantees that nothing is drawn where nobody looks, and that a line is written at most when
something was completed. Called by commands that take longer than a breath.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from gateway.local.progress import Progress, Report

LINE_EVERY_S: Final = 1.0


@contextmanager
def progress() -> Iterator[Report]:
    """How work tells how far it is; safe to call from other threads."""
    if sys.stderr.isatty():
        with _bars() as report:
            yield report
    else:
        yield _lines()


@contextmanager
def _bars() -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    bars = Bars(
        TextColumn("{task.description:<14}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("[dim]{task.fields[detail]}"),
        console=Console(stderr=True, highlight=False),
        transient=True,
    )
    known = {}
    with bars:

        def report(step: Progress) -> None:
            if step.step not in known:
                known[step.step] = bars.add_task(step.step, total=step.total or None, detail="")
            bars.update(
                known[step.step],
                completed=step.done,
                total=step.total or None,
                detail=step.detail[:30],
            )

        yield report


def _lines() -> Report:
    told: dict[str, tuple[int, float]] = {}

    def report(step: Progress) -> None:
        done, at_s = told.get(step.step, (-1, 0.0))
        is_over = step.total > 0 and step.done >= step.total
        now_s = time.monotonic()
        if step.done == done or (now_s - at_s < LINE_EVERY_S and not is_over and done >= 0):
            return
        told[step.step] = (step.done, now_s)
        of = f"{step.done}/{step.total}" if step.total else str(step.done)
        detail = f" ({step.detail})" if step.detail else ""
        sys.stderr.write(f"{step.step}: {of}{detail}\n")
        sys.stderr.flush()

    return report
