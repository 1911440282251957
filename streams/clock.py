"""The clocks that the shells read, and the one comparison between them that stops a process.

Everything without I/O takes these as numbers. The monotonic clock also runs while the machine
sleeps, so that a lease is over after a night with the lid closed.
"""

import time

from ledger.core.errors import LedgerError


class ClockSkewError(LedgerError):
    """This machine's clock and the broker's are further apart than the installation allows."""


def mono_ms() -> int:
    """Milliseconds that never run back and never stop."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970, as this machine believes."""
    return time.time_ns() // 1_000_000


def check_skew(appended_at: int, *, skew_ms: int) -> None:
    """Compare the broker's time of an append acknowledged just now. Raises ClockSkewError."""
    apart_ms = abs(wall_ms() - appended_at)
    if apart_ms > skew_ms:
        raise ClockSkewError(
            f"This machine's clock and the broker's are {apart_ms} ms apart, not {skew_ms}.",
            hint="Set both clocks right (NTP), then start again.",
        )
