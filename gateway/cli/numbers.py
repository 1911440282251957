"""Whole numbers and times as somebody types them.

Guarantees that any text has an answer: what is no number is None, and never a fault of ours. Called
by commands that take places, ports and times.
"""

from datetime import UTC, datetime
from typing import Final

_DIGITS_MAX: Final = 15
"""Of a number below 2**53, which is what places and times are."""
_MS_PER_S: Final = 1_000
_LOG_TIME_MS_MIN: Final = 10**11
"""In 1973: a smaller number is a time in seconds, and would mean before everything."""


def whole_number(text: str) -> int | None:
    """The number that a text of ASCII digits says; None for any other text."""
    is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX
    return int(text) if is_number else None


def moment_of(text: str) -> int | None:
    """Milliseconds of log time from those, or from an RFC 3339 time (UTC where it names no zone);
    None for any other text, also for a number of seconds.
    """
    number = whole_number(text)
    if number is not None:
        return number if number >= _LOG_TIME_MS_MIN or number == 0 else None
    try:
        at = datetime.fromisoformat(text)
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return max(0, round(at.timestamp() * _MS_PER_S))
    except (ValueError, OverflowError):
        return None
