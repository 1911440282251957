"""One request to the ledger, asked again where that is safe: bounded in number and in time.

Guarantees that every repetition is byte for byte the same request, so that its key is the same and
it cannot happen twice; and that no connection is shared with another event loop, or with a process
that was forked off: two that read from one connection are given each other's answers. Must never
repeat what was answered with a refusal. The HTTP library is used here and nowhere else. Called by
the client.
"""

import asyncio
import json
import os
import random
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import httpx

from actionledger.errors import LedgerUnavailable

ANSWER_BYTES_MAX: Final = 4 * 1_024 * 1_024
CONNECT_S: Final = 5.0
ANSWER_S: Final = 15.0
"""How long an answer may take beyond the time that the request itself asked to wait."""

LOST: Final[tuple[type[Exception], ...]] = (TimeoutError, OSError, httpx.TransportError)
"""What a call to a provider raises when its answer is lost on the way."""

WAITING_MAX: Final = 192
"""Requests of one event loop that wait at the ledger at a time."""
ASKING_MAX: Final = 64
"""Requests of one event loop under way at a time that do not wait there."""
OUTCOMES_MAX: Final = 64
"""Outcomes of one event loop under way at a time; they wait behind no other request."""

_AGAIN: Final = frozenset({408, 429, 502, 503, 504})
"""Statuses after which the same request is sent again."""
_NOT_TAKEN: Final = 429
"""The one of them that says that the ledger has not taken the request."""

_LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_NOT_SENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_REFUSED: Final = range(400, 500)
EARLY_MS: Final = 500
"""How long to pause, at most, after a waiting request was answered early and with nothing new."""

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
    """What happened instead of an answer."""

    what: str
    wait_ms: int = 0
    """How long to wait at least before the next try, as the ledger asked."""
    may_be_taken: bool = True
    """Whether the ledger may have taken the request all the same."""


class _Places:
    """How many requests of one event loop may be under way at once. The rest waits here and not in
    httpx, which would look through all that wait for each request that ends.
    """

    def __init__(self) -> None:
        self.waiting = asyncio.Semaphore(WAITING_MAX)
        self.asking = asyncio.Semaphore(ASKING_MAX)
        self.outcomes = asyncio.Semaphore(OUTCOMES_MAX)


class _Pools:
    """A connection pool for each event loop of this process, made when it first asks."""

    def __init__(self, make: Callable[[], httpx.AsyncClient]) -> None:
        self._make = make
        self._process = os.getpid()
        self._pools: dict[asyncio.AbstractEventLoop, httpx.AsyncClient] = {}
        self._places: WeakKeyDictionary[httpx.AsyncClient, _Places] = WeakKeyDictionary()
        self._left: list[object] = []

    def here(self) -> httpx.AsyncClient:
        """The pool of the running loop."""
        if self._process != os.getpid():
            # Kept in `_left`: closing them might write on a connection that the parent still uses.
            self._left.append(self._pools)
            self._process, self._pools = os.getpid(), {}
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            for other in list(self._pools):
                if other.is_closed():
                    self._pools.pop(other, None)
            pool = self._pools[loop] = self._make()
        return pool

    def places(self, client: httpx.AsyncClient) -> _Places:
        """The places of the event loop that a pool belongs to."""
        return self._places.setdefault(client, _Places())

    async def close(self) -> None:
        """Close the pool of the running loop, and have the other loops close theirs."""
        await self.here().aclose()
        pools, self._pools = self._pools, {}
        pools.pop(asyncio.get_running_loop(), None)
        for loop, pool in pools.items():
            if loop.is_running():
                asyncio.run_coroutine_threadsafe(pool.aclose(), loop)


