"""Gathers what a run left behind: every topic from its first record, books, rows.

Reads with the plain clients of Kafka and Postgres, by SQL of its own, so that a mistake in the
product's readers is not repeated here. Changes nothing anywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import orjson
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from tests.crash.evidence import Json, Place, Raw, Run

TOPICS = (
    "intents",
    "approvals",
    "attempts",
    "evidence",
    "internal",
    "ledger",
    "webhooks",
    "config",
    "quarantine",
)
_MS = "(extract(epoch from {0}) * 1000)::bigint as {0}"
QUERIES = {
    "projection_offsets": "partition, next_offset, epoch, void_count, positions",
    "streams": "stream_key, convert_from(state, 'UTF8') as state",
    "actions": "action_key, status, version, request_hash, attempts, provider_reference, proof, "
    "code, review, ledger_offset",
    "attempts": "action_key, number, fencing_token, holder, provider_key, status, code, "
    + ", ".join(map(_MS.format, ("lease_until", "ended_at"))),
    "action_events": "partition, ledger_offset, ordinal, action_key, version, type, event_id",
    "decisions": "partition, ledger_offset",
    "gates": "gate_key, version, used, reserved, granted, queued",
    "gate_reservations": "gate_key, version, status",
    "webhooks": (
        "partition, topic_offset, provider, account, event_id, fact, classification, action_key"
    ),
}
DERIVED = {"action_events": "actionledger_api_v1.action_events"}
"""What has a column that only its view has."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where to look. `provider` is the folder of its book, `clients` a file of what they heard,
    `people` one of what people did, `logs` the folder in which processes write, `secrets` what must
    be nowhere.
    """

    kafka: str
    prefix: str
    database: str
    provider: Path
    clients: Path | None = None
    people: Path | None = None
    logs: Path | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)


async def gather(sources: Sources) -> Run:
    """Everything as it is now."""
    log = await read_log(sources.kafka, sources.prefix)
    return Run(
        partitions=sum(topic == "ledger" for topic, _ in log),
        log=log,
        book=whole_lines(sources.provider / "book.jsonl"),
        webhooks_sent=whole_lines(sources.provider / "webhooks.jsonl"),
        tables=await read_tables(sources.database),
        clients=() if sources.clients is None else whole_lines(sources.clients),
        people=() if sources.people is None else whole_lines(sources.people),
        secrets=sources.secrets,
        words={} if sources.logs is None else _words(sources.logs),
    )


async def read_log(kafka: str, prefix: str) -> dict[Place, list[Raw]]:
    """Every record of every topic under a prefix."""
    places = await _places(kafka, prefix)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=kafka, enable_auto_commit=False, auto_offset_reset="none"
    )
    await consumer.start()
    try:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        read = dict(await consumer.beginning_offsets(places))
        for place in places:
            consumer.seek(place, read[place])
        found: dict[Place, list[Raw]] = {
            (place.topic.removeprefix(prefix), place.partition): [] for place in places
        }
        while any(read[place] < ends[place] for place in places):
            for place, records in (await consumer.getmany(timeout_ms=200)).items():
                found[place.topic.removeprefix(prefix), place.partition] += [
                    Raw(record.offset, record.timestamp, record.key, record.value or b"")
                    for record in records
                ]
                read[place] = records[-1].offset + 1
        return found
    finally:
        await consumer.stop()


async def _places(kafka: str, prefix: str) -> list[TopicPartition]:
    """Every partition of every topic."""
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    try:
        described = await admin.describe_topics([prefix + topic for topic in TOPICS])
    finally:
        await admin.close()
    return [
        TopicPartition(topic["topic"], partition["partition"])
        for topic in described
        for partition in sorted(topic["partitions"], key=lambda one: int(one["partition"]))
    ]


async def read_tables(database: str) -> dict[str, list[Json]]:
    """The rows of the projections, in one snapshot."""
    connection = await asyncpg.connect(database)
    try:
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            tables: dict[str, list[Json]] = {}
            for table, columns in QUERIES.items():
                place = DERIVED.get(table, f"actionledger.{table}")
                query = f"select {columns} from {place}"  # noqa: S608 - names of ours
                rows = await connection.fetch(query)
                tables[table] = [dict(row) for row in rows]
    finally:
        await connection.close()
    for row in tables["gates"]:
        row |= {name: orjson.loads(row[name]) for name in ("used", "reserved")}
    for row in tables["projection_offsets"]:
        row["positions"] = orjson.loads(row["positions"])
    return tables


def _words(folder: Path) -> dict[str, str]:
    """What every process has written, by the name of its file."""
    return {
        path.name: path.read_text(encoding="utf-8", errors="replace")
        for path in folder.glob("*.log")
    }


def whole_lines(path: Path) -> list[Json]:
    """The whole lines of a file; a torn last one says nothing."""
    whole = [raw for raw in path.read_bytes().splitlines(keepends=True) if raw.endswith(b"\n")]
    return [orjson.loads(raw) for raw in whole]
