"""Seeded bugs: the simulation finds every one, in the seeds that every run of the tests lives."""

import pytest

from tests.simulation.runs import live
from tests.simulation.saboteurs import SABOTEURS, STRUCK

SEEDS_MAX = 5_000
"""Far below the histories of every run. The seed that is named is tried first: another one serves
where the world has changed since.
"""
SABOTEURS_MIN = 25


@pytest.mark.parametrize("name", sorted(SABOTEURS))
def test_every_saboteur_is_caught(name: str) -> None:
    """A product without this guard breaks a law in one of the first seeds; with it, it does not."""
    saboteur = SABOTEURS[name]
    for seed in (saboteur.seed, *range(SEEDS_MAX)):
        if saboteur.is_noticed(live(seed, saboteur=name).broken):
            assert live(seed).broken is None
            return
    raise AssertionError(f"{saboteur.what}, and {SEEDS_MAX} seeds do not notice")


def test_what_has_no_saboteur_is_told_why() -> None:
    """Each bug of the list is a switch, or is struck for a reason; there are enough of them."""
    assert len(SABOTEURS) >= SABOTEURS_MIN
    assert not STRUCK.keys() & SABOTEURS.keys()
    for name, why in STRUCK.items():
        assert why, name
        if why.startswith("is "):
            assert set(why.removeprefix("is ").split(";")[0].split(", ")) <= SABOTEURS.keys(), name
