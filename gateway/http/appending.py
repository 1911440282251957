"""An appender that outlives trouble: a spent one is replaced, by whoever needs it next.

Guarantees that a failed append is told to its caller and never tried again here, because it is not
known whether it landed; the sender's own repetition is the retry. Used for webhooks.
"""

import asyncio
from collections.abc import Sequence

from ledger.log.kafka import KafkaLog
from ledger.log.port import Appended, Appender, AppendUnknownError, Outgoing


class LastingAppender:
    """The appender port over a log; any number of callers may append at the same time."""

    def __init__(self, log: KafkaLog) -> None:
        self._log = log
        self._appender: Appender | None = None
        self._changing = asyncio.Lock()

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """See `Appender.append`; raises AppendUnknownError, LogUnreachableError."""
        appender = self._appender or await self._new()
        try:
            return await appender.append(topic, partition, records)
        except AppendUnknownError:
            await self._drop(appender)
            raise

    async def _new(self) -> Appender:
        async with self._changing:
            if self._appender is None:
                self._appender = await self._log.appender()
            return self._appender

    async def _drop(self, spent: Appender) -> None:
        """Forget and close a spent appender, once, whoever of its users notices first."""
        if self._appender is spent:
            self._appender = None
            await spent.close()

    async def close(self) -> None:
        """Let go of the broker."""
        if self._appender is not None:
            await self._drop(self._appender)
