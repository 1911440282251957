"""Live windows over what needs eyes: how much became unknown, was settled, needs a person, lately.

Guarantees that a notice counts once however often it is told, and that counting takes bounded room.
Kept in memory only: a restart begins with an empty window, because the read models know the whole.
Called by the attention agent.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping

from ledger.log.attention_record import AttentionKind, AttentionRaised
from streams.limits import ATTENTION_REMEMBERED_MAX, ATTENTION_WINDOW_MS


class AttentionWindow:
    """Counts of the notices whose facts were decided within the last hour of log time."""

    def __init__(self, window_ms: int = ATTENTION_WINDOW_MS) -> None:
        self._window_ms = window_ms
        self._seen: OrderedDict[tuple[int, int, int], None] = OrderedDict()
        self._inside: deque[tuple[int, AttentionKind]] = deque()
        self._counts: Counter[AttentionKind] = Counter()
        self._newest_at = 0

    def add(self, raised: AttentionRaised) -> bool:
        """Count a notice; whether it was new."""
        identity = (raised.ledger_partition, raised.ledger_offset, raised.ordinal)
        if identity in self._seen:
            return False
        self._seen[identity] = None
        while len(self._seen) > ATTENTION_REMEMBERED_MAX:
            self._seen.popitem(last=False)
        self._newest_at = max(self._newest_at, raised.decided_at)
        self._inside.append((raised.decided_at, raised.kind))
        self._counts[raised.kind] += 1
        self._forget()
        return True

    def counts(self) -> Mapping[AttentionKind, int]:
        """How many of each kind are inside the window."""
        return {kind: self._counts[kind] for kind in AttentionKind}

    def _forget(self) -> None:
        # Partitions are not in step, so a late notice may stay a little longer than the window.
        oldest_at = self._newest_at - self._window_ms
        while self._inside and (
            self._inside[0][0] <= oldest_at or len(self._inside) > ATTENTION_REMEMBERED_MAX
        ):
            _, kind = self._inside.popleft()
            self._counts[kind] -= 1