class Exchange:
    """Connections to one ledger, with one API key. It may be used from any number of event loops,
    and goes on in a forked process with connections of its own.
    """

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
        self._is_closed = False
        parts = urlsplit(base_url)
        is_here = parts.hostname in _LOOPBACK
        # Read once, and only where there is TLS: it takes longer than a request.
        trusts_nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        is_plain = transport is not None or (is_here and parts.scheme == "http")
        certificates = trusts_nobody if is_plain else httpx.create_ssl_context()

        def make() -> httpx.AsyncClient:
            return httpx.AsyncClient(
                base_url=base_url,
                headers={"Authorization": f"Bearer {api_key}", "User-Agent": user_agent},
                follow_redirects=False,
                limits=httpx.Limits(max_connections=WAITING_MAX + ASKING_MAX + OUTCOMES_MAX),
                transport=transport,
                verify=certificates,
                # A proxy has no business between this machine and itself.
                trust_env=not is_here,
            )

        self._pools = _Pools(make)

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

        Whoever has many in flight waits here for a connection: no longer than `wait_ms` for one to
        wait with, and then no longer than the total of the retries.
        """
        client = self._open()
        places = self._pools.places(client)
        began_s = time.monotonic()
        waiting = places.waiting if wait_ms > 0 else None
        async with _held(waiting, wait_ms / 1_000) as has_place:
            if wait_ms > 0:
                left_ms = wait_ms - int((time.monotonic() - began_s) * 1_000)
                wait_ms = max(0, left_ms) if has_place else 0
                query = {**(query or {}), "wait_ms": wait_ms}
            turns = None if wait_ms > 0 else places.asking
            return await self._asked(client, turns, method, path, query, body, wait_ms)

    async def tell(self, path: str, body: bytes) -> Reply:
        """Tell an outcome, by connections that no other request takes. Raises as `ask`."""
        client = self._open()
        turns = self._pools.places(client).outcomes
        return await self._asked(client, turns, "POST", path, None, body, 0)

    def _open(self) -> httpx.AsyncClient:
        if self._is_closed:
            raise RuntimeError("This ledger was closed; open another one.")
        return self._pools.here()

    async def _asked(
        self,
        client: httpx.AsyncClient,
        turns: asyncio.Semaphore | None,
        method: str,
        path: str,
        query: Mapping[str, int] | None,
        body: bytes | None,
        wait_ms: int,
    ) -> Reply:
        """As `ask`, with all that the request says, and what it has to hold for it."""
        request = client.build_request(
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
            came = await self._once(client, turns, request, give_up_at)
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

    async def follow(
        self, path: str, *, after_version: int, wait_ms: int, clock: Callable[[], float]
    ) -> Reply:
        """How something stands as soon as it stands later than a version, or after the wait. A
        ledger with which too many wait answers at once: then it rests here, so that nobody asks
        without end. Raises as `ask`.
        """
        began_s = clock()
        query = {"after_version": after_version, "wait_ms": wait_ms}
        reply = await self.ask("GET", path, query=query, wait_ms=wait_ms)
        left_ms = wait_ms - int((clock() - began_s) * 1_000)
        if left_ms > 0 and not _is_later(reply, after_version):
            rest_ms = random.randint(EARLY_MS // 2, EARLY_MS)  # noqa: S311 - jitter
            await asyncio.sleep(min(left_ms, rest_ms) / 1_000)
        return reply

    async def _once(
        self,
        client: httpx.AsyncClient,
        turns: asyncio.Semaphore | None,
        request: httpx.Request,
        give_up_at: float,
    ) -> Reply | _NoReply:
        left_s = give_up_at - time.monotonic()
        try:
            async with _held(turns, left_s) as has_turn:
                if not has_turn:
                    return _NoReply("no free connection", may_be_taken=False)
                response = await client.send(request, stream=True)
                try:
                    raw = await _read(response)
                finally:
                    await response.aclose()
        except httpx.RequestError as error:
            return _NoReply(type(error).__name__, may_be_taken=not isinstance(error, _NOT_SENT))
        status = response.status_code
        if status in _AGAIN:
            wait_ms = _retry_after_ms(response)
            return _NoReply(_why(status, wait_ms), wait_ms, status != _NOT_TAKEN)
        return Reply(status, raw, self._origin)

    async def close(self) -> None:
        """Close all connections; idempotent."""
        self._is_closed = True
        await self._pools.close()


@asynccontextmanager
async def _held(places: asyncio.Semaphore | None, limit_s: float) -> AsyncIterator[bool]:
    """One of the places while this lasts, where one is needed; whether one came free in time."""
    if places is None:
        yield True
        return
    try:
        async with asyncio.timeout(limit_s):
            await places.acquire()
    except TimeoutError:
        yield False
        return
    try:
        yield True
    finally:
        places.release()


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


def _is_later(reply: Reply, version: int) -> bool:
    """Whether an answer tells of a later version; what tells of none is for the caller to read."""
    try:
        told = json.loads(reply.raw)["version"]
        return int(told) > version
    except (ValueError, TypeError, KeyError):
        return reply.status >= min(_REFUSED)


def _why(status: int, wait_ms: int) -> str:
    """Why a request was not answered, as whoever reads it can act on."""
    if status != _NOT_TAKEN:
        return f"status {status}"
    again = f", and wants to be left alone for {wait_ms // 1_000} s" if wait_ms else ""
    return f"status {status}: it is asked too often{again}"


def _retry_after_ms(response: httpx.Response) -> int:
    text = response.headers.get("retry-after", "")
    return int(text[:6]) * 1_000 if text.isascii() and text.isdigit() else 0
