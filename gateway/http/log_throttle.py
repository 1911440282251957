"""Log lines that a stranger can cause as often as he likes, written only every few seconds.

Guarantees one line of a kind in each interval, with the number of those that were left out, in
bounded memory. Must never be used where each line matters: there are counters for that. Called by
routes.
"""

from collections import OrderedDict
from collections.abc import Hashable

from gateway.http.limits import KINDS_TOLD_MAX, REPEAT_LINE_SECONDS

_OTHERS = ("others",)


class LogThrottle:
    """When a line of each kind was written last, and how many were left out since."""

    def __init__(
        self, every_seconds: float = REPEAT_LINE_SECONDS, kinds_max: int = KINDS_TOLD_MAX
    ) -> None:
        self._every_seconds = every_seconds
        self._kinds_max = kinds_max
        self._written: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def left_out(self, kind: Hashable, now_s: float) -> int | None:
        """How many lines of this kind were left out before this one, which is to be written; None
        where this one is to be left out too. `now_s` is a monotonic time.
        """
        while self._written:
            oldest, (at_s, count) = next(iter(self._written.items()))
            if count or now_s - at_s < self._every_seconds:
                break
            del self._written[oldest]
        if kind not in self._written and len(self._written) >= self._kinds_max:
            kind = _OTHERS
        at_s, count = self._written.get(kind, (now_s - self._every_seconds, 0))
        if now_s - at_s < self._every_seconds:
            self._written[kind] = (at_s, count + 1)
            return None
        self._written[kind] = (now_s, 0)
        self._written.move_to_end(kind)
        return count
