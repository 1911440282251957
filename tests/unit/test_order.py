"""The files of tests that begin first."""

from pathlib import Path

from tests.order import LONGEST

TESTS = Path(__file__).parents[1]


def test_every_file_that_begins_first_exists() -> None:
    """Once each, by the name that it has now."""
    assert len(set(LONGEST)) == len(LONGEST)
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
