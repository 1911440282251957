"""The request of an action: what is hashed, approved, sent and compared, and nothing else.

Guarantees one canonical form and one hash for one meaning: free text in normal form C, absent
fields absent, no floats. Must never hold a time, a trace, a reason or anything else that differs
when the same thing is asked for again. Called by the doors, `decide` and executors.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from ledger.core.canonical import canonicalize
from ledger.core.excerpt import excerpt
from ledger.core.ids import MalformedId, check_component, check_identifier, check_operation
from ledger.core.limits import (
    DIFFERENCES_MAX,
    INTEGER_MAX,
    MARKS_MAX,
    OPERATION_VERSION_MAX,
    REQUEST_DEPTH_MAX,
)
from ledger.core.money import Money
from ledger.core.strict_json import character_fault, pointer
from ledger.core.wire import Json, Wire

TOKEN_KEY: Final = "$token"  # noqa: S105 - the name of a field, not a secret
"""Marks a personal field: `{"$token": "hmac-sha256:<64 hex>"}` stands for the value under its
subject's key.
"""

_TOKEN: Final = re.compile(r"hmac-sha256:[0-9a-f]{64}")
_HASH_DOMAIN: Final = b"actionledger.request.v1\n"
ABSENT: Final = "(absent)"
"""How a field that is not there is shown in a difference."""
_PARAMS: Final = "params"

_Path = tuple[str | int, ...]


class RequestFault(StrEnum):
    """What can be wrong with a request beyond its types; the texts are the published codes."""

    MALFORMED_IDENTIFIER = "malformed_identifier"
    FLOAT_REFUSED = "float_refused"
    INTEGER_TOO_LARGE = "integer_too_large"
    TOO_DEEP = "too_deep"
    RESERVED_KEY = "reserved_key"
    MALFORMED_TOKEN = "malformed_token"  # noqa: S105 - a code, not a secret
    DUPLICATE_KEY = "duplicate_key"
    TOO_MANY_MARKS = "too_many_marks"


def _refused(code: str, message: str) -> PydanticCustomError:
    return PydanticCustomError(code, "{message}", {"message": message})


def _identifier(check: Callable[[str, str], str], field: str) -> AfterValidator:
    """A validator that refuses a malformed identifier under its own name."""

    def validate(text: str) -> str:
        try:
            return check(text, field)
        except MalformedId as malformed:
            raise _refused(RequestFault.MALFORMED_IDENTIFIER, str(malformed)) from None

    return AfterValidator(validate)


def _check_params(params: dict[str, JsonValue]) -> dict[str, JsonValue]:
    if TOKEN_KEY in params:
        raise _refused(
            RequestFault.RESERVED_KEY, f"/params/{TOKEN_KEY} cannot stand for all of params"
        )
    _check(params, (_PARAMS,))
    return params


def _check(value: Any, path: _Path) -> None:  # noqa: ANN401 - any JSON value
    """Refuse what has no canonical form, or a meaning that is reserved."""
    kind = type(value)
    if kind is str:
        if not (value.isascii() and value.isprintable()):
            _check_characters(value, path)
    elif kind is int:
        if not -INTEGER_MAX <= value <= INTEGER_MAX:
            raise _refused(RequestFault.INTEGER_TOO_LARGE, f"{pointer(path)} is beyond 2^53-1")
    elif kind is dict:
        _check_members(value, path)
    elif kind is list:
        _check_depth(path)
        for index, item in enumerate(value):
            _check(item, (*path, index))
    elif kind is float:
        raise _refused(
            RequestFault.FLOAT_REFUSED,
            f"{pointer(path)} is a number with a point or exponent; send an integer or a string",
        )


def _check_members(members: dict[str, Any], path: _Path) -> None:
    _check_depth(path)
    for key, item in members.items():
        if key[:1] == "$":
            _check_token(members, key, path)
        _check(key, path)
        _check(item, (*path, key))
    if not "".join(members).isascii():
        normal = {unicodedata.normalize("NFC", key) for key in members}
        if len(normal) != len(members):
            raise _refused(
                RequestFault.DUPLICATE_KEY,
                f"{pointer(path)} has two keys that are one in Unicode normal form C",
            )


def _check_token(members: dict[str, Any], key: str, path: _Path) -> None:
    if key != TOKEN_KEY:
        raise _refused(
            RequestFault.RESERVED_KEY, f"{pointer((*path, key))}: keys with $ are reserved"
        )
    token = members[key]
    if len(members) != 1 or not isinstance(token, str) or _TOKEN.fullmatch(token) is None:
        raise _refused(
            RequestFault.MALFORMED_TOKEN,
            f"{pointer(path)} must hold nothing but {TOKEN_KEY}: hmac-sha256: and 64 hex digits",
        )


def _check_characters(text: str, path: _Path) -> None:
    fault = character_fault(text)
    if fault is not None:
        raise _refused(fault, f"{pointer(path)} holds a {fault.replace('_', ' ')}")
    # Ordering marks takes time that grows with the square of their number; no language needs more
    # than the Stream-Safe Text Format (UAX #15, D4) allows.
    if not unicodedata.is_normalized("NFC", text) and _marks_in_a_row(text) > MARKS_MAX:
        raise _refused(
            RequestFault.TOO_MANY_MARKS,
            f"{pointer(path)} has more than {MARKS_MAX} combining marks in a row",
        )


def _marks_in_a_row(text: str) -> int:
    longest = length = 0
    for character in text:
        length = length + 1 if unicodedata.combining(character) else 0
        longest = max(longest, length)
    return longest


def _check_depth(path: _Path) -> None:
    # The request itself is the first level, its params the second.
    if len(path) + 1 > REQUEST_DEPTH_MAX:
        raise _refused(
            RequestFault.TOO_DEEP, f"{pointer(path)} is deeper than {REQUEST_DEPTH_MAX} levels"
        )


class RecordedRequest(Wire):
    """A request as it stands in the log: checked when it came in, read without checking it again,
    because every reader of the ledger reads it.
    """

    operation: str
    version: int
    target: str | None = None
    params: dict[str, Json] = Field(default_factory=dict)
    money: Money | None = None
    principal: str
    environment: str


class Request(RecordedRequest):
    """What is asked of the world, in full. `principal` is who asks, `environment` where it holds.

    Two requests with one hash ask for the same thing; params differ from their canonical form in
    the normal form of free text only.
    """

    operation: Annotated[str, _identifier(check_operation, "operation")]
    version: Annotated[int, Field(ge=1, le=OPERATION_VERSION_MAX)]
    target: Annotated[str, _identifier(check_identifier, "target")] | None = None
    params: Annotated[dict[str, JsonValue], AfterValidator(_check_params)] = Field(
        default_factory=dict
    )
    money: Money | None = None
    principal: Annotated[str, _identifier(check_identifier, "principal")]
    environment: Annotated[str, _identifier(check_component, "environment")]


def recorded(request: RecordedRequest) -> RecordedRequest:
    """A checked request as it goes into the log, and as it will be read back."""
    copy = RecordedRequest.__new__(RecordedRequest)
    # What `model_construct` does, without asking field by field: it happens for every intent.
    object.__setattr__(copy, "__dict__", dict(request.__dict__))
    object.__setattr__(copy, "__pydantic_fields_set__", set(request.__pydantic_fields_set__))
    object.__setattr__(copy, "__pydantic_extra__", None)
    object.__setattr__(copy, "__pydantic_private__", None)
    return copy


def canonical_request(request: RecordedRequest) -> bytes:
    """The bytes that are hashed and kept: RFC 8785, free text in normal form C, absent fields left
    out.
    """
    form = canonicalize(_form(request))
    # Normal form is closed under cutting, so one look at the whole text clears every text in it.
    if form.isascii() or unicodedata.is_normalized("NFC", form.decode()):
        return form
    return canonicalize(canonical_form(request))


def hash_canonical(form: bytes) -> str:
    """The request hash of canonical bytes as they were kept: nothing is parsed or rebuilt."""
    return f"sha256:{hashlib.sha256(_HASH_DOMAIN + form).hexdigest()}"


def request_hash(request: RecordedRequest) -> str:
    """`sha256:` and the hex digest of the domain and the canonical request."""
    return hash_canonical(canonical_request(request))


def canonical_form(request: RecordedRequest) -> dict[str, JsonValue]:
    """The value whose RFC 8785 bytes are the canonical request."""
    form = _form(request)
    form["params"] = normal_params(request)
    return form


def normal_params(request: RecordedRequest) -> dict[str, JsonValue]:
    """The parameters as the canonical form has them: a copy down to the last value."""
    return {_normal_text(key): _normal(value) for key, value in request.params.items()}


def _form(request: RecordedRequest) -> dict[str, JsonValue]:
    form: dict[str, JsonValue] = {
        "environment": request.environment,
        "operation": request.operation,
        "params": request.params,
        "principal": request.principal,
        "version": request.version,
    }
    if request.target is not None:
        form["target"] = request.target
    if request.money is not None:
        form["money"] = {"currency": request.money.currency, "minor": request.money.minor}
    return form


def _normal(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return _normal_text(value)
        case list():
            return [_normal(item) for item in value]
        case dict():
            return {_normal_text(key): _normal(value[key]) for key in value}
        case _:
            return value


def _normal_text(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@dataclass(frozen=True, slots=True)
class Difference:
    """One field in which two requests differ: JSON Pointer, and the values as bounded, visible JSON
    text or `(absent)`.
    """

    path: str
    was: str
    now: str


def differences(
    a: RecordedRequest | Mapping[str, JsonValue], b: RecordedRequest | Mapping[str, JsonValue]
) -> tuple[Difference, ...]:
    """Field by field what differs between two canonical requests, in the order of paths, at most
    DIFFERENCES_MAX.
    """
    was = canonical_form(a) if isinstance(a, RecordedRequest) else dict(a)
    now = canonical_form(b) if isinstance(b, RecordedRequest) else dict(b)
    return tuple(islice(_differences(was, now, ()), DIFFERENCES_MAX))


def _differences(was: JsonValue, now: JsonValue, path: _Path) -> Iterator[Difference]:
    if isinstance(was, dict) and isinstance(now, dict):
        for key in sorted(was.keys() | now.keys()):
            yield from _member(was, now, key, (*path, key))
    elif isinstance(was, list) and isinstance(now, list):
        before, after = dict(enumerate(was)), dict(enumerate(now))
        for index in range(max(len(was), len(now))):
            yield from _member(before, after, index, (*path, index))
    # True equals 1 in Python and means something else in JSON.
    elif type(was) is not type(now) or was != now:
        yield Difference(pointer(path), _shown(was), _shown(now))


def _member(
    was: Mapping[Any, JsonValue], now: Mapping[Any, JsonValue], key: str | int, path: _Path
) -> Iterator[Difference]:
    if key in was and key in now:
        yield from _differences(was[key], now[key], path)
    else:
        before = _shown(was[key]) if key in was else ABSENT
        after = _shown(now[key]) if key in now else ABSENT
        yield Difference(pointer(path), before, after)


def _shown(value: JsonValue) -> str:
    return excerpt(canonicalize(value).decode())
