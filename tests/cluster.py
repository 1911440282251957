"""Kafka clusters for tests of what the product relies on: one broker or three, each a process of
its own, from the jars and the Java of the local servers.

Guarantees loopback and free ports only, data that are gone afterwards, and that the kernel ends
every broker with the test. Each broker has a second listener whose advertised port is left free:
whoever bootstraps there speaks through a proxy that a test puts between (see `tests.lossy_proxy`).
"""

import asyncio
import base64
import signal
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.local import limits
from gateway.local.jars import ensure_jars
from gateway.local.java import Java, find_java
from gateway.local.kafka import LOGGING, PROPERTIES
from gateway.local.ports import free_ports, is_open
from gateway.local.processes import Child, Command, Identity, run_once, until
from gateway.local.servers import temporary_folder
from gateway.local.state import default_cache_folder

REPLICAS_MAX = 3
QUICK: Mapping[str, str] = {
    # What waits for minutes in production and for nothing here.
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "replica.lag.time.max.ms": "2000",
    "offsets.retention.check.interval.ms": "100",
}


def record_nothing(_: Identity) -> None:
    """The kernel ends the process with us: nobody needs to find it again."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where one broker is spoken to."""

    clients: int
    controllers: int
    behind_proxy: int
    proxy: int


class Broker:
    """One node, broker and controller in one: started, killed, started again on its data."""

    def __init__(self, node: int, ports: Ports, folder: Path, java: Java) -> None:
        self.node = node
        self.ports = ports
        self.folder = folder
        self._java = java
        self._child: Child | None = None

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.ports.clients}"

    @property
    def proxied_bootstrap(self) -> str:
        """Where clients connect that are to speak through a proxy on `ports.proxy`."""
        return f"127.0.0.1:{self.ports.proxy}"

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._child is not None and self._child.is_running

    def write(self, settings: Mapping[str, str]) -> None:
        """Write its configuration; it must not run."""
        (self.folder / "kafka").mkdir(parents=True, exist_ok=True)
        (self.folder / "logs").mkdir(exist_ok=True)
        text = "\n".join(f"{name}={value}" for name, value in settings.items())
        (self.folder / "kafka/server.properties").write_text(text, encoding="utf-8")
        (self.folder / "kafka/log4j2.properties").write_text(LOGGING, encoding="utf-8")

    async def format(self, cluster_id: str) -> None:
        """Prepare its storage, once."""
        await run_once(
            self._command(
                *("kafka.tools.StorageTool", "format"),
                *("-t", cluster_id, "-c", "server.properties"),
            ),
            record_nothing,
        )

    async def start(self) -> None:
        """Start it and wait until it listens."""
        self._child = Child(self._command("kafka.Kafka", "server.properties"), record_nothing)
        child = self._child
        await until(
            lambda: not child.is_running or is_open(self.ports.clients), limits.KAFKA_READY_MS_MAX
        )
        if not child.is_running or not is_open(self.ports.clients):
            raise child.failure("is not ready")

    async def kill(self) -> None:
        """End it as a machine does that loses power. Idempotent."""
        if self._child is not None:
            await self._child.kill()

    def _command(self, main: str, *arguments: str) -> Command:
        logging = "-Dlog4j2.configurationFile=log4j2.properties"
        return Command(
            name=f"Kafka {self.node}",
            argv=self._java.command(main, *arguments, options=(logging,)),
            log=self.folder / "logs/kafka.out",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            cwd=self.folder / "kafka",
            death_signal=signal.SIGKILL,
        )


@dataclass(frozen=True, slots=True)
class Cluster:
    """Brokers that know each other; node numbers begin with 1."""

    brokers: tuple[Broker, ...]
    java: Java

    @property
    def bootstrap(self) -> str:
        """All of them, for clients that live longer than one."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    def broker(self, node: int) -> Broker:
        """The broker of a number."""
        return self.brokers[node - 1]


def settings_of(
    node: int, ports: Mapping[int, Ports], changes: Mapping[str, str]
) -> dict[str, str]:
    """The local broker's configuration as one node of several has it."""
    own = ports[node]
    text = PROPERTIES.format(controller_port=own.controllers)
    settings = dict(line.split("=", 1) for line in text.splitlines() if line)
    replicas = str(min(len(ports), REPLICAS_MAX))
    addresses = {
        "CLIENT": own.clients,
        "CONTROLLER": own.controllers,
        "PROXIED": own.behind_proxy,
    }
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in addresses.items())
    voters = ",".join(f"{other}@127.0.0.1:{ports[other].controllers}" for other in ports)
    return {
        **settings,
        "node.id": str(node),
        "controller.quorum.voters": voters,
        "listeners": listeners,
        "advertised.listeners": (
            f"CLIENT://127.0.0.1:{own.clients},PROXIED://127.0.0.1:{own.proxy}"
        ),
        "inter.broker.listener.name": "CLIENT",
        "listener.security.protocol.map": (
            "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT"
        ),
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "share.coordinator.state.topic.replication.factor": replicas,
        **QUICK,
        **changes,
    }


@asynccontextmanager
async def cluster(brokers: int, changes: Mapping[str, str] | None = None) -> AsyncIterator[Cluster]:
    """Run so many brokers; `changes` are settings that all of them have otherwise."""
    cache = default_cache_folder()
    java = find_java(cache, await asyncio.to_thread(ensure_jars, cache))
    numbers = free_ports(4 * brokers)
    ports = {node: Ports(*numbers[4 * (node - 1) : 4 * node]) for node in range(1, brokers + 1)}
    cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
    with temporary_folder() as folder:
        nodes = tuple(Broker(node, ports[node], folder / f"node-{node}", java) for node in ports)
        for one in nodes:
            one.write(settings_of(one.node, ports, changes or {}))
        try:
            await asyncio.gather(*(one.format(cluster_id) for one in nodes))
            # None of them listens before the others have formed a quorum with it.
            await asyncio.gather(*(one.start() for one in nodes))
            yield Cluster(nodes, java)
        finally:
            await asyncio.gather(*(one.kill() for one in nodes))
