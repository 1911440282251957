"""Which files of tests begin first: those that take longest.

`make test` gives whole files to its workers, one after another. A long one that begins late is
waited for at the end while the other workers have nothing left.
"""

from typing import Final

import pytest

LONGEST: Final = (
    "acceptance/test_demo.py",
    "crash/test_crash_points.py",
    "integration/test_many_members.py",
    "crash/test_kills.py",
    "simulation/test_histories.py",
)
"""From below `tests`, the longest first; a file that waits before one that computes."""

_RANKS: Final = {name: rank for rank, name in enumerate(LONGEST)}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first; all others keep their order."""
    items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    name = "/".join(item.path.parts[-2:])
    return _RANKS.get(name, len(_RANKS))
