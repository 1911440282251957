"""A request that a graceful stop cuts short is one to ask again, never a fault."""

import asyncio

import orjson
from starlette.types import Message, Receive, Scope, Send

from gateway.http.metrics import Metrics
from gateway.http.outermost import Outermost


async def test_what_a_stop_cuts_short_may_be_asked_again() -> None:
    """It is answered with 503 and the words that the same request again is safe."""
    sent: list[Message] = []
    has_begun = asyncio.Event()

    async def undecided(_scope: Scope, _receive: Receive, _send: Send) -> None:
        has_begun.set()
        await asyncio.Event().wait()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    door = Outermost(undecided, Metrics())
    scope: Scope = {"type": "http", "method": "POST", "path": "/v1/actions", "headers": []}
    request = asyncio.ensure_future(door(scope, receive, send))
    await has_begun.wait()
    request.cancel()
    await request
    start, body = sent
    assert start["status"] == 503
    problem = orjson.loads(body["body"])
    assert problem["code"] == "not_durable"
    assert problem["asking_again"] == "is_safe_with_the_same_request"
