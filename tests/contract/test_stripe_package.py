"""Stripe's own package as the oracle: what it sends, what it makes of errors, and how it signs.

It is no part of what runs (decision 27); here it says whether the adapter and the simulated Stripe
speak as Stripe's clients do.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
import stripe as package
from hypothesis import given
from hypothesis import strategies as st

from reconciler.providers.http_exchange import Answered
from reconciler.providers.port import Absent, Found, Refused, Retry, Succeeded, Unresolved
from reconciler.providers.stripe.description import StripeDescription, parse_stripe
from reconciler.providers.stripe.forms import decode, encode
from reconciler.providers.stripe.outcomes import outcome_of
from reconciler.providers.stripe.performer import message_of
from reconciler.providers.stripe.simulated.events import signed
from reconciler.schemes import STRIPE
from reconciler.webhooks import Verified, WebhookProblem, WebhookRejected
from tests.contract.stripe_shop import Shop
from tests.contract.stripe_stage import DESCRIPTION, StripeStage
from tests.contract.suite_stages import request_of

NOW = 1_780_000_000_000
SECRET: Final = "whsec_WmPfPqGJDkYGvRkyVJ2hqqGDT0lQ3LsC"
BODIES = ('{"id":"evt_1"}', '{"name":"Zoë, 東京 😊"}', '{"line":"\u2028"}', "{}")


# --- requests ------------------------------------------------------------------------------------


class Caught(package.HTTPClient):
    """Stands where the package's connection stands, and keeps what would be sent."""

    name = "caught"

    def __init__(self) -> None:
        """Nothing was sent yet."""
        super().__init__()
        self.sent: list[tuple[str, str, Mapping[str, str], object]] = []

    def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str] | None,
        post_data: object = None,
        **_: object,
    ) -> tuple[str, int, Mapping[str, str]]:
        """Keep it, and answer that all is well."""
        self.sent.append((method, url, dict(headers or {}), post_data))
        return '{"id":"pi_1","object":"payment_intent"}', 200, {"Request-Id": "req_1"}

    def close(self) -> None:
        """Nothing is open."""


def ours() -> tuple[str, dict[str, str], bytes]:
    """What the adapter sends for a payment."""
    described = parse_stripe(DESCRIPTION)
    assert isinstance(described, StripeDescription)
    request = request_of("main", "charge:v1:acme:order-1", 4_990, "charge")
    message = message_of(described.performs["charge"], request, "key-1", "sk_test_main")
    return message.path, dict(message.headers), message.body


PARAMETERS: Final[Any] = {
    "amount": 4_990,
    "confirm": True,
    "currency": "usd",
    "description": "Zoë, 東京",
    "error_on_requires_action": True,
    "off_session": True,
    "payment_method": "pm_card_visa",
    "metadata": {
        "order": "A-1842",
        "actionledger_account": "main",
        "actionledger_action_key": "charge:v1:acme:order-1",
        "actionledger_operation": "charge",
        "actionledger_provider_key": "key-1",
        "actionledger_request_hash": f"sha256:{4_990:064x}",
    },
}


def test_the_package_sends_the_same_payment() -> None:
    """Address, version, key and parameters are those that Stripe's client sends for it."""
    caught = Caught()
    client = package.StripeClient("sk_test_main", http_client=caught, max_network_retries=0)
    client.v1.payment_intents.create(PARAMETERS, {"idempotency_key": "key-1"})
    [(method, url, headers, body)] = caught.sent
    path, our_headers, our_body = ours()
    assert (method.upper(), url) == ("POST", f"https://api.stripe.com{path}")
    for name in ("Authorization", "Idempotency-Key", "Content-Type", "Stripe-Version"):
        assert our_headers[name] == headers[name]
    assert decode(str(body).encode()) == decode(our_body)


