"""Settings: sane without anything, and every mistake named at once."""

import pwd
from pathlib import Path

import pytest

from gateway.settings import LogFormat, LogLevel, Settings, SettingsError
from ledger.core.limits import GROUP_SESSION_MS_DEFAULT, GROUP_SESSION_MS_NAMED

SECRET = "whsec_c2VjcmV0LW9mLXRoZS1zaW11bGF0ZWQtcHJvdmlkZXI="

WRONG = [
    ("ACTIONLEDGER_KAFKA", "localhost", "host:port"),
    ("ACTIONLEDGER_KAFKA", "a:1,b", "host:port"),
    ("ACTIONLEDGER_DATABASE", "mysql://x/y", "postgresql://"),
    ("ACTIONLEDGER_DATABASE", "postgresql://host:port/x", "postgresql://"),
    ("ACTIONLEDGER_GROUP_SESSION_MS", "999", "1000 to 300000"),
    ("ACTIONLEDGER_TOPIC_PREFIX", "no dot at the end", "dot"),
    ("ACTIONLEDGER_TOPIC_PREFIX", "abc", "end it with a dot"),
    ("ACTIONLEDGER_PARTITIONS", "0", "1 to 1024"),
    ("ACTIONLEDGER_PARTITIONS", "six", "1 to 1024"),
    ("ACTIONLEDGER_APPROVALS_OPEN_MAX", "0", "1 to 1000"),
    ("ACTIONLEDGER_HTTP_PORT", "65536", "1 to 65535"),
    ("ACTIONLEDGER_HTTP_PORT", "8788.0", "1 to 65535"),
    ("ACTIONLEDGER_HTTP_HOST", "http://here", "127.0.0.1"),
    ("ACTIONLEDGER_STATE", "relative/folder", "from /"),
    ("ACTIONLEDGER_API_KEYS_FILE", "keys.toml", "from /"),
    ("ACTIONLEDGER_SIGNING_KEY_FILE", "key.pem", "from /"),
    ("ACTIONLEDGER_POLICY_FILE", "policy.toml", "from /"),
    ("ACTIONLEDGER_POLICY_FILE", "/does/not/exist.toml", "No such file"),
    ("ACTIONLEDGER_NOTIFY_FILE", "notify.toml", "from /"),
    ("ACTIONLEDGER_NOTIFY_FILE", "/does/not/exist.toml", "No such file"),
    ("ACTIONLEDGER_WEBHOOK_SECRETS_FILE", "/does/not/exist.toml", "No such file"),
    ("ACTIONLEDGER_PROVIDER_URLS", "simulated", "name=https://host"),
    ("ACTIONLEDGER_PROVIDER_URLS", "a=http://x,a=http://y", "each name once"),
    ("ACTIONLEDGER_PROVIDER_URLS", "a=ftp://x", "http://host:port"),
    ("ACTIONLEDGER_PROVIDER_FILES", "bank.toml", "from /"),
    ("ACTIONLEDGER_PROVIDER_FILES", "/does/not/exist.toml", "files or folders"),
    ("ACTIONLEDGER_PROVIDER_FILES", "/etc/hostname", "files or folders"),
    ("ACTIONLEDGER_LOG_LEVEL", "loud", "debug, info, warning, error"),
    ("ACTIONLEDGER_LOG_FORMAT", "xml", "json, plain"),
    ("ACTIONLEDGER_URL", "127.0.0.1:8788", "http://host:port"),
    ("ACTIONLEDGER_API_KEY", "two words", "as it was printed"),
    ("ACTIONLEDGER_DATBASE", "x", "did you mean ACTIONLEDGER_DATABASE?"),
    ("ACTIONLEDGER_ZEBRA", "x", "remove it"),
]


