"""Settings: everything a process takes from its environment, read once and in one place.

Guarantees that a process starts with values that were checked or does not start at all, and then
every mistake is named at once with its variable and with what it should be. Must never print a
secret. Called by the command line; everything else gets values as arguments.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar
from urllib.parse import urlsplit

from gateway.credentials import (
    NO_LOGINS,
    KafkaLogins,
    Login,
    MalformedError,
    read_credentials,
    read_password,
)
from gateway.webhook_secrets import WebhookSecretsError, read_secrets
from ledger.core.errors import LedgerError
from ledger.core.ids import COMPONENT
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
TOPIC_PREFIX_CHARS_MAX: Final = 64
APPROVALS_OPEN_MAX_DEFAULT: Final = 10
APPROVALS_OPEN_MAX_MAX: Final = 1_000
_HTTP_PORT: Final = 80
_HTTPS_PORT: Final = 443
_ORIGIN: Final = re.compile(
    r"(?:https://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|http://localhost)(?P<port>:[1-9][0-9]{0,4})?"
)
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


class _Wrong(ValueError):
    """A value that is refused, with what it should be."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


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
        state_dir = reader.take("STATE", _absolute_path, _default_state_dir(given))
        host = reader.take("HTTP_HOST", _host, "127.0.0.1")
        bracketed = f"[{host}]" if ":" in host else host
        port = reader.take("HTTP_PORT", _number(1, PORT_MAX), 8_788)
        member = reader.take("MEMBER", _member, None)
        settings = cls(
            kafka_bootstrap=reader.take("KAFKA", _bootstrap, "127.0.0.1:9092"),
            kafka=_kafka_logins(reader),
            database_url=reader.take(
                "DATABASE", _database_url, "postgresql://127.0.0.1:5432/actionledger"
            ),
            topic_prefix=reader.take("TOPIC_PREFIX", _topic_prefix, "actionledger."),
            partitions=reader.take("PARTITIONS", _number(1, PARTITIONS_MAX), 6),
            group_session_ms=reader.take(
                "GROUP_SESSION_MS",
                _number(GROUP_SESSION_MS_MIN, GROUP_SESSION_MS_MAX),
                GROUP_SESSION_MS_DEFAULT if member is None else GROUP_SESSION_MS_NAMED,
            ),
            member=member,
            flush=reader.take("FLUSH", _choice(Flush), Flush.DEFAULT),
            http_host=host,
            http_port=port,
            approvals_open_max=reader.take(
                "APPROVALS_OPEN_MAX", _number(1, APPROVALS_OPEN_MAX_MAX), APPROVALS_OPEN_MAX_DEFAULT
            ),
            console_origin=reader.take("CONSOLE_ORIGIN", _origin, default_origin(port)),
            console_file=reader.take("CONSOLE_FILE", _absolute_path, state_dir / "console.toml"),
            state_dir=state_dir,
            cache_dir=reader.take("CACHE", _absolute_path, _default_cache_dir(given)),
            heartbeat=reader.take("HEARTBEAT", _absolute_path, None),
            api_keys_file=reader.take("API_KEYS_FILE", _absolute_path, state_dir / "api_keys.toml"),
            signing_key_file=reader.take(
                "SIGNING_KEY_FILE", _absolute_path, _default_signing_key_file(given)
            ),
            webhook_secrets=reader.take("WEBHOOK_SECRETS_FILE", _secrets_file, _NO_SECRETS),
            webhook_secrets_file=reader.take("WEBHOOK_SECRETS_FILE", Path, None),
            provider_urls=reader.take("PROVIDER_URLS", _provider_urls, _NO_URLS),
            provider_files=reader.take("PROVIDER_FILES", _provider_files, _NO_FILES),
            policy_file=reader.take("POLICY_FILE", _readable_file, None),
            notify_file=reader.take("NOTIFY_FILE", _readable_file, _if_there(state_dir, NOTIFY)),
            webhooks_url=reader.take("WEBHOOKS_URL", _http_url, None),
            log_level=reader.take("LOG_LEVEL", _choice(LogLevel), LogLevel.INFO),
            log_format=reader.take("LOG_FORMAT", _choice(LogFormat), LogFormat.JSON),
            url=reader.take("URL", _http_url, f"http://{bracketed}:{port}"),
            api_key=reader.take("API_KEY", _api_key, None),
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
        except _Wrong as wrong:
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
    protocol = reader.take("KAFKA_SECURITY", _choice(Protocol), Protocol.PLAINTEXT)
    username = reader.take("KAFKA_USERNAME", str, None)
    password = reader.take("KAFKA_PASSWORD_FILE", _file_with(read_password), None)
    logins = KafkaLogins(
        protocol=protocol,
        mechanism=reader.take("KAFKA_SASL_MECHANISM", _mechanism, Mechanism.SCRAM_SHA_512),
        own=None if username is None else Login(username, password),
        by_principal=reader.take("KAFKA_CREDENTIALS_FILE", _file_with(read_credentials), NO_LOGINS),
        ca_file=reader.take("KAFKA_CA_FILE", _readable_file, None),
        certificate_file=reader.take("KAFKA_CERTIFICATE_FILE", _readable_file, None),
        key_file=reader.take("KAFKA_KEY_FILE", _readable_file, None),
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


def _number(smallest: int, largest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not smallest <= int(text[:9]) <= largest:
            raise _Wrong("is not a number in range", f"write {smallest} to {largest}")
        return int(text)

    return read


_Choice = TypeVar("_Choice", bound=StrEnum)


def _choice(choices: type[_Choice]) -> Callable[[str], _Choice]:
    def read(text: str) -> _Choice:
        try:
            return choices(text.lower())
        except ValueError:
            raise _Wrong("is none of the choices", f"write one of {', '.join(choices)}") from None

    return read


def _host(text: str) -> str:
    if any(character.isspace() or character in "/@?#" for character in text):
        raise _Wrong("is not a host", "write a name or an address, such as 127.0.0.1 or ::1")
    return text.strip("[]")


def _bootstrap(text: str) -> str:
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        host, colon, port = server.rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit()):
            raise _Wrong("is not a list of brokers", "write host:port, several with commas")
    return ",".join(servers)


def _topic_prefix(text: str) -> str:
    # A trailing dot keeps `a.` from also matching the topics of an installation called `ab`.
    if (
        len(text) > TOPIC_PREFIX_CHARS_MAX
        or COMPONENT.fullmatch(text) is None
        or not text.endswith(".")
    ):
        raise _Wrong(
            "is not a topic prefix",
            f"use letters, digits, dot, underscore, hyphen, at most {TOPIC_PREFIX_CHARS_MAX}, "
            "and end it with a dot",
        )
    return text


def _database_url(text: str) -> str:
    parts = _split(text)
    if parts is None or parts[0] not in {"postgresql", "postgres"}:
        raise _Wrong("is not the URL of a database", "write postgresql://user@host:5432/database")
    return text


def _http_url(text: str) -> str:
    parts = _split(text)
    if parts is None or parts[0] not in {"http", "https"} or not parts[1]:
        raise _Wrong("is not a web address", "write http://host:port or https://host")
    return text.rstrip("/")


def default_origin(port: int) -> str:
    """Where a browser on this machine finds the pages: `localhost` by name, because passkeys are
    not for addresses.
    """
    return "http://localhost" if port == _HTTP_PORT else f"http://localhost:{port}"


def _origin(text: str) -> str:
    match = _ORIGIN.fullmatch(text)
    if match is None or match["port"] in {f":{_HTTP_PORT}", f":{_HTTPS_PORT}"}:
        raise _Wrong(
            "is not the origin of pages",
            "write https://host or http://localhost, in lower case, with a port where it has "
            "another than the usual, and nothing behind",
        )
    return text


def _split(text: str) -> tuple[str, str] | None:
    """Scheme and host of a URL, or None where it is malformed."""
    try:
        parts = urlsplit(text)
        _ = parts.port  # checked by reading it
    except ValueError:
        return None
    return parts.scheme, parts.hostname or ""


def _absolute_path(text: str) -> Path:
    path = Path(text)
    if not path.is_absolute():
        raise _Wrong("is not an absolute path", "write the whole path from /")
    return path


def _provider_urls(text: str) -> Mapping[str, str]:
    urls: dict[str, str] = {}
    for entry in text.split(","):
        name, sign, url = entry.strip().partition("=")
        if not sign or COMPONENT.fullmatch(name) is None or name in urls:
            raise _Wrong(
                "is not a list of providers",
                "write name=https://host, several with commas, each name once",
            )
        try:
            urls[name] = _http_url(url)
        except _Wrong as wrong:
            raise _Wrong(f"names for {name} what {wrong.problem}", wrong.hint) from None
    return MappingProxyType(urls)


def _provider_files(text: str) -> Mapping[str, Path]:
    """The descriptions by the name of their provider, which is the name of the file: each file, and
    each `.toml` of a folder.
    """
    files: dict[str, Path] = {}
    for entry in text.split(","):
        path = _absolute_path(entry.strip())
        for file in sorted(path.glob("*.toml")) if path.is_dir() else [path]:
            name = file.stem
            if not file.is_file() or file.suffix != ".toml":
                raise _Wrong(f"names {file}, which is no .toml file", "write files or folders")
            if COMPONENT.fullmatch(name) is None or name in files:
                raise _Wrong(
                    f"names {file}, whose provider would be called {name!r}",
                    "name each file after its provider, each once",
                )
            files[name] = file
    return MappingProxyType(files)


def _api_key(text: str) -> str:
    if not text.isascii() or any(character.isspace() for character in text):
        raise _Wrong("is not an API key", "give the key as it was printed when it was made")
    return text


def _member(text: str) -> str:
    if COMPONENT.fullmatch(text) is None:
        raise _Wrong("is no name of a member", "letters, digits, . _ - as in processor-0")
    return text


def _readable_file(text: str) -> Path:
    path = _absolute_path(text)
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise _Wrong("cannot be read", f"{error.strerror}: {path}") from None


def _if_there(folder: Path, name: str) -> Path | None:
    """A file that need not be in a folder."""
    return path if (path := folder / name).is_file() else None


def _file_with(read: Callable[[Path], _Value]) -> Callable[[str], _Value]:
    def take(text: str) -> _Value:
        try:
            return read(_readable_file(text))
        except MalformedError as wrong:
            raise _Wrong(wrong.problem, wrong.hint) from None

    return take


def _mechanism(text: str) -> Mechanism:
    try:
        return Mechanism(text.upper())
    except ValueError:
        known = ", ".join(Mechanism)
        raise _Wrong("is none of the choices", f"write one of {known}") from None


def _secrets_file(text: str) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The secrets by provider and account from a TOML file; several during a rotation."""
    try:
        found = read_secrets(_absolute_path(text))
    except WebhookSecretsError as wrong:
        raise _Wrong(wrong.problem, wrong.hint) from None
    return MappingProxyType(
        {account: tuple(one.secret for one in several) for account, several in found.items()}
    )
