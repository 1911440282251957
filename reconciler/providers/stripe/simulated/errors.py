"""How the simulated Stripe says no: its error objects, statuses and headers.

Guarantees that every refusal leaves in the one form of docs.stripe.com/api/errors. Statuses and
what is kept under a key are those of docs.stripe.com/error-low-level, codes those of
docs.stripe.com/error-codes. Used by the routes.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import orjson
from aiohttp import web

from reconciler.providers.simulated.effects import Not
from reconciler.providers.simulated.errors import Refusal as Malformed
from reconciler.providers.stripe.simulated.cards import declined
from reconciler.providers.stripe.simulated.objects import Object
from reconciler.providers.stripe.simulated.rules import NOTHING_PAID, TOO_MUCH

JSON: Final = "application/json"
_INVALID: Final = "invalid_request_error"
_CARD: Final = 402
_MOVED: Final = 307
_WITHOUT_CODE: Final = frozenset({TOO_MUCH, NOTHING_PAID})


class Refusal(Exception):
    """Ends a request with an error before anything was executed: no key remembers it."""

    def __init__(
        self, status: int, message: str, *, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers: dict[str, str] = {}
        self.body = error(_INVALID, message, code=code, param=param)


def error(
    kind: str,
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    decline_code: str | None = None,
    payment: Object | None = None,
) -> bytes:
    """An error object as a body; what is None is left out."""
    fields: dict[str, object] = {
        "code": code,
        "decline_code": decline_code,
        "message": message,
        "param": param,
        "payment_intent": payment,
        "type": kind,
    }
    return orjson.dumps(
        {"error": {name: value for name, value in fields.items() if value is not None}}
    )


def refused(no: Not, payment: Object | None, url: str) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers of a request that has no effect, or does not say that it has one."""
    headers = {"Idempotent-Replayed": "true"} if no.is_replay else {}
    code, message = no.problem.code, no.problem.message
    match no.status:
        case 402:
            told = declined(code)
            body = error(
                "card_error",
                message,
                code=told.code,
                decline_code=told.decline_code,
                payment=payment,
            )
            return no.status, body, headers
        case 422:
            # Other parameters, or another address, under a key that was used.
            message = "Keys for idempotent requests can only be used with the same parameters they "
            message += "were first used with."
            return 400, error("idempotency_error", message), headers
        case 409 if code == "in_progress":
            message = "There is currently another in-progress request using this Idempotent Key."
            body = error(_INVALID, message, code="idempotency_key_in_use")
            return no.status, body, headers
        case 429:
            headers["Stripe-Rate-Limited-Reason"] = "global-rate"
            if no.retry_after_s:
                headers["Retry-After"] = str(no.retry_after_s)
            return no.status, error(_INVALID, message, code="rate_limit"), headers
        case 500:
            # The same key gets the same 500, so there is nothing to be had by asking again.
            headers["Stripe-Should-Retry"] = "false"
            return no.status, error("api_error", "An error occurred on our end."), headers
        case 307:
            return no.status, b"", {"Location": url}
        case _:
            shown = None if code in _WITHOUT_CODE else code
            param = "amount" if code == TOO_MUCH else None
            return no.status, error(_INVALID, message, code=shown, param=param), headers


@web.middleware
async def refusals(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turn refusals, the router's too, into error objects."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return answered(refusal.status, refusal.body, refusal.headers)
    except Malformed as malformed:
        # From the routes that steer it, which every simulated provider has.
        return answered(malformed.status, error(_INVALID, malformed.message, code=malformed.code))
    except web.HTTPException as missing:
        return answered(
            missing.status,
            error(_INVALID, f"Unrecognized request URL ({request.method}: {request.path})."),
        )


def answered(
    status: int, body: bytes, headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """A whole answer."""
    return web.Response(status=status, body=body, headers=headers, content_type=JSON)
