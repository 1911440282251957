"""How fast long work goes and when it will be over, told beside how far it is.

Called by commands whose steps are counted in records.
"""

import time
from typing import Final

from gateway.local.progress import Progress, Report

TELL_AFTER_S: Final = 0.5
"""A rate that was measured over less says nothing."""


class Pace:
    """Tells of steps with the rate since a step's beginning, and the time that it leaves."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._began_s: dict[str, float] = {}

    def tell(self, step: str, done: int, total: int) -> None:
        """Say how far a step is; `total` is 0 where that is not known."""
        now_s = time.monotonic()
        took_s = now_s - self._began_s.setdefault(step, now_s)
        detail = ""
        if took_s >= TELL_AFTER_S and done:
            rate = done / took_s
            left = f", {max(0, total - done) / rate:,.0f} s left" if total else ""
            detail = f"{rate:,.0f}/s{left}"
        self._report(Progress(step, done, total, detail))
