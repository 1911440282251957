"""The order in which workers take the files of tests."""

from tests.order import COMPUTING, LONGEST, TESTS, mixed


def test_every_file_that_begins_first_exists() -> None:
    """Once each, by the name that it has now; and so do the folders."""
    assert len(set(LONGEST)) == len(LONGEST)
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
    assert [name for name in COMPUTING if not (TESTS / name).is_dir()] == []


def test_files_that_compute_are_spread_among_those_that_wait() -> None:
    """None is lost, each kind keeps its order but for the longest, and neither is left for last."""
    waiting = [f"integration/test_{number}.py" for number in range(4)]
    computing = [f"unit/test_{number}.py" for number in range(8)]
    order = mixed([*waiting, *computing, *LONGEST])
    assert sorted(order) == sorted([*waiting, *computing, *LONGEST])
    assert set(order[:4]) > set(LONGEST)
    assert [name for name in order if name in waiting] == waiting
    assert [name for name in order if name in computing] == computing
    kinds = [name in computing for name in order]
    assert all(any(kinds[begin : begin + 3]) for begin in range(len(kinds) - 2))
    assert not any(all(kinds[begin : begin + 4]) for begin in range(len(kinds) - 3))
