"""A service that runs beside the servers: what to run, and how it shows that it is ready.

The caller of `up` lists them; the list is handed to the supervisor as a file. Placeholders in
arguments and environment are filled in when the service starts: `{kafka_bootstrap}`,
`{kafka_admin_bootstrap}` (of its super user),
`{database_url}` (of its owner), `{database_url:ROLE}`, `{port}` (its own), `{port:NAME}` (of
another one), `{ready_file}`, `{folder}`.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Literal, assert_never

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from gateway.local import limits, ports
from gateway.local.processes import Command, until
from gateway.local.program import Program
from gateway.local.state import StateFolder, make_folder, require_space
from projections.roles import Role


class AliveFor(BaseModel):
    """Ready when it has run for a while; for programs that cannot say more."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["alive"] = "alive"
    ms: int = 500


class PortOpen(BaseModel):
    """Ready when its port accepts connections."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["port"] = "port"


class HttpOk(BaseModel):
    """Ready when a GET of this path on its port is answered with a 2xx."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["http"] = "http"
    path: str = "/"


class FileAppears(BaseModel):
    """Ready when it has made the file `{ready_file}`, which is deleted before it starts."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["file"] = "file"


class ExitsCleanly(BaseModel):
    """A step, not a service: what follows in the list waits until it has ended with code 0."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["exit"] = "exit"


Ready = Annotated[
    AliveFor | PortOpen | HttpOk | FileAppears | ExitsCleanly, Field(discriminator="kind")
]


class Service(BaseModel):
    """One service. Its environment is `env` and nothing else: nothing is inherited."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")
    argv: tuple[str, ...] = Field(min_length=1)
    env: dict[str, str] = {}
    port: int | None = None  # 0: a free one, kept from then on
    ready: Ready = AliveFor()

    @property
    def is_step(self) -> bool:
        """Whether it is run to its end before the next ones start."""
        return isinstance(self.ready, ExitsCleanly)


SERVICES = TypeAdapter(tuple[Service, ...])


def moved_file(folder: Path, name: str) -> Path:
    """What a service makes when it is ready, and touches as long as it moves (`{ready_file}`)."""
    return folder / "run" / f"{name}.ready"


class ServiceProgram(Program):
    """A service of a state folder."""

    def __init__(self, service: Service, state: StateFolder) -> None:
        """Describe it; `start` runs it."""
        super().__init__(service.name, state)
        self.service = service
        self.is_step = service.is_step
        self._ready_file = moved_file(state.folder, service.name)

    async def start(self) -> None:
        """Start it.

        Raises:
            PortTakenError: another program listens on its port.
            DiskFullError: there is too little space to go on.

        """
        if self.port is not None:
            ports.require_free(self.port, self.name)
        make_folder(self._ready_file.parent)
        make_folder(self.log.parent)
        require_space(self._state.folder)
        self._ready_file.unlink(missing_ok=True)
        values = self._values()
        self._launch(
            Command(
                name=self.name,
                argv=[fill(argument, values) for argument in self.service.argv],
                log=self.log,
                env={name: fill(value, values) for name, value in self.service.env.items()},
            )
        )

    async def wait_ready(self) -> None:
        """Wait until it is ready, in its own way.

        Raises:
            ProcessFailedError: it ended, or is not ready in `SERVICE_READY_MS_MAX`.

        """
        match self.service.ready:
            case AliveFor(ms=ms):
                await until(lambda: not self.is_running, ms)
            case PortOpen():
                await self._until(lambda: self.port is not None and ports.is_open(self.port))
            case HttpOk(path=path):
                await self._wait_for_answer(path)
            case FileAppears():
                await self._until(self._ready_file.exists)
            case ExitsCleanly():
                await self._until(lambda: not self.is_running)
                if self.exit_code != 0:
                    raise self._failure(f"ended with code {self.exit_code}")
                return
            case _ as unknown:
                assert_never(unknown)
        if not self.is_running:
            raise self._failure(f"ended with code {self.exit_code}")

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for the condition, or for its end."""
        held = await until(lambda: not self.is_running or condition(), limits.SERVICE_READY_MS_MAX)
        if not held:
            raise self._failure(f"was not ready within {limits.SERVICE_READY_MS_MAX} ms")

    async def _wait_for_answer(self, path: str) -> None:
        import httpx  # noqa: PLC0415 - 10 MB that only this probe needs

        async with httpx.AsyncClient(
            base_url=f"http://{ports.LOOPBACK}:{self.port}",
            timeout=limits.PROBE_SECONDS_MAX,
            trust_env=False,
        ) as client:
            deadline = time.monotonic() + limits.SERVICE_READY_MS_MAX / 1000
            while self.is_running and time.monotonic() < deadline:
                try:
                    if (await client.get(path)).is_success:
                        return
                except httpx.TransportError:
                    pass  # does not listen yet
                await asyncio.sleep(limits.PROBE_MS / 1000)
        if self.is_running:
            raise self._failure(f"did not answer {path} within {limits.SERVICE_READY_MS_MAX} ms")

    def _values(self) -> dict[str, str]:
        agreed = self._state.state
        values = {f"port:{name}": str(port) for name, port in agreed.ports.items()}
        values |= {f"database_url:{role}": agreed.database_url_as(role) for role in Role}
        values |= {
            "kafka_bootstrap": agreed.kafka_bootstrap,
            "kafka_admin_bootstrap": agreed.kafka_admin_bootstrap,
            "database_url": agreed.database_url,
            "ready_file": str(self._ready_file),
            "folder": str(self._state.folder),
        }
        if self.port is not None:
            values["port"] = str(self.port)
        return values


def fill(text: str, values: Mapping[str, str]) -> str:
    """Put the values in place of their `{names}`; every other brace stays as it is."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text
