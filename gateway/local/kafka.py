"""One Kafka broker in KRaft mode on loopback: formatted once, started, killed, started again.

Guarantees: listens on 127.0.0.1 only, keeps everything for ever (retention is said per topic),
creates no topic by itself, and is back within 5 s of a kill with all that it acknowledged.
Called by `servers` (children of a test) and `supervisor` (behind `up`).
"""

import signal
from pathlib import Path

from gateway.local import limits, ports
from gateway.local.errors import ProcessFailedError
from gateway.local.java import Java
from gateway.local.processes import Child, Command, Identity, run_once, until
from gateway.local.state import ProcessRecord, StateFolder, make_folder

NAME = "kafka"

# Single broker: no replication anywhere. Short session: see limits. The cleaner's buffer would
# otherwise hold 128 MB of heap for topics that nobody compacts.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=CLIENT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=CLIENT://127.0.0.1:{port}
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
log.dirs={data}

broker.session.timeout.ms={session_ms}
broker.heartbeat.interval.ms={heartbeat_ms}
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms={group_session_ms}

auto.create.topics.enable=false
log.retention.ms=-1
log.retention.bytes=-1
offsets.retention.minutes=5256000
default.replication.factor=1
min.insync.replicas=1
offsets.topic.replication.factor=1
offsets.topic.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=2
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
share.coordinator.state.topic.num.partitions=1

log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=2
num.io.threads=4
background.threads=2
num.recovery.threads.per.data.dir=2
"""

LOGGING = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %m (%c{{1}})%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = {bytes_max}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""


class KafkaServer:
    """The broker of a state folder."""

    name = NAME

    def __init__(self, state: StateFolder, java: Java, *, death_signal: int = 0) -> None:
        """Describe it; `start` runs it. With `death_signal` it ends when we do."""
        self._state = state
        self._java = java
        self._death_signal = death_signal
        self._folder = state.folder / "kafka"
        self._child: Child | None = None
        self.log = state.folder / "logs" / "kafka.log"

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._state.state.ports[NAME]

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

    async def start(self, options: tuple[str, ...] | None = None) -> None:
        """Start it, formatting the storage first if it is new; `options` replace the AOT cache's.

        Raises:
            PortTakenError: another program listens on one of its ports.
            ProcessFailedError: the storage could not be formatted.

        """
        ports.require_free(self.port, NAME)
        ports.require_free(self._state.state.ports["kafka-controller"], "kafka-controller")
        make_folder(self._folder)
        make_folder(self.log.parent)
        self._write_configuration()
        if not (self._folder / "data" / "meta.properties").exists():
            await self._format()
        arguments = ("kafka.Kafka", str(self._folder / "server.properties"))
        logging = f"-Dlog4j2.configurationFile={self._folder / 'log4j2.properties'}"
        if options is None:
            argv = self._java.command(*arguments, options=(logging,))
        else:
            argv = self._java.bare_command(*arguments, options=(logging, *options))
        self._child = Child(self._command(argv), self._record)

    async def wait_ready(self) -> None:
        """Wait until clients can connect.

        Raises:
            ProcessFailedError: it ended, or is not ready in `KAFKA_READY_MS_MAX`.

        """
        await until(lambda: not self.is_running or ports.is_open(self.port), self.ready_ms_max)
        if not self.is_running or not ports.is_open(self.port):
            what = "is not ready" if self.is_running else f"ended with code {self.exit_code}"
            raise ProcessFailedError("Kafka", what, log=self.log, exit_code=self.exit_code)

    ready_ms_max = limits.KAFKA_READY_MS_MAX

    async def stop(self) -> None:
        """End it cleanly; all that it acknowledged is kept. Idempotent."""
        if self._child is not None:
            await self._child.stop(signal.SIGTERM, limits.KAFKA_STOP_MS_MAX)
            self._state.forget(NAME)

    async def kill(self) -> None:
        """End it with SIGKILL, as the end of a power cord would end its process. Idempotent."""
        if self._child is not None:
            await self._child.kill()
            self._state.forget(NAME)

    async def restart(self) -> None:
        """End it cleanly if it runs, start it, and wait until it is ready."""
        await self.stop()
        await self.start()
        await self.wait_ready()

    async def _format(self) -> None:
        # A format that was cut off leaves a folder that the tool refuses; there is no data in it.
        properties = str(self._folder / "server.properties")
        cluster = self._state.state.cluster_id
        argv = self._java.command(
            *("kafka.tools.StorageTool", "format", "--ignore-formatted"),
            *("-t", cluster, "-c", properties),
        )
        await run_once(self._command(argv), self._record)

    def _command(self, argv: list[str]) -> Command:
        return Command(
            name="Kafka",
            argv=argv,
            log=self.log.with_name("kafka.out"),
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            death_signal=self._death_signal,
        )

    def _record(self, identity: Identity) -> None:
        self._state.record(
            NAME,
            ProcessRecord(
                pid=identity.pid, created_at=identity.created_at, port=self.port, log=self.log
            ),
        )

    def _write_configuration(self) -> None:
        values = {
            "port": self.port,
            "controller_port": self._state.state.ports["kafka-controller"],
            "data": self._folder / "data",
            "session_ms": limits.KAFKA_SESSION_MS,
            "heartbeat_ms": limits.KAFKA_HEARTBEAT_MS,
            "group_session_ms": limits.GROUP_SESSION_MS_MIN,
        }
        (self._folder / "server.properties").write_text(PROPERTIES.format(**values))
        logging = LOGGING.format(log=self.log, bytes_max=limits.LOG_FILE_BYTES_MAX)
        (self._folder / "log4j2.properties").write_text(logging)


def data_folder(folder: Path) -> Path:
    """Where the broker of a state folder keeps its records."""
    return folder / "kafka" / "data"
