"""Makes payments and refunds at Stripe.

Guarantees the promises of the port: one request, form-encoded, the same bytes for the same request
under the same key, with our marks in the metadata of that first request, and no retry and no
redirect (decision 27 says why not through the official package). Held by executors only.
"""

from collections.abc import Callable, Mapping

from reconciler.providers.http.performer import names_of
from reconciler.providers.http.templates import Unsendable
from reconciler.providers.http_exchange import Exchanges, HttpClient, Message, Trouble
from reconciler.providers.port import (
    Deadlines,
    Declined,
    NotSent,
    Outcome,
    ProviderRequest,
    Retry,
)
from reconciler.providers.stripe.amounts import stripe_amount
from reconciler.providers.stripe.description import Perform, StripeDescription
from reconciler.providers.stripe.forms import UnwritableForm, encode
from reconciler.providers.stripe.names import (
    ACCOUNT,
    ACTION_KEY,
    KEY_CHARS_MAX,
    KEY_HEADER,
    METADATA_VALUE_CHARS_MAX,
    OPERATION,
    PAYMENTS,
    PROVIDER_KEY,
    REFUNDS,
    REQUEST_HASH,
    USER_AGENT,
    VERSION,
)
from reconciler.providers.stripe.outcomes import outcome_of


class StripePerformer:
    """Makes effects at Stripe as a description says."""

    def __init__(
        self,
        description: StripeDescription,
        base_url: str,
        api_keys: Mapping[str, str],
        *,
        http: Exchanges | None = None,
    ) -> None:
        """`api_keys` by account name; `http` stands in for the network. Nothing is opened yet;
        raises ValueError for the URL.
        """
        self._description = description
        self._http = HttpClient(base_url) if http is None else http
        self._api_keys = api_keys

    async def perform(
        self,
        request: ProviderRequest,
        *,
        provider_key: str,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """Make one call; see the port."""
        perform = self._description.performs.get(request.operation)
        if perform is None:
            return NotSent("operation_not_described", Retry.NEVER)
        api_key = self._api_keys.get(request.account)
        if api_key is None:
            return NotSent("account_not_configured", Retry.LATER)
        try:
            message = message_of(perform, request, provider_key, api_key)
        except (Unsendable, UnwritableForm):
            return NotSent(Trouble.UNSENDABLE.value, Retry.NEVER)
        try:
            exchanged = await self._http.exchange(
                message, deadlines=deadlines, before_first_byte=before_first_byte
            )
        except Declined as declined:
            return NotSent(declined.code, Retry.LATER)
        return outcome_of(request, exchanged, perform.makes)

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._http.close()


def message_of(
    perform: Perform, request: ProviderRequest, provider_key: str, api_key: str
) -> Message:
    """The request on the wire; raises Unsendable, UnwritableForm."""
    if not 1 <= len(provider_key) <= KEY_CHARS_MAX:
        raise Unsendable
    path, own = _own_parameters(perform, request)
    described = perform.parameters.value({**names_of(request), "provider_key": provider_key})
    if not isinstance(described, Mapping):
        raise Unsendable
    body = {**described, **own}
    body["metadata"] = {**_table(described.get("metadata")), **_marks(request, provider_key)}
    headers = (
        ("Authorization", f"Bearer {api_key}"),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Stripe-Version", VERSION),
        ("User-Agent", USER_AGENT),
        (KEY_HEADER, provider_key),
    )
    return Message("POST", path, headers, encode(body), api_key)


def _own_parameters(perform: Perform, request: ProviderRequest) -> tuple[str, dict[str, object]]:
    """The address, and what decides whether and how much money moves."""
    money = request.money
    amount = None if money is None else stripe_amount(money)
    if money is None or amount is None:
        raise Unsendable
    if perform.makes == "refund":
        original = perform.of.text(names_of(request)) or ""
        # docs.stripe.com/api/refunds/create: by payment, or by one of its charges.
        if original.startswith("pi_"):
            return REFUNDS, {"amount": amount, "payment_intent": original}
        if original.startswith(("ch_", "py_")):
            return REFUNDS, {"amount": amount, "charge": original}
        raise Unsendable
    return PAYMENTS, {
        "amount": amount,
        "confirm": True,
        "currency": money.currency.lower(),
        # A payment that needs its customer fails at once instead of waiting for them
        # (docs.stripe.com/api/payment_intents/create).
        "error_on_requires_action": True,
        "off_session": True,
    }


def _marks(request: ProviderRequest, provider_key: str) -> dict[str, object]:
    marks = {
        ACTION_KEY: request.action_key,
        REQUEST_HASH: request.request_hash,
        PROVIDER_KEY: provider_key,
        ACCOUNT: request.account,
        OPERATION: request.operation,
    }
    if any(len(value) > METADATA_VALUE_CHARS_MAX for value in marks.values()):
        raise Unsendable
    return dict(marks)


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
