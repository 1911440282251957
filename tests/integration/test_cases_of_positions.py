"""Public failure cases about positions: what is read again after a crash, a rebalance, a lost
commit, an open transaction or a copy, and what all of that does to the world. Nothing.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import CommitFailedError

from ledger.client.client import LedgerClient
from ledger.core.inputs import Propose
from ledger.core.records import Cause, Decision, EpochOpened
from ledger.log.envelope import encode_ledger, outgoing
from ledger.log.port import Outgoing
from ledger.log.topics import Topic, partition_of
from streams import processor
from tests.integration.counting import CountingProvider
from tests.integration.installation import PARTITIONS, Installation, charge, installed, settled
from tests.patience import CAMPAIGN_SECONDS, PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.02
MANY = 5_000


async def until(condition: Callable[[], bool]) -> None:
    """Fail when the condition does not hold in time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(LOOK_SECONDS)


def record_of(proposal: Propose, *, event_id: str | None = None) -> tuple[int, Outgoing]:
    """A proposal as a trusted service writes it, and the partition it belongs to."""
    stream = proposal.key.split(":", 2)[2].replace(":", "/")
    record = outgoing(
        proposal,
        stream=stream,
        subject=proposal.key,
        event_id=event_id or proposal.key,
        source="/test",
    )
    return partition_of(stream, PARTITIONS), record


async def put_all(one: Installation, proposals: Sequence[Propose]) -> None:
    """Append many proposals, each to its partition."""
    by_partition: dict[int, list[Outgoing]] = {}
    for proposal in proposals:
        partition, record = record_of(proposal)
        by_partition.setdefault(partition, []).append(record)
    for partition, records in by_partition.items():
        await one.put(Topic.INTENTS, partition, *records)


async def epochs(one: Installation) -> Counter[int]:
    """How many owners each partition has had."""
    return Counter(
        partition for partition, _, read in await one.ledger() if isinstance(read, EpochOpened)
    )


def _has_more_than(provider: CountingProvider, calls: int) -> bool:
    return provider.calls.total() > calls


