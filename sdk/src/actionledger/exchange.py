"""One request to the ledger, asked again where that is safe: bounded in number and in time.

Guarantees that every repetition is byte for byte the same request, so that its key is the same and
it cannot happen twice. Must never repeat what was answered with a refusal. The HTTP library is used
here and nowhere else. Called by the client.
"""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

import httpx

from actionledger.errors import LedgerUnavailable

ANSWER_BYTES_MAX: Final = 4 * 1_024 * 1_024
CONNECT_S: Final = 5.0
ANSWER_S: Final = 15.0
"""How long an answer may take beyond the time that the request itself asked to wait."""

LOST: Final[tuple[type[Exception], ...]] = (TimeoutError, OSError, httpx.TransportError)
"""What a call to a provider raises when its answer is lost on the way."""

_AGAIN: Final = frozenset({408, 429, 502, 503, 504})
_NOT_TAKEN: Final = 429
"""Of those the one that says that nothing was taken."""

_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_REFUSED: Final = range(400, 500)
_SAFE: Final = "Make the same call again: the key follows from what is asked, so it is safe."


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how long to ask again: full jitter, doubling up to a cap."""

    attempts_max: int = 6
    total_ms: int = 45_000
    first_ms: int = 100
    cap_ms: int = 5_000

    def wait_ms(self, attempt: int, asked_ms: int) -> int:
        """The wait after an attempt, counted from 1; the ledger asks for at least `asked_ms`."""
        ceiling = min(self.cap_ms, self.first_ms << min(attempt - 1, 30))
        return max(min(asked_ms, self.cap_ms), random.randint(1, ceiling))  # noqa: S311 - jitter


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status and its body; `origin` is the address that was asked."""

    status: int
    raw: bytes
    origin: str = ""


@dataclass(frozen=True, slots=True)
class _NoReply:
    """What happened instead of an answer, the least wait that was asked for, and whether the ledger
    may have taken the request all the same.
    """

    what: str
    wait_ms: int = 0
    may_be_taken: bool = True


class Exchange:
    """A connection pool to one ledger, with one API key."""

    def __init__(
        self,
        base_url: str,
        api_key: str,
        *,
        user_agent: str,
        retries: Retries,
        transport: httpx.AsyncBaseTransport | None,
    ) -> None:
        self._origin = base_url.rstrip("/")
        self._retries = retries
        self._client = httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bearer {api_key}", "User-Agent": user_agent},
            follow_redirects=False,
            transport=transport,
        )

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, int] | None = None,
        body: bytes | None = None,
        wait_ms: int = 0,
    ) -> Reply:
        """Ask until there is an answer that is one. Raises LedgerUnavailable when there is none,
        and where a refusal comes after an answer that was lost: what that one took is not known.
        """
        request = self._client.build_request(
            method,
            path,
            params=query,
            content=body,
            headers={} if body is None else {"Content-Type": "application/json"},
            timeout=httpx.Timeout(wait_ms / 1_000 + ANSWER_S, connect=CONNECT_S),
        )
        give_up_at = time.monotonic() + (self._retries.total_ms + wait_ms) / 1_000
        last = "no attempt was made"
        may_be_taken = False
        for attempt in range(1, self._retries.attempts_max + 1):
            came = await self._once(request)
            if isinstance(came, Reply):
                if not (may_be_taken and came.status in _REFUSED):
                    return came
                last = f"an earlier one was lost, and now it is status {came.status}"
                break
            last = came.what
            may_be_taken |= came.may_be_taken and method == "POST"
            pause_s = self._retries.wait_ms(attempt, came.wait_ms) / 1_000
            is_last = attempt == self._retries.attempts_max
            if is_last or time.monotonic() + pause_s > give_up_at:
                break
            await asyncio.sleep(pause_s)
        raise LedgerUnavailable(f"The ledger gave no answer ({last}).", hint=_SAFE)

    async def _once(self, request: httpx.Request) -> Reply | _NoReply:
        try:
            response = await self._client.send(request, stream=True)
            try:
                raw = await _read(response)
            finally:
                await response.aclose()
        except httpx.RequestError as error:
            return _NoReply(type(error).__name__, may_be_taken=not isinstance(error, _NOT_SENT))
        status = response.status_code
        if status in _AGAIN:
            return _NoReply(f"status {status}", _retry_after_ms(response), status != _NOT_TAKEN)
        return Reply(status, raw, self._origin)

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def _read(response: httpx.Response) -> bytes:
    """The body up to the maximum; what is longer is no answer of ours and is cut."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.aiter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > ANSWER_BYTES_MAX:
            break
    return b"".join(chunks)[:ANSWER_BYTES_MAX]


def _retry_after_ms(response: httpx.Response) -> int:
    text = response.headers.get("retry-after", "")
    return int(text[:6]) * 1_000 if text.isascii() and text.isdigit() else 0
