"""What the adapter concludes from any answer of Stripe, without a server."""

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.core.money import Money
from reconciler.providers.http_exchange import AFTER_FIRST_BYTE, Answered, Broken, Trouble
from reconciler.providers.port import (
    NotSent,
    Outcome,
    ProviderRequest,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)
from reconciler.providers.stripe.amounts import money_of, stripe_amount
from reconciler.providers.stripe.outcomes import outcome_of

REQUEST = ProviderRequest(
    action_key="charge:v1:acme:order-1",
    operation="charge",
    version=1,
    target=None,
    params={},
    money=Money(minor=4_990, currency="USD"),
    account="main",
    request_hash="sha256:" + "ab" * 32,
)
MARKS = {
    "actionledger_account": "main",
    "actionledger_action_key": REQUEST.action_key,
    "actionledger_operation": "charge",
    "actionledger_request_hash": REQUEST.request_hash,
}
PAYMENT = {
    "id": "pi_1",
    "object": "payment_intent",
    "amount": 4_990,
    "amount_received": 4_990,
    "created": 1_780_000_000,
    "currency": "usd",
    "metadata": MARKS,
    "status": "succeeded",
}
REFUND = {
    "id": "re_1",
    "object": "refund",
    "amount": 4_990,
    "created": 1_780_000_000,
    "currency": "usd",
    "metadata": MARKS,
    "payment_intent": "pi_1",
    "status": "succeeded",
}


def concluded(
    value: object, status: int = 200, headers: tuple[tuple[str, str], ...] = ()
) -> Outcome:
    """What an answer with this body comes to, for a payment."""
    return outcome_of(REQUEST, Answered(status, headers, json.dumps(value).encode()), "payment")


def error(**fields: object) -> Mapping[str, object]:
    """An error object."""
    return {"error": {"type": "invalid_request_error", **fields}}


def test_a_payment_whose_money_moved_is_a_success() -> None:
    """With our marks, our amount and no personal field in what is kept."""
    outcome = concluded({**PAYMENT, "receipt_email": "zoe@example.com"})
    assert outcome == Succeeded(
        "pi_1",
        {
            "id": "pi_1",
            "object": "payment_intent",
            "status": "succeeded",
            "created": 1_780_000_000_000,
            "amount": {"minor": 4_990, "currency": "USD"},
        },
    )


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        ({"status": "processing"}, Unresolved("payment_processing")),
        ({"status": "requires_action"}, Unresolved("payment_requires_action")),
        ({"status": "of_a_later_version"}, Unresolved("payment_of_a_later_version")),
        (
            {"status": "requires_payment_method"},
            Refused("payment_requires_payment_method", Retry.NEVER),
        ),
        ({"status": "canceled"}, Refused("payment_canceled", Retry.NEVER)),
        ({"amount_received": 4_989}, Unresolved("answer_with_another_amount")),
        ({"currency": "eur"}, Unresolved("answer_with_another_amount")),
        ({"currency": "usdc"}, Unresolved("answer_with_another_amount")),
        ({"object": "refund"}, Unresolved("answer_for_another_action")),
        ({"object": "charge"}, Unresolved("answer_invalid")),
        ({"metadata": {}}, Unresolved("answer_for_another_action")),
        (
            {"metadata": {**MARKS, "actionledger_action_key": "another"}},
            Unresolved("answer_for_another_action"),
        ),
        (
            {"metadata": {**MARKS, "actionledger_account": "other"}},
            Unresolved("answer_for_another_action"),
        ),
        (
            {"metadata": {**MARKS, "actionledger_request_hash": "sha256:00"}},
            Unresolved("answer_for_another_request"),
        ),
        ({"id": ""}, Unresolved("answer_invalid")),
        ({"id": "x" * 256}, Unresolved("answer_invalid")),
        ({"amount_received": True}, Unresolved("answer_invalid")),
        ({"amount_received": -1}, Unresolved("answer_invalid")),
        ({"created": "yesterday"}, Unresolved("answer_invalid")),
    ],
)
def test_what_is_not_exactly_our_payment_is_no_success(
    change: Mapping[str, object], outcome: Outcome
) -> None:
    """Another status, amount, action or shape proves nothing, or says that nothing moved."""
    assert concluded({**PAYMENT, **change}) == outcome


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (400, error(code="parameter_missing"), Refused("parameter_missing", Retry.NEVER)),
        (400, error(), Refused("invalid_request_error", Retry.NEVER)),
        (400, error(type="idempotency_error"), Refused("idempotency_error", Retry.NEVER)),
        (400, error(code="rate_limit"), Refused("rate_limit", Retry.LATER)),
        (401, error(), Refused("invalid_request_error", Retry.NEVER)),
        (
            402,
            error(type="card_error", code="card_declined", decline_code="generic_decline"),
            Refused("card_declined", Retry.NEVER),
        ),
        (
            402,
            error(type="card_error", code="card_declined", decline_code="lost_card"),
            Refused("lost_card", Retry.NEVER),
        ),
        (402, error(payment_intent=PAYMENT), Unresolved("answer_contradicts_itself")),
        (
            402,
            error(payment_intent={**PAYMENT, "status": "processing"}),
            Unresolved("answer_contradicts_itself"),
        ),
        (
            402,
            error(code="expired_card", payment_intent={**PAYMENT, "status": "canceled"}),
            Refused("expired_card", Retry.NEVER),
        ),
        (402, error(payment_intent={"id": 7}), Unresolved("answer_contradicts_itself")),
        (403, error(), Refused("invalid_request_error", Retry.NEVER)),
        (404, error(code="resource_missing"), Refused("resource_missing", Retry.NEVER)),
        (
            409,
            error(code="idempotency_key_in_use"),
            Unresolved("idempotency_key_in_use"),
        ),
        (424, error(type="api_error"), Unresolved("api_error")),
        (429, error(code="lock_timeout"), Refused("lock_timeout", Retry.LATER)),
        (500, error(type="api_error"), Unresolved("api_error")),
        (503, {}, Unresolved("http_503")),
        (302, {}, Unresolved("http_302")),
        (201, PAYMENT, Unresolved("http_201")),
    ],
)
def test_errors_are_classed_by_what_stripe_publishes(
    status: int, body: Mapping[str, object], outcome: Outcome
) -> None:
    """Only what is documented to have had no effect is a refusal."""
    assert concluded(body, status) == outcome


