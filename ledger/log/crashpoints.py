"""Named places at which a test may end the process: the moments between which a crash has different
consequences.

A point does nothing unless `ACTIONLEDGER_CRASH_AT` names it, as `name` or `name:3` for the third
time it is passed; then the process kills itself without a word, as a machine does that loses power.
The list is complete: a test compares it with the code both ways.
"""

import os
import signal
from typing import Final

POINTS: Final[tuple[str, ...]] = (
    "barrier_sent",
    "decisions_sent",
    "decisions_acked",
    "before_first_byte",
    "answer_half_read",
    "webhook_acked",
)
"""Barrier on its way and not acknowledged; decisions likewise; decisions acknowledged and not taken
over; the last check passed and no byte sent; the provider's answer begun and not read; a webhook in
the log and its sender not answered.
"""

_armed, _, _count = os.environ.get("ACTIONLEDGER_CRASH_AT", "").partition(":")
_left = int(_count) if _count.isdecimal() else 1


def crash_point(name: str) -> None:
    """End the process here if this point is armed and it has been passed often enough."""
    if name == _armed:
        _pass()


def is_armed(name: str) -> bool:
    """Whether the next passes of a point may end the process."""
    return name == _armed


def _pass() -> None:
    global _left  # noqa: PLW0603 - one process, one armed point
    _left -= 1
    if _left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
