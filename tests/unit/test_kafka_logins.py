"""As whom a process gets in at Kafka: from files and variables, with every mistake named."""

from pathlib import Path

import faust
import pytest

from gateway.credentials import (
    PRINCIPALS_OF,
    KafkaLogins,
    Login,
    NoLoginError,
    files_of,
    new_credentials,
    read_credentials,
)
from gateway.settings import Settings, SettingsError
from gateway.wiring.installation import open_log
from gateway.wiring.names import Process
from ledger.log.access import KafkaAccess, Mechanism, Protocol
from ledger.log.authority import GROUPS, TOPICS, Operation, rights
from ledger.log.principals import Principal, usual_names
from ledger.log.topics import Topic
from streams import inquirer, processor
from streams.app import credentials_of

HOME = {"HOME": "/h"}


def settings(**variables: str) -> Settings:
    """Settings with these variables of Kafka."""
    return Settings.from_environment(
        HOME | {f"ACTIONLEDGER_KAFKA_{name}": value for name, value in variables.items()}
    )


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    """A file with a login for every principal."""
    path = tmp_path / "logins.toml"
    path.write_text(new_credentials("a."), encoding="utf-8")
    return path


def test_without_a_word_a_broker_lets_everybody_in() -> None:
    """An environment that says nothing gives the access of a broker without logins."""
    assert settings().kafka.access(Principal.EXECUTOR) == KafkaAccess()


def test_each_process_takes_its_own_login(credentials: Path) -> None:
    """The gateway's roles and every process use the login of their principal and no other's."""
    found = settings(SECURITY="sasl_plaintext", CREDENTIALS_FILE=str(credentials))
    asked = {
        "processor": "a.processor",
        "gateway": "a.gateway-intents",
        "gateway-webhooks": "a.gateway-webhooks",
        "setup": "a.operator",
        "operator": "a.operator",
        "cli": "a.auditor",
        "doctor": "a.auditor",
    }
    for process, username in asked.items():
        access = open_log(found, process).access
        assert (access.username, access.protocol) == (username, Protocol.SASL_PLAINTEXT)
        assert access.password
    drawn = [login.password for login in read_credentials(credentials).values()]
    assert len(set(drawn)) == len(Principal)


def test_one_login_serves_where_there_is_none_of_its_own(tmp_path: Path) -> None:
    """A name and a password file stand for every principal that no file names."""
    (tmp_path / "password").write_text("secret\n", encoding="utf-8")
    (tmp_path / "some.toml").write_text('[executor]\nusername = "e"\npassword = "p"\n')
    found = settings(
        SECURITY="sasl_ssl",
        USERNAME="boss",
        PASSWORD_FILE=str(tmp_path / "password"),
        CREDENTIALS_FILE=str(tmp_path / "some.toml"),
        SASL_MECHANISM="plain",
    ).kafka
    assert found.access(Principal.EXECUTOR).username == "e"
    assert found.access(Principal.PROCESSOR).password == "secret"
    assert found.administrator().username == "boss"
    assert found.access(Principal.PROCESSOR).mechanism is Mechanism.PLAIN


