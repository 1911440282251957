"""The moment of the first byte: what the guard sees, and what the other side has by then."""

import asyncio
import contextlib
import select
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest
import uvloop

from gateway.local.ports import free_ports
from reconciler.providers.http_exchange import Answered, Broken, HttpClient, Message, Trouble
from reconciler.providers.port import Deadlines, Declined
from tests.patience import PATIENCE_SECONDS

DEADLINES = Deadlines(connect_ms=30_000, response_ms=30_000)
SHORT = Deadlines(connect_ms=30_000, response_ms=120)
MESSAGE = Message("POST", "/things", (("Content-Type", "application/json"),), b'{"a":1}')


@contextlib.asynccontextmanager
async def client(url: str) -> AsyncIterator[HttpClient]:
    """A client, closed at the end."""
    http = HttpClient(url)
    try:
        yield http
    finally:
        await http.close()


class Peer:
    """A server in a thread of its own: it can be looked at while our loop stands still."""

    def __init__(self) -> None:
        """Listen; the first connection is accepted in the background."""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listening.getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}"
        self._accepted = threading.Event()
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def is_connected(self) -> bool:
        """Whether our connection has been accepted, waiting a little for it."""
        return self._accepted.wait(PATIENCE_SECONDS)

    def has_bytes(self) -> bool:
        """Whether anything came over the connection, looking for a tenth of a second."""
        return bool(select.select([self.connection], [], [], 0.1)[0])

    def answer(self) -> None:
        """Read one request and answer it."""
        assert self.is_connected()
        assert self.connection.recv(65_536).endswith(MESSAGE.body)
        self.connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    def close(self) -> None:
        """Close what is open."""
        self._thread.join(PATIENCE_SECONDS)
        self.connection.close()
        self._listening.close()

    def _accept(self) -> None:
        self.connection, _ = self._listening.accept()
        self._accepted.set()


@pytest.fixture
def peer() -> Iterator[Peer]:
    """Run one peer."""
    peer = Peer()
    yield peer
    peer.close()


async def test_the_guard_sees_an_open_connection_without_a_byte(peer: Peer) -> None:
    """While the guard runs the provider has our connection and nothing on it; then all of it."""
    seen: list[tuple[bool, bool]] = []

    def guard() -> None:
        seen.append((peer.is_connected(), peer.has_bytes()))

    async with client(peer.url) as http:
        exchanged = await http.exchange(MESSAGE, deadlines=SHORT, before_first_byte=guard)
    assert exchanged == Broken(Trouble.ANSWER_TIMED_OUT)
    assert seen == [(True, False)]
    received = peer.connection.recv(65_536)
    assert received.startswith(b"POST /things")
    assert received.endswith(MESSAGE.body), "head and body leave in one write"


