"""The cells of the crash matrix: every named point, once killed there and once frozen there.

`third` cuts the matrix in three, so that a day's tests take one and three days take all; a point is
killed on one day and frozen on another. Which third a run takes is its date's affair, or is said.
"""

import os
import time
from dataclasses import dataclass
from enum import StrEnum

from ledger.log.crashpoints import COMMANDS, POINTS, Point

THIRDS = 3
THIRD_VARIABLE = "ACTIONLEDGER_TEST_CRASH_THIRD"
DAY_SECONDS = 86_400
PASSES_MAX = 3
PASSED_SELDOM = frozenset(
    {
        "partitions_assigned",
        "checkpoint_read",
        "ledger_half_read",
        "barrier_sent",
        "barrier_acked",
        "revoke_in_batch",
        "partitions_revoked",
        "config_read",
        "quarantine_acked",
        "config_adopted",
        "positions_shown",
        "start_declined",
        "offers_withdrawn",
        "sweep_evidence_acked",
    }
)
"""Points that one life of a process passes once or twice: there the first time has to do."""


class Fault(StrEnum):
    """What befalls a process at its point."""

    KILL = "kill"
    FREEZE = "freeze"


@dataclass(frozen=True, slots=True)
class Cell:
    """One point, one fault, and at which pass it strikes."""

    point: Point
    fault: Fault
    nth: int = 1

    @property
    def process(self) -> str:
        """The process that it strikes."""
        return self.point.process

    @property
    def crash_at(self) -> str:
        """What arms a life of the process with it."""
        freeze = ":freeze" if self.fault is Fault.FREEZE else ""
        return f"{self.point.name}:{self.nth}{freeze}"

    def __str__(self) -> str:
        return f"{self.fault} {self.process} at {self.point.name}:{self.nth}"


def all_cells(seed: int) -> list[Cell]:
    """The matrix. The seed says at which pass of a point that is passed often."""
    return [
        Cell(point, fault, 1 if point.name in PASSED_SELDOM else 1 + (seed + place) % PASSES_MAX)
        for place, point in enumerate(POINTS)
        for fault in Fault
        if point.process not in COMMANDS
    ]


def third(cells: list[Cell], number: int) -> list[Cell]:
    """Every third cell, from the given one on: 0, 1 or 2."""
    return cells[number % THIRDS :: THIRDS]


def third_of_this_run() -> int:
    """The third that is asked for, or the one of this day."""
    given = os.environ.get(THIRD_VARIABLE)
    return int(time.time()) // DAY_SECONDS % THIRDS if given is None else int(given)
