"""An installation of real processes on real servers, kept running as a supervisor would.

Guarantees that every process is its own, that one that ended is started again within half a second,
and that how each of them ended is remembered. A crash point stays armed over the lives of a process
until it is reached. A process may have a twin, a second member of the same kind that takes over
while it is away. Whatever happens to the test, the kernel ends the processes with it.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import tomllib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import psutil

from gateway.credentials import KafkaLogins, new_credentials, read_credentials
from gateway.keys import Role, create_key
from gateway.local.ports import free_ports
from gateway.local.state import write_private
from gateway.wiring.places import SECRETS_FILE
from gateway.wiring.publishing import publish_document
from ledger.log.access import OPEN
from ledger.log.admin import apply_topics
from ledger.log.kafka import KafkaLog
from ledger.log.permissions import Permissions
from reconciler.providers.simulated.api import API_KEY_PREFIX
from tests import databases
from tests.crash.gathering import Sources
from tests.crash.nursery import Born, Nursery
from tests.crash.office import PEOPLE, POLICY, Office
from tests.patience import PATIENCE_SECONDS

PARTITIONS = 3
GROUP_SESSION_MS = 3_000
TENANTS = ("acme", "globex")
ACCOUNTS = ("main", "desk", "mail")
PROVIDER = "simulated-provider"
PROCESSES = ("processor", "executor", "inquirer", "reconciler", "projector", "gateway")
CATALOGUE = Path(__file__).with_name("catalogue.toml")
REACHED_SECONDS = 180.0
"""What a process waits for at its point may have to come past others that are struck themselves."""

LOOK_SECONDS = 0.02
RESTART_SECONDS = 0.2
"""A process that ended is started again after this."""

FREEZE_SECONDS = 5.0
"""Longer than a session in a group, and than a lease with the skew that is allowed on top of it."""


def twin_of(process: str) -> str:
    """The name of the second member of a kind."""
    return f"{process}-2"


class Ending(NamedTuple):
    """How one life of a process ended: its exit code, and the crash point it was armed with."""

    code: int
    crash_at: str | None


@dataclass
class Supervised:
    """One process by name: its lives one after another."""

    name: str
    process: str
    folder: Path
    env: Mapping[str, str]
    nursery: Nursery
    crash_at: str | None = None
    endings: list[Ending] = field(default_factory=list)
    is_paused: bool = False
    _child: Born | None = None
    _armed: str | None = None

    @property
    def ready_file(self) -> Path:
        """What the process makes when it does what it is there for."""
        return self.folder / f"{self.name}.ready"

    @property
    def is_alive(self) -> bool:
        """Whether there is a life now, working or frozen, rather than none between two."""
        return self._child is not None and self._child.is_running

    @property
    def is_ready(self) -> bool:
        """Whether the present life has begun to work."""
        return self.is_alive and self.ready_file.exists()

    @property
    def rss_mb(self) -> float:
        """Memory of the present life that is in use, in megabytes, with all that its nursery has
        loaded; 0 where there is none.
        """
        if self._child is None:
            return 0.0
        with contextlib.suppress(psutil.NoSuchProcess):
            return round(psutil.Process(self._child.pid).memory_info().rss / 2**20, 1)
        return 0.0

    def has_frozen_at(self, point: str) -> bool:
        """Whether the present life, armed with this point, has stopped itself there."""
        if self.is_paused or self._armed != point or self._child is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self._child.pid).status() == psutil.STATUS_STOPPED
        return False

    async def keep_running(self) -> None:
        """Start it, again and again, until cancelled; then it is killed."""
        try:
            while True:
                self._start()
                while self._child is not None and self._child.is_running:
                    await asyncio.sleep(LOOK_SECONDS)
                code = None if self._child is None else self._child.exit_code
                assert code is not None
                self.endings.append(Ending(code, self._armed))
                if code == -signal.SIGKILL:
                    self.disarm()
                await asyncio.sleep(RESTART_SECONDS)
        finally:
            if self._child is not None:
                self._child.signal(signal.SIGKILL)
                while self._child.is_running:
                    await asyncio.sleep(LOOK_SECONDS)

    def signal(self, number: int) -> None:
        """Send a signal to the present life, if there is one."""
        if self._child is not None:
            self._child.signal(number)

    def disarm(self) -> None:
        """Let lives to come pass the point that one has reached."""
        self.crash_at = None

    def _start(self) -> None:
        """Start a life, armed with the crash point that waits to be reached."""
        self.ready_file.unlink(missing_ok=True)
        env, self._armed = dict(self.env), self.crash_at
        if self._armed is not None:
            env["ACTIONLEDGER_CRASH_AT"] = self._armed
        self._child = self.nursery.bear(self.process, self.folder / f"{self.name}.log", env)


@dataclass
class Machine:
    """Everything that runs, and where it is."""

    log: KafkaLog
    database_url: str
    folder: Path
    provider_url: str
    url: str
    keys: dict[str, str]
    supervised: dict[str, Supervised]
    doors: list[str]
    partitions: int = PARTITIONS
    tasks: list["asyncio.Task[None]"] = field(default_factory=list)

    @property
    def sources(self) -> Sources:
        """What the checker is to look at."""
        return Sources(
            self.log.bootstrap,
            self.log.prefix,
            self.database_url,
            self.folder / "provider",
            self.clients_file,
            self.people_file,
            logs=self.folder,
            secrets=self._secrets(),
        )

    def _secrets(self) -> dict[str, str]:
        """What nobody may ever see again, by what it is."""
        accounts = tomllib.loads(self.secrets_file.read_text(encoding="utf-8"))["simulated"]
        password = urlsplit(self.database_url).password
        return {
            **({} if password is None else {"password of the database": password}),
            **{f"API key of {tenant}": key for tenant, key in self.keys.items()},
            **{f"provider key of {account}": API_KEY_PREFIX + account for account in ACCOUNTS},
            **{f"webhook secret of {name}": one["secrets"][0] for name, one in accounts.items()},
        }

    @property
    def book_file(self) -> Path:
        """Where the provider writes what happened to it."""
        return self.folder / "provider" / "book.jsonl"

    @property
    def secrets_file(self) -> Path:
        """What webhooks are signed with."""
        return self.folder / SECRETS_FILE

    @property
    def clients_file(self) -> Path:
        """Where callers note what they were told."""
        return self.folder / "clients.jsonl"

    @property
    def people_file(self) -> Path:
        """Where people note what they decided and were told."""
        return self.folder / "people.jsonl"

    async def start(self, *names: str) -> None:
        """Start processes and wait until each has begun to work."""
        for name in names:
            task = asyncio.create_task(self.supervised[name].keep_running(), name=name)
            self.tasks.append(task)
        await self.ready(*names)

    async def ready(self, *names: str) -> None:
        """Wait until processes work."""
        await self.until(
            lambda: all(self.supervised[name].is_ready for name in names), f"{names} ready"
        )

    async def end(self, name: str, number: int = signal.SIGKILL) -> None:
        """End one process by a signal, and wait until it has ended."""
        one = self.supervised[name]
        lives = len(one.endings)
        one.signal(number)
        await self.until(lambda: len(one.endings) > lives, f"the end of {name}")

    async def start_twin(self, process: str) -> None:
        """Start a second member of a kind, once; it is supervised like the first."""
        if twin_of(process) not in self.supervised:
            await self.start_member(process, twin_of(process))

    async def start_member(
        self, process: str, name: str, extra: Mapping[str, str] | None = None
    ) -> None:
        """Start one more member of a kind under a name that is free, told more by `extra`."""
        first = self.supervised[process]
        env = {
            **first.env,
            **(extra or {}),
            "ACTIONLEDGER_HEARTBEAT": str(self.folder / f"{name}.ready"),
        }
        if process == "gateway":
            (port,) = free_ports(1)
            env["ACTIONLEDGER_HTTP_PORT"] = str(port)
            self.doors.append(f"http://127.0.0.1:{port}")
        self.supervised[name] = Supervised(name, process, self.folder, env, first.nursery)
        await self.start(name)

    async def end_twin(self, process: str) -> None:
        """Kill the second member of a kind, for good."""
        await self.end_member(twin_of(process))

    async def end_member(self, name: str) -> None:
        """Kill a member for good."""
        (task,) = [task for task in self.tasks if task.get_name() == name]
        self.tasks.remove(task)
        del self.supervised[name]
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def pause(self, name: str, seconds: float) -> None:
        """Stop a process from outside for a while."""
        one = self.supervised[name]
        one.is_paused = True
        one.signal(signal.SIGSTOP)
        await self.hold(seconds)
        one.signal(signal.SIGCONT)
        one.is_paused = False

    async def hold(self, seconds: float) -> None:
        """Let time go by for everybody: what is frozen stays so for this long."""
        until = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < until:
            await asyncio.sleep(LOOK_SECONDS)

    async def died_at(self, name: str, point: str) -> None:
        """Wait until a life of a process that was armed with a point has ended there."""
        one = self.supervised[name]
        ending = Ending(-signal.SIGKILL, point)
        await self.until(lambda: ending in one.endings, f"{name} passing {point}", REACHED_SECONDS)

    async def froze_at(self, name: str, point: str) -> None:
        """Wait until a life of a process that was armed with a point has stopped itself there."""
        one = self.supervised[name]
        passing = f"{name} passing {point}"
        await self.until(lambda: one.has_frozen_at(point), passing, REACHED_SECONDS)
        one.disarm()

    async def until(
        self, holds: Callable[[], bool], what: str, seconds_max: float = PATIENCE_SECONDS
    ) -> None:
        """Wait for a condition, within a deadline; a fault of the supervision ends the wait."""
        try:
            async with asyncio.timeout(seconds_max):
                while not holds():
                    for task in self.tasks:
                        if task.done():
                            await task
                    await asyncio.sleep(LOOK_SECONDS)
        except TimeoutError:
            raise AssertionError(f"never: {what}\n{self.last_words()}") from None

    def endings(self) -> dict[str, list[int]]:
        """How the lives of every process that had one end ended."""
        return {
            name: [ending.code for ending in one.endings]
            for name, one in self.supervised.items()
            if one.endings
        }

    def last_words(self, lines: int = 15) -> str:
        """The ends of all logs, for whoever has to find out what happened."""
        told = []
        for name in self.supervised:
            path = self.folder / f"{name}.log"
            text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
            told.append(f"--- {name}\n" + "\n".join(text.splitlines()[-lines:]))
        return "\n".join(told)


@contextlib.asynccontextmanager
async def machine(
    kafka: str,
    admin_url: str,
    folder: Path,
    *,
    guarded: str | None = None,
    partitions: int = PARTITIONS,
) -> AsyncIterator[Machine]:
    """An installation with nothing started; everything that was started is killed at the end.

    With `guarded`, a listener of the same broker that asks for a login, every process is let in
    there as its own principal, and may do what is declared of it.
    """
    with contextlib.closing(Nursery()) as nursery:
        async with _machine(nursery, kafka, admin_url, folder, guarded, partitions) as made:
            yield made


@contextlib.asynccontextmanager
async def _machine(
    nursery: Nursery,
    kafka: str,
    admin_url: str,
    folder: Path,
    guarded: str | None,
    partitions: int,
) -> AsyncIterator[Machine]:
    prefix = f"c{secrets.token_hex(4)}.actionledger."
    log = KafkaLog(kafka, prefix=prefix)
    database_url = await databases.make(admin_url, f"crash_{secrets.token_hex(6)}")
    generation = secrets.token_hex(8)
    await apply_topics(log, partitions=partitions, generation=generation)
    await publish_document(log, "policy", POLICY)
    await publish_document(log, "people", PEOPLE)
    await publish_document(log, "catalogue", CATALOGUE.read_text(encoding="utf-8"))
    gateway_port, provider_port = free_ports(2)
    url, provider_url = (f"http://127.0.0.1:{port}" for port in (gateway_port, provider_port))
    for name in ("clients.jsonl", "people.jsonl"):
        (folder / name).touch()
    env = {
        **(await _kafka(kafka, guarded, prefix, folder)),
        "TOPIC_PREFIX": prefix,
        "DATABASE": database_url,
        "PARTITIONS": str(partitions),
        "GROUP_SESSION_MS": str(GROUP_SESSION_MS),
        "STATE": str(folder),
        "PROVIDER_URLS": f"simulated={provider_url}",
        "WEBHOOK_SECRETS_FILE": str(_webhook_secrets(folder)),
        "WEBHOOKS_URL": f"{url}/v1/webhooks/simulated?account={{account}}",
        "LOG_FORMAT": "plain",
        # More agents ask at once than people are asked by one of them.
        "APPROVALS_OPEN_MAX": "1000",
    }
    own = {"gateway": gateway_port, PROVIDER: provider_port}
    supervised = {
        name: Supervised(
            name, name, folder, _environment(env, name, folder, own.get(name)), nursery
        )
        for name in (PROVIDER, *PROCESSES)
    }
    keys = {
        tenant: create_key(
            folder / "api_keys.toml", tenant=tenant, principal="agent:crash", role=Role.AGENT
        )
        for tenant in TENANTS
    }
    made = Machine(
        log, database_url, folder, provider_url, url, keys, supervised, [url], partitions
    )
    office = Office(url, generation, made.people_file, seed=len(prefix))
    made.tasks.append(asyncio.create_task(office.work(), name="people"))
    try:
        yield made
    finally:
        for task in made.tasks:
            task.cancel()
        await asyncio.gather(*made.tasks, return_exceptions=True)


def _environment(
    common: dict[str, str], name: str, folder: Path, port: int | None
) -> dict[str, str]:
    own = {"HEARTBEAT": str(folder / f"{name}.ready")}
    if port is not None:
        own["HTTP_PORT"] = str(port)
    return {f"ACTIONLEDGER_{key}": value for key, value in (common | own).items()} | {
        "PATH": os.defpath,
        "LC_ALL": "C.UTF-8",
        "HOME": str(folder),
    }


def _webhook_secrets(folder: Path) -> Path:
    """One secret for all accounts of the provider, which signs with one."""
    secret = b64encode(secrets.token_bytes(24)).decode()
    path = folder / SECRETS_FILE
    path.write_text(
        "".join(f'[simulated.{name}]\nsecrets = ["whsec_{secret}"]\n' for name in ACCOUNTS),
        encoding="utf-8",
    )
    return path


async def _kafka(kafka: str, guarded: str | None, prefix: str, folder: Path) -> dict[str, str]:
    """Where the processes find Kafka, and as whom they log in: each knows all names, as on one
    machine of one owner.
    """
    if guarded is None:
        return {"KAFKA": kafka}
    path = folder / "kafka_credentials.toml"
    write_private(path, new_credentials(prefix))
    logins = KafkaLogins(by_principal=read_credentials(path))
    await Permissions(kafka, OPEN, "crash").apply(logins.declared(prefix))
    return {
        "KAFKA": guarded,
        "KAFKA_SECURITY": "sasl_plaintext",
        "KAFKA_CREDENTIALS_FILE": str(path),
    }
