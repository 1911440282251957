"""Where the demonstration plays: a whole installation in a temporary folder, and who acts in it.

Guarantees that everything it started ends with it, also what an earlier demonstration left behind
that was killed; with `--keep` it stays on purpose. Called by `run_demo`.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import httpx
from pydantic import BaseModel, ConfigDict, ValidationError

from gateway.demo.waiting import until
from gateway.keys import Role, create_key
from gateway.local.control import down, up
from gateway.local.processes import Identity, identify, is_running
from gateway.local.progress import Report
from gateway.local.state import read_state
from gateway.settings import Settings
from gateway.wiring.documents import publish_everywhere
from gateway.wiring.local import TENANT, local_environment, local_services, prepare_folder
from gateway.wiring.places import KEYS_FILE
from gateway.wiring.publishing import Kind
from ledger.core.errors import LedgerError

PREFIX: Final = "actionledger-demo-"
OWNER_FILE: Final = "demo.json"
AGENT_SECONDS_MAX: Final = 60.0
LOOK_SECONDS: Final = 0.01
PRINCIPAL: Final = "agent:billing"
ADOPTION_MS_MAX: Final = 60_000


class NotAdoptedError(LedgerError):
    """A document stands in the log and is not in force everywhere."""


class Afterwards(Enum):
    """What becomes of the installation when the story is told."""

    REMOVE = "remove"
    STAY = "stay"


class _Owner(BaseModel):
    """Which process a folder belongs to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pid: int
    created_at: int
    born: str | None = None


@dataclass(frozen=True, slots=True)
class Stage:
    """The installation, how to reach it, and the key of the demonstration's agent.

    Everything a chapter asks for is of `tenant`, so that it counts nobody else's. `door` is the
    gateway as anybody on the network reaches it, with no key at hand.
    """

    folder: Path
    settings: Settings
    tenant: str
    agent_key: str
    provider: httpx.AsyncClient
    door: httpx.AsyncClient

    async def new_agent_key(self, principal: str) -> str:
        """The key of another agent of the tenant, as soon as the door knows it.

        Raises NotSeenError.
        """
        path = self.settings.api_keys_file
        key = create_key(path, tenant=self.tenant, principal=principal, role=Role.AGENT)
        await self.known(key)
        return key

    async def known(self, key: str) -> None:
        """Wait until the door, which looks at its keys once a second, knows one.

        Raises NotSeenError.
        """

        async def asked() -> bool | None:
            headers = {"Authorization": f"Bearer {key}"}
            answer = await self.door.get(f"/v1/actions/any:v1:{self.tenant}:any", headers=headers)
            return None if answer.status_code == HTTPStatus.UNAUTHORIZED else True

        await until("a key that the door knows", asked)

    async def publish(self, kind: Kind, text: str) -> int:
        """Publish a document as an operator; how many partitions have adopted it.

        Raises NotAdoptedError, and what publishing raises.
        """
        done = await publish_everywhere(self.settings, kind, text, timeout_ms=ADOPTION_MS_MAX)
        if done.waiting:
            raise NotAdoptedError(
                f"The partitions {list(done.waiting)} have not adopted the {kind}.",
                hint="Run it again with --keep and look at the log of the processor.",
            )
        return done.partitions

    async def script(self, scripts: Iterable[dict[str, Any]]) -> None:
        """Tell the provider what to do wrong."""
        answer = await self.provider.post("/control/script", json={"scripts": list(scripts)})
        answer.raise_for_status()

    async def behave(self, account: str, **traits: object) -> None:
        """Let the provider be another to an account from now on."""
        body = {"account": account, "personality": traits}
        (await self.provider.post("/control/personality", json=body)).raise_for_status()

    async def observe(self, action_key: str, **facts: int) -> None:
        """Let the provider see other volatile facts about an action from now on."""
        body = {"match": {"action_key": action_key}, "observed": facts}
        (await self.provider.post("/control/observed", json=body)).raise_for_status()

    async def send_webhooks(self) -> None:
        """Let the provider send what it holds back."""
        (await self.provider.post("/control/webhooks/flush", json={})).raise_for_status()

    async def book(self) -> list[dict[str, Any]]:
        """Every request in the provider's own book, one a line."""
        answer = await self.provider.get("/v1/book")
        answer.raise_for_status()
        return [json.loads(line) for line in answer.text.splitlines()]


