"""How the door reads requests from a connection: heads that never end, bodies, several in a row."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from gateway.http.protocol import HEAD_BYTES_MAX, TOO_LONG, BoundedProtocol

SOON_SECONDS = 10.0
CHUNK_BYTES = 4_096


async def told_size(scope: Scope, receive: Receive, send: Send) -> None:
    """Say how long a body was."""
    body = await Request(scope, receive).body()
    await PlainTextResponse(f"{len(body)} bytes")(scope, receive, send)


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    """The port of a server that speaks as the door does."""
    config = uvicorn.Config(
        told_size, http=BoundedProtocol, ws="none", lifespan="off", log_config=None
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def answers(port: int, *parts: bytes) -> bytes:
    """Everything that is answered to these parts, until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        for part in parts:
            writer.write(part)
            await writer.drain()
    async with asyncio.timeout(SOON_SECONDS):
        said = b""
        with suppress(ConnectionError):
            while part := await reader.read(CHUNK_BYTES):
                said += part
    writer.close()
    return said


@pytest.mark.parametrize("step", [CHUNK_BYTES, 10 * HEAD_BYTES_MAX], ids=["in parts", "at once"])
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["never ends", "ends"])
@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nhost: a\r\nx: "])
async def test_a_head_that_is_too_long_is_refused_once(start: bytes, end: bytes, step: int) -> None:
    """A path or a header of any length ends in one answer that says why, however it comes in."""
    head = start + b"a" * 2 * HEAD_BYTES_MAX + end
    async with served() as port:
        said = await answers(port, *(head[at : at + step] for at in range(0, len(head), step)))
    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1") == 1
    assert said.endswith(TOO_LONG.encode())


async def test_a_long_body_and_another_request_after_it_are_no_long_head() -> None:
    """What counts is each head alone."""
    body = b"b" * 5 * HEAD_BYTES_MAX
    post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    last = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc"
    async with served() as port:
        said = await answers(port, post, post, last)
    assert said.count(b"HTTP/1.1 200 ") == 3
    assert said.count(f"{len(body)} bytes".encode()) == 2
    assert said.endswith(b"3 bytes")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: -3\r\n\r\nabc",
        b"GET / HTTP/1.1\r\nhost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nx: a\x00b\r\n\r\n",
    ],
    ids=[
        "tls",
        "version",
        "bytes in the path",
        "two lengths",
        "length and chunks",
        "negative length",
        "space before the colon",
        "folded header",
        "nul",
    ],
)
async def test_what_is_no_request_is_answered_400_and_ends_the_connection(sent: bytes) -> None:
    """Whatever two readers could understand differently is understood by none."""
    async with served() as port:
        said = await answers(port, sent)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in said
    assert said.count(b"HTTP/1.1") == 1
