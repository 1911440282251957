"""A line of a statement has one form; any other bytes get a name and never an exception."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.money import Money
from ledger.log.port import Record
from ledger.log.webhook_record import (
    WebhookReceived,
    WebhookSource,
    read_webhook,
    webhook_outgoing,
)
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.statement_lines import (
    MalformedLine,
    StatementLine,
    map_statement,
    parse_line,
)
from tests.statements import received_line

LINE = StatementLine(
    line_id="po_7/31",
    reference="ch_1",
    action_key="charge:v1:acme:renewal-1",
    operation="charge",
    money=Money(minor=4_990, currency="EUR"),
    effect="exists",
    occurred_at=1_800_000_000_000,
    raw_sha256="ab" * 32,
)

lines = st.builds(
    StatementLine,
    line_id=st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
    ).map(lambda text: text[:200]),
    reference=st.sampled_from(["ch_1", "ümlaut", "😊"]),
    action_key=st.sampled_from([None, "charge:v1:acme:renewal-1"]),
    money=st.sampled_from([None, Money(minor=0, currency="JPY"), Money(minor=1, currency="KWD")]),
    effect=st.sampled_from(["exists", "none", "pending"]),
    occurred_at=st.integers(0, 2**53 - 1),
    raw_sha256=st.just("0" * 64),
)


@given(lines)
def test_a_line_comes_back_from_its_record(line: StatementLine) -> None:
    """What is written is what is read, through the record of the topic."""
    wrote = received_line(line, source="listing", provider="bank", account="main")
    read = read_webhook(Record("webhooks", 0, 0, 0, b"", webhook_outgoing(wrote).value, ()))
    assert isinstance(read, WebhookReceived)
    assert read.source == "listing"
    assert parse_line(read.raw()) == line


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_other_bytes_have_a_name(raw: bytes) -> None:
    """No bytes raise."""
    assert isinstance(parse_line(raw), MalformedLine)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"money": {"minor": 49.9, "currency": "EUR"}}, "float_refused"),
        ({"money": {"minor": -4990, "currency": "EUR"}}, "not_a_statement_line"),
        ({"money": {"minor": 4990, "currency": "EURO"}}, "not_a_statement_line"),
        ({"effect": "paid"}, "not_a_statement_line"),
        ({"line_id": ""}, "not_a_statement_line"),
        ({"line_id": "x" * 201}, "not_a_statement_line"),
        ({"raw_sha256": "AB" * 32}, "not_a_statement_line"),
        ({"fee": 12}, "not_a_statement_line"),
    ],
)
def test_a_line_that_says_something_else_is_named(change: dict[str, object], code: str) -> None:
    """A field of another form, and a field nobody declared."""
    changed = json.loads(LINE.body()) | change
    read = parse_line(json.dumps(changed, sort_keys=True, separators=(",", ":")).encode())
    assert isinstance(read, MalformedLine)
    assert read.code == code


def test_only_the_canonical_form_is_a_line() -> None:
    """The same content in other bytes would be another hash under the same id."""
    read = parse_line(json.dumps(json.loads(LINE.body())).encode())
    assert isinstance(read, MalformedLine)
    assert read.code == "not_canonical"


@pytest.mark.parametrize("source", ["settlement", "listing"])
def test_a_line_says_what_a_webhook_would(source: WebhookSource) -> None:
    """Its id is never that of one of the provider's events, and it speaks for its account."""
    mapped = map_statement(LINE.body(), source=source, account="main")
    assert isinstance(mapped, MappedWebhook)
    assert mapped.event_id == f"{source}/po_7/31"
    assert (mapped.meaning, mapped.effect, mapped.account) == ("final", "exists", "main")
    assert mapped.money == LINE.money


def test_bytes_that_are_no_line_are_kept_as_unrecognised() -> None:
    """The agent counts them by their name and goes on."""
    assert map_statement(b"{", source="listing", account="main") == Unrecognised("not_json")


def test_a_webhook_is_written_without_a_source() -> None:
    """Records of before say the same bytes, and only what is no webhook says how it came."""
    webhook = WebhookReceived.of(
        b"{}", provider="bank", account="main", event_id="evt_1", sent_at=1, headers={}
    )
    assert b'"source":"webhook"' not in webhook_outgoing(webhook).value
    line = received_line(LINE, source="settlement", provider="bank", account="main")
    assert b'"source":"settlement"' in webhook_outgoing(line).value
