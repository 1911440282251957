"""The quarantine desk on the real Kafka: poison of every topic ends there, and the way back."""

import asyncio
from collections.abc import Callable, Mapping

import pytest

from gateway.cli.doctor import _quarantine
from gateway.wiring import quarantine_desk as desk
from gateway.wiring.ordering import order
from ledger.client.client import LedgerClient
from ledger.core.decide import Decided, decide
from ledger.core.holds import HOLD, RELEASE
from ledger.core.inputs import Meaning, Propose
from ledger.core.records import Decision
from ledger.log.attention_record import AttentionKind, AttentionRaised, attention_notice
from ledger.log.envelope import outgoing
from ledger.log.port import Outgoing
from ledger.log.quarantine import QuarantinedRecord, read_quarantine
from ledger.log.redrive import SOURCE_HEADER, Blocked, Obstacle, Redrive
from ledger.log.topics import INBOXES, Topic, partition_of
from streams import deciding
from streams.clock import wall_ms
from tests.examples import found_out
from tests.integration.installation import (
    PARTITIONS,
    Installation,
    charge,
    installed,
    settled,
)
from tests.integration.reconciling import (
    KEY,
    evidence,
    receive,
    reconciling,
    rows_become,
    settlement,
)
from tests.integration.test_executing import Watched
from tests.integration.test_holds import OPS, settings_of
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

LOOK_SECONDS = 0.05
SET_ASIDE_MS_MAX = 5_000
POISON: Mapping[str, bytes] = {
    "not_json": b"{bad",
    "not_utf8": b"\xff\xfe{}",
    "nul_character": b'{"a":"\\u0000"}',
    "too_deep": b"[" * 5_000,
    "integer_too_large": b'{"data":99999999999999999999999}',
    "not_a_number": b'{"data":NaN}',
    "duplicate_key": b'{"a":1,"a":2}',
    "not_an_event_of_this_topic": b'{"specversion":"1.0","type":"actionledger.later.v9"}',
    "too_large": b'{"a":"' + b"x" * 400_000 + b'"}',
}
TOO_LARGE_IN = {Topic.INTENTS}
"""An inbox with a limit of its own; elsewhere such a record is merely no event."""


def wanted(topic: Topic) -> list[str]:
    """The reasons under which the poison of a topic is set aside, in its order."""
    other = "not_an_event_of_this_topic"
    small = topic in TOO_LARGE_IN
    return [other if name == "too_large" and not small else name for name in POISON]


def poisoned() -> list[Outgoing]:
    """Every poison as a record, under somebody's key."""
    return [Outgoing(b"acme/poison", value) for value in POISON.values()]


async def set_aside(one: Installation, topic: Topic) -> list[tuple[QuarantinedRecord, int]]:
    """What was set aside from a topic, in the order in which it stood, and when."""
    found = []
    for partition in range(PARTITIONS):
        for record in await one.records(Topic.QUARANTINE, partition):
            read = read_quarantine(record)
            if isinstance(read, QuarantinedRecord) and read.topic == topic:
                found.append((read, record.timestamp))
    return sorted(found, key=lambda each: each[0].offset)


