"""The occurrences of a daily job: one business event for each local date, and the moment it is due.

Guarantees that a job which is due once a day has one identity a day, also on the two days on which
the clocks change, however often and wherever it fires; and that the day on which its time does not
exist is not left out. Must never read a clock. Called by whatever fires the job.

A time that exists twice is due the first time. A time that does not exist is due at the next moment
that does: when the clocks have just been put forward.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,117}")
"""What is left of the 128 characters of a business event beside a date."""
_SECOND: Final = timedelta(seconds=1)
_DAY: Final = timedelta(days=1)
_LATE_MAX: Final = timedelta(hours=6)
"""A firing that is later is none that came late: the job is fired at another time than it says."""


class LocalTime(StrEnum):
    """How often the job's time of day exists on its date."""

    ONCE = "once"
    TWICE = "twice"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class Occurrence:
    """The job on one local date. `due_at` is the moment, in UTC, at which it is due; `local_time`
    says whether the clocks had a part in it.
    """

    business_event: str
    date: date
    due_at: datetime
    local_time: LocalTime


class Daily:
    """A job once a day at a local time in a zone of the IANA data base, such as `Europe/Berlin`.

    `name` is the name of the schedule and never changes: it makes the key. Raises ValueError.
    """

    __slots__ = ("_at", "_name", "_zone")

    def __init__(self, name: str, *, at: time, zone: str) -> None:
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                "name: use 1 to 117 letters A-Z a-z, digits, dots, underscores, hyphens"
            )
        if at.tzinfo is not None or at.microsecond:
            raise ValueError("at: give whole seconds of a local time; the zone is given beside it")
        try:
            self._zone = ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(
                f"zone: {zone!r:.80} is not in the time zone data base; give a name such as "
                "Europe/Berlin, and install tzdata where the system has none"
            ) from None
        self._name = name
        self._at = at.replace(fold=0)

    def on(self, day: date) -> Occurrence:
        """The occurrence of a local date. Raises TypeError for a moment: that is for `at`."""
        if isinstance(day, datetime):
            raise TypeError("day: give a date; the occurrence of a moment is `at(moment)`")
        local = datetime.combine(day, self._at)
        first, last = (self._instant(local, fold) for fold in (0, 1))
        if first.astimezone(self._zone).replace(tzinfo=None, fold=0) != local:
            kind, due_at = LocalTime.NEVER, self._put_forward(last, first)
        else:
            kind = LocalTime.ONCE if first == last else LocalTime.TWICE
            due_at = first
        return Occurrence(f"{self._name}-{day.isoformat()}", day, due_at, kind)

    def at(self, instant: datetime) -> Occurrence:
        """The occurrence that a moment belongs to: that of its local date; before that one is due
        the one of the day before where that is nearer and was due within six hours, because a
        firing that comes late may come after midnight. Two firings in one night get the same one.
        Raises ValueError for a time without a zone.
        """
        day = _aware(instant).astimezone(self._zone).date()
        found = self.on(day)
        if instant < found.due_at and day > date.min:
            before = self.on(day - _DAY)
            late = instant - before.due_at
            if late <= _LATE_MAX and late < found.due_at - instant:
                return before
        return found

    def due(self, *, after: datetime, until: datetime) -> Iterator[Occurrence]:
        """Every occurrence that is due later than `after` and not later than `until`, in order of
        their dates: whoever asks so from time to time leaves none out. Raises ValueError.
        """
        after, until = _aware(after), _aware(until)
        # A moment that stands in for a missing time may lie on the next local date.
        day = after.astimezone(self._zone).date() - _DAY
        # And where clocks go back over midnight the date that they showed first is the later one.
        last = until.astimezone(self._zone).date() + _DAY
        while day <= last:
            occurrence = self.on(day)
            if after < occurrence.due_at <= until:
                yield occurrence
            day += _DAY

    def _instant(self, local: datetime, fold: int) -> datetime:
        return local.replace(tzinfo=self._zone, fold=fold).astimezone(UTC)

    def _put_forward(self, before: datetime, after: datetime) -> datetime:
        """The first moment of the offset that holds `after`, to the second."""
        offset = after.astimezone(self._zone).utcoffset()
        while after - before > _SECOND:
            middle = before + (after - before) // 2
            middle = middle.replace(microsecond=0)
            if middle.astimezone(self._zone).utcoffset() == offset:
                after = middle
            else:
                before = middle
        return after


def _aware(instant: datetime) -> datetime:
    if instant.tzinfo is None:
        raise ValueError("a moment needs a zone: give datetime.now(UTC), or convert it")
    return instant
