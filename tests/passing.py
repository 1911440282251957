"""What proxies of servers have in common: one connection of a client, passed on both ways."""

import asyncio
import struct
from collections.abc import Coroutine
from typing import Any

LENGTH = struct.Struct(">i")
"""How Kafka and Postgres write the length of a message, and Kafka numbers and ports."""


async def beyond(
    writer: asyncio.StreamWriter, host: str, port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """The connection behind that of a client; without one the client's is closed, and it is None. A
    writer that is left to itself is complained of in another test.
    """
    try:
        return await asyncio.open_connection(host, port)
    except OSError:
        writer.close()
        return None


async def both_ways(
    writer: asyncio.StreamWriter,
    onward: asyncio.StreamWriter,
    asking: Coroutine[Any, Any, None],
    answering: Coroutine[Any, Any, None],
) -> None:
    """Pass on until either way ends, then close both ends: that of the client is `writer`."""
    ways = [asyncio.create_task(asking), asyncio.create_task(answering)]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for end in (writer, onward):
            end.close()


async def next_frame(reader: asyncio.StreamReader) -> bytes:
    """The next message of Kafka's protocol, with its length in front."""
    length = await reader.readexactly(LENGTH.size)
    return length + await reader.readexactly(LENGTH.unpack(length)[0])
