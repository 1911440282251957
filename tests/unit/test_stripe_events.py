"""What Stripe's events mean, whatever order and shape they come in."""

import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.money import Money
from reconciler.matching import Matched, MatchedBy, Parked, ParkedReason, match_webhook
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.providers.stripe.mapping import SUBSCRIBED, StripeMapping

DOCUMENT = Path(__file__).parents[2] / "docs" / "STRIPE.md"
ALONE = StripeMapping(frozenset({"main"}))
SEVERAL = StripeMapping(frozenset({"main", "other"}))
MARKS = {
    "actionledger_account": "main",
    "actionledger_action_key": "charge:v1:acme:order-1",
    "actionledger_provider_key": "key-1",
}
PAYMENT = {
    "id": "pi_1",
    "object": "payment_intent",
    "amount": 10_000,
    "amount_received": 10_000,
    "amount_capturable": 0,
    "currency": "usd",
    "metadata": MARKS,
    "status": "succeeded",
}
CHARGE = {
    "id": "ch_1",
    "object": "charge",
    "amount": 10_000,
    "amount_captured": 10_000,
    "amount_refunded": 0,
    "captured": True,
    "currency": "usd",
    "metadata": MARKS,
    "payment_intent": "pi_1",
}
REFUND = {
    "id": "re_1",
    "object": "refund",
    "amount": 1_200,
    "charge": "ch_1",
    "currency": "usd",
    "metadata": {},
    "payment_intent": "pi_1",
    "status": "succeeded",
}
DISPUTE = {
    "id": "du_1",
    "object": "dispute",
    "amount": 1_200,
    "charge": "ch_1",
    "currency": "usd",
    "metadata": {},
    "payment_intent": "pi_1",
    "status": "needs_response",
}
_numbers = itertools.count(1)


def event(event_type: str, about: Mapping[str, object], **change: object) -> bytes:
    """One event about an object."""
    return json.dumps(
        {
            "id": f"evt_{next(_numbers)}",
            "object": "event",
            "created": 1_780_000_000,
            "type": event_type,
            "data": {"object": {**about, **change}},
        }
    ).encode()


def meaning(raw: bytes, mapping: StripeMapping = ALONE) -> MappedWebhook:
    """What it means; it has a meaning."""
    mapped = mapping.map(raw)
    assert isinstance(mapped, MappedWebhook), mapped
    return mapped


@pytest.mark.parametrize(
    ("event_type", "about", "change", "said"),
    [
        ("payment_intent.succeeded", PAYMENT, {}, ("final", "exists")),
        ("payment_intent.payment_failed", PAYMENT, {}, ("final", "none")),
        ("payment_intent.canceled", PAYMENT, {}, ("final", "none")),
        ("payment_intent.processing", PAYMENT, {}, ("progress", "pending")),
        ("payment_intent.requires_action", PAYMENT, {}, ("progress", "pending")),
        ("payment_intent.amount_capturable_updated", PAYMENT, {}, ("final", "exists")),
        ("payment_intent.created", PAYMENT, {}, ("irrelevant", "pending")),
        ("charge.succeeded", CHARGE, {}, ("final", "exists")),
        ("charge.succeeded", CHARGE, {"captured": False}, ("progress", "pending")),
        ("charge.failed", CHARGE, {}, ("progress", "pending")),
        ("charge.refunded", CHARGE, {}, ("irrelevant", "pending")),
        ("refund.created", REFUND, {}, ("final", "reversed")),
        ("refund.created", REFUND, {"status": "pending"}, ("progress", "pending")),
        ("refund.created", REFUND, {"metadata": MARKS}, ("final", "exists")),
        (
            "refund.created",
            REFUND,
            {"metadata": MARKS, "status": "pending"},
            ("progress", "pending"),
        ),
        ("refund.updated", REFUND, {"metadata": MARKS}, ("final", "exists")),
        ("refund.failed", REFUND, {"metadata": MARKS, "status": "failed"}, ("final", "none")),
        ("refund.failed", REFUND, {"status": "failed"}, ("final", "none")),
        ("charge.refund.updated", REFUND, {}, ("final", "reversed")),
        ("charge.dispute.created", DISPUTE, {}, ("final", "reversed")),
        (
            "charge.dispute.created",
            DISPUTE,
            {"status": "warning_needs_response"},
            ("progress", "pending"),
        ),
        ("charge.dispute.funds_withdrawn", DISPUTE, {}, ("final", "reversed")),
        ("charge.dispute.updated", DISPUTE, {}, ("progress", "pending")),
        ("charge.dispute.closed", DISPUTE, {"status": "lost"}, ("final", "reversed")),
        ("charge.dispute.closed", DISPUTE, {"status": "won"}, ("final", "none")),
        ("charge.dispute.funds_reinstated", DISPUTE, {"status": "won"}, ("final", "none")),
    ],
)
def test_each_type_has_its_meaning(
    event_type: str, about: Mapping[str, object], change: Mapping[str, object], said: object
) -> None:
    """By type, by the status of what it is about, and by whether our mark is on it."""
    mapped = meaning(event(event_type, about, **change))
    assert (mapped.meaning, mapped.effect) == said


