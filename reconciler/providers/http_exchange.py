"""One HTTP request and its answer, with the moment of the first byte known exactly.

Guarantees: every trouble names its phase, before the first byte or after it; the guard runs when
the connection is open, and between its return and the write nothing is awaited, so no other task
can run in between; the whole request goes out in one write; two hard deadlines, one for each phase.

Must never: follow a redirect, use a proxy, read the environment, send anything twice, or decode a
compressed answer. Performers and finders call it; it knows nothing of effects.

Built on h11 and asyncio streams instead of a general client: one place to see the first byte, and a
fifth of the CPU.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, TypeAlias
from urllib.parse import urlsplit

import h11

from ledger.log.crashpoints import crash_point
from reconciler.providers.connection import Connection, open_connection
from reconciler.providers.limits import (
    ANSWER_BYTES_MAX,
    ANSWER_HEADER_BYTES_MAX,
    CONNECTIONS_MAX,
    IDLE_CONNECTIONS_MAX,
    IDLE_MS_MAX,
    INTERIM_ANSWERS_MAX,
    REQUEST_BYTES_MAX,
)
from reconciler.providers.port import Deadlines


class Trouble(StrEnum):
    """Every way in which an exchange ends without an answer, by phase; the values are codes."""

    # Before the first byte: nothing reached the provider.
    UNSENDABLE = "request_unsendable"
    NO_FREE_CONNECTION = "no_free_connection"
    NAME_NOT_RESOLVED = "name_not_resolved"
    CONNECT_REFUSED = "connect_refused"
    CONNECT_TIMED_OUT = "connect_timed_out"
    CONNECT_FAILED = "connect_failed"
    TLS_FAILED = "tls_failed"
    # After the first byte: the provider may have acted.
    ANSWER_TIMED_OUT = "answer_timed_out"
    CONNECTION_LOST = "connection_lost"
    ANSWER_CUT_SHORT = "answer_cut_short"
    ANSWER_INVALID = "answer_invalid"
    ANSWER_TOO_LARGE = "answer_too_large"


BEFORE_FIRST_BYTE: Final = frozenset(
    {
        Trouble.UNSENDABLE,
        Trouble.NO_FREE_CONNECTION,
        Trouble.NAME_NOT_RESOLVED,
        Trouble.CONNECT_REFUSED,
        Trouble.CONNECT_TIMED_OUT,
        Trouble.CONNECT_FAILED,
        Trouble.TLS_FAILED,
    }
)
CREDENTIAL_CHARS_MIN: Final = 8
"""A shorter one guards nothing, and would be found in every second answer."""
TAKEN_OUT: Final = "credential_taken_out"

AFTER_FIRST_BYTE: Final = frozenset(Trouble) - BEFORE_FIRST_BYTE


@dataclass(frozen=True, slots=True)
class Message:
    """A request to send: path with its query, headers beyond Host and Content-Length, body.

    `credential` is what in its headers must not come back: whatever of the answer repeats it is
    taken out, so that it cannot get into a code, a reference or a log.
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = b""
    credential: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole answer, with lower-case header names."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header of this lower-case name."""
        return next((value for key, value in self.headers if key == name), None)

    def without(self, credential: str) -> "Answered":
        """The answer with each repetition of a credential taken out, as it is or as JSON has it."""
        if len(credential) < CREDENTIAL_CHARS_MIN:
            return self
        body, headers = self.body, self.headers
        for written in {credential, credential.replace("/", "\\/")}:
            if written.encode() in body:
                body = body.replace(written.encode(), TAKEN_OUT.encode())
            if any(written in value for _, value in headers):
                headers = tuple(
                    (name, value.replace(written, TAKEN_OUT)) for name, value in headers
                )
        return Answered(self.status, headers, body)


@dataclass(frozen=True, slots=True)
class Broken:
    """No whole answer. `trouble in BEFORE_FIRST_BYTE` is proof that nothing was sent."""

    trouble: Trouble


Exchanged: TypeAlias = Answered | Broken


class Exchanges(Protocol):
    """What an adapter needs of an HTTP client; `HttpClient` is the one that reaches anybody."""

    async def exchange(
        self,
        message: Message,
        *,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None] = ...,
    ) -> Exchanged:
        """Make one exchange within its deadlines, or say where it broke."""
        ...

    async def close(self) -> None:
        """Close all connections; idempotent."""
        ...


