"""A description of Stripe is whole or refused by line, and what it writes is what is sent."""

import dataclasses
import io
from pathlib import Path

import pytest

from ledger.core.mistakes import Mistake
from ledger.core.money import Money
from reconciler.providers.http.templates import Unsendable
from reconciler.providers.http_exchange import Message
from reconciler.providers.port import IMPOSSIBLE, POSSIBLE, ProviderRequest, Reliability, Remembered
from reconciler.providers.registry import ProviderSettings, capabilities
from reconciler.providers.settlement import Columns, read_settlement
from reconciler.providers.stripe.description import StripeDescription, parse_stripe
from reconciler.providers.stripe.forms import UnwritableForm, decode, encode
from reconciler.providers.stripe.performer import message_of
from reconciler.providers.stripe.simulated.objects import Shelf, Thing
from reconciler.providers.stripe.simulated.reports import payout_report
from reconciler.settlement_files import IrrelevantLine, Stated, read_file

EXAMPLE = Path(__file__).parents[2] / "examples" / "providers" / "stripe.toml"
REQUEST = ProviderRequest(
    action_key="charge:v1:acme:order-1",
    operation="charge",
    version=1,
    target=None,
    params={"customer": "cus_1", "payment_method": "pm_1", "order": "A-1"},
    money=Money(minor=4_990, currency="EUR"),
    account="main",
    request_hash="sha256:" + "ab" * 32,
)


def described(text: str | None = None) -> StripeDescription:
    """The example, or another description without mistakes."""
    parsed = parse_stripe(EXAMPLE.read_text(encoding="utf-8") if text is None else text)
    assert isinstance(parsed, StripeDescription), parsed
    return parsed


def written(request: ProviderRequest, key: str = "key-1") -> Message:
    """What is sent for a request by the example."""
    return message_of(described().performs[request.operation], request, key, "rk_test_1")


def test_the_example_says_what_stripe_promises() -> None:
    """Every question is answered: what Stripe publishes, and what only an account shows."""
    settings = ProviderSettings("stripe", "stripe", adapter_file=EXAMPLE)
    can = capabilities([settings])["stripe"]
    assert can.reliability is Reliability.KEYED
    assert (can.key_window_ms, can.key_chars_max) == (86_400_000, 255)
    assert can.remembers == frozenset(Remembered)
    assert can.replay_proven is IMPOSSIBLE
    assert can.settle_horizon_ms == 600_000
    proven = EXAMPLE.read_text(encoding="utf-8").replace(
        'replay_proven = "impossible"', 'replay_proven = "possible"'
    )
    assert described(proven).replay_proven is POSSIBLE


def test_the_same_request_is_the_same_bytes() -> None:
    """In the order of names, whatever the order of the request's own parameters."""
    turned = dataclasses.replace(REQUEST, params=dict(reversed(list(REQUEST.params.items()))))
    assert written(REQUEST) == written(turned)


def test_what_decides_whether_money_moves_is_written_by_us() -> None:
    """At once, without the customer, and in Stripe's own units; absent parameters are left out."""
    message = written(REQUEST)
    form = decode(message.body)
    assert message.path == "/v1/payment_intents"
    assert (
        form.items()
        >= {
            "amount": "4990",
            "confirm": "true",
            "currency": "eur",
            "error_on_requires_action": "true",
            "off_session": "true",
        }.items()
    )
    assert "description" not in form
    assert dict(message.headers)["Idempotency-Key"] == "key-1"
    assert "rk_test_1" not in repr(message)


@pytest.mark.parametrize(
    ("original", "parameter"), [("pi_1", "payment_intent"), ("ch_1", "charge"), ("py_1", "charge")]
)
def test_a_refund_names_what_it_gives_back(original: str, parameter: str) -> None:
    """The payment that the action undoes, or its charge."""
    refund = dataclasses.replace(REQUEST, operation="refund", original_reference=original)
    message = written(refund)
    assert message.path == "/v1/refunds"
    form = decode(message.body)
    assert form[parameter] == original
    assert "currency" not in form


@pytest.mark.parametrize(
    "change",
    [
        {"money": None},
        {"money": Money(minor=18_605, currency="KWD")},
        {"operation": "refund"},
        {"operation": "refund", "original_reference": "in_1"},
        {"params": {"order": ["A-1"] * 300}},
        {"params": {"order": 4.5}},
        {"action_key": "x" * 501},
    ],
)
def test_what_cannot_be_said_to_stripe_is_not_sent(change: dict[str, object]) -> None:
    """No amount, one that Stripe cannot be asked for, a refund of nothing, a value that is none."""
    request = dataclasses.replace(REQUEST, **change)  # type: ignore[arg-type]
    with pytest.raises((Unsendable, UnwritableForm)):
        written(request)


def test_a_key_that_stripe_does_not_take_is_not_sent() -> None:
    """Keys have at most 255 characters."""
    with pytest.raises(Unsendable):
        written(REQUEST, "k" * 256)


