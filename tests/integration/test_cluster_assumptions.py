"""What we rely on three brokers for, numbered as in `test_broker_assumptions.py`: acknowledged is
kept, whichever one of them dies.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError, NotEnoughReplicasError

from ledger.log import clients, kafka
from ledger.log.admin import apply_topics, check_topics
from ledger.log.kafka import KafkaAppender, KafkaLog
from ledger.log.port import AppendUnknownError, Outgoing
from ledger.log.topics import Topic
from tests.cluster import Cluster, cluster
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.05
TOPIC = "two"
PLACE = (TOPIC, 0)


@pytest.fixture(scope="module")
def started() -> Iterator[Cluster]:
    """Three brokers for this module alone."""
    loop = asyncio.new_event_loop()
    context = cluster(3)
    running = loop.run_until_complete(context.__aenter__())
    try:
        yield running
    finally:
        loop.run_until_complete(context.__aexit__(None, None, None))
        loop.close()


@pytest.fixture(autouse=True)
def patient_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give no append up while a broker comes back, however long that takes here."""
    monkeypatch.setattr(kafka, "APPEND_DEADLINE_SECONDS", PATIENCE_SECONDS)


@pytest.fixture
async def three(started: Cluster) -> Cluster:
    """The same, all running and known to each other when the test begins."""
    for broker in started.brokers:
        if not broker.is_running:
            await broker.start()
    await until(lambda: knows(started, {1, 2, 3}))
    return started


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Fail when the condition does not hold in time; trouble with brokers is not yet."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await condition():
            await asyncio.sleep(LOOK_SECONDS)


async def knows(brokers: Cluster, nodes: set[int]) -> bool:
    """Whether these nodes, and no others, are in the cluster now."""
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers.bootstrap)
    try:
        await admin.start()
        described = await admin.describe_cluster()
        return {one["node_id"] for one in described["brokers"]} == nodes
    except KafkaError:
        return False
    finally:
        await admin.close()


@dataclass(frozen=True)
class TwoReplicas:
    """A topic of one partition on two of three brokers, with the settings of a topic of ours."""

    log: KafkaLog

    async def make(self, nodes: list[int], in_sync_min: int) -> None:
        """Make it; the first node leads."""
        topic = NewTopic(
            self.log.prefix + TOPIC,
            -1,
            -1,
            replica_assignments={0: nodes},
            topic_configs={
                "min.insync.replicas": str(in_sync_min),
                "unclean.leader.election.enable": "false",
            },
        )
        admin = AIOKafkaAdminClient(bootstrap_servers=self.log.bootstrap)
        await admin.start()
        try:
            made = await admin.create_topics([topic])
            assert [code for _, code, *_ in made.topic_errors] == [0], made
        finally:
            await admin.close()

    async def is_so(self, *, leader: int, in_sync: list[int]) -> bool:
        """Whether it has this leader (-1 for none) and these replicas in sync that are there."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.log.bootstrap)
        try:
            await admin.start()
            (described,) = await admin.describe_topics([self.log.prefix + TOPIC])
            (part,) = described["partitions"]
            return part["leader"] == leader and sorted(part["isr"]) == in_sync
        except (KafkaError, ValueError):
            return False
        finally:
            await admin.close()

    async def append(self, first: int, count: int) -> None:
        """Append numbered records, each acknowledged."""
        appender = await self.log.appender()
        try:
            for number in range(first, first + count):
                await appender.append(*PLACE, [Outgoing(b"k", b"%d" % number)])
        finally:
            await appender.close()

    async def numbers(self) -> list[int]:
        """All that can be read."""
        return await numbers_in(self.log, PLACE)


async def numbers_in(log: KafkaLog, place: tuple[str, int], begin: int = 0) -> list[int]:
    """The numbers of all records of a partition that can be read now."""
    reader = await log.reader({place: begin})
    try:
        end = (await reader.end_offsets([place]))[place]
        found: list[int] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found) < end - begin:
                found += [int(one.value) for one in await reader.read(timeout_ms=200)]
        return found
    finally:
        await reader.close()


@pytest.fixture
def two(three: Cluster) -> TwoReplicas:
    """A topic to be made."""
    return TwoReplicas(KafkaLog(three.bootstrap, prefix=f"t{secrets.token_hex(4)}."))


@contextmanager
def giving_up_soon() -> Iterator[None]:
    """Let appends that nobody answers fail within a second, and their producers go."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kafka, "APPEND_DEADLINE_SECONDS", 1.0)
        patch.setattr(clients, "CLOSE_DEADLINE_SECONDS", 0.3)
        yield


