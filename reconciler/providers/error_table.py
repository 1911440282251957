"""What an exchange without success means, as data: by phase, trouble and status.

Guarantees that whatever the table does not name is `Unresolved`: only a row that says "no effect"
can make a refusal. Must never look at what a provider promises elsewhere; an adapter with a better
contract brings its own rows. Called by performers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final, assert_never

from reconciler.providers.http_exchange import (
    AFTER_FIRST_BYTE,
    BEFORE_FIRST_BYTE,
    Answered,
    Broken,
    Trouble,
)
from reconciler.providers.limits import RETRY_AFTER_MS_MAX
from reconciler.providers.port import NotSent, Refused, Retry, Unresolved


class Verdict(StrEnum):
    """What one row says."""

    NOT_SENT_LATER = "not_sent_later"
    NOT_SENT_NEVER = "not_sent_never"
    REFUSED_LATER = "refused_later"
    REFUSED_NEVER = "refused_never"
    UNRESOLVED = "unresolved"


_STATUSES: Final = {
    400: Verdict.REFUSED_NEVER,
    401: Verdict.REFUSED_NEVER,
    402: Verdict.REFUSED_NEVER,
    403: Verdict.REFUSED_NEVER,
    404: Verdict.REFUSED_NEVER,
    405: Verdict.REFUSED_NEVER,
    # 408 and 409 are not here: the first may follow a request that was read, the second mostly
    # means that an earlier one under the same key is still running.
    413: Verdict.REFUSED_NEVER,
    414: Verdict.REFUSED_NEVER,
    415: Verdict.REFUSED_NEVER,
    422: Verdict.REFUSED_NEVER,
    429: Verdict.REFUSED_LATER,
    431: Verdict.REFUSED_NEVER,
}

_TROUBLES: Final = {
    **dict.fromkeys(BEFORE_FIRST_BYTE, Verdict.NOT_SENT_LATER),
    # The same request would be just as impossible to write the next time.
    Trouble.UNSENDABLE: Verdict.NOT_SENT_NEVER,
    **dict.fromkeys(AFTER_FIRST_BYTE, Verdict.UNRESOLVED),
}


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """Rows by status and by trouble. `statuses` may be replaced where a provider promises more."""

    statuses: Mapping[int, Verdict] = field(default_factory=lambda: _STATUSES)
    troubles: Mapping[Trouble, Verdict] = field(default_factory=lambda: _TROUBLES)


DEFAULT: Final = ErrorTable()


def judge(
    exchanged: Answered | Broken, table: ErrorTable, code: str | None
) -> Refused | NotSent | Unresolved:
    """Say what an exchange that did not succeed means; `code` is the provider's own word for it."""
    match exchanged:
        case Broken(trouble):
            verdict = table.troubles.get(trouble, Verdict.UNRESOLVED)
            return _outcome(verdict, trouble.value, None)
        case Answered(status):
            verdict = table.statuses.get(status, Verdict.UNRESOLVED)
            return _outcome(verdict, code or f"http_{status}", retry_after_ms(exchanged))
        case _:
            assert_never(exchanged)


def _outcome(
    verdict: Verdict, code: str, retry_after: int | None
) -> Refused | NotSent | Unresolved:
    match verdict:
        case Verdict.NOT_SENT_LATER:
            return NotSent(code, Retry.LATER)
        case Verdict.NOT_SENT_NEVER:
            return NotSent(code, Retry.NEVER)
        case Verdict.REFUSED_LATER:
            return Refused(code, Retry.LATER, retry_after)
        case Verdict.REFUSED_NEVER:
            return Refused(code, Retry.NEVER)
        case Verdict.UNRESOLVED:
            return Unresolved(code)
        case _:
            assert_never(verdict)


def retry_after_ms(answer: Answered) -> int | None:
    """Retry-After as milliseconds, at most `RETRY_AFTER_MS_MAX`; None if missing or unreadable.

    Both forms of RFC 9110 are read: seconds, and a date compared with this machine's clock.
    """
    value = (answer.header("retry-after") or "").strip()
    if value.isascii() and value.isdigit():
        # More digits than that are past the maximum whatever they say.
        seconds = int(value[:9])
        return min(seconds * 1000, RETRY_AFTER_MS_MAX)
    try:
        at = parsedate_to_datetime(value)
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        wait = int((at - datetime.now(UTC)).total_seconds() * 1000)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(wait, 0), RETRY_AFTER_MS_MAX)
