"""Topics on the real Kafka: made once, made again without harm, and refused where they differ."""

import asyncio
import secrets

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from ledger.client.client import LedgerClient
from ledger.log.admin import (
    Difference,
    TopicsError,
    apply_topics,
    check_genesis,
    check_keeping,
    check_topics,
)
from ledger.log.follow import genesis_of
from ledger.log.kafka import KafkaLog
from ledger.log.port import AppendUnknownError, Outgoing
from ledger.log.topics import INBOXES, Topic
from streams import topics_watch
from streams.processor import Processor
from tests.integration.installation import PARTITIONS as INSTALLED
from tests.integration.installation import charge, installed
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

PARTITIONS = 2
LOOK_SECONDS = 0.05


@pytest.fixture
async def log(servers: Addresses) -> KafkaLog:
    """An installation's topics."""
    log = KafkaLog(servers.kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    await apply_topics(log, partitions=PARTITIONS, generation="first")
    return log


async def add_partition(log: KafkaLog, topic: Topic) -> None:
    """Do what nobody may: give a topic of keyed records one partition more."""
    admin = AIOKafkaAdminClient(bootstrap_servers=log.bootstrap)
    await admin.start()
    try:
        await admin.create_partitions({log.prefix + topic: NewPartitions(PARTITIONS + 1)})
    finally:
        await admin.close()


async def test_applying_again_changes_nothing(log: KafkaLog) -> None:
    """The generation that was written first stays, and every partition has one genesis record."""
    assert await apply_topics(log, partitions=PARTITIONS, generation="second") == "first"
    assert await check_topics(log, partitions=PARTITIONS) == ()
    genesis = await check_genesis(log, partitions=PARTITIONS)
    assert (genesis.generation, genesis.partitions) == ("first", PARTITIONS)
    reader = await log.reader({})
    places = [(topic.value, 0) for topic in (*INBOXES, Topic.LEDGER)]
    ends = await reader.end_offsets(places)
    await reader.close()
    assert ends == {place: int(place[0] != Topic.INTERNAL) for place in places}


@pytest.mark.case("C157")
async def test_no_process_works_on_another_number_of_partitions(log: KafkaLog) -> None:
    """Neither a wrong setting nor an added partition passes: keys would go where nobody looks."""
    with pytest.raises(TopicsError):
        await check_genesis(log, partitions=PARTITIONS + 1)
    await add_partition(log, Topic.INTENTS)
    with pytest.raises(TopicsError, match="3 partitions, not 2"):
        await check_genesis(log, partitions=PARTITIONS)
    await genesis_of(log)
    await add_partition(log, Topic.LEDGER)
    with pytest.raises(TopicsError, match="3 partitions, not 2"):
        await genesis_of(log)


async def test_what_is_not_there_is_named(servers: Addresses) -> None:
    """Before topics are applied a process is told so, and does not wait for them."""
    nowhere = KafkaLog(servers.kafka_bootstrap, prefix=f"t{secrets.token_hex(4)}.")
    with pytest.raises(TopicsError):
        await check_genesis(nowhere, partitions=PARTITIONS)


async def test_too_few_replicas_are_a_difference(log: KafkaLog) -> None:
    """One replica where two must be in sync: the broker would take appends all the same."""
    found = await check_topics(log, partitions=PARTITIONS, replicas_in_sync_min=2)
    name = log.prefix + Topic.LEDGER
    assert Difference(name, "replicas", "2 or more", "1") in found
    assert Difference(name, "min.insync.replicas", "2", "1") in found


async def alter(log: KafkaLog, topic: Topic, **settings: str) -> None:
    """Change settings of a topic behind everybody's back; once this returns the broker tells them:
    it has them from its controller, which answered before.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=log.bootstrap)
    await admin.start()
    try:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        name = log.prefix + topic
        await admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, named)])
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not named.items() <= (await told(admin, name)).items():
                await asyncio.sleep(LOOK_SECONDS)
    finally:
        await admin.close()


async def told(admin: AIOKafkaAdminClient, name: str) -> dict[str, str]:
    """What the broker says of a topic's settings."""
    (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, name)])
    ((*_, entries),) = answer.resources
    return {entry[0]: entry[1] for entry in entries}


