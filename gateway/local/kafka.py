"""One Kafka broker in KRaft mode on loopback: formatted once, started, killed, started again.

Guarantees: listens on 127.0.0.1 only, keeps everything for ever (retention is said per topic),
creates no topic by itself, and is back within 5 s of a kill with all that it acknowledged. Whoever
logs in may do what the access control lists say and nothing else. Called by `servers` (children of
a test) and `supervisor` (behind `up`).

It has three listeners. Components log in at the first with SCRAM-SHA-512. The other two are for the
super user alone: one for what has to be said before there are any users, and one of the controller.
Their logins stand in the broker's own file, because a broker cannot ask itself for them.
"""

import contextlib
import os
import shutil
from enum import Enum
from pathlib import Path

from gateway.local import limits, ports
from gateway.local.java import Java
from gateway.local.processes import Command, until
from gateway.local.program import Program
from gateway.local.state import (
    StateFolder,
    file_trouble,
    make_folder,
    new_kafka_id,
    require_space,
    write_private,
)

NAME = "kafka"
ADMIN = "kafka-admin"
CONTROLLER = "kafka-controller"
SUPER_USER = "admin"
META = Path("data", "meta.properties")
FIRST_METADATA = Path("data", "__cluster_metadata-0", "00000000000000000000-0000000000.checkpoint")


class Admission(Enum):
    """Who is let in at the super user's listener: that one, or everybody, for tests."""

    SUPER_USER = "super_user"
    EVERYBODY = "everybody"


# Characters of the password: those of `secrets.token_urlsafe`, which need no quoting here.
_LOGIN = "org.apache.kafka.common.security.{kind} required{arguments};"
_SUPER_USER_LOGIN = _LOGIN.format(
    kind="plain.PlainLoginModule",
    arguments=f' username="{SUPER_USER}" password="{{password}}" user_{SUPER_USER}="{{password}}"',
)
_SCRAM_LOGIN = _LOGIN.format(kind="scram.ScramLoginModule", arguments="")
GUARDED = f"""\
listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,ADMIN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
super.users=User:{SUPER_USER}
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.admin.sasl.enabled.mechanisms=PLAIN
listener.name.admin.plain.sasl.jaas.config={_SUPER_USER_LOGIN}
listener.name.controller.sasl.enabled.mechanisms=PLAIN
listener.name.controller.plain.sasl.jaas.config={_SUPER_USER_LOGIN}
"""
OPEN = """\
listener.security.protocol.map=CLIENT:SASL_PLAINTEXT,ADMIN:PLAINTEXT,CONTROLLER:PLAINTEXT
super.users=User:ANONYMOUS
"""

LISTENERS = f"""\
listeners=CLIENT://127.0.0.1:{{port}},ADMIN://127.0.0.1:{{admin_port}},\
CONTROLLER://127.0.0.1:{{controller_port}}
advertised.listeners=CLIENT://127.0.0.1:{{port}},ADMIN://127.0.0.1:{{admin_port}}
inter.broker.listener.name=ADMIN
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=false
listener.name.client.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.client.scram-sha-512.sasl.jaas.config={_SCRAM_LOGIN}
"""