async def test_a_guard_that_declines_leaves_a_closed_connection_without_a_byte(peer: Peer) -> None:
    """The peer reads the end of the stream and nothing before it."""

    def guard() -> None:
        raise Declined("too_late")

    async with client(peer.url) as http:
        with pytest.raises(Declined):
            await http.exchange(MESSAGE, deadlines=DEADLINES, before_first_byte=guard)
    assert peer.is_connected()
    with contextlib.suppress(ConnectionResetError):
        assert peer.connection.recv(1) == b""


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_nothing_runs_between_the_guard_and_the_write(
    peer: Peer, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """What the loop has to run right after the call finds the bytes at the other side already."""
    order: list[str] = []

    def look() -> None:
        order.append("bytes there" if peer.has_bytes() else "nothing there")

    async def run() -> None:
        async with client(peer.url) as http:
            first = asyncio.create_task(http.exchange(MESSAGE, deadlines=DEADLINES))
            await asyncio.to_thread(peer.answer)
            await first
            second = asyncio.create_task(
                http.exchange(
                    MESSAGE, deadlines=SHORT, before_first_byte=lambda: order.append("guard")
                )
            )
            # In the same turn of the loop, directly behind the second call.
            asyncio.get_running_loop().call_soon(look)
            await second

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(run())
    assert order == ["guard", "bytes there"]


async def test_the_guard_is_not_asked_when_there_is_no_connection() -> None:
    """A refused connection ends before the guard."""
    (nobody,) = free_ports(1)
    url = f"http://127.0.0.1:{nobody}"
    asked: list[str] = []
    async with client(url) as http:
        exchanged = await http.exchange(
            MESSAGE, deadlines=DEADLINES, before_first_byte=lambda: asked.append("asked")
        )
    assert exchanged == Broken(Trouble.CONNECT_REFUSED)
    assert asked == []


async def test_an_address_that_never_answers_keeps_nobody_from_the_next(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name has several addresses, and one of them is dead: it took all the time there was, each
    time anew, and no request ever left.
    """
    loop, (_, port) = asyncio.get_running_loop(), peer.address
    with full("127.0.0.2", port):
        monkeypatch.setattr(loop, "getaddrinfo", both_at(port))
        answering = loop.run_in_executor(None, peer.answer)
        async with client(f"http://provider.example:{port}") as http:
            answered = await http.exchange(MESSAGE, deadlines=DEADLINES)
        await answering
    assert isinstance(answered, Answered)


@pytest.mark.parametrize("turn", range(8))
@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("ended_by", ["cancellation", "outer timeout", "connect deadline"])
def test_an_end_is_never_lost_while_addresses_race(
    peer: Peer,
    monkeypatch: pytest.MonkeyPatch,
    ended_by: str,
    new_loop: Callable[[], asyncio.AbstractEventLoop],
    turn: int,
) -> None:
    """Stopped at any turn of the loop after an address answered and another hangs, an exchange ends
    as it was told to, and its request does not leave after that.
    """
    monkeypatch.setattr("reconciler.providers.connection.NEXT_ADDRESS_SECONDS", 0.001)
    order: list[str] = []
    limits: list[asyncio.Timeout] = []
    timeout = asyncio.timeout

    def limited(delay: float | None) -> asyncio.Timeout:
        limits.append(timeout(delay))
        return limits[-1]

    monkeypatch.setattr(asyncio, "timeout", limited)

    async def run() -> Answered | Broken:
        loop = asyncio.get_running_loop()

        async def connecting(one: socket.socket, address: tuple[str, int]) -> None:
            if address[0] == "127.0.0.2":
                await loop.create_future()
            # The standard library's own names; on this machine it connects at once.
            one.settimeout(PATIENCE_SECONDS)
            one.connect(address)
            one.setblocking(False)  # noqa: FBT003
            after(turn)

        def after(turns: int) -> None:
            if turns:
                loop.call_soon(after, turns - 1)
                return
            if ended_by == "cancellation":
                exchange.cancel()
            else:
                limits[0 if ended_by == "outer timeout" else 1].reschedule(loop.time())
            loop.call_soon(order.append, "end")

        async def exchanged() -> Answered | Broken:
            async with asyncio.timeout(None):
                return await http.exchange(
                    MESSAGE, deadlines=SHORT, before_first_byte=lambda: order.append("guard")
                )

        monkeypatch.setattr(loop, "getaddrinfo", both_at(peer.address[1]))
        monkeypatch.setattr(loop, "sock_connect", connecting)
        async with client(f"http://provider.example:{peer.address[1]}") as http:
            exchange = asyncio.create_task(exchanged())
            return await exchange

    with asyncio.Runner(loop_factory=new_loop) as runner:
        if ended_by == "connect deadline":
            broken = runner.run(run())
            is_sent = "guard" in order
            trouble = Trouble.ANSWER_TIMED_OUT if is_sent else Trouble.CONNECT_TIMED_OUT
            assert broken == Broken(trouble)
        else:
            is_stopped = ended_by == "cancellation"
            with pytest.raises(asyncio.CancelledError if is_stopped else TimeoutError):
                runner.run(run())
            assert order in (["end"], ["guard", "end"])


def both_at(port: int) -> Callable[..., Awaitable[list[object]]]:
    """A resolver of names with two addresses, of which the first is dead."""

    async def addresses(*_: object, **__: object) -> list[object]:
        hosts = ("127.0.0.2", "127.0.0.1")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in hosts]

    return addresses


@contextlib.contextmanager
def full(host: str, port: int) -> Iterator[None]:
    """An address at which nothing is ever accepted: its queue is full."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(socket.socket())
        listening.bind((host, port))
        listening.listen(0)
        for _ in range(8):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)  # noqa: FBT003 - the standard library's own
            with contextlib.suppress(BlockingIOError):
                waiting.connect((host, port))
        yield
