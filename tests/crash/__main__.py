"""The crash matrix: every named point, killed there and frozen there, on real processes.

    python -m tests.crash [--seed N] [--at POINT] [--fault kill|freeze] [--lanes N]

Each cell is a run of its own on an installation that lives through the points of one process; the
lanes are installations side by side on one Kafka and one Postgres. Ends with 1 when a cell was not
reached, something did not come to rest, or a law is broken.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from gateway import local
from gateway.wiring.life import first_of
from tests.crash.matrix import Cell, Fault, all_cells
from tests.crash.runner import Campaign, installation

LANES = 2
RIGHT = "right"
CELLS_OF_AN_INSTALLATION_MAX = 8
"""The whole log is judged after every cell, so an installation must not grow old."""


@dataclass
class Tally:
    """What was tried, what came of it, and how long it took."""

    total: int
    done: int = 0
    failed: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def tell(self, cell: Cell, seconds: float, verdict: str) -> None:
        """Say a line about one cell."""
        self.done += 1
        if verdict != RIGHT:
            self.failed.append(f"{cell}: {verdict}")
        line = f"[{self.done:>3}/{self.total}] {cell!s:<50} {seconds:5.1f} s  {verdict}\n"
        sys.stdout.write(line)
        sys.stdout.flush()


def batches(cells: list[Cell]) -> Iterator[list[Cell]]:
    """Cells that share an installation: of one process, kills first, not too many."""
    ordered = sorted(cells, key=lambda cell: (cell.process, cell.fault is Fault.FREEZE))
    for _, own in groupby(ordered, key=lambda cell: (cell.process, cell.fault)):
        group = list(own)
        for begin in range(0, len(group), CELLS_OF_AN_INSTALLATION_MAX):
            yield group[begin : begin + CELLS_OF_AN_INSTALLATION_MAX]


async def take_lane(
    servers: local.Servers, waiting: list[list[Cell]], seed: int, tally: Tally
) -> None:
    """Work through batches until none waits; a cell that fails ends its installation."""
    while waiting:
        batch = waiting.pop(0)
        with tempfile.TemporaryDirectory(prefix="actionledger-crash-") as folder:
            async with installation(servers, Path(folder)) as made:
                campaign = Campaign(made, seed)
                while batch:
                    cell, began = batch.pop(0), time.monotonic()
                    verdict = await judged(campaign, cell)
                    tally.tell(cell, time.monotonic() - began, verdict)
                    if verdict != RIGHT:
                        break
        if batch:
            waiting.append(batch)


async def judged(campaign: Campaign, cell: Cell) -> str:
    """One cell's verdict in words."""
    try:
        await campaign.strike([cell])
    except (AssertionError, ExceptionGroup) as broken:
        first = first_of(broken)
        if not isinstance(first, AssertionError):
            raise
        return str(first)
    return RIGHT


async def run(cells: list[Cell], seed: int, lanes: int) -> Tally:
    """Strike all cells, over so many lanes."""
    tally = Tally(len(cells))
    waiting = list(batches(cells))
    async with local.servers() as servers, asyncio.TaskGroup() as group:
        for number in range(min(lanes, len(waiting))):
            group.create_task(take_lane(servers, waiting, seed + number * 10_000, tally))
    return tally


def main(arguments: list[str]) -> int:
    """Choose the cells, run them, report; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--at", action="append", metavar="POINT")
    parser.add_argument("--fault", type=Fault, choices=list(Fault))
    parser.add_argument("--lanes", type=int, default=LANES)
    given = parser.parse_args(arguments)
    cells = [
        cell
        for cell in all_cells(given.seed)
        if (given.at is None or cell.point.name in given.at) and given.fault in {None, cell.fault}
    ]
    sys.stdout.write(f"seed {given.seed}: {len(cells)} cells, {given.lanes} lanes\n")
    tally = asyncio.run(run(cells, given.seed, given.lanes))
    seconds = time.monotonic() - tally.began
    for line in tally.failed:
        sys.stdout.write(f"\nFAILED {line}\n")
    sys.stdout.write(f"{tally.done - len(tally.failed)} of {tally.done} right in {seconds:.0f} s\n")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
