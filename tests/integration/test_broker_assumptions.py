"""What we rely on a Kafka broker and its Python client for, numbered, on a real broker.

Each of these sentences stands behind a rule of the product. When a later broker or client makes one
of them untrue, a test here says so before a ledger finds out. Those that need three brokers are in
`test_cluster_assumptions.py`, the one about a frozen processor in `test_frozen_processor.py`.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete
from aiokafka.errors import (
    CommitFailedError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordTooLargeError,
)

from ledger.client.client import LedgerClient
from ledger.log import kafka
from ledger.log.admin import apply_topics
from ledger.log.kafka import KafkaAppender, KafkaLog
from ledger.log.port import AppendUnknownError, Outgoing, Record
from ledger.log.steady import SteadyAppender
from ledger.log.topics import INBOXES, Topic, partition_of
from streams.clock import wall_ms
from streams.processor import GROUP
from tests.cluster import Broker, Cluster, cluster
from tests.integration.broker_requests import commit_for_a_moment, limit_bytes_per_second
from tests.integration.installation import PARTITIONS, charge, installed
from tests.java_partitioner import partitions_in_java
from tests.lossy_proxy import lossy_proxy
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.02
INTENTS = (Topic.INTENTS.value, 0)
QUOTA_BYTES = 50_000
APPENDS = 20
"""So many find no place in the time of one that is answered at once."""


@pytest.fixture(scope="module")
def one() -> Iterator[Cluster]:
    """A single broker for this module alone."""
    loop = asyncio.new_event_loop()
    context = cluster(1)
    started = loop.run_until_complete(context.__aenter__())
    try:
        yield started
    finally:
        loop.run_until_complete(context.__aexit__(None, None, None))
        loop.close()


@pytest.fixture(autouse=True)
def patient_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give no append up while a broker comes back, however long that takes here."""
    monkeypatch.setattr(kafka, "APPEND_DEADLINE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
async def broker(one: Cluster) -> Broker:
    """The broker, running when the test begins."""
    if not one.broker(1).is_running:
        await one.broker(1).start()
    return one.broker(1)


@pytest.fixture
async def log(broker: Broker) -> KafkaLog:
    """Topics of its own."""
    log = KafkaLog(broker.bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    await apply_topics(log, partitions=1, generation="g")
    return log


async def until(condition: Callable[[], bool]) -> None:
    """Fail when the condition does not hold in time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(LOOK_SECONDS)


async def records(log: KafkaLog, topic: str = INTENTS[0], partition: int = 0) -> list[Record]:
    """Everything behind the genesis record now."""
    reader = await log.reader({(topic, partition): 1})
    try:
        end = (await reader.end_offsets([(topic, partition)]))[topic, partition]
        found: list[Record] = []
        while len(found) < end - 1:
            found.extend(await reader.read(timeout_ms=200))
        return found
    finally:
        await reader.close()


@contextlib.asynccontextmanager
async def appender_of(log: KafkaLog) -> AsyncIterator[KafkaAppender]:
    """An appender that is let go at the end."""
    appender = await log.appender()
    try:
        yield appender
    finally:
        await appender.close()


@contextlib.asynccontextmanager
async def group_member(
    log: KafkaLog, group: str, listener: ConsumerRebalanceListener | None = None
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer of the intents that commits by hand."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=log.bootstrap,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
    )
    consumer.subscribe([log.prefix + Topic.INTENTS], listener=listener)
    await consumer.start()
    try:
        yield consumer
    finally:
        await consumer.stop()


def through_proxy(log: KafkaLog, broker: Broker) -> KafkaLog:
    """The same log by the way that loses answers."""
    return KafkaLog(broker.proxied_bootstrap, prefix=log.prefix)


RECORD = Outgoing(b"acme/renewal", b"once")


async def test_01_a_retry_after_a_lost_answer_gives_one_record(
    log: KafkaLog, broker: Broker
) -> None:
    """1: with acks=all and idempotence, a batch whose answer was cut off stands once, and the
    answer to its retry names the place where it stands.
    """
    async with (
        lossy_proxy(broker.ports.proxy, broker.ports.behind_proxy) as proxy,
        appender_of(through_proxy(log, broker)) as appender,
    ):
        (first,) = await appender.append(*INTENTS, [RECORD])
        proxy.answers_to_lose = 2
        (second,) = await appender.append(*INTENTS, [RECORD])
        several = await appender.append(*INTENTS, [RECORD, RECORD])
    assert proxy.requests >= 5
    assert proxy.lost.is_set()
    assert [first.offset, second.offset, *(one.offset for one in several)] == [1, 2, 3, 4]
    assert [record.offset for record in await records(log)] == [1, 2, 3, 4]


async def test_02_a_retry_across_a_broker_that_was_killed_gives_one_record(
    log: KafkaLog, broker: Broker
) -> None:
    """2: the broker remembers the sequence through kill and restart: what it took and did not
    acknowledge is not taken again.
    """
    async with (
        lossy_proxy(broker.ports.proxy, broker.ports.behind_proxy) as proxy,
        appender_of(through_proxy(log, broker)) as appender,
    ):
        await appender.append(*INTENTS, [RECORD])
        proxy.answers_to_lose = 1
        appending = asyncio.create_task(appender.append(*INTENTS, [RECORD]))
        await proxy.lost.wait()
        proxy.is_cut = True
        await broker.kill()
        assert not appending.done()
        await broker.start()
        proxy.is_cut = False
        async with asyncio.timeout(PATIENCE_SECONDS):
            (landed,) = await appending
            (behind,) = await appender.append(*INTENTS, [RECORD])
    assert landed.offset in {2, -1}
    assert behind.offset == 3
    assert [record.offset for record in await records(log)] == [1, 2, 3]


async def test_03_two_writers_do_not_fence_each_other(log: KafkaLog) -> None:
    """3: idempotence is no fence: an old owner's producer goes on writing beside the new one's,
    which is why every reader voids what it writes.
    """
    async with appender_of(log) as old, appender_of(log) as new:
        for number in range(6):
            writer = (old, new)[number % 2]
            (landed,) = await writer.append(*INTENTS, [RECORD])
            assert landed.offset == 1 + number


async def test_04_a_commit_of_an_old_generation_is_refused(broker: Broker) -> None:
    """4: a member that was left behind by a rebalance cannot move the group's offsets."""
    log = KafkaLog(broker.bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    await apply_topics(log, partitions=2, generation="g")
    group = f"{log.prefix}group"
    async with group_member(log, group) as member, group_member(log, group):
        await until(lambda: len(member.assignment()) == 1)
        (place,) = member.assignment()
        await member.commit({place: 1})
        member._coordinator.generation -= 1
        with pytest.raises(CommitFailedError):
            await member.commit({place: 5})
        admin = AIOKafkaAdminClient(bootstrap_servers=log.bootstrap)
        await admin.start()
        try:
            found = await admin.list_consumer_group_offsets(group, partitions=[place])
        finally:
            await admin.close()
        assert found[place].offset == 1


async def test_05_a_transactional_commit_of_nobody_is_accepted(log: KafkaLog) -> None:
    """5: the client's transactions carry no generation, so anyone moves the offsets of a group that
    others own: nothing of ours may rest on them.
    """
    place = TopicPartition(log.prefix + Topic.INTENTS, 0)
    group = f"{log.prefix}group"
    async with group_member(log, group) as member:
        await until(lambda: bool(member.assignment()))
        stranger = AIOKafkaProducer(
            bootstrap_servers=log.bootstrap, transactional_id=f"{log.prefix}stranger"
        )
        await stranger.start()
        try:
            async with stranger.transaction():
                await stranger.send_offsets_to_transaction({place: 77}, group)
        finally:
            await stranger.stop()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await member.committed(place) != 77:
                await asyncio.sleep(LOOK_SECONDS)


async def test_06_the_broker_stamps_the_time(log: KafkaLog) -> None:
    """6: whatever time a writer claims, a record bears the broker's."""
    begun = wall_ms()
    producer = AIOKafkaProducer(bootstrap_servers=log.bootstrap)
    await producer.start()
    try:
        for claimed in (1, begun + 10 * 86_400_000):
            sent = await producer.send_and_wait(
                log.prefix + Topic.INTENTS, b"x", partition=0, timestamp_ms=claimed
            )
            assert begun - 1_000 <= sent.timestamp <= wall_ms() + 1_000
    finally:
        await producer.stop()
    stamps = [record.timestamp for record in await records(log)]
    assert all(begun - 1_000 <= stamp <= wall_ms() + 1_000 for stamp in stamps)


async def test_09_the_order_of_sending_is_the_order_of_the_log(log: KafkaLog) -> None:
    """9: two thousand appends that nobody waits for between stand in the order they were begun."""
    async with appender_of(log) as appender:
        appends = [
            asyncio.create_task(
                appender.append(*INTENTS, [Outgoing(b"%d" % (number % 7), b"%d" % number)])
            )
            for number in range(2_000)
        ]
        landed = await asyncio.gather(*appends)
    assert [one.offset for (one,) in landed] == list(range(1, 2_001))
    assert [int(record.value) for record in await records(log)] == list(range(2_000))


async def test_10_a_key_belongs_to_the_partition_that_java_gives_it(
    one: Cluster, tmp_path: Path
) -> None:
    """10: for a thousand keys, with letters of every width, the murmur2 here and Kafka's own agree,
    so a client in any language reaches the same partition.
    """
    keys = [f"acme/renewal-{number}" for number in range(700)]
    keys += [f"t{number}/" + "x" * (number % 130) for number in range(260)]
    keys += [f"Ré{chr(0x1F600 + number)}/été-{number}" for number in range(40)]
    theirs = await partitions_in_java(one.java, keys, tmp_path)
    assert len(keys) == 1_000
    assert [partition_of(key, 24) for key in keys] == theirs
    assert set(theirs) == set(range(24))


async def test_11_a_position_outside_the_log_raises_and_never_jumps(log: KafkaLog) -> None:
    """11: before the beginning and behind the end alike."""
    async with appender_of(log) as appender:
        await appender.append(*INTENTS, [RECORD] * 10)
    place = TopicPartition(log.prefix + Topic.INTENTS, 0)
    admin = AIOKafkaAdminClient(bootstrap_servers=log.bootstrap)
    await admin.start()
    try:
        await admin.delete_records({place: RecordsToDelete(4)})
    finally:
        await admin.close()
    for position in (0, 3, 12, 1_000):
        consumer = AIOKafkaConsumer(
            bootstrap_servers=log.bootstrap, auto_offset_reset="none", enable_auto_commit=False
        )
        await consumer.start()
        try:
            consumer.assign([place])
            consumer.seek(place, position)
            with pytest.raises(OffsetOutOfRangeError):
                await consumer.getmany(timeout_ms=PATIENCE_MS)
            assert await consumer.position(place) == position
        finally:
            await consumer.stop()


async def test_12_a_group_whose_offsets_expired_starts_where_the_ledger_says(
    broker: Broker,
) -> None:
    """12: with no offset of its group left, a processor goes on behind the last input that the
    ledger has answered: none is lost, none is decided again, nothing is read from the end.
    """
    async with installed(broker.bootstrap) as here:
        group = here.log.prefix + GROUP
        await here.processor()
        async with LedgerClient(here.log, PARTITIONS) as client:
            for number in range(6):
                await client.propose(charge(f"first-{number}"), timeout_ms=PATIENCE_MS)
        await here.stop()
        places = [
            TopicPartition(here.log.prefix + topic, part)
            for topic in INBOXES
            for part in range(PARTITIONS)
        ]
        await commit_for_a_moment(here.log.bootstrap, group, dict.fromkeys(places, 1))
        await until_none_committed(here.log, group, places)
        appends = [charge(f"second-{number}") for number in range(6)]
        async with LedgerClient(here.log, PARTITIONS) as client:
            asked = [
                asyncio.create_task(client.propose(proposal, timeout_ms=PATIENCE_MS))
                for proposal in appends
            ]
            await here.processor()
            await asyncio.gather(*asked)
        causes = [
            (decision.cause.partition, decision.cause.offset)
            for decision in await here.decisions()
            if decision.cause.topic == Topic.INTENTS
        ]
        assert len(causes) == len(set(causes)) == 12


async def until_none_committed(log: KafkaLog, group: str, places: list[TopicPartition]) -> None:
    """Wait until the broker has forgotten every offset of a group."""
    admin = AIOKafkaAdminClient(bootstrap_servers=log.bootstrap)
    await admin.start()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                found = await admin.list_consumer_group_offsets(group, partitions=places)
                if all(place.offset == -1 for place in found.values()):
                    return
                await asyncio.sleep(LOOK_SECONDS)
    finally:
        await admin.close()


def skip_numbers(appender: KafkaAppender) -> None:
    """Make the next batch come out of order."""
    manager = appender._producer._txn_manager
    for place in list(manager._sequence_numbers):
        manager._sequence_numbers[place] += 5


async def fence(appender: KafkaAppender) -> None:
    """Give the producer an epoch that the broker has left behind."""
    manager = appender._producer._txn_manager
    before = manager._pid_and_epoch
    manager._pid_and_epoch = before._replace(epoch=before.epoch + 1)
    manager._sequence_numbers.clear()
    await appender.append(*INTENTS, [RECORD])
    manager._pid_and_epoch = before


@pytest.mark.parametrize("failure", [OutOfOrderSequenceNumber, ProducerFenced])
async def test_14_a_producer_that_failed_for_good_is_replaced(
    log: KafkaLog, failure: type[Exception]
) -> None:
    """14: a batch out of order and an epoch left behind spend the appender, which says so at once
    instead of trying for ever; its replacement appends on.
    """
    made: list[KafkaAppender] = []

    async def start() -> KafkaAppender:
        made.append(await log.appender())
        return made[-1]

    steady = SteadyAppender(start)
    try:
        await steady.append(*INTENTS, [RECORD])
        if failure is OutOfOrderSequenceNumber:
            skip_numbers(made[0])
        else:
            await fence(made[0])
        before = len(await records(log))
        with pytest.raises(AppendUnknownError) as told:
            await steady.append(*INTENTS, [RECORD])
        assert isinstance(told.value.__cause__, failure)
        (landed,) = await steady.append(*INTENTS, [RECORD])
        assert landed.offset == before + 1
        assert len(made) == 2
    finally:
        await steady.close()


async def test_15_who_sends_too_much_hurts_nobody_else(log: KafkaLog) -> None:
    """15: a record over the limit is refused to its writer, a writer over its quota is slowed down,
    and while it waits for one answer others append again and again.
    """
    greedy = f"{log.prefix}greedy"
    producer = AIOKafkaProducer(
        bootstrap_servers=log.bootstrap, client_id=greedy, max_request_size=8 * 1024 * 1024
    )
    await producer.start()
    topic = log.prefix + Topic.INTENTS
    try:
        async with appender_of(log) as modest:
            with pytest.raises((MessageSizeTooLargeError, RecordTooLargeError)):
                await producer.send_and_wait(topic, b"x" * (2 * 1024 * 1024), partition=0)
            await limit_bytes_per_second(log.bootstrap, greedy, QUOTA_BYTES)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while await appended_meanwhile(modest, send_greedily(producer, topic)) < APPENDS:
                    continue
    finally:
        await producer.stop()


async def send_greedily(producer: AIOKafkaProducer, topic: str) -> None:
    """Two seconds' worth of the quota. The broker counts over ten seconds, and a quota is in force
    a moment after it was set, so that the first ones are answered at once.
    """
    await producer.send_and_wait(topic, secrets.token_bytes(2 * QUOTA_BYTES), partition=0)


async def appended_meanwhile(appender: KafkaAppender, sent: Coroutine[Any, Any, None]) -> int:
    """How many appends, one after the other, were acknowledged while something else was sent."""
    sending, count = asyncio.create_task(sent), 0
    while not sending.done():
        await appender.append(*INTENTS, [RECORD])
        count += not sending.done()
    await sending
    return count
