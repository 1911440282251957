"""A third of the crash matrix, another one every day: `make crash` runs all of it, cell by cell.

Here the cells of all processes strike one installation at once, each process going from one of its
points to the next, so that the same minute of work meets some thirty of them.
"""

from pathlib import Path

import pytest

from ledger.log.crashpoints import COMMANDS, POINTS
from tests.crash.matrix import (
    PASSED_SELDOM,
    THIRD_VARIABLE,
    THIRDS,
    Cell,
    Fault,
    all_cells,
    third,
    third_of_this_run,
)
from tests.crash.provoking import PROVOCATIONS
from tests.crash.runner import Campaign, installation
from tests.crash.test_kills import SEED_VARIABLE, seed_of_run
from tests.patience import CAMPAIGN_SECONDS
from tests.servers import Addresses


@pytest.mark.timeout(CAMPAIGN_SECONDS)
async def test_processes_die_and_freeze_at_their_points_and_every_law_holds(
    servers: Addresses, tmp_path: Path
) -> None:
    """Every cell of the third is reached, everybody comes back, and the log, the book, the tables
    and the callers agree.
    """
    seed, number = seed_of_run(), third_of_this_run()
    cells = third(all_cells(seed), number)
    print(  # noqa: T201 - shown on failure
        f"third {number} of {THIRDS}, {len(cells)} cells, seed {seed}: "
        f"repeat with {THIRD_VARIABLE}={number} {SEED_VARIABLE}={seed}"
    )

    def told(cell: Cell, seconds: float) -> None:
        print(f"{seconds:5.1f} s  {cell}")  # noqa: T201

    async with installation(servers, tmp_path) as made:
        report = await Campaign(made, seed).strike(cells, told)
    print(report)  # noqa: T201
    assert report.is_right


def test_three_days_try_every_point_both_ways() -> None:
    """The thirds are the matrix, each cell in one of them, and the days take turns."""
    cells = all_cells(0)
    thirds = [third(cells, number) for number in range(THIRDS)]
    assert sorted(map(str, cells)) == sorted(str(cell) for one in thirds for cell in one)
    assert {(cell.point.name, cell.fault) for cell in cells} == {
        (point.name, fault) for point in POINTS for fault in Fault if point.process not in COMMANDS
    }


def test_points_that_need_more_than_traffic_exist() -> None:
    """No provocation, and no point that is passed seldom, is left of a point that is gone."""
    names = {point.name for point in POINTS}
    assert set(PROVOCATIONS) <= names
    assert names >= PASSED_SELDOM
