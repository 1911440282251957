"""`up`, `down`, `status` and `reset`: what the command line asks of the local servers.

Guarantees: two calls at once do not disturb each other (the second waits for the first or is
refused), `up` returns when everything is ready and keeps all data, and nothing is ended that is not
on record by pid and start time. Raises `LocalError` with what to do.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gateway.local import limits
from gateway.local.errors import DiskFullError, FolderBusyError, LocalError, ProcessFailedError
from gateway.local.jars import ensure_jars
from gateway.local.java import find_java
from gateway.local.logs import open_log, why_ended
from gateway.local.ports import require_free
from gateway.local.processes import family, is_running, rss_bytes, send
from gateway.local.progress import Progress, Report, silent
from gateway.local.servers import end_leftovers, erase
from gateway.local.service import SERVICES, Service, moved_file
from gateway.local.state import (
    Phase,
    ProcessRecord,
    State,
    StateFolder,
    file_trouble,
    leftovers,
    lock,
    read_state,
    write_private,
)

SUPERVISOR = "supervisor"
SERVERS = ("kafka", "postgres")
RUNNING = frozenset({Phase.STARTING, Phase.READY})


@dataclass(frozen=True, slots=True)
class Running:
    """Where everything listens. `ports` has one entry per program that has a port."""

    kafka_bootstrap: str
    database_url: str = field(repr=False)
    ports: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ProcessStatus:
    """One program as it is now. A service that runs says again and again that it moves: `still_ms`
    is how long ago it did; 0 for what says nothing.
    """

    name: str
    phase: Phase
    pid: int | None
    uptime_ms: int
    still_ms: int
    port: int | None
    restarts: int
    rss_bytes: int
    log: Path

    @property
    def is_still(self) -> bool:
        """Whether it runs and has not moved for too long: it hangs, or somebody has stopped it."""
        return self.still_ms > limits.STILL_MS_MAX


@dataclass(frozen=True, slots=True)
class Status:
    """All of them. `failure` is message and hint of what keeps them from running."""

    phase: Phase
    failure: tuple[str, str] | None
    running: Running | None
    processes: tuple[ProcessStatus, ...]


async def up(
    folder: Path,
    cache: Path,
    services: tuple[Service, ...] = (),
    *,
    wanted_ports: Mapping[str, int] | None = None,
    external: Mapping[str, str] | None = None,
    report: Report = silent,
) -> Running:
    """Start Kafka, Postgres and the services, and return when all of them are ready.

    What runs already is left as it is. `wanted_ports` moves programs (by name; 0: to a free port),
    others stay where they were. With `external`, the settings of servers that run elsewhere, only
    the services are started. Idempotent.

    Raises:
        LocalError: something is in the way; nothing was left running.

    """
    if not external:
        find_java(cache, await asyncio.to_thread(ensure_jars, cache, report))
    state = await _hold_unless_supervised(folder)
    if state is None:
        return await _until_ready(folder, report)
    try:
        await end_leftovers(state)
        agreed = _agree_on_ports(state, services, wanted_ports or {})
        for each in services:
            # Before the servers start, which takes a while.
            if each.port is not None:
                require_free(agreed[each.name], each.name)
        state.change(
            ports=agreed, external=dict(external or {}), phase=Phase.STARTING, failure=None
        )
        write_private(folder / "services.json", SERVICES.dump_json(services).decode())
        await asyncio.to_thread(_launch_supervisor, folder, cache, state.lock_descriptor)
    finally:
        state.release()
    return await _until_ready(folder, report)


async def down(folder: Path, *, report: Report = silent) -> bool:
    """End everything, services first, and say whether anything ran. Idempotent; keeps all data.

    Raises:
        FolderBusyError: something else than our supervisor holds the folder.

    """
    if read_state(folder) is None:
        return False
    held = lock(folder / "lock")
    ran = held is None
    if held is None:
        held = await _end_supervisor(folder, report)
    state = StateFolder(folder, held)
    try:
        ran = ran or bool(leftovers(state.state))
        with contextlib.suppress(DiskFullError):  # all have ended, whether there is room to say so
            await end_leftovers(state)
            state.change(phase=Phase.STOPPED, failure=None)
    finally:
        state.release()
    return ran


def status(folder: Path) -> Status:
    """Tell what runs. Reads only."""
    state = read_state(folder)
    if state is None:
        return Status(Phase.STOPPED, None, None, ())
    processes = tuple(_status_of(folder, name, record) for name, record in state.processes.items())
    supervisor = state.processes.get(SUPERVISOR)
    phase, failure = state.phase, state.failure
    supervised = supervisor is not None and is_running(supervisor.identity)
    if phase in RUNNING and not supervised:
        phase = Phase.FAILED
        failure = (
            "The supervisor was ended from outside.",
            "Run `actionledger up`: it ends what is left and starts again on the same data.",
        )
    return Status(phase, failure, _running(state) if phase is Phase.READY else None, processes)


async def reset(folder: Path, confirm: Callable[[str], bool], *, report: Report = silent) -> bool:
    """End everything and delete all data, if `confirm` answers the question with True.

    Returns whether it was done. Idempotent. What others keep in the folder stays.
    """
    if read_state(folder) is None:
        return False
    if not confirm(f"Delete all records of Kafka and Postgres in {folder}?"):
        return False
    await down(folder, report=report)
    state = StateFolder.hold(folder)
    try:
        erase(state)
    finally:
        state.release()
    return True


async def _hold_unless_supervised(folder: Path) -> StateFolder | None:
    """Hold the folder; None when others are starting or running what is in it.

    The kernel lets go of a killed supervisor's lock moments after the supervisor counts as ended.
    """
    deadline = time.monotonic() + limits.BUSY_MS_MAX / 1000
    while True:
        try:
            return StateFolder.hold(folder)
        except FolderBusyError:
            state = read_state(folder)
            is_ended = state is not None and state.phase in RUNNING and not _is_supervised(state)
            if not is_ended or time.monotonic() > deadline:
                return None
        await asyncio.sleep(limits.FOLLOW_MS / 1000)


def _agree_on_ports(
    state: StateFolder, services: tuple[Service, ...], wanted: Mapping[str, int]
) -> dict[str, int]:
    """Keep every port that was agreed on, move the wanted ones, choose for those without."""
    agreed = dict(state.state.ports)
    requests = {service.name: service.port for service in services if service.port is not None}
    for name, port in {**requests, **wanted}.items():
        if port:
            agreed[name] = port
        elif name not in agreed or name in wanted:
            (agreed[name],) = state.claims.choose(1)
    return agreed


def _launch_supervisor(folder: Path, cache: Path, lock_descriptor: int) -> None:
    """Start the supervisor, which takes over the lock and leaves its parent."""
    log_path = folder / "logs" / f"{SUPERVISOR}.log"
    with file_trouble(log_path):
        opened = open_log(log_path)
    with opened as log:
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "gateway.local.supervisor"),
                *(str(lock_descriptor), str(folder), str(cache)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=(lock_descriptor,),
            check=False,
        )
    if ended.returncode != 0:
        raise ProcessFailedError("The supervisor", "did not start", log=log_path)


async def _until_ready(folder: Path, report: Report) -> Running:
    """Follow the state file until all is ready, or until it cannot be any more."""
    started = moving = time.monotonic()
    told = -1
    services: tuple[Service, ...] = ()
    while time.monotonic() - started < limits.UP_MS_MAX / 1000:
        state = read_state(folder)
        # Whoever starts them writes them once, before anything runs.
        services = services or _services(folder)
        if state is not None and state.phase is Phase.READY and _is_supervised(state):
            _tell(services, state, told, report)
            return _running(state)
        _require_holder(folder)
        if state is not None and state.phase is Phase.STARTING:
            told = _tell(services, state, told, report)
            moving = time.monotonic()
        # A start that failed just now is still letting go of the folder.
        elif time.monotonic() - moving > limits.BUSY_MS_MAX / 1000:
            raise FolderBusyError(folder)
        await asyncio.sleep(limits.FOLLOW_MS / 1000)
    raise ProcessFailedError("The start", "took too long", log=folder / "logs")


def _is_supervised(state: State) -> bool:
    supervisor = state.processes.get(SUPERVISOR)
    return supervisor is not None and is_running(supervisor.identity)


def _require_holder(folder: Path) -> None:
    """Raise when nobody holds the folder any more: then the start will not be over.

    A failure on record before that may be the one of an earlier start.
    """
    held = lock(folder / "lock")
    if held is None:
        return
    os.close(held)
    state = read_state(folder)
    if state is not None and state.failure is not None:
        message, hint = state.failure
        raise LocalError(message, hint=hint)
    if state is not None and state.phase in RUNNING:
        log = folder / "logs" / f"{SUPERVISOR}.log"
        raise ProcessFailedError("The supervisor", f"ended, saying: {why_ended(log)}", log=log)
    raise LocalError("Another command has ended the start.", hint="Run `actionledger up`.")


def _tell(services: tuple[Service, ...], state: State, told: int, report: Report) -> int:
    """Report how many programs are ready, when that has changed."""
    servers = () if state.external else SERVERS
    names = [*servers, *(service.name for service in services)]
    ready = {
        name
        for name, record in state.processes.items()
        if record.phase in {Phase.READY, Phase.DONE}
    }
    done = sum(name in ready for name in names)
    if done != told:
        waiting = ", ".join(name for name in names if name not in ready)
        report(Progress("start", done, len(names), waiting))
    return done


def _services(folder: Path) -> tuple[Service, ...]:
    try:
        return SERVICES.validate_json((folder / "services.json").read_bytes())
    except FileNotFoundError:
        return ()


async def _end_supervisor(folder: Path, report: Report) -> int:
    """Ask the supervisor to end everything and wait for the lock; return it."""
    deadline = time.monotonic() + limits.DOWN_MS_MAX / 1000
    asked: ProcessRecord | None = None
    while time.monotonic() < deadline:
        held = lock(folder / "lock")
        if held is not None:
            return held
        state = read_state(folder)
        record = state.processes.get(SUPERVISOR) if state else None
        if state is not None and record is not None:
            if record != asked:
                asked = record
                send(record.identity, signal.SIGTERM)
            left = sum(is_running(each.identity) for each in state.processes.values())
            report(Progress("stop", len(state.processes) - left, len(state.processes)))
        await asyncio.sleep(limits.WATCH_MS / 1000)
    if asked is not None:
        send(asked.identity, signal.SIGKILL)
    deadline = time.monotonic() + limits.KILL_MS_MAX / 1000
    while (held := lock(folder / "lock")) is None:
        if time.monotonic() > deadline:
            raise FolderBusyError(folder)
        await asyncio.sleep(limits.WATCH_MS / 1000)
    return held


def _running(state: State) -> Running:
    return Running(state.kafka_bootstrap, state.database_url, dict(state.ports))


def _status_of(folder: Path, name: str, record: ProcessRecord) -> ProcessStatus:
    running = is_running(record.identity)
    # The children of the supervisor are the others.
    members = (record.identity,) if name == SUPERVISOR else family(record.identity)
    rss = sum(map(rss_bytes, members))
    phase = record.phase
    if not running and phase in RUNNING:
        phase = Phase.STOPPED
    return ProcessStatus(
        name=name,
        phase=phase,
        pid=record.pid if running else None,
        uptime_ms=max(0, round(time.time() * 1000) - record.created_at) if running else 0,
        still_ms=_since_ms(moved_file(folder, name)) if running else 0,
        port=record.port,
        restarts=record.restarts,
        rss_bytes=rss,
        log=record.log,
    )


def _since_ms(file: Path) -> int:
    """How long ago a file was touched; 0 where there is none."""
    try:
        return max(0, round((time.time() - file.stat().st_mtime) * 1000))
    except OSError:
        return 0
