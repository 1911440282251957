"""A proxy in front of one Kafka broker that does something to the produce request of an action.

It puts its own port in place of the broker's wherever the broker names it, so that a client that
bootstraps here stays here; for that the broker has to call itself 127.0.0.1.
"""

import asyncio
import contextlib
import struct
from dataclasses import dataclass, field

from tests.passing import LENGTH, beyond, both_ways, next_frame

_REQUEST = struct.Struct(">hhi")
_PRODUCE = 0
_FETCH = 1
_HOST = b"\x00\x09127.0.0.1"
_AFTER_KEY = b"\x32actionledger-request-hash"
"""What follows the action key in a record: the length and the name of the next header."""


@dataclass(slots=True)
class KafkaProxy:
    """Passes everything on, but for the record of an action of `faults`.

    `lost`: it never arrives. `answer_lost`: it arrives, its answer does not. `slow`: its answer
    comes `slow_seconds` later. While `holds_fetches` nobody who asks for records is answered.
    """

    behind: int
    port: int = 0
    faults: dict[str, str] = field(default_factory=dict)
    slow_seconds: float = 3.0
    holds_fetches: bool = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        opened = await beyond(writer, "127.0.0.1", self.behind)
        if opened is None:
            return
        answers, onward = opened
        marked: dict[int, str] = {}
        await both_ways(
            writer,
            onward,
            self._asked(reader, onward, marked),
            self._answered(answers, writer, marked),
        )

    async def _asked(
        self, reader: asyncio.StreamReader, onward: asyncio.StreamWriter, marked: dict[int, str]
    ) -> None:
        while True:
            frame = await next_frame(reader)
            kind, _, number = _REQUEST.unpack_from(frame, LENGTH.size)
            if kind == _FETCH and self.holds_fetches:
                continue
            fault = self._fault(frame) if kind == _PRODUCE else ""
            if fault == "lost":
                return
            if fault:
                marked[number] = fault
            onward.write(frame)
            await onward.drain()

    def _fault(self, frame: bytes) -> str:
        for key in list(self.faults):
            if key.encode() + _AFTER_KEY in frame:
                return self.faults.pop(key)
        return ""

    async def _answered(
        self, beyond: asyncio.StreamReader, writer: asyncio.StreamWriter, marked: dict[int, str]
    ) -> None:
        there, here = (_HOST + LENGTH.pack(port) for port in (self.behind, self.port))
        while True:
            frame = await next_frame(beyond)
            (number,) = LENGTH.unpack_from(frame, LENGTH.size)
            fault = marked.pop(number, "")
            if fault == "answer_lost":
                return
            if fault == "slow":
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), self.slow_seconds)
            writer.write(frame.replace(there, here))
            await writer.drain()
