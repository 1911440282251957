"""One HTTP exchange against servers that speak raw bytes: answers, deadlines, connections."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.providers.http_exchange import (
    AFTER_FIRST_BYTE,
    Answered,
    Broken,
    Exchanged,
    HttpClient,
    Message,
    Trouble,
    connect_trouble,
)
from reconciler.providers.port import Deadlines
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS

DEADLINES = Deadlines(connect_ms=30_000, response_ms=30_000)
SHORT = Deadlines(connect_ms=30_000, response_ms=120)
SHORT_OF_CONNECTING = Deadlines(connect_ms=120, response_ms=30_000)
MESSAGE = Message("POST", "/things", (("Content-Type", "application/json"),), b'{"a":1}')
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

DRIP_SECONDS = 0.02
CERTIFICATE = Path(__file__).with_name("loopback.pem")


class Server:
    """A server that does with each connection what its script says."""

    def __init__(self) -> None:
        """It answers with `answer` and keeps the connection, unless told otherwise."""
        self.url = ""
        self.connections = 0
        self.requests: list[bytes] = []
        self.answer = OK
        self.then_closes = False
        self._writers: list[asyncio.StreamWriter] = []

    async def close(self) -> None:
        """Hang up on everybody."""
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests until the other side goes."""
        self.connections += 1
        self._writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head + await reader.readexactly(len(MESSAGE.body)))
                writer.write(self.answer)
                await writer.drain()
                if self.then_closes:
                    break
        writer.close()


class Dripping(Server):
    """It answers a byte at a time, for ever."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Begin an answer and never end it."""
        self._writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(DRIP_SECONDS)


class Talkative(Server):
    """It answers before it is asked."""

    async def serve(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer at once, in plain text."""
        self._writers.append(writer)
        writer.write(OK)
        await writer.drain()


@contextlib.asynccontextmanager
async def running(raw: Server, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Run a raw server, with TLS if it is given."""
    async with await asyncio.start_server(raw.serve, "127.0.0.1", 0, ssl=tls) as listening:
        scheme = "http" if tls is None else "https"
        raw.url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield raw
        await raw.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """Run one raw server."""
    async with running(Server()) as raw:
        yield raw


@contextlib.asynccontextmanager
async def client(
    url: str,
    *,
    connections_max: int = 8,
    idle_ms_max: int = PATIENCE_MS,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[HttpClient]:
    """A client, closed at the end."""
    http = HttpClient(url, connections_max=connections_max, idle_ms_max=idle_ms_max, tls=tls)
    try:
        yield http
    finally:
        await http.close()


async def once(url: str, deadlines: Deadlines = DEADLINES) -> Exchanged:
    """One exchange with a client of its own."""
    async with client(url) as http:
        return await http.exchange(MESSAGE, deadlines=deadlines)


async def test_a_request_is_written_whole_and_its_answer_read(server: Server) -> None:
    """Path, host, length, headers and body arrive as given; the answer comes back as it was."""
    async with client(server.url + "/base/") as http:
        answered = await http.exchange(MESSAGE, deadlines=DEADLINES)
    assert answered == Answered(200, (("content-length", "2"),), b"{}")
    [request] = server.requests
    assert request.startswith(b"POST /base/things HTTP/1.1\r\n")
    assert b"content-length: 7\r\n" in request.lower()
    assert request.endswith(b'\r\n\r\n{"a":1}')


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        (b"", Trouble.CONNECTION_LOST),
        (b"HTTP/1.1 200 OK\r\nContent-", Trouble.ANSWER_CUT_SHORT),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", Trouble.ANSWER_CUT_SHORT),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
            Trouble.ANSWER_CUT_SHORT,
        ),
        (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", Trouble.ANSWER_INVALID),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", Trouble.ANSWER_INVALID),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 40 + OK, Trouble.ANSWER_INVALID),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", Trouble.ANSWER_INVALID),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000, Trouble.ANSWER_INVALID),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n" + b" " * 300_000,
            Trouble.ANSWER_TOO_LARGE,
        ),
    ],
)
async def test_an_answer_that_is_not_whole_is_none(
    server: Server, answer: bytes, trouble: Trouble
) -> None:
    """Cut, wrong and endless answers are told apart, all of them after the first byte."""
    server.answer, server.then_closes = answer, True
    assert await once(server.url) == Broken(trouble)
    assert trouble in AFTER_FIRST_BYTE


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\n\r\n{}",
    ],
)
async def test_every_form_of_a_whole_answer_is_read(server: Server, answer: bytes) -> None:
    """Interim answers, chunks, and bodies that end with the connection."""
    server.answer, server.then_closes = answer, True
    answered = await once(server.url)
    assert isinstance(answered, Answered)
    assert answered.body == b"{}"


