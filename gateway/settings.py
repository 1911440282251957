"""Settings: everything a process takes from its environment, read once and in one place.

Guarantees that a process starts with values that were checked or does not start at all, and then
every mistake is named at once with its variable and with what it should be. Must never print a
secret. Called by the command line; everything else gets values as arguments.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from gateway import setting_values as values
from gateway.credentials import (
    NO_LOGINS,
    KafkaLogins,
    Login,
    read_credentials,
    read_password,
)
from ledger.core.errors import LedgerError
from ledger.core.limits import (
    GROUP_SESSION_MS_DEFAULT,
    GROUP_SESSION_MS_MAX,
    GROUP_SESSION_MS_MIN,
    GROUP_SESSION_MS_NAMED,
)
from ledger.log.access import Mechanism, Protocol

PREFIX: Final = "ACTIONLEDGER_"
PARTITIONS_MAX: Final = 1_024
PORT_MAX: Final = 65_535
NOTIFY: Final = "notify.toml"
APPROVALS_OPEN_MAX_DEFAULT: Final = 10
APPROVALS_OPEN_MAX_MAX: Final = 1_000
# Read by tests: where a process is to end, and which servers to use.
_NOT_OURS: Final = ("CRASH_AT", "TEST_")

_Value = TypeVar("_Value")


class LogFormat(StrEnum):
    """How log lines look: for machines, or for a person at a terminal."""

    JSON = "json"
    PLAIN = "plain"


class LogLevel(StrEnum):
    """The least serious line that is written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One variable that is wrong: what it is called, what is wrong, what would be right."""

    variable: str
    problem: str
    hint: str

    def __str__(self) -> str:
        return f"{self.variable} {self.problem}: {self.hint}"


class SettingsError(LedgerError):
    """The environment is not fit to start with. `mistakes` names every one."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        lines = "\n".join(f"  {mistake}" for mistake in mistakes)
        super().__init__(
            f"The environment has {len(mistakes)} mistake(s):\n{lines}\n",
            hint="Correct the variables named above and start again.",
        )
        self.mistakes = mistakes


