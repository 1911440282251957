"""A strict reader of JSON: what it returns has exactly one meaning, in every language.

Guarantees I-JSON (RFC 7493) without floats: UTF-8, no duplicate keys, integers within ±(2^53-1), no
NUL, no half surrogate pairs, bounded depth and size. Time is linear in the input and nothing but
MalformedJson ever comes out. Called at every door, before any model.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NoReturn

from pydantic import JsonValue

from ledger.core.excerpt import excerpt
from ledger.core.limits import (
    INTEGER_CHARS_MAX,
    INTEGER_MAX,
    INTENT_BYTES_MAX,
    JSON_DEPTH_MAX,
    PATH_CHARS_MAX,
)


class JsonFault(StrEnum):
    """Everything that can be wrong with a JSON text here."""

    TOO_LARGE = "too_large"
    BYTE_ORDER_MARK = "byte_order_mark"
    NOT_UTF8 = "not_utf8"
    NUL_CHARACTER = "nul_character"
    TOO_DEEP = "too_deep"
    NOT_JSON = "not_json"
    TRAILING_DATA = "trailing_data"
    DUPLICATE_KEY = "duplicate_key"
    FLOAT_REFUSED = "float_refused"
    INTEGER_TOO_LARGE = "integer_too_large"
    NOT_A_NUMBER = "not_a_number"
    LONE_SURROGATE = "lone_surrogate"


_HINTS: Final = {
    JsonFault.TOO_LARGE: "send less, or a reference to what is large",
    JsonFault.BYTE_ORDER_MARK: "send plain UTF-8 without the three bytes EF BB BF in front",
    JsonFault.NOT_UTF8: "encode the text as UTF-8",
    JsonFault.NUL_CHARACTER: "remove the character U+0000",
    JsonFault.TOO_DEEP: "nest objects and arrays less deeply",
    JsonFault.NOT_JSON: "send one JSON text (RFC 8259)",
    JsonFault.TRAILING_DATA: "send one JSON text and nothing behind it",
    JsonFault.DUPLICATE_KEY: "name each key of an object once",
    JsonFault.FLOAT_REFUSED: "send a whole number without point or exponent, or a string",
    JsonFault.INTEGER_TOO_LARGE: f"send integers within ±{INTEGER_MAX}, or a string",
    JsonFault.NOT_A_NUMBER: "NaN and Infinity are not JSON; leave the field out",
    JsonFault.LONE_SURROGATE: "a text was cut in the middle of a character; cut between characters",
}


class MalformedJson(ValueError):
    """A text that is refused. `code` says why, `path` where (JSON Pointer), `hint` what to do."""

    def __init__(self, code: JsonFault, path: str = "") -> None:
        self.code = code
        self.path = path
        self.hint = _HINTS[code]
        super().__init__(f"{code} at {path or 'the top'}: {self.hint}")


class _Found(Exception):
    """Raised by a hook of the fast reader, which knows what but not where."""

    def __init__(self, code: JsonFault) -> None:
        self.code = code


def _object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Found(JsonFault.DUPLICATE_KEY)
    return members


def _integer(digits: str) -> int:
    # The length is looked at first: converting a long number takes time that grows with its square.
    if len(digits) > INTEGER_CHARS_MAX or not -INTEGER_MAX <= (value := int(digits)) <= INTEGER_MAX:
        raise _Found(JsonFault.INTEGER_TOO_LARGE)
    return value


def _float(_digits: str) -> NoReturn:
    raise _Found(JsonFault.FLOAT_REFUSED)


def _constant(_name: str) -> NoReturn:
    raise _Found(JsonFault.NOT_A_NUMBER)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
_BLANKS = " \t\n\r"
# Only these escapes can make a character that is refused; most texts hold none and skip the walk.
_SUSPECT_ESCAPE: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
# Possessive, and content to end without a closing quote: so every text is read once, never again.
_STRING_OR_BRACKET: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}:,]|[^\s"\[\]{}:,]++', re.DOTALL)
_INTEGER: Final = re.compile(r"-?[0-9]++")


def parse(
    raw: bytes, *, depth_max: int = JSON_DEPTH_MAX, bytes_max: int = INTENT_BYTES_MAX
) -> JsonValue:
    """The value of a JSON text; raises MalformedJson with the first fault in the order of
    JsonFault's checks.
    """
    if len(raw) > bytes_max:
        raise MalformedJson(JsonFault.TOO_LARGE)
    if raw.startswith(b"\xef\xbb\xbf"):
        raise MalformedJson(JsonFault.BYTE_ORDER_MARK)
    if b"\0" in raw:
        raise MalformedJson(JsonFault.NUL_CHARACTER)
    try:
        text = raw.decode().strip(_BLANKS)
    except UnicodeDecodeError:
        raise MalformedJson(JsonFault.NOT_UTF8) from None
    # More brackets than levels are needed to be too deep, so most texts are cleared by counting.
    if raw.count(b"[") + raw.count(b"{") > depth_max:
        _check_depth(text, depth_max)
    try:
        value, end = _DECODER.raw_decode(text)
    except _Found as found:
        raise MalformedJson(found.code, _path_of(text, found.code)) from None
    except json.JSONDecodeError as error:
        raise MalformedJson(JsonFault.NOT_JSON, _path_at(text, error.pos)) from None
    if end != len(text):
        raise MalformedJson(JsonFault.TRAILING_DATA)
    if b"\\u" in raw and _SUSPECT_ESCAPE.search(raw) is not None:
        _check_characters(value, ())
    parsed: JsonValue = value
    return parsed


def _check_depth(text: str, depth_max: int) -> None:
    """Raise for a text deeper than allowed, before the reader would descend into it."""
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        bracket = match[0]
        if bracket in "[{":
            depth += 1
            if depth > depth_max:
                raise MalformedJson(JsonFault.TOO_DEEP, _path_at(text, match.start()))
        elif bracket in "]}":
            depth -= 1


def _check_characters(value: JsonValue, path: tuple[str | int, ...]) -> None:
    """Raise for a NUL or half a surrogate pair anywhere in the value, keys included."""
    match value:
        case str():
            fault = character_fault(value)
            if fault is not None:
                raise MalformedJson(fault, pointer(path))
        case list():
            for index, item in enumerate(value):
                _check_characters(item, (*path, index))
        case dict():
            for key, item in value.items():
                _check_characters(key, (*path, key))
                _check_characters(item, (*path, key))
        case _:
            return


def character_fault(text: str) -> JsonFault | None:
    """What makes a text unfit for the log, if anything: a NUL, or half a surrogate pair."""
    if "\0" in text:
        return JsonFault.NUL_CHARACTER
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        return JsonFault.LONE_SURROGATE
    return None


def pointer(path: tuple[str | int, ...]) -> str:
    """A JSON Pointer (RFC 6901), shortened and made safe to print: keys come from the caller."""
    text = "".join(f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path)
    return excerpt(text, chars_max=PATH_CHARS_MAX)


@dataclass(slots=True)
class _Level:
    """An object or array that the search for a fault is inside of."""

    is_object: bool
    place: str | int = 0
    expects_key: bool = True
    keys: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    path: tuple[str | int, ...]
    is_repeated_key: bool = False


def _tokens(text: str) -> Iterator[_Token]:
    """Every scalar and bracket of a text that need not be valid, each with its path. Only used to
    explain a refusal.
    """
    levels: list[_Level] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        level = levels[-1] if levels else None
        match token[0]:
            case ":":
                if level is not None:
                    level.expects_key = False
            case ",":
                if level is not None and not level.is_object and isinstance(level.place, int):
                    level.place += 1
                elif level is not None:
                    level.expects_key = True
            case "]" | "}":
                yield _Token(token, match.start(), _path(levels))
                if levels:
                    levels.pop()
            case '"' if level is not None and level.is_object and level.expects_key:
                key = _key(token)
                is_repeated = key in level.keys
                level.keys.add(key)
                level.place = key
                yield _Token(token, match.start(), _path(levels), is_repeated)
            case opening:
                yield _Token(token, match.start(), _path(levels))
                if opening in "[{":
                    levels.append(
                        _Level(is_object=opening == "{", place="" if opening == "{" else 0)
                    )


def _path(levels: list[_Level]) -> tuple[str | int, ...]:
    return tuple(level.place for level in levels if level.place != "")


def _key(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token


def _path_of(text: str, code: JsonFault) -> str:
    """Where the first fault of this kind is."""
    for token in _tokens(text):
        scalar = token.text
        match code:
            case JsonFault.DUPLICATE_KEY:
                is_it = token.is_repeated_key
            case JsonFault.NOT_A_NUMBER:
                is_it = scalar in {"NaN", "Infinity", "-Infinity"}
            case JsonFault.INTEGER_TOO_LARGE:
                is_it = _INTEGER.fullmatch(scalar) is not None and _is_too_large(scalar)
            case _:
                is_it = scalar[0] in "-0123456789" and any(c in ".eE" for c in scalar)
        if is_it:
            return pointer(token.path)
    return ""


def _is_too_large(digits: str) -> bool:
    return len(digits) > INTEGER_CHARS_MAX or abs(int(digits)) > INTEGER_MAX


def _path_at(text: str, position: int) -> str:
    """The path of the last thing that begins at or before a position."""
    path: tuple[str | int, ...] = ()
    for token in _tokens(text):
        if token.start > position:
            break
        path = token.path
    return pointer(path)