def test_a_payment_is_named_with_all_its_marks() -> None:
    """Marker, key, account, reference and what was received, not what was asked for."""
    mapped = meaning(event("payment_intent.succeeded", PAYMENT, amount_received=9_000))
    assert (mapped.reference, mapped.action_key) == ("pi_1", MARKS["actionledger_action_key"])
    assert (mapped.provider_key, mapped.account) == ("key-1", "main")
    assert mapped.money == Money(minor=9_000, currency="USD")
    assert mapped.occurred_at == 1_780_000_000_000


def test_a_charge_is_known_by_the_name_of_its_payment() -> None:
    """Two events about one effect have one reference; a charge alone has its own."""
    assert meaning(event("charge.succeeded", CHARGE)).reference == "pi_1"
    alone = event("charge.succeeded", CHARGE, payment_intent=None)
    assert meaning(alone).reference == "ch_1"
    shown_whole = event("charge.succeeded", CHARGE, payment_intent={"id": "pi_1"})
    assert meaning(shown_whole).reference == "pi_1"


@pytest.mark.case("C079")
def test_c079_a_partial_reversal_says_how_much_and_of_what() -> None:
    """C079: a dispute of 1200 of 10000 gives back 1200, under its own name, and names the payment;
    each event of it says the same.
    """
    told = [
        meaning(event("charge.dispute.created", DISPUTE)),
        meaning(event("charge.dispute.funds_withdrawn", DISPUTE)),
        meaning(event("charge.dispute.closed", DISPUTE, status="lost")),
    ]
    assert {(one.reference, one.reverses, one.money) for one in told} == {
        ("du_1", "pi_1", Money(minor=1_200, currency="USD"))
    }
    assert {one.action_key for one in told} == {None}


@pytest.mark.case("C093")
def test_c093_a_dispute_that_closed_first_is_no_less_a_reversal() -> None:
    """C093: what an event means does not hang on what came before: lost is given back, and the
    charge that is told of later is an effect that was there.
    """
    lost = meaning(event("charge.dispute.closed", DISPUTE, status="lost"))
    late = meaning(event("charge.succeeded", CHARGE))
    assert (lost.effect, late.effect) == ("reversed", "exists")
    assert lost.reverses == late.reference


