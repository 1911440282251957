"""One open connection to a provider: bytes out at once, bytes in when they come.

Guarantees: `send` hands the bytes to the operating system before it returns, as far as its buffer
takes them; bytes that come while nobody asked spoil the connection, so that a stray answer can
never be read as the answer to the next request; the end of the stream and a reset are told apart.

Must never: know HTTP, or connect on its own behalf. The HTTP exchange is its only caller.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import Sequence
from typing import Final, cast

from aiohappyeyeballs import AddrInfoType, start_connection

NEXT_ADDRESS_SECONDS: Final = 0.25
"""After which the next address of a name is tried beside the one before it."""

_ANY_NEWS: Final = select.POLLIN | select.POLLHUP | select.POLLERR


class Connection(asyncio.Protocol):
    """A TCP or TLS connection, used by one exchange at a time."""

    __slots__ = ("_broken", "_ended", "_in_use", "_received", "_spoiled", "_transport", "_waiting")

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._ended = False
        self._broken = False
        self._spoiled = False
        self._in_use = False
        self._waiting: asyncio.Future[None] | None = None

    @property
    def is_usable(self) -> bool:
        """False once the other side has closed it, or has sent what nobody asked for."""
        return not (
            self._ended
            or self._spoiled
            or self._received
            or self._transport is None
            or self._transport.is_closing()
        )

    def is_silent(self) -> bool:
        """Ask the operating system whether the other side has closed it or sent anything.

        The event loop may not have got round to telling us: a provider that was restarted a moment
        ago would turn a call that was never heard into an unresolved one.
        """
        poll = select.poll()
        poll.register(self._open_transport.get_extra_info("socket").fileno(), _ANY_NEWS)
        return not poll.poll(0)

    @property
    def is_flushed(self) -> bool:
        """True when the operating system has taken every byte sent so far."""
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    def send(self, data: bytes) -> None:
        """Write all of it now; what does not fit follows on its own. Answers may come from here."""
        self._in_use = True
        self._open_transport.write(data)

    async def receive(self) -> bytes:
        """The next bytes; empty at the end of the stream. Raises ConnectionResetError."""
        while not self._received:
            if self._broken:
                raise ConnectionResetError
            if self._ended:
                return b""
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        data = bytes(self._received)
        self._received.clear()
        return data

    def rest(self) -> None:
        """Say that the answer has been read: whatever comes now was not asked for."""
        self._in_use = False

    @property
    def _open_transport(self) -> asyncio.Transport:
        if self._transport is None:
            raise RuntimeError("used before it was made; only open_connection makes connections")
        return self._transport

    def cut(self) -> None:
        """Drop the connection with whatever is still in it; idempotent."""
        if self._transport is not None:
            self._transport.abort()

    # --- called by the event loop ----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Keep the bytes for the exchange, or cut a connection that speaks unasked."""
        if not self._in_use:
            self._spoiled = True
            self.cut()
            return
        self._received += data
        self._wake()

    def eof_received(self) -> bool:
        """Note the end; the transport closes by itself."""
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end, and whether it was a clean one."""
        self._ended = True
        self._broken = exc is not None
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


async def open_connection(host: str, port: int, tls: ssl.SSLContext | None) -> Connection:
    """Connect, trying the host's addresses in order, each a moment after the one before it (RFC
    8305): one that never answers would take all the time there is. Raises OSError; the caller sets
    the limit.

    A connection that is made and then cancelled before it is handed over is cut.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    connected = await _first_of(found)
    try:
        _, connection = await loop.create_connection(
            Connection, sock=connected, ssl=tls, server_hostname=None if tls is None else host
        )
    except BaseException:
        connected.close()
        raise
    return connection


async def _first_of(found: Sequence[AddrInfoType]) -> socket.socket:
    """Connect to whichever address answers. The race swallows a cancellation that comes while it
    calls off the addresses that lost: the one who cancelled would wait for ever, and send.
    """
    task = asyncio.current_task()
    asked = 0 if task is None else task.cancelling()
    connected = await start_connection(found, happy_eyeballs_delay=NEXT_ADDRESS_SECONDS)
    if task is not None and task.cancelling() > asked:
        connected.close()
        raise asyncio.CancelledError
    return connected
