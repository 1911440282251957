"""The bytes of a body, read once, in bounded memory and time.

Guarantees that a size above the maximum, declared or real, is refused unkept, and that a body which
does not come is not waited for. Says nothing of what the bytes mean. Called by the routes, through
`bodies` where a body is JSON; the protocol tells here that a body is whole.
"""

import asyncio
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest

from gateway.http.codes import Code
from gateway.http.limits import BODY_HELD_BYTES, BODY_MS_MAX, BODY_PACE_AFTER_MS
from gateway.http.problems import No

BODY_IS_WHOLE: Final = "actionledger.body_is_whole"
"""The extension of a request that has come with all of its body: reading that waits for nobody."""

BODY: Final = "body"
"""In that extension: the bytes as the server keeps them, a bytearray."""

_MS_PER_S: Final = 1_000


class Arriving:
    """A body on its way that holds a place, and how much of it has come."""

    def __init__(self, length: int, now_s: float) -> None:
        """`length` in bytes is what it is to be; where its head does not say so, the most that it
        may be: else whoever says nothing could keep a place by sending little. `now_s` is the time
        of the loop.
        """
        self._bytes = length
        self._since_s = now_s
        self._deadline: asyncio.Timeout | None = None
        self.received = 0

    def is_late(self, now_s: float) -> bool:
        """Whether it is so far behind that it would not be whole in time, if it went on so."""
        passed_ms = (now_s - self._since_s) * _MS_PER_S
        if passed_ms < BODY_PACE_AFTER_MS:
            return False
        return 2 * self.received * BODY_MS_MAX < self._bytes * passed_ms

    def bound_by(self, deadline: asyncio.Timeout) -> None:
        """It is read until this deadline."""
        self._deadline = deadline

    def send_away(self) -> None:
        """End its reading now: its sender is told that it was too slow."""
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(0)


def declared_length(http: HttpRequest) -> int | None:
    """The bytes that a body is to have, as its head says; None where it says nothing."""
    declared = http.headers.get("content-length", "")
    if not (declared.isascii() and declared.isdigit()):
        return None
    # Twenty digits are above every maximum, and reading thousands of them takes long.
    return int(declared.lstrip("0")[:20] or "0")


def is_held(http: HttpRequest) -> bool:
    """Whether the server holds all of a body, or will, before anybody reads it: then reading takes
    no memory that whoever connects could not take anyway.
    """
    if BODY_IS_WHOLE in http.scope.get("extensions", ()):
        return True
    length = declared_length(http)
    return length is not None and length <= BODY_HELD_BYTES


async def read_body(
    http: HttpRequest, *, bytes_max: int, arriving: Arriving | None = None
) -> bytes | No:
    """The raw bytes, once; a size above the maximum, declared or real, is refused unkept.
    `arriving` is told how far it is, and may end it. Raises ClientDisconnect.
    """
    too_large = f"At most {bytes_max} bytes are allowed."
    whole = http.scope.get("extensions", {}).get(BODY_IS_WHOLE)
    if whole is not None:
        # Asking the server for what it has takes longer than reading it.
        held: bytearray = whole[BODY]
        return No(Code.TOO_LARGE, detail=too_large) if len(held) > bytes_max else _taken(held)
    length = declared_length(http)
    if length is not None and length > bytes_max:
        return No(Code.TOO_LARGE, detail=too_large)
    try:
        async with asyncio.timeout(BODY_MS_MAX / _MS_PER_S) as deadline:
            if arriving is not None:
                arriving.bound_by(deadline)
            raw = await _parts(http, bytes_max, arriving)
    except TimeoutError:
        return No(Code.TOO_SLOW)
    return No(Code.TOO_LARGE, detail=too_large) if raw is None else raw


def _taken(held: bytearray) -> bytes:
    """A body, of which the server keeps no second copy."""
    raw = bytes(held)
    held.clear()
    return raw


async def _parts(http: HttpRequest, bytes_max: int, arriving: Arriving | None) -> bytes | None:
    """A body as it comes, or None for one that is too large."""
    chunks: list[bytes] = []
    size, is_whole = 0, False
    # From the server itself: the framework's stream costs more than all that is read here.
    while not is_whole:
        part = await http.receive()
        if part["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk = part.get("body", b"")
        size += len(chunk)
        if arriving is not None:
            arriving.received = size
        if size > bytes_max:
            return None
        chunks.append(chunk)
        is_whole = not part.get("more_body", False)
    return b"".join(chunks)
