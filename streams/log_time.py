"""Whether the time that partitions were decided in is ahead of what all clocks say now.

Guarantees that whoever owns such a partition says so once, whoever owned it before, and says when
it is over. Without I/O; called by the processor.
"""

import logging
from weakref import WeakSet

from streams.owner import Owner

logger = logging.getLogger("actionledger")


class LogTimeWatch:
    """What was told of the owners of one process. `skew_ms` apart, clocks count as the same."""

    def __init__(self, skew_ms: int) -> None:
        self._skew_ms = skew_ms
        self._ahead: WeakSet[Owner] = WeakSet()

    def look(self, owner: Owner, mono_ms: int) -> None:
        """Say that all clocks were set back behind what was decided, or that they have come there:
        nothing starts meanwhile, as no offer reaches to that time.
        """
        ahead_ms = owner.ahead_ms(mono_ms)
        is_ahead, was_ahead = ahead_ms > self._skew_ms, owner in self._ahead
        if is_ahead and not was_ahead:
            self._ahead.add(owner)
            logger.error(
                "log_time_ahead", extra={"partition": owner.partition, "ahead_ms": ahead_ms}
            )
        elif was_ahead and not is_ahead:
            self._ahead.discard(owner)
            logger.info("log_time_reached", extra={"partition": owner.partition})