class _Broke(Exception):
    """Carries a trouble out of the nested steps of one exchange."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__(trouble)
        self.trouble = trouble


def _always() -> None:
    """The guard of a request that needs none: lookups change nothing."""


class HttpClient:
    """Kept connections to one provider address. Close it once; it belongs to one event loop."""

    def __init__(
        self,
        base_url: str,
        *,
        connections_max: int = CONNECTIONS_MAX,
        idle_ms_max: int = IDLE_MS_MAX,
        answer_bytes_max: int = ANSWER_BYTES_MAX,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Nothing is opened yet. Raises ValueError for a base URL that is not plain http(s)."""
        parts = urlsplit(base_url)
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username:
            raise ValueError("a provider's base URL is http(s)://host[:port][/path]")
        if parts.query or parts.fragment:
            raise ValueError("a provider's base URL has no query and no fragment")
        # A name that cannot be looked up would otherwise fail at the first call.
        self._host = parts.hostname.encode("idna").decode("ascii")
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        self._netloc = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._slots = asyncio.Semaphore(connections_max)
        self._idle: list[tuple[Connection, float]] = []
        self._idle_seconds_max = idle_ms_max / 1000
        self._answer_bytes_max = answer_bytes_max
        self._closed = False

    async def exchange(
        self,
        message: Message,
        *,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None] = _always,
    ) -> Exchanged:
        """Send one request and read its answer, once.

        Whatever the guard raises passes through, and then nothing was sent. After cancellation the
        request may have been sent; its connection is cut.
        """
        encoded = self._encode(message)
        if encoded is None:
            return Broken(Trouble.UNSENDABLE)
        http, data = encoded
        try:
            answered = await self._exchange(http, data, deadlines, before_first_byte)
            return answered.without(message.credential)
        except _Broke as broke:
            return Broken(broke.trouble)

    async def close(self) -> None:
        """Cut all idle connections; idempotent. Running exchanges cut theirs when they end."""
        self._closed = True
        while self._idle:
            self._idle.pop()[0].cut()
        # One turn of the loop, so that the sockets are closed when this returns.
        await asyncio.sleep(0)

    def _encode(self, message: Message) -> tuple[h11.Connection, bytes] | None:
        """The request's bytes and the protocol state after them; None if it cannot be HTTP."""
        if len(message.body) > REQUEST_BYTES_MAX:
            return None
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=ANSWER_HEADER_BYTES_MAX)
        headers = [
            ("Host", self._netloc),
            ("Content-Length", str(len(message.body))),
            *message.headers,
        ]
        target = self._prefix + message.path
        try:
            parts = [
                http.send(h11.Request(method=message.method, target=target, headers=headers)),
                http.send(h11.Data(data=message.body)) if message.body else None,
                http.send(h11.EndOfMessage()),
            ]
        except (h11.LocalProtocolError, UnicodeError):
            return None
        return http, b"".join(part for part in parts if part)

    async def _exchange(
        self,
        http: h11.Connection,
        data: bytes,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Answered:
        loop = asyncio.get_running_loop()
        connection: Connection | None = None
        kept = holds_slot = False
        overdue = Trouble.NO_FREE_CONNECTION
        try:
            async with asyncio.timeout(deadlines.connect_ms / 1000) as limit:
                await self._slots.acquire()
                holds_slot = True
                overdue = Trouble.CONNECT_TIMED_OUT
                connection = self._reuse(loop.time()) or await self._open()
                crash_point("connection_open")
                # From here to `send` there is no await: what the guard saw is still true of this
                # process when the bytes leave, but for a pause of the whole machine.
                before_first_byte()
                overdue = Trouble.ANSWER_TIMED_OUT
                limit.reschedule(loop.time() + deadlines.response_ms / 1000)
                connection.send(data)
                crash_point("request_sent")
                answered = await self._read(connection, http)
            kept = self._keep(connection, http, loop.time())
            return answered
        except TimeoutError:
            raise _Broke(overdue) from None
        finally:
            if connection is not None and not kept:
                connection.cut()
            if holds_slot:
                self._slots.release()

    def _reuse(self, now: float) -> Connection | None:
        """The connection used last, if it is still good; those that are not are cut."""
        while self._idle:
            connection, since = self._idle.pop()
            fresh = now - since <= self._idle_seconds_max
            if fresh and connection.is_usable and connection.is_silent():
                return connection
            connection.cut()
        return None

    def _keep(self, connection: Connection, http: h11.Connection, now: float) -> bool:
        """Put the connection by for the next exchange, unless anything about it is unclear."""
        connection.rest()
        over = http.our_state is h11.DONE and http.their_state is h11.DONE
        clean = connection.is_usable and connection.is_flushed and not http.trailing_data[0]
        if not (over and clean) or self._closed or len(self._idle) >= IDLE_CONNECTIONS_MAX:
            return False
        self._idle.append((connection, now))
        return True

    async def _open(self) -> Connection:
        try:
            return await open_connection(self._host, self._port, self._tls)
        except TimeoutError:
            raise _Broke(Trouble.CONNECT_TIMED_OUT) from None
        except OSError as error:
            raise _Broke(connect_trouble(error)) from None

    async def _read(self, connection: Connection, http: h11.Connection) -> Answered:
        """Read one whole answer. Raises `_Broke`; an answer that only may be whole is none."""
        head: h11.Response | None = None
        body = bytearray()
        interim = 0
        started = ended = False
        while True:
            try:
                event = http.next_event()
                if event is h11.NEED_DATA:
                    received = await connection.receive()
                    if received and not started:
                        crash_point("answer_half_read")
                    started, ended = started or bool(received), not received
                    if ended and not started:
                        raise _Broke(Trouble.CONNECTION_LOST)
                    http.receive_data(received)
                    continue
            except ConnectionError:
                trouble = Trouble.ANSWER_CUT_SHORT if started else Trouble.CONNECTION_LOST
                raise _Broke(trouble) from None
            except h11.RemoteProtocolError:
                trouble = Trouble.ANSWER_CUT_SHORT if ended else Trouble.ANSWER_INVALID
                raise _Broke(trouble) from None
            match event:
                case h11.Response():
                    head = event
                case h11.Data():
                    body += event.data
                    if len(body) > self._answer_bytes_max:
                        raise _Broke(Trouble.ANSWER_TOO_LARGE)
                case h11.EndOfMessage() if head is not None:
                    return Answered(head.status_code, _text(head.headers), bytes(body))
                case h11.InformationalResponse() if interim < INTERIM_ANSWERS_MAX:
                    interim += 1
                case _:
                    raise _Broke(Trouble.ANSWER_INVALID)


def connect_trouble(error: OSError) -> Trouble:
    """Name what kept a connection from opening."""
    match error:
        case ConnectionRefusedError():
            return Trouble.CONNECT_REFUSED
        case socket.gaierror():
            return Trouble.NAME_NOT_RESOLVED
        case ssl.SSLError():
            return Trouble.TLS_FAILED
        case _:
            return Trouble.CONNECT_FAILED


def _text(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    """Names and values as text; h11 has refused control characters, Latin-1 takes every byte."""
    return tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in headers)
