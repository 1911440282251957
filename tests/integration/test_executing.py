"""Executors on the real Kafka: sharing the work, keeping to their slots, stopping in the middle."""

import asyncio
from collections.abc import Callable

from ledger.client.client import LedgerClient
from reconciler.providers.port import Deadlines, Outcome, ProviderRequest, Succeeded
from streams.offers import OfferBook
from streams.processor import Processor
from tests.integration.installation import (
    PARTITIONS,
    charge,
    installed,
    settled,
)
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

LOOK_SECONDS = 0.01


class Watched:
    """A provider that counts, and keeps every call until `gate` opens."""

    def __init__(self, gate: asyncio.Event) -> None:
        self.gate = gate
        self.calls: list[str] = []
        self.at_work = 0
        self.at_work_max = 0

    async def perform(
        self,
        request: ProviderRequest,
        *,
        provider_key: str,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """One effect a call."""
        assert provider_key
        assert deadlines.response_ms > 0
        before_first_byte()
        self.calls.append(request.action_key)
        self.at_work += 1
        self.at_work_max = max(self.at_work, self.at_work_max)
        await self.gate.wait()
        self.at_work -= 1
        return Succeeded(reference=f"ef_{request.action_key}", result={})

    async def close(self) -> None:
        """Nothing is open."""


def books_of(processor: Processor) -> list[OfferBook]:
    """What each owner has heard of offers."""
    return [owner.offers for owner in processor._owners.values()]


async def until(condition: Callable[[], bool]) -> None:
    """Fail when the condition does not hold in time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(LOOK_SECONDS)


async def test_two_executors_share_the_work_and_no_action_is_done_twice(
    servers: Addresses,
) -> None:
    """Both incarnations get starts, and every action is performed exactly once."""
    gate = asyncio.Event()
    gate.set()
    first, second = Watched(gate), Watched(gate)
    async with installed(servers.kafka_bootstrap) as one:
        processor = await one.processor()
        await one.executor(first)
        await one.executor(second)
        await until(lambda: all(len(book._standing) == 2 for book in books_of(processor)))
        proposals = [charge(f"shared-{number}") for number in range(60)]
        async with LedgerClient(one.log, PARTITIONS) as client:
            await asyncio.gather(*(client.propose(p, timeout_ms=PATIENCE_MS) for p in proposals))
            for proposal in proposals:
                await settled(client, proposal.key, "completed")
    assert sorted(first.calls + second.calls) == sorted(p.key for p in proposals)
    assert first.calls
    assert second.calls


async def test_an_executor_never_has_more_calls_at_work_than_slots(servers: Addresses) -> None:
    """With one slot a partition, no more calls than partitions run at once, and all get done."""
    gate = asyncio.Event()
    watched = Watched(gate)
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(watched, slots=PARTITIONS)
        proposals = [charge(f"queued-{number}") for number in range(20)]
        async with LedgerClient(one.log, PARTITIONS) as client:
            await asyncio.gather(*(client.propose(p, timeout_ms=PATIENCE_MS) for p in proposals))
            async with asyncio.timeout(PATIENCE_SECONDS):
                while watched.at_work < PARTITIONS:
                    await asyncio.sleep(0)
            gate.set()
            for proposal in proposals:
                await settled(client, proposal.key, "completed")
    assert watched.at_work_max <= PARTITIONS
    assert len(watched.calls) == len(proposals)


async def test_a_stopped_executor_finishes_its_calls_and_reports_them(servers: Addresses) -> None:
    """A graceful stop lets the call at work end: its outcome is in the log, nothing is unknown."""
    gate = asyncio.Event()
    watched = Watched(gate)
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(watched)
        proposal = charge("stopping")
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not watched.at_work:
                    await asyncio.sleep(0)
            stopping = asyncio.create_task(one.stop())
            await asyncio.sleep(0)
            gate.set()
            await stopping
            done = await settled(client, proposal.key, "completed", "unknown")
    assert done.status == "completed"


async def test_a_stopped_executor_takes_its_offers_back(servers: Addresses) -> None:
    """After a graceful stop nothing is started for it: the action waits for the next executor."""
    gate = asyncio.Event()
    gate.set()
    gone, next_one = Watched(gate), Watched(gate)
    async with installed(servers.kafka_bootstrap) as one:
        processor = await one.processor()
        await one.executor(gone)
        async with LedgerClient(one.log, PARTITIONS) as client:
            await one.stop()
            # An owner may hear of it a moment later; what it starts meanwhile has to lapse.
            await until(lambda: not any(book.slots_left(0) for book in books_of(processor)))
            proposals = [charge(f"between-{number}") for number in range(PARTITIONS * 2)]
            await asyncio.gather(*(client.propose(p, timeout_ms=PATIENCE_MS) for p in proposals))
            await one.executor(next_one)
            done = [await settled(client, p.key, "completed", "unknown") for p in proposals]
    assert {progress.status for progress in done} == {"completed"}
    assert gone.calls == []


async def test_an_executor_that_gave_a_start_back_makes_way_for_a_new_incarnation(
    servers: Addresses,
) -> None:
    """The only executor declines; it ends by itself, and the next one carries the action out."""
    gate = asyncio.Event()
    gate.set()
    watched = Watched(gate)
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(watched, margin_ms=3_600_000)
        proposal = charge("declined-once")
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(proposal, timeout_ms=PATIENCE_MS)
            _, task = one.tasks.pop()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await task
            assert not watched.calls
            await one.executor(watched)
            await settled(client, proposal.key, "completed")
    assert watched.calls == [proposal.key]
