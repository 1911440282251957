"""The product on servers that it did not start: Kafka by TLS with logins, Postgres by TLS."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import asyncpg
import pytest

from gateway.credentials import KafkaLogins, new_credentials, read_credentials
from gateway.database_trouble import database_trouble
from gateway.local.state import write_private
from gateway.settings import Settings
from gateway.wiring.external import HalfExternalError, external_servers
from ledger.core.errors import LedgerError
from ledger.log.access import CertificateError, KafkaAccess, Mechanism, Protocol
from ledger.log.admin import check_topics
from ledger.log.kafka import KafkaLog
from ledger.log.permissions import Permissions
from ledger.log.principals import Principal
from ledger.log.trouble import LogRefusedError, LogUnreachableError
from projections.migrate import migrate
from tests.commands import told_beside
from tests.elsewhere import CERTIFICATE, SUPER_USER, Elsewhere, elsewhere
from tests.patience import CAMPAIGN_SECONDS

pytestmark = [pytest.mark.servers, pytest.mark.timeout(CAMPAIGN_SECONDS)]

PREFIX = "acme.ledger."
INTENT = Path("examples/intent.json")


@pytest.fixture(scope="module")
def outside() -> Iterator[Elsewhere]:
    """A Kafka and a Postgres that were started apart."""
    loop = asyncio.new_event_loop()
    with elsewhere(loop) as running:
        yield running
    loop.close()


@pytest.fixture(scope="module")
def folder(outside: Elsewhere) -> Iterator[Path]:
    """A state folder with what an administrator hands out: the logins of every component."""
    made = Path(tempfile.mkdtemp(prefix="actionledger-test-external-"))
    write_private(made / "logins.toml", new_credentials(PREFIX))
    write_private(made / "boss", f"{outside.kafka_password}\n")
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def environment(outside: Elsewhere, folder: Path) -> dict[str, str]:
    """What a person sets to use these servers."""
    return {
        "ACTIONLEDGER_KAFKA": outside.kafka,
        "ACTIONLEDGER_KAFKA_SECURITY": "sasl_ssl",
        "ACTIONLEDGER_KAFKA_CA_FILE": str(outside.ca_file),
        "ACTIONLEDGER_KAFKA_CREDENTIALS_FILE": str(folder / "logins.toml"),
        "ACTIONLEDGER_DATABASE": outside.database_url(),
        "ACTIONLEDGER_TOPIC_PREFIX": PREFIX,
        "ACTIONLEDGER_PARTITIONS": "2",
        "ACTIONLEDGER_STATE": str(folder),
    }


async def said(environment: dict[str, str], *arguments: str) -> tuple[int, dict[str, object]]:
    """Run a command with this environment; its exit code and its JSON."""
    async with asyncio.timeout(CAMPAIGN_SECONDS / 2):
        told = await told_beside((*arguments, "--json"), environment)
    assert told.out, told.err
    return told.code, json.loads(told.out)


def last_words(folder: Path, lines: int = 60) -> str:
    """The ends of all logs, for whoever has to find out what happened."""
    return "\n".join(
        f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
        for path in sorted((folder / "logs").glob("*.log"))
    )


async def test_the_product_runs_on_servers_of_ones_own(
    outside: Elsewhere, folder: Path, environment: dict[str, str]
) -> None:
    """The administrator applies the permissions once; then `up` starts no server, an action is
    carried out by every process through TLS and logins, and all looks are well.
    """
    as_boss = environment | {
        "ACTIONLEDGER_KAFKA": outside.kafka_admin,
        "ACTIONLEDGER_KAFKA_SASL_MECHANISM": "PLAIN",
        "ACTIONLEDGER_KAFKA_USERNAME": SUPER_USER,
        "ACTIONLEDGER_KAFKA_PASSWORD_FILE": str(folder / "boss"),
    }
    code, checked = await said(environment, "acl", "check")
    assert code == 1, checked  # nobody has a login yet
    code, applied = await said(as_boss, "acl", "apply")
    assert code == 0, applied
    code, checked = await said(environment, "acl", "check")
    assert code == 0, checked
    try:
        code, _ = await said(environment, "up", "--port", "gateway=0")
        assert code == 0, last_words(folder)
        code, status = await said(environment, "status")
        names = {one["name"] for one in status["result"]["processes"]}  # type: ignore[index]
        assert not {"kafka", "postgres", "permissions"} & names
        assert {"processor", "executor", "reconciler", "projector"} <= names
        intent = str(INTENT)
        code, proposed = await said(environment, "propose", "--file", intent, "--wait")
        assert code == 0, proposed
        code, looked = await said(environment, "doctor")
        assert code == 0, looked
        # Without the variables too: `up` has noted them.
        bare = {"ACTIONLEDGER_STATE": str(folder)}
        code, replayed = await said(bare, "replay")
        assert code == 0, replayed
    finally:
        code, _ = await said(environment, "down")
    assert code == 0
    assert await views_answer(outside.database_url()) >= 1


async def views_answer(url: str) -> int:
    """Ask every view for analysts; how many actions there are."""
    connection = await asyncpg.connect(url)
    try:
        named = await connection.fetch(
            "select table_name from information_schema.views where table_schema = $1",
            "actionledger_api_v1",
        )
        assert named
        for row in named:
            view = f"actionledger_api_v1.{row['table_name']}"
            await connection.fetch(f"select * from {view}")  # noqa: S608 - a name of ours
        return int(await connection.fetchval("select count(*) from actionledger.actions"))
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def known(outside: Elsewhere, folder: Path) -> KafkaAccess:
    """The operator, whom the broker knows."""
    logins = KafkaLogins(
        protocol=Protocol.SASL_SSL,
        by_principal=read_credentials(folder / "logins.toml"),
        ca_file=outside.ca_file,
    )
    admin = Permissions(outside.kafka_admin, outside.super_access(), "test")
    asyncio.run(admin.apply(logins.declared(PREFIX)))
    return logins.access(Principal.OPERATOR)


async def test_what_keeps_a_client_out_of_kafka_is_said(
    outside: Elsewhere, known: KafkaAccess
) -> None:
    """A wrong password, mechanism, certificate or protocol is named with the variable to mend."""
    refused: list[tuple[KafkaAccess, type[Exception], str, str]] = [
        (replace(known, password="no"), LogRefusedError, "password is wrong", "credentials"),
        (replace(known, username="no"), LogRefusedError, "name is unknown", "credentials"),
        (replace(known, mechanism=Mechanism.PLAIN), LogRefusedError, "by PLAIN", "MECHANISM"),
        (replace(known, ca_file=outside.stranger_ca_file), LogRefusedError, "believed", "CA_FILE"),
        (KafkaAccess(), LogUnreachableError, "without a word", "KAFKA_SECURITY"),
        (replace(known, ca_file=Path("/nowhere")), CertificateError, "No such file", "CA_FILE"),
    ]
    for access, kind, message, hint in refused:
        log = KafkaLog(outside.kafka, prefix=PREFIX, access=access)
        with pytest.raises(kind) as caught:
            await log.appender()
        assert isinstance(caught.value, LedgerError)
        assert message in caught.value.message
        assert hint in caught.value.hint
    with pytest.raises(LogUnreachableError, match=r"No Kafka broker answers at 127\.0\.0\.1:1 "):
        await KafkaLog("127.0.0.1:1", access=known).appender()


async def test_a_certificate_lets_a_client_in(outside: Elsewhere) -> None:
    """A broker that asks for a client's certificate is content with one it trusts, and with none
    the variables to set are named.
    """
    bare = KafkaAccess(Protocol.SSL, ca_file=outside.ca_file)
    log = KafkaLog(outside.kafka_certified, access=replace(bare, certificate_file=CERTIFICATE))
    assert (await check_topics(log, partitions=1))[0].found == "missing"
    with pytest.raises(LogRefusedError, match="CERTIFICATE_FILE"):
        await KafkaLog(outside.kafka_certified, access=bare).appender()


async def test_what_keeps_a_client_out_of_postgres_is_said(outside: Elsewhere) -> None:
    """A wrong password, certificate, database or address is named with the variable to mend."""
    refused = [
        (outside.database_url(password="no"), "does not let us in"),
        (outside.database_url("nothing"), '"nothing" does not exist'),
        ("postgresql://127.0.0.1:1/ledger", "does not answer"),
    ]
    if outside.tls:
        refused += [
            (outside.database_url(sslrootcert=str(outside.stranger_ca_file)), "not believed"),
            (outside.database_url(sslmode="disable"), "does not let us in"),
        ]
    else:
        refused.append((outside.database_url(sslmode="require"), "does not speak TLS"))
    for url, message in refused:
        with pytest.raises((OSError, asyncpg.PostgresError)) as caught:
            await asyncpg.connect(url)
        told = database_trouble(caught.value)
        assert told is not None
        assert message in told.message
        assert told.hint


async def test_tables_and_views_are_made_on_the_postgres_of_debian(outside: Elsewhere) -> None:
    """Every migration runs on the server that is there, and every view of analysts answers."""
    owner = await asyncpg.connect(outside.database_url())
    try:
        await owner.execute("drop database if exists anew")
        boss = outside.database_url("anew")
        admin = await asyncpg.connect(outside.database_url("postgres").replace("owner:", "boss:"))
        try:
            await admin.execute("create database anew owner owner")
        finally:
            await admin.close()
    finally:
        await owner.close()
    connection = await asyncpg.connect(boss)
    try:
        assert await migrate(connection)
        assert await migrate(connection) == []
    finally:
        await connection.close()
    assert await views_answer(boss) == 0


def test_half_of_an_installation_is_refused() -> None:
    """Who names one server of his own is told to name the other; what belongs to both is kept."""
    kafka, database = {"ACTIONLEDGER_KAFKA": "a:1"}, {"ACTIONLEDGER_DATABASE": "postgresql://a/b"}
    for half, missing in ((kafka, "DATABASE"), (database, "KAFKA")):
        with pytest.raises(HalfExternalError, match=f"ACTIONLEDGER_{missing} is not set"):
            external_servers(half)
    assert external_servers({"ACTIONLEDGER_STATE": "/s", "PATH": "/bin"}) == {}
    both = kafka | database | {"ACTIONLEDGER_KAFKA_CA_FILE": "/ca", "ACTIONLEDGER_STATE": "/s"}
    assert external_servers(both) == {
        "KAFKA": "a:1",
        "DATABASE": "postgresql://a/b",
        "KAFKA_CA_FILE": "/ca",
    }


def test_no_password_is_in_what_a_process_tells_of_itself(folder: Path) -> None:
    """Settings, accesses and declarations show names, never what proves them."""
    path = folder / "logins.toml"
    told = Settings.from_environment(
        {
            "HOME": "/h",
            "ACTIONLEDGER_KAFKA_SECURITY": "sasl_ssl",
            "ACTIONLEDGER_KAFKA_CREDENTIALS_FILE": str(path),
        }
    )
    shown = "".join(
        map(repr, (told, told.kafka.access(Principal.EXECUTOR), told.kafka.declared(PREFIX)))
    )
    logins = read_credentials(path)
    assert logins[Principal.EXECUTOR].username in shown
    assert all(one.password and one.password not in shown for one in logins.values())
