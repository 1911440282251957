"""An estimate of the bytes that entries take which are held by key, such as streams: a thousand
with long texts take as much as twenty thousand others, so a bound on their number is not enough.

Counts the bytes of the records that an entry was made from. Most records leave little in a state,
so an entry to which many bytes were added is measured again. Without I/O; called by whoever holds
streams, or records of streams.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from ledger.log.port import Record

MEASURED_AGAIN_MIN: Final = 8 * 1_024
"""Bytes added to an entry before it is measured again; at least as many as it had."""


def record_bytes(record: Record) -> int:
    """What a record says, wherever it says it: in its key, its value or its headers."""
    headers = sum(len(name) + len(value) for name, value in record.headers)
    return len(record.key or b"") + len(record.value) + headers


class Sizes:
    """Sizes by key; the entry that was added to last stands last."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._known: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def add(self, key: str, size_bytes: int, measure: Callable[[], int] | None = None) -> None:
        """Add bytes to an entry; `measure` says how large it is by now."""
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
        """Forget an entry that is no longer held."""
        self.total_bytes -= sum(self._known.pop(key, (0, 0)))

    def oldest(self) -> str:
        """The key that was not added to for longest."""
        return next(iter(self._known))
