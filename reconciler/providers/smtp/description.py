"""A mail server and what is sent through it, as they stand in a description.

Guarantees that a description is whole or refused with every mistake on its line: that no request
chooses where mail goes out or who it comes from, and that no password crosses a line that others
can read. Must never hold a password. Called by the kind.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, StringConstraints

from ledger.core.ids import COMPONENT
from ledger.core.mistakes import Found, Mistake
from ledger.core.toml_lines import TomlPath
from reconciler.providers.described import Form, parse_form
from reconciler.providers.http.templates import BadTemplate, Template, pieces_of
from reconciler.providers.limits import DESCRIPTION_ENTRIES_MAX
from reconciler.providers.names import REQUEST_NAMES, strangers_in

ADDRESS: Final = re.compile(
    r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
"""An address that every server takes: no quotes, no comments, ASCII only."""
ADDRESS_CHARS_MAX: Final = 254
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.:-]*[A-Za-z0-9])?|::1")
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADER: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_OWN: Final = re.compile(
    r"(?i)(from|sender|to|cc|bcc|subject|date|message-id|mime-version|return-path|received"
    r"|dkim-signature|content-.*|resent-.*|arc-.*)"
)
_NO_ADDRESS: Final = "must be one plain address, such as billing@example.com"

Short: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class AccountForm(Form):
    """Who mail comes from, and as whom the server is told that."""

    sender: Short
    sender_name: Short | None = None
    bounces: Short | None = None
    user: Short | None = None


class MailForm(Form):
    """One operation's message."""

    to: Short
    cc: Short | None = None
    bcc: Short | None = None
    subject: Short
    text: Short
    html: Short | None = None
    headers: Annotated[dict[str, Short], Field(max_length=DESCRIPTION_ENTRIES_MAX)] = Field(
        default_factory=dict
    )
    refused_recipient: Literal["leave_out", "send_to_nobody"] = "leave_out"


class SmtpForm(Form):
    """A whole description."""

    format: Literal[1]
    kind: Literal["smtp"]
    host: Short
    port: Annotated[int, Field(ge=1, le=65_535)]
    tls: Literal["starttls", "implicit", "none"]
    ca_file: Short | None = None
    hello: Short | None = None
    message_id_domain: Short
    marker_headers: Literal["written", "left_out"]
    credentials: dict[str, Short] = Field(default_factory=dict)
    accounts: Annotated[
        dict[str, AccountForm], Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX)
    ]
    perform: Annotated[dict[str, MailForm], Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX)]


@dataclass(frozen=True, slots=True)
class Server:
    """Where mail is handed in. `hello` is how we introduce ourselves."""

    host: str
    port: int
    tls: Literal["starttls", "implicit", "none"]
    ca_file: str | None
    hello: str


@dataclass(frozen=True, slots=True)
class Sender:
    """Who mail of one account comes from; `user` is None where the server asks for no login."""

    address: str
    name: str | None
    bounces: str
    user: str | None


@dataclass(frozen=True, slots=True)
class Mail:
    """How one operation's message is written."""

    to: Template
    cc: Template | None
    bcc: Template | None
    subject: Template
    text: Template
    html: Template | None
    headers: tuple[tuple[str, Template], ...]
    leaves_out: bool


@dataclass(frozen=True, slots=True)
class SmtpDescription:
    """One mail server, described."""

    server: Server
    message_id_domain: str
    marks: bool
    credentials: Mapping[str, str]
    senders: Mapping[str, Sender]
    mails: Mapping[str, Mail]


def parse_smtp(text: str) -> SmtpDescription | tuple[Mistake, ...]:
    """The description of a TOML text, or its mistakes in the order of their lines."""
    return parse_form(text, SmtpForm, contradictions, _built)


def contradictions(form: SmtpForm) -> Iterator[Found]:
    """Everything that is wrong though the forms are right, each with its path."""
    for path, host in ((("host",), form.host), (("hello",), form.hello)):
        if host is not None and _HOST.fullmatch(host) is None:
            yield path, "must be the name or the number of one machine"
    if ADDRESS.fullmatch(f"a@{form.message_id_domain}") is None:
        yield ("message_id_domain",), "must be a domain of yours, such as mail.example.com"
    for name, account in form.accounts.items():
        yield from _account(name, account, form)
    for name in form.credentials:
        if name not in form.accounts:
            yield ("credentials", name), "is no account of [accounts]"
    for name, mail in form.perform.items():
        yield from _mail(("perform", name), mail)


def _account(name: str, account: AccountForm, form: SmtpForm) -> Iterator[Found]:
    path: TomlPath = ("accounts", name)
    if COMPONENT.fullmatch(name) is None:
        yield path, "is no name of an account"
    for key, address in (("sender", account.sender), ("bounces", account.bounces)):
        if address is not None and not is_address(address):
            yield (*path, key), _NO_ADDRESS
    if account.sender_name is not None and not account.sender_name.isprintable():
        yield (*path, "sender_name"), "must be one line"
    if account.user is None and name in form.credentials:
        yield ("credentials", name), "has a password and no user in [accounts]"
    if account.user is not None and form.tls == "none" and form.host not in _LOOPBACK:
        yield (*path, "user"), "would log in over a connection that everybody on the way can read"


def _mail(path: TomlPath, mail: MailForm) -> Iterator[Found]:
    texts: dict[str, str | None] = {
        "to": mail.to,
        "cc": mail.cc,
        "bcc": mail.bcc,
        "subject": mail.subject,
        "text": mail.text,
        "html": mail.html,
    }
    for key, text in texts.items():
        if text is not None:
            yield from _template((*path, key), text)
    for name, text in mail.headers.items():
        place = (*path, "headers", name)
        if _HEADER.fullmatch(name) is None:
            yield place, "is no name of a header"
        elif _OWN.fullmatch(name) is not None:
            yield place, "is written by the adapter or by the servers, and cannot be set"
        yield from _template(place, text)


def _template(path: TomlPath, text: str) -> Iterator[Found]:
    try:
        pieces_of(text)
    except BadTemplate as bad:
        yield path, str(bad)
        return
    for name in strangers_in(text, REQUEST_NAMES):
        yield path, f"has {{{name}}}, which is not known here"


def is_address(text: str) -> bool:
    """True for one plain address."""
    return len(text) <= ADDRESS_CHARS_MAX and ADDRESS.fullmatch(text) is not None


def _built(form: SmtpForm) -> SmtpDescription:
    def template(text: str | None) -> Template | None:
        return None if text is None else Template(text)

    def mail(one: MailForm) -> Mail:
        return Mail(
            to=Template(one.to),
            cc=template(one.cc),
            bcc=template(one.bcc),
            subject=Template(one.subject),
            text=Template(one.text),
            html=template(one.html),
            headers=tuple((name, Template(text)) for name, text in one.headers.items()),
            leaves_out=one.refused_recipient == "leave_out",
        )

    return SmtpDescription(
        server=Server(
            form.host, form.port, form.tls, form.ca_file, form.hello or form.message_id_domain
        ),
        message_id_domain=form.message_id_domain,
        marks=form.marker_headers == "written",
        credentials=dict(form.credentials),
        senders={
            name: Sender(one.sender, one.sender_name, one.bounces or one.sender, one.user)
            for name, one in form.accounts.items()
        },
        mails={name: mail(one) for name, one in form.perform.items()},
    )