def test_the_package_says_more_the_second_time() -> None:
    """Why it does not make our requests: the same request under the same key is other bytes."""
    caught = Caught()
    client = package.StripeClient("sk_test_main", http_client=caught, max_network_retries=0)
    for _ in range(2):
        client.v1.payment_intents.create(PARAMETERS, {"idempotency_key": "key-1"})
    first, second = (headers for _, _, headers, _ in caught.sent)
    assert second.keys() - first.keys() == {"X-Stripe-Client-Telemetry"}
    assert ours() == ours()


SCALARS = st.one_of(st.integers(), st.text(st.characters(codec="utf-8"), max_size=8))
TREES = st.recursive(
    st.one_of(SCALARS, st.booleans()),
    lambda inner: st.one_of(
        # In a list the package writes yes and no as Python does, which Stripe does not read.
        st.lists(SCALARS, min_size=1, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b_c", "order", "x-1"]), inner, min_size=1),
    ),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["amount", "metadata", "expand", "shipping"]), TREES))
def test_forms_are_those_of_the_package(parameters: dict[str, object]) -> None:
    """Nested tables, lists, yes and no: the same pairs, whatever the values."""
    caught = Caught()
    client = package.StripeClient("sk_test_main", http_client=caught, max_network_retries=0)
    client.v1.payment_intents.create(parameters)  # type: ignore[arg-type]
    [(_, _, _, body)] = caught.sent
    assert decode(str(body or "").encode()) == decode(encode(parameters))


# --- the package before the simulated Stripe -----------------------------------------------------


def client_of(shop: Shop, api_key: str | None = None) -> package.StripeClient:
    """Stripe's client for an account of the simulated one."""
    return package.StripeClient(
        api_key or f"sk_test_{shop.account}",
        base_addresses={"api": shop.stage.process.url},
        max_network_retries=0,
    )


async def test_the_package_reads_what_the_adapter_made(stripe: StripeStage) -> None:
    """The simulated Stripe answers Stripe's client, and both see the same payment."""
    shop = Shop(stripe)
    request = shop.payment()
    outcome = await shop.perform(request)
    assert isinstance(outcome, Succeeded)
    client = client_of(shop)
    read = await asyncio.to_thread(client.v1.payment_intents.retrieve, outcome.reference)
    assert (read.status, read.amount_received, read.currency) == ("succeeded", 4_990, "usd")
    assert read.metadata["actionledger_action_key"] == request.action_key
    again = await asyncio.to_thread(
        lambda: client.v1.payment_intents.search(
            {"query": f"metadata['actionledger_action_key']:'{request.action_key}'"}
        )
    )
    assert [one.id for one in again.data] == [outcome.reference]


async def test_the_adapter_finds_what_the_package_made(stripe: StripeStage) -> None:
    """With our marks on it a payment is ours, whoever sent the request."""
    shop = Shop(stripe)
    request = shop.payment()
    assert await shop.find(request) == Absent()
    marks = {"actionledger_action_key": request.action_key}
    made = await asyncio.to_thread(
        lambda: client_of(shop).v1.payment_intents.create(
            {
                "amount": 4_990,
                "currency": "usd",
                "confirm": True,
                "payment_method": "pm_card_visa",
                "metadata": marks,
            }
        )
    )
    found = await shop.find(request)
    assert isinstance(found, Found)
    assert found.reference == made.id


Attempt = Callable[[Shop], object]
ERRORS: list[tuple[str, Attempt, type[package.StripeError], Refused | Unresolved]] = [
    (
        "a decline",
        lambda shop: _pay(shop, "pm_card_visa_chargeDeclinedInsufficientFunds"),
        package.CardError,
        Refused("insufficient_funds", Retry.NEVER),
    ),
    (
        "a parameter that is none",
        lambda shop: _pay(shop, "pm_card_visa", currency="xyz"),
        package.InvalidRequestError,
        Refused("invalid_request_error", Retry.NEVER),
    ),
    (
        "another request under a key",
        lambda shop: [_pay(shop, "pm_card_visa", amount=one, key="k") for one in (100, 200)],
        package.IdempotencyError,
        Refused("idempotency_error", Retry.NEVER),
    ),
    (
        "an account that is none",
        lambda shop: _pay(shop, "pm_card_visa", api_key="nobody"),
        package.AuthenticationError,
        Refused("invalid_request_error", Retry.NEVER),
    ),
    (
        "a refund of nothing",
        lambda shop: client_of(shop).v1.refunds.create({"payment_intent": "pi_77"}),
        package.InvalidRequestError,
        Refused("resource_missing", Retry.NEVER),
    ),
]