async def test_07_one_replica_of_two_takes_nothing(three: Cluster, two: TwoReplicas) -> None:
    """7: with fewer replicas in sync than must be, an append is refused by name and nothing of it
    can be read; when the other is back appends go on.
    """
    await two.make([2, 3], in_sync_min=2)
    await two.append(0, 5)
    await three.broker(3).kill()
    await until(lambda: two.is_so(leader=2, in_sync=[2]))
    producer = AIOKafkaProducer(
        bootstrap_servers=two.log.bootstrap, acks="all", request_timeout_ms=5_000
    )
    await producer.start()
    try:
        with pytest.raises(NotEnoughReplicasError):
            await producer.send_and_wait(two.log.prefix + TOPIC, b"-1", partition=0)
    finally:
        await producer.stop()
    with giving_up_soon(), pytest.raises(AppendUnknownError):
        await two.append(-2, 1)
    assert await two.numbers() == [0, 1, 2, 3, 4]
    await three.broker(3).start()
    await until(lambda: two.is_so(leader=2, in_sync=[2, 3]))
    await two.append(5, 5)
    assert await two.numbers() == list(range(10))


async def test_08_a_replica_that_lags_is_never_made_leader(
    three: Cluster, two: TwoReplicas
) -> None:
    """8: while the only replica that has everything is away its partition has no leader, rather
    than one that would drop what was acknowledged; with it everything is back.
    """
    await two.make([3, 2], in_sync_min=1)
    await two.append(0, 5)
    await three.broker(2).kill()
    await until(lambda: two.is_so(leader=3, in_sync=[3]))
    await two.append(5, 5)
    await three.broker(3).kill()
    await three.broker(2).start()
    await until(lambda: knows(three, {1, 2}))
    await until(lambda: two.is_so(leader=-1, in_sync=[]))
    with giving_up_soon(), pytest.raises(AppendUnknownError):
        await two.append(-1, 1)
    # Another broker than the one that was asked before may say so a moment later.
    await until(lambda: two.is_so(leader=-1, in_sync=[]))
    await three.broker(3).start()
    await until(lambda: two.is_so(leader=3, in_sync=[2, 3]))
    assert await two.numbers() == list(range(10))


async def leader_of(log: KafkaLog) -> int:
    """Who leads the first partition of the intents; -1 while nobody does."""
    admin = AIOKafkaAdminClient(bootstrap_servers=log.bootstrap)
    try:
        await admin.start()
        (described,) = await admin.describe_topics([log.prefix + Topic.INTENTS])
        return int(described["partitions"][0]["leader"])
    except (KafkaError, ValueError):
        return -1
    finally:
        await admin.close()


async def is_led(log: KafkaLog, *, but_not_by: int) -> bool:
    """Whether somebody else than this broker leads the first partition of the intents."""
    return await leader_of(log) not in {but_not_by, -1}


async def write_until(
    appender: KafkaAppender, stop: asyncio.Event, acknowledged: list[int]
) -> None:
    """Append numbered records one after the other; note the offset of each."""
    while not stop.is_set():
        record = Outgoing(b"k", b"%d" % len(acknowledged))
        (landed,) = await appender.append(Topic.INTENTS, 0, [record])
        acknowledged.append(landed.offset)


async def test_01_a_leader_that_dies_under_a_writer_costs_no_record_and_doubles_none(
    three: Cluster,
) -> None:
    """1 and 9 with three brokers: one producer goes on through two changes of leader, in order,
    each record once, on topics as production has them.
    """
    log = KafkaLog(three.bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    wanted = {"replicas": 3, "replicas_in_sync_min": 2}
    await apply_topics(log, partitions=1, generation="g", **wanted)
    assert await check_topics(log, partitions=1, replicas_in_sync_min=2) == ()
    # Set-up and doctor know of no replicas, and find nothing wrong with more of them.
    assert await apply_topics(log, partitions=1, generation="again") == "g"
    appender, stop = await log.appender(), asyncio.Event()
    acknowledged: list[int] = []
    try:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(write_until(appender, stop, acknowledged))
            for _ in range(2):
                before = len(acknowledged)
                await until(_more_than(acknowledged, before + 50))
                await until(lambda: is_led(log, but_not_by=-1))
                leader = await leader_of(log)
                await three.broker(leader).kill()
                before = len(acknowledged)
                await until(_more_than(acknowledged, before + 50))
                await until(partial(is_led, log, but_not_by=leader))
                await three.broker(leader).start()
                await until(lambda: knows(three, {1, 2, 3}))
            stop.set()
    finally:
        await appender.close()
    found = await numbers_in(log, (Topic.INTENTS.value, 0), 1)
    assert found == list(range(len(acknowledged)))
    assert all(at in {number + 1, -1} for number, at in enumerate(acknowledged))


def _more_than(those: list[int], count: int) -> Callable[[], Awaitable[bool]]:
    async def reached() -> bool:
        return len(those) > count

    return reached
