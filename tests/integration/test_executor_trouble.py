"""Executors on the real Kafka when a provider is slow or its adapter breaks: nobody else pays."""

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from ledger.client.client import LedgerClient
from reconciler.providers.port import Deadlines, Outcome, ProviderRequest, Succeeded
from streams import executor
from tests.integration.installation import PARTITIONS, charge, installed, settled
from tests.patience import PATIENCE_MS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

CALL_SECONDS = 0.05
BROKEN = "charge:v1:acme:broken"


class Slow:
    """A provider that takes its time, and breaks over one action once."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
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
        before_first_byte()
        self.calls[request.action_key] += 1
        if request.action_key == BROKEN and self.calls[BROKEN] == 1:
            raise ZeroDivisionError
        self.at_work += 1
        self.at_work_max = max(self.at_work, self.at_work_max)
        try:
            await asyncio.wait_for(asyncio.Event().wait(), CALL_SECONDS)
        except TimeoutError:
            return Succeeded(reference=f"ef_{request.action_key}", result={})
        finally:
            self.at_work -= 1
        raise AssertionError

    async def close(self) -> None:
        """Nothing is open."""


async def test_a_slow_provider_costs_time_and_no_attempts(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Actions that wait for it wait in the ledger: no call fails for want of a connection, and none
    is made after its deadline.
    """
    monkeypatch.setattr(executor, "CONNECTIONS_MAX", 4)
    monkeypatch.setattr(executor, "WAITING_MAX", 6)
    slow = Slow()
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(slow)
        proposals = [charge(f"slow-{number}") for number in range(150)]
        async with LedgerClient(one.log, PARTITIONS) as client:
            await asyncio.gather(*(client.propose(p, timeout_ms=PATIENCE_MS) for p in proposals))
            for proposal in proposals:
                await settled(client, proposal.key, "completed")
        facts = Counter(fact.type for decision in await one.decisions() for fact in decision.facts)
    assert slow.at_work_max == 4
    assert slow.calls == Counter(proposal.key for proposal in proposals)
    assert facts["attempt.started"] == len(proposals)


async def test_an_adapter_that_breaks_ends_no_call_but_its_own(servers: Addresses) -> None:
    """Its action is unknown and will be found out; calls beside it are finished and reported."""
    slow = Slow()
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(slow)
        proposals = [charge(f"beside-{number}") for number in range(10)]
        async with LedgerClient(one.log, PARTITIONS) as client:
            async with asyncio.TaskGroup() as tasks:
                for proposal in [*proposals, charge("broken")]:
                    tasks.create_task(client.propose(proposal, timeout_ms=PATIENCE_MS))
            for proposal in proposals:
                await settled(client, proposal.key, "completed")
            unknown = await settled(client, BROKEN, "unknown")
            assert unknown.next_check_at is not None
        _, task = one.tasks[-1]
        assert not task.done()
