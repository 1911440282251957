"""Identities: action ids, action keys, stream keys, event ids, provider keys and free identifiers.

Guarantees that two different things never share a text: every separator is a character that no
component may hold, so nothing is escaped and nothing is guessed. Must never make an id from a
clock, a counter of tries or a model's wording. Called by every part of the ledger.
"""

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final, Self

from pydantic import Field

from ledger.core.excerpt import excerpt
from ledger.core.limits import (
    ACTION_KEY_CHARS_MAX,
    COMPONENT_CHARS_MAX,
    GATE_NAME_CHARS_MAX,
    IDENTIFIER_CHARS_MAX,
    OPERATION_CHARS_MAX,
    OPERATION_VERSION_MAX,
    REVISION_MAX,
)
from ledger.core.unchecked import maker_of
from ledger.core.wire import Wire

_COMPONENT: Final = rf"[A-Za-z0-9._-]{{1,{COMPONENT_CHARS_MAX}}}"
# The look ahead bounds the whole name; its words alone cannot.
_OPERATION: Final = (
    rf"(?=.{{1,{OPERATION_CHARS_MAX}}}(?::|\Z))[a-z][a-z0-9_]*(?:\.[a-z][a-z0-9_]*)*"
)
_ACTION_ID: Final = rf"({_COMPONENT})(?:#({_COMPONENT}))?(?:~([2-9]|[1-9][0-9]{{1,3}}))?"

COMPONENT: Final = re.compile(_COMPONENT)
"""One component of a key; match it with `fullmatch`."""
OPERATION: Final = re.compile(_OPERATION)
"""The name of an operation: lower-case words joined by dots; match it with `fullmatch`."""

_ID: Final = re.compile(_ACTION_ID)
_KEY: Final = re.compile(rf"({_OPERATION}):v([1-9][0-9]{{0,3}}):({_COMPONENT}):{_ACTION_ID}")

_STREAM_KEY: Final = re.compile(rf"{_COMPONENT}/{_COMPONENT}")
# A colon stands in no component, so no business event is ever called like a gate.
_GATE_NAME: Final = rf"[A-Za-z0-9._:-]{{1,{GATE_NAME_CHARS_MAX}}}"
_GATE_KEY: Final = re.compile(rf"({_COMPONENT})/(run|window|target):({_GATE_NAME}|=[0-9a-f]{{32}})")

_KEYS_REMEMBERED = 16_384
_EVENT_ID_DOMAIN = "actionledger.event.v1"
_PROVIDER_KEY_DOMAIN = "actionledger.provider_key.v1"
_GATE_DOMAIN = "actionledger.gate.v1"
_PROVIDER_HASH_CHARS = 32
_QUOTED_CHARS_MAX = 60


class MalformedId(ValueError):
    """A text that is no identity. `field` says which part, `hint` what would be right."""

    def __init__(self, field: str, problem: str, hint: str) -> None:
        super().__init__(f"{field} {problem}; {hint}")
        self.field = field
        self.hint = hint


@dataclass(frozen=True, slots=True)
class ActionId:
    """Which act of a business event: the event, an item of it, a revision from 2."""

    business_event: str
    item: str | None = None
    revision: int | None = None

    def __post_init__(self) -> None:
        check_component(self.business_event, "business_event")
        if self.item is not None:
            check_component(self.item, "item")
        if self.revision is not None:
            _number(self.revision, "revision", smallest=2, largest=REVISION_MAX)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `event[#item][~revision]`; raises MalformedId."""
        match = _ID.fullmatch(text)
        if match is None:
            raise _explained_action_id(text)
        event, item, revision = match.groups()
        return cls(event, item, None if revision is None else int(revision))

    def __str__(self) -> str:
        item = "" if self.item is None else f"#{self.item}"
        revision = "" if self.revision is None else f"~{self.revision}"
        return f"{self.business_event}{item}{revision}"


@dataclass(frozen=True, slots=True)
class ActionKey:
    """The identity of a logical action, for ever and everywhere."""

    operation: str
    version: int
    tenant: str
    action_id: ActionId

    def __post_init__(self) -> None:
        check_operation(self.operation)
        _number(self.version, "version", smallest=1, largest=OPERATION_VERSION_MAX)
        check_component(self.tenant, "tenant")

    @classmethod
    def parse(cls, text: str) -> "ActionKey":
        """Read `operation:v1:tenant:event[#item][~revision]`; raises MalformedId."""
        return _parsed_key(text)

    @property
    def stream_key(self) -> str:
        """What orders all actions of the business event: the Kafka key."""
        return f"{self.tenant}/{self.action_id.business_event}"

    def __str__(self) -> str:
        return f"{self.operation}:v{self.version}:{self.tenant}:{self.action_id}"


_action_id_of = maker_of(ActionId)[0]
_action_key_of = maker_of(ActionKey)[0]


@lru_cache(maxsize=_KEYS_REMEMBERED)
def _parsed_key(text: str) -> ActionKey:
    match = _KEY.fullmatch(text)
    if match is None:
        raise _explained_key(text)
    # The expression has looked at every part.
    operation, version, tenant, event, item, revision = match.groups()
    action_id = _action_id_of(event, item, None if revision is None else int(revision))
    return _action_key_of(operation, int(version), tenant, action_id)


def stream_key(tenant: str, business_event: str) -> str:
    """The stream key of a tenant's business event; raises MalformedId."""
    check_component(tenant, "tenant")
    check_component(business_event, "business_event")
    return f"{tenant}/{business_event}"