class Flush(StrEnum):
    """When the broker writes what holds facts through to its disk: as it likes, so that durability
    is that of the replicas; or before it acknowledges every record.
    """

    DEFAULT = "default"
    EVERY_RECORD = "every_record"

    @property
    def records(self) -> int | None:
        """After how many records, as topics have it."""
        return 1 if self is Flush.EVERY_RECORD else None


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process is told. What holds a secret is left out of `repr`."""

    kafka_bootstrap: str
    kafka: KafkaLogins
    database_url: str = field(repr=False)
    topic_prefix: str
    partitions: int
    group_session_ms: int
    member: str | None
    flush: Flush
    http_host: str
    http_port: int
    approvals_open_max: int
    console_origin: str
    console_file: Path
    state_dir: Path
    cache_dir: Path
    heartbeat: Path | None
    api_keys_file: Path
    signing_key_file: Path
    webhook_secrets: Mapping[tuple[str, str], tuple[str, ...]] = field(repr=False)
    webhook_secrets_file: Path | None
    provider_urls: Mapping[str, str]
    provider_files: Mapping[str, Path]
    policy_file: Path | None
    notify_file: Path | None
    webhooks_url: str | None
    log_level: LogLevel
    log_format: LogFormat
    url: str
    api_key: str | None = field(repr=False)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Settings":
        """Read `ACTIONLEDGER_*`; raises SettingsError with every mistake.

        `environment` stands in for that of the process. A variable that is empty counts as absent.
        """
        given = os.environ if environment is None else environment
        reader = _Reader(given)
        state_dir = reader.take("STATE", values.absolute_path, _default_state_dir(given))
        host = reader.take("HTTP_HOST", values.host, "127.0.0.1")
        bracketed = f"[{host}]" if ":" in host else host
        port = reader.take("HTTP_PORT", values.number(1, PORT_MAX), 8_788)
        member = reader.take("MEMBER", values.member, None)
        settings = cls(
            kafka_bootstrap=reader.take("KAFKA", values.bootstrap, "127.0.0.1:9092"),
            kafka=_kafka_logins(reader),
            database_url=reader.take(
                "DATABASE", values.database_url, "postgresql://127.0.0.1:5432/actionledger"
            ),
            topic_prefix=reader.take("TOPIC_PREFIX", values.topic_prefix, "actionledger."),
            partitions=reader.take("PARTITIONS", values.number(1, PARTITIONS_MAX), 6),
            group_session_ms=reader.take(
                "GROUP_SESSION_MS",
                values.number(GROUP_SESSION_MS_MIN, GROUP_SESSION_MS_MAX),
                GROUP_SESSION_MS_DEFAULT if member is None else GROUP_SESSION_MS_NAMED,
            ),
            member=member,
            flush=reader.take("FLUSH", values.choice(Flush), Flush.DEFAULT),
            http_host=host,
            http_port=port,
            approvals_open_max=reader.take(
                "APPROVALS_OPEN_MAX",
                values.number(1, APPROVALS_OPEN_MAX_MAX),
                APPROVALS_OPEN_MAX_DEFAULT,
            ),
            console_origin=reader.take("CONSOLE_ORIGIN", values.origin, default_origin(port)),
            console_file=reader.take(
                "CONSOLE_FILE", values.absolute_path, state_dir / "console.toml"
            ),
            state_dir=state_dir,
            cache_dir=reader.take("CACHE", values.absolute_path, _default_cache_dir(given)),
            heartbeat=reader.take("HEARTBEAT", values.absolute_path, None),
            api_keys_file=reader.take(
                "API_KEYS_FILE", values.absolute_path, state_dir / "api_keys.toml"
            ),
            signing_key_file=reader.take(
                "SIGNING_KEY_FILE", values.absolute_path, _default_signing_key_file(given)
            ),
            webhook_secrets=reader.take("WEBHOOK_SECRETS_FILE", values.secrets_file, _NO_SECRETS),
            webhook_secrets_file=reader.take("WEBHOOK_SECRETS_FILE", Path, None),
            provider_urls=reader.take("PROVIDER_URLS", values.provider_urls, _NO_URLS),
            provider_files=reader.take("PROVIDER_FILES", values.provider_files, _NO_FILES),
            policy_file=reader.take("POLICY_FILE", values.readable_file, None),
            notify_file=reader.take(
                "NOTIFY_FILE", values.readable_file, _if_there(state_dir, NOTIFY)
            ),
            webhooks_url=reader.take("WEBHOOKS_URL", values.http_url, None),
            log_level=reader.take("LOG_LEVEL", values.choice(LogLevel), LogLevel.INFO),
            log_format=reader.take("LOG_FORMAT", values.choice(LogFormat), LogFormat.JSON),
            url=reader.take("URL", values.http_url, f"http://{bracketed}:{port}"),
            api_key=reader.take("API_KEY", values.api_key, None),
        )
        mistakes = reader.all_mistakes()
        if mistakes:
            raise SettingsError(mistakes)
        return settings


_NO_SECRETS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = MappingProxyType({})
_NO_URLS: Final[Mapping[str, str]] = MappingProxyType({})
_NO_FILES: Final[Mapping[str, Path]] = MappingProxyType({})


class _Reader:
    """Takes variables one by one and remembers what was asked for and what was wrong."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._known: list[str] = []
        self._mistakes: list[Mistake] = []

    def take(self, name: str, read: Callable[[str], _Value], default: _Value) -> _Value:
        """The value of a variable, or the default where it is absent or wrong."""
        variable = PREFIX + name
        self._known.append(variable)
        text = self._environment.get(variable, "").strip()
        if not text:
            return default
        try:
            return read(text)
        except values.WrongValueError as wrong:
            self.refuse(name, wrong.problem, wrong.hint)
            return default

    def refuse(self, name: str, problem: str, hint: str) -> None:
        """Remember a mistake that only shows beside other variables."""
        self._mistakes.append(Mistake(PREFIX + name, problem, hint))

    def all_mistakes(self) -> tuple[Mistake, ...]:
        """What was wrong, and every variable with our prefix that nobody asked for."""
        exempt = tuple(PREFIX + name for name in _NOT_OURS)
        for variable in sorted(self._environment):
            if not variable.startswith(PREFIX) or variable in self._known:
                continue
            if not variable.startswith(exempt):
                names = [known.removeprefix(PREFIX) for known in self._known]
                close = get_close_matches(variable.removeprefix(PREFIX), names, n=1)
                hint = f"did you mean {PREFIX}{close[0]}?" if close else "remove it"
                self._mistakes.append(Mistake(variable, "is not a setting", hint))
        return tuple(self._mistakes)