def mistakes(text: str) -> list[tuple[int, str]]:
    """Line and path of every mistake."""
    parsed = parse_stripe(text)
    assert isinstance(parsed, tuple), parsed
    assert all(isinstance(one, Mistake) for one in parsed)
    return [(one.line, one.path) for one in parsed]


HEAD = 'format = 1\nkind = "stripe"\nsettle_horizon_ms = 1\nreplay_proven = "possible"\n'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("format = 1\n", {"kind", "settle_horizon_ms", "replay_proven", "perform"}),
        (HEAD + "[perform]\n", {"perform"}),
        (
            HEAD + 'shared_accounts = ["a b"]\n[perform.a]\nmakes = "payment"\n',
            {"shared_accounts[0]"},
        ),
        (HEAD + '[perform.a]\nmakes = "capture"\n', {"perform.a.makes"}),
        (HEAD + '[perform.a]\nmakes = "payment"\nof = "{params.b}"\n', {"perform.a.of"}),
        (
            HEAD + '[perform.a]\nmakes = "payment"\n[perform.a.parameters]\nconfirm = false\n',
            {"perform.a.parameters.confirm"},
        ),
        (
            HEAD
            + '[perform.a]\nmakes = "payment"\n[perform.a.parameters]\ncustomer = "{nobody}"\n',
            {"perform.a.parameters"},
        ),
        (
            HEAD
            + '[perform.a]\nmakes = "payment"\n'
            + '[perform.a.parameters.metadata]\nactionledger_action_key = "x"\n',
            {"perform.a.parameters.metadata.actionledger_action_key"},
        ),
        (
            HEAD + '[perform.a]\nmakes = "payment"\n[perform.a.parameters]\nmetadata = "x"\n',
            {"perform.a.parameters.metadata"},
        ),
        (
            HEAD.replace("= 1\nreplay", '= "soon"\nreplay') + '[perform.a]\nmakes = "payment"\n',
            {"settle_horizon_ms"},
        ),
        (
            HEAD + 'base_url = "https://sk_live@api.stripe.com"\n[perform.a]\nmakes = "payment"\n',
            {"base_url"},
        ),
        (HEAD + 'livemode = "yes"\n[perform.a]\nmakes = "payment"\n', {"livemode"}),
        (
            HEAD + '[perform.a]\nmakes = "payment"\n[credentials]\n"a b" = "file"\n',
            {"credentials.a b"},
        ),
    ],
)
def test_a_mistake_is_told_by_its_place(text: str, found: set[str]) -> None:
    """Nothing is repaired, and nothing of ours can be described away."""
    assert {path for _, path in mistakes(text)} == found


def test_no_message_quotes_a_secret() -> None:
    """Whoever writes one where it does not belong does not read it in a log."""
    text = HEAD + 'base_url = "https://sk_live_1@a.b"\n[perform.a]\nmakes = "payment"\n'
    parsed = parse_stripe(text)
    assert isinstance(parsed, tuple)
    assert not any("sk_live_1" in str(one) for one in parsed)


@pytest.mark.parametrize("value", [4.5, b"raw", {"": 1}, {"a[b": 1}, {1: 2}, object()])
def test_a_form_holds_texts_numbers_and_nothing_else(value: object) -> None:
    """What has no one way to be written is refused with its place."""
    with pytest.raises(UnwritableForm) as refused:
        encode({"metadata": value})
    assert refused.value.path == "metadata"


@pytest.mark.parametrize("raw", [b"a", b"a=1&a=2", b"a[b]=1&a=2", b"\xff=1", b"[b]=1"])
def test_a_form_that_is_none_is_refused(raw: bytes) -> None:
    """The simulated Stripe takes only what has one meaning."""
    with pytest.raises(ValueError, match=r".*"):
        decode(raw)


def test_the_payout_report_is_read_by_the_columns_of_the_example() -> None:
    """Payments are stated with their marker, their name and what the customer paid."""
    columns = read_settlement(EXAMPLE)
    assert isinstance(columns, Columns)
    marks = {"metadata.actionledger_action_key": REQUEST.action_key}
    shelf = Shelf()
    payment = Thing(
        "pi_1", "main", "payment_intent", 4_990, "EUR", "succeeded", 1_780_000_000_000, marks
    )
    refund = Thing(
        "re_1", "main", "refund", 990, "EUR", "succeeded", 1_780_000_001_000, {}, of="pi_1"
    )
    for thing in (payment, refund):
        shelf.put(thing)
    report = io.BytesIO(payout_report(shelf, "main", "po_1").encode())
    first, second = read_file(report, columns, "csv")
    assert isinstance(first, Stated)
    assert (first.line.reference, first.line.effect) == ("pi_1", "exists")
    assert first.line.action_key == REQUEST.action_key
    assert first.line.money == REQUEST.money
    assert first.line.occurred_at == 1_780_000_000_000
    assert isinstance(second, IrrelevantLine)
