"""Topics made and checked: one definition (`topics.specs`), one genesis record a partition, no
other way to create either.

`apply_topics` is safe to run again and against a half-made installation. `check_topics` changes
nothing. Partitions are never added: keys would move. A genesis record carries the generation id, by
which every process knows that it is the same log.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import KafkaError, NodeNotReadyError, for_code

from ledger.core.errors import LedgerError
from ledger.core.records import Genesis
from ledger.log import clients
from ledger.log.envelope import CONTENT_TYPE, MARK_EPOCH, MARKS, encode, read_input, read_ledger
from ledger.log.kafka import KafkaLog
from ledger.log.port import Appender, Outgoing, Record
from ledger.log.reading import Place, read_up_to
from ledger.log.topics import WITH_GENESIS, Topic, TopicSpec, specs
from ledger.log.trouble import LogUnreachableError, trouble_of

_HOLD_FACTS = WITH_GENESIS | {Topic.WEBHOOKS, Topic.CONFIG, Topic.QUARANTINE}
_TOPIC_EXISTS = 36
_ASKED_MAX = 10
_ASK_AGAIN_SECONDS = 0.3
_KEEPING = frozenset(
    {
        "cleanup.policy",
        "retention.ms",
        "retention.bytes",
        "message.timestamp.type",
        "unclean.leader.election.enable",
    }
)
"""What decides whether an acknowledged record stays, and whose time it bears."""

_LARGEST = "max.message.bytes"
"""The largest batch that a topic takes. Below what we write a partition stands still for good at
the first decision that is larger.
"""

_IN_SYNC = "min.insync.replicas"
"""How many replicas must have a record before it is acknowledged."""

_AT_LEAST = frozenset({_LARGEST, _IN_SYNC})
"""Where more than is wanted takes nothing away."""

_GENESIS_FETCH_BYTES = 4_096
LEADERS_SECONDS_MAX = 60.0


class TopicsError(LedgerError):
    """The broker's topics are not those of this installation."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One setting of one topic that is not as it must be."""

    topic: str
    setting: str
    wanted: str
    found: str


def _settings(
    spec: TopicSpec, replicas_in_sync_min: int, flush_records: int | None
) -> dict[str, str]:
    settings = {
        "cleanup.policy": "delete",
        "retention.ms": str(spec.retention_ms),
        "retention.bytes": "-1",
        "message.timestamp.type": "LogAppendTime",
        _LARGEST: str(spec.batch_bytes_max),
        _IN_SYNC: str(replicas_in_sync_min),
        "unclean.leader.election.enable": "false",
    }
    if flush_records is not None and spec.topic in _HOLD_FACTS:
        settings["flush.messages"] = str(flush_records)
    return settings


async def apply_topics(
    log: KafkaLog,
    *,
    partitions: int,
    generation: str,
    replicas: int = 1,
    replicas_in_sync_min: int = 1,
    flush_records: int | None = None,
) -> str:
    """Create what is missing, write missing genesis records, check the rest. Returns the generation
    in force.

    `flush_records` makes the broker write topics that hold facts through to its disk after so many
    records; 1 is before every acknowledgement. Without it durability is that of the replicas.

    Raises TopicsError with every difference when something that exists is otherwise.
    """
    admin = await _admin(log)
    try:
        wanted = specs(partitions)
        topics = [
            NewTopic(
                name=log.prefix + spec.topic,
                num_partitions=spec.partitions,
                replication_factor=replicas,
                topic_configs=_settings(spec, replicas_in_sync_min, flush_records),
            )
            for spec in wanted
        ]
        # What was made by a request whose answer was lost exists, and is no trouble.
        made = await _asked(lambda: _create(admin, topics))
        for name, code, *text in made.topic_errors:
            if code not in (0, _TOPIC_EXISTS):
                raise TopicsError(
                    f"The broker did not create {name}: {text or code}.",
                    hint="Give this principal CREATE on the topics, or let an operator apply them.",
                )
    finally:
        await admin.close()
    in_force = await _begin(log, partitions, generation)
    differences = await check_topics(
        log,
        partitions=partitions,
        replicas_in_sync_min=replicas_in_sync_min,
        flush_records=flush_records,
    )
    if differences:
        raise TopicsError(
            "Topics differ from what they must be: "
            + "; ".join(f"{d.topic} {d.setting} is {d.found}, not {d.wanted}" for d in differences),
            hint="Repair them with incremental alter commands; partition numbers never change.",
        )
    return in_force