class Acting:
    """One agent: a process that is given one line and answers with lines."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.pid = process.pid

    async def answer(self) -> dict[str, Any]:
        """Its next line. Raises TimeoutError, ValueError."""
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        async with asyncio.timeout(AGENT_SECONDS_MAX):
            line = await self._process.stdout.readline()
        told: dict[str, Any] = json.loads(line)
        return told

    async def kill(self) -> int:
        """End it with signal 9; how it ended."""
        self._process.send_signal(signal.SIGKILL)
        return await self._process.wait()

    async def end(self) -> int:
        """Wait for its own end; its exit code."""
        async with asyncio.timeout(AGENT_SECONDS_MAX):
            return await self._process.wait()


async def act(module: str, given: dict[str, Any]) -> Acting:
    """Start an agent as a process of its own, with what it is given on its stdin."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
    )
    assert process.stdin is not None  # noqa: S101 - a pipe was asked for
    process.stdin.write(json.dumps(given).encode() + b"\n")
    await process.stdin.drain()
    process.stdin.close()
    return Acting(process)


@asynccontextmanager
async def staged(cache: Path, report: Report, afterwards: Afterwards) -> AsyncIterator[Stage]:
    """A running installation; ended and removed afterwards unless it is to stay.

    Raises LocalError.
    """
    await end_abandoned()
    folder = _make_folder()
    try:
        prepare_folder(folder)
        key = create_key(folder / KEYS_FILE, tenant=TENANT, principal=PRINCIPAL, role=Role.AGENT)
        await up(folder, cache, local_services(), report=report)
        async with reached(folder, TENANT, key) as stage:
            yield stage
    finally:
        if afterwards is Afterwards.STAY:
            (folder / OWNER_FILE).unlink(missing_ok=True)
        else:
            await _remove(folder)


@asynccontextmanager
async def reached(folder: Path, tenant: str, agent_key: str) -> AsyncIterator[Stage]:
    """The installation that runs in a folder, for one tenant of it."""
    state = read_state(folder)
    assert state is not None  # noqa: S101 - it runs
    settings = Settings.from_environment(local_environment(folder, state))
    async with (
        httpx.AsyncClient(base_url=settings.provider_urls["simulated"], trust_env=False) as other,
        httpx.AsyncClient(base_url=settings.url, trust_env=False) as door,
    ):
        yield Stage(folder, settings, tenant, agent_key, other, door)


def _make_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    if os.geteuid() == 0:
        folder.chmod(0o711)  # the account of Postgres has to pass; every file is private by itself
    me = identify(os.getpid())
    assert me is not None  # noqa: S101 - we run
    owner = _Owner(pid=me.pid, created_at=me.created_at, born=me.born)
    (folder / OWNER_FILE).write_text(owner.model_dump_json(), encoding="utf-8")
    return folder


async def end_abandoned() -> None:
    """End and remove demonstrations of ours whose own process was killed."""
    for folder in abandoned():
        await _remove(folder)


def abandoned() -> list[Path]:
    """Folders of demonstrations of ours whose own process is gone."""
    found = []
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            if folder.stat().st_uid != os.geteuid():
                continue
            owner = _Owner.model_validate_json((folder / OWNER_FILE).read_bytes())
        except (OSError, ValidationError):
            continue  # kept on purpose, or not ours
        if not is_running(Identity(owner.pid, owner.created_at, owner.born)):
            found.append(folder)
    return found


async def _remove(folder: Path) -> None:
    await down(folder)
    shutil.rmtree(folder, ignore_errors=True)
