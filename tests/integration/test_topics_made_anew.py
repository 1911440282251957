"""Topics that somebody deletes under running processes, and makes again: nothing of the new one is
taken for what stood in the old one.

Family `kafka`, beside C151 and C161: offsets that begin anew.
"""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from ledger.client.client import ClientFailedError, LedgerClient, UndecidedError
from ledger.core.errors import LedgerError
from ledger.log import kafka
from ledger.log.kafka import KafkaLog
from ledger.log.port import Outgoing
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic, partition_of
from ledger.log.trouble import LogUnreachableError, TruncatedLogError
from reconciler.topic_identity import TopicMadeAnewError, require_same_topic
from streams import older_requests
from streams.older_requests import OlderRequests
from tests.integration.counting import CountingProvider
from tests.integration.installation import (
    PARTITIONS,
    Installation,
    charge,
    installed,
    settled,
)
from tests.integration.reconciling import all_records, desk, migrated, receive, settlement
from tests.kafka_proxy import KafkaProxy
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.1
_MADE = 0
EVENTS = 8


async def make_anew(one: Installation, topic: Topic) -> None:
    """Delete a topic, and make it again as soon as the broker has forgotten it."""
    name = one.log.prefix + topic
    admin = AIOKafkaAdminClient(bootstrap_servers=one.log.bootstrap)
    await admin.start()
    try:
        await admin.delete_topics([name])
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                made = await admin.create_topics([NewTopic(name, PARTITIONS, 1)])
                if made.topic_errors[0][1] == _MADE:
                    return
                await asyncio.sleep(LOOK_SECONDS)
    finally:
        await admin.close()


async def refused_start(one: Installation) -> LedgerError:
    """Why a processor that is started now does not begin."""
    with pytest.raises(Exception) as refused:  # noqa: PT011 - its kind is looked at below
        await one.processor()
    cause: BaseException = refused.value
    while isinstance(cause, BaseExceptionGroup):
        cause = cause.exceptions[0]
    assert isinstance(cause, LedgerError), cause
    one.tasks.pop()
    return cause


async def ended(one: Installation, position: int) -> BaseException | None:
    """What a started process ended with."""
    _, task = one.tasks.pop(position)
    await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
    assert task.done()
    fault = task.exception()
    while isinstance(fault, BaseExceptionGroup):
        fault = fault.exceptions[0]
    return fault


async def test_an_inbox_made_anew_answers_nobody_with_what_was_decided_before(
    servers: Addresses,
) -> None:
    """The first offsets come again, and the ledger has decided on inputs that stood there: a caller
    is told that its input is not decided, never how another one stands, and the client ends. The
    processor ends as well, and none begins on that topic: nothing is carried out.
    """
    provider = CountingProvider()
    before = [charge(f"before-{number}") for number in range(EVENTS)]
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(provider)
        async with LedgerClient(one.log, PARTITIONS) as client:
            for proposal in before:
                await client.propose(proposal, timeout_ms=PATIENCE_MS)
                await settled(client, proposal.key, "completed")
            await make_anew(one, Topic.INTENTS)
            partition = partition_of("acme/before-0", PARTITIONS)
            # Where the genesis record stood.
            await one.put(Topic.INTENTS, partition, Outgoing(b"k", b"x", ()))
            events = (f"after-{number}" for number in range(1_000))
            event = next(at for at in events if partition_of(f"acme/{at}", PARTITIONS) == partition)
            with pytest.raises(UndecidedError):
                await client.propose(charge(event), timeout_ms=2_000)
            assert client.failure is not None
            assert client.failure.done()
            assert isinstance(client.failure.exception(), TruncatedLogError)
            with pytest.raises(ClientFailedError):
                await client.propose(charge("later"), timeout_ms=2_000)
        fault = await ended(one, 0)
        assert isinstance(fault, LedgerError), fault
        await refused_start(one)
    assert set(provider.calls) == {proposal.key for proposal in before}
    assert set(provider.calls.values()) == {1}


@pytest.mark.parametrize("topic", [Topic.APPROVALS, Topic.ATTEMPTS, Topic.EVIDENCE])
async def test_a_processor_ends_where_an_inbox_is_made_anew_and_none_begins(
    servers: Addresses, topic: Topic
) -> None:
    """Its first offsets come again, and lapses wait for what stands in it: a processor that went on
    would stand still without a word. It ends and says why, and so does each that is started after
    it.
    """
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(CountingProvider())
        async with LedgerClient(one.log, PARTITIONS) as client:
            for number in range(EVENTS):
                proposal = charge(f"before-{number}")
                await client.propose(proposal, timeout_ms=PATIENCE_MS)
                await settled(client, proposal.key, "completed")
        await make_anew(one, topic)
        fault = await ended(one, 0)
        assert isinstance(fault, LedgerError), fault
        assert topic in str(await refused_start(one))