@pytest.mark.parametrize("advice", ["true", "false"])
def test_advice_to_try_again_says_nothing_of_the_effect(advice: str) -> None:
    """A 500 that asks for another try is as open as one that does not, a decline as final."""
    headers = (("stripe-should-retry", advice),)
    assert concluded(error(type="api_error"), 500, headers) == Unresolved("api_error")
    declined = concluded(error(code="card_declined"), 402, headers)
    assert declined == Refused("card_declined", Retry.NEVER)


def test_a_limit_says_how_long() -> None:
    """Where Stripe says so, it is not asked before."""
    outcome = concluded(error(code="rate_limit"), 429, (("retry-after", "3"),))
    assert outcome == Refused("rate_limit", Retry.LATER, 3_000)


@pytest.mark.parametrize("trouble", list(Trouble))
def test_trouble_is_told_by_its_phase(trouble: Trouble) -> None:
    """After the first byte nothing is known, before it nothing was sent."""
    outcome = outcome_of(REQUEST, Broken(trouble), "payment")
    if trouble in AFTER_FIRST_BYTE:
        assert outcome == Unresolved(trouble.value)
    else:
        assert isinstance(outcome, NotSent)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("pending", Unresolved("refund_pending")),
        ("requires_action", Unresolved("refund_requires_action")),
        ("failed", Refused("refund_failed", Retry.NEVER)),
        ("canceled", Refused("refund_canceled", Retry.NEVER)),
    ],
)
def test_a_refund_is_one_when_it_has_arrived(status: str, outcome: Outcome) -> None:
    """Stripe takes refunds that a bank still has to send."""
    body = json.dumps({**REFUND, "status": status}).encode()
    assert outcome_of(REQUEST, Answered(200, (), body), "refund") == outcome


def test_a_refund_is_no_payment() -> None:
    """An object of the other sort is not what was asked for, in either direction."""
    refund = Answered(200, (), json.dumps(REFUND).encode())
    assert outcome_of(REQUEST, refund, "payment") == Unresolved("answer_for_another_action")
    assert isinstance(outcome_of(REQUEST, refund, "refund"), Succeeded)


@given(
    st.integers(100, 599),
    st.one_of(
        st.binary(max_size=64),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
            lambda inner: st.dictionaries(
                st.sampled_from([*PAYMENT, "error", "type", "code", "payment_intent"]), inner
            ),
            max_leaves=12,
        ).map(lambda value: json.dumps(value).encode()),
    ),
)
def test_any_answer_has_an_outcome_and_none_is_a_success(status: int, body: bytes) -> None:
    """Whatever comes back, it is named; without our marks it is never taken for our payment."""
    outcome = outcome_of(REQUEST, Answered(status, (), body), "payment")
    assert isinstance(outcome, Refused | Unresolved)


# --- amounts -------------------------------------------------------------------------------------


@pytest.mark.case("C073")
@pytest.mark.parametrize(
    ("minor", "currency", "amount"),
    [
        (4_990, "USD", 4_990),
        (500, "JPY", 500),
        (18_600, "KWD", 18_600),
        (18_605, "KWD", None),
        (5, "UGX", 500),
        (5, "ISK", 500),
        (1_200, "MGA", 12),
        (1_250, "MGA", None),
    ],
)
def test_c073_amounts_are_converted_exactly_or_not_at_all(
    minor: int, currency: str, amount: int | None
) -> None:
    """C073: what Stripe cannot be asked for is refused, never rounded."""
    money = Money(minor=minor, currency=currency)
    assert stripe_amount(money) == amount
    if amount is not None:
        assert money_of(amount, currency.lower()) == money


@given(
    st.integers(0, 10**12),
    st.sampled_from(["USD", "EUR", "JPY", "KWD", "ISK", "UGX", "MGA", "BHD", "HUF", "CLP"]),
)
def test_an_amount_that_is_sent_comes_back_as_it_was(minor: int, currency: str) -> None:
    """In every currency, there and back is the same money."""
    money = Money(minor=minor, currency=currency)
    amount = stripe_amount(money)
    assert amount is None or money_of(amount, currency.lower()) == money


def test_a_currency_of_other_letters_is_none() -> None:
    """Their capitals are those of a code: it would be money that nobody named."""
    assert money_of(100, "\N{LATIN SMALL LETTER DOTLESS I}dr") is None


def test_an_amount_with_a_fraction_of_a_unit_is_no_money_of_ours() -> None:
    """Half a króna, and currencies that ISO does not know."""
    assert money_of(550, "isk") is None
    assert money_of(100, "usdc") is None
