"""In which order the workers of `make test` take the files.

They take whole files, one after another. Those of some folders compute all the time, the others
mostly wait for servers: mixed, they share the processors; apart, those are idle first and then too
few. The longest files begin first, or one of them would be waited for alone at the end.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

LONGEST: Final = (
    "acceptance/test_demo.py",
    "simulation/test_histories.py",
)
"""From below `tests`, the longest first."""

COMPUTING: Final = ("golden", "model", "property", "simulation", "unit")
"""Folders below `tests` that compute."""

TESTS: Final = Path(__file__).parent


def mixed(files: Sequence[str]) -> list[str]:
    """Files from below `tests`, each kind in its own order and spread over the whole."""
    ranked = sorted(files, key=lambda name: (name not in LONGEST, *_rank(name)))
    kinds: tuple[list[str], list[str]] = ([], [])
    for name in ranked:
        kinds[name.startswith(COMPUTING)].append(name)
    places = {name: (place + 0.5) / len(kind) for kind in kinds for place, name in enumerate(kind)}
    return sorted(ranked, key=places.__getitem__)


def _rank(name: str) -> tuple[int, ...]:
    return (LONGEST.index(name),) if name in LONGEST else ()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files for workers; whoever runs tests in one process keeps the order of names."""
    if not hasattr(config, "workerinput"):
        return
    names = {item: item.path.relative_to(TESTS).as_posix() for item in items}
    ranks = {name: rank for rank, name in enumerate(mixed(list(dict.fromkeys(names.values()))))}
    items.sort(key=lambda item: ranks[names[item]])
