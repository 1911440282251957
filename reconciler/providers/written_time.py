"""Times as providers write them: RFC 3339, with an offset.

Guarantees that whatever that document allows is read, the second that is put in at the end of a day
and small letters included, and that a time without an offset is refused: it could be any of
twenty-four. Called by whoever reads answers, webhooks and settlement files.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LEAP: Final = re.compile(r"(.{10}[Tt ][0-9]{2}:[0-9]{2}:)60(?=[^0-9])")
_SMALL: Final = str.maketrans("tz", "TZ")


def written_ms(text: str) -> int:
    """Milliseconds since 1970. A leap second is the first one of the minute after it, as clocks
    that do not know it count. Raises ValueError, OverflowError.
    """
    plain, count = _LEAP.subn(r"\g<1>59", text.translate(_SMALL), count=1)
    at = datetime.fromisoformat(plain)
    if at.tzinfo is None:
        raise ValueError("a time needs an offset, such as Z or +02:00")
    return (at + timedelta(seconds=count) - _EPOCH) // timedelta(milliseconds=1)
