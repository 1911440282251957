"""About how many bytes things take that are held by key, so that what holds them is bounded by what
is in them too: a thousand streams of long texts take what twenty thousand others do.

An estimate, by the records that a thing was made from; where much has come to one since it was
measured it is measured again, for most records leave nothing in a state. Without I/O; called by
whoever holds streams, or records of streams.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MEASURED_AGAIN_MIN: Final = 8 * 1_024
"""What comes to a thing before it is measured again, and at least as much as it was."""


class Sizes:
    """Sizes by key; who was added to last stands last."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._known: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: str, size_bytes: int, measure: Callable[[], int] | None = None) -> None:
        """So much came to a thing; `measure` says how large it is by now."""
        measured, since = self._known.get(key, (0, 0))
        since += size_bytes
        self.total_bytes += size_bytes
        if measure is not None and since > max(MEASURED_AGAIN_MIN, measured):
            now = measure()
            self.total_bytes += now - measured - since
            measured, since = now, 0
        self._known[key] = (measured, since)
        self._known.move_to_end(key)

    def drop(self, key: str) -> None:
        """A thing is held no more."""
        self.total_bytes -= sum(self._known.pop(key, (0, 0)))

    def oldest(self) -> str:
        """Whom nothing came to for longest."""
        return next(iter(self._known))
