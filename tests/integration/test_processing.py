"""Processor, executor and client together on the real Kafka."""

import asyncio

import pytest

from ledger.client.client import LedgerClient
from ledger.core.facts import AttemptStarted, IntentRecorded
from ledger.core.inputs import Propose
from ledger.core.records import Cause, Decision, EpochOpened
from ledger.core.rejections import Rejection
from ledger.log.envelope import encode_ledger, outgoing
from ledger.log.port import Outgoing
from ledger.log.topics import INBOXES, Topic, partition_of
from tests.integration.installation import PARTITIONS, Installation, charge, installed, settled
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses


def started(decisions: list[Decision], key: str) -> list[AttemptStarted]:
    """Every start of an action."""
    return [
        fact
        for decision in decisions
        for fact in decision.facts
        if isinstance(fact, AttemptStarted) and fact.action == key
    ]


async def test_an_intent_is_carried_out_once_and_repeated_proposals_get_the_same_action(
    servers: Addresses,
) -> None:
    """A proposal completes; the same again is a replay; other money under the key is a conflict."""
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor()
        async with LedgerClient(one.log, PARTITIONS) as client:
            proposal = charge("renewal-1")
            first = await client.propose(proposal, timeout_ms=PATIENCE_MS)
            assert any(isinstance(fact, IntentRecorded) for fact in first.decision.facts)
            done = await settled(client, proposal.key, "completed")
            again = await client.propose(proposal, timeout_ms=PATIENCE_MS)
            assert again.decision.unchanged is not None
            assert again.decision.unchanged.reference == done.reference
            other = await client.propose(charge("renewal-1", minor=49_900), timeout_ms=PATIENCE_MS)
            assert other.decision.refused is not None
            assert other.decision.refused.code is Rejection.CONFLICTED
            assert other.decision.refused.details[0].path == "/money/minor"
        assert len(started(await one.decisions(), proposal.key)) == 1


@pytest.mark.case("C141")
async def test_c141_positions_come_from_the_ledger_so_a_crashed_processor_misses_nothing(
    servers: Addresses,
) -> None:
    """C141: inputs that lay in the inbox when the processor died are decided by the next, once."""
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.crash()
        proposals = [charge(f"event-{number}") for number in range(30)]
        await put_intents(one, proposals)
        await one.processor()
        await one.executor()
        async with LedgerClient(one.log, PARTITIONS) as client:
            for proposal in proposals:
                await settled(client, proposal.key, "completed")
        await one.crash(0)
        await one.processor()
        await one.stop(0)
        causes = [
            (decision.cause.topic, decision.cause.partition, decision.cause.offset)
            for decision in await one.decisions()
            if decision.cause.topic != Topic.CONFIG
        ]
        assert len(causes) == len(set(causes))
        decisions = await one.decisions()
        assert all(len(started(decisions, proposal.key)) == 1 for proposal in proposals)


async def put_intents(one: Installation, proposals: list[Propose]) -> None:
    """Append proposals to their inbox partitions as a trusted service does."""
    for proposal in proposals:
        stream = proposal.key.split(":", 2)[2].replace(":", "/")
        record = outgoing(
            proposal, stream=stream, subject=proposal.key, event_id=proposal.key, source="/test"
        )
        await one.put(Topic.INTENTS, partition_of(stream, PARTITIONS), record)


@pytest.mark.case("C149")
async def test_c149_unreadable_records_are_quarantined_by_name_and_nothing_behind_them_waits(
    servers: Addresses,
) -> None:
    """C149: bad bytes get a quarantine record and a decision; valid intents behind them go on."""
    bad = {
        "not_json": b"{bad",
        "duplicate_key": b'{"specversion":"1.0","specversion":"1.0"}',
        "float_refused": b'{"data":1.5}',
        "integer_too_large": b'{"data":99999999999999999999999}',
        "too_deep": b"[" * 5_000,
        "not_an_event_of_this_topic": b'{"specversion":"1.0"}',
        "lone_surrogate": b'{"data":"\\ud83d"}',
    }
    async with installed(servers.kafka_bootstrap) as one:
        good = charge("behind-the-poison")
        partition = partition_of("acme/behind-the-poison", PARTITIONS)
        offsets = await one.put(
            Topic.INTENTS, partition, *(Outgoing(b"acme/x", value) for value in bad.values())
        )
        await put_intents(one, [good])
        await one.processor()
        await one.executor()
        async with LedgerClient(one.log, PARTITIONS) as client:
            await settled(client, good.key, "completed")
        found = {
            decision.cause.offset: decision.quarantined.reason
            for decision in await one.decisions()
            if decision.quarantined is not None
        }
        assert found == dict(zip(offsets, bad, strict=True))
        aside = await one.records(Topic.QUARANTINE, partition)
        assert {record.key.decode() for record in aside if record.key} == {
            f"intents/{partition}/{offset}" for offset in offsets
        }