def _kafka_logins(reader: _Reader) -> KafkaLogins:
    """How to get in at the broker. What would not be used, or be missed, is a mistake."""
    protocol = reader.take("KAFKA_SECURITY", values.choice(Protocol), Protocol.PLAINTEXT)
    username = reader.take("KAFKA_USERNAME", str, None)
    password = reader.take("KAFKA_PASSWORD_FILE", values.file_with(read_password), None)
    logins = KafkaLogins(
        protocol=protocol,
        mechanism=reader.take("KAFKA_SASL_MECHANISM", values.mechanism, Mechanism.SCRAM_SHA_512),
        own=None if username is None else Login(username, password),
        by_principal=reader.take(
            "KAFKA_CREDENTIALS_FILE", values.file_with(read_credentials), NO_LOGINS
        ),
        ca_file=reader.take("KAFKA_CA_FILE", values.readable_file, None),
        certificate_file=reader.take("KAFKA_CERTIFICATE_FILE", values.readable_file, None),
        key_file=reader.take("KAFKA_KEY_FILE", values.readable_file, None),
    )
    if username is None and password is not None:
        reader.refuse("KAFKA_PASSWORD_FILE", "has no name beside it", "set the USERNAME too")
    if logins.key_file is not None and logins.certificate_file is None:
        reader.refuse("KAFKA_KEY_FILE", "has no certificate beside it", "set CERTIFICATE_FILE too")
    has_files = logins.ca_file is not None or logins.certificate_file is not None
    if has_files and not protocol.has_tls:
        reader.refuse("KAFKA_SECURITY", "is without TLS", "write ssl or sasl_ssl for these files")
    if username is not None and not protocol.has_login:
        reader.refuse("KAFKA_SECURITY", "is without a login", "write sasl_ssl or sasl_plaintext")
    return logins


def process_environment() -> Mapping[str, str]:
    """What this process was started with; the one look at it outside `from_environment`."""
    return MappingProxyType(dict(os.environ))


def _default_state_dir(environment: Mapping[str, str]) -> Path:
    """Where the XDG Base Directory Specification keeps what outlives a restart."""
    return _xdg(environment, "XDG_STATE_HOME", Path(".local") / "state")


def _default_cache_dir(environment: Mapping[str, str]) -> Path:
    """Where it keeps what can be fetched again."""
    return _xdg(environment, "XDG_CACHE_HOME", Path(".cache"))


def _default_signing_key_file(environment: Mapping[str, str]) -> Path:
    """Where whoever runs a command keeps their own key, apart from any installation."""
    return _xdg(environment, "XDG_CONFIG_HOME", Path(".config")) / "signing-key.pem"


def _xdg(environment: Mapping[str, str], variable: str, below_home: Path) -> Path:
    parent = Path(environment.get(variable, ""))
    if not parent.is_absolute():
        home = environment.get("HOME", "") or os.path.expanduser("~")  # noqa: PTH111 - may be none
        parent = Path("/", home) / below_home
    return parent / "actionledger"


def default_origin(port: int) -> str:
    """Where a browser on this machine finds the pages: `localhost` by name, because passkeys are
    not for addresses.
    """
    return "http://localhost" if port == values.HTTP_PORT else f"http://localhost:{port}"


def _if_there(folder: Path, name: str) -> Path | None:
    """A file that need not be in a folder."""
    return path if (path := folder / name).is_file() else None
