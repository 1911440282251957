"""Bounds of histories: how long the catalogue lets each operation be in doubt, and bounds that
nobody would come to in half a minute, drawn in for one history as its durations are.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.decide import gates, intake, questions
from ledger.core.decide.questions import bound_of
from streams import held_ticks, waiting_inputs
from tests.simulation.catalogue import (
    RESERVATIONS,
    STREAM_ACTIONS,
    STREAM_ACTIONS_ORDINARY,
    UNANSWERED,
    published,
)
from tests.simulation.weather import Weather

_Bounds = Sequence[tuple[Any, str, int]]
_TOGETHER: Final[_Bounds] = (
    (intake, "STREAM_ACTIONS_ORDINARY_MAX", STREAM_ACTIONS_ORDINARY),
    (intake, "STREAM_ACTIONS_MAX", STREAM_ACTIONS),
    (gates, "RESERVATIONS_MAX", RESERVATIONS),
)
_SILENT: Final[_Bounds] = ((questions, "LOOKUPS_UNANSWERED_MAX", UNANSWERED),)
"""Where a provider never answers again every question is waited for, and the time is short."""

_WAITING: Final = (waiting_inputs, held_ticks)


@contextmanager
def bounded(weather: Weather) -> Iterator[None]:
    """The ledger with the bounds of this weather; put back behind it."""
    most = weather.waiting_max
    room = () if most is None else [(place, "WAITING_INPUTS_MAX", most) for place in _WAITING]
    longest = _TOGETHER if weather.together else _SILENT if weather.outlasts else ()
    with _drawn_in((*longest, *room)):
        yield


@contextmanager
def _drawn_in(bounds: _Bounds) -> Iterator[None]:
    kept = [(place, name, getattr(place, name)) for place, name, _ in bounds]
    for place, name, bound in bounds:
        setattr(place, name, bound)
    try:
        yield
    finally:
        for place, name, bound in kept:
            setattr(place, name, bound)


def _declared(bounds: _Bounds = ()) -> Mapping[str, int]:
    catalogue = parse_catalogue(published(together=True).content)
    assert isinstance(catalogue, Catalogue)
    with _drawn_in(bounds):
        return {one.name: bound_of(one, catalogue.timing) for one in catalogue.operations}


# Asked before anybody breaks the product, so that no bug stretches what it is held against.
_ORDINARY_MS: Final = _declared()
_SILENT_MS: Final = _declared(_SILENT)


def bounds_ms(weather: Weather) -> Mapping[str, int]:
    """By operation, how long after its first start an effect may be in doubt."""
    return _SILENT_MS if weather.outlasts else _ORDINARY_MS
