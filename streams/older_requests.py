"""Requests of actions whose intent was recorded before an executor began to read.

Those that are wanted at the same time are read together: actions that waited for capacity stand
close to each other in the ledger. What is read is never trusted: the hash of the start is checked
against it before anything is sent. Called by the executor.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final

from ledger.log.kafka import KafkaLog, KafkaReader
from ledger.log.port import Record
from ledger.log.topics import Topic
from ledger.log.trouble import LogUnreachableError, TruncatedLogError

FETCH_BYTES: Final = 32 * 1_024
"""A few dozen records. What is fetched and passed over is garbage that is searched for seldom."""
RECORDS_AT_ONCE: Final = 100
READ_MS: Final = 1_000
PAUSE_SECONDS: Final = 0.05
READ_SECONDS_MAX: Final = 10.0
"""For one record. Its lease runs meanwhile: a start whose request does not come is given back."""


class OlderRequests:
    """Records of the ledger by their place. Start it, and close it."""

    def __init__(self, log: KafkaLog) -> None:
        self._log = log
        self._wanted: dict[int, dict[int, asyncio.Future[Record]]] = {}
        self._waiting: Counter[asyncio.Future[Record]] = Counter()
        self._came = asyncio.Event()
        self._readers: dict[int, KafkaReader] = {}
        self._reading: asyncio.Task[None] | None = None

    async def read(self, partition: int, offset: int) -> Record:
        """The ledger record at a place. Raises TruncatedLogError where others stand behind it and
        none there, LogUnreachableError where none comes in time, and what reading raises.
        """
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read_on(), name="older_requests")
        wanted = self._wanted.setdefault(partition, {})
        found = wanted.get(offset)
        if found is None or found.done():
            found = wanted[offset] = asyncio.get_running_loop().create_future()
        self._waiting[found] += 1
        self._came.set()
        try:
            async with asyncio.timeout(READ_SECONDS_MAX):
                return await asyncio.shield(found)
        except TimeoutError:
            raise LogUnreachableError(
                f"The record at ledger {partition} offset {offset} did not come in time.",
                hint="See whether the broker is slow.",
            ) from None
        finally:
            self._waiting[found] -= 1
            if not self._waiting[found]:
                # The last who waits for a place takes it off the list.
                del self._waiting[found]
                if wanted.get(offset) is found:
                    del wanted[offset]

    async def _read_on(self) -> None:
        """Serve what is wanted. A failure is everybody's who waits by then; whoever comes later, be
        it while readers are let go, begins anew.
        """
        while True:
            await self._came.wait()
            self._came.clear()
            try:
                await self._serve_all()
            except Exception as failure:  # noqa: BLE001 - told to each that waits
                for found in (one for of in self._wanted.values() for one in of.values()):
                    if not found.done():
                        found.set_exception(failure)
                await self._let_go()

    async def _serve_all(self) -> None:
        """Serve until nothing is wanted, the oldest of a partition first."""
        while places := list(self._oldest()):
            for partition, offset in places:
                await self._serve(partition, offset)

    def _oldest(self) -> Iterator[tuple[int, int]]:
        for partition, wanted in self._wanted.items():
            offsets = [offset for offset, found in wanted.items() if not found.done()]
            if offsets:
                yield partition, min(offsets)

    async def _serve(self, partition: int, offset: int) -> None:
        """Read from an offset on, and give what is wanted of it."""
        reader = await self._at(partition, offset)
        served = 0
        records = await reader.read(timeout_ms=READ_MS, records_max=RECORDS_AT_ONCE)
        for record in records:
            found = self._wanted.get(record.partition, {}).get(record.offset)
            if found is not None and not found.done():
                found.set_result(record)
                served += 1
        first = self._wanted.get(partition, {}).get(offset)
        if records and first is not None and not first.done():
            first.set_exception(
                TruncatedLogError(
                    f"Nothing at ledger {partition} offset {offset}.",
                    hint="Check that the topic is the one this installation wrote.",
                )
            )
            served += 1
        # Whoever waited takes its own off the list in its next step; where nothing came the place
        # is asked for again until its time is up.
        await asyncio.sleep(0 if served else PAUSE_SECONDS)

    async def _at(self, partition: int, offset: int) -> KafkaReader:
        """A reader of the partition at an offset. Each keeps its partition: to assign another one
        takes longer than to read.
        """
        reader = self._readers.get(partition)
        if reader is None:
            place = (Topic.LEDGER.value, partition)
            reader = await self._log.reader({place: offset}, fetch_bytes=FETCH_BYTES)
            self._readers[partition] = reader
        else:
            reader.seek(Topic.LEDGER, partition, offset)
        return reader

    async def _let_go(self) -> None:
        readers, self._readers = self._readers, {}
        for reader in readers.values():
            await reader.close()

    async def close(self) -> None:
        """Read nothing more."""
        if self._reading is not None:
            self._reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reading
        await self._let_go()
