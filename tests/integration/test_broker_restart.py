"""The broker is killed under a running installation and comes back on its data: nothing is lost,
and nothing happens twice.
"""

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import pytest

from gateway import local
from ledger.client.client import LedgerClient, NotDurableError, UndecidedError
from ledger.core.errors import LedgerError
from ledger.core.inputs import Propose
from ledger.log import kafka
from ledger.log.kafka import KafkaLog
from ledger.log.topics import INBOXES
from streams.executor import Executor
from streams.processor import Processor
from tests.integration.counting import CountingProvider
from tests.integration.installation import PARTITIONS, Installation, charge, settled
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.05
INTENTS = 100
ASK_MS = 5_000
"""After so long it is asked again, until it is decided."""


class Program(Protocol):
    """A processor or an executor."""

    async def run(self, stop: asyncio.Event) -> None:
        """Work until asked to stop."""


@dataclass
class Supervisor:
    """Starts a program again whenever it ends, as whoever runs the product does."""

    stop: asyncio.Event = field(default_factory=asyncio.Event)
    endings: list[str] = field(default_factory=list)

    async def keep(self, make: Callable[[], Program]) -> None:
        """Run until asked to stop. A program may end of trouble with the log, of nothing else."""
        while not self.stop.is_set():
            program = make()
            try:
                await program.run(self.stop)
            except LedgerError as trouble:
                self.endings.append(f"{type(program).__name__}: {trouble}")
            except ExceptionGroup as troubles:
                _, others = troubles.split(LedgerError)
                assert others is None, others
                self.endings.append(f"{type(program).__name__}: {troubles.exceptions[0]}")
            if not self.stop.is_set():
                await asyncio.sleep(LOOK_SECONDS)


async def proposed(client: LedgerClient, proposal: Propose) -> None:
    """Ask until the intent is decided, as an agent does: the same key is always right."""
    while True:
        try:
            await client.propose(proposal, timeout_ms=ASK_MS)
        except (NotDurableError, UndecidedError):
            continue
        return


async def until(condition: Callable[[], bool]) -> None:
    """Fail when the condition does not hold in time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(LOOK_SECONDS)


async def undecided(one: Installation) -> int:
    """Inputs without a decision; every other has exactly one, in the order of its inbox."""
    causes: dict[tuple[str, int], list[int]] = {}
    for decision in await one.decisions():
        place = (decision.cause.topic, decision.cause.partition)
        causes.setdefault(place, []).append(decision.cause.offset)
    count = 0
    for topic in INBOXES:
        for partition in range(PARTITIONS):
            inputs = [
                record.offset
                for record in await one.records(topic, partition)
                if record.key != b"genesis"
            ]
            decided = causes.get((topic.value, partition), [])
            assert decided == inputs[: len(decided)]
            count += len(inputs) - len(decided)
    return count


@pytest.mark.parametrize("append_deadline_seconds", [PATIENCE_SECONDS, 0.8])
async def test_a_killed_broker_costs_no_intent_and_makes_no_second_effect(
    own_servers: local.Servers,
    monkeypatch: pytest.MonkeyPatch,
    append_deadline_seconds: float,
) -> None:
    """Killed with a hundred intents in flight and calls at work, whether appends outlast the outage
    or not: each is carried out once and completed by its report.
    """
    monkeypatch.setattr(kafka, "APPEND_DEADLINE_SECONDS", append_deadline_seconds)
    log = KafkaLog(own_servers.kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    one = Installation(log)
    await one.begin()
    book, supervisor = CountingProvider(), Supervisor()
    book.may_answer.clear()
    proposals = [charge(f"restart-{number}") for number in range(INTENTS)]
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(supervisor.keep(lambda: Processor(log, PARTITIONS)))
        tasks.create_task(supervisor.keep(lambda: Executor(log, PARTITIONS, {"simulated": book})))
        async with LedgerClient(log, PARTITIONS) as client:
            asking = [tasks.create_task(proposed(client, proposal)) for proposal in proposals]
            await until(lambda: book.calls.total() > INTENTS // 5)
            await own_servers.kafka.kill()
            book.may_answer.set()
            await asyncio.wait(asking, timeout=2 * min(append_deadline_seconds, 1))
            await own_servers.kafka.restart()
            for proposal in proposals:
                done = await settled(client, proposal.key, "completed")
                assert done.proof == "report"
            await asyncio.gather(*asking)
            assert client.failure is not None
            assert not client.failure.done()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await undecided(one):
                await asyncio.sleep(LOOK_SECONDS)
        supervisor.stop.set()
    assert book.calls == Counter({proposal.key: 1 for proposal in proposals})
    actions = [fact for decision in await one.decisions() for fact in decision.facts]
    assert Counter(fact.type for fact in actions)["action.completed"] == INTENTS
    if append_deadline_seconds > 1:
        assert supervisor.endings == []
    else:
        assert all(ending.startswith("Processor") for ending in supervisor.endings)
