"""What is measured: a broker of its own, the given Postgres, and the product's real processes.

Guarantees that everything started here is ended here, also after Ctrl-C, and that the kernel ends
it if this process is killed. The processes are started as any supervisor starts them; only the
provider is one that does nothing. Called by `benchmarks.run`.
"""

import asyncio
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

import asyncpg

from benchmarks.driving import ROOT, Load, generating
from benchmarks.proposals import CATALOGUE
from benchmarks.trouble import BenchmarkError
from gateway.local.java import Java
from gateway.local.kafka import Admission, KafkaServer
from gateway.local.processes import Command, until
from gateway.local.program import Program
from gateway.local.servers import erase, start_together
from gateway.local.state import StateFolder, make_folder
from gateway.wiring.names import Process
from gateway.wiring.publishing import publish_catalogue
from ledger.log.admin import apply_topics
from ledger.log.kafka import KafkaLog
from ledger.log.topics import Topic
from projections.changes import CHANNEL
from projections.migrate import migrate

PROCESSES: Final = (Process.PROCESSOR, Process.EXECUTOR, Process.PROJECTOR)
"""The product's own processes on the way of an action."""

LOAD: Final = "load"
READY_MS_MAX: Final = 60_000
VISIBLE_SECONDS_MAX: Final = 600.0
LOOK_AGAIN_SECONDS: Final = 0.25
"""How long a look at the tables waits for a notice; notices are lost while nobody listens."""


class Variant(StrEnum):
    """The column of the table: what the broker does before it acknowledges."""

    DEFAULT = "product"
    FSYNC = "product, fsync"

    @property
    def flush_records(self) -> int | None:
        """After how many records the broker flushes topics that hold facts."""
        return 1 if self is Variant.FSYNC else None


@dataclass(frozen=True, slots=True)
class Place:
    """Where things run: a scratch folder, and a Postgres whose tables are ours to drop."""

    folder: Path
    java: Java
    database_url: str = field(repr=False)
    postgres_pid: int
    partitions: int
    profiled: str | None = None


