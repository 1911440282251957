"""The load generator: a process of its own that keeps callers busy and times what they wait for.

    python -m benchmarks.load BOOTSTRAP PREFIX PARTITIONS

One order a line on stdin, one measurement a line on stdout; it ends with stdin. Callers are a
closed loop: each has one action in flight and begins the next when it knows the outcome. An action
that does not complete ends the process: such a run has no result. Started by `benchmarks.driving`.
"""

import asyncio
import itertools
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Annotated, Literal, Self

import uvloop
from pydantic import BaseModel, ConfigDict, Field

from benchmarks.approving import Approver
from benchmarks.proposals import AMOUNT, AMOUNT_TO_CONFIRM, CHARGE, LOST, proposal
from gateway.garbage import seek_cycles_seldom
from ledger.client.client import LedgerClient
from ledger.core.inputs import Propose
from ledger.log.kafka import KafkaLog

ANSWER_MS_MAX = 30_000
"""From a call to its outcome; beyond it something is broken, not slow."""

UNDER_WAY = frozenset({"proposed", "awaiting_approval", "blocked", "ready", "attempting"})

ACTIONS_MAX = 200_000
"""A case ends after its time or this many actions."""


class Order(BaseModel):
    """Keep `in_flight` callers busy for `seconds`, or until `actions` are done.

    `act` proposes new actions of the tenant and waits until each has completed, `ask` until each is
    decided, `lose` until its outcome is unknown; `approve` signs each as a person does and waits
    until it has completed; `repeat` proposes its first `actions` over and over and waits for the
    decision. With `per_s` calls begin at that rate, where enough callers are free.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: Literal["act", "ask", "lose", "approve", "repeat"]
    tenant: str
    in_flight: Annotated[int, Field(ge=1)]
    seconds: float
    actions: Annotated[int, Field(ge=1, le=ACTIONS_MAX)] = ACTIONS_MAX
    per_s: float | None = None


class Measured(BaseModel):
    """What came of an order. `began_s` and `ended_s` are the machine's monotonic clock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int
    began_s: float
    ended_s: float
    p50_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, latencies_s: Iterable[float], began_s: float, ended_s: float) -> Self:
        """What so many calls took, from the first to the last of them."""
        sorted_ms = sorted(latency * 1_000 for latency in latencies_s)
        return cls(
            n=len(sorted_ms),
            began_s=began_s,
            ended_s=ended_s,
            p50_ms=round(percentile(sorted_ms, 50), 3),
            p99_ms=round(percentile(sorted_ms, 99), 3),
            max_ms=round(sorted_ms[-1], 3),
        )


Call = Callable[[Propose], Awaitable[None]]


class Caller:
    """What one call is, by the word of its order."""

    def __init__(self, client: LedgerClient, approver: Approver) -> None:
        self._client = client
        self._approver = approver

    async def act(self, given: Propose) -> None:
        """Propose, and wait for the effect."""
        await self._client.propose(given, timeout_ms=ANSWER_MS_MAX)
        await self._until(given.key, "completed")

    async def lose(self, given: Propose) -> None:
        """Propose what a provider takes and never answers."""
        await self._client.propose(given, timeout_ms=ANSWER_MS_MAX)
        await self._until(given.key, "unknown")

    async def approve(self, given: Propose) -> None:
        """Propose what a person has to confirm, confirm it, and wait for the effect."""
        answer = await self._client.propose(given, timeout_ms=ANSWER_MS_MAX)
        await self._approver.approve(answer.decision)
        await self._until(given.key, "completed")

    async def ask(self, given: Propose) -> None:
        """Propose."""
        answer = await self._client.propose(given, timeout_ms=ANSWER_MS_MAX)
        assert answer.decision.facts, answer

    async def repeat(self, given: Propose) -> None:
        """Propose what was proposed before."""
        answer = await self._client.propose(given, timeout_ms=ANSWER_MS_MAX)
        assert answer.decision.unchanged is not None, answer

    async def _until(self, key: str, status: str) -> None:
        version = 0
        while True:
            progress = await self._client.progress(
                key, after_version=version, timeout_ms=ANSWER_MS_MAX
            )
            assert progress is not None, f"{key} is not {status} after {ANSWER_MS_MAX} ms"
            if progress.status == status:
                return
            assert progress.status in UNDER_WAY, progress
            version = progress.version


async def serve(caller: Caller, orders: asyncio.StreamReader) -> None:
    """Carry out one order after the other until there are no more."""
    calls = {
        "act": caller.act,
        "approve": caller.approve,
        "ask": caller.ask,
        "lose": caller.lose,
        "repeat": caller.repeat,
    }
    while line := await orders.readline():
        order = Order.model_validate_json(line)
        numbers = range(order.actions)
        each = itertools.cycle(numbers) if order.what == "repeat" else iter(numbers)
        measured = await drive(calls[order.what], order, each)
        print(measured.model_dump_json(), flush=True)


async def drive(call: Call, order: Order, numbers: Iterator[int]) -> Measured:
    """Callers in a closed loop; none begins an action after the time is over, but the first."""
    latencies_s: list[float] = []
    operation = LOST if order.what == "lose" else CHARGE
    money = AMOUNT_TO_CONFIRM if order.what == "approve" else AMOUNT
    began_s, begun = time.monotonic(), 0

    async def caller() -> None:
        nonlocal begun
        for number in numbers:
            given = proposal(order.tenant, number, operation, money)
            if order.per_s is not None:
                await asyncio.sleep(began_s + number / order.per_s - time.monotonic())
            called_s = time.monotonic()
            if begun and called_s - began_s > order.seconds:
                return
            begun += 1
            await call(given)
            latencies_s.append(time.monotonic() - called_s)

    async with asyncio.TaskGroup() as callers:
        for _ in range(order.in_flight):
            callers.create_task(caller())
    ended_s = time.monotonic()
    return Measured.of(latencies_s, began_s, ended_s)


def percentile(sorted_values: list[float], percent: int) -> float:
    """Nearest rank."""
    rank = -(-len(sorted_values) * percent // 100)
    return sorted_values[max(0, rank - 1)]


async def run(bootstrap: str, prefix: str, partitions: int) -> None:
    """Follow the ledger, say so, and serve."""
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    log = KafkaLog(bootstrap, prefix=prefix, client_id="actionledger-load")
    approver = await Approver.of(log, partitions)
    try:
        async with LedgerClient(log, partitions) as client:
            # It asks as a gateway does, so it lives as one.
            seek_cycles_seldom()
            print("ready", flush=True)
            await serve(Caller(client, approver), orders)
    finally:
        await approver.close()


def main(arguments: list[str]) -> None:
    """Be the load generator until stdin ends."""
    bootstrap, prefix, partitions = arguments
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(bootstrap, prefix, int(partitions)))


if __name__ == "__main__":
    main(sys.argv[1:])
