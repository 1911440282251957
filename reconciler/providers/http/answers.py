"""What stands in a provider's JSON: a reader, paths into it, and the few kinds of value we take.

Guarantees that a value is taken only if it is exactly of its kind; anything else is
`UnreadableAnswer`, so that no guess becomes proof. Fractions are kept as decimals, never floats.
Must never raise anything else for any bytes. Called by shapes, performer, finder and mapping.
"""

import json
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, Literal, NoReturn, TypeAlias

from ledger.core.limits import INTEGER_CHARS_MAX, INTEGER_MAX
from ledger.core.money import Money, code_of, exponent
from ledger.core.strict_json import character_fault
from reconciler.providers.limits import (
    CODE_CHARS_MAX,
    CURSOR_CHARS_MAX,
    REFERENCE_CHARS_MAX,
)
from reconciler.providers.written_time import written_ms

WHOLE: Final = 200
"""The one status of success that says an answer to GET is all of it: one of 202 is not made yet,
one of 206 is a part, and an empty list of either is no absence."""

AnswerPath: TypeAlias = tuple[str, ...]
AmountUnit: TypeAlias = Literal["minor", "decimal"]
TimeUnit: TypeAlias = Literal["milliseconds", "seconds", "rfc3339"]

_ABSENT: Final = object()
_INDEX: Final = re.compile(r"[0-9]{1,4}")
_NOT_IN_CODES: Final = re.compile(r"[^a-z0-9_]+")
_FRACTION_CHARS_MAX: Final = 40
_DECIMAL: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,8})?")


class UnreadableAnswer(Exception):
    """Bytes that are no JSON, or a value that is not what the description says."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value that the description gives itself, since no answer holds it."""

    text: str


Source: TypeAlias = AnswerPath | Fixed


def path_of(text: str) -> AnswerPath:
    """`a.b.0` as steps; the empty text is the answer itself."""
    return tuple(text.split(".")) if text else ()


