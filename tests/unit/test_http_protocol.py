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

from gateway.http.body_bytes import read_body
from gateway.http.problems import No
from gateway.http.protocol import HEAD_BYTES_MAX, JOINED_BYTES_MAX, BoundedProtocol, JoinedWrites
from tests.patience import PATIENCE_SECONDS

CHUNK_BYTES = 4_096
BODY_BYTES_MAX = 2 * CHUNK_BYTES
TURNS = 20
"""Turns of the loop that server and caller share: enough to read what was written."""


async def told_size(scope: Scope, receive: Receive, send: Send) -> None:
    """Say how long a body was, and which headers came; what is at /early is answered unread, what
    is at /routes is read as the routes read it.
    """
    request = Request(scope, receive)
    if request.url.path == "/routes":
        read = await read_body(request, bytes_max=BODY_BYTES_MAX)
        if isinstance(read, No):
            await read.response()(scope, receive, send)
            return
        body = read
    else:
        body = b"" if request.url.path == "/early" else await request.body()
    names = ",".join(sorted(request.headers.keys()))
    await PlainTextResponse(f"{len(body)} bytes with {names}.")(scope, receive, send)


class Impatient(BoundedProtocol):
    """A connection that may be idle for a moment only."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait."""
        self.timeout_keep_alive = 0.3  # type: ignore[assignment] # the timer takes any time
        super().connection_made(transport)


