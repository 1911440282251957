"""The first contact of an outbox with its broker: one connection, whoever gives up waiting."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ledger.log.access import KafkaAccess
from reconciler.providers.kafka.description import KafkaDescription, parse_kafka
from reconciler.providers.kafka.performer import KafkaPerformer
from reconciler.providers.port import Deadlines, NotSent, Outcome, ProviderRequest, Retry

DESCRIPTION = """\
format = 1
kind = "kafka"
brokers = "127.0.0.1:{port}"
protocol = "plaintext"
[accounts.main]
[perform.invoice]
topic = "requests"
[perform.invoice.value]
order = "{{params.order}}"
"""
REQUEST = ProviderRequest(
    action_key="invoice:v1:acme:1",
    operation="invoice",
    version=1,
    target=None,
    params={"order": 7},
    money=None,
    account="main",
    request_hash="sha256:" + "ab" * 32,
)
API_VERSIONS, METADATA = 18, 3
_HEAD = struct.Struct(">hhi")


@dataclass
class HesitantBroker:
    """Says which requests it understands, and of its cluster nothing: it closes the connection when
    it is told to.
    """

    port: int = 0
    connections: int = 0
    open: int = 0
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    may_close: asyncio.Event = field(default_factory=asyncio.Event)
    all_closed: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, as long as its client keeps it open."""
        self.connections += 1
        self.open += 1
        self.all_closed.clear()
        try:
            await self._answer(reader, writer)
        finally:
            writer.close()
            self.open -= 1
            if not self.open:
                self.all_closed.set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                kind, version, number = _HEAD.unpack_from(await reader.readexactly(size))
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            if kind != API_VERSIONS:
                self.asked.set()
                await self.may_close.wait()
                return
            known = [(API_VERSIONS, 0, 0), (METADATA, 0, 0)]
            said = struct.pack(">ihi", number, 0, len(known))
            said += b"".join(struct.pack(">hhh", *one) for one in known)
            said += struct.pack(">i", 0) if version else b""
            writer.write(struct.pack(">i", len(said)) + said)


@asynccontextmanager
async def serving(broker: HesitantBroker) -> AsyncIterator[None]:
    """The broker, listening."""
    listening = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    broker.port = listening.sockets[0].getsockname()[1]
    async with listening:
        yield


def performer(broker: HesitantBroker) -> KafkaPerformer:
    """The outbox at this broker."""
    described = parse_kafka(DESCRIPTION.format(port=broker.port))
    assert isinstance(described, KafkaDescription)
    return KafkaPerformer(described, {"main": KafkaAccess()})


async def perform(outbox: KafkaPerformer, connect_ms: int) -> Outcome:
    """Write one record; nothing of it may leave."""

    def never() -> None:
        raise AssertionError("nothing was connected")

    deadlines = Deadlines(connect_ms=connect_ms, response_ms=1_000)
    return await outbox.perform(
        REQUEST, provider_key="key-1", deadlines=deadlines, before_first_byte=never
    )


async def test_calls_that_give_up_leave_one_connection_to_the_next() -> None:
    """A broker that does not answer in a call's time is met once, and its connection is closed when
    it is over; nothing was sent.
    """
    broker = HesitantBroker()
    async with serving(broker):
        outbox = performer(broker)
        gives_up = NotSent("connect_timed_out", Retry.LATER)
        assert await perform(outbox, connect_ms=300) == gives_up
        await broker.asked.wait()
        assert await perform(outbox, connect_ms=1) == gives_up
        assert (broker.connections, broker.open) == (1, 1)
        broker.may_close.set()
        await outbox.close()
        await broker.all_closed.wait()
        assert broker.connections == 1


async def test_a_call_that_is_cancelled_leaves_no_connection_behind() -> None:
    """Who is told to stop while the broker is asked for its cluster has closed all at its end."""
    broker = HesitantBroker()
    async with serving(broker):
        outbox = performer(broker)
        calling = asyncio.ensure_future(perform(outbox, connect_ms=60_000))
        await broker.asked.wait()
        calling.cancel()
        await asyncio.wait({calling})
        assert calling.cancelled()
        broker.may_close.set()
        await outbox.close()
        await broker.all_closed.wait()


async def test_a_broker_that_was_not_met_is_met_by_the_next_call() -> None:
    """A first contact that failed is not kept."""
    broker = HesitantBroker()
    async with serving(broker):
        outbox = performer(broker)
        broker.may_close.set()
        failed = NotSent("connect_failed", Retry.LATER)
        assert await perform(outbox, connect_ms=60_000) == failed
        assert await perform(outbox, connect_ms=60_000) == failed
        assert broker.connections == 2
        await outbox.close()
        await broker.all_closed.wait()