def _pay(
    shop: Shop,
    method: str,
    amount: int = 4_990,
    currency: str = "usd",
    key: str = "key-1",
    api_key: str | None = None,
) -> object:
    return client_of(shop, api_key).v1.payment_intents.create(
        {"amount": amount, "currency": currency, "confirm": True, "payment_method": method},
        {"idempotency_key": key},
    )


@pytest.mark.parametrize(
    ("attempt", "raised", "outcome"),
    [case[1:] for case in ERRORS],
    ids=[case[0] for case in ERRORS],
)
async def test_errors_are_what_the_package_says_they_are(
    stripe: StripeStage,
    attempt: Attempt,
    raised: type[package.StripeError],
    outcome: Refused | Unresolved,
) -> None:
    """The package's class for an error, and what the adapter concludes from the same bytes."""
    shop = Shop(stripe)
    with pytest.raises(raised) as caught:
        await asyncio.to_thread(attempt, shop)
    error = caught.value
    assert error.http_status is not None
    answered = Answered(error.http_status, (), str(error.http_body).encode())
    assert outcome_of(shop.payment(), answered, "payment") == outcome


# --- signatures ----------------------------------------------------------------------------------


@pytest.mark.case("C065")
@pytest.mark.parametrize("body", BODIES)
def test_c065_what_the_package_signs_is_verified(body: str) -> None:
    """C065: over the raw bytes, whatever characters stand in them."""
    stamp = NOW // 1_000
    header = package.WebhookSignature.generate_signature_header(body, SECRET, stamp)
    verdict = STRIPE.verify(body.encode(), {"Stripe-Signature": header}, [SECRET], NOW)
    assert isinstance(verdict, Verified)
    assert verdict.sent_at == NOW
    other = STRIPE.verify(body.encode() + b" ", {"Stripe-Signature": header}, [SECRET], NOW)
    assert other == WebhookRejected(WebhookProblem.SIGNATURE_MISMATCH)


@pytest.mark.parametrize("body", BODIES)
def test_what_is_signed_here_the_package_verifies(body: str) -> None:
    """Both what the simulated Stripe sends, and what the command for a test webhook sends."""
    ours = STRIPE.sign(body.encode(), event_id="evt_1", secret=SECRET, now_ms=NOW)
    for headers in (signed("evt_1", body, SECRET), ours):
        assert package.WebhookSignature.verify_header(body, headers["stripe-signature"], SECRET)


def test_a_secret_that_is_rolled_is_verified_by_either() -> None:
    """While Stripe signs with two secrets, a receiver that knows one of them believes it."""
    stamp = NOW // 1_000
    old, new = (
        package.WebhookSignature.generate_signature_header("{}", secret, stamp)
        for secret in ("whsec_old_secret", SECRET)
    )
    header = f"{old},{new.partition(',')[2]}"
    assert package.WebhookSignature.verify_header("{}", header, SECRET)
    verdict = STRIPE.verify(b"{}", {"Stripe-Signature": header}, [SECRET], NOW)
    assert isinstance(verdict, Verified)


def test_a_time_in_the_future_is_refused_here_and_taken_by_the_package() -> None:
    """The package looks at the past alone; a stamp an hour ahead is somebody's."""
    stamp = NOW // 1_000 + 3_600
    header = package.WebhookSignature.generate_signature_header("{}", SECRET, stamp)
    verdict = STRIPE.verify(b"{}", {"Stripe-Signature": header}, [SECRET], NOW)
    assert verdict == WebhookRejected(WebhookProblem.TIMESTAMP_OUT_OF_TOLERANCE)
