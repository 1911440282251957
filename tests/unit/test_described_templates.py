"""Templates: whatever a request holds stays a value where the operator put it."""

from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.money import Money
from reconciler.providers.http.templates import (
    BadTemplate,
    BodyTemplate,
    PathTemplate,
    Template,
    Unsendable,
    decimal_of,
    money_names,
    pieces_of,
)

TEXTS = st.text(max_size=40)
HOSTILE = [
    "..",
    ".",
    "",
    "../../admin",
    "//evil.example/x",
    "http://evil.example",
    "@evil.example",
    "a?b=c#d",
    "a/b",
    "a\\b",
    "a\r\nHost: evil.example",
    "a b",
    "%2e%2e",
    "Zoë",
    "\x00",
    "\ud800",
]


@given(TEXTS | st.sampled_from(HOSTILE))
def test_a_value_stays_one_step_of_its_path(value: str) -> None:
    """A path keeps its steps whatever stands in one of them, or the request is not sent."""
    template = PathTemplate("/v1/orders/{target}/charges", {})
    try:
        target = template.target({"target": value})
    except Unsendable:
        surrogate = any("\ud800" <= one <= "\udfff" for one in value)
        assert value in {"", ".", ".."} or surrogate
        return
    steps = target.split("/")
    assert [steps[0], *steps[1:3], steps[4]] == ["", "v1", "orders", "charges"]
    assert len(steps) == 5
    assert unquote(steps[3]) == value
    assert steps[3].isascii()
    assert not set(steps[3]) & set("?#\\ \r\n:@&")


@given(TEXTS | st.sampled_from(HOSTILE))
def test_a_value_stays_one_member_of_its_query(value: str) -> None:
    """A query keeps its members, and no value adds another one or a fragment."""
    template = PathTemplate("/search", {"key": "{action_key}", "limit": "2"})
    try:
        target = template.target({"action_key": value})
    except Unsendable:
        assert any("\ud800" <= one <= "\udfff" for one in value)
        return
    path, _, query = target.partition("?")
    assert path == "/search"
    assert parse_qsl(query, keep_blank_values=True) == [("key", value), ("limit", "2")]


@given(TEXTS | st.sampled_from(HOSTILE))
def test_a_value_stays_on_the_line_of_its_header(value: str) -> None:
    """A header's value is printable ASCII on one line, or the request is not sent."""
    template = Template("key={provider_key}")
    try:
        header = template.header({"provider_key": value})
    except Unsendable:
        assert not (value.isascii() and value.isprintable()) or value.endswith(" ")
        return
    assert header == f"key={value}"
    assert value.isascii()
    assert value.isprintable()


def test_two_values_cannot_make_a_step_upwards_together() -> None:
    """What is looked at is the whole step, not each value in it."""
    template = PathTemplate("/v1/{target}{account}", {})
    with pytest.raises(Unsendable):
        template.target({"target": ".", "account": "."})


@given(TEXTS)
def test_a_value_with_braces_is_not_a_template(value: str) -> None:
    """Values are filled in once and never read as templates themselves."""
    text = value + "{credential}"
    filled = Template("{target}!").text({"target": text, "credential": "secret"})
    assert filled == f"{text}!"


def test_a_body_keeps_the_types_of_its_values() -> None:
    """A member that is one name alone is the value; in a text it is written out."""
    names = {
        "money": money_names(Money(minor=4_990, currency="EUR")),
        "params": {"order": "A-1", "express": True, "lines": [1, 2]},
        "target": None,
        "version": 3,
    }
    body = BodyTemplate(
        {
            "amount": {"value": "{money.decimal}", "minor": "{money.minor}"},
            "memo": "order {params.order} v{version} {params.express}",
            "lines": "{params.lines}",
            "all": "{params}",
            "fixed": [1, True, "{{as it is}}"],
            "target": "{target}",
            "about": "for {target}",
        },
        "null",
    )
    assert body.value(names) == {
        "amount": {"value": "49.90", "minor": 4_990},
        "memo": "order A-1 v3 true",
        "lines": [1, 2],
        "all": {"order": "A-1", "express": True, "lines": [1, 2]},
        "fixed": [1, True, "{as it is}"],
        "target": None,
        "about": None,
    }


def test_members_without_a_value_can_be_left_out() -> None:
    """With `omit` an absent value leaves its member out, and its table when nothing is left."""
    body = BodyTemplate({"amount": {"minor": "{money.minor}"}, "kind": "x"}, "omit")
    assert body.value({"money": None}) == {"kind": "x"}
    assert body.value({"money": {"minor": 0}}) == {"amount": {"minor": 0}, "kind": "x"}


def test_a_table_cannot_be_a_text() -> None:
    """An object where a text is needed is not sent as whatever it prints like."""
    with pytest.raises(Unsendable):
        PathTemplate("/v1/{params.order}", {}).target({"params": {"order": {"id": 1}}})


@pytest.mark.parametrize(
    "text", ["{", "}", "{}", "{a", "{a..b}", "{a b}", "{0}", "{a!r}", "{a[0]}"]
)
def test_a_template_has_no_logic(text: str) -> None:
    """Only names in braces are templates; conversions, indexes and calls are mistakes."""
    with pytest.raises(BadTemplate):
        pieces_of(text)


@pytest.mark.parametrize(
    ("minor", "currency", "written"),
    [(4_990, "EUR", "49.90"), (500, "JPY", "500"), (1, "USD", "0.01"), (1_234, "KWD", "1.234")],
)
def test_amounts_are_written_with_all_their_decimals(
    minor: int, currency: str, written: str
) -> None:
    """The decimals are the currency's, always all of them."""
    assert decimal_of(Money(minor=minor, currency=currency)) == written