async def check_topics(
    log: KafkaLog,
    *,
    partitions: int,
    replicas_in_sync_min: int = 1,
    flush_records: int | None = None,
) -> tuple[Difference, ...]:
    """Every difference between the broker's topics and the definition; empty when all is well."""
    admin = await _admin(log)
    try:
        wanted = {log.prefix + spec.topic: spec for spec in specs(partitions)}
        settings = {
            name: _settings(spec, replicas_in_sync_min, flush_records)
            for name, spec in wanted.items()
        }
        asked = await _asked(lambda: clients.described(admin, list(wanted)))
        there = {one["topic"]: one for one in asked}
        found = [
            Difference(name, "topic", "exists", "missing") for name in wanted if name not in there
        ]
        are_now = await _config(admin, list(there))
        for name, described in there.items():
            count = len(described["partitions"])
            if count != wanted[name].partitions:
                found.append(
                    Difference(name, "partitions", str(wanted[name].partitions), str(count))
                )
            # The broker takes appends of "all" replicas where there are fewer than must be in sync.
            replicas = min((len(one["replicas"]) for one in described["partitions"]), default=0)
            in_sync_min = max(replicas_in_sync_min, _number(are_now[name].get(_IN_SYNC)))
            if replicas < in_sync_min:
                found.append(Difference(name, "replicas", f"{in_sync_min} or more", str(replicas)))
        return (*found, *_differences(settings, are_now))
    finally:
        await admin.close()


