"""How the answer to a request that was decided leaves: whole, cut, late, wrong or not at all.

Guarantees that what leaves depends on the outcome and the course alone. Must never decide anything:
the line is in the book by now. Called by the server's effect route.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from aiohttp import web

from reconciler.providers.limits import ANSWER_BYTES_MAX
from reconciler.providers.simulated.api import EffectAnswer, ProblemAnswer
from reconciler.providers.simulated.effects import FAILED_AFTER, Made, Not
from reconciler.providers.simulated.errors import JSON
from reconciler.providers.simulated.faults import Course, Delivery

_MOVED: Final = 307


async def answer(request: web.Request, outcome: Made | Not, course: Course) -> web.StreamResponse:
    """Let the answer leave the way the course says; a client that is gone changes nothing."""
    status, raw, headers = written(outcome, course, str(request.url))
    return await delivered(request, status, raw, headers, course)


async def delivered(
    request: web.Request, status: int, raw: bytes, headers: Mapping[str, str], course: Course
) -> web.StreamResponse:
    """Let these bytes leave the way the course says; a status of 0 is no answer at all."""
    if status == 0 or course.delivery is Delivery.DROPPED:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
    match course.delivery:
        case Delivery.HALF:
            return await _half(request, status, raw)
        case Delivery.GARBAGE:
            raw = b'{"effect": {"id": "ch_' + bytes(range(128, 160))
        case Delivery.OVERSIZED:
            raw += b" " * ANSWER_BYTES_MAX
        case _:
            pass
    return web.Response(status=status, body=raw, headers=headers, content_type=JSON)


async def _half(request: web.Request, status: int, raw: bytes) -> web.StreamResponse:
    """Announce the whole answer, send half of it, and hang up."""
    half = web.StreamResponse(
        status=status, headers={"Content-Length": str(len(raw)), "Content-Type": JSON}
    )
    await half.prepare(request)
    await half.write(raw[: len(raw) // 2])
    if request.transport is not None:
        request.transport.close()
    return half


def written(outcome: Made | Not, course: Course, url: str) -> tuple[int, bytes, dict[str, str]]:
    """Status, body and headers that tell the outcome; a status of 0 tells nothing at all."""
    failed = course.delivery is Delivery.SERVER_ERROR and isinstance(outcome, Made)
    match FAILED_AFTER if failed else outcome:
        case Made(effect, is_new):
            told = EffectAnswer(effect=effect, replayed=not is_new)
            return 200, told.model_dump_json().encode(), {}
        case Not(status, problem, retry_after_s):
            headers = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
            if status == _MOVED:
                headers["Location"] = url
            return status, ProblemAnswer(error=problem).model_dump_json().encode(), headers
        case _:
            assert_never(outcome)
