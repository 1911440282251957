"""Programs as children: started, watched, stopped, and found again after a crash of ours.

A process is known by its pid *and* its start time; a pid alone is given to another program as soon
as it is free. Guarantees: a program runs only after its identity was recorded (see `launch`), and
no signal goes to a process whose start time is not the recorded one. Each program leads a process
group of its own, so a Ctrl-C in the terminal is ours to handle, and a kill takes its children too.
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
from gateway.local.logs import open_log, tail

LAUNCHER = Path(__file__).with_name("launch.py")


@dataclass(frozen=True, slots=True)
class Identity:
    """Which process is meant: `created_at` tells it from a later one with the same pid."""

    pid: int
    created_at: int


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


def identify(pid: int) -> Identity | None:
    """Who has this pid now; None for nobody and for the remains of somebody."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return Identity(pid, round(process.create_time() * 1000))
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def is_running(identity: Identity) -> bool:
    """Whether this very process runs; another one with its pid does not count."""
    found = identify(identity.pid)
    return (
        found is not None
        and abs(found.created_at - identity.created_at) <= limits.CREATED_AT_TOLERANCE_MS
    )


def send(identity: Identity, number: int) -> None:
    """Signal the process if it is still the same one; SIGKILL goes to its whole group."""
    if not is_running(identity):
        return
    with contextlib.suppress(ProcessLookupError):
        if number == signal.SIGKILL and os.getpgid(identity.pid) == identity.pid:
            os.killpg(identity.pid, number)
        else:
            os.kill(identity.pid, number)


async def until(condition: Callable[[], bool], ms_max: int) -> bool:
    """Wait until the condition holds; False when it did not within `ms_max`."""
    deadline = time.monotonic() + ms_max / 1000
    while not condition():
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(limits.POLL_MS / 1000)
    return True


async def end(identity: Identity, *, stop_signal: int, stop_ms_max: int) -> None:
    """Ask the process to stop, then kill it. Idempotent; touches nobody else."""
    send(identity, stop_signal)
    if await until(lambda: not is_running(identity), stop_ms_max):
        return
    send(identity, signal.SIGKILL)
    await until(lambda: not is_running(identity), limits.KILL_MS_MAX)


def rss_bytes(identity: Identity) -> int:
    """Resident memory of the process and its children; 0 when it is gone."""
    if not is_running(identity):
        return 0
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process = psutil.Process(identity.pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                total += member.memory_info().rss
    return total


class Child:
    """A program that we started. Reaped by whoever asks `is_running` or waits."""

    def __init__(self, command: Command, record: Callable[[Identity], None]) -> None:
        """Start it. `record` is called before the program runs and must make its word durable."""
        self.command = command
        account = command.account
        go_read, go_write = os.pipe()
        try:
            with open_log(command.log) as log:
                self._popen = subprocess.Popen(
                    [
                        *(sys.executable, "-I", "-S", str(LAUNCHER)),
                        *(str(go_read), str(os.getpid()), str(command.death_signal)),
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
            # Not reaped yet, so the pid cannot be anybody else's.
            created = psutil.Process(self._popen.pid).create_time()
            self.identity = Identity(self._popen.pid, round(created * 1000))
            record(self.identity)
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
        """Kill it and all of its group with SIGKILL, and wait until it is gone. Idempotent."""
        if self.is_running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.identity.pid, signal.SIGKILL)
            await until(lambda: not self.is_running, limits.KILL_MS_MAX)

    def failure(self, what: str) -> ProcessFailedError:
        """Say that it failed, with the last line that it wrote."""
        last = tail(self.command.log)
        said = f", saying: {last}" if last else ""
        return ProcessFailedError(
            self.command.name, what + said, log=self.command.log, exit_code=self.exit_code
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