async def test_a_redirect_is_an_answer_like_any_other(server: Server) -> None:
    """Nothing follows a Location header."""
    server.answer = (
        b"HTTP/1.1 302 Found\r\nLocation: " + server.url.encode() + b"\r\nContent-Length: 0\r\n\r\n"
    )
    answered = await once(server.url)
    assert isinstance(answered, Answered)
    assert answered.status == 302
    assert len(server.requests) == 1


# --- deadlines ------------------------------------------------------------------------------------


async def test_a_connection_that_does_not_open_ends_at_the_connect_deadline() -> None:
    """A host that takes no more connections costs the connect time and nothing was sent."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        with contextlib.ExitStack() as stack:
            # The kernel accepts one more than the backlog on its own; the next one waits for ever.
            for _ in range(3):
                filler = stack.enter_context(socket.socket())
                filler.settimeout(0)
                filler.connect_ex(address)
            exchanged = await once(f"http://127.0.0.1:{address[1]}", SHORT_OF_CONNECTING)
    assert exchanged == Broken(Trouble.CONNECT_TIMED_OUT)


async def test_waiting_for_a_free_connection_ends_at_the_connect_deadline(server: Server) -> None:
    """A call that never got a connection was not sent."""
    server.answer = b""
    async with client(server.url, connections_max=1) as http, asyncio.TaskGroup() as group:
        sent = asyncio.Event()
        first = group.create_task(
            http.exchange(MESSAGE, deadlines=DEADLINES, before_first_byte=sent.set)
        )
        await sent.wait()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not server.requests:
                await asyncio.sleep(0)
        second = await http.exchange(MESSAGE, deadlines=SHORT_OF_CONNECTING)
        first.cancel()
    assert second == Broken(Trouble.NO_FREE_CONNECTION)
    assert len(server.requests) == 1


async def test_an_answer_that_drips_ends_at_the_response_deadline() -> None:
    """The deadline is for the whole answer: bytes that keep coming do not move it."""
    async with running(Dripping()) as server:
        exchanged = await once(server.url, SHORT)
    assert exchanged == Broken(Trouble.ANSWER_TIMED_OUT)


async def test_time_spent_connecting_is_not_taken_from_the_answer(server: Server) -> None:
    """A slow guard leaves the response deadline whole: here on a connection that is there."""

    def guard() -> None:
        threading.Event().wait(0.6)

    async with client(server.url) as http:
        assert isinstance(await http.exchange(MESSAGE, deadlines=DEADLINES), Answered)
        answered = await http.exchange(
            MESSAGE,
            deadlines=Deadlines(connect_ms=500, response_ms=30_000),
            before_first_byte=guard,
        )
    assert isinstance(answered, Answered)


# --- kept connections -----------------------------------------------------------------------------


async def test_a_good_connection_is_used_again(server: Server) -> None:
    """Exchanges one after the other share a connection."""
    async with client(server.url) as http:
        for _ in range(5):
            assert isinstance(await http.exchange(MESSAGE, deadlines=DEADLINES), Answered)
    assert server.connections == 1


async def test_a_connection_that_was_closed_meanwhile_is_not_used(server: Server) -> None:
    """A provider that hangs up between two calls costs a connection, not an outcome."""
    server.then_closes = True
    async with client(server.url) as http:
        for _ in range(3):
            assert isinstance(await http.exchange(MESSAGE, deadlines=DEADLINES), Answered)
    assert server.connections == 3


async def test_a_stray_answer_is_never_read_as_the_next_one(server: Server) -> None:
    """Bytes behind an answer, or between two requests, spoil the connection."""
    server.answer = OK + OK.replace(b"{}", b"no")
    async with client(server.url) as http:
        for _ in range(3):
            answered = await http.exchange(MESSAGE, deadlines=DEADLINES)
            assert isinstance(answered, Answered)
            assert answered.body == b"{}"
    assert server.connections == 3


async def test_a_connection_that_rested_too_long_is_not_used(server: Server) -> None:
    """Idle connections go stale before the provider closes them."""
    async with client(server.url, idle_ms_max=0) as http:
        for _ in range(2):
            await http.exchange(MESSAGE, deadlines=DEADLINES)
    assert server.connections == 2


async def test_a_connection_whose_answer_was_given_up_is_not_used(server: Server) -> None:
    """After a deadline the next call opens anew, so a late answer meets nobody."""
    server.answer = b""
    async with client(server.url) as http:
        assert await http.exchange(MESSAGE, deadlines=SHORT) == Broken(Trouble.ANSWER_TIMED_OUT)
        server.answer = OK
        assert isinstance(await http.exchange(MESSAGE, deadlines=DEADLINES), Answered)
    assert server.connections == 2


async def test_closing_twice_is_closing_once(server: Server) -> None:
    """A closed client keeps no connection, and may be closed again."""
    http = HttpClient(server.url)
    await http.exchange(MESSAGE, deadlines=DEADLINES)
    await http.close()
    await http.close()
    await http.exchange(MESSAGE, deadlines=DEADLINES)
    assert server.connections == 2
    await http.close()


# --- what cannot be sent --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [
        Message("POST", "/a b"),
        Message("POST", "/a\r\nHost: other"),
        Message("POST", "/", (("X-Key", "a\r\nb"),)),
        Message("POST", "/", (("X-Key", "ключ"),)),
        Message("PO ST", "/"),
        Message("POST", "/", (), b" " * 200_000),
    ],
)
async def test_what_is_no_request_never_leaves(server: Server, message: Message) -> None:
    """Smuggled lines, foreign characters and oversized bodies are refused before connecting."""
    async with client(server.url) as http:
        assert await http.exchange(message, deadlines=DEADLINES) == Broken(Trouble.UNSENDABLE)
    assert server.connections == 0


@pytest.mark.parametrize(
    "url",
    ["ftp://host", "http://", "host:80", "http://user:pass@host", "http://h/?q=1", "http://a..b"],
)
def test_a_base_url_is_plain(url: str) -> None:
    """An address with credentials, a query, another scheme or no host is a mistake of settings."""
    with pytest.raises(ValueError, match=r"."):
        HttpClient(url)


def test_troubles_of_connecting_have_names() -> None:
    """What the operating system reports becomes one of our words."""
    assert connect_trouble(socket.gaierror(-2, "unknown")) is Trouble.NAME_NOT_RESOLVED
    assert connect_trouble(ConnectionRefusedError()) is Trouble.CONNECT_REFUSED
    assert connect_trouble(ssl.SSLCertVerificationError()) is Trouble.TLS_FAILED
    assert connect_trouble(OSError(113, "no route")) is Trouble.CONNECT_FAILED


async def test_a_server_without_tls_is_not_spoken_to() -> None:
    """A failed handshake ends before the first byte of the request."""
    async with running(Talkative()) as server:
        exchanged = await once(server.url.replace("http:", "https:"))
    assert exchanged == Broken(Trouble.TLS_FAILED)


async def test_tls_is_spoken_to_whom_we_trust_and_to_nobody_else() -> None:
    """A trusted certificate gives kept connections; another one ends before the first byte."""
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(CERTIFICATE)
    trusting = ssl.create_default_context(cafile=str(CERTIFICATE))
    async with running(Server(), serving) as server:
        async with client(server.url, tls=trusting) as http:
            for _ in range(3):
                assert isinstance(await http.exchange(MESSAGE, deadlines=DEADLINES), Answered)
        assert server.connections == 1
        assert await once(server.url) == Broken(Trouble.TLS_FAILED)
    assert len(server.requests) == 3


ANSWERS = st.binary(max_size=80) | st.binary(max_size=40).map(lambda tail: OK[:20] + tail)


@given(answer=ANSWERS)
@settings(max_examples=150, deadline=None)
def test_no_answer_makes_it_raise(answer: bytes) -> None:
    """Whatever bytes come back, the exchange ends as an answer or as a named trouble."""

    async def run() -> Exchanged:
        async with running(Server()) as server:
            server.answer, server.then_closes = answer, True
            return await once(server.url)

    exchanged = asyncio.run(run())
    match exchanged:
        case Answered():
            assert answer.startswith(b"HTTP/1.")
        case Broken(trouble):
            assert trouble in AFTER_FIRST_BYTE
