"""The cases of the read side: how fast it projects, how fast it is made anew, how far it runs
behind.

Guarantees that starting an interpreter is in no figure, and that a record counts as seen only once
a connection that wrote nothing has read it. Called by `benchmarks.cases`.
"""

import asyncio
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import asyncpg

from benchmarks.figures import Figures, per_s
from benchmarks.installation import Installation
from benchmarks.load import percentile
from gateway.wiring.names import Process
from ledger.log.kafka import KafkaReader, Start
from ledger.log.topics import Topic
from projections.changes import CHANNEL
from projections.rebuild import Afterwards, rebuild

EVENTS: Final = "select count(*) from actionledger.action_events"
READ_MS: Final = 100
CONNECTIONS: Final = 4
_OFFSETS: Final = "select partition, next_offset from actionledger.projection_offsets"


async def project(one: Installation) -> Figures:
    """One projector, from empty tables to everything that the topic holds.

    The clock begins when it follows the log.
    """
    projector = one.workers[Process.PROJECTOR]
    await projector.stop()
    await one.empty_tables()
    await projector.start()
    await projector.wait_ready()
    ended_s = await one.caught_up()
    events = await one.database.fetchval(EVENTS)
    return {"n": events, "per_s": per_s(events, ended_s - projector.ready_s)}


async def rebuild_and_swap(one: Installation) -> Figures:
    """The whole topic into a new schema, compared with the live one byte for byte and put in its
    place, while the live one is followed.
    """
    async with asyncpg.create_pool(
        one.place.database_url, min_size=0, max_size=CONNECTIONS
    ) as pool:
        began_s = time.monotonic()
        done = await rebuild(one.log, pool, afterwards=Afterwards.SWAP)
        took_s = time.monotonic() - began_s
        events = await pool.fetchval(EVENTS)
    assert done.is_equal, (done.live.sha256, done.beside.sha256)
    assert done.swapped_at is not None
    return {
        "n": events,
        "per_s": per_s(events, took_s),
        "folded_per_s": per_s(events, done.seconds),
    }


class Lag:
    """How long each record of the ledger took from its append to a row that others see."""

    def __init__(self) -> None:
        self._appended: list[tuple[int, int, int]] = []
        self._seen: dict[int, list[tuple[int, float]]] = defaultdict(list)

    async def read(self, reader: KafkaReader) -> None:
        """Note the append times of records, by the broker's clock, until cancelled."""
        while True:
            for record in await reader.read(timeout_ms=READ_MS):
                self._appended.append((record.partition, record.offset, record.timestamp))

    async def look(self, connection: asyncpg.Connection) -> None:
        """After every commit of the projector, note what a connection sees, until cancelled."""
        moved = asyncio.Event()
        await connection.add_listener(CHANNEL, lambda *_: moved.set())
        while True:
            await moved.wait()
            moved.clear()
            rows = await connection.fetch(_OFFSETS)
            now_ms = time.time() * 1_000
            for partition, next_offset in rows:
                marks = self._seen[partition]
                if not marks or marks[-1][0] < next_offset:
                    marks.append((next_offset, now_ms))

    def sorted_ms(self) -> list[float]:
        """Of every record that was appended and seen."""
        return sorted(self._of(*each) for each in self._appended if self._was_seen(*each[:2]))

    def _was_seen(self, partition: int, offset: int) -> bool:
        marks = self._seen[partition]
        return bool(marks) and marks[-1][0] > offset

    def _of(self, partition: int, offset: int, appended_at: int) -> float:
        marks = self._seen[partition]
        _, seen_ms = marks[bisect_right(marks, offset, key=lambda mark: mark[0])]
        # The broker's clock is that of this machine, and counts whole milliseconds.
        return max(0.0, seen_ms - appended_at)


@asynccontextmanager
async def watched(one: Installation) -> AsyncIterator[Lag]:
    """Watch how far the tables run behind the ledger, for as long as the block runs."""
    lag = Lag()
    places = {(Topic.LEDGER.value, part): Start.END for part in range(one.place.partitions)}
    reader = await one.log.reader(places)
    connection = await asyncpg.connect(one.place.database_url)
    tasks = [
        asyncio.create_task(lag.read(reader), name="lag_read"),
        asyncio.create_task(lag.look(connection), name="lag_look"),
    ]
    try:
        yield lag
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await connection.close()
        await reader.close()


def lags(lag: Lag) -> Figures:
    """What the watch has seen."""
    sorted_ms = lag.sorted_ms()
    return {
        "n": len(sorted_ms),
        "p50_ms": round(percentile(sorted_ms, 50), 3),
        "p99_ms": round(percentile(sorted_ms, 99), 3),
        "max_ms": round(sorted_ms[-1], 3),
    }
