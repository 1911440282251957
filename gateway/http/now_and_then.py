"""Log lines that a stranger can cause as often as he likes, told now and then.

Guarantees one line of a kind in a while, with the number of those that were left out, in bounded
memory. Must never be used where each line matters: there are counters for that. Called by routes.
"""

from collections import OrderedDict
from collections.abc import Hashable

from gateway.http.limits import KINDS_TOLD_MAX, REPEAT_LINE_SECONDS

_OTHERS = ("others",)


class NowAndThen:
    """When each kind of line was told last, and how many were left out since."""

    def __init__(
        self, every_seconds: float = REPEAT_LINE_SECONDS, kinds_max: int = KINDS_TOLD_MAX
    ) -> None:
        self._every_seconds = every_seconds
        self._kinds_max = kinds_max
        self._told: OrderedDict[Hashable, tuple[float, int]] = OrderedDict()

    def say(self, kind: Hashable, now_s: float) -> int | None:
        """How many lines of this kind were left out before this one, which is to be told; None
        where it is to be left out too. `now_s` is a monotonic time.
        """
        while self._told:
            oldest, (at_s, unsaid) = next(iter(self._told.items()))
            if unsaid or now_s - at_s < self._every_seconds:
                break
            del self._told[oldest]
        if kind not in self._told and len(self._told) >= self._kinds_max:
            kind = _OTHERS
        at_s, unsaid = self._told.get(kind, (now_s - self._every_seconds, 0))
        if now_s - at_s < self._every_seconds:
            self._told[kind] = (at_s, unsaid + 1)
            return None
        self._told[kind] = (now_s, 0)
        self._told.move_to_end(kind)
        return unsaid