# One broker: no replication anywhere. Short sessions: see limits. Paths are relative to the
# working directory, because these files can hold neither every path nor every letter. The
# cleaner's buffer would otherwise take 128 MB for topics that nobody compacts.
PROPERTIES = f"""\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{{controller_port}}
controller.listener.names=CONTROLLER
log.dirs=data

broker.session.timeout.ms={limits.KAFKA_SESSION_MS}
broker.heartbeat.interval.ms={limits.KAFKA_HEARTBEAT_MS}
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms={limits.GROUP_SESSION_MS_MIN}

auto.create.topics.enable=false
log.retention.ms=-1
log.retention.bytes=-1
offsets.retention.minutes={limits.OFFSETS_RETENTION_MINUTES}
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

# Nobody else has to hear that the controller is there, and with one replica all that a broker has
# counts when it is started again: both were said often, for a hundredth of a processor together.
ALONE = """\
metadata.max.idle.interval.ms=10000
replica.high.watermark.checkpoint.interval.ms=60000
"""

LOGGING = f"""\
status = error
rootLogger.level = info
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = ../logs/{NAME}.log
appender.file.filePattern = ../logs/{NAME}.log.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{ISO8601}} %p %m (%c{{1}})%n
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = {limits.LOG_FILE_BYTES_MAX}
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 1
"""


class KafkaServer(Program):
    """The broker of a state folder."""

    stop_ms_max = limits.KAFKA_STOP_MS_MAX

    def __init__(
        self,
        state: StateFolder,
        java: Java,
        *,
        admission: Admission = Admission.SUPER_USER,
        death_signal: int = 0,
    ) -> None:
        """Describe it; `start` runs it. With `death_signal` it ends when we do."""
        super().__init__(NAME, state)
        self._admission = admission
        self._java = java
        self._death_signal = death_signal
        self._folder = state.folder / "kafka"

    @property
    def port(self) -> int:
        """Where clients connect."""
        return self._state.state.ports[NAME]

    async def start(self) -> None:
        """Start it, formatting the storage first if it is new.

        Raises:
            PortTakenError: another program listens on one of its ports.
            DiskFullError: there is too little space to go on.
            ProcessFailedError: the storage could not be formatted.

        """
        agreed = self._state.state
        for name in (NAME, ADMIN, CONTROLLER):
            ports.require_free(agreed.ports[name], name)
        make_folder(self._folder)
        make_folder(self.log.parent)
        require_space(self._folder)
        admission = GUARDED if self._admission is Admission.SUPER_USER else OPEN
        properties = (PROPERTIES + ALONE + LISTENERS + admission).format(
            port=self.port,
            admin_port=agreed.ports[ADMIN],
            controller_port=agreed.ports[CONTROLLER],
            password=agreed.kafka_password,
        )
        write_private(self._folder / "server.properties", properties)
        write_private(self._folder / "admin_password", agreed.kafka_password)
        write_private(self._folder / "log4j2.properties", LOGGING)
        if not (self._folder / META).exists():
            await self._format(agreed.cluster_id)
        self._launch(self._command("kafka.Kafka", "server.properties"))

    async def wait_ready(self) -> None:
        """Wait until clients can connect.

        Raises:
            ProcessFailedError: it ended, or is not ready in `KAFKA_READY_MS_MAX`.

        """
        await until(lambda: not self.is_running or self._listens(), limits.KAFKA_READY_MS_MAX)
        if not self.is_running or not self._listens():
            what = "is not ready" if self.is_running else f"ended with code {self.exit_code}"
            raise self._failure(what)

    async def _format(self, cluster_id: str) -> None:
        """Prepare the storage. Kafka's own tool writes the same each time, but for the names, and a
        start of Java takes a second: it is run once for each Kafka.
        """
        kept, first = self._java.formatted, self._folder / FIRST_METADATA
        if kept.exists():
            make_folder(first.parent)
            with file_trouble(first):
                first.unlink(missing_ok=True)  # where it is a link, what it leads to stays
                with kept.open("rb") as known, first.open("xb") as made:
                    shutil.copyfileobj(known, made)
            # Last: with it the storage counts as formatted.
            meta = f"cluster.id={cluster_id}\ndirectory.id={new_kafka_id()}\nnode.id=1\nversion=1\n"
            write_private(self._folder / META, meta)
            return
        await self._run_once(
            self._command(
                *("kafka.tools.StorageTool", "format", "--ignore-formatted"),
                *("-t", cluster_id, "-c", "server.properties"),
            )
        )
        with contextlib.suppress(OSError):  # another time, then
            partial = kept.with_name(f"{kept.name}.{os.getpid()}")
            shutil.copyfile(first, partial)
            partial.replace(kept)

    def _listens(self) -> bool:
        """Whether everybody can connect: it opens its listeners one after another."""
        return all(ports.is_open(self._state.state.ports[name]) for name in (NAME, ADMIN))

    def _command(self, main: str, *arguments: str) -> Command:
        logging = "-Dlog4j2.configurationFile=log4j2.properties"
        return Command(
            name="Kafka",
            argv=self._java.command(main, *arguments, options=(logging,)),
            log=self.log.with_suffix(".out"),
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
            cwd=self._folder,
            death_signal=self._death_signal,
            nice=self._java.nice,
        )
