"""The strict reader: every text has one meaning or one named refusal."""

import json
import time

import pytest

from ledger.core.limits import INTEGER_MAX, INTENT_BYTES_MAX, JSON_DEPTH_MAX, PATH_CHARS_MAX
from ledger.core.strict_json import JsonFault, MalformedJson, parse


def refusal(raw: bytes) -> MalformedJson:
    """How a text is refused."""
    with pytest.raises(MalformedJson) as refused:
        parse(raw)
    return refused.value


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '""',
        "0",
        "-0",
        "true",
        "null",
        f"[{INTEGER_MAX},-{INTEGER_MAX}]",
        ' \t\r\n{"a" : [1, {"b": null}, "\\u00e9\\ud83d\\ude00"]}\n',
        '{"text":"with \\"quotes\\", [brackets] and {braces}","":""}',
        '{"a":{"x":1},"b":{"x":1}}',
    ],
)
def test_valid_texts_mean_what_they_mean_elsewhere(text: str) -> None:
    """A text that is accepted has the value that any JSON reader gives it."""
    assert parse(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("raw", "code", "path"),
    [
        (b"", JsonFault.NOT_JSON, ""),
        (b"   ", JsonFault.NOT_JSON, ""),
        (b"{", JsonFault.NOT_JSON, ""),
        (b'{"a":}', JsonFault.NOT_JSON, "/a"),
        (b'{"a":[1,2,}', JsonFault.NOT_JSON, "/a/2"),
        (b'{"a":"x', JsonFault.NOT_JSON, "/a"),
        (b'{"a":"\x01"}', JsonFault.NOT_JSON, "/a"),
        (b'{"a":01}', JsonFault.NOT_JSON, "/a"),
        (b'{"a":+1}', JsonFault.NOT_JSON, "/a"),
        (b'{"a":.5}', JsonFault.NOT_JSON, "/a"),
        (b'{"a":True}', JsonFault.NOT_JSON, "/a"),
        (b'{"a":"\\x"}', JsonFault.NOT_JSON, "/a"),
        (b'{"a":1} {"a":1}', JsonFault.TRAILING_DATA, ""),
        (b"1 2", JsonFault.TRAILING_DATA, ""),
        (b'{"a":1,"b":2,"a":3}', JsonFault.DUPLICATE_KEY, "/a"),
        (b'{"x":[{},{"a":1,"\\u0061":2}]}', JsonFault.DUPLICATE_KEY, "/x/1/a"),
        (b'{"a":{"b":1.5}}', JsonFault.FLOAT_REFUSED, "/a/b"),
        (b'{"a":[0,1e3]}', JsonFault.FLOAT_REFUSED, "/a/1"),
        (b'{"a":"1.5","b":1E400}', JsonFault.FLOAT_REFUSED, "/b"),
        (b"-0.0", JsonFault.FLOAT_REFUSED, ""),
        (b'{"n":9007199254740992}', JsonFault.INTEGER_TOO_LARGE, "/n"),
        (b'{"n":[1,-9007199254740992]}', JsonFault.INTEGER_TOO_LARGE, "/n/1"),
        (b'{"n":100000000000000000000}', JsonFault.INTEGER_TOO_LARGE, "/n"),
        (b'{"s":NaN}', JsonFault.NOT_A_NUMBER, "/s"),
        (b'{"s":[Infinity]}', JsonFault.NOT_A_NUMBER, "/s/0"),
        (b'{"s":"NaN","t":-Infinity}', JsonFault.NOT_A_NUMBER, "/t"),
        (b'{"a":"\\u0000"}', JsonFault.NUL_CHARACTER, "/a"),
        (b'{"\\u0000":1}', JsonFault.NUL_CHARACTER, "/\\u0000"),
        (b'{"a":"\0"}', JsonFault.NUL_CHARACTER, ""),
        (b'{"a":["\\ud83d"]}', JsonFault.LONE_SURROGATE, "/a/0"),
        (b'{"a":"\\ude00\\ud83d"}', JsonFault.LONE_SURROGATE, "/a"),
        (b'{"a":"\xff"}', JsonFault.NOT_UTF8, ""),
        (b'{"a":"\xed\xa0\x80"}', JsonFault.NOT_UTF8, ""),
        (b'{"a":"\xc0\x80"}', JsonFault.NOT_UTF8, ""),
        ('{"a":1}'.encode("utf-16"), JsonFault.NUL_CHARACTER, ""),
        (b"\xef\xbb\xbf{}", JsonFault.BYTE_ORDER_MARK, ""),
        (b'{"a~/b":{"c":1.5}}', JsonFault.FLOAT_REFUSED, "/a~0~1b/c"),
    ],
)
def test_every_fault_has_its_name_and_place(raw: bytes, code: JsonFault, path: str) -> None:
    """A refusal says what is wrong, where, and what to do about it."""
    refused = refusal(raw)
    assert (refused.code, refused.path) == (code, path)
    assert refused.hint in str(refused)


@pytest.mark.parametrize("fault", list(JsonFault))
def test_every_fault_says_what_to_do(fault: JsonFault) -> None:
    """No refusal leaves the caller without a next step."""
    assert MalformedJson(fault).hint


