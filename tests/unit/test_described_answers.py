"""Answers: a value is taken only if it is exactly of its kind."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.money import Money
from reconciler.providers.http.answers import (
    Fixed,
    MoneyAt,
    TimeUnit,
    UnreadableAnswer,
    kept,
    matches,
    path_of,
    read_json,
    recorded,
    text_at,
    time_at,
    value_at,
)
from reconciler.providers.http.pages import read_page

UNREADABLE = [
    b"",
    b"{",
    b"nonsense",
    b'{"a": 1} {"a": 2}',
    b'{"a": NaN}',
    b'{"a": -Infinity}',
    b'{"id": "ch_1", "id": "ch_2"}',
    b"\xff\xfe",
    b'"\xed\xa0\x80"',
    b'\xef\xbb\xbf\xef\xbb\xbf{"a": 1}',
    b"\xef\xbb\xbf",
    '{"a": 1}'.encode("utf-16"),
    b"[" * 200_000,
    b'{"a":' * 100_000,
]


@pytest.mark.parametrize("raw", UNREADABLE, ids=lambda raw: raw[:12].hex())
def test_bytes_without_one_meaning_are_not_read(raw: bytes) -> None:
    """Nesting, repeated members, half texts: all are one kind of trouble, and never a crash."""
    with pytest.raises(UnreadableAnswer):
        read_json(raw)


def test_a_byte_order_mark_in_front_is_passed_over() -> None:
    """Family hook-sec: it is signed with the rest and says nothing; twice, or elsewhere, it is part
    of the text.
    """
    raw = b"\xef\xbb\xbf" + '{"data": [{"id": "\ufeffch_1"}]}'.encode()
    assert read_json(raw) == {"data": [{"id": "\ufeffch_1"}]}
    assert read_page(raw, path_of("data")).items == ['{"id": "\ufeffch_1"}'.encode()]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """Nothing but the one refusal comes out."""
    try:
        read_json(raw)
    except UnreadableAnswer:
        return


def test_numbers_of_no_use_do_not_make_an_answer_unreadable() -> None:
    """A long identifier or a tiny fraction stands in the way of nothing else."""
    huge = "9" * 100_000
    answer = read_json(f'{{"id": "ch_1", "a": {huge}, "b": 1e-999999, "c": 1e999999}}'.encode())
    assert text_at(answer, path_of("id")) == "ch_1"
    assert kept(value_at(answer, path_of("a"))) is None
    assert kept(value_at(answer, path_of("b"))) == "1e-999999"
    with pytest.raises(UnreadableAnswer):
        time_at(answer, path_of("c"), "seconds")


@pytest.mark.parametrize(
    ("path", "value"),
    [("a.b", 1), ("list.1.id", "y"), ("list.2.id", None), ("list.-1", None), ("a.b.c", None)],
)
def test_a_path_goes_through_objects_and_lists(path: str, value: object) -> None:
    """What is not there is None; nothing counts from the end."""
    answer = {"a": {"b": 1}, "list": [{"id": "x"}, {"id": "y"}]}
    assert value_at(answer, path_of(path)) == value


def test_the_empty_path_is_the_answer_itself() -> None:
    """An answer that is the object has no envelope."""
    assert value_at({"id": 1}, path_of("")) == {"id": 1}


@pytest.mark.parametrize("value", [True, {}, [], "", "x" * 256, "a\0b", "\ud800", 1.5])
def test_a_reference_that_is_no_short_text_is_refused(value: object) -> None:
    """What would be recorded as a reference has to be one."""
    with pytest.raises(UnreadableAnswer):
        text_at({"id": value}, path_of("id"))


def test_a_number_can_be_a_reference() -> None:
    """Many providers number their objects."""
    assert text_at({"id": 1842}, path_of("id")) == "1842"


@pytest.mark.parametrize(
    ("value", "unit", "money"),
    [
        ("4990", "minor", 4_990),
        ("4990", "decimal", 499_000),
        ('"49.90"', "decimal", 4_990),
        ("49.90", "decimal", 4_990),
        ("49.9", "decimal", 4_990),
        ('"4990"', "minor", 4_990),
        ("0.1", "decimal", 10),
    ],
)
def test_amounts_are_exact(value: str, unit: str, money: int) -> None:
    """Minor units or decimals, as numbers or texts, without a float in between."""
    at = MoneyAt(path_of("v"), "minor" if unit == "minor" else "decimal", Fixed("eur"))
    assert at.read(read_json(f'{{"v": {value}}}'.encode())) == Money(minor=money, currency="EUR")


@pytest.mark.parametrize("value", ["49.905", '"1e3"', "-1", '"-0.10"', "true", '"4,990"', "{}"])
def test_an_amount_that_is_none_is_not_guessed(value: str) -> None:
    """Parts of a cent, signs and other writings are unreadable, never rounded."""
    at = MoneyAt(path_of("v"), "decimal", Fixed("EUR"))
    with pytest.raises(UnreadableAnswer):
        at.read(read_json(f'{{"v": {value}}}'.encode()))


@pytest.mark.parametrize(
    ("value", "unit", "minor"),
    [
        ("-4990", "minor", 4_990),
        ('"-4990"', "minor", 4_990),
        ("-49.90", "decimal", 4_990),
        ('"-49.90"', "decimal", 4_990),
        ("49.90", "decimal", 4_990),
        ("-0", "minor", 0),
        ('"--1"', "minor", None),
        ("true", "minor", None),
        ("-49.905", "decimal", None),
        ("-90071992547409.910000000000000000001", "decimal", None),
    ],
)
def test_a_minus_says_nothing_where_the_description_says_so(
    value: str, unit: str, minor: int | None
) -> None:
    """Banks write what leaves an account with one; the type says already what it is."""
    at = MoneyAt(path_of("v"), "minor" if unit == "minor" else "decimal", Fixed("eur"), "ignored")
    answer = read_json(f'{{"v": {value}}}'.encode())
    if minor is None:
        with pytest.raises(UnreadableAnswer):
            at.read(answer)
    else:
        assert at.read(answer) == Money(minor=minor, currency="EUR")


def test_half_an_amount_is_unreadable_and_none_is_none() -> None:
    """An amount without its currency is no amount, and no amount at all is fine."""
    at = MoneyAt(path_of("v.minor"), "minor", path_of("v.currency"))
    assert at.read({"v": None}) is None
    for half in ({"minor": 1}, {"currency": "EUR"}, {"minor": 1, "currency": "XXX"}):
        with pytest.raises(UnreadableAnswer):
            at.read({"v": half})


@pytest.mark.parametrize(
    ("value", "unit", "at"),
    [
        (1_700_000_000_123, "milliseconds", 1_700_000_000_123),
        (1_700_000_000, "seconds", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123Z", "rfc3339", 1_700_000_000_123),
        ("2023-11-14T23:13:20+01:00", "rfc3339", 1_700_000_000_000),
    ],
)
def test_times_are_milliseconds(value: object, unit: TimeUnit, at: int) -> None:
    """Each way of writing a time comes out as the same number."""
    assert time_at({"at": value}, path_of("at"), unit) == at


def test_a_time_in_fractions_of_seconds_is_read() -> None:
    """Seconds with decimals are exact too."""
    assert time_at(read_json(b"[1700000000.123]"), path_of("0"), "seconds") == 1_700_000_000_123


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2016-12-31T23:59:60Z", 1_483_228_800_000),
        ("2017-01-01T00:59:60.250+01:00", 1_483_228_800_250),
        ("2023-11-14t22:13:20z", 1_700_000_000_000),
        ("2023-11-14 22:13:20-00:00", 1_700_000_000_000),
    ],
)
def test_whatever_rfc_3339_allows_is_a_time(text: str, at: int) -> None:
    """Family `late`, beside C085: a leap second or a small letter makes no answer unreadable, and
    keeps no webhook from its action.
    """
    assert time_at({"at": text}, path_of("at"), "rfc3339") == at


@pytest.mark.parametrize(
    "text", ["2023-11-14T22:60:00Z", "2023-11-14T60:00:00Z", "2023-11-14T22:13:61Z", "60"]
)
def test_only_the_second_that_is_put_in_is_a_sixtieth(text: str) -> None:
    """Sixty minutes are no minute of an hour."""
    with pytest.raises(UnreadableAnswer):
        time_at({"at": text}, path_of("at"), "rfc3339")


@pytest.mark.parametrize("value", [None, -1, "2023-11-14", "2023-11-14T22:13:20", "soon", True])
@pytest.mark.parametrize("unit", ["milliseconds", "rfc3339"])
def test_a_time_that_is_none_is_refused(value: object, unit: TimeUnit) -> None:
    """A time without an offset could be any of twenty-four."""
    with pytest.raises(UnreadableAnswer):
        time_at({"at": value}, path_of("at"), unit)


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("card_declined", "card_declined"),
        ("Card-Declined", "card_declined"),
        ("E.1042", "e_1042"),
        ("!!", None),
        ("x" * 65, None),
        (None, None),
    ],
)
def test_a_providers_word_becomes_a_code(said: str | None, code: str | None) -> None:
    """What cannot be recorded as a code gives way to the status."""
    assert recorded(said) == code


def test_true_is_not_one() -> None:
    """A condition on an answer compares JSON values, not Python's idea of them."""
    assert matches(value=True, expected=True)
    assert not matches(value=True, expected=1)
    assert not matches(value="1", expected=1)


@given(st.recursive(st.none() | st.text() | st.integers() | st.booleans(), st.lists))
def test_what_is_kept_is_small_and_plain(value: object) -> None:
    """The ledger keeps scalars it can record, whatever a provider sends."""
    one = kept(value)
    assert one is None or len(json.dumps(one)) <= 6 * 255 + 2
