"""Bounds that nobody would come to in half a minute, drawn in for one history as its durations are:
how many actions a business event may hold, and how much a gate.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ledger.core.decide import gates, intake
from tests.simulation.catalogue import RESERVATIONS, STREAM_ACTIONS, STREAM_ACTIONS_ORDINARY

_HERE: Final = (
    (intake, "STREAM_ACTIONS_ORDINARY_MAX", STREAM_ACTIONS_ORDINARY),
    (intake, "STREAM_ACTIONS_MAX", STREAM_ACTIONS),
    (gates, "RESERVATIONS_MAX", RESERVATIONS),
)


@contextmanager
def bounded() -> Iterator[None]:
    """The ledger with these bounds; put back behind it."""
    kept = [(place, name, getattr(place, name)) for place, name, _ in _HERE]
    for place, name, bound in _HERE:
        setattr(place, name, bound)
    try:
        yield
    finally:
        for place, name, bound in kept:
            setattr(place, name, bound)
