"""The clocks that the shells read, and the comparisons between them that stop a process.

Everything without I/O takes these as numbers. The monotonic clock also runs while the machine
sleeps, so that a lease is over after a night with the lid closed.
"""

import time

from ledger.core.errors import LedgerError

SKEW_MS_DEFAULT = 5_000
_RUNS_ASLEEP = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""Linux has a clock of its own for this; on macOS the monotonic one runs on."""


class ClockSkewError(LedgerError):
    """This machine's clock and the broker's are further apart than the installation allows."""


def mono_ms() -> int:
    """Milliseconds that never run back and never stop."""
    return time.clock_gettime_ns(_RUNS_ASLEEP) // 1_000_000


def wall_ms() -> int:
    """Milliseconds since 1970, as this machine believes."""
    return time.time_ns() // 1_000_000


def check_skew(appended_at: int, *, sent_at: int, skew_ms: int) -> None:
    """Compare the broker's time of an append, sent at `sent_at` by this machine's clock and
    acknowledged just now. Raises ClockSkewError.

    Any moment in between is right, however long the acknowledgement took: a broker that comes back
    answers with the time at which it took the append before.
    """
    apart_ms = max(sent_at - appended_at, appended_at - wall_ms())
    if apart_ms > skew_ms:
        raise ClockSkewError(
            f"This machine's clock and the broker's are {apart_ms} ms apart, not {skew_ms}.",
            hint="Set both clocks right (NTP), then start again.",
        )


def check_not_ahead(appended_at: int, *, running_at: int, skew_ms: int) -> None:
    """Compare the append time of an input with the time it is here: an input may be old, but not
    from the future. Raises ClockSkewError.
    """
    ahead_ms = appended_at - running_at
    if ahead_ms > skew_ms:
        raise ClockSkewError(
            f"An input was appended {ahead_ms} ms ahead of the log's time, not {skew_ms}.",
            hint="The broker's clock was set forward. Nothing here is decided before that time.",
        )
