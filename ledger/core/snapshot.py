"""The state of a stream as bytes and back: exact, the same bytes for the same log everywhere.

Guarantees `load(dump(stream)) == stream` and `dump(load(raw)) == raw`. What is not set is left out,
members stand in the order of their declaration, and keys of a caller's JSON in the order in which
the log has them. Must never read what another version wrote: such state is folded again from the
stored facts. Called by the projector, by owners that load cold state, and by replays.
"""

from typing import Final

from pydantic import TypeAdapter
from pydantic_core import SchemaSerializer, SchemaValidator

from ledger.core.state import Stream

FOLD_VERSION: Final = 10
"""Grows with every change of `state` or `evolve` that makes other bytes of the same facts."""

_ADAPTER: Final = TypeAdapter(Stream)
# The adapter's own methods look at their many options on every call; these two are what they call.
_SERIALIZER: Final[SchemaSerializer] = _ADAPTER.serializer
_VALIDATOR: Final[SchemaValidator] = _ADAPTER.validator  # type: ignore[assignment]


class ForeignSnapshotError(ValueError):
    """Bytes that are no state of this version: damaged, edited by hand, or of another version."""


def dump(stream: Stream) -> bytes:
    """The state as UTF-8 JSON."""
    return _SERIALIZER.to_json(stream, exclude_none=True)


def load(raw: bytes) -> Stream:
    """The state that `dump` wrote with this FOLD_VERSION; raises ForeignSnapshotError."""
    try:
        stream: Stream = _VALIDATOR.validate_json(raw)
    except ValueError as foreign:
        raise ForeignSnapshotError(str(foreign)) from None
    # Plain dataclasses forgive a foreign member or a number in quotes; writing it again does not.
    if dump(stream) != raw:
        raise ForeignSnapshotError("the bytes are not those that this state is written as")
    return stream
