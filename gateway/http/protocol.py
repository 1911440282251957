"""HTTP/1.1 as the door speaks it: uvicorn's protocol over a parser in C, bounded.

Guarantees that what is no part of a body takes no more memory than `HEAD_BYTES_MAX` and one read
from the network, however it comes: the parser has no such limit. A body belongs to its request also
where another protocol is offered, which is passed over, as RFC 9110 allows. Fields behind a body
are no headers. A connection that is not answered a request, nor ends the head of one, within the
time that it may be idle is closed. Of requests that are sent before an answer a few wait, and what
cannot be read in one way only ends the connection once what came before it is answered. A request
whose body is there says so and has it, so that nobody asks or sets a timer to wait for it. Used by
`serve`.
"""

import asyncio
from typing import Final, cast

import httptools
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.flow_control import service_unavailable
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from gateway.http.body_bytes import BODY, BODY_IS_WHOLE
from gateway.http.codes import Code
from gateway.http.problems import No

HEAD_BYTES_MAX: Final = 32 * 1_024
PIPELINED_MAX: Final = 16
JOINED_BYTES_MAX: Final = 64 * 1_024

_OF_ANOTHER_PROTOCOL: Final = frozenset({b"upgrade", b"http2-settings"})
"""What offers another protocol, beside what `Connection` says of it (RFC 9110, 7.8)."""

_HEADERS_AT_THE_END: Final = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"connection", b"close"),
)


class RefusedError(Exception):
    """Said to the parser, which takes no more; the connection is told, or is told nothing."""


class JoinedWrites(asyncio.Transport):
    """A transport whose writes of one turn of the loop are one: the head of an answer and its body
    were two calls to the system, and woke whoever reads twice.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:  # type: ignore[override]
        """Write at the end of this turn, or once it is much."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > JOINED_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        parts, self._parts, self._size = self._parts, [], 0
        # The other side may have gone since.
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        """Write what there is, and close."""
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Whether it is closed or about to be."""
        return self._transport.is_closing()

    def get_extra_info(self, name: str, default: object = None) -> object:
        """What is known of the connection."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Take no more from the network."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Take more."""
        self._transport.resume_reading()


class BoundedProtocol(HttpToolsProtocol):
    """A connection. What cannot be read is answered as a problem, and ends it."""

    _is_in_head = True
    _is_refused = False
    _has_moved = False
    _unmoved_bytes = 0
    _waits_since_s: float | None = None
    _looking: asyncio.TimerHandle | None = None
    _under_way: RequestResponseCycle | None = None

    def data_received(self, data: bytes) -> None:
        """Take what came. Bytes that lead to no next step are counted: of a head, of fields and
        extensions of a chunked body, or between two requests.
        """
        if self._is_refused or self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        self._has_moved = False
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self._refuse(Code.MALFORMED_HTTP)
            return
        self._unmoved_bytes = 0 if self._has_moved else self._unmoved_bytes + len(data)
        if self._unmoved_bytes > HEAD_BYTES_MAX:
            self._refuse(Code.HEAD_TOO_LARGE)
        elif self._waits_since_s is None and self._is_idle():
            self._waits_since_s = self.loop.time()

    def _feed(self, data: bytes) -> None:
        """Let the parser read. It takes a request that offers another protocol to be over with its
        head; it reads such a one again without the offer.
        """
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offered:
                (read_bytes,) = offered.args
                data = self._head_without_offer() + data[read_bytes:]
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
            else:
                return

    def _head_without_offer(self) -> bytes:
        """The head that was just read, without what offers another protocol."""
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                kept = [token for token in value.split(b",") if not _offers(token)]
                lines.append(b"connection: " + b",".join(kept))
            elif name not in _OF_ANOTHER_PROTOCOL:
                lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    # What the parser tells

    def on_message_begin(self) -> None:
        """Another head begins."""
        super().on_message_begin()
        self._is_in_head = self._has_moved = True
        self._waits_since_s = self.loop.time()

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head. One behind the body is dropped: nobody has looked at it who may have
        looked at the head.
        """
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Go on to the body, unless the head is too long and came at once, or too many wait."""
        self._is_in_head, self._has_moved, self._waits_since_s = False, True, None
        size, hosts, is_clear = len(self.url), 0, True
        for name, value in self.headers:
            size += len(name) + len(value)
            if name == b"host":
                hosts += 1
            elif name == b"transfer-encoding":
                is_clear = value.strip().lower() == b"chunked"
        if size > HEAD_BYTES_MAX or hosts > 1 or not is_clear:
            self._refuse(Code.HEAD_TOO_LARGE if size > HEAD_BYTES_MAX else Code.MALFORMED_HTTP)
            raise RefusedError
        if len(self.pipeline) >= PIPELINED_MAX or self.parser.get_method() == b"CONNECT":
            raise RefusedError
        if not self.parser.should_upgrade():
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        self._has_moved = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._has_moved = True
        if not self.parser.should_upgrade():
            self.scope["extensions"] = {BODY_IS_WHOLE: {BODY: self.cycle.body}}
            super().on_message_complete()

    # Refusing

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._under_way = cycle
        if app is service_unavailable:
            app = cast("ASGI3Application", _too_busy)
        super()._start_asgi_task(cycle, app)

    def _refuse(self, why: Code) -> None:
        """Take no more. Where a request that was read whole has no answer yet it gets its own, and
        nothing else is said: it would be taken for that answer.
        """
        if self._is_refused:
            return
        self._is_refused = True
        asked = self._under_way
        if asked is None or self._is_idle() or (asked.more_body and asked is self.cycle):
            self._answer(No(why).response())
            return
        asked.keep_alive = False
        self.pipeline.clear()
        self.flow.pause_reading()

    def _answer(self, said: Response) -> None:
        """Say why, and hang up."""
        headers = [*self.server_state.default_headers, *said.raw_headers, *_HEADERS_AT_THE_END]
        lines = [STATUS_LINE[said.status_code]]
        lines += [b"%b: %b\r\n" % (name, value) for name, value in headers]
        self.transport.write(b"".join([*lines, b"\r\n", bytes(said.body)]))
        self.transport.close()

    # Waiting

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a first request."""
        super().connection_made(JoinedWrites(transport, self.loop))
        self._waits_since_s = self.loop.time()
        self._looking = self.loop.call_later(self.timeout_keep_alive, self._look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        super().connection_lost(exc)
        if self._looking is not None:
            self._looking.cancel()

    def _look(self) -> None:
        """End a connection that has waited too long for the end of a head."""
        if self.transport.is_closing():
            return
        now_s, since_s = self.loop.time(), self._waits_since_s
        ends_s = (now_s if since_s is None else since_s) + self.timeout_keep_alive
        if now_s < ends_s:
            self._looking = self.loop.call_at(ends_s, self._look)
        elif self._is_in_head and self.headers is not None:
            self._refuse(Code.TOO_SLOW)
        else:
            self._is_refused = True
            self.transport.close()

    def _is_idle(self) -> bool:
        """Whether no request that was begun is without its answer."""
        return self._under_way is None or self._under_way.response_complete


async def _too_busy(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer where there are more connections than the process can hold."""
    await No(Code.TOO_BUSY).response()(scope, receive, send)


def _offers(token: bytes) -> bool:
    return token.strip().lower() in _OF_ANOTHER_PROTOCOL