async def test_webhooks_made_anew_are_not_taken_for_those_of_before(
    servers: Addresses, database_url: str
) -> None:
    """Their first places come again, and rows are kept by place: what came got no row, or nobody
    read it. Whoever begins refuses a topic that is shorter than the rows, or says something else;
    who runs refuses what comes to a place that has a row. Rows that are put aside, as the runbook
    says, keep what was known, and what is new is handled.
    """
    async with installed(servers.kafka_bootstrap) as one, migrated(database_url) as pool:
        appender = SteadyAppender(one.log.appender)
        taken = desk(one, pool, appender)
        before = [settlement(f"evt_{number}", reference=f"ch_{number}") for number in range(EVENTS)]
        await receive(one, *before)
        await taken.handle(await all_records(one, Topic.WEBHOOKS))
        await taken.handle(await all_records(one, Topic.WEBHOOKS))
        await require_same_topic(one.log, pool, PARTITIONS)

        await make_anew(one, Topic.WEBHOOKS)
        with pytest.raises(TopicMadeAnewError, match="it ends at 0"):
            await require_same_topic(one.log, pool, PARTITIONS)
        after = [settlement(f"new_{number}", reference=f"ch_n{number}") for number in range(40)]
        await receive(one, *after, before[0])
        with pytest.raises(TopicMadeAnewError, match="another record stands"):
            await require_same_topic(one.log, pool, PARTITIONS)
        with pytest.raises(TopicMadeAnewError, match="another record stood"):
            await taken.handle(await all_records(one, Topic.WEBHOOKS))

        runbook = (Path(__file__).parents[2] / "docs/OPERATIONS.md").read_text()
        aside = runbook.split("## A topic that is gone")[1].split("```sql")[1].split("```")[0]
        await pool.execute(aside)
        await require_same_topic(one.log, pool, PARTITIONS)
        await taken.handle(await all_records(one, Topic.WEBHOOKS))
        rows = await pool.fetch("select event_id, classification from actionledger.webhooks")
        counted = Counter(row["event_id"] for row in rows if row["classification"] == "parked")
        assert counted == {one.event_id: 1 for one in (*before, *after)}
        assert (before[0].event_id, "duplicate") in {(row[0], row[1]) for row in rows}
        await appender.close()


async def test_a_request_that_does_not_come_in_time_is_not_said_to_be_lost(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only where another record stands behind its place and none there is it gone."""
    proxy = KafkaProxy(int(servers.kafka_bootstrap.rpartition(":")[2]))
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    async with installed(servers.kafka_bootstrap) as one:
        ledger = one.log.prefix + Topic.LEDGER
        producer = AIOKafkaProducer(
            bootstrap_servers=one.log.bootstrap, transactional_id=one.log.prefix + "any"
        )
        await producer.start()
        async with producer.transaction():
            first = await producer.send_and_wait(ledger, b"first", key=b"k", partition=0)
        async with producer.transaction():
            await producer.send_and_wait(ledger, b"second", key=b"k", partition=0)
        await producer.stop()
        older = OlderRequests(KafkaLog(f"127.0.0.1:{proxy.port}", prefix=one.log.prefix))
        try:
            assert (await older.read(0, first.offset)).value == b"first"
            # The mark of the transaction takes a place and is no record.
            with pytest.raises(TruncatedLogError, match="Nothing at"):
                await older.read(0, first.offset + 1)
            assert (await older.read(0, first.offset + 2)).value == b"second"
            proxy.holds_fetches = True
            monkeypatch.setattr(older_requests, "READ_SECONDS_MAX", 0.5)
            with pytest.raises(LogUnreachableError, match="did not come"):
                await older.read(0, first.offset)
        finally:
            await older.close()
    listening.close()


async def test_a_broker_that_is_slow_is_no_topic_made_anew(
    servers: Addresses, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the last row is there and does not come in time: nobody is told to put rows
    aside, and once it comes all is well. What is not there is said to be lost as before.
    """
    monkeypatch.setattr(kafka, "ONE_RECORD_DEADLINE_SECONDS", 0.5)
    proxy = KafkaProxy(int(servers.kafka_bootstrap.rpartition(":")[2]))
    listening = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = listening.sockets[0].getsockname()[1]
    async with installed(servers.kafka_bootstrap) as one, migrated(database_url) as pool:
        appender = SteadyAppender(one.log.appender)
        ((partition, offset),) = await receive(one, settlement("evt_1", reference="ch_1"))
        await desk(one, pool, appender).handle(await all_records(one, Topic.WEBHOOKS))
        behind = KafkaLog(f"127.0.0.1:{proxy.port}", prefix=one.log.prefix)
        proxy.holds_fetches = True
        with pytest.raises(LogUnreachableError, match="did not come"):
            await require_same_topic(behind, pool, PARTITIONS)
        with pytest.raises(TruncatedLogError, match="Nothing at"):
            await behind.read_one(Topic.WEBHOOKS, partition, offset + 1)
        proxy.holds_fetches = False
        monkeypatch.undo()
        await require_same_topic(behind, pool, PARTITIONS)
        await appender.close()
    listening.close()