def read_json(raw: bytes) -> object:
    """The value of a JSON text; raises UnreadableAnswer.

    A member that is there twice has no one meaning, so such a text is not read. A byte order mark
    in front is passed over (RFC 8259, 8.1): providers on some platforms write one.
    """
    try:
        value: object = _DECODER.decode(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise UnreadableAnswer from None
    return value


def value_at(answer: object, path: AnswerPath) -> object:
    """The value at a path; None where there is none or it is null."""
    found = _found(answer, path)
    return None if found is _ABSENT else found


def is_among_several(answer: object, path: AnswerPath) -> bool:
    """Whether a path leads into a list that holds more than what it names."""
    value = answer
    for step in path:
        if isinstance(value, list) and len(value) > 1:
            return True
        value = _found(value, (step,))
    return False


def text_at(answer: object, source: Source | None) -> str | None:
    """A text, or a whole number as one; None where there is none. Raises UnreadableAnswer."""
    match source:
        case None:
            return None
        case Fixed(text):
            return text
        case _:
            return _text(value_at(answer, source), REFERENCE_CHARS_MAX)


def key_at(answer: object, path: AnswerPath | None, chars_max: int) -> str | None:
    """A key of ours as the provider shows it, up to its own length; raises UnreadableAnswer."""
    return None if path is None else _text(value_at(answer, path), chars_max)


def following_at(answer: object, path: AnswerPath | None) -> str | None:
    """What names the page behind this one, or None at the end of a list, which is said by nothing,
    by null, by false or by an empty text. Raises UnreadableAnswer.
    """
    value = None if path is None else value_at(answer, path)
    return None if value is False or value == "" else _text(value, CURSOR_CHARS_MAX)


def list_at(answer: object, path: AnswerPath) -> list[object]:
    """A list that must be there; raises UnreadableAnswer."""
    value = value_at(answer, path)
    if not isinstance(value, list):
        raise UnreadableAnswer
    return value


def code_at(answer: object, path: AnswerPath | None) -> str | None:
    """The provider's own word for a problem as it wrote it, or None."""
    if path is None:
        return None
    try:
        return _text(value_at(answer, path), REFERENCE_CHARS_MAX)
    except UnreadableAnswer:
        return None


def trouble_at(answer: object, path: AnswerPath | None) -> str | None:
    """The code of a problem of which an answer speaks that calls itself a success, or None: what is
    null, false, zero or empty speaks of none.
    """
    if path is None or not value_at(answer, path):
        return None
    return recorded(code_at(answer, path)) or "answer_with_error"


def recorded(code: str | None) -> str | None:
    """A provider's word as one of our codes: `Card-Declined` is `card_declined`; None if it is
    not one that can be recorded.
    """
    if code is None:
        return None
    written = _NOT_IN_CODES.sub("_", code.lower()).strip("_")
    return written if 1 <= len(written) <= CODE_CHARS_MAX else None


def time_at(answer: object, path: AnswerPath, unit: TimeUnit) -> int:
    """A point in time in milliseconds since the epoch; raises UnreadableAnswer."""
    value = value_at(answer, path)
    if unit == "rfc3339":
        at = _written_time(value)
    else:
        factor = 1_000 if unit == "seconds" else 1
        at = int(value * factor) if isinstance(value, Decimal) else _whole(value) * factor
    if not 0 <= at <= INTEGER_MAX:
        raise UnreadableAnswer
    return at


@dataclass(frozen=True, slots=True)
class MoneyAt:
    """Where an amount stands: in minor units, or in major ones as a decimal; and whether a minus
    before it says nothing.
    """

    amount: AnswerPath
    unit: AmountUnit
    currency: Source
    sign: Literal["refused", "ignored"] = "refused"

    def read(self, answer: object) -> Money | None:
        """The amount; None where there is none at all. Raises UnreadableAnswer for half of one."""
        value = value_at(answer, self.amount)
        if self.sign == "ignored":
            value = _without_sign(value)
        currency = text_at(answer, self.currency)
        if value is None and (currency is None or isinstance(self.currency, Fixed)):
            return None
        if value is None or currency is None:
            raise UnreadableAnswer
        code = code_of(currency)
        try:
            minor = _whole(value) if self.unit == "minor" else _minor(value, exponent(code))
            return Money(minor=minor, currency=code)
        except ValueError:
            raise UnreadableAnswer from None


def kept(value: object) -> str | int | bool | None:
    """A scalar of an answer as it may be kept in the ledger; anything else is kept as null."""
    match value:
        case bool():
            return value
        case int():
            return value if abs(value) <= INTEGER_MAX else str(value)
        case Decimal():
            return str(value)
        case str() if len(value) <= REFERENCE_CHARS_MAX and character_fault(value) is None:
            return value
        case _:
            return None


def matches(value: object, expected: str | int | bool) -> bool:  # noqa: FBT001 - a JSON value
    """True for the same JSON value: `true` is not 1, and "1" is not 1."""
    return type(value) is type(expected) and value == expected


def _found(answer: object, path: AnswerPath) -> object:
    value = answer
    for step in path:
        match value:
            case dict():
                value = value.get(step, _ABSENT)
            case list() if _INDEX.fullmatch(step) and int(step) < len(value):
                value = value[int(step)]
            case _:
                return _ABSENT
    return value


def _text(value: object, chars_max: int) -> str | None:
    match value:
        case None:
            return None
        case bool():
            raise UnreadableAnswer
        case int():
            return str(value)
        case str() if 1 <= len(value) <= chars_max and character_fault(value) is None:
            return value
        case _:
            raise UnreadableAnswer


def _without_sign(value: object) -> object:
    match value:
        case bool():
            return value
        case int():
            return abs(value)
        case Decimal():
            # `abs` would round what is long.
            return value.copy_abs()
        case str():
            return value.removeprefix("-")
        case _:
            return value


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise UnreadableAnswer
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit() and len(value) < INTEGER_CHARS_MAX):
            raise UnreadableAnswer
        return int(value)
    return value


def _minor(value: object, digits: int) -> int:
    """Minor units of a decimal; a fraction of one is no amount."""
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        raise UnreadableAnswer
    text = str(value)
    if _DECIMAL.fullmatch(text) is None:
        raise UnreadableAnswer
    scaled = Decimal(text).scaleb(digits)
    if scaled != scaled.to_integral_value():
        raise UnreadableAnswer
    return int(scaled)


def _written_time(value: object) -> int:
    if not isinstance(value, str):
        raise UnreadableAnswer
    try:
        return written_ms(value)
    except (ValueError, OverflowError):
        raise UnreadableAnswer from None


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a member is there twice")
    return members


def _integer(digits: str) -> int | str:
    # Longer ones are identifiers, if anything; converting them takes time that grows with the
    # square of their length.
    return int(digits) if len(digits) <= INTEGER_CHARS_MAX else digits


def _fraction(digits: str) -> Decimal | str:
    """The exact number; as written where it is none of ours to count with.

    An exponent such as 1e999999 would be written out digit by digit by whoever converts it.
    """
    if len(digits) > _FRACTION_CHARS_MAX:
        return digits
    try:
        number = Decimal(digits)
    except InvalidOperation:
        # An exponent that no decimal can have, such as 1e99999999999999999999.
        return digits
    return digits if abs(number.adjusted()) > INTEGER_CHARS_MAX else number


def _constant(_name: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_fraction,
    parse_constant=_constant,
)
