"""What the supervisor keeps running: one program of a state folder.

Kafka, Postgres and every service are one. Guarantees: while it runs it is on record in the state
folder under its name, so that it is found again after a crash of ours.
"""

import signal
from abc import ABC, abstractmethod
from pathlib import Path

from gateway.local import limits
from gateway.local.errors import ProcessFailedError
from gateway.local.logs import size, why_ended
from gateway.local.processes import Child, Command, Identity, run_once
from gateway.local.state import ProcessRecord, StateFolder


class Program(ABC):
    """A program with a name, a log and perhaps a port; start it, stop it, kill it, again."""

    is_step = False  # whether it is run to its end instead of being kept running
    stop_signal: int = signal.SIGTERM
    stop_ms_max: int = limits.SERVICE_STOP_MS_MAX

    def __init__(self, name: str, state: StateFolder) -> None:
        self.name = name
        self._state = state
        self._child: Child | None = None
        self._said_before = 0  # bytes in its log from earlier runs

    @property
    def log(self) -> Path:
        """Where it writes."""
        return self._state.folder / "logs" / f"{self.name}.log"

    @property
    def port(self) -> int | None:
        """Where it listens on 127.0.0.1, if it does."""
        return self._state.state.ports.get(self.name)

    @property
    def identity(self) -> Identity | None:
        """Which process it is; None before the first start."""
        return self._child.identity if self._child else None

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._child is not None and self._child.is_running

    @property
    def exit_code(self) -> int | None:
        """How its process ended; None while it runs and before the first start."""
        return self._child.exit_code if self._child else None

    @abstractmethod
    async def start(self) -> None:
        """Start it; it need not be ready yet. Raises `LocalError` with what is in the way."""

    @abstractmethod
    async def wait_ready(self) -> None:
        """Wait until it does what it is there for. Raises `ProcessFailedError`."""

    async def stop(self) -> None:
        """End it cleanly, with SIGKILL when that takes too long. Idempotent."""
        if self._child is not None:
            await self._child.stop(self.stop_signal, self.stop_ms_max)

    async def kill(self) -> None:
        """End it and its children with SIGKILL. Idempotent."""
        if self._child is not None:
            await self._child.kill()

    async def restart(self) -> None:
        """End it cleanly if it runs, start it, and wait until it is ready."""
        await self.stop()
        await self.start()
        await self.wait_ready()

    def _launch(self, command: Command) -> None:
        """Make the command its process."""
        self._said_before = size(self.log)
        self._child = Child(command, self._record)

    def _failure(self, what: str) -> ProcessFailedError:
        """Say what is wrong with its process, with the line of this run that tells most."""
        why = why_ended(self.log, self._said_before)
        said = f", saying: {why}" if why else ""
        return ProcessFailedError(self.name, what + said, log=self.log, exit_code=self.exit_code)

    async def _run_once(self, command: Command) -> None:
        """Run a command that prepares it, to its end."""
        await run_once(command, self._record)

    def _record(self, identity: Identity) -> None:
        self._state.record(
            self.name,
            ProcessRecord.of(identity, port=self.port, log=self.log),
        )
