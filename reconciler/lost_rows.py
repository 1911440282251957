"""Rows of webhooks that the tables have lost, made again from the topic, in its order.

Guarantees that a webhook is handled after all that stand before it in its partition, also where the
tables are older than the group's offset: restored from the log alone, from a copy, or taken over by
a standby that was behind. What was told before counts once. What cannot be handled was set aside
before, and is not again. Must never change a row that is there. Run by the reconciler.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from ledger.log.port import Record
from ledger.log.reading import ReadableLog, read_up_to
from ledger.log.topics import Topic
from reconciler.limits import ACQUIRE_SECONDS, MADE_AGAIN_AT_ONCE_MAX, WHOLE_LOOK_MS
from reconciler.receiving import WebhookDesk, is_trouble
from reconciler.sql_files import statements

logger = logging.getLogger("actionledger")

_TOPIC: Final = Topic.WEBHOOKS.value


@dataclass(frozen=True, slots=True)
class _Seen:
    """That the rows of a partition were whole up to an offset, when the last had this one."""

    last_row: int
    whole_to: int


class LostRows:
    """Hands a desk what its tables have lost before it hands it what is new."""

    def __init__(self, desk: WebhookDesk, pool: asyncpg.Pool, log: ReadableLog) -> None:
        """`pool` is the one of the desk."""
        self._desk = desk
        self._pool = pool
        self._log = log
        self._seen: dict[int, _Seen] = {}
        self.made_again = 0
        """How many rows it has made so far: it grows as long as that goes on."""
        self._one_at_a_time = asyncio.Lock()

    async def handle(self, records: Sequence[Record]) -> None:
        """Take a batch to its end, after what is missing before it. Raises what the desk does."""
        begins: dict[int, int] = {}
        for record in records:
            begins[record.partition] = min(
                begins.get(record.partition, record.offset), record.offset
            )
        async with self._one_at_a_time:
            await self._make_whole(begins)
            last_rows: dict[int, int] = {}
            for place in await self._desk.handle(records):
                last = last_rows.get(place.partition, place.offset)
                last_rows[place.partition] = max(last, place.offset)
            # Tables that were put back in between lack what was there before, and now have a row
            # behind it, by which no later look would find that out.
            await self._make_whole(begins)
            for partition, end in {one.partition: one.offset + 1 for one in records}.items():
                if (seen := self._seen.get(partition)) is not None:
                    last_row = max(seen.last_row, last_rows.get(partition, -1))
                    self._seen[partition] = _Seen(last_row, max(seen.whole_to, end))

    async def keep(self, handled: Callable[[], Mapping[int, int]], stop: asyncio.Event) -> None:
        """Look now and then whether tables are as far as what was handled, and make what they have
        lost, until asked to stop. `handled` gives the next offset of each partition that is read.
        """
        while not stop.is_set():
            try:
                async with self._one_at_a_time:
                    await self._make_whole(handled())
            except Exception as failure:
                if not is_trouble(failure):
                    raise
                logger.warning("webhooks_not_looked_through", extra={"reason": repr(failure)})
            try:
                await asyncio.wait_for(stop.wait(), WHOLE_LOOK_MS / 1_000)
            except TimeoutError:
                continue

    async def _make_whole(self, ends: Mapping[int, int]) -> None:
        """Make what is missing below these offsets."""
        for partition, last_row in (await self._last_rows(ends)).items():
            begin, end = last_row + 1, ends[partition]
            seen = self._seen.get(partition)
            if seen is not None and seen.last_row <= last_row:
                # What stands behind the last row and has none was read: notes, what was set aside.
                begin = max(begin, seen.whole_to)
            if begin < end and await self._make_again(partition, begin, end):
                # How far the rows go now, and whether they have stayed, the next look sees.
                self._seen.pop(partition, None)
                continue
            self._seen[partition] = _Seen(last_row, max(begin, end))

    async def _make_again(self, partition: int, begin: int, end: int) -> int:
        """Make what is missing between two offsets of a partition; how many rows there were."""
        place = (_TOPIC, partition)
        count = 0
        reader = await self._log.reader({place: begin})
        try:
            async for records in read_up_to(reader, {place: begin}, {place: end}):
                missing = [one for one in records if one.offset < end]
                for first in range(0, len(missing), MADE_AGAIN_AT_ONCE_MAX):
                    some = missing[first : first + MADE_AGAIN_AT_ONCE_MAX]
                    made = await self._desk.handle_again(some)
                    count += made
                    self.made_again += made
        finally:
            await reader.close()
        if count:
            extra = {"partition": partition, "begin": begin, "end": end, "count": count}
            logger.warning("webhooks_made_again", extra=extra)
        return count

    async def _last_rows(self, ends: Mapping[int, int]) -> dict[int, int]:
        """Of each partition the last row below an offset, -1 where there is none."""
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            found = await connection.fetch(_sql("last_rows"), list(ends), list(ends.values()))
        return {row["partition"]: row["last_row"] for row in found}


def _sql(name: str) -> str:
    return statements("reconciler", "lost_rows.sql")[name]
