"""Programs as children: started, watched, stopped, and found again after a crash of ours.

A process is known by its pid *and* when it was started; a pid alone is given to another program as
soon as it is free. Guarantees: a program runs only after its identity was recorded (see `launch`),
and no signal goes to a process that was started at another time. Each program leads a process group
of its own, so a Ctrl-C in the terminal is ours to handle, and a kill takes its children too.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from gateway.local import limits
from gateway.local.accounts import Account
from gateway.local.errors import ProcessFailedError
from gateway.local.logs import open_log, size, why_ended

LAUNCHER = Path(__file__).with_name("launch.py")
_START_TICKS = 19
"""Which word behind the name in /proc/PID/stat."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process is meant: `created_at` tells it from a later one with the same pid, and moves
    where somebody sets the clock. `born` does not: the run of the machine, and ticks in it.
    """

    pid: int
    created_at: int
    born: str | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """What to run. With `death_signal` the kernel ends it when we die (Linux)."""

    name: str
    argv: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path = Path("/")
    account: Account | None = None
    death_signal: int = 0
    nice: int = 0


def identify(pid: int) -> Identity | None:
    """Who has this pid now; None for nobody and for the remains of somebody."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Identity(pid, round(process.create_time() * 1000), _born(pid))
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def is_running(identity: Identity) -> bool:
    """Whether this very process runs; another one with its pid does not count."""
    found = identify(identity.pid)
    if found is None:
        return False
    if identity.born is not None and found.born is not None:
        return found.born == identity.born
    return abs(found.created_at - identity.created_at) <= limits.CREATED_AT_TOLERANCE_MS


def _born(pid: int) -> str | None:
    """When a process was started, by a clock that nobody sets; None where the system (not Linux)
    does not say.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        said = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # Behind the name, which may hold anything.
    return f"{boot} {said.rpartition(')')[2].split()[_START_TICKS]}"


def send(identity: Identity, number: int) -> None:
    """Signal the process if it is still the same one."""
    if is_running(identity):
        with contextlib.suppress(ProcessLookupError):
            os.kill(identity.pid, number)


async def until(condition: Callable[[], bool], ms_max: int, poll_ms: int = limits.POLL_MS) -> bool:
    """Wait until the condition holds; False when it did not within `ms_max`."""
    deadline = time.monotonic() + ms_max / 1000
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(poll_ms / 1000)
    return True


async def end(identity: Identity, *, stop_signal: int, stop_ms_max: int) -> None:
    """Ask the process to stop, then kill it. Idempotent; touches nobody else."""
    send(identity, stop_signal)
    if await until(lambda: not is_running(identity), stop_ms_max):
        return
    await kill_family(identity)


def rss_bytes(identity: Identity) -> int:
    """Resident memory of the process itself; 0 when it is gone."""
    if not is_running(identity):
        return 0
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(identity.pid).memory_info().rss)
    return 0


def family(identity: Identity) -> tuple[Identity, ...]:
    """Return the process and all below it, itself first; empty when it is gone."""
    if not is_running(identity):
        return ()
    with contextlib.suppress(psutil.Error):
        below = psutil.Process(identity.pid).children(recursive=True)
        found = (identify(process.pid) for process in below)
        return (identity, *(each for each in found if each is not None))
    return (identity,)


async def kill_family(identity: Identity) -> None:
    """End the process and all below it with SIGKILL and wait until they are gone. Idempotent.

    The children of Postgres lead sessions of their own, so a signal to the group is not enough.
    """
    members = family(identity)
    for member in members:  # the parent first: it must not act on the end of a child
        send(member, signal.SIGKILL)
    await until(lambda: not any(map(is_running, members)), limits.KILL_MS_MAX)


class Child:
    """A program that we started. Reaped by whoever asks `is_running` or waits."""

    def __init__(self, command: Command, record: Callable[[Identity], None]) -> None:
        """Start it. `record` is called before the program runs and must make its word durable."""
        self.command = command
        self._said_before = size(command.log)
        go_read, go_write = os.pipe()
        try:
            self._popen = _launch(command, go_read)
            # Not reaped yet, so the pid cannot be anybody else's.
            created = psutil.Process(self._popen.pid).create_time()
            pid = self._popen.pid
            self.identity = Identity(pid, round(created * 1000), _born(pid))
            try:
                record(self.identity)
            except BaseException:
                self._popen.kill()  # it still waits for our word
                self._popen.wait()
                raise
            with contextlib.suppress(BrokenPipeError):  # it died; its exit code tells
                os.write(go_write, b"g")
        finally:
            os.close(go_read)
            os.close(go_write)

    @property
    def is_running(self) -> bool:
        """Whether it runs."""
        return self._popen.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended: negative for a signal, None while it runs."""
        return self._popen.poll()

    async def wait(self, ms_max: int) -> int:
        """Return its exit code.

        Raises:
            ProcessFailedError: it still ran after `ms_max`; it was killed then.

        """
        if not await until(lambda: not self.is_running, ms_max):
            await self.kill()
            raise ProcessFailedError(
                self.command.name, f"did not end within {ms_max} ms", log=self.command.log
            )
        return self._popen.wait()

    async def stop(self, stop_signal: int, stop_ms_max: int) -> None:
        """Ask it to stop, then kill it. Idempotent."""
        if self.is_running:
            os.kill(self.identity.pid, stop_signal)
            if not await until(lambda: not self.is_running, stop_ms_max):
                await self.kill()

    async def kill(self) -> None:
        """Kill it and all below it, and wait until they are gone. Idempotent."""
        if self.is_running:
            await kill_family(self.identity)
            await until(lambda: not self.is_running, limits.KILL_MS_MAX)

    def failure(self, what: str) -> ProcessFailedError:
        """Say that it failed, with the line that tells most of those that it wrote."""
        why = why_ended(self.command.log, self._said_before)
        said = f", saying: {why}" if why else ""
        return ProcessFailedError(
            self.command.name, what + said, log=self.command.log, exit_code=self.exit_code
        )


def _launch(command: Command, go_read: int) -> subprocess.Popen[bytes]:
    """Start the launcher, which waits for a byte."""
    account = command.account
    with open_log(command.log) as log:
        return subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(LAUNCHER)),
                *(str(go_read), str(os.getpid()), str(command.death_signal), str(command.nice)),
                *((str(account.uid), str(account.gid)) if account else ("-1", "-1")),
                *command.argv,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=dict(command.env),
            cwd=command.cwd,
            pass_fds=(go_read,),
            process_group=0,
        )


async def run_once(command: Command, record: Callable[[Identity], None]) -> None:
    """Run a program to its end.

    Raises:
        ProcessFailedError: it ended with another code than 0 or took too long.

    """
    child = Child(command, record)
    try:
        if await child.wait(limits.ONCE_MS_MAX) != 0:
            raise child.failure(f"ended with code {child.exit_code}")
    finally:
        await child.kill()
