"""Real servers for tests and benchmarks: children of this process that end with it.

    async with servers() as local:
        AIOKafkaProducer(bootstrap_servers=local.kafka_bootstrap)
        await asyncpg.connect(local.database_url)
        await local.kafka.kill()
        await local.kafka.restart()

Guarantees: whatever happens to this process, the kernel ends the servers with it (Linux; elsewhere
the next start on the same folder does). Nothing else on the machine is touched. The servers belong
to the thread that started them: it has to live as long as they are used.
"""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.local import limits
from gateway.local.jars import ensure_jars
from gateway.local.java import find_java
from gateway.local.kafka import KafkaServer
from gateway.local.postgres import PostgresServer
from gateway.local.processes import end
from gateway.local.progress import Report, silent
from gateway.local.state import StateFolder, default_cache_folder, leftovers


@dataclass(frozen=True, slots=True)
class Servers:
    """A running Kafka and Postgres."""

    folder: Path
    kafka: KafkaServer
    postgres: PostgresServer
    kafka_bootstrap: str
    database_url: str
    admin_url: str


@asynccontextmanager
async def servers(
    folder: Path | None = None, *, cache: Path | None = None, report: Report = silent
) -> AsyncIterator[Servers]:
    """Run both servers, on the data of `folder` or, without one, on data that is gone afterwards.

    Raises:
        LocalError: they could not be started; nothing runs then.

    """
    used = folder or _temporary_folder()
    try:
        async with _running(used, cache or default_cache_folder(), report) as local:
            yield local
            if folder is None:
                await asyncio.gather(local.kafka.kill(), local.postgres.kill())
    finally:
        if folder is None:
            shutil.rmtree(used, ignore_errors=True)


def _temporary_folder() -> Path:
    path = Path(tempfile.mkdtemp(prefix="actionledger-"))
    if os.geteuid() == 0:
        path.chmod(0o711)  # the account of Postgres has to pass; each file is private by itself
    return path


@asynccontextmanager
async def _running(folder: Path, cache: Path, report: Report) -> AsyncIterator[Servers]:
    jars = await asyncio.to_thread(ensure_jars, cache, report)
    state = StateFolder.hold(folder)
    try:
        await end_leftovers(state)
        java = find_java(cache, jars)
        kafka = KafkaServer(state, java, death_signal=signal.SIGKILL)
        postgres = PostgresServer(state, cache, death_signal=signal.SIGQUIT)
        try:
            await start_side_by_side(kafka, postgres)
            yield Servers(
                folder,
                kafka,
                postgres,
                state.state.kafka_bootstrap,
                state.state.database_url,
                state.state.admin_url,
            )
        finally:
            await asyncio.gather(kafka.stop(), postgres.stop())
    finally:
        state.release()


async def start_side_by_side(*started: KafkaServer | PostgresServer) -> None:
    """Start all of them and wait until they are ready; the first trouble is raised as it is."""

    async def start(server: KafkaServer | PostgresServer) -> None:
        await server.start()
        await server.wait_ready()

    try:
        async with asyncio.TaskGroup() as group:
            for server in started:
                group.create_task(start(server))
    except BaseExceptionGroup as trouble:
        raise trouble.exceptions[0] from None


async def end_leftovers(state: StateFolder) -> None:
    """End what a killed run left behind: only processes on record, by pid and start time."""
    for name, record in leftovers(state.state).items():
        stop_signal = signal.SIGINT if name == "postgres" else signal.SIGTERM
        await end(record.identity, stop_signal=stop_signal, stop_ms_max=limits.KAFKA_STOP_MS_MAX)
    state.change(processes={})