@asynccontextmanager
async def served(
    http: type[BoundedProtocol] = BoundedProtocol, *, connections_max: int | None = None
) -> AsyncIterator[int]:
    """The port of a server that speaks as the door does."""
    config = uvicorn.Config(
        told_size,
        http=http,
        ws="none",
        lifespan="off",
        log_config=None,
        limit_concurrency=connections_max,
    )
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = asyncio.create_task(server.serve([listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


async def answers(port: int, *parts: bytes, pause: bool = False) -> bytes:
    """Everything that is answered to these parts, until the server closes; with `pause` it reads
    each before the next comes.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def say() -> None:
        with suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
                for _ in range(TURNS if pause else 0):
                    await asyncio.sleep(0)

    saying = asyncio.create_task(say())
    said = b""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            with suppress(ConnectionError):
                while part := await reader.read(CHUNK_BYTES):
                    said += part
    finally:
        saying.cancel()
        writer.transport.abort()
        await asyncio.gather(saying, return_exceptions=True)
    return said


@pytest.mark.parametrize("step", [CHUNK_BYTES, 41 * HEAD_BYTES_MAX], ids=["in parts", "at once"])
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["never ends", "ends"])
@pytest.mark.parametrize("start", [b"GET /", b"GET / HTTP/1.1\r\nhost: a\r\nx: "])
async def test_a_head_that_is_too_long_is_refused_once(start: bytes, end: bytes, step: int) -> None:
    """A path or a header of any length ends in one answer that says why, however it comes in."""
    head = start + b"a" * 40 * HEAD_BYTES_MAX + end
    async with served() as port:
        said = await answers(port, *(head[at : at + step] for at in range(0, len(head), step)))
    assert said.startswith(b"HTTP/1.1 431 ")
    assert said.count(b"HTTP/1.1 4") == said.count(b"\r\ndate: ") == 1
    assert b'"code":"head_too_large"' in said


async def test_a_long_body_and_another_request_after_it_are_no_long_head() -> None:
    """What counts is each head alone."""
    body = b"b" * 5 * HEAD_BYTES_MAX
    post = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    last = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nconnection: close\r\n\r\nabc"
    async with served() as port:
        said = await answers(port, post, post, last)
    assert said.count(b"HTTP/1.1 200 ") == 3
    assert said.count(f"{len(body)} bytes".encode()) == 2
    assert b"3 bytes" in said


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
        b"GET / HTTP/1.1\r\nhost: a\r\nHost: b\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
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
        "two hosts",
        "packed chunks",
    ],
)
async def test_what_is_no_request_is_answered_400_and_ends_the_connection(sent: bytes) -> None:
    """Whatever two readers could understand differently is understood by none."""
    async with served() as port:
        said = await answers(port, sent)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in said
    assert b'"code":"malformed_http"' in said
    assert said.count(b"HTTP/1.1 4") == said.count(b"\r\ndate: ") == 1


OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n"


@pytest.mark.parametrize("cut", [None, 0, 2], ids=["at once", "body apart", "in the body"])
async def test_a_body_is_read_although_another_protocol_is_offered(cut: int | None) -> None:
    """Some clients offer HTTP/2 with every request: the offer is passed over, and the body is no
    request of its own.
    """
    head = b"POST / HTTP/1.1\r\nhost: a\r\n" + OFFER + b"content-length: 33\r\n\r\n"
    body = b"GET /smuggled HTTP/1.1\r\nhost: a\r\n"[:33]
    last = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    whole = head + body + last
    async with served() as port:
        if cut is None:
            said = await answers(port, whole)
        else:
            said = await answers(
                port, whole[: len(head) + cut], whole[len(head) + cut :], pause=True
            )
    assert said.count(b"HTTP/1.1 200 ") == said.count(b"HTTP/1.1") == 2
    assert b"33 bytes with connection,content-length,host." in said


@pytest.mark.parametrize("is_whole", [True, False], ids=["whole", "in parts"])
@pytest.mark.parametrize("extra", [0, 1], ids=["fits", "too large"])
@pytest.mark.parametrize("is_chunked", [False, True], ids=["of a length", "chunked"])
async def test_a_body_is_read_the_same_however_it_comes(
    *, is_whole: bool, extra: int, is_chunked: bool
) -> None:
    """One that is there when its request begins is handed over, any other is waited for; twice on
    one connection, so that nothing is left of the first.
    """
    size = BODY_BYTES_MAX + extra
    if is_chunked:
        head, body = "transfer-encoding: chunked", b"%x\r\n%b\r\n0\r\n\r\n" % (size, b"x" * size)
    else:
        head, body = f"content-length: {size}", b"x" * size
    sent = [f"POST /routes HTTP/1.1\r\nhost: here\r\n{head}\r\n\r\n".encode(), body]
    last = [sent[0].replace(b"host:", b"connection: close\r\nhost:"), body]
    parts = [b"".join(sent), b"".join(last)] if is_whole else [*sent, *last]
    async with served() as port:
        said = await answers(port, *parts, pause=True)
    if extra:
        assert said.count(b"HTTP/1.1 413 ") == 2
    else:
        assert said.count(f"{size} bytes with ".encode()) == 2


async def test_fields_behind_a_body_are_no_headers() -> None:
    """Whoever filters headers in front of the door has not seen them."""
    sent = (
        b"POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
        b"3\r\nabc\r\n0\r\nauthorization: Bearer x\r\n\r\n"
    )
    async with served() as port:
        said = await answers(port, sent)
    assert b"3 bytes with connection,host,transfer-encoding." in said


CHUNKED = b"POST /%b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("begins", "goes_on"),
    [
        (CHUNKED % b"" + b"0\r\n", b"a: b\r\n" * 1_000),
        (CHUNKED % b"" + b"0\r\na: ", b"b" * 8_000),
        (CHUNKED % b"" + b"3;", b"a" * 8_000),
        (CHUNKED % b"early" + b"0\r\n", b"a: b\r\n" * 1_000),
        (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", b"\r\n" * 4_000),
    ],
    ids=["trailers", "a trailer", "a chunk extension", "after the answer", "empty lines"],
)
async def test_what_leads_nowhere_ends_the_connection(begins: bytes, goes_on: bytes) -> None:
    """Bytes that are part of no body are taken only so long."""
    async with served() as port:
        said = await answers(port, begins, *[goes_on] * 200, pause=True)
    assert said.count(b"HTTP/1.1 431 ") + said.count(b"HTTP/1.1 200 ") in {1, 2}


async def test_requests_that_do_not_wait_for_their_answers_are_few() -> None:
    """Thousands in one breath are not kept: the first has its answer, and the connection ends."""
    async with served() as port:
        said = await answers(port, b"GET / HTTP/1.1\r\nhost: a\r\n\r\n" * 20_000)
    assert said.count(b"HTTP/1.1 200 ") == said.count(b"HTTP/1.1") == 1


async def test_an_answer_is_not_lost_to_what_follows_its_request() -> None:
    """Whoever sent a whole request gets its answer, and no other in its place."""
    whole = b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc"
    async with served() as port:
        said = await answers(port, whole + b"NOT A REQUEST\r\n\r\n")
    assert said.count(b"HTTP/1.1") == 1
    assert b"3 bytes" in said


async def test_the_rest_of_a_body_is_no_head() -> None:
    """A body that was answered before it was read does not make the next head long."""
    body = b"b" * (2 * HEAD_BYTES_MAX)
    early = b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n" % len(body)
    last = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
    async with served() as port:
        said = await answers(port, early, body + last[:20], last[20:], pause=True)
    assert said.count(b"HTTP/1.1 200 ") == said.count(b"HTTP/1.1") == 2


GET = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        ((), []),
        ((b"GE",), [b"408"]),
        ((b"GET / HTTP/1.1\r\nhost: a\r\n",), [b"408"]),
        ((GET, b"\r\n"), [b"200"]),
        ((GET + b"GET / HTTP/1.1\r\n",), [b"200"]),
        ((b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n", b"x"), [b"200"]),
        ((b"POST /early HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\n\r\n", b"x"), [b"200"]),
    ],
    ids=["nothing", "method", "head", "empty line", "next head", "rest of a body", "end of a body"],
)
async def test_who_asks_nothing_keeps_no_connection(
    sent: tuple[bytes, ...], statuses: list[bytes]
) -> None:
    """However few bytes come, and after whatever answer: it ends, and a head that was begun is told
    why. Connections that cost nothing would else take the place of all others.
    """
    async with served(Impatient) as port:
        said = await answers(port, *sent, pause=True)
    told = [line[9:12] for line in said.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert told[:1] == statuses


async def test_one_connection_too_many_is_refused_as_a_problem() -> None:
    """As everything is that the door refuses."""
    async with served(connections_max=1) as port:
        said = await answers(port, GET.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n"))
    assert said.startswith(b"HTTP/1.1 503 ")
    assert b'"code":"too_busy"' in said


class Told(asyncio.Transport):
    """A transport that keeps each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []
        self.is_closed = False

    def write(self, data: bytes) -> None:  # type: ignore[override]
        """Keep it, while it is open."""
        assert not self.is_closed
        self.writes.append(data)

    def close(self) -> None:
        """Close."""
        self.is_closed = True

    def is_closing(self) -> bool:
        """Whether it was closed."""
        return self.is_closed


async def test_what_is_written_in_one_turn_is_one_write() -> None:
    """In its order; what is much does not wait, and nothing is lost to a close of our own."""
    under, loop = Told(), asyncio.get_running_loop()
    joined = JoinedWrites(under, loop)
    joined.write(b"head ")
    joined.write(b"body")
    assert under.writes == []
    await asyncio.sleep(0)
    assert under.writes == [b"head body"]
    joined.write(b"a" * JOINED_BYTES_MAX)
    joined.write(b"b")
    joined.write(b"c")
    assert under.writes[1:] == [b"a" * JOINED_BYTES_MAX + b"b"]
    joined.close()
    assert under.writes[2:] == [b"c"]
    assert under.is_closed
    await asyncio.sleep(0)
    assert len(under.writes) == 3


async def test_an_answer_to_somebody_who_has_gone_is_let_go() -> None:
    """The connection was lost between the answer and the end of the turn."""
    under, loop = Told(), asyncio.get_running_loop()
    JoinedWrites(under, loop).write(b"answer")
    under.is_closed = True
    await asyncio.sleep(0)
    assert under.writes == []
