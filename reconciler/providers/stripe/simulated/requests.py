"""Reading what is sent to the simulated Stripe, strictly: its own parameters and no others.

Guarantees that what is refused here was not executed, so no key remembers it, as
docs.stripe.com/api/idempotent_requests says of parameters that fail validation. Parameters are
those of docs.stripe.com/api/payment_intents/create and /refunds/create that the adapter may send;
amounts follow docs.stripe.com/currencies. Used by the server.
"""

import base64
import binascii
import re
from typing import Final

from aiohttp import web

from ledger.core.money import Money
from reconciler.providers.simulated.api import DESCRIPTION_CHARS_MAX, EffectRequest, Metadata
from reconciler.providers.stripe.amounts import money_of
from reconciler.providers.stripe.forms import Form, decode, part_of, text_of
from reconciler.providers.stripe.names import (
    ACTION_KEY,
    KEY_CHARS_MAX,
    KEY_HEADER,
    METADATA_ENTRIES_MAX,
    METADATA_NAME_CHARS_MAX,
    METADATA_VALUE_CHARS_MAX,
    REQUEST_HASH,
)
from reconciler.providers.stripe.simulated.errors import Refusal
from reconciler.providers.stripe.simulated.objects import METADATA, Shelf, payment_of_charge

API_KEY_PREFIX: Final = "sk_test_"
"""The secret key of an account is this and the account's name: it authenticates nothing."""

AMOUNT_MAX: Final = 99_999_999
_ACCOUNT: Final = re.compile(r"[A-Za-z0-9._-]{1,128}")
_THREE_DECIMALS: Final = frozenset({"bhd", "jod", "kwd", "omr", "tnd"})
_REASONS: Final = frozenset({"duplicate", "fraudulent", "requested_by_customer"})
_PAYMENT: Final = frozenset(
    {"amount", "application_fee_amount", "automatic_payment_methods", "capture_method", "confirm"}
    | {"confirmation_method", "currency", "customer", "description", "error_on_requires_action"}
    | {"expand", "mandate", "metadata", "off_session", "on_behalf_of", "payment_method"}
    | {"payment_method_types", "receipt_email", "return_url", "setup_future_usage", "shipping"}
    | {"statement_descriptor", "statement_descriptor_suffix", "transfer_data", "transfer_group"}
)
_REFUND: Final = frozenset(
    {"amount", "charge", "expand", "instructions_email", "metadata", "payment_intent", "reason"}
    | {"refund_application_fee", "reverse_transfer"}
)
_KEPT: Final = ("capture_method", "customer", "description", "payment_method", "reason")


def account_of(request: web.Request) -> str:
    """The account that the secret key names; raises Refusal."""
    said = request.headers.get("Authorization", "")
    key = said.removeprefix("Bearer ")
    if said.startswith("Basic "):
        try:
            key = base64.b64decode(said.removeprefix("Basic "), validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError):
            key = ""
        key = key.removesuffix(":")
    account = key.removeprefix(API_KEY_PREFIX)
    if not said:
        raise Refusal(401, "You did not provide an API key.")
    if not key.startswith(API_KEY_PREFIX) or _ACCOUNT.fullmatch(account) is None:
        raise Refusal(401, "Invalid API Key provided.")
    return account


def key_of(request: web.Request) -> str | None:
    """The idempotency key; raises Refusal for one that is too long."""
    key = request.headers.get(KEY_HEADER)
    if key is not None and not 1 <= len(key) <= KEY_CHARS_MAX:
        raise Refusal(400, f"Idempotency keys have at most {KEY_CHARS_MAX} characters.")
    return key


def form_of(raw: bytes) -> Form:
    """A body or a query; raises Refusal."""
    try:
        return decode(raw)
    except ValueError as error:
        raise Refusal(400, f"Invalid request: {error}.") from None