def test_an_empty_environment_is_enough() -> None:
    """Without any variable the local defaults hold."""
    settings = Settings.from_environment({"HOME": "/home-of-somebody"})
    assert settings.kafka_bootstrap == "127.0.0.1:9092"
    assert settings.topic_prefix == "actionledger."
    assert (settings.partitions, settings.http_host, settings.http_port) == (6, "127.0.0.1", 8788)
    assert settings.state_dir == Path("/home-of-somebody/.local/state/actionledger")
    assert settings.api_keys_file == settings.state_dir / "api_keys.toml"
    own_key = Path("/home-of-somebody/.config/actionledger/signing-key.pem")
    assert settings.signing_key_file == own_key
    assert (settings.log_level, settings.log_format) == (LogLevel.INFO, LogFormat.JSON)
    assert settings.url == "http://127.0.0.1:8788"
    assert settings.approvals_open_max == 10
    assert not settings.webhook_secrets


def test_state_follows_the_xdg_folder_where_that_is_a_whole_path() -> None:
    """A relative XDG_STATE_HOME is invalid by its specification and is passed over."""
    given = {"HOME": "/h", "XDG_STATE_HOME": "/state"}
    assert Settings.from_environment(given).state_dir == Path("/state/actionledger")
    given["XDG_STATE_HOME"] = "state"
    assert Settings.from_environment(given).state_dir == Path("/h/.local/state/actionledger")


def test_a_user_without_an_account_or_a_home_needs_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container that runs under any number: it begins, and only whoever keeps files of his
    own has to say where.
    """

    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    monkeypatch.delenv("HOME", raising=False)
    assert Settings.from_environment({}).state_dir == Path("/~/.local/state/actionledger")


@pytest.mark.parametrize(
    ("given", "host", "url"),
    [
        ("::1", "::1", "http://[::1]:8788"),
        ("[::1]", "::1", "http://[::1]:8788"),
        ("localhost", "localhost", "http://localhost:8788"),
    ],
)
def test_commands_find_a_door_at_any_kind_of_address(given: str, host: str, url: str) -> None:
    """Of the newer protocol too: served at one spelling, asked at the other."""
    settings = Settings.from_environment({"ACTIONLEDGER_HTTP_HOST": given})
    assert (settings.http_host, settings.url) == (host, url)


@pytest.mark.parametrize(("variable", "value", "hint"), WRONG)
def test_a_mistake_names_its_variable_and_what_would_be_right(
    variable: str, value: str, hint: str
) -> None:
    """One wrong variable is one mistake with its own hint."""
    with pytest.raises(SettingsError) as raised:
        Settings.from_environment({variable: value})
    (mistake,) = raised.value.mistakes
    assert mistake.variable == variable
    assert hint in mistake.hint
    assert variable in str(raised.value)


def test_all_mistakes_are_named_at_once() -> None:
    """Whoever corrects the environment does it once."""
    wrong = {"ACTIONLEDGER_HTTP_PORT": "x", "ACTIONLEDGER_LOG_LEVEL": "x", "ACTIONLEDGER_URL": "x"}
    with pytest.raises(SettingsError) as raised:
        Settings.from_environment(wrong)
    assert {mistake.variable for mistake in raised.value.mistakes} == set(wrong)


def test_a_variable_that_is_empty_counts_as_absent() -> None:
    """Compose files pass variables that nobody set as empty texts."""
    assert Settings.from_environment({"ACTIONLEDGER_HTTP_PORT": ""}).http_port == 8788


def test_variables_of_tests_are_no_mistakes() -> None:
    """Crash points and the servers of tests are named by variables that are no settings."""
    Settings.from_environment(
        {"ACTIONLEDGER_CRASH_AT": "decisions_sent", "ACTIONLEDGER_TEST_KAFKA": "localhost:1"}
    )


def test_webhook_secrets_are_read_by_provider_and_account(tmp_path: Path) -> None:
    """Several secrets of one account hold side by side while one replaces the other."""
    file = tmp_path / "webhooks.toml"
    file.write_text(
        f'[simulated.main]\nsecrets = ["{SECRET}", "whsec_bmV3"]\n'
        f'[simulated.other]\nsecrets = ["{SECRET}"]\n',
        encoding="utf-8",
    )
    settings = Settings.from_environment({"ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file)})
    assert settings.webhook_secrets["simulated", "main"] == (SECRET, "whsec_bmV3")
    assert ("simulated", "other") in settings.webhook_secrets


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "[simulated]\nsecrets = []\n",
        "[simulated.main]\nsecrets = []\n",
        "[simulated.main]\nsecrets = [1]\n",
        '[simulated.main]\nsecrets = ["a"]\nmore = 1\n',
        'simulated = "x"\n',
        '[simulated."two words"]\nsecrets = ["a"]\n',
    ],
)
def test_a_malformed_file_of_secrets_is_a_mistake_that_shows_no_secret(
    tmp_path: Path, text: str
) -> None:
    """The hint says how the file looks; what is in it is not repeated."""
    file = tmp_path / "webhooks.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError) as raised:
        Settings.from_environment({"ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file)})
    assert "[provider.account]" in str(raised.value)


def test_secrets_are_not_in_the_representation(tmp_path: Path) -> None:
    """Settings that end up in a log line give nothing away."""
    file = tmp_path / "webhooks.toml"
    file.write_text(f'[simulated.main]\nsecrets = ["{SECRET}"]\n', encoding="utf-8")
    settings = Settings.from_environment(
        {
            "ACTIONLEDGER_WEBHOOK_SECRETS_FILE": str(file),
            "ACTIONLEDGER_DATABASE": "postgresql://me:hunter2@db/x",
            "ACTIONLEDGER_API_KEY": "al_canary",
        }
    )
    assert settings.database_url == "postgresql://me:hunter2@db/x"
    for secret in (SECRET, "hunter2", "al_canary"):
        assert secret not in repr(settings)


def test_providers_are_described_by_files_and_folders(tmp_path: Path) -> None:
    """The name of a file is its provider's; of a folder every description counts."""
    folder = tmp_path / "providers"
    folder.mkdir()
    for name in ("bank.toml", "mailer.toml", "notes.txt"):
        (folder / name).touch()
    (tmp_path / "tickets.toml").touch()
    settings = Settings.from_environment(
        {"ACTIONLEDGER_PROVIDER_FILES": f"{folder}, {tmp_path / 'tickets.toml'}"}
    )
    assert dict(settings.provider_files) == {
        "bank": folder / "bank.toml",
        "mailer": folder / "mailer.toml",
        "tickets": tmp_path / "tickets.toml",
    }


