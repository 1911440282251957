"""How long work tells how far it is.

Called with a `Progress` whenever something moved, possibly from another thread, never after the
call it was given to has returned.
"""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One step of the way: `done` of `total`, where a total of 0 means that it is not known."""

    step: str
    done: int
    total: int
    detail: str = ""


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Tell nobody."""
