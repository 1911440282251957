"""A proxy in front of a Postgres server that does something to the COMMIT of a chosen transaction.

It knows of the protocol only that messages have a type and a length, that values are bound by `B`,
and that `commit` is a simple query.
"""

import asyncio
import contextlib
import struct
from dataclasses import dataclass, field

from tests.passing import LENGTH, beyond, both_ways

_HEADER = struct.Struct(">ci")
_ENCRYPTION = (80_877_103, 80_877_104)
_CHUNK_BYTES = 65_536


@dataclass(slots=True)
class _Line:
    """One connection: what happens to its next answers."""

    fault: str = ""
    to_answers: str = ""


@dataclass(slots=True)
class PostgresProxy:
    """Passes everything on, but for the COMMIT of a transaction that bound a text of `faults`.

    `lost`: it never arrives. `answer_lost`: it arrives, its answer does not. `slow`: its answer
    comes `slow_seconds` later.
    """

    host: str
    behind: int
    faults: dict[str, str] = field(default_factory=dict)
    slow_seconds: float = 3.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of a client."""
        opened = await beyond(writer, self.host, self.behind)
        if opened is None:
            return
        answers, onward = opened
        line = _Line()
        await both_ways(
            writer,
            onward,
            self._said(reader, onward, line),
            self._answered(answers, writer, line),
        )

    async def _said(
        self, reader: asyncio.StreamReader, onward: asyncio.StreamWriter, line: _Line
    ) -> None:
        is_asking = True
        while is_asking:
            length = await reader.readexactly(LENGTH.size)
            rest = await reader.readexactly(LENGTH.unpack(length)[0] - LENGTH.size)
            is_asking = LENGTH.unpack_from(rest)[0] in _ENCRYPTION
            onward.write(length + rest)
            await onward.drain()
        while True:
            head = await reader.readexactly(_HEADER.size)
            kind, length_of = _HEADER.unpack(head)
            body = await reader.readexactly(length_of - LENGTH.size)
            if kind == b"B":
                line.fault = self._bound(body) or line.fault
            elif kind == b"Q" and body.startswith(b"commit") and line.fault:
                if line.fault == "lost":
                    return
                line.to_answers, line.fault = line.fault, ""
            onward.write(head + body)
            await onward.drain()

    def _bound(self, body: bytes) -> str:
        for text in list(self.faults):
            raw = text.encode()
            if LENGTH.pack(len(raw)) + raw in body:
                return self.faults.pop(text)
        return ""

    async def _answered(
        self, beyond: asyncio.StreamReader, writer: asyncio.StreamWriter, line: _Line
    ) -> None:
        while chunk := await beyond.read(_CHUNK_BYTES):
            if line.to_answers == "answer_lost":
                return
            if line.to_answers == "slow":
                line.to_answers = ""
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), self.slow_seconds)
            writer.write(chunk)
            await writer.drain()