def stream_key_of(action_key_text: str) -> str:
    """The stream key of an action key's text; raises MalformedId."""
    match = _KEY.fullmatch(action_key_text)
    if match is None:
        raise _explained_key(action_key_text)
    return f"{match[3]}/{match[4]}"


def is_action_key(text: str) -> bool:
    """Whether the text can be the key of an action, by its form."""
    return _KEY.fullmatch(text) is not None


def is_stream_key(text: str) -> bool:
    """Whether the text is the key of a stream: of a business event, or of a gate."""
    return _STREAM_KEY.fullmatch(text) is not None or is_gate_key(text)


class GateKind(StrEnum):
    """What a gate guards: one run of an agent, one window of a ceiling, one target."""

    RUN = "run"
    WINDOW = "window"
    TARGET = "target"


def gate_key(tenant: str, kind: GateKind, name: str) -> str:
    """The stream key of a gate, for any text as its name: one that no key can hold stands there as
    128 bits of its hash. Raises MalformedId where the tenant is none.
    """
    check_component(tenant, "tenant")
    if re.fullmatch(_GATE_NAME, name) is None:
        digest = hashlib.sha256(f"{_GATE_DOMAIN}\n{kind}\n{name}".encode()).hexdigest()
        name = f"={digest[:32]}"
    return f"{tenant}/{kind}:{name}"


def is_gate_key(text: str) -> bool:
    """Whether the text is the stream key of a gate."""
    return _GATE_KEY.fullmatch(text) is not None


def gate_kind(key: str) -> GateKind:
    """What the gate of a key guards; raises MalformedId where it is none."""
    match = _GATE_KEY.fullmatch(key)
    if match is None:
        raise MalformedId(
            "gate", f"is not the key of a gate: {_quoted(key)}", "write tenant/run:NAME"
        )
    return GateKind(match[2])


def check_operation(text: str, field: str = "operation") -> str:
    """Return the name of an operation as given; raises MalformedId."""
    if OPERATION.fullmatch(text) is None:
        raise MalformedId(
            field,
            f"is not the name of an operation: {_quoted(text)}",
            f"use lower-case words joined by dots, at most {OPERATION_CHARS_MAX} characters",
        )
    return text


def check_component(text: str, field: str) -> str:
    """Return one component of a key as given; raises MalformedId."""
    if COMPONENT.fullmatch(text) is None:
        raise MalformedId(
            field,
            "is empty" if not text else f"is not a component of a key: {_quoted(text)}",
            f"use 1 to {COMPONENT_CHARS_MAX} letters A-Z a-z, digits, dots, underscores, hyphens",
        )
    return text


def check_identifier(text: str, field: str) -> str:
    """Return a free identifier (a target, a principal) as given; raises MalformedId.

    What a person cannot see or tell apart is refused by name, because an approver reads glyphs and
    the hash reads code points.
    """
    if not text:
        raise MalformedId(field, "is empty", "give it or leave the field out")
    if len(text) > IDENTIFIER_CHARS_MAX:
        raise MalformedId(
            field, f"has {len(text)} characters", f"at most {IDENTIFIER_CHARS_MAX} are allowed"
        )
    if text.isascii() and text.isprintable():
        problem = None
    elif not text.isprintable():
        problem = _named_unprintable(text)
    elif not unicodedata.is_normalized("NFC", text):
        problem = "is not in Unicode normal form C"
    else:
        problem = None
    if problem is None and (text[0] == " " or text[-1] == " "):
        problem = "begins or ends with a blank"
    if problem is not None:
        raise MalformedId(field, problem, "send the identifier exactly as it was issued")
    return text


def event_id(  # noqa: PLR0913, PLR0917 - the eight parts that together make a fact unique
    tenant: str,
    action_key: str,
    version: int,
    fact_type: str,
    topic: str,
    partition: int,
    offset: int,
    ordinal: int,
) -> str:
    """The id of a fact: 32 hex digits that follow from what it says and what caused it, so a replay
    writes the same.

    `version` is the action's; topic, partition and offset are the cause's; `ordinal` is the fact's
    place in its decision.
    """
    source = (
        f"{_EVENT_ID_DOMAIN}\n{tenant}\n{action_key}\n{version}\n{fact_type}\n"
        f"{topic}\n{partition}\n{offset}\n{ordinal}"
    )
    return hashlib.sha256(source.encode()).hexdigest()[:32]