def test_a_missing_login_is_named() -> None:
    """A broker that wants a login, and no login: the principal and the variables are said."""
    logins = KafkaLogins(protocol=Protocol.SASL_SSL, own=Login("without-a-password"))
    with pytest.raises(NoLoginError, match="principal inquirer") as caught:
        logins.access(Principal.INQUIRER)
    assert "ACTIONLEDGER_KAFKA_CREDENTIALS_FILE" in caught.value.hint


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SECURITY": "tls"}, "plaintext, ssl, sasl_plaintext, sasl_ssl"),
        ({"SASL_MECHANISM": "GSSAPI"}, "SCRAM-SHA-512, SCRAM-SHA-256, PLAIN"),
        ({"CA_FILE": "/nowhere/ca.pem", "SECURITY": "ssl"}, "No such file"),
        ({"CREDENTIALS_FILE": "/nowhere/logins.toml"}, "No such file"),
        ({"CREDENTIALS_FILE": "logins.toml"}, "the whole path"),
        ({"USERNAME": "x"}, "is without a login"),
        ({"PASSWORD_FILE": "{folder}/one_line"}, "has no name beside it"),
        (
            {"PASSWORD_FILE": "{folder}/empty", "USERNAME": "x", "SECURITY": "ssl"},
            "no password",
        ),
        ({"CA_FILE": "{folder}/one_line"}, "is without TLS"),
        ({"KEY_FILE": "{folder}/one_line", "SECURITY": "ssl"}, "has no certificate beside it"),
        ({"CREDENTIALS_FILE": "{folder}/one_line"}, "is not TOML"),
        ({"CREDENTIALS_FILE": "{folder}/stranger.toml"}, "a principal that there is not"),
        ({"CREDENTIALS_FILE": "{folder}/half.toml"}, "holds no login for executor"),
    ],
)
def test_what_would_not_work_is_refused_at_the_start(
    tmp_path: Path, variables: dict[str, str], said: str
) -> None:
    """What is misspelt, missing or would silently not be used is named with its variable."""
    (tmp_path / "one_line").write_text("a secret, and no TOML", encoding="utf-8")
    (tmp_path / "empty").write_text("\n", encoding="utf-8")
    (tmp_path / "stranger.toml").write_text('[agent]\nusername = "a"\n', encoding="utf-8")
    (tmp_path / "half.toml").write_text('[executor]\npassword = "a secret"\n', encoding="utf-8")
    filled = {name: text.format(folder=tmp_path) for name, text in variables.items()}
    with pytest.raises(SettingsError) as caught:
        settings(**filled)
    assert said in str(caught.value)
    assert "ACTIONLEDGER_KAFKA_" in str(caught.value)
    assert "a secret" not in str(caught.value)


def test_every_process_is_given_its_own_file(credentials: Path) -> None:
    """Together the files hold all logins, each where it is used, and only the step that tells the
    broker has all of them.
    """
    known = read_credentials(credentials)
    files = files_of(known)
    assert set(files) == set(Process) - {Process.SIMULATED_PROVIDER}
    for process, text in files.items():
        path = credentials.with_name(f"{process}.toml")
        path.write_text(text, encoding="utf-8")
        assert set(read_credentials(path)) == set(PRINCIPALS_OF[process])
    handed = {
        who for name, all_of in PRINCIPALS_OF.items() if name != "permissions" for who in all_of
    }
    assert handed == set(Principal) - {Principal.AUDITOR}


def test_faust_is_given_the_same() -> None:
    """The stream app logs in as every other client of its process does."""
    assert credentials_of(KafkaAccess()) is None
    login = KafkaAccess(Protocol.SASL_PLAINTEXT, Mechanism.SCRAM_SHA_512, "reconciler", "secret")
    found = credentials_of(login)
    assert isinstance(found, faust.SASLCredentials)
    assert (found.username, found.password) == ("reconciler", "secret")
    assert found.mechanism.value == "SCRAM-SHA-512"
    assert found.ssl_context is None
    by_tls = credentials_of(KafkaAccess(Protocol.SSL))
    assert isinstance(by_tls, faust.SSLCredentials)
    assert by_tls.context is not None


def test_groups_are_those_that_the_processes_join() -> None:
    """A group that is renamed in one place only would keep its members out."""
    assert GROUPS[Principal.PROCESSOR] == processor.GROUP
    assert GROUPS[Principal.INQUIRER] == inquirer.GROUP
    from gateway.wiring.run_reconciler import GROUP  # noqa: PLC0415 - it loads Faust's app

    assert GROUPS[Principal.RECONCILER] == GROUP


def test_the_table_names_every_topic_once() -> None:
    """No topic is without a line, and every right is about the installation's own prefix."""
    assert all(set(cells) == set(Topic) for cells in TOPICS.values())
    assert usual_names("x.")[Principal.AUDITOR] == "x.auditor"
    for principal in Principal:
        for right in rights(principal, "x."):
            assert right.name == "kafka-cluster" or right.name.startswith("x.")
            assert right.operation is not Operation.DELETE