async def _config(
    admin: AIOKafkaAdminClient, topics: list[str]
) -> dict[str, dict[str, str | None]]:
    """Every setting of topics that are there. Raises LogUnreachableError, LogRefusedError."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in topics]

    async def ask() -> dict[str, dict[str, str | None]]:
        found: dict[str, dict[str, str | None]] = {}
        for response in await admin.describe_configs(resources):
            for code, _text, _kind, name, entries in response.resources:
                if code:
                    # A broker that has just come back may not know its topics yet.
                    raise for_code(code)(name)
                found[name] = {entry[0]: entry[1] for entry in entries}
        return found

    settings: dict[str, dict[str, str | None]] = await _asked(ask)
    return settings


def _differences(
    wanted: Mapping[str, Mapping[str, str]], are_now: Mapping[str, Mapping[str, str | None]]
) -> Iterator[Difference]:
    """Settings of the topics that are there, where they are not as they must be."""
    for name, is_now in are_now.items():
        for setting, value in wanted[name].items():
            found = is_now.get(setting)
            enough = setting in _AT_LEAST and _number(found) >= int(value)
            if found != value and not enough:
                yield Difference(name, setting, value, str(found))


def _number(found: str | None) -> int:
    """A setting that is a number; below all where it is none."""
    return int(found) if found is not None and found.isdecimal() else -1


async def _begin(log: KafkaLog, partitions: int, generation: str) -> str:
    """Write the genesis record wherever offset 0 is still free; all must carry one generation."""
    places = [(topic.value, part) for topic in sorted(WITH_GENESIS) for part in range(partitions)]
    ends = await _ends_once_led(log, places)
    begun = await _genesis_records(log, [place for place in places if ends[place] > 0])
    found = {genesis.generation for genesis in begun.values()}
    if len(found) > 1:
        raise TopicsError(
            f"Partitions belong to different generations: {sorted(found)}.",
            hint="Topics of two installations are mixed, or one was made anew. Do not write.",
        )
    in_force = found.pop() if found else generation
    appender = await log.appender()
    try:
        async with asyncio.TaskGroup() as tasks:
            for place in places:
                if ends[place] == 0:
                    record = Genesis(generation=in_force, partition=place[1], partitions=partitions)
                    tasks.create_task(_write_genesis(appender, place, record))
    except* LedgerError as troubles:
        raise _first(troubles) from None
    finally:
        await appender.close()
    return in_force


async def _write_genesis(appender: Appender, place: Place, genesis: Genesis) -> None:
    topic, partition = place
    source = f"/actionledger/{genesis.generation}/{partition}"
    value = encode(genesis, event_id="genesis", source=source)
    record = Outgoing(b"genesis", value, (CONTENT_TYPE, (MARKS, MARK_EPOCH)))
    (landed,) = await appender.append(topic, partition, [record])
    if landed.offset != 0:
        raise TopicsError(
            f"Somebody else began {topic} {partition} at the same moment.",
            hint="Run `actionledger topics check`; make a new prefix if it complains.",
        )


def _first(troubles: BaseExceptionGroup[LedgerError]) -> LedgerError:
    """One of the troubles that parallel work met: what to do about it is the same for all."""
    first: BaseException = troubles
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    assert isinstance(first, LedgerError)  # noqa: S101 - for the type checker
    return first


async def check_genesis(log: KafkaLog, *, partitions: int) -> Genesis:
    """Read every genesis record and see that all are of one installation; the ledger's first.

    Every process asks this before it works. Raises TopicsError, TruncatedLogError,
    LogUnreachableError.
    """
    places = [(topic.value, part) for topic in sorted(WITH_GENESIS) for part in range(partitions)]
    await check_counts(log, partitions)
    await check_keeping(log, partitions)
    empty = sorted(place for place, end in (await _ends(log, places)).items() if end == 0)
    if empty:
        raise TopicsError(
            f"{empty[0][0]} {empty[0][1]} has no genesis record.",
            hint="Run `actionledger topics apply` first.",
        )
    found = await _genesis_records(log, places)
    first = found[Topic.LEDGER.value, 0]
    for (topic, part), genesis in found.items():
        if (genesis.generation, genesis.partitions) != (first.generation, partitions):
            raise TopicsError(
                f"{topic} {part} is of generation {genesis.generation} with {genesis.partitions} "
                f"partitions; this installation is {first.generation} with {partitions}.",
                hint="Check ACTIONLEDGER_PARTITIONS and the topic prefix; never mix topics.",
            )
    return first


async def require_topics(log: KafkaLog) -> None:
    """See that somebody has made the ledger's topic: a process that is started before the set-up
    step would wait for it. Asks again for a while: a broker that comes up knows none at first.
    Raises TopicsError.
    """
    name = log.prefix + Topic.LEDGER
    admin = await _admin(log)
    try:
        for _ in range(_ASKED_MAX):
            if await _asked(lambda: clients.described(admin, [name])):
                return
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
    finally:
        await admin.close()
    raise TopicsError(
        f"There is no topic {name}, or it is hidden from this login.",
        hint="`actionledger run setup` makes the topics; see that ACTIONLEDGER_KAFKA and "
        "ACTIONLEDGER_TOPIC_PREFIX name the same log, and start this again.",
    )


async def check_counts(log: KafkaLog, partitions: int, topics: Iterable[Topic] = Topic) -> None:
    """See that the broker's topics have the partitions of this installation: a key's partition
    follows from their number. Raises TopicsError.
    """
    wanted = {
        log.prefix + spec.topic: spec.partitions
        for spec in specs(partitions)
        if spec.topic in set(topics)
    }
    admin = await _admin(log)
    try:
        described = await _asked(lambda: clients.described(admin, list(wanted)))
    finally:
        await admin.close()
    found = {one["topic"]: len(one["partitions"]) for one in described}
    for name, count in wanted.items():
        if found.get(name, 0) != count:
            raise TopicsError(
                f"{name} has {found.get(name, 0)} partitions, not {count}.",
                hint="Check ACTIONLEDGER_PARTITIONS and the topic prefix, then `actionledger "
                "topics check`. Where somebody added partitions, keys have moved: do not write.",
            )


async def check_keeping(log: KafkaLog, partitions: int) -> None:
    """See that the broker takes and keeps what is written, whole and with its own times: a topic
    that is compacted, or that forgets, loses what the ledger rests on. Raises TopicsError with
    every setting that is otherwise.
    """
    wanted = {
        log.prefix + spec.topic: {
            setting: value
            for setting, value in _settings(spec, 1, None).items()
            if setting in _KEEPING or setting == _LARGEST
        }
        for spec in specs(partitions)
    }
    admin = await _admin(log)
    try:
        found = list(_differences(wanted, await _config(admin, list(wanted))))
    finally:
        await admin.close()
    if found:
        raise TopicsError(
            "Topics do not keep what is written: "
            + "; ".join(f"{d.topic} {d.setting} is {d.found}, not {d.wanted}" for d in found),
            hint="Nothing is decided on them. Set them right with incremental alter commands; if "
            "records are gone already, restore the log first.",
        )


async def _ends(log: KafkaLog, places: Sequence[Place]) -> dict[Place, int]:
    reader = await log.reader({})
    try:
        return await reader.end_offsets(places)
    finally:
        await reader.close()


async def _ends_once_led(log: KafkaLog, places: Sequence[Place]) -> dict[Place, int]:
    """The ends of partitions that may be new: each has its leader only after a while, on a busy
    broker hundreds of them after longer than one question waits.
    """
    time = asyncio.get_running_loop().time
    until = time() + LEADERS_SECONDS_MAX
    while True:
        try:
            return await _ends(log, places)
        except LogUnreachableError:
            if time() >= until:
                raise


async def _genesis_records(log: KafkaLog, places: Sequence[Place]) -> dict[Place, Genesis]:
    """The genesis of each place, every one of which has records."""
    found: dict[Place, Genesis] = {}
    starts = dict.fromkeys(places, 0)
    reader = await log.reader(starts, fetch_bytes=_GENESIS_FETCH_BYTES)
    try:
        async for records in read_up_to(reader, starts, dict.fromkeys(places, 1)):
            for record in records:
                if record.offset == 0:
                    found[record.topic, record.partition] = _genesis_in(record)
                    reader.pause(record.topic, record.partition)
    finally:
        await reader.close()
    return found


def _genesis_in(record: Record) -> Genesis:
    """The genesis that a partition must begin with. Raises TopicsError when it is none."""
    if record.topic == Topic.LEDGER:
        try:
            read: object = read_ledger(record.value)
        except ValueError:
            read = None
    else:
        read = read_input(record)
    if not isinstance(read, Genesis) or read.partition != record.partition:
        raise TopicsError(
            f"{record.topic} {record.partition} does not begin with its genesis record.",
            hint="It is not a topic of this product, or it was made by hand. Apply topics anew.",
        )
    return read


async def read_genesis(log: KafkaLog, topic: str, partition: int) -> Genesis:
    """The genesis of one partition. Raises TopicsError, TruncatedLogError."""
    return _genesis_in(await log.read_one(topic, partition, 0))


async def cluster_id(log: KafkaLog) -> str:
    """The id that the broker's cluster was made with; another cluster has another. Raises
    LogUnreachableError, LogRefusedError.
    """
    admin = await _admin(log)
    try:
        described = await admin.describe_cluster()
    except KafkaError as failure:
        raise trouble_of(failure, "Asking for the cluster's id") from failure
    finally:
        await admin.close()
    return str(described["cluster_id"])


async def _admin(log: KafkaLog) -> AIOKafkaAdminClient:
    admin = AIOKafkaAdminClient(**log.client_options)
    try:
        await clients.to_its_end(admin.start())
    except BaseException as failure:
        await admin.close()
        if not isinstance(failure, KafkaError):
            raise
        raise await clients.not_started(failure, log.client_options) from failure
    return admin


async def _create(admin: AIOKafkaAdminClient, topics: list[NewTopic]) -> Any:  # noqa: ANN401
    """Create topics. Raises NodeNotReadyError while brokers name no controller, where the library
    would stumble over there being none.
    """
    cluster = admin._client.cluster  # noqa: SLF001 - nothing else says whether it is known
    if cluster.controller is None:
        await admin._client.force_metadata_update()  # noqa: SLF001
    if cluster.controller is None:
        raise NodeNotReadyError("No controller is known yet.")
    return await admin.create_topics(topics)


async def _asked(ask: Callable[[], Awaitable[Any]]) -> Any:  # noqa: ANN401 - aiokafka has no types
    """Put a question that may be put twice, again where no node was ready for it. Raises what
    `trouble_of` makes of the last failure.
    """
    for _ in range(_ASKED_MAX - 1):
        try:
            return await ask()
        except KafkaError as failure:
            if not failure.retriable:
                raise trouble_of(failure, "Asking about topics") from failure
        await asyncio.sleep(_ASK_AGAIN_SECONDS)
    try:
        return await ask()
    except KafkaError as failure:
        raise trouble_of(failure, "Asking about topics") from failure
