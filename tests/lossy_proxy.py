"""A proxy in front of a Kafka broker that loses answers: the request arrives, its answer does not.

It knows of Kafka only that every message has its length in front, that a request begins with the
number of its kind, and that answers bear the number of their request.
"""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from tests.passing import LENGTH, beyond, both_ways, next_frame

PRODUCE = 0
_REQUEST = struct.Struct(">hhi")
_CHUNK_BYTES = 65_536


@dataclass
class LossyProxy:
    """Passes everything on, but for what it is told to lose."""

    behind: int
    answers_to_lose: int = 0
    """So many produce answers are lost, each with its connection."""
    is_cut: bool = False
    """Whether nobody gets through any more."""
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        if self.is_cut:
            writer.close()
            return
        opened = await beyond(writer, "127.0.0.1", self.behind)
        if opened is None:
            return
        answers, onward = opened
        marked: set[int] = set()
        await both_ways(
            writer,
            onward,
            self._requests(reader, onward, marked),
            self._answers(answers, writer, marked),
        )

    async def _requests(
        self, reader: asyncio.StreamReader, onward: asyncio.StreamWriter, marked: set[int]
    ) -> None:
        while True:
            frame = await next_frame(reader)
            kind, _, number = _REQUEST.unpack_from(frame, LENGTH.size)
            if kind == PRODUCE:
                self.requests += 1
                if self.answers_to_lose:
                    self.answers_to_lose -= 1
                    marked.add(number)
            onward.write(frame)
            await onward.drain()

    async def _answers(
        self, beyond: asyncio.StreamReader, writer: asyncio.StreamWriter, marked: set[int]
    ) -> None:
        while True:
            frame = await next_frame(beyond)
            (number,) = LENGTH.unpack_from(frame, LENGTH.size)
            if number in marked:
                self.lost.set()
                return
            writer.write(frame)
            await writer.drain()


@contextlib.asynccontextmanager
async def lossy_proxy(port: int, behind: int) -> AsyncIterator[LossyProxy]:
    """Run one on a port of this machine."""
    proxy = LossyProxy(behind)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", port)
    try:
        yield proxy
    finally:
        server.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await server.wait_closed()
