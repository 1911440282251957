"""The client: propose, wait, get, cancel, over HTTP.

Guarantees that asking twice is asking once: the key follows from the intent, and every call may be
repeated after any trouble. Must never make a key of its own. For the code around an agent, not for
a model: a model never chooses a key.
"""

import json
import time
from importlib.metadata import version
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, urlsplit

import httpx

from actionledger.errors import CallerMistake, Trouble
from actionledger.exchange import Exchange, Reply, Retries
from actionledger.results import FINAL, ApprovalExpired, Conflict, NeedsReview, Result
from actionledger.wire import Intent, read_problem, read_result

WAIT_MS_MAX: Final = 30_000
"""The longest that one request may wait at the ledger; longer waits are several requests."""


class Ledger:
    """One ledger and one API key. Use it as `async with Ledger(url, key) as ledger`.

    `transport` stands in for the network; `retries` bounds how often a request is asked again.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        retries: Retries | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if urlsplit(base_url).scheme not in {"http", "https"}:
            raise ValueError("base_url is http://host:port or https://host")
        self._exchange = Exchange(
            base_url,
            api_key,
            user_agent=f"actionledger/{version('actionledger')}",
            retries=Retries() if retries is None else retries,
            transport=transport,
        )

    async def propose(self, intent: Intent, *, wait_ms: int = 10_000) -> Result:
        """Ask for one effect, and wait up to `wait_ms` (at most 30,000) for its outcome.

        The same intent again is the same action: nothing happens twice, and the result says how the
        first one stands. Raises LedgerUnavailable when it is not known whether the intent was
        recorded (propose the same again), CallerMistake when it is refused as it is.
        """
        body = _body(intent)
        wait_ms = _bounded(wait_ms)
        reply = await self._exchange.ask(
            "POST", "/v1/actions", query={"wait_ms": wait_ms}, body=body, wait_ms=wait_ms
        )
        return _result(reply)

    async def get(self, key: str) -> Result:
        """How the action stands now. Raises UnknownAction."""
        return _result(await self._exchange.ask("GET", _path(key)))

    async def wait(self, key: str, *, timeout_ms: int = 60_000) -> Result:
        """How the action stands when it is final or needs a person, or after `timeout_ms`.

        An `Unknown` is waited for: the ledger is finding out, which may take longer than any
        caller's patience. The result then says that it is still unknown.
        """
        give_up_at = time.monotonic() + timeout_ms / 1_000
        result = await self.get(key)
        while not isinstance(result, (*FINAL, NeedsReview, ApprovalExpired, Conflict)):
            left_ms = int((give_up_at - time.monotonic()) * 1_000)
            if left_ms <= 0:
                break
            wait_ms = _bounded(left_ms)
            reply = await self._exchange.ask(
                "GET",
                _path(key),
                query={"after_version": result.version, "wait_ms": wait_ms},
                wait_ms=wait_ms,
            )
            result = _result(reply)
        return result

    async def cancel(self, key: str, *, reason: str | None = None) -> Result:
        """Take back an action that has not begun; cancelling again changes nothing.

        Raises CallerMistake with code `attempt_open` when it may already have had its effect,
        `already_final` when it has an outcome, and UnknownAction.
        """
        body = b"{}" if reason is None else json.dumps({"reason": reason}).encode()
        return _result(await self._exchange.ask("POST", f"{_path(key)}/cancel", body=body))

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._exchange.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


def _bounded(wait_ms: int) -> int:
    return max(0, min(wait_ms, WAIT_MS_MAX))


def _path(key: str) -> str:
    return f"/v1/actions/{quote(key, safe=':~')}"


def _body(intent: Intent) -> bytes:
    """The intent as JSON; what JSON cannot say is the caller's mistake, found before it is sent."""
    try:
        # ASCII, so that half a character reaches the ledger as what it is and is refused by name.
        return json.dumps(intent.model_dump(exclude_none=True), allow_nan=False).encode()
    except ValueError as error:
        raise CallerMistake(
            "The intent has no JSON form.",
            hint="Leave out NaN and Infinity; write numbers that are not whole as texts.",
            code="malformed_json",
            status=400,
            problems=(Trouble("/params", "not_json", str(error)),),
        ) from None


def _result(reply: Reply) -> Result:
    if reply.status in {200, 201, 202}:
        return read_result(reply.status, reply.raw)
    problem = read_problem(reply.status, reply.raw)
    if isinstance(problem, Conflict):
        return problem
    raise problem