def payment_of(form: Form) -> tuple[EffectRequest, dict[str, str]]:
    """What a request for a confirmed payment asks for, and what is kept of it; raises Refusal."""
    _known(form, _PAYMENT)
    currency = _text(form, "currency", required=True)
    amount = _amount(form)
    if currency in _THREE_DECIMALS and amount % 10:
        raise Refusal(400, "The last digit of this amount has to be 0.", param="amount")
    money = money_of(amount, currency)
    if money is None or currency != currency.lower():
        raise Refusal(400, f"Invalid currency: {currency}.", param="currency")
    if _text(form, "confirm") != "true":
        raise Refusal(400, "Only confirmed payments are simulated.", param="confirm")
    if not _text(form, "payment_method"):
        message = "You cannot confirm this PaymentIntent because it's missing a payment method."
        raise Refusal(400, message, code="payment_intent_unexpected_state")
    return _asked(form, money, amount, original=None)


def refund_of(form: Form, shelf: Shelf) -> tuple[EffectRequest, dict[str, str]]:
    """What a request for a refund asks for, and what is kept of it; raises Refusal."""
    _known(form, _REFUND)
    payment, charge = _text(form, "payment_intent"), _text(form, "charge")
    if bool(payment) == bool(charge):
        raise Refusal(400, "One of payment_intent and charge is needed.", code="parameter_missing")
    original = payment or payment_of_charge(charge)
    if _text(form, "reason") not in {"", *_REASONS}:
        raise Refusal(400, f"Invalid reason: must be one of {sorted(_REASONS)}.", param="reason")
    thing = shelf.get(original)
    left = 0 if thing is None else thing.amount - shelf.refunded(original)
    amount = _amount(form) if "amount" in form else left
    money = None if thing is None else money_of(amount, thing.currency.lower())
    return _asked(form, money, amount, original=original)


def _asked(
    form: Form, money: Money | None, amount: int, *, original: str | None
) -> tuple[EffectRequest, dict[str, str]]:
    metadata = _metadata(form)
    detail = {"amount": str(amount)}
    detail |= {name: value for name in _KEPT if (value := _text(form, name))}
    detail |= {METADATA + name: value for name, value in metadata.items()}
    description = _text(form, "description")
    body = EffectRequest(
        amount=money,
        original=original,
        params={"description": description[:DESCRIPTION_CHARS_MAX]} if description else {},
        metadata=Metadata(
            action_key=metadata.get(ACTION_KEY), request_hash=metadata.get(REQUEST_HASH)
        ),
    )
    return body, detail


def _known(form: Form, names: frozenset[str]) -> None:
    for name in sorted(form):
        if name not in names:
            message = f"Received unknown parameter: {name}"
            raise Refusal(400, message, code="parameter_unknown", param=name)


def _text(form: Form, name: str, *, required: bool = False) -> str:
    try:
        value = text_of(form, name)
    except ValueError as error:
        raise Refusal(400, f"Invalid string: {error}.", param=name) from None
    if value is None and required:
        message = f"Missing required param: {name}."
        raise Refusal(400, message, code="parameter_missing", param=name)
    return value or ""


def _amount(form: Form) -> int:
    text = _text(form, "amount", required=True)
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(AMOUNT_MAX)) + 1):
        message = f"Invalid integer: {text}"
        raise Refusal(400, message, code="parameter_invalid_integer", param="amount")
    amount = int(text)
    if amount < 1:
        message = "This value must be greater than or equal to 1."
        raise Refusal(400, message, code="parameter_invalid_integer", param="amount")
    if amount > AMOUNT_MAX:
        raise Refusal(400, "Amount too large.", code="amount_too_large", param="amount")
    return amount


def _metadata(form: Form) -> dict[str, str]:
    try:
        metadata = part_of(form, "metadata")
    except ValueError as error:
        raise Refusal(400, f"Invalid metadata: {error}.", param="metadata") from None
    if len(metadata) > METADATA_ENTRIES_MAX:
        raise Refusal(400, "Metadata can have up to 50 keys.", param="metadata")
    for name, value in metadata.items():
        if len(name) > METADATA_NAME_CHARS_MAX or len(value) > METADATA_VALUE_CHARS_MAX:
            message = "Metadata keys have up to 40, and values up to 500 characters."
            raise Refusal(400, message, param="metadata")
    return metadata
