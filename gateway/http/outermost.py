"""The outermost layer of the HTTP door: measures every request and has the last word on faults.

Guarantees that no stack and no exception's text leaves the process: a fault is answered as a
problem with an incident number, and the log has the rest under that number; a request that a stop
cuts short is answered as one that may be asked again. Wraps the whole app.
"""

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http.codes import Code
from gateway.http.limits import REQUESTS_IN_FLIGHT_MAX
from gateway.http.metrics import Metrics
from gateway.http.paths import path_with_whole_names
from gateway.http.problems import No

logger = logging.getLogger("actionledger.http")

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_NO_ROUTE: Final = "none"
_NO_ANSWER: Final = 499
"""Counted where the caller went away before there was an answer; never sent."""
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)


@dataclass(slots=True)
class InFlight:
    """How many requests are under way."""

    requests: int = 0


class Outermost:
    """An ASGI layer around the app."""

    def __init__(self, app: ASGIApp, metrics: Metrics, in_flight: InFlight | None = None) -> None:
        """Layers that are given the same `in_flight` bound together what is under way."""
        self._app = app
        self._metrics = metrics
        self._in_flight = InFlight() if in_flight is None else in_flight

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, or pass on what is none."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = time.perf_counter()
        status = _NO_ANSWER
        scope["path"] = path_with_whole_names(scope)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        self._in_flight.requests += 1
        try:
            if self._in_flight.requests > REQUESTS_IN_FLIGHT_MAX:
                await No(Code.TOO_BUSY).response()(scope, receive, answer)
            else:
                await self._app(scope, receive, answer)
        except ClientDisconnect:
            logger.debug("caller_left", extra={"route": _route(scope)})
        except asyncio.CancelledError:
            # Only the server does that, to what is left when its graceful stop is over; it would
            # answer 500 itself, which callers take for a fault that will not pass.
            logger.warning("request_cut_short", extra={"route": _route(scope)})
            if status == _NO_ANSWER:
                await No(Code.NOT_DURABLE).response()(scope, receive, answer)
        except Exception:
            incident = secrets.token_hex(8)
            logger.exception("request_failed", extra={"incident": incident, "route": _route(scope)})
            if status == _NO_ANSWER:
                no = No(Code.INTERNAL, incident=incident)
                await no.response()(scope, receive, answer)
        finally:
            self._in_flight.requests -= 1
            method = scope["method"] if scope["method"] in _METHODS else "other"
            seconds = time.perf_counter() - started_s
            self._metrics.request(method, _route(scope), status, seconds)


def _route(scope: Scope) -> str:
    """The route's own path, never the caller's."""
    return getattr(scope.get("route"), "path", _NO_ROUTE)