@pytest.mark.case("C179")
def test_c179_numbers_that_languages_print_differently_are_refused() -> None:
    """Fractions and exponents are refused, also where their value is whole: send a string."""
    assert refusal(b'{"x":1.2345678901234567}').code is JsonFault.FLOAT_REFUSED
    assert refusal(b'{"qty":1e6}').code is JsonFault.FLOAT_REFUSED
    assert refusal(b'{"qty":1000000.0}').code is JsonFault.FLOAT_REFUSED
    assert parse(b'{"qty":1000000}') == {"qty": 1000000}


@pytest.mark.case("C183")
def test_c183_half_a_character_is_refused_at_the_door() -> None:
    """A text that was cut in the middle of an emoji does not get in."""
    refused = refusal(b'{"params":{"text":"hi \\ud83d"}}')
    assert (refused.code, refused.path) == (JsonFault.LONE_SURROGATE, "/params/text")
    assert parse(b'{"text":"hi \\ud83d\\ude00"}') == {"text": "hi \U0001f600"}


@pytest.mark.case("C187")
def test_c187_nan_and_numbers_beyond_floats_are_refused() -> None:
    """NaN, Infinity and an exponent beyond every float never become a value."""
    assert refusal(b'{"score":NaN}').code is JsonFault.NOT_A_NUMBER
    assert refusal(b'{"score":1e400}').code is JsonFault.FLOAT_REFUSED


@pytest.mark.case("C189")
def test_c189_a_real_nul_is_refused_and_the_literal_text_is_kept() -> None:
    """The six characters of an escape, meant literally, are not mistaken for the NUL they spell."""
    assert refusal(b'{"a":"x\\u0000"}').code is JsonFault.NUL_CHARACTER
    assert parse(b'{"a":"x\\\\u0000"}') == {"a": "x\\u0000"}
    assert parse(b'{"a":"x\\\\ud83d"}') == {"a": "x\\ud83d"}
    assert refusal(b'{"a":"x\\\\\\u0000"}').code is JsonFault.NUL_CHARACTER


def test_depth_is_bounded_exactly() -> None:
    """As many levels as allowed are read, one more is refused; brackets in texts do not count."""
    at_limit = b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX
    assert parse(at_limit) is not None
    refused = refusal(b"[" + at_limit + b"]")
    assert (refused.code, refused.path) == (JsonFault.TOO_DEEP, "/0" * JSON_DEPTH_MAX)
    assert parse(b'{"a":"' + b"[{" * 100 + b'"}') == {"a": "[{" * 100}
    assert parse(b"[" + b",".join([b"[]"] * 100) + b"]") == [[]] * 100
    assert parse(b"[[1]]", depth_max=2) == [[1]]
    with pytest.raises(MalformedJson):
        parse(b"[[[1]]]", depth_max=2)


def test_size_is_bounded_exactly() -> None:
    """A text of the largest size is read, one byte more is refused unread."""
    largest = b'"' + b"x" * (INTENT_BYTES_MAX - 2) + b'"'
    assert parse(largest) == "x" * (INTENT_BYTES_MAX - 2)
    assert refusal(largest + b" ").code is JsonFault.TOO_LARGE
    assert parse(largest + b" ", bytes_max=INTENT_BYTES_MAX + 1) == "x" * (INTENT_BYTES_MAX - 2)


def test_paths_are_bounded_and_visible() -> None:
    """A key that a caller made up cannot flood or disguise the refusal that names it."""
    assert refusal(b'{"a\\u202eb":1.5}').path == "/a\\u202eb"
    refused = refusal(b'{"' + b"k" * 5_000 + b'":1.5}')
    assert len(refused.path) == PATH_CHARS_MAX
    assert refused.path.endswith("…")


HALF = INTENT_BYTES_MAX // 2


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"[" * INTENT_BYTES_MAX, JsonFault.TOO_DEEP),
        (b'{"a":' * (INTENT_BYTES_MAX // 5), JsonFault.TOO_DEEP),
        (b'[[[["' * 20 + b'\\"' * (HALF - 60), JsonFault.TOO_DEEP),
        (b"9" * INTENT_BYTES_MAX, JsonFault.INTEGER_TOO_LARGE),
        (b"0." + b"9" * (INTENT_BYTES_MAX - 2), JsonFault.FLOAT_REFUSED),
        (b'"' + b'\\"' * (HALF - 1), JsonFault.NOT_JSON),
        (b'["' * HALF, JsonFault.TOO_DEEP),
        (b"]" * HALF + b"[" * HALF, JsonFault.NOT_JSON),
        (b"[" + b"[]," * (INTENT_BYTES_MAX // 3 - 1), JsonFault.NOT_JSON),
        (b"[" + b'"",' * (INTENT_BYTES_MAX // 3 - 1) + b"1.5", JsonFault.FLOAT_REFUSED),
        (b"[" + b'"\\u0000",' * (INTENT_BYTES_MAX // 10) + b"1]", JsonFault.NUL_CHARACTER),
        (b"{" + b'"a":1,' * (INTENT_BYTES_MAX // 6 - 1) + b'"a":1}', JsonFault.DUPLICATE_KEY),
    ],
)
def test_hostile_texts_cost_no_more_than_reading_them(raw: bytes, code: JsonFault) -> None:
    """The largest texts made to hurt are refused by name in a fraction of a second each."""
    took: list[float] = []
    # The quickest counts: a virtual processor that is taken away goes on counting for us.
    for _ in range(3):
        began = time.process_time()
        assert refusal(raw).code is code
        took.append(time.process_time() - began)
    assert min(took) < 0.5