def test_two_descriptions_of_one_provider_are_refused(tmp_path: Path) -> None:
    """Nobody could say which of them is meant."""
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        (folder / "bank.toml").touch()
    with pytest.raises(SettingsError, match="each once"):
        Settings.from_environment(
            {"ACTIONLEDGER_PROVIDER_FILES": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
        )


def test_a_member_with_a_name_is_waited_for_longer() -> None:
    """Long enough for its restart, unless another time is said; what is no name is refused."""
    named = {"ACTIONLEDGER_MEMBER": "processor-0"}
    assert Settings.from_environment({}).group_session_ms == GROUP_SESSION_MS_DEFAULT
    assert Settings.from_environment(named).group_session_ms == GROUP_SESSION_MS_NAMED
    said = {**named, "ACTIONLEDGER_GROUP_SESSION_MS": "7000"}
    assert Settings.from_environment(said).group_session_ms == 7_000
    with pytest.raises(SettingsError, match="no name of a member"):
        Settings.from_environment({"ACTIONLEDGER_MEMBER": "a member"})


def test_when_the_broker_writes_through_is_a_choice_of_two() -> None:
    """As it likes, or before every acknowledgement."""
    assert Settings.from_environment({}).flush.records is None
    every = Settings.from_environment({"ACTIONLEDGER_FLUSH": "every_record"})
    assert every.flush.records == 1
    with pytest.raises(SettingsError, match="default, every_record"):
        Settings.from_environment({"ACTIONLEDGER_FLUSH": "sometimes"})


def test_who_is_told_stands_in_the_state_folder_unless_a_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is nobody; one that is named has to be there."""
    environment = {"ACTIONLEDGER_STATE": str(tmp_path)}
    assert Settings.from_environment(environment).notify_file is None
    (tmp_path / "notify.toml").touch()
    assert Settings.from_environment(environment).notify_file == tmp_path / "notify.toml"
    named = tmp_path / "other.toml"
    named.touch()
    environment["ACTIONLEDGER_NOTIFY_FILE"] = str(named)
    assert Settings.from_environment(environment).notify_file == named
