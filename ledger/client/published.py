"""The config topic, followed: what is published, kept at hand for whoever must know it at once.

Guarantees that what it tells is complete up to where it began, and then never far behind. It is
what was published, not what a partition has adopted: a door that refuses by it may refuse early and
must never grant. Called by the gateway.
"""

import asyncio
from collections.abc import Callable
from typing import Self

from ledger.log.kafka import KafkaLog, KafkaReader
from ledger.log.published import CONFIG_PLACE, Published
from ledger.log.reading import read_up_to

READ_MS = 500


class PublishedFollower:
    """Follows the config topic while it is open; `on_failure` hears why it no longer can."""

    def __init__(self, log: KafkaLog, *, on_failure: Callable[[Exception], None]) -> None:
        self._log = log
        self._on_failure = on_failure
        self._published = Published()
        self._reader: KafkaReader | None = None
        self._task: asyncio.Task[None] | None = None

    def now(self) -> Published:
        """What is published, as far as it was read."""
        return self._published

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Read what is there, then follow. Raises what a reader raises."""
        reader = self._reader = await self._log.reader({CONFIG_PLACE: 0})
        try:
            ends = await reader.end_offsets([CONFIG_PLACE])
            async for records in read_up_to(reader, {CONFIG_PLACE: 0}, ends):
                for record in records:
                    self._published.feed(record)
        except BaseException:
            await self.close()
            raise
        self._task = asyncio.create_task(self._follow(reader), name="published_follower")

    async def close(self) -> None:
        """Stop following; again changes nothing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._reader is not None:
            await self._reader.close()
            self._reader = None

    async def _follow(self, reader: KafkaReader) -> None:
        try:
            while True:
                for record in await reader.read(timeout_ms=READ_MS):
                    self._published.feed(record)
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            self._on_failure(fault)
            raise
