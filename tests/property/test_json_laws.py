"""Laws of strict parsing and canonical form, with two independent readers as oracles."""

import json

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import JsonValue

from ledger.core.canonical import NotCanonical, canonicalize
from ledger.core.limits import INTEGER_MAX
from ledger.core.strict_json import JsonFault, MalformedJson, parse

texts = st.text(max_size=20)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-INTEGER_MAX, max_value=INTEGER_MAX)
    | texts.filter(lambda text: "\0" not in text)
)
keys = texts.filter(lambda text: "\0" not in text)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=20,
)
# Pieces of JSON and of what looks like it, so that most texts are nearly valid.
fragments = st.lists(
    st.sampled_from(
        [
            *'{}[]:,"\\',
            " ",
            '"a"',
            '"a":',
            "1",
            "-0",
            "1.5",
            "1e9",
            "9007199254740992",
            "NaN",
            "-Infinity",
            "true",
            "null",
            '"\\u0000"',
            '"\\ud83d"',
            '"\\ud83d\\ude00"',
            "\ufeff",
            "é",
            "\0",
        ]
    ),
    max_size=25,
).map("".join)


# Valid texts of the tokens that readers disagree on.
quoted = st.sampled_from(
    ['"a"', '"\\u0061"', '"é"', '"\\u00e9"', '"\\ud83d"', '"\\ud83d\\ude00"', '"\\\\u0000"', '""']
)
numbers = st.sampled_from(["0", "-0", "1.0", "1e3", "9007199254740991", "9007199254740992", "NaN"])
disputed = st.recursive(
    quoted | numbers | st.sampled_from(["true", "null", '"\\u0000"']),
    lambda inner: (
        st.lists(inner, max_size=4).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(quoted, inner), max_size=4).map(
            lambda pairs: f"{{{','.join(f'{key}: {value}' for key, value in pairs)}}}"
        )
    ),
    max_leaves=8,
)


def repeated_keys(text: str) -> bool:
    """Whether any object of a JSON text has a key twice, by an independent reader."""
    found = []

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        found.append(len({key for key, _ in pairs}) != len(pairs))
        return dict(pairs)

    json.loads(text, object_pairs_hook=members)
    return any(found)


@given(values)
def test_canonical_bytes_agree_with_the_oracle(value: JsonValue) -> None:
    """Every value of ours has exactly the bytes that the `rfc8785` package gives it."""
    assert canonicalize(value) == rfc8785.dumps(value)


@given(
    st.dictionaries(
        st.text(alphabet="aé\ue000\uffff\U00010000\U0001f600\ud7ff", max_size=3), st.none()
    )
)
def test_keys_sort_as_the_oracle_sorts_them(value: dict[str, None]) -> None:
    """Characters outside the basic plane sort by their halves, below the end of that plane."""
    assert canonicalize(value) == rfc8785.dumps(value)


@given(values, st.sampled_from([None, 1]))
def test_parsing_gives_back_what_was_written(value: JsonValue, indent: int | None) -> None:
    """A value survives any writer: escaped or plain, in one line or many."""
    assert parse(json.dumps(value, ensure_ascii=True, indent=indent).encode()) == value
    assert parse(json.dumps(value, ensure_ascii=False, indent=indent).encode()) == value


@given(values)
def test_canonical_form_is_a_fixed_point(value: JsonValue) -> None:
    """Canonical bytes parse to the value and have themselves as canonical form."""
    form = canonicalize(value)
    assert parse(form) == value
    assert canonicalize(parse(form)) == form


@given(values, values)
def test_equal_bytes_mean_equal_values(one: JsonValue, other: JsonValue) -> None:
    """Two values share canonical bytes exactly when an independent writer sees no difference."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (canonicalize(one) == canonicalize(other)) == same


@given(
    st.recursive(
        scalars | st.floats(),
        lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
        max_leaves=10,
    )
)
def test_floats_never_get_bytes(value: JsonValue) -> None:
    """A value with a float anywhere in it is refused, and only such a value."""
    has_float = any(isinstance(leaf, float) for leaf in leaves(value))
    if has_float:
        with pytest.raises(NotCanonical):
            canonicalize(value)
    else:
        assert canonicalize(value)


@given(values, st.data())
def test_a_repeated_key_is_found_anywhere(value: JsonValue, data: st.DataObject) -> None:
    """A key written twice is refused however deep it is and however its second self is escaped."""
    key = data.draw(keys)
    second = "".join(f"\\u{ord(c):04x}" for c in key) if key and key.isascii() else None
    written = json.dumps(key)
    again = f'"{second}"' if second is not None and data.draw(st.booleans()) else written
    broken = f"{{{written}:1,{again}:{json.dumps(value)}}}"
    for _ in range(data.draw(st.integers(0, 8))):
        broken = data.draw(st.sampled_from(["[{}]", '{{"z":{}}}', "[0,{}]"])).format(broken)
    with pytest.raises(MalformedJson) as refused:
        parse(broken.encode())
    assert refused.value.code is JsonFault.DUPLICATE_KEY


@given(st.binary(max_size=200) | (fragments | disputed).map(str.encode))
@example(b'{"a":1,"a":2}')
@example(b"[" * 5_000)
def test_any_bytes_are_a_value_or_a_named_refusal(raw: bytes) -> None:
    """Nothing but a value or MalformedJson comes out, and a value is what other readers read."""
    try:
        value = parse(raw)
    except MalformedJson as malformed:
        refused = malformed
    else:
        assert json.loads(raw) == value
        assert not repeated_keys(raw.decode())
        assert canonicalize(value)
        return
    assert refused.code in JsonFault
    assert refused.path.isprintable()


@given(disputed | fragments)
def test_only_what_has_one_meaning_is_accepted(text: str) -> None:
    """What other readers accept is refused exactly where this reader promises to refuse."""
    try:
        value = json.loads(text)
    except ValueError:
        with pytest.raises(MalformedJson):
            parse(text.encode())
        return
    found = [leaf for leaf in leaves(value) if not _is_ours(leaf)]
    if found or repeated_keys(text):
        with pytest.raises(MalformedJson):
            parse(text.encode())
    else:
        assert parse(text.encode()) == value


def leaves(value: object) -> list[object]:
    """Every scalar and key of a value."""
    if isinstance(value, dict):
        return [*value, *(leaf for inner in value.values() for leaf in leaves(inner))]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in leaves(inner)]
    return [value]


def _is_ours(leaf: object) -> bool:
    if isinstance(leaf, str):
        return "\0" not in leaf and not any("\ud800" <= c <= "\udfff" for c in leaf)
    if isinstance(leaf, int):
        return abs(leaf) <= INTEGER_MAX
    return leaf is None
