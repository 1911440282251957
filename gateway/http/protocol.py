"""HTTP/1.1 as the door speaks it: uvicorn's protocol over a parser in C, bounded.

Guarantees that what is no part of a body takes no more memory than `HEAD_BYTES_MAX` and one read
from the network, however it comes: the parser has no such limit. A body belongs to its request also
where another protocol is offered, which is passed over, as RFC 9110 allows. Fields behind a body
are no headers. Of requests that are sent before an answer a few wait, and what cannot be read ends
the connection once what came before it is answered. A request whose body is there says so, so that
nobody sets a timer to wait for it. Used by `serve`.
"""

from typing import Final

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gateway.http.bodies import BODY_IS_WHOLE

HEAD_BYTES_MAX: Final = 32 * 1_024
PIPELINED_MAX: Final = 16
TOO_LONG: Final = "The request line and the headers are longer than 32 KiB."
UNREADABLE: Final = "Invalid HTTP request received."

_OF_ANOTHER_PROTOCOL: Final = frozenset({b"upgrade", b"http2-settings"})
"""What offers another protocol, beside what `Connection` says of it (RFC 9110, 7.8)."""

_BODY_IS_WHOLE: Final[dict[str, dict[object, object]]] = {BODY_IS_WHOLE: {}}


class RefusedError(Exception):
    """Said to the parser, which takes no more; the connection is told, or is told nothing."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection. What cannot be read is answered 400 in plain text, and ends it."""

    _is_in_head = True
    _is_refused = False
    _has_moved = False
    _unmoved_bytes = 0
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
            self._refuse(UNREADABLE)
            return
        self._unmoved_bytes = 0 if self._has_moved else self._unmoved_bytes + len(data)
        if self._unmoved_bytes > HEAD_BYTES_MAX:
            self._refuse(TOO_LONG)

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

    def on_header(self, name: bytes, value: bytes) -> None:
        """A field of the head. One behind the body is dropped: nobody has looked at it who may have
        looked at the head.
        """
        if self._is_in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Go on to the body, unless the head is too long and came at once, or too many wait."""
        self._is_in_head, self._has_moved = False, True
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEAD_BYTES_MAX:
            self._refuse(TOO_LONG)
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
            self.scope["extensions"] = _BODY_IS_WHOLE
            super().on_message_complete()

    # Refusing

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._under_way = cycle
        super()._start_asgi_task(cycle, app)

    def _refuse(self, why: str) -> None:
        """Take no more. Where a request that was read whole has no answer yet it gets its own, and
        nothing else is said: it would be taken for that answer.
        """
        if self._is_refused:
            return
        self._is_refused = True
        asked = self._under_way
        if asked is None or asked.response_complete or (asked.more_body and asked is self.cycle):
            self.send_400_response(why)
            return
        asked.keep_alive = False
        self.pipeline.clear()
        self.flow.pause_reading()


def _offers(token: bytes) -> bool:
    return token.strip().lower() in _OF_ANOTHER_PROTOCOL
