"""An appender that outlives its producers: after a failed append the next one gets a new producer.

Guarantees no more than an append does: what failed may be in the log, and only who appends knows
whether appending it again is harmless. For records that count once by an id of their own. The owner
of a ledger partition must never use it: there a new producer is a new epoch.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from ledger.log.port import Appended, Appender, AppendUnknownError, Outgoing


class SteadyAppender:
    """Appends through a producer that is started when needed and replaced when spent."""

    def __init__(self, start: Callable[[], Awaitable[Appender]]) -> None:
        """`start` gives a new appender, such as `KafkaLog.appender`."""
        self._start = start
        self._starting = asyncio.Lock()
        self._appender: Appender | None = None
        self._is_closed = False

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """See `Appender.append`. Raises what starting a producer raises, too."""
        async with self._starting:
            appender = self._appender
            if appender is None and not self._is_closed:
                appender = self._appender = await self._start()
        if self._is_closed:
            # Perhaps while the producer was being started.
            await self.close()
            raise AppendUnknownError(
                "This appender is closed.", hint="Whoever closed it has stopped; start anew."
            )
        assert appender is not None  # noqa: S101 - it was there, or has just been started
        try:
            return await appender.append(topic, partition, records)
        except AppendUnknownError:
            # Others may be appending through the same spent one: the first to fail lets it go.
            if self._appender is appender:
                self._appender = None
                await appender.close()
            raise

    async def close(self) -> None:
        """Let the producer go, for good; what was not acknowledged may be in the log."""
        self._is_closed = True
        appender, self._appender = self._appender, None
        if appender is not None:
            await appender.close()
