"""What an operation declares about its parameters, and whether the values of a request keep to it.

Guarantees that every problem is found and named, not the first one only. Must never change a value.
Called through `Operation.check`.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from ledger.core.ids import MalformedId, check_identifier
from ledger.core.limits import (
    CATALOGUE_OPERATIONS_MAX,
    CHOICES_MAX,
    INTEGER_MAX,
    INTENT_BYTES_MAX,
)
from ledger.core.request import TOKEN_KEY
from ledger.core.strict_json import pointer
from ledger.core.wire import Text, Wire

ParameterType = Literal["string", "integer", "boolean", "identifier", "list", "object"]
Length = Annotated[int, Field(ge=0, le=INTENT_BYTES_MAX)]
Bound = Annotated[int, Field(ge=-INTEGER_MAX, le=INTEGER_MAX)]

_TYPES: Final[dict[ParameterType, type]] = {
    "string": str,
    "integer": int,
    "boolean": bool,
    "identifier": str,
    "list": list,
    "object": dict,
}
_ARTICLES: Final[dict[ParameterType, str]] = {
    "string": "a string",
    "integer": "an integer",
    "boolean": "true or false",
    "identifier": "an identifier",
    "list": "a list",
    "object": "an object",
}
_UNITS: Final[dict[ParameterType, str]] = {
    "string": "characters",
    "identifier": "characters",
    "list": "items",
    "object": "members",
}


class ProblemCode(StrEnum):
    """How a request can fall outside what its operation declares."""

    TARGET_MISSING = "target_missing"
    TARGET_NOT_ALLOWED = "target_not_allowed"
    TARGET_PREFIX = "target_prefix"
    MONEY_MISSING = "money_missing"
    MONEY_NOT_ALLOWED = "money_not_allowed"
    ENVIRONMENT_NOT_ALLOWED = "environment_not_allowed"
    AMOUNT_ZERO = "amount_zero"
    AMOUNT_NOT_A_MULTIPLE = "amount_not_a_multiple"
    PARAMETER_MISSING = "parameter_missing"
    PARAMETER_UNKNOWN = "parameter_unknown"
    WRONG_TYPE = "wrong_type"
    TOO_SHORT = "too_short"
    TOO_LONG = "too_long"
    TOO_SMALL = "too_small"
    TOO_LARGE = "too_large"
    NOT_A_CHOICE = "not_a_choice"
    MALFORMED_IDENTIFIER = "malformed_identifier"
    TOKEN_NOT_ALLOWED = "token_not_allowed"  # noqa: S105 - a code, not a secret


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing in which a request falls outside its operation: JSON Pointer, code, sentence."""

    path: str
    code: ProblemCode
    message: str


class Parameter(Wire):
    """One declared parameter. Lengths count characters, items or members; `items` is the type of a
    list's items.
    """

    type: ParameterType
    required: bool = True
    description: Text | None = None
    length_min: Length | None = None
    length_max: Length | None = None
    minimum: Bound | None = None
    maximum: Bound | None = None
    values: (
        Annotated[tuple[Text, ...], Field(strict=False, min_length=1, max_length=CHOICES_MAX)]
        | None
    ) = None
    items: ParameterType | None = None

    def problems(self, value: JsonValue, path: tuple[str | int, ...]) -> Iterator[Problem]:
        """Everything in which a value falls outside. A token stands for any value: where none may
        stand, `token_problems` has said so before.
        """
        if _is_token(value):
            return
        if not _is(self.type, value):
            yield _problem(path, ProblemCode.WRONG_TYPE, f"must be {_ARTICLES[self.type]}")
            return
        match value:
            case bool():
                return
            case int():
                yield from self._range_problems(value, path)
            case str():
                yield from self._text_problems(value, path)
            case list():
                yield from self._length_problems(len(value), path)
                yield from self._item_problems(value, path)
            case dict():
                yield from self._length_problems(len(value), path)
            case _:
                return

    def _range_problems(self, value: int, path: tuple[str | int, ...]) -> Iterator[Problem]:
        if self.minimum is not None and value < self.minimum:
            yield _problem(path, ProblemCode.TOO_SMALL, f"must be at least {self.minimum}")
        if self.maximum is not None and value > self.maximum:
            yield _problem(path, ProblemCode.TOO_LARGE, f"must be at most {self.maximum}")

    def _text_problems(self, value: str, path: tuple[str | int, ...]) -> Iterator[Problem]:
        if self.type == "identifier":
            try:
                check_identifier(value, "it")
            except MalformedId as malformed:
                yield _problem(path, ProblemCode.MALFORMED_IDENTIFIER, f"is refused: {malformed}")
        # As it is hashed and sent: the other spelling of a text neither slips past nor is refused.
        text = value if value.isascii() else unicodedata.normalize("NFC", value)
        yield from self._length_problems(len(text), path)
        if self.values is not None and text not in _normal(self.values):
            yield _problem(
                path, ProblemCode.NOT_A_CHOICE, f"must be one of {', '.join(self.values)}"
            )

    def _length_problems(self, length: int, path: tuple[str | int, ...]) -> Iterator[Problem]:
        unit = _UNITS[self.type]
        if self.length_min is not None and length < self.length_min:
            yield _problem(
                path, ProblemCode.TOO_SHORT, f"must have at least {self.length_min} {unit}"
            )
        if self.length_max is not None and length > self.length_max:
            yield _problem(
                path,
                ProblemCode.TOO_LONG,
                f"has {length} {unit}; at most {self.length_max} are allowed",
            )

    def _item_problems(
        self, items: list[JsonValue], path: tuple[str | int, ...]
    ) -> Iterator[Problem]:
        if self.items is None:
            return
        item = Parameter(type=self.items)
        for index, value in enumerate(items):
            yield from item.problems(value, (*path, index))


def token_problems(value: JsonValue, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """A token anywhere in the value of a parameter that is not declared personal."""
    if _holds_token(value):
        yield _problem(path, ProblemCode.TOKEN_NOT_ALLOWED, "is not declared personal")


@lru_cache(maxsize=CATALOGUE_OPERATIONS_MAX)
def _normal(values: tuple[str, ...]) -> frozenset[str]:
    return frozenset(unicodedata.normalize("NFC", value) for value in values)


def _is(kind: ParameterType, value: JsonValue) -> bool:
    # Exact, because True is an int in Python.
    return type(value) is _TYPES[kind]


def _is_token(value: JsonValue) -> bool:
    return isinstance(value, dict) and TOKEN_KEY in value


def _holds_token(value: JsonValue) -> bool:
    match value:
        case dict():
            return TOKEN_KEY in value or any(_holds_token(item) for item in value.values())
        case list():
            return any(_holds_token(item) for item in value)
        case _:
            return False


def _problem(path: tuple[str | int, ...], code: ProblemCode, message: str) -> Problem:
    place = pointer(path)
    return Problem(place, code, f"{place} {message}")
