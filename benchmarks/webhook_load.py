"""The load generator of webhooks: a process of its own that signs, sends and times.

    python -m benchmarks.webhook_load URL SECRET

One order a line on stdin, one measurement a line on stdout; it ends with stdin. Every webhook is
signed before the clock begins, so that what is timed is the door's work. An answer that is not 202
ends the process: such a run has no result. Started by `benchmarks.driving`.
"""

import asyncio
import sys
import time
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

import uvloop
from standardwebhooks import Webhook

from benchmarks.load import Measured, Order
from benchmarks.proposals import AMOUNT, LOST, key_of
from reconciler.providers.simulated.api import Event, EventData, Metadata

ACCOUNT: Final = "main"
_END_OF_HEAD: Final = b"\r\n\r\n"
_ACCEPTED: Final = b"HTTP/1.1 202 "
_LENGTH: Final = b"content-length:"


def requests(order: Order, url: str, secret: str) -> list[bytes]:
    """A signed request for each action of an order: that its charge is settled."""
    host, webhook, sent_at = urlsplit(url).netloc, Webhook(secret), datetime.now(UTC)
    made = []
    for number in range(order.actions):
        body = _body(order.tenant, number)
        event_id = f"evt_{order.tenant}_{number}"
        head = (
            f"POST /v1/webhooks/simulated?account={ACCOUNT} HTTP/1.1\r\nhost: {host}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
            f"webhook-id: {event_id}\r\nwebhook-timestamp: {int(sent_at.timestamp())}\r\n"
            f"webhook-signature: {webhook.sign(event_id, sent_at, body)}\r\n\r\n"
        )
        made.append(head.encode() + body.encode())
    return made


def _body(tenant: str, number: int) -> str:
    event = Event(
        id=f"evt_{tenant}_{number}",
        type="effect.settled",
        account=ACCOUNT,
        created_at=time.time_ns() // 1_000_000,
        data=EventData(
            effect_id=f"ch_{tenant}_{number}",
            operation=LOST,
            target=f"order:A-{number}",
            description=None,
            amount=AMOUNT,
            key=None,
            reference=None,
            metadata=Metadata(action_key=key_of(tenant, number, LOST)),
        ),
    )
    return event.model_dump_json()


async def send(order: Order, url: str, secret: str) -> Measured:
    """Send them all, over as many connections as there are callers; with `per_s` each is sent at
    its own moment, where a caller is free.
    """
    waiting = enumerate(requests(order, url, secret))
    place = urlsplit(url)
    latencies_s: list[float] = []
    began_s = time.monotonic()

    async def caller() -> None:
        reader, writer = await asyncio.open_connection(place.hostname, place.port)
        for number, request in waiting:
            if order.per_s is not None:
                await asyncio.sleep(began_s + number / order.per_s - time.monotonic())
            called_s = time.monotonic()
            writer.write(request)
            head = await reader.readuntil(_END_OF_HEAD)
            assert head.startswith(_ACCEPTED), head
            lines = head.lower().split(b"\r\n")
            (length,) = (line for line in lines if line.startswith(_LENGTH))
            await reader.readexactly(int(length[len(_LENGTH) :]))
            latencies_s.append(time.monotonic() - called_s)
        writer.close()

    async with asyncio.TaskGroup() as callers:
        for _ in range(order.in_flight):
            callers.create_task(caller())
    return Measured.of(latencies_s, began_s, time.monotonic())


async def run(url: str, secret: str) -> None:
    """Say that it is there, and serve."""
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    print("ready", flush=True)
    while line := await orders.readline():
        measured = await send(Order.model_validate_json(line), url, secret)
        print(measured.model_dump_json(), flush=True)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(*sys.argv[1:]))