@pytest.mark.case("C143")
@pytest.mark.timeout(CAMPAIGN_SECONDS)
async def test_c143_neither_a_rebalance_nor_lost_commits_bring_a_call_again(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """C143: three finished actions are left alone by a rebalance; 5,000 inputs that were handled
    while no commit of the group came through are not handled again by the next member; and that
    commits fail is said.
    """
    provider = CountingProvider()
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(provider)
        first = [charge(f"finished-{number}") for number in range(3)]
        async with LedgerClient(one.log, PARTITIONS) as client:
            for proposal in first:
                await client.propose(proposal, timeout_ms=PATIENCE_MS)
                await settled(client, proposal.key, "completed")
            await one.processor()
            await one.stop(0)

            async def refused(*_: object) -> None:
                raise CommitFailedError

            monkeypatch.setattr(AIOKafkaConsumer, "commit", refused)
            monkeypatch.setattr(processor, "COMMIT_SECONDS", 0.1)
            await one.processor()
            many = [charge(f"many-{number}") for number in range(MANY)]
            await put_all(one, many)
            while (so_far := provider.calls.total()) < MANY + 3:
                await until(partial(_has_more_than, provider, so_far))
            await settled(client, many[-1].key, "completed")
            while one.tasks:
                await one.crash()
            await one.processor()
            await one.executor(provider)
            last = charge("behind-all-of-them")
            await client.propose(last, timeout_ms=PATIENCE_MS)
            await settled(client, last.key, "completed")
    assert provider.calls == Counter(one.key for one in [*first, *many, last])
    lines = [line for line in caplog.records if line.message == "positions_not_committed"]
    assert lines
    assert lines[0].levelno == logging.WARNING


@pytest.mark.case("C147")
async def test_c147_a_call_that_takes_long_costs_no_partition_and_no_second_call(
    servers: Addresses,
) -> None:
    """C147: calls run beside reading, so while one is at work everything else goes on, no member
    leaves its group, and the other executor never hears of that action.
    """
    provider = CountingProvider()
    slow = charge("slow")
    provider.waits_for = {slow.key}
    provider.may_answer.clear()
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(provider)
        await one.executor(provider)
        before = await epochs(one)
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(slow, timeout_ms=PATIENCE_MS)
            await until(lambda: provider.calls[slow.key] == 1)
            others = [charge(f"beside-{number}") for number in range(200)]
            await put_all(one, others)
            for proposal in others:
                await settled(client, proposal.key, "completed")
            provider.may_answer.set()
            await settled(client, slow.key, "completed")
        assert await epochs(one) == before
    assert set(provider.calls.values()) == {1}
    assert len(provider.calls) == 201


@asynccontextmanager
async def open_transaction(one: Installation, name: str) -> AsyncIterator[AIOKafkaProducer]:
    """Somebody's transaction that is neither committed nor aborted while it is open here."""
    producer = AIOKafkaProducer(
        bootstrap_servers=one.log.bootstrap, transactional_id=one.log.prefix + name
    )
    await producer.start()
    await producer.begin_transaction()
    try:
        yield producer
    finally:
        await producer.stop()


@pytest.mark.case("C153")
async def test_c153_an_open_transaction_hides_nothing_from_who_decides(
    servers: Addresses,
) -> None:
    """C153: behind a record of a transaction that hangs lie forty others, on the inbox and on the
    ledger. A processor that starts reads to where the log ends, not to where the transaction
    begins: it knows every action before it decides, and the stranger's record counts for nobody.
    """
    provider = CountingProvider()
    proposals = [charge(f"event#{number}") for number in range(40)]
    partition = partition_of("acme/event", PARTITIONS)
    late = Decision(
        at=0,
        epoch=0,
        cause=Cause(topic="intents", partition=partition, offset=999),
        decided_at=0,
        stream="",
    )
    value = encode_ledger(late, generation="stranger", partition=partition)
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(provider)
        async with open_transaction(one, "hangs") as stranger:
            hanging = await stranger.send(
                one.log.prefix + Topic.LEDGER, value, key=b"late", partition=partition
            )
            await hanging
            async with LedgerClient(one.log, PARTITIONS) as client:
                for proposal in proposals:
                    await client.propose(proposal, timeout_ms=PATIENCE_MS)
                    await settled(client, proposal.key, "completed")
                await one.crash(0)
                await one.processor()
                for proposal in proposals:
                    again = await client.propose(proposal, timeout_ms=PATIENCE_MS)
                    assert again.decision.unchanged is not None
                    assert again.decision.unchanged.reason == "replayed"
                    assert again.decision.unchanged.status == "completed"
    assert provider.calls == Counter(proposal.key for proposal in proposals)


@pytest.mark.case("C155")
async def test_c155_copies_of_three_relays_are_one_action_each(servers: Addresses) -> None:
    """C155: three relays append each of ten rows under a new random event id. The key of the action
    is what counts: ten actions, ten calls, and twenty answers that say so.
    """
    provider = CountingProvider()
    rows = [charge(f"row-{number}") for number in range(10)]
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(provider)
        for relay in range(3):
            for row in rows:
                partition, record = record_of(row, event_id=f"relay-{relay}-{row.key}")
                await one.put(Topic.INTENTS, partition, record)
        async with LedgerClient(one.log, PARTITIONS) as client:
            last = charge("behind-the-copies")
            await client.propose(last, timeout_ms=PATIENCE_MS)
            for row in (*rows, last):
                await settled(client, row.key, "completed")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                answers = [
                    decision.unchanged.reason
                    for decision in await one.decisions()
                    if decision.unchanged is not None
                ]
                if len(answers) == 20:
                    break
        assert set(answers) == {"replayed"}
    assert provider.calls == Counter(row.key for row in (*rows, last))


@pytest.mark.case("C165")
async def test_c165_a_writers_clock_decides_nothing(servers: Addresses) -> None:
    """C165: a caller whose clock is a day ahead, in the envelope and in the record, gets the time
    of the broker: its action lives no longer than any other.
    """
    proposal = charge("from-tomorrow")
    partition, record = record_of(proposal)
    tomorrow = b'"time":"2099-01-01T00:00:00Z","specversion":'
    ahead = record._replace(value=record.value.replace(b'"specversion":', tomorrow, 1))
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        producer = AIOKafkaProducer(bootstrap_servers=one.log.bootstrap)
        await producer.start()
        try:
            sent = await producer.send_and_wait(
                one.log.prefix + Topic.INTENTS,
                ahead.value,
                key=ahead.key,
                partition=partition,
                timestamp_ms=4_070_908_800_000,
            )
        finally:
            await producer.stop()
        async with LedgerClient(one.log, PARTITIONS) as client:
            answer = await client.propose(proposal, timeout_ms=PATIENCE_MS)
            assert answer.decision.unchanged is not None
        (first,) = (
            decision
            for decision in await one.decisions()
            if decision.cause.topic == Topic.INTENTS and decision.facts
        )
        assert first.decided_at == sent.timestamp
        (intent,) = (fact for fact in first.facts if fact.type == "intent.recorded")
        assert intent.step_deadline_at - first.decided_at < 86_400_000
