"""Seeded bugs: the simulation finds every one within a stated number of seeds."""

import pytest

from tests.simulation.history import run
from tests.simulation.saboteurs import SABOTEURS, sabotaged


@pytest.mark.parametrize("name", sorted(SABOTEURS))
def test_every_saboteur_is_caught(name: str) -> None:
    """A product without this guard breaks a law in one of the first seeds; with it, it does not."""
    saboteur = SABOTEURS[name]
    for seed in range(saboteur.found_within):
        with sabotaged(name):
            outcome = run(seed)
        if outcome.broken is not None:
            assert run(seed).broken is None
            return
    raise AssertionError(f"{saboteur.what}, and {saboteur.found_within} seeds do not notice")