async def until_set_aside(
    one: Installation, topic: Topic, count: int
) -> list[tuple[QuarantinedRecord, int]]:
    """Wait until so many records of a topic are in quarantine."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found := await set_aside(one, topic)) < count:
            await asyncio.sleep(LOOK_SECONDS)
    return found


def assert_in_time(
    found: list[tuple[QuarantinedRecord, int]], sent_at: Mapping[int, int], behind_at: int
) -> None:
    """Each stands in quarantine within five seconds of its own append; on a machine that is busy,
    before what came behind it was done.
    """
    for entry, at in found:
        assert at <= max(sent_at[entry.offset] + SET_ASIDE_MS_MAX, behind_at)


@pytest.mark.law("V3")
@pytest.mark.parametrize("topic", INBOXES)
async def test_poison_of_an_inbox_is_set_aside_in_time_and_others_behind_it_go_on(
    servers: Addresses, topic: Topic
) -> None:
    """In the partition of the poison an action behind it is carried out to its end, with its
    report, and evidence that came behind it is answered.
    """
    good = charge(f"behind-{topic}")
    partition = partition_of(f"acme/behind-{topic}", PARTITIONS)
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        gate = asyncio.Event()
        gate.set()
        await one.executor(Watched(gate))
        offsets = await one.put(topic, partition, *poisoned())
        proof = found_out(Meaning.PENDING, key=good.key, lookup=None)
        later = outgoing(
            proof, stream=f"acme/behind-{topic}", subject=None, event_id="x", source="/tests"
        )
        async with LedgerClient(one.log, PARTITIONS) as client:
            await client.propose(good, timeout_ms=PATIENCE_MS)
            await settled(client, good.key, "completed")
        behind_at = wall_ms()
        (behind,) = await one.put(Topic.EVIDENCE, partition, later)
        found = await until_set_aside(one, topic, len(POISON))
        assert [entry.offset for entry, _ in found] == offsets
        assert [entry.reason for entry, _ in found] == wanted(topic)
        assert [entry.original().value for entry, _ in found] == list(POISON.values())
        stood = {each.offset: each.timestamp for each in await one.records(topic, partition)}
        assert_in_time(found, stood, behind_at)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await _is_answered(one, Topic.EVIDENCE, behind):
                await asyncio.sleep(LOOK_SECONDS)


async def _is_answered(one: Installation, topic: Topic, offset: int) -> bool:
    causes = {(read.cause.topic, read.cause.offset) for read in await one.decisions()}
    return (topic.value, offset) in causes


@pytest.mark.law("V3")
async def test_poison_among_configuration_is_set_aside_and_orders_behind_it_are_adopted(
    servers: Addresses,
) -> None:
    """Every partition sets it aside for itself; the list has it once, with its copies."""
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        (at,) = await one.put(Topic.CONFIG, 0, Outgoing(b"config", b"{bad"))
        for kind in (HOLD, RELEASE):
            assert (await order(settings_of(one), kind, OPS, timeout_ms=PATIENCE_MS)).waiting == ()
        behind_at = wall_ms()
        found = await until_set_aside(one, Topic.CONFIG, PARTITIONS)
        stood = {each.offset: each.timestamp for each in await one.records(Topic.CONFIG, 0)}
        assert_in_time(found, stood, behind_at)
        said = await _quarantine(settings_of(one))
        assert said == "1 set aside in the last day: actionledger quarantine list --waiting"
        (listed,) = await desk.list_quarantine(one.log, desk.Filter(topic="config"))
        assert (listed.place, listed.reason, listed.copies) == (f"config/0/{at}", "not_json", 3)
        _, _, planned = await desk.find_quarantined(one.log, listed.place)
        assert isinstance(planned, Blocked)
        assert planned.obstacle is Obstacle.NOT_REDRIVABLE


@pytest.mark.law("V3")
async def test_poison_of_webhooks_and_attention_is_set_aside_and_others_behind_it_go_on(
    servers: Addresses, database_url: str
) -> None:
    """The agents of the stream processor set it aside whole, headers too, and take what follows."""
    raised = AttentionRaised(
        kind=AttentionKind.BECAME_UNKNOWN,
        action=KEY,
        stream="acme/renewal-1",
        version=4,
        code="response_timeout",
        decided_at=0,
        ledger_partition=0,
        ledger_offset=7,
        ordinal=0,
    )
    bad = [each._replace(headers=(("signature", b"\x00s"),)) for each in poisoned()]
    async with installed(servers.kafka_bootstrap) as one, reconciling(one, database_url) as all_:
        webhooks = [settlement(f"evt_{number}", action_key=KEY) for number in range(3 * PARTITIONS)]
        for partition in range(PARTITIONS):
            await one.put(Topic.WEBHOOKS, partition, *bad)
        await receive(one, *webhooks)
        await one.put(Topic.ATTENTION, 0, *bad, attention_notice(raised).record)
        await rows_become(all_.pool, len(webhooks))
        behind_at = wall_ms()
        found = await until_set_aside(one, Topic.WEBHOOKS, len(POISON) * PARTITIONS)
        assert {entry.reason for entry, _ in found} == set(wanted(Topic.WEBHOOKS))
        entry = found[0][0]
        assert entry.original().headers == (("signature", b"\x00s"),)
        for partition in range(PARTITIONS):
            stood = {
                each.offset: each.timestamp for each in await one.records("webhooks", partition)
            }
            here = [each for each in found if each[0].partition == partition]
            assert_in_time(here, stood, behind_at)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(all_.window.counts().values()):
                await asyncio.sleep(LOOK_SECONDS)
        told_at = wall_ms()
        attention = await until_set_aside(one, Topic.ATTENTION, len(POISON))
        stood = {each.offset: each.timestamp for each in await one.records("attention", 0)}
        assert_in_time(attention, stood, told_at)
        assert len(await evidence(one)) == len(webhooks)


async def test_a_record_that_met_a_fault_goes_back_whole_and_counts_once(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the fault is mended the same bytes are decided as if they had just come; put back twice
    they are one action; who did it is told; the same place is not put back just so.
    """
    good = charge("met-a-fault")
    gate = asyncio.Event()
    gate.set()
    watched = Watched(gate)
    stumbles: Callable[..., Decided] = _stumbling(good.key)
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        await one.executor(watched)
        async with LedgerClient(one.log, PARTITIONS) as client:
            monkeypatch.setattr(deciding, "decide", stumbles)
            first = await client.propose(good, timeout_ms=PATIENCE_MS)
            assert first.decision.quarantined is not None
            monkeypatch.setattr(deciding, "decide", decide)
            (listed,) = await desk.list_quarantine(one.log, desk.Filter(is_waiting=True))
            assert listed.reason == "fault_in_decide"
            summary, entry, planned = await desk.find_quarantined(one.log, listed.place)
            assert isinstance(planned, Redrive)
            offset = await desk.redrive(one.log, entry, planned, by="ops")
            done = await settled(client, good.key, "completed")
            again = await desk.redrive(one.log, entry, planned, by="ops")
            after = await settled(client, good.key, "completed")
            assert after.reference == done.reference
        records = await one.records(Topic.INTENTS, entry.partition)
        stood = records[entry.offset]
        for position in (offset, again):
            assert records[position].key == stood.key
            assert records[position].value == stood.value
            source = (SOURCE_HEADER, summary.place.encode())
            assert records[position].headers == (*stood.headers, source)
        assert watched.calls == [good.key]
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (answers := _answers(await one.decisions(), again)):
                await asyncio.sleep(LOOK_SECONDS)
        assert answers == ["replayed"]
        assert await desk.list_quarantine(one.log, desk.Filter(is_waiting=True)) == []
        summary, _, _ = await desk.find_quarantined(one.log, listed.place)
        assert (summary.redriven_to, summary.redriven_by) == (again, "ops")
        assert desk.blocked_again(summary) is not None


def _stumbling(key: str) -> Callable[..., Decided]:
    def stumble(*arguments: object) -> Decided:
        if any(isinstance(one, Propose) and one.key == key for one in arguments):
            raise ZeroDivisionError("a fault of ours")
        return decide(*arguments)  # type: ignore[arg-type]

    return stumble


def _answers(decisions: list[Decision], offset: int) -> list[str]:
    return [
        read.unchanged.reason
        for read in decisions
        if (read.cause.topic, read.cause.offset) == ("intents", offset) and read.unchanged
    ]


async def test_what_was_never_set_aside_is_not_found(servers: Addresses) -> None:
    """A place that nobody set aside is named in the trouble."""
    async with installed(servers.kafka_bootstrap) as one:
        assert await desk.list_quarantine(one.log, desk.Filter()) == []
        with pytest.raises(desk.NotInQuarantineError, match="intents/0/9"):
            await desk.find_quarantined(one.log, "intents/0/9")
