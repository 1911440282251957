"""How the simulated provider says no over HTTP.

Guarantees that every refusal leaves as the one JSON form, with a code. Used by its routes.
"""

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from aiohttp import web
from pydantic import ValidationError

from ledger.core.strict_json import MalformedJson, parse
from ledger.core.wire import Wire
from reconciler.providers.limits import REQUEST_BYTES_MAX
from reconciler.providers.simulated.api import JSON_DEPTH_MAX, Problem, ProblemAnswer

JSON: Final = "application/json"
_Model = TypeVar("_Model", bound=Wire)


class Refusal(Exception):
    """Ends a request with a problem."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def problem(status: int, code: str, message: str) -> web.Response:
    """A problem as a response."""
    body = ProblemAnswer(error=Problem(code=code, message=message))
    return web.Response(status=status, body=body.model_dump_json().encode(), content_type=JSON)


@web.middleware
async def refusals(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turn refusals, the router's too, into problems."""
    try:
        return await handler(request)
    except Refusal as refusal:
        return problem(refusal.status, refusal.code, refusal.message)
    except web.HTTPException as error:
        return problem(error.status, f"http_{error.status}", error.reason)


async def parsed(request: web.Request, form: type[_Model]) -> _Model:
    """The request's body in this form; raises Refusal."""
    try:
        value = parse(await request.read(), depth_max=JSON_DEPTH_MAX, bytes_max=REQUEST_BYTES_MAX)
        return form.model_validate(value)
    except (MalformedJson, ValidationError) as error:
        # The first line says what is wrong; the rest of pydantic's text repeats the input.
        raise Refusal(400, "malformed", str(error).splitlines()[0]) from None
