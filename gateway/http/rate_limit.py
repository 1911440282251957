"""How often one may do something in any minute, counted by name.

Guarantees to remember no more names than its maximum: the one that was not counted for longest is
forgotten first. Without a clock of its own. Called by the routes.
"""

from collections import OrderedDict, deque
from typing import Final

WINDOW_S: Final = 60.0


class RateLimit:
    """Counts by name, over a window that slides."""

    def __init__(self, times_max: int, *, names_max: int) -> None:
        self._times_max = times_max
        self._names_max = names_max
        self._seen: OrderedDict[str, deque[float]] = OrderedDict()

    def times(self, name: str, now_s: float) -> int:
        """How often it was within the last minute."""
        times = self._seen.get(name, deque())
        while times and times[0] <= now_s - WINDOW_S:
            times.popleft()
        return len(times)

    def allows(self, name: str, now_s: float) -> bool:
        """Count one more time of a name, unless it is at its limit; whether it was counted."""
        if self.times(name, now_s) >= self._times_max:
            return False
        times = self._seen.setdefault(name, deque(maxlen=self._times_max))
        self._seen.move_to_end(name)
        if len(self._seen) > self._names_max:
            self._seen.popitem(last=False)
        times.append(now_s)
        return True
