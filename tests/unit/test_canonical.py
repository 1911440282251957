"""Canonical JSON: the bytes of RFC 8785, and a refusal for every value that has none here."""

import json
from enum import StrEnum

import pytest

from ledger.core.canonical import NotCanonical, canonicalize
from ledger.core.limits import INTEGER_MAX, JSON_DEPTH_MAX


class Colour(StrEnum):
    """A text that is not exactly a str."""

    RED = "red"


def nested(levels: int) -> object:
    """A value of so many lists within each other."""
    value: object = 0
    for _ in range(levels):
        value = [value]
    return value


def test_sorting_example_of_rfc_8785() -> None:
    """The example of section 3.2.3 comes out in the order of the RFC."""
    value = {
        "\u20ac": "Euro Sign",
        "\r": "Carriage Return",
        "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One",
        "\U0001f600": "Emoji: Grinning Face",
        "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis",
    }
    assert list(json.loads(canonicalize(value)).values()) == [
        "Carriage Return",
        "One",
        "Control",
        "Latin Small Letter O With Diaeresis",
        "Euro Sign",
        "Emoji: Grinning Face",
        "Hebrew Letter Dalet With Dagesh",
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, b"null"),
        (True, b"true"),
        (False, b"false"),
        (0, b"0"),
        (-INTEGER_MAX, b"-9007199254740991"),
        ("", b'""'),
        ([], b"[]"),
        ({}, b"{}"),
        ((1, "a"), b'[1,"a"]'),
        ("\u0000\u001f\u007f", b'"\\u0000\\u001f\x7f"'),
        ('\b\t\n\f\r"\\/', b'"\\b\\t\\n\\f\\r\\"\\\\/"'),
        ("\u2028€😀", '"\u2028€😀"'.encode()),
        ({"b": [1, {"d": None, "c": True}], "a": {}}, b'{"a":{},"b":[1,{"c":true,"d":null}]}'),
    ],
)
def test_every_kind_of_value_has_its_bytes(value: object, expected: bytes) -> None:
    """Literals, numbers, escapes and nesting come out as RFC 8785 writes them."""
    assert canonicalize(value) == expected


@pytest.mark.parametrize(
    "value",
    [
        1.0,
        float("nan"),
        INTEGER_MAX + 1,
        -INTEGER_MAX - 1,
        [10**5_000],
        b"bytes",
        {1: "a"},
        {"a": 1, 2: "b"},
        {None: 1},
        {"a": {1, 2}},
        Colour.RED,
        object(),
        "\ud83d",
        {"\ude00": 1},
        {"a": ["\ud83d"]},
        nested(JSON_DEPTH_MAX + 1),
        {"a": nested(JSON_DEPTH_MAX)},
    ],
)
def test_values_without_a_canonical_form_are_refused(value: object) -> None:
    """Nothing is coerced, rounded or replaced to get bytes out of it."""
    with pytest.raises(NotCanonical):
        canonicalize(value)


def test_depth_is_bounded_exactly() -> None:
    """As many levels as the strict reader allows have a canonical form."""
    assert canonicalize(nested(JSON_DEPTH_MAX)) == b"[" * 32 + b"0" + b"]" * 32
