"""Seeded bugs: the simulation finds every one, in the seeds that every run of the tests lives."""

import pytest

from tests.simulation.runs import SABOTAGED_MAX, first_that_shows, shows
from tests.simulation.saboteurs import SABOTEURS, STRUCK

SABOTEURS_MIN = 25


@pytest.mark.parametrize("name", sorted(SABOTEURS))
def test_every_saboteur_is_caught(name: str) -> None:
    """A product without this guard breaks a law in the seed that is named; with it, it does not.

    Where the world has changed since, another seed is to be named: to look for one takes a hundred
    times as long.
    """
    if not shows(name, SABOTEURS[name].seed):
        found = first_that_shows(name)
        assert found is not None, f"{SABOTEURS[name].what}, and {SABOTAGED_MAX} seeds do not notice"
        pytest.fail(f"name seed {found} for {name}: {SABOTEURS[name].seed} does not show it now")


def test_what_has_no_saboteur_is_told_why() -> None:
    """Each bug of the list is a switch, or is struck for a reason; there are enough of them."""
    assert len(SABOTEURS) >= SABOTEURS_MIN
    assert not STRUCK.keys() & SABOTEURS.keys()
    for name, why in STRUCK.items():
        assert why, name
        if why.startswith("is "):
            assert set(why.removeprefix("is ").split(";")[0].split(", ")) <= SABOTEURS.keys(), name
