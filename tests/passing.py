"""What proxies of servers have in common: one connection of a client, passed on both ways."""

import asyncio
import struct
from collections.abc import Coroutine
from typing import Any

LENGTH = struct.Struct(">i")
"""How Kafka and Postgres write the length of a message, and Kafka numbers and ports."""


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
