"""The values of settings: from the text of a variable to what the product works with.

Guarantees that a text is either read whole or refused with what it should be. Must never read the
environment, nor print what a file holds. Called by `gateway.settings`.
"""

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar
from urllib.parse import urlsplit

from gateway.credentials import MalformedError
from gateway.webhook_secrets import WebhookSecretsError, read_secrets
from ledger.core.ids import COMPONENT
from ledger.log.access import Mechanism

HTTP_PORT: Final = 80
HTTPS_PORT: Final = 443
TOPIC_PREFIX_CHARS_MAX: Final = 64
_ORIGIN: Final = re.compile(
    r"(?:https://[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|http://localhost)(?P<port>:[1-9][0-9]{0,4})?"
)

_Value = TypeVar("_Value")


class WrongValueError(ValueError):
    """A value that is refused, with what it should be."""

    def __init__(self, problem: str, hint: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint


def number(smallest: int, largest: int) -> Callable[[str], int]:
    """A whole number within bounds, both included."""

    def read(text: str) -> int:
        if not (text.isascii() and text.isdigit()) or not smallest <= int(text[:9]) <= largest:
            raise WrongValueError("is not a number in range", f"write {smallest} to {largest}")
        return int(text)

    return read


_Choice = TypeVar("_Choice", bound=StrEnum)


def choice(choices: type[_Choice]) -> Callable[[str], _Choice]:
    """One of some words, in whatever case."""

    def read(text: str) -> _Choice:
        try:
            return choices(text.lower())
        except ValueError:
            raise WrongValueError(
                "is none of the choices", f"write one of {', '.join(choices)}"
            ) from None

    return read


def host(text: str) -> str:
    """A host by name or address, an IPv6 one without its brackets."""
    if any(character.isspace() or character in "/@?#" for character in text):
        raise WrongValueError(
            "is not a host", "write a name or an address, such as 127.0.0.1 or ::1"
        )
    return text.strip("[]")


def bootstrap(text: str) -> str:
    """Brokers as `host:port`, several with commas."""
    servers = [server.strip() for server in text.split(",")]
    for server in servers:
        host, colon, port = server.rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit()):
            raise WrongValueError(
                "is not a list of brokers", "write host:port, several with commas"
            )
    return ",".join(servers)


def topic_prefix(text: str) -> str:
    """What the name of every topic begins with."""
    # A trailing dot keeps `a.` from also matching the topics of an installation called `ab`.
    if (
        len(text) > TOPIC_PREFIX_CHARS_MAX
        or COMPONENT.fullmatch(text) is None
        or not text.endswith(".")
    ):
        raise WrongValueError(
            "is not a topic prefix",
            f"use letters, digits, dot, underscore, hyphen, at most {TOPIC_PREFIX_CHARS_MAX}, "
            "and end it with a dot",
        )
    return text


def database_url(text: str) -> str:
    """The URL of a Postgres database."""
    parts = _split(text)
    if parts is None or parts[0] not in {"postgresql", "postgres"}:
        raise WrongValueError(
            "is not the URL of a database", "write postgresql://user@host:5432/database"
        )
    return text


def http_url(text: str) -> str:
    """A web address, without a slash at its end."""
    parts = _split(text)
    if parts is None or parts[0] not in {"http", "https"} or not parts[1]:
        raise WrongValueError("is not a web address", "write http://host:port or https://host")
    return text.rstrip("/")


def origin(text: str) -> str:
    """The origin of the pages: https, or http on this machine."""
    match = _ORIGIN.fullmatch(text)
    if match is None or match["port"] in {f":{HTTP_PORT}", f":{HTTPS_PORT}"}:
        raise WrongValueError(
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


def absolute_path(text: str) -> Path:
    """A path from the root, of a file that need not be there."""
    path = Path(text)
    if not path.is_absolute():
        raise WrongValueError("is not an absolute path", "write the whole path from /")
    return path


def provider_urls(text: str) -> Mapping[str, str]:
    """Where providers are reached, by their names."""
    urls: dict[str, str] = {}
    for entry in text.split(","):
        name, sign, url = entry.strip().partition("=")
        if not sign or COMPONENT.fullmatch(name) is None or name in urls:
            raise WrongValueError(
                "is not a list of providers",
                "write name=https://host, several with commas, each name once",
            )
        try:
            urls[name] = http_url(url)
        except WrongValueError as wrong:
            raise WrongValueError(f"names for {name} what {wrong.problem}", wrong.hint) from None
    return MappingProxyType(urls)


def provider_files(text: str) -> Mapping[str, Path]:
    """The descriptions by the name of their provider, which is the name of the file: each file, and
    each `.toml` of a folder.
    """
    files: dict[str, Path] = {}
    for entry in text.split(","):
        path = absolute_path(entry.strip())
        for file in sorted(path.glob("*.toml")) if path.is_dir() else [path]:
            name = file.stem
            if not file.is_file() or file.suffix != ".toml":
                raise WrongValueError(
                    f"names {file}, which is no .toml file", "write files or folders"
                )
            if COMPONENT.fullmatch(name) is None or name in files:
                raise WrongValueError(
                    f"names {file}, whose provider would be called {name!r}",
                    "name each file after its provider, each once",
                )
            files[name] = file
    return MappingProxyType(files)


def api_key(text: str) -> str:
    """An API key as it was printed."""
    if not text.isascii() or any(character.isspace() for character in text):
        raise WrongValueError(
            "is not an API key", "give the key as it was printed when it was made"
        )
    return text


def member(text: str) -> str:
    """The name of one member of a group."""
    if COMPONENT.fullmatch(text) is None:
        raise WrongValueError("is no name of a member", "letters, digits, . _ - as in processor-0")
    return text


def readable_file(text: str) -> Path:
    """A file that is there and can be read."""
    path = absolute_path(text)
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise WrongValueError("cannot be read", f"{error.strerror}: {path}") from None


def file_with(read: Callable[[Path], _Value]) -> Callable[[str], _Value]:
    """What a file holds, by whoever can read its form."""

    def take(text: str) -> _Value:
        try:
            return read(readable_file(text))
        except MalformedError as wrong:
            raise WrongValueError(wrong.problem, wrong.hint) from None

    return take


def mechanism(text: str) -> Mechanism:
    """How a login is proven to the broker."""
    try:
        return Mechanism(text.upper())
    except ValueError:
        known = ", ".join(Mechanism)
        raise WrongValueError("is none of the choices", f"write one of {known}") from None


def secrets_file(text: str) -> Mapping[tuple[str, str], tuple[str, ...]]:
    """The secrets by provider and account from a TOML file; several during a rotation."""
    try:
        found = read_secrets(absolute_path(text))
    except WebhookSecretsError as wrong:
        raise WrongValueError(wrong.problem, wrong.hint) from None
    return MappingProxyType(
        {account: tuple(one.secret for one in several) for account, several in found.items()}
    )
