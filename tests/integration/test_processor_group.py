"""The processor as a member of its group: partitions come and go, and it is neither held up by
others nor made to read its ledger again for nothing.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from gateway.wiring.life import first_of
from ledger.client.client import LedgerClient
from ledger.core.errors import LedgerError
from ledger.core.records import EpochOpened
from ledger.log import clients
from ledger.log.kafka import KafkaLog
from ledger.log.topics import INBOXES
from streams.clock import ClockSkewError, check_not_ahead, check_skew, wall_ms
from streams.processor import GROUP, Processor
from tests.examples import T0
from tests.integration.counting import CountingProvider
from tests.integration.installation import PARTITIONS, charge, installed, settled
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.02


async def until(condition: Callable[[], bool]) -> None:
    """Fail when the condition does not hold in time."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not condition():
            await asyncio.sleep(LOOK_SECONDS)


class Hanging(ConsumerRebalanceListener):  # type: ignore[misc] # aiokafka has no types
    """A member that does not let go of its partitions until it is told to."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def on_partitions_revoked(self, revoked: object) -> None:
        """Hold everybody up."""
        if revoked:
            await self.let_go.wait()

    async def on_partitions_assigned(self, assigned: object) -> None:
        """Take what comes."""


@asynccontextmanager
async def hanging_member(log: KafkaLog) -> AsyncIterator[Hanging]:
    """A member of the processors' group that decides nothing and hangs in every rebalance, for
    longer than anybody waits here.
    """
    listener = Hanging()
    member = AIOKafkaConsumer(
        bootstrap_servers=log.bootstrap,
        group_id=log.prefix + GROUP,
        enable_auto_commit=False,
        auto_offset_reset="none",
        partition_assignment_strategy=[RangePartitionAssignor],
        rebalance_timeout_ms=2 * PATIENCE_MS,
    )
    member.subscribe([log.prefix + topic for topic in INBOXES], listener=listener)
    await member.start()
    try:
        yield listener
    finally:
        listener.let_go.set()
        await member.stop()


async def test_a_member_that_hangs_keeps_nobody_from_stopping_or_from_showing_that_it_lives(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While partitions change hands rounds go on, empty: the heartbeat is seen, a stop is heard; so
    it is by a member that has not been let in yet.
    """
    monkeypatch.setattr(clients, "CLOSE_DEADLINE_SECONDS", 1.0)
    async with installed(servers.kafka_bootstrap) as one:
        processor, stop = Processor(one.log, PARTITIONS), asyncio.Event()
        beats: list[int] = []
        async with asyncio.TaskGroup() as tasks:
            member = tasks.create_task(processor.run(stop, beat=lambda: beats.append(1)))
            await until(processor.ready.is_set)
            async with hanging_member(one.log):
                await until(lambda: 0 < len(processor._owners) < PARTITIONS)
                newcomer = Processor(one.log, PARTITIONS)
                joining = tasks.create_task(newcomer.run(stop, beat=lambda: None))
                await until(lambda: processor._inboxes.is_changing)
                count = len(beats)
                await until(lambda: len(beats) > count + 3)
                assert processor._inboxes.is_changing
                assert not newcomer.ready.is_set()
                stop.set()
                await until(lambda: member.done() and joining.done())


async def test_what_stays_with_its_owner_is_not_read_again(servers: Addresses) -> None:
    """Another member joins and leaves: a partition that came back has the same owner, which opened
    an epoch for each time, and nothing was decided twice.
    """
    async with installed(servers.kafka_bootstrap) as one:
        first = await one.processor()
        await one.executor()
        before = dict(first._owners)
        assert set(before) == set(range(PARTITIONS))
        second = await one.processor()
        # The newcomer may be ready before the first has let go of what went to it.
        await until(lambda: not set(first._owners) & set(second._owners))
        kept = dict(first._owners)
        assert kept
        assert all(before[part] is own for part, own in kept.items())
        assert set(kept) | set(second._owners) == set(range(PARTITIONS))
        await one.stop()
        await until(lambda: set(first._owners) == set(range(PARTITIONS)))
        assert all(first._owners[part] is own for part, own in kept.items())
        async with LedgerClient(one.log, PARTITIONS) as client:
            for number in range(6):
                await client.propose(charge(f"kept-{number}"), timeout_ms=PATIENCE_MS)
                await settled(client, charge(f"kept-{number}").key, "completed")
        for partition in range(PARTITIONS):
            epochs = [
                read.epoch
                for place, _, read in await one.ledger()
                if place == partition and isinstance(read, EpochOpened)
            ]
            assert epochs == list(range(1, len(epochs) + 1))


def test_an_acknowledgement_that_took_long_is_no_skew_and_a_clock_that_is_wrong_is() -> None:
    """A broker that comes back answers with the time at which it took the append; only a time
    before the sending or after now shows that two clocks are apart.
    """
    now = wall_ms()
    check_skew(now - 20_000, sent_at=now - 20_500, skew_ms=5_000)
    with pytest.raises(ClockSkewError):
        check_skew(now - 20_000, sent_at=now - 100, skew_ms=5_000)
    with pytest.raises(ClockSkewError):
        check_skew(now + 20_000, sent_at=now - 100, skew_ms=5_000)


def test_an_input_from_the_future_is_not_decided() -> None:
    """It may be as old as it likes; ahead of the time here by more than the bound it would carry a
    partition's log time into the future for good.
    """
    check_not_ahead(T0 - 3_600_000, running_at=T0, skew_ms=5_000)
    check_not_ahead(T0 + 5_000, running_at=T0, skew_ms=5_000)
    with pytest.raises(ClockSkewError):
        check_not_ahead(T0 + 5_001, running_at=T0, skew_ms=5_000)


async def test_of_two_members_under_one_name_one_ends_by_it_and_nothing_is_lost(
    servers: Addresses,
) -> None:
    """A mistake of whoever names them. Heartbeats of the client do not say the name, so the broker
    lets the older one join anew, and the two would take each other's place for as long as both
    run: it finds the epoch that the newer one opened after its own, and ends; or the broker refuses
    one of its words before that. Each action is carried out once.
    """
    provider, proposals = CountingProvider(), [charge(f"twin-{number}") for number in range(6)]
    async with installed(servers.kafka_bootstrap) as one:
        named = KafkaLog(one.log.bootstrap, prefix=one.log.prefix, group_member="twin")
        older, newer = Processor(named, PARTITIONS), Processor(named, PARTITIONS)
        stop = asyncio.Event()
        first = asyncio.create_task(older.run(stop))
        members = [first]
        try:
            await until(older.ready.is_set)
            second = asyncio.create_task(newer.run(stop))
            members.append(second)
            await until(newer.ready.is_set)
            await until(lambda: any(member.done() for member in members))
            await one.executor(provider)
            async with LedgerClient(one.log, PARTITIONS) as client:
                for proposal in proposals:
                    await client.propose(proposal, timeout_ms=PATIENCE_MS)
                    await settled(client, proposal.key, "completed")
        finally:
            stop.set()
            ended = await asyncio.gather(*members, return_exceptions=True)
    assert provider.calls == Counter(proposal.key for proposal in proposals)
    troubles = [first_of(one) for one in ended if isinstance(one, BaseException)]
    assert troubles
    for trouble in troubles:
        assert isinstance(trouble, LedgerError)
        assert "ACTIONLEDGER_MEMBER" in trouble.hint