def test_an_event_speaks_for_the_account_of_its_mark_or_of_its_description() -> None:
    """Where neither says so, as of a dispute or of a refund that somebody else made, it is the one
    whose secret verified it.
    """
    marked = event("payment_intent.succeeded", PAYMENT)
    assert meaning(marked, SEVERAL).account == "main"
    strange = event("charge.dispute.created", DISPUTE)
    assert meaning(strange).account == "main"
    dispute = meaning(strange, SEVERAL)
    assert dispute.account is None
    assert match_webhook(dispute, account="other", known=["charge:v1:acme:1"]) == Matched(
        "charge:v1:acme:1", MatchedBy.REFERENCE
    )
    assert match_webhook(meaning(marked, SEVERAL), account="other", known=()) == Parked(
        ParkedReason.ACCOUNT_DIFFERS
    )


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "not_json"),
        (b"[" * 50_000, "not_json"),
        (b'{"type":7}', "no_event_type"),
        (b"{}", "no_event_type"),
        (b'{"type":"invoice.paid"}', "unknown_event_type"),
        (b'{"type":"charge.succeeded"}', "malformed_event"),
        (b"x" * (1_024 * 1_024 + 1), "too_large"),
        (event("payment_intent.succeeded", PAYMENT, amount_received=-1), "malformed_event"),
        (event("charge.dispute.created", DISPUTE, status=7), "malformed_event"),
        (event("payment_intent.succeeded", PAYMENT, currency="usdc"), "malformed_event"),
        (
            event("charge.succeeded", CHARGE, currency="isk", amount_captured=550),
            "malformed_event",
        ),
    ],
)
def test_what_has_no_meaning_is_kept_with_a_reason(raw: bytes, code: str) -> None:
    """Any bytes have an answer."""
    mapped = ALONE.map(raw)
    assert isinstance(mapped, Unrecognised)
    assert mapped.code == code


@given(
    st.sampled_from([*SUBSCRIBED, "charge.refunded", "payment_intent.created"]),
    st.dictionaries(
        st.sampled_from([*PAYMENT, *DISPUTE, "captured", "amount_captured"]),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=6)),
            lambda inner: st.dictionaries(st.sampled_from(["id", *MARKS]), inner),
            max_leaves=4,
        ),
    ),
)
def test_any_object_has_an_answer(event_type: str, about: dict[str, object]) -> None:
    """Never raised, and never money that was not told."""
    mapped = ALONE.map(event(event_type, about))
    if isinstance(mapped, MappedWebhook) and mapped.money is not None:
        assert mapped.money.minor >= 0


def test_the_document_names_what_to_subscribe_to() -> None:
    """Exactly the types that mean something, at most as many as one request may ask for."""
    block = DOCUMENT.read_text(encoding="utf-8").split("Subscribe it to:")[1].split("```")[1]
    assert sorted(re.findall(r"[a-z_]+(?:\.[a-z_]+)+", block)) == sorted(SUBSCRIBED)
    assert len(SUBSCRIBED) <= 20


def moded(livemode: object) -> bytes:
    """A payment of ours that succeeded, in an event of this mode; None for one that has none."""
    said = json.loads(event("payment_intent.succeeded", PAYMENT))
    return json.dumps(said if livemode is None else {**said, "livemode": livemode}).encode()


LIVE = StripeMapping(frozenset({"main"}), livemode=True)
TEST = StripeMapping(frozenset({"main"}), livemode=False)


@pytest.mark.parametrize(("mapping", "ours"), [(LIVE, True), (TEST, False)])
@pytest.mark.parametrize("theirs", [True, False, None, "true", 1])
def test_an_event_of_the_other_mode_means_nothing(
    mapping: StripeMapping, ours: object, theirs: object
) -> None:
    """Family hook-order: what happened in test mode bears the same marks and the same secret at an
    endpoint of Connect, and moves no money; one that does not say its mode is none of ours either.
    """
    mapped = mapping.map(moded(theirs))
    if theirs is ours:
        assert isinstance(mapped, MappedWebhook)
    else:
        assert mapped == Unrecognised("other_mode", "payment_intent.succeeded")


def test_an_event_of_a_connected_account_means_nothing() -> None:
    """Family hook-sec: its owner can write our mark into a payment of their own."""
    said = json.loads(event("payment_intent.succeeded", PAYMENT))
    theirs = json.dumps({**said, "account": "acct_1Connected"}).encode()
    assert ALONE.map(theirs) == Unrecognised("other_account", "payment_intent.succeeded")
    ours = json.dumps({**said, "account": None}).encode()
    assert isinstance(ALONE.map(ours), MappedWebhook)


def test_a_description_that_says_no_mode_takes_events_of_both() -> None:
    """Family hook-order: the keys may be of either, and nobody guesses."""
    assert all(isinstance(ALONE.map(moded(mode)), MappedWebhook) for mode in (True, False, None))
