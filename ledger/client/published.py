"""The config topic, followed: what is published, kept at hand for whoever must know it at once.

Guarantees that what it tells is complete up to where it began, and then never far behind; who is
about to refuse by it asks first for all that was published until now. It is what was published, not
what a partition has adopted: a door that refuses by it may refuse early and must never grant.
Called by the gateway.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Self

from ledger.core.errors import LedgerError
from ledger.log.kafka import KafkaLog, KafkaReader
from ledger.log.published import CONFIG_PLACE, Published
from ledger.log.reading import read_up_to

logger = logging.getLogger("actionledger.client")

READ_MS: Final = 500
CATCH_UP_MS_MAX: Final = 2_000
"""From the question for all that was published to having read it."""

_MS_PER_S: Final = 1_000


class PublishedFollower:
    """Follows the config topic while it is open; `on_failure` hears why it no longer can."""

    def __init__(self, log: KafkaLog, *, on_failure: Callable[[Exception], None]) -> None:
        self._log = log
        self._on_failure = on_failure
        self._published = Published()
        self._reader: KafkaReader | None = None
        self._asking: KafkaReader | None = None
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Condition()
        self._in_turn = asyncio.Lock()
        self._asked = self._answered = 0
        self._end = 0

    def now(self) -> Published:
        """What is published, as far as it was read."""
        return self._published

    async def catch_up(self) -> bool:
        """Read all that was published before this was called; whether that was done in time.

        However many ask at a time, the broker is asked one question, and then at most one more.
        """
        try:
            async with asyncio.timeout(CATCH_UP_MS_MAX / _MS_PER_S):
                end = await self._end_by_now()
                async with self._moved:
                    await self._moved.wait_for(lambda: self._published.next_offset >= end)
        except (LedgerError, TimeoutError) as trouble:
            logger.warning("configuration_not_caught_up", extra={"reason": repr(trouble)})
            return False
        return True

    async def _end_by_now(self) -> int:
        """Where the config topic ends, by an answer to a question that was asked from now on."""
        before = self._asked
        async with self._in_turn:
            if self._answered <= before:
                self._asked += 1
                assert self._asking is not None  # noqa: S101 - set by start
                self._end = (await self._asking.end_offsets([CONFIG_PLACE]))[CONFIG_PLACE]
                self._answered = self._asked
            return self._end

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Read what is there, then follow. Raises what a reader raises."""
        reader = self._reader = await self._log.reader({CONFIG_PLACE: 0})
        try:
            # Of its own: one that fetches would answer only after the fetch it waits for.
            self._asking = await self._log.reader({})
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
        for opened in (self._reader, self._asking):
            if opened is not None:
                await opened.close()
        self._reader = self._asking = None

    async def _follow(self, reader: KafkaReader) -> None:
        try:
            while True:
                records = await reader.read(timeout_ms=READ_MS)
                for record in records:
                    self._published.feed(record)
                if records:
                    async with self._moved:
                        self._moved.notify_all()
        except asyncio.CancelledError:
            raise
        except Exception as fault:
            self._on_failure(fault)
            raise
