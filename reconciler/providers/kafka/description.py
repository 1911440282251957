"""A broker, the records that are written to it, and what its consumer promises.

Guarantees that a description is whole or refused with every mistake on its line, and that no
request chooses a topic. Must never hold a password. Called by the kind.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, StringConstraints

from ledger.core.ids import COMPONENT
from ledger.core.limits import DURATION_MS_MAX
from ledger.core.mistakes import Found, Mistake
from reconciler.providers.described import Form, parse_form
from reconciler.providers.http.templates import BadTemplate, BodyTemplate, Template, names_in
from reconciler.providers.limits import DESCRIPTION_ENTRIES_MAX
from reconciler.providers.names import REQUEST_NAMES, strangers_in

_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_BROKERS: Final = re.compile(r"[A-Za-z0-9._:\[\]-]+:\d{1,5}(?:,[A-Za-z0-9._:\[\]-]+:\d{1,5})*")

Short: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
Span: TypeAlias = Annotated[int, Field(ge=0, le=DURATION_MS_MAX)]


class AccountForm(Form):
    """As whom the broker is written to."""

    user: Short | None = None


class RecordForm(Form):
    """One operation's record."""

    topic: Short
    key: Short = "{action_key}"
    value: dict[str, object]
    absent: Literal["null", "omit"] = "null"


class ConsumerForm(Form):
    """What whoever consumes the records promises."""

    key_window_ms: Annotated[int, Field(ge=1, le=DURATION_MS_MAX)]
    settle_horizon_ms: Span | Literal["impossible"]
    search_lag_ms: Span
    reports: Literal["possible", "impossible"]
    lookups: Annotated[dict[str, Short], Field(max_length=DESCRIPTION_ENTRIES_MAX)] = Field(
        default_factory=dict
    )
    effects_table: Short = "actionledger_effects"


class KafkaForm(Form):
    """A whole description."""

    format: Literal[1]
    kind: Literal["kafka"]
    brokers: Short
    protocol: Literal["plaintext", "ssl", "sasl_plaintext", "sasl_ssl"]
    mechanism: Literal["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"] = "SCRAM-SHA-512"
    ca_file: Short | None = None
    credentials: dict[str, Short] = Field(default_factory=dict)
    accounts: Annotated[
        dict[str, AccountForm], Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX)
    ]
    perform: Annotated[
        dict[str, RecordForm], Field(min_length=1, max_length=DESCRIPTION_ENTRIES_MAX)
    ]
    consumer: ConsumerForm | None = None


@dataclass(frozen=True, slots=True)
class RecordOf:
    """How one operation's record is written."""

    topic: str
    key: Template
    value: BodyTemplate


@dataclass(frozen=True, slots=True)
class KafkaDescription:
    """One broker, described; `users` says as whom each account writes."""

    form: KafkaForm
    users: Mapping[str, str | None]
    records: Mapping[str, RecordOf]


def parse_kafka(text: str) -> KafkaDescription | tuple[Mistake, ...]:
    """The description of a TOML text, or its mistakes in the order of their lines."""
    return parse_form(text, KafkaForm, contradictions, _built)


def contradictions(form: KafkaForm) -> Iterator[Found]:
    """Everything that is wrong though the forms are right, each with its path."""
    if _BROKERS.fullmatch(form.brokers) is None:
        yield ("brokers",), "must be host:port, several with commas"
    logs_in = form.protocol.startswith("sasl")
    for name, account in form.accounts.items():
        if COMPONENT.fullmatch(name) is None:
            yield ("accounts", name), "is no name of an account"
        if (account.user is not None) != logs_in:
            said = "has no user" if logs_in else f"has a user, and {form.protocol} has no login"
            yield ("accounts", name), said
    lookups = {} if form.consumer is None else form.consumer.lookups
    for path, files in (
        (("credentials",), form.credentials),
        (("consumer", "lookups"), lookups),
    ):
        for name in files:
            if name not in form.accounts:
                yield (*path, name), "is no account of [accounts]"
    for name, record in form.perform.items():
        if _TOPIC.fullmatch(record.topic) is None:
            yield ("perform", name, "topic"), "must be one topic, which no request can choose"
        for key, template in (("key", record.key), ("value", record.value)):
            for said in _unfit(template):
                yield ("perform", name, key), said


def _unfit(template: object) -> Iterator[str]:
    try:
        list(names_in(template))
    except BadTemplate as bad:
        yield str(bad)
        return
    for name in strangers_in(template, REQUEST_NAMES):
        yield f"has {{{name}}}, which is not known here"


def _built(form: KafkaForm) -> KafkaDescription:
    return KafkaDescription(
        form=form,
        users={name: account.user for name, account in form.accounts.items()},
        records={
            name: RecordOf(one.topic, Template(one.key), BodyTemplate(one.value, one.absent))
            for name, one in form.perform.items()
        },
    )
