"""Where people are told that something waits for them, read from the operator's TOML file.

Guarantees that a file is whole, or refused with every mistake on its line; that a webhook goes to
https and bears a signature, and that a password goes over TLS, unless it stays on this machine.
Secrets are in files of their own and never quoted. Called by settings of the reconciler and by
whoever checks a file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationError

from ledger.core.errors import LedgerError
from ledger.core.ids import COMPONENT
from ledger.core.mistakes import Document, Found, Mistake, complaints, read_toml
from ledger.core.toml_lines import TomlPath
from ledger.core.wire import Text, Wire
from reconciler.notifying.limits import (
    ADDRESS_CHARS_MAX,
    DESTINATIONS_MAX,
    DOCUMENT_BYTES_MAX,
    NAMES_MAX,
    SECRET_BYTES_MAX,
)
from reconciler.webhooks import is_usable_secret

EVERY_TENANT: Final = "*"
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_PORT_MAX: Final = 65_535
_SECRET: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_SIGNS: Final = "whsec_"
# One address as SMTP takes it without quoting; a display name could say anything.
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.-]{1,189}")


def _component(text: str) -> str:
    if COMPONENT.fullmatch(text) is None:
        raise ValueError("must be letters, digits, dot, underscore or hyphen")
    return text


def _tenant(text: str) -> str:
    return text if text == EVERY_TENANT else _component(text)


def _address(text: str) -> str:
    if len(text) > ADDRESS_CHARS_MAX or _ADDRESS.fullmatch(text) is None:
        raise ValueError("must be one address, as in ann@example.org")
    return text


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        raise ValueError("must be https://host[:port][/path]") from None
    local = parts.scheme == "http" and parts.hostname in _LOCAL
    if not parts.hostname or not (parts.scheme == "https" or local):
        raise ValueError("must be https://host[:port][/path]; http is for this machine alone")
    if parts.username or parts.password or parts.fragment or not text.isascii():
        raise ValueError("must have no user, password or fragment, and be plain ASCII")
    return text


_Component = Annotated[str, AfterValidator(_component)]
_Names = Field(strict=False, max_length=NAMES_MAX)


class _WebhookForm(Wire):
    name: _Component
    url: Annotated[Text, AfterValidator(_url)]
    secret_file: Text
    groups: Annotated[tuple[_Component, ...], _Names] = ()
    tenants: Annotated[tuple[Annotated[str, AfterValidator(_tenant)], ...], _Names] = (
        EVERY_TENANT,
    )


class _MailForm(Wire):
    person: _Component
    to: Annotated[str, AfterValidator(_address)]


class _SmtpForm(Wire):
    host: Annotated[Text, Field(min_length=1)]
    port: Annotated[int, Field(ge=1, le=_PORT_MAX)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: Text | None = None
    password_file: Text | None = None
    sender: Annotated[str, AfterValidator(_address)]


class _Form(Wire):
    webhook: Annotated[
        tuple[_WebhookForm, ...], Field(strict=False, max_length=DESTINATIONS_MAX)
    ] = ()
    mail: Annotated[tuple[_MailForm, ...], Field(strict=False, max_length=DESTINATIONS_MAX)] = ()
    smtp: _SmtpForm | None = None


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that takes signed messages. `groups` empty: whoever is asked."""

    name: str
    url: str
    secret: str = field(repr=False)
    groups: tuple[str, ...] = ()
    tenants: tuple[str, ...] = (EVERY_TENANT,)

    @property
    def id(self) -> str:
        """What names it in tables and logs."""
        return f"webhook:{self.name}"

    def wants(self, tenant: str, groups: tuple[str, ...]) -> bool:
        """Whether it is told when these groups are asked about an action of a tenant."""
        is_theirs = EVERY_TENANT in self.tenants or tenant in self.tenants
        return is_theirs and (
            not self.groups or not groups or not set(self.groups).isdisjoint(groups)
        )


@dataclass(frozen=True, slots=True)
class Mail:
    """A person's address. Whether they are concerned follows from the document of people."""

    person: str
    to: str = field(repr=False)

    @property
    def id(self) -> str:
        """What names it in tables and logs."""
        return f"mail:{self.person}"


@dataclass(frozen=True, slots=True)
class Smtp:
    """How mail leaves."""

    host: str
    port: int
    security: Literal["starttls", "tls", "none"]
    sender: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)


Destination = Webhook | Mail


@dataclass(frozen=True, slots=True)
class Destinations:
    """Everything that can be told, and how mail leaves where there is any."""

    webhooks: tuple[Webhook, ...] = ()
    mails: tuple[Mail, ...] = ()
    smtp: Smtp | None = None

    @property
    def all(self) -> tuple[Destination, ...]:
        """Each destination, webhooks first."""
        return (*self.webhooks, *self.mails)


