"""HTTP/1.1 as the door speaks it: uvicorn's protocol over a parser in C, with bounded heads.

Guarantees that the head of a request takes no more memory than `HEAD_BYTES_MAX` and one read from
the network, however it comes: the parser has no such limit of its own. Used by `serve`.
"""

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX: Final = 32 * 1_024
TOO_LONG: Final = "The request line and the headers are longer than 32 KiB."


class HeadTooLongError(Exception):
    """Said to the parser; the caller has its answer."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection. One whose head is too long is answered 400 in plain text and closed."""

    _is_in_head = True
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        """Take what came, and refuse a head that is too long before its end."""
        super().data_received(data)
        if not self._is_in_head or self.transport.is_closing():
            return
        self._head_bytes += len(data)
        if self._head_bytes > HEAD_BYTES_MAX:
            self.send_400_response(TOO_LONG)

    def on_message_begin(self) -> None:
        """Another head begins."""
        super().on_message_begin()
        self._is_in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Go on to the body, unless the head was too long and came at once."""
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEAD_BYTES_MAX:
            self.send_400_response(TOO_LONG)
            raise HeadTooLongError
        self._is_in_head = False
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer once: a connection that was refused is closing."""
        if not self.transport.is_closing():
            super().send_400_response(msg)
