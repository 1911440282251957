"""A provider that takes every request and answers none: each outcome is unknown afterwards.

Guarantees that a request was read whole before its connection is cut, so that nobody can say it
was not sent. Called by the case `webhook`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

_END_OF_HEAD: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"
_HOST: Final = "127.0.0.1"


@asynccontextmanager
async def unanswering() -> AsyncIterator[str]:
    """Its address, for as long as the block runs."""
    server = await asyncio.start_server(_take, _HOST, 0)
    try:
        yield f"http://{_HOST}:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await server.wait_closed()


async def _take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        head = await reader.readuntil(_END_OF_HEAD)
        for line in head.lower().split(b"\r\n"):
            if line.startswith(_LENGTH):
                await reader.readexactly(int(line[len(_LENGTH) :]))
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