class UnusableDestinations(LedgerError):
    """The file of destinations cannot be used; the words name the first mistake."""


def load_destinations(path: Path) -> Destinations:
    """The destinations of a file; raises UnusableDestinations."""
    hint = "Correct it; `actionledger notify check` names every line."
    try:
        read = read_destinations(path)
    except OSError as error:
        said = f"{path} cannot be read ({error.strerror})."
        raise UnusableDestinations(said, hint=hint) from None
    if isinstance(read, Destinations):
        return read
    more = f" (and {len(read) - 1} more)" if len(read) > 1 else ""
    raise UnusableDestinations(f"{path} has mistakes: {read[0]}{more}.", hint=hint)


def read_destinations(path: Path) -> Destinations | tuple[Mistake, ...]:
    """The destinations of a file and of the files of secrets that it names, relative to its own
    folder; or every mistake. Raises OSError where the file itself cannot be read.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    document = read_toml(text, "file of destinations", bytes_max=DOCUMENT_BYTES_MAX)
    if not isinstance(document, Document):
        return document
    secrets, found = _secrets(_files_named(document.content), path.parent)
    try:
        form = _Form.model_validate(document.content)
    except ValidationError as refused:
        # Both at once: whoever corrects a file is told of it all.
        return document.mistakes([*complaints(refused, _Form, at=()), *found])
    found += _wrong(form)
    return document.mistakes(found) if found else _built(form, secrets)


def _wrong(form: _Form) -> Iterator[Found]:
    for at, names in (
        ("webhook", [one.name for one in form.webhook]),
        ("mail", [one.person for one in form.mail]),
    ):
        key = "name" if at == "webhook" else "person"
        for index, name in enumerate(names):
            if name in names[:index]:
                yield (at, index, key), f"names {name} twice"
    if form.mail and form.smtp is None:
        yield ("smtp",), "is missing: how is mail to leave?"
    smtp = form.smtp
    if smtp is None:
        return
    if (smtp.username is None) != (smtp.password_file is None):
        yield ("smtp",), "needs both username and password_file, or neither"
    if smtp.security == "none" and smtp.host not in _LOCAL:
        yield ("smtp", "security"), "may be none on this machine only"


def _files_named(content: Mapping[str, object]) -> dict[TomlPath, str]:
    """The files of secrets by where they are named, as far as the document has its form."""
    webhooks = content.get("webhook")
    held: list[tuple[TomlPath, object, str]] = [(("smtp",), content.get("smtp"), "password_file")]
    for index, one in enumerate(webhooks if isinstance(webhooks, list) else ()):
        held.append((("webhook", index), one, "secret_file"))
    named: dict[TomlPath, str] = {}
    for place, table, member in held:
        name = table.get(member) if isinstance(table, dict) else None
        if isinstance(name, str):
            named[*place, member] = name
    return named


def _secrets(
    named: Mapping[TomlPath, str], folder: Path
) -> tuple[dict[TomlPath, str], list[Found]]:
    """Every secret by where it is named, and what is wrong with their files."""
    secrets: dict[TomlPath, str] = {}
    found: list[Found] = []
    for place, name in named.items():
        read = _secret(folder / name)
        if isinstance(read, _Unusable):
            found.append((place, read.why))
        elif place[0] == "webhook" and not _is_signing_secret(read):
            found.append((place, "names a file without a secret: whsec_ and base64"))
        else:
            secrets[place] = read
    return secrets, found


def _is_signing_secret(text: str) -> bool:
    return text.startswith(_SIGNS) and is_usable_secret(text)


@dataclass(frozen=True, slots=True)
class _Unusable:
    why: str


def _secret(path: Path) -> str | _Unusable:
    try:
        with path.open("rb") as file:
            raw = file.read(SECRET_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        return _Unusable(f"names a file that cannot be read ({reason})")
    text = raw.decode("ascii", "replace").strip()
    if len(raw) > SECRET_BYTES_MAX or _SECRET.fullmatch(text) is None:
        return _Unusable("names a file that is not one line of printable ASCII")
    return text


def _built(form: _Form, secrets: dict[TomlPath, str]) -> Destinations:
    smtp = form.smtp
    return Destinations(
        webhooks=tuple(
            Webhook(
                one.name, one.url, secrets["webhook", index, "secret_file"], one.groups, one.tenants
            )
            for index, one in enumerate(form.webhook)
        ),
        mails=tuple(Mail(one.person, one.to) for one in form.mail),
        smtp=None
        if smtp is None
        else Smtp(
            smtp.host,
            smtp.port,
            smtp.security,
            smtp.sender,
            smtp.username,
            secrets.get(("smtp", "password_file")),
        ),
    )