@pytest.mark.case("C157")
async def test_a_record_in_the_wrong_partition_is_refused_as_misrouted(
    servers: Addresses,
) -> None:
    """An intent whose key belongs elsewhere is never decided as if it were at home."""
    async with installed(servers.kafka_bootstrap) as one:
        proposal = charge("lost-its-way")
        stream = "acme/lost-its-way"
        wrong = (partition_of(stream, PARTITIONS) + 1) % PARTITIONS
        record = outgoing(proposal, stream=stream, subject=None, event_id="x", source="/test")
        await one.put(Topic.INTENTS, wrong, record)
        await one.processor()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (refused := [d.refused for d in await one.decisions() if d.refused]):
                await asyncio.sleep(0)
        assert refused[0].code is Rejection.MISROUTED


async def test_two_processors_share_the_partitions_and_one_takes_over_from_the_other(
    servers: Addresses,
) -> None:
    """A second member joins, the first dies, and every intent given meanwhile is decided once."""
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.processor()
        await one.executor()
        proposals = [charge(f"shared-{number}") for number in range(40)]
        async with LedgerClient(one.log, PARTITIONS) as client:
            for number, proposal in enumerate(proposals):
                await client.propose(proposal, timeout_ms=PATIENCE_MS)
                if number == 20:
                    await one.crash(0)
            for proposal in proposals:
                await settled(client, proposal.key, "completed")
        decisions = await one.decisions()
        assert all(len(started(decisions, proposal.key)) == 1 for proposal in proposals)


async def test_inboxes_have_their_genesis_and_the_epoch_grows_by_one_with_each_owner(
    servers: Addresses,
) -> None:
    """Offset 0 of every stream topic is its genesis; epochs of a partition are 1, 2, 3."""
    async with installed(servers.kafka_bootstrap) as one:
        for _ in range(3):
            await one.processor()
            await one.stop()
        epochs = [
            read.epoch
            for partition, _, read in await one.ledger()
            if partition == 0 and isinstance(read, EpochOpened)
        ]
        assert epochs == [1, 2, 3]
        for topic in INBOXES:
            if topic is not Topic.INTERNAL:
                assert (await one.records(topic, 0))[0].key == b"genesis"


async def test_a_record_of_somebody_else_is_void_and_the_owner_decides_again(
    servers: Addresses,
) -> None:
    """A late record of an old epoch takes the place of a decision: the input is decided once more,
    and every reader agrees on which record counts.
    """
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor()
        first, second = charge("before"), charge("before", tenant="acme")
        partition = partition_of("acme/before", PARTITIONS)
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(first, timeout_ms=PATIENCE_MS)
            await settled(client, first.key, "completed")
            late = Decision(
                at=0,
                epoch=0,
                cause=Cause(topic="intents", partition=partition, offset=99),
                decided_at=0,
                stream="",
            )
            value = encode_ledger(late, generation="old", partition=partition)
            await one.put(Topic.LEDGER, partition, Outgoing(b"late", value))
            again = await client.propose(second, timeout_ms=PATIENCE_MS)
            assert again.decision.unchanged is not None
            assert again.decision.unchanged.reason == "replayed"
        causes = [
            (decision.cause.topic, decision.cause.offset)
            for at, _, decision in await one.ledger()
            if isinstance(decision, Decision) and at == partition
        ]
        assert len(causes) == len(set(causes))
        assert ("intents", 99) not in causes
