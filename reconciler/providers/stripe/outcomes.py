"""What one answer of Stripe proves about the effect that was asked for.

Guarantees that a success is an object with our marks and our amount whose status says that the
money moves; that a refusal is an error of which Stripe's documentation says that nothing happened;
and that everything else is unresolved. Called by the performer.

The table of errors, from docs.stripe.com/api/errors, /error-low-level and /error-codes:

| answer | means |
| --- | --- |
| 400, 404 | refused for ever: the same key is answered with the same error for a day |
| 400 `idempotency_error` | refused for ever: the key belongs to another request |
| 401, 403 | refused for ever: the credential, which only an operator can change |
| 402 | refused for ever: declined, and kept under the key |
| 409 | unresolved: an earlier request under this key is still running |
| 424 | unresolved: somebody behind Stripe failed, after it had begun |
| 429 | refused until later: limits and locks come before anything is executed |
| 500 and above | unresolved, and the same key is answered with the same 500: only a lookup tells |

`Stripe-Should-Retry` is advice to clients that try again by themselves. It says nothing of the
effect, so it is not read.
"""

from typing import Final

from ledger.core.inputs import OTHER_AMOUNT
from reconciler.providers.error_table import DEFAULT, judge
from reconciler.providers.http.answers import (
    UnreadableAnswer,
    code_at,
    read_json,
    recorded,
    value_at,
)
from reconciler.providers.http_exchange import Answered, Broken, Trouble
from reconciler.providers.port import (
    Outcome,
    ProviderRequest,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)
from reconciler.providers.stripe.description import Makes
from reconciler.providers.stripe.effects import PAYMENT, REFUND, Effect, effect_of

_OK: Final = 200
_CARD: Final = 402
_KINDS: Final = {"payment": PAYMENT, "refund": REFUND}
_OLD_LIMIT: Final = "rate_limit"
_NO_REASON: Final = frozenset({"generic_decline"})


def outcome_of(request: ProviderRequest, exchanged: Answered | Broken, makes: Makes) -> Outcome:
    """Say what is known of the effect after this exchange."""
    if isinstance(exchanged, Broken):
        return judge(exchanged, DEFAULT, None)
    try:
        answer = read_json(exchanged.body)
    except UnreadableAnswer:
        answer = None
    if exchanged.status != _OK:
        return _failed(exchanged, answer)
    try:
        effect = effect_of(answer)
    except UnreadableAnswer:
        return Unresolved(Trouble.ANSWER_INVALID.value)
    return _told(request, effect, makes)


def error_code(answer: object, status: int) -> str:
    """Stripe's own word for an error: the issuer's reason, the code, or at least the type."""
    for name in ("decline_code", "code", "type"):
        code = recorded(code_at(answer, ("error", name)))
        if code is not None and code not in _NO_REASON:
            return code
    return f"http_{status}"


def _told(request: ProviderRequest, effect: Effect, makes: Makes) -> Outcome:
    is_ours = effect.action_key == request.action_key
    if effect.kind != _KINDS[makes] or not is_ours or effect.account != request.account:
        return Unresolved("answer_for_another_action")
    if effect.request_hash != request.request_hash:
        return Unresolved("answer_for_another_request")
    if effect.money != request.money:
        return Unresolved(OTHER_AMOUNT)
    status = recorded(f"{makes}_{effect.status}") or f"{makes}_of_unknown_status"
    match effect.state:
        case "exists":
            return Succeeded(effect.reference, effect.result)
        case "none":
            return Refused(status, Retry.NEVER)
        case _:
            return Unresolved(status)


def _failed(answered: Answered, answer: object) -> Outcome:
    code = error_code(answer, answered.status)
    if answered.status == _CARD and _shows_money(value_at(answer, ("error", "payment_intent"))):
        return Unresolved("answer_contradicts_itself")
    outcome = judge(answered, DEFAULT, code)
    if isinstance(outcome, Refused) and code == _OLD_LIMIT:
        # Older versions of the API limited with 400.
        return Refused(code, Retry.LATER, outcome.retry_after_ms)
    return outcome


def _shows_money(payment: object) -> bool:
    """Whether the payment that came with a decline is one whose money moves."""
    if not isinstance(payment, dict):
        return False
    try:
        return effect_of(payment).state != "none"
    except UnreadableAnswer:
        return True