class Worker(Program):
    """One of the product's processes; it ends when we do."""

    def __init__(
        self,
        process: Process,
        state: StateFolder,
        place: Place,
        told: Mapping[str, str] | None = None,
    ) -> None:
        """`told` are settings of this process alone, by their names without the prefix."""
        super().__init__(process.value, state)
        self._place = place
        self.told = dict(told or {})
        self.ready_file = state.folder / f"{process.value}.ready"
        self.ready_s = 0.0  # on the monotonic clock

    async def start(self) -> None:
        """Start it."""
        self.ready_file.unlink(missing_ok=True)
        settings = {
            "KAFKA": self._state.state.kafka_admin_bootstrap,
            "DATABASE": self._place.database_url,
            "PARTITIONS": str(self._place.partitions),
            "STATE": str(self._state.folder),
            "PROVIDER_URLS": "null=http://localhost",
            "HEARTBEAT": str(self.ready_file),
            "LOG_FORMAT": "plain",
            **self.told,
        }
        module = ["gateway.wiring.processes", self.name]
        if self._place.profiled == self.name:
            module = ["benchmarks.profiled", str(profile_file(self._place)), *module]
        self._launch(
            Command(
                name=self.name,
                argv=[sys.executable, "-m", *module],
                log=self.log,
                env={f"ACTIONLEDGER_{name}": value for name, value in settings.items()}
                | {"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
                cwd=ROOT,
                death_signal=signal.SIGKILL,
            )
        )

    async def wait_ready(self) -> None:
        """Wait for the first touch of its heartbeat, and note when that was.

        Raises ProcessFailedError.
        """
        await until(lambda: not self.is_running or self.ready_file.exists(), READY_MS_MAX, 5)
        if not self.is_running or not self.ready_file.exists():
            raise self._failure("did not get ready")
        self.ready_s = time.monotonic() - (time.time() - self.ready_file.stat().st_mtime)


def profile_file(place: Place) -> Path:
    """Where the profiled process leaves what it found."""
    return place.folder / "profile.json"


class Installation:
    """A running installation with its load generator."""

    def __init__(self, place: Place, variant: Variant, state: StateFolder) -> None:
        self.place = place
        self.variant = variant
        self.state = state
        self.log = KafkaLog(state.state.kafka_admin_bootstrap)
        self.kafka = KafkaServer(
            state, place.java, admission=Admission.EVERYBODY, death_signal=signal.SIGKILL
        )
        self.workers = {process: Worker(process, state, place) for process in PROCESSES}
        self._moved = asyncio.Event()
        self.stopped: set[str] = set()
        """Programs that are not running on purpose."""
        self.database: asyncpg.Connection
        self.load: Load

    async def prepare(self, stack: AsyncExitStack) -> None:
        """Connect, make topics and tables, start the processes. What it opens goes on the stack."""
        self.database = await asyncpg.connect(self.place.database_url)
        stack.push_async_callback(self.database.close)
        await self.database.add_listener(CHANNEL, lambda *_: self._moved.set())
        await self.empty_tables()
        await apply_topics(
            self.log,
            partitions=self.place.partitions,
            generation=secrets.token_hex(8),
            flush_records=self.variant.flush_records,
        )
        await publish_catalogue(self.log, CATALOGUE)
        for worker in self.workers.values():
            stack.push_async_callback(worker.stop)
        # Offers are read from their end: who spends them is there before who makes them.
        await start_together(self.workers[Process.PROCESSOR], self.workers[Process.PROJECTOR])
        await start_together(self.workers[Process.EXECUTOR])

    async def empty_tables(self) -> None:
        """Drop what was projected and make the tables anew."""
        for schema in ("actionledger_api_v1", "actionledger"):
            await self.database.execute(f"drop schema if exists {schema} cascade")
        await migrate(self.database)

    def check_running(self) -> None:
        """Raise BenchmarkError when a process has ended."""
        for program in (self.kafka, *self.workers.values()):
            if not program.is_running and program.name not in self.stopped:
                raise BenchmarkError(
                    f"{program.name} ended with code {program.exit_code}.",
                    hint="Run again; if it stays so, its own command says more.",
                )

    async def completed_visible(self, tenant: str, count: int) -> float:
        """When so many completed actions of a tenant were in the tables, on the monotonic clock."""
        query = (
            "select count(*) from actionledger.actions "
            "where tenant_id = $1 and status = 'completed'"
        )
        return await self.until(query, count, tenant)

    async def caught_up(self) -> float:
        """When the tables had everything that is in the ledger now, on the monotonic clock."""
        places = [(Topic.LEDGER.value, part) for part in range(self.place.partitions)]
        reader = await self.log.reader(dict.fromkeys(places, 0))
        try:
            ends = await reader.end_offsets(places)
        finally:
            await reader.close()
        query = "select coalesce(sum(next_offset), 0)::bigint from actionledger.projection_offsets"
        return await self.until(query, sum(ends.values()))

    async def until(self, query: str, count: int, *arguments: object) -> float:
        """When the answer was `count` or more, on the monotonic clock: it is asked for after every
        commit of the projector.
        """
        deadline_s = time.monotonic() + VISIBLE_SECONDS_MAX
        while True:
            self._moved.clear()
            if await self.database.fetchval(query, *arguments) >= count:
                return time.monotonic()
            self.check_running()
            if time.monotonic() > deadline_s:
                raise BenchmarkError(
                    f"The tables did not follow within {VISIBLE_SECONDS_MAX} s.",
                    hint="Look at the log of the projector.",
                )
            try:
                async with asyncio.timeout(LOOK_AGAIN_SECONDS):
                    await self._moved.wait()
            except TimeoutError:
                continue


@asynccontextmanager
async def installed(place: Place, variant: Variant) -> AsyncIterator[Installation]:
    """A fresh installation, ready to be loaded; nothing of it is left afterwards."""
    folder = place.folder / variant.name.lower()
    state = StateFolder.hold(folder)
    try:
        async with AsyncExitStack() as stack:
            one = Installation(place, variant, state)
            # Its data go with it, so it needs no clean end.
            stack.push_async_callback(one.kafka.kill)
            await start_together(one.kafka)
            await one.prepare(stack)
            make_folder(folder / "logs")
            one.load = await stack.enter_async_context(
                generating(_load_command(place, state), folder / "logs" / "load.log")
            )
            yield one
    finally:
        erase(state)
        state.release()


def _load_command(place: Place, state: StateFolder) -> list[str]:
    bootstrap = state.state.kafka_admin_bootstrap
    command = ["benchmarks.load", bootstrap, KafkaLog(bootstrap).prefix, str(place.partitions)]
    if place.profiled == LOAD:
        return ["benchmarks.profiled", str(profile_file(place)), *command]
    return command