@pytest.mark.case("C161")
@pytest.mark.parametrize(
    ("topic", "setting", "value"),
    [
        (Topic.LEDGER, "cleanup.policy", "compact"),
        (Topic.LEDGER, "cleanup.policy", "compact,delete"),
        (Topic.INTENTS, "cleanup.policy", "compact"),
        (Topic.CONFIG, "cleanup.policy", "compact"),
        (Topic.LEDGER, "retention.ms", "604800000"),
        (Topic.WEBHOOKS, "retention.bytes", "1000000"),
        (Topic.ATTEMPTS, "message.timestamp.type", "CreateTime"),
        (Topic.EVIDENCE, "unclean.leader.election.enable", "true"),
        (Topic.WEBHOOKS, "max.message.bytes", "1048588"),
        (Topic.INTENTS, "max.message.bytes", "900"),
    ],
)
async def test_c161_nothing_is_decided_on_a_topic_that_forgets(
    log: KafkaLog, topic: Topic, setting: str, value: str
) -> None:
    """C161: a topic that is compacted, that expires, that takes its writers' times, or that takes
    less at once than is written keeps the processor from starting, with the name of the topic and
    of the setting.
    """
    await alter(log, topic, **{setting.replace(".", "_"): value})
    with pytest.raises(TopicsError) as refused:
        await Processor(log, PARTITIONS).run(asyncio.Event())
    assert f"{log.prefix}{topic} {setting} is {value}" in str(refused.value)
    with pytest.raises(TopicsError):
        await apply_topics(log, partitions=PARTITIONS, generation="again")


@pytest.mark.parametrize(
    ("setting", "value"), [("retention.ms", "604800000"), ("cleanup.policy", "compact")]
)
async def test_a_topic_that_begins_to_forget_ends_who_decides_on_it(
    servers: Addresses, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    """Family `kafka`, beside C161: somebody changes the ledger's topic under a running processor.
    It ends with the name of the topic and of the setting before the broker has deleted much.
    """
    monkeypatch.setattr(topics_watch, "CHECK_SECONDS", 0.1)
    async with installed(servers.kafka_bootstrap) as one:
        await one.processor()
        async with LedgerClient(one.log, INSTALLED) as client:
            await client.propose(charge("before"), timeout_ms=PATIENCE_MS)
        kept = {"retention.ms": "-1", "message.timestamp.type": "LogAppendTime"}
        changed = {**kept, "max.message.bytes": "20000000", setting: value}
        await alter(one.log, Topic.LEDGER, **{k.replace(".", "_"): v for k, v in changed.items()})
        _, task = one.tasks.pop(0)
        await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
        fault = task.exception()
        while isinstance(fault, BaseExceptionGroup):
            fault = fault.exceptions[0]
        assert isinstance(fault, TopicsError), fault
        assert f"{one.log.prefix}ledger {setting} is {value}" in str(fault)


async def test_a_topic_that_takes_more_than_is_written_is_one_to_begin_on(log: KafkaLog) -> None:
    """Family `kafka`, beside C161: an operator who raised the limit has taken nothing away."""
    kept = {"retention_ms": "-1", "message_timestamp_type": "LogAppendTime"}
    await alter(log, Topic.LEDGER, max_message_bytes="20000000", **kept)
    await check_keeping(log, PARTITIONS)
    await apply_topics(log, partitions=PARTITIONS, generation="again")


async def test_more_in_sync_than_there_are_replicas_is_named(log: KafkaLog) -> None:
    """Family `kafka`: somebody raised `min.insync.replicas` of topics with one replica. The broker
    acknowledges what one has, or nothing at all; either way it is no setting to rest on.
    """
    kept = {
        "retention_ms": "-1",
        "message_timestamp_type": "LogAppendTime",
        "max_message_bytes": "20000000",
    }
    await alter(log, Topic.LEDGER, min_insync_replicas="2", **kept)
    found = await check_topics(log, partitions=PARTITIONS)
    assert found == (Difference(log.prefix + Topic.LEDGER, "replicas", "2 or more", "1"),)


async def test_an_append_that_is_too_large_for_its_topic_names_the_setting(log: KafkaLog) -> None:
    """Family `kafka`, beside C159: the limit is lowered under a running process. What ends it says
    which setting, not that the append may be there and may be tried again.
    """
    await alter(log, Topic.INTENTS, max_message_bytes="900")
    appender = await log.appender()
    try:
        with pytest.raises(AppendUnknownError) as refused:
            await appender.append(Topic.INTENTS, 0, [Outgoing(b"k", b"x" * 2_000, ())])
    finally:
        await appender.close()
    assert "max.message.bytes" in refused.value.hint
