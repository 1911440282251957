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
import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gateway.local import limits
from gateway.local.accounts import SYSTEM_FOLDER
from gateway.local.errors import LocalError
from gateway.local.jars import ensure_jars
from gateway.local.java import Java, find_java
from gateway.local.kafka import Admission, KafkaServer
from gateway.local.postgres import Commit, PostgresServer
from gateway.local.processes import end
from gateway.local.program import Program
from gateway.local.progress import Report, silent
from gateway.local.state import (
    State,
    StateFolder,
    default_cache_folder,
    leftovers,
    lock,
    read_state,
)
from gateway.local.training import train

TEMPORARY = "actionledger-servers-"


@dataclass(frozen=True, slots=True)
class Servers:
    """A running Kafka and Postgres. `admin_url` is the superuser's.

    At `kafka_bootstrap` everybody is the super user; at `kafka_guarded` one logs in, and may do
    what access control lists say.
    """

    folder: Path
    kafka: KafkaServer
    postgres: PostgresServer
    kafka_bootstrap: str
    kafka_guarded: str
    database_url: str = field(repr=False)
    admin_url: str = field(repr=False)


async def prepare(cache: Path | None = None, report: Report = silent) -> Java:
    """Fetch what the servers need and make Kafka's start fast. Idempotent.

    Takes 15 s the first time on a machine, later 10 ms. Not needed before anything else here.

    Raises:
        LocalError: something on this machine is in the way.

    """
    used = cache or default_cache_folder()
    jars = await asyncio.to_thread(ensure_jars, used, report)
    java = find_java(used, jars)
    await train(java, report)
    return java


@asynccontextmanager
async def servers(
    folder: Path | None = None,
    *,
    cache: Path | None = None,
    report: Report = silent,
    commit: Commit = Commit.ON_DISK,
) -> AsyncIterator[Servers]:
    """Run both servers, on the data of `folder` or, without one, on data that is gone afterwards.

    `commit` is Postgres': what is only handed over is for data that nobody needs when the machine
    goes down.

    Raises:
        LocalError: they could not be started; nothing runs then.

    """
    used_cache = cache or default_cache_folder()
    jars = await asyncio.to_thread(ensure_jars, used_cache, report)
    java = find_java(used_cache, jars)
    if folder is not None:
        async with _running(folder, java, commit=commit) as local:
            yield local
        return
    with temporary_folder() as temporary:
        async with _running(temporary, java, commit=commit) as local:
            yield local
            # Its data go, so nobody needs a clean end.
            await asyncio.gather(local.kafka.kill(), local.postgres.kill())


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder for the data of servers that is deleted afterwards, with what is in it.

    Deletes those of killed runs too.
    """
    _drop_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=TEMPORARY))
    if os.geteuid() == 0:
        folder.chmod(0o711)  # the account of Postgres has to pass; every file is private by itself
    try:
        yield folder
    finally:
        _delete(folder)


@asynccontextmanager
async def _running(folder: Path, java: Java, *, commit: Commit) -> AsyncIterator[Servers]:
    state = StateFolder.hold(folder)
    try:
        await end_leftovers(state)
        kafka = KafkaServer(state, java, admission=Admission.EVERYBODY, death_signal=signal.SIGKILL)
        postgres = PostgresServer(state, death_signal=signal.SIGQUIT, commit=commit)
        try:
            await start_together(kafka, postgres)
            agreed = state.state
            yield Servers(
                folder=folder,
                kafka=kafka,
                postgres=postgres,
                kafka_bootstrap=agreed.kafka_admin_bootstrap,
                kafka_guarded=agreed.kafka_bootstrap,
                database_url=agreed.database_url,
                admin_url=agreed.admin_url,
            )
        finally:
            await asyncio.gather(kafka.stop(), postgres.stop())
            state.change(processes={})
    finally:
        state.release()


async def start_together(*programs: Program) -> None:
    """Start all of them and wait until they are ready; the first trouble is raised as it is."""

    async def start(program: Program) -> None:
        await program.start()
        await program.wait_ready()

    try:
        async with asyncio.TaskGroup() as group:
            for program in programs:
                group.create_task(start(program))
    except BaseExceptionGroup as trouble:
        raise trouble.exceptions[0] from None


async def end_leftovers(state: StateFolder) -> None:
    """End what a killed run left behind: only processes on record, by pid and start time."""
    found = leftovers(state.state)
    # The other way round than they were started, as a clean end would.
    for name, record in reversed(found.items()):
        stop_signal = PostgresServer.stop_signal if name == "postgres" else signal.SIGTERM
        await end(record.identity, stop_signal=stop_signal, stop_ms_max=limits.LEFTOVER_STOP_MS_MAX)
    if state.state.processes:
        state.change(processes={})


def erase(state: StateFolder) -> None:
    """Delete the data of a folder that is held and whose servers are stopped. Idempotent."""
    _erase_outside(state.state)
    for name in ("kafka", "postgres", "logs", "run"):
        shutil.rmtree(state.folder / name, ignore_errors=True)
    for name in ("services.json", "state.json"):
        (state.folder / name).unlink(missing_ok=True)


def _erase_outside(state: State) -> None:
    """Delete the cluster where it is in the system's place for those of no reachable folder."""
    postgres = state.postgres_folder
    if postgres is not None and postgres.parent.parent == SYSTEM_FOLDER:
        shutil.rmtree(postgres.parent, ignore_errors=True)


def _delete(folder: Path) -> None:
    with contextlib.suppress(LocalError):
        state = read_state(folder)
        if state is not None:
            _erase_outside(state)
    shutil.rmtree(folder, ignore_errors=True)


def _drop_abandoned() -> None:
    """Delete temporary folders whose holder was killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{TEMPORARY}*"):
        try:
            status = path.lstat()
            if status.st_uid != os.geteuid() or not (path / "lock").is_file():
                continue
            if time.time() - status.st_mtime < limits.ABANDONED_SECONDS_MIN:
                continue
            held = lock(path / "lock")
        except OSError:
            continue
        if held is not None:
            _delete(path)
            os.close(held)