class KeyAlphabet(StrEnum):
    """Which characters a provider takes in its idempotency key."""

    PRINTABLE = "printable"
    URL_SAFE = "url_safe"
    ALPHANUMERIC = "alphanumeric"
    HEXADECIMAL = "hexadecimal"


_OUTSIDE: Final = {
    KeyAlphabet.PRINTABLE: re.compile(r"[^!-~]"),
    KeyAlphabet.URL_SAFE: re.compile(r"[^A-Za-z0-9._~-]"),
    KeyAlphabet.ALPHANUMERIC: re.compile(r"[^A-Za-z0-9]"),
    KeyAlphabet.HEXADECIMAL: re.compile(r"[^0-9a-f]"),
}


class ProviderKeyRule(Wire):
    """What a provider allows as idempotency key."""

    length_max: Annotated[int, Field(ge=_PROVIDER_HASH_CHARS, le=ACTION_KEY_CHARS_MAX)] = 255
    alphabet: Annotated[KeyAlphabet, Field(strict=False)] = KeyAlphabet.PRINTABLE


def provider_key(action_key: str, rule: ProviderKeyRule) -> str:
    """The key the provider gets: the action key where it fits, else a readable part and 128 bits of
    its hash.

    A shortened key holds no colon, so it can never be the text of another action key. Must not
    change: a provider that sees another key for the same action makes a second effect.
    """
    outside = _OUTSIDE[rule.alphabet]
    if len(action_key) <= rule.length_max and outside.search(action_key) is None:
        return action_key
    digest = hashlib.sha256(f"{_PROVIDER_KEY_DOMAIN}\n{action_key}".encode()).hexdigest()
    digest = digest[:_PROVIDER_HASH_CHARS]
    room = rule.length_max - _PROVIDER_HASH_CHARS - 1
    joint = "-" if outside.search("-") is None else ""
    if rule.alphabet is KeyAlphabet.HEXADECIMAL or room <= 0:
        return digest
    readable = outside.sub(joint, re.sub(r"[^A-Za-z0-9._-]", joint, action_key))
    return f"{readable[:room]}{joint}{digest}"


def _quoted(text: str) -> str:
    return f"'{excerpt(text, chars_max=_QUOTED_CHARS_MAX)}'"


def _number(value: int, field: str, *, smallest: int, largest: int) -> None:
    if not smallest <= value <= largest:
        raise MalformedId(field, f"is {value}", f"use a number from {smallest} to {largest}")


def _explained_key(text: str) -> MalformedId:
    """Say which part of a text that is no action key is wrong."""
    shape = "write operation:v1:tenant:event[#item][~revision]"
    if len(text) > ACTION_KEY_CHARS_MAX:
        return MalformedId("key", f"has {len(text)} characters", shape)
    parts = text.split(":")
    if len(parts) != len(("operation", "version", "tenant", "action_id")):
        return MalformedId("key", f"has {len(parts)} parts instead of 4: {_quoted(text)}", shape)
    operation, version, tenant, action_id = parts
    try:
        check_operation(operation)
        if re.fullmatch(r"v[1-9][0-9]{0,3}", version, re.ASCII) is None:
            return MalformedId("version", f"is not a version: {_quoted(version)}", "write v1, v2 …")
        check_component(tenant, "tenant")
    except MalformedId as malformed:
        return malformed
    return _explained_action_id(action_id)


def _explained_action_id(text: str) -> MalformedId:
    """Say which part of a text that is no action id is wrong."""
    rest, tilde, revision = text.partition("~")
    event, hash_sign, item = rest.partition("#")
    try:
        check_component(event, "business_event")
        if hash_sign:
            check_component(item, "item")
    except MalformedId as malformed:
        return malformed
    if tilde:
        return MalformedId(
            "revision",
            f"is not a revision: {_quoted(revision)}",
            f"write ~2 to ~{REVISION_MAX} without leading zeros",
        )
    return MalformedId(
        "action_id", f"is malformed: {_quoted(text)}", "write event[#item][~revision]"
    )


def _named_unprintable(text: str) -> str:
    """Name the first character of an identifier that cannot be seen."""
    for place, character in enumerate(text):
        if character.isprintable():
            continue
        code = f"U+{ord(character):04X} at character {place + 1}"
        if character == "\0":
            return f"holds a NUL character ({code})"
        if unicodedata.category(character) == "Cs":
            return f"holds half of a surrogate pair ({code})"
        if unicodedata.bidirectional(character) in _BIDIRECTIONAL:
            return f"holds a character that turns the reading direction ({code})"
        if unicodedata.category(character) == "Cc":
            return f"holds a control character ({code})"
        return f"holds an invisible or unassigned character ({code})"
    return "cannot be printed"


_BIDIRECTIONAL: Final = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})
