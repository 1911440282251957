"""Count equality: so many webhooks, workers and the broker killed on the way, nothing lost and
nothing counted twice.

    python -m tests.crash.counts [--webhooks N] [--workers N] [--partitions N] [--only-parked]

Three real reconcilers on real Kafka and Postgres. Webhooks that match, that match nothing, that no
mapping understands, that come twice, and bytes that are no webhook are appended while a worker is
killed at every tenth of the way and the broker twice. Then the topic, the tables, the evidence and
the quarantine are counted against each other. Ends with 1 when they do not agree. With
`--only-parked` none matches anything and an inquirer looks at them all the while: how much memory
that takes is told beside the counts.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Final

import asyncpg

from gateway import local
from ledger.core.inputs import Evidence
from ledger.core.money import Money
from ledger.log.envelope import read_input
from ledger.log.kafka import KafkaLog
from ledger.log.port import AppendUnknownError, Outgoing, Record
from ledger.log.quarantine import QuarantinedRecord
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic, partition_of
from ledger.log.trouble import LogRefusedError, LogUnreachableError
from ledger.log.webhook_record import WebhookReceived, webhook_key, webhook_outgoing
from reconciler.providers.simulated.api import Event, EventData, Metadata
from reconciler.windows import read_live
from streams.clock import wall_ms
from tests.crash.machine import Machine, machine
from tests.patience import PATIENCE_SECONDS

BATCH = 200
AHEAD = 4_000
"""Webhooks that may lie on the topic unhandled: workers are struck at work, not at the end."""

GARBAGE_EVERY = 500
LOOK_SECONDS = 0.1
SETTLE_SECONDS = 180.0
BEGAN_MS = 1_800_000_000_000
AMOUNT = Money(minor=4_990, currency="EUR")


@dataclass(frozen=True, slots=True)
class Sent:
    """What was meant to arrive: events by what is to become of each, and garbage."""

    matched: frozenset[str]
    parked: frozenset[str]
    unrecognised: frozenset[str]
    garbage: int


@dataclass(slots=True)
class Counted:
    """What was found. `records` stand on the topic, those appended again after the broker came back
    included; `told_again` is evidence that repeats a source, which counts once.
    """

    records: int = 0
    rows: int = 0
    matched: int = 0
    parked: int = 0
    unrecognised: int = 0
    evidence: int = 0
    told_again: int = 0
    quarantined: int = 0
    worker_kills: int = 0
    broker_kills: int = 0
    seconds: float = 0.0
    members: int = 0
    rss_mb: dict[str, float] = field(default_factory=dict)
    endings: dict[str, list[int]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


class Mix(Enum):
    """What kinds of webhooks come."""

    ALL = "all"
    PARKED = "parked"


ACTIONS: Final = """
insert into actionledger.actions (
    tenant_id, action_id, operation, operation_version, action_key, stream_key, request_hash,
    amount_minor, currency, principal, environment, provider, account, reliability, status, version,
    attempts, step_deadline_at, intent_offset, epoch, ledger_partition, ledger_offset, created_at,
    updated_at
)
select
    'acme', 'count-' || n, 'charge', 1, 'charge:v1:acme:count-' || n, 'acme/count-' || n,
    'sha256:00', $2, $3, 'p', 'test', 'simulated', 'main', 'keyed', 'unknown', 1, 1, now(), 0, 1, 0,
    0, now(), now()
from generate_series(0, $1::int - 1) as n
where n % 10 < 6
"""
"""The actions that webhooks name, as the projector writes them: without a row they are nobody's."""


def webhooks(count: int, mix: Mix) -> Iterator[tuple[str, WebhookReceived]]:
    """So many deliveries, each with what is to become of it; of ten one repeats an earlier one."""
    if mix is Mix.PARKED:
        yield from (("parked", _webhook(number, None)) for number in range(count))
        return
    for number in range(count):
        match number % 10:
            case 6 | 7:
                yield "parked", _webhook(number, None)
            case 8:
                yield "unrecognised", _webhook(number, None, event_type="effect.unheard_of")
            case 9:
                yield "matched", _webhook(number - 9, f"charge:v1:acme:count-{number - 9}")
            case _:
                yield "matched", _webhook(number, f"charge:v1:acme:count-{number}")


def _webhook(
    number: int, action_key: str | None, *, event_type: str = "effect.settled"
) -> WebhookReceived:
    event = Event(
        id=f"evt_{number}",
        type="effect.settled",
        account="main",
        created_at=BEGAN_MS + number,
        data=EventData(
            effect_id=f"ch_{number}",
            operation="charge",
            target="order:A-1842",
            description=None,
            amount=AMOUNT,
            key=None,
            reference=None,
            metadata=Metadata(action_key=action_key),
        ),
    )
    raw = event.model_dump_json().replace('"effect.settled"', f'"{event_type}"').encode()
    return WebhookReceived.of(
        raw,
        provider="simulated",
        account="main",
        event_id=event.id,
        sent_at=event.created_at,
        headers={},
    )


async def feed(
    on: Machine, pool: asyncpg.Pool, count: int, mix: Mix, struck: asyncio.Event
) -> Sent:
    """Append them all, again what was not acknowledged, and never far ahead of the workers. The
    last batch comes once nobody is struck any more: a worker that begins anew has seen nothing.
    """
    appender = SteadyAppender(on.log.appender)
    by_fate: dict[str, set[str]] = {"matched": set(), "parked": set(), "unrecognised": set()}
    garbage = done = 0
    waiting: dict[int, list[Outgoing]] = {part: [] for part in range(on.partitions)}
    try:
        for number, (fate, webhook) in enumerate(webhooks(count, mix)):
            by_fate[fate].add(webhook.event_id)
            waiting[partition_of(webhook_key(webhook), on.partitions)].append(
                webhook_outgoing(webhook)
            )
            if number % GARBAGE_EVERY == GARBAGE_EVERY - 1:
                garbage += 1
                waiting[number % on.partitions].append(Outgoing(b"garbage", b"no webhook"))
            if number % BATCH == BATCH - 1 or number == count - 1:
                if number == count - 1:
                    await struck.wait()
                await _append_all(appender, waiting)
                done = number
                while done - await _handled(pool) > AHEAD:
                    await asyncio.sleep(LOOK_SECONDS)
    finally:
        await appender.close()
    return Sent(
        frozenset(by_fate["matched"]),
        frozenset(by_fate["parked"]),
        frozenset(by_fate["unrecognised"]),
        garbage,
    )


async def _append_all(appender: SteadyAppender, waiting: dict[int, list[Outgoing]]) -> None:
    for partition, records in waiting.items():
        while records:
            try:
                await appender.append(Topic.WEBHOOKS, partition, records)
            except (AppendUnknownError, LogUnreachableError, LogRefusedError):
                await asyncio.sleep(LOOK_SECONDS)
                continue
            records.clear()


async def _handled(pool: asyncpg.Pool) -> int:
    handled: int = await pool.fetchval("select count(*) from actionledger.webhooks")
    return handled


async def strike(
    on: Machine,
    servers: local.Servers,
    pool: asyncpg.Pool,
    count: int,
    counted: Counted,
    struck: asyncio.Event,
) -> None:
    """Kill a worker at every tenth of the way, and the broker at the third and the seventh."""
    workers = [name for name in on.supervised if name.startswith("reconciler")]
    for tenth in range(1, 10):
        while await _handled(pool) < count * tenth // 10:
            await asyncio.sleep(LOOK_SECONDS)
        name = workers[tenth % len(workers)]
        await on.end(name)
        counted.worker_kills += 1
        if tenth in (3, 7):
            await servers.kafka.kill()
            await servers.kafka.restart()
            counted.broker_kills += 1
        await on.ready(name)
    struck.set()


async def count_equality(
    servers: local.Servers,
    folder: Path,
    *,
    count: int,
    workers: int,
    partitions: int,
    mix: Mix = Mix.ALL,
) -> Counted:
    """Send, strike, let it settle, count."""
    counted = Counted()
    async with machine(
        servers.kafka_bootstrap, servers.admin_url, folder, partitions=partitions
    ) as on:
        await on.start("reconciler")
        for number in range(2, workers + 1):
            await on.start_member("reconciler", f"reconciler-{number}")
        if mix is Mix.PARKED:
            await on.start("inquirer")
        async with asyncpg.create_pool(on.database_url, min_size=1, max_size=4) as pool:
            if mix is Mix.ALL:
                await pool.execute(ACTIONS, count, AMOUNT.minor, AMOUNT.currency)
            began_s, struck = time.monotonic(), asyncio.Event()
            async with asyncio.TaskGroup() as tasks:
                feeding = tasks.create_task(feed(on, pool, count, mix, struck))
                tasks.create_task(strike(on, servers, pool, count, counted, struck))
            sent = feeding.result()
            await settle(on, pool, sent.garbage)
            await look(pool, workers, counted)
            counted.seconds = round(time.monotonic() - began_s, 1)
            counted.endings = on.endings()
            counted.rss_mb = {
                name: one.rss_mb for name, one in on.supervised.items() if one.is_alive
            }
            await judge(on, pool, sent, counted)
    return counted


async def settle(on: Machine, pool: asyncpg.Pool, garbage: int) -> None:
    """Wait until every record on the topic has a row, but for what is none."""
    deadline_s = time.monotonic() + SETTLE_SECONDS
    expected = len(await everything(on.log, Topic.WEBHOOKS, on.partitions)) - garbage
    while await _handled(pool) < expected:
        if time.monotonic() > deadline_s:
            return  # counting says what is missing
        await asyncio.sleep(LOOK_SECONDS)


async def look(pool: asyncpg.Pool, workers: int, counted: Counted) -> None:
    """What metrics and pages are told: by every worker, those that were killed lately included. It
    is as old as a worker's last word.
    """
    deadline_s = time.monotonic() + PATIENCE_SECONDS
    while True:
        live = await read_live(pool, now_ms=wall_ms())
        counted.members = live.members
        if live.members >= workers and live.webhooks_per_s:
            return
        if time.monotonic() > deadline_s:
            told = list(live.webhooks_per_s)
            counted.wrong.append(f"{live.members} of {workers} workers tell, of webhooks of {told}")
            return
        await asyncio.sleep(LOOK_SECONDS)


async def everything(log: KafkaLog, topic: Topic, partitions: int) -> list[Record]:
    """All records of a topic."""
    places = [(topic.value, part) for part in range(partitions)]
    reader = await log.reader(dict.fromkeys(places, 0))
    try:
        ends = await reader.end_offsets(places)
        at = dict.fromkeys(places, 0)
        found: list[Record] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while any(at[place] < ends[place] for place in places):
                for record in await reader.read(timeout_ms=500, records_max=5_000):
                    found.append(record)
                    at[topic.value, record.partition] = record.offset + 1
    finally:
        await reader.close()
    return found


async def judge(on: Machine, pool: asyncpg.Pool, sent: Sent, counted: Counted) -> None:
    """Count topic, tables, evidence and quarantine against each other."""
    records = await everything(on.log, Topic.WEBHOOKS, on.partitions)
    garbage = {(one.partition, one.offset) for one in records if one.key == b"garbage"}
    counted.records = len(records)
    rows = await pool.fetch(
        "select partition, topic_offset, event_id, classification from actionledger.webhooks"
    )
    counted.rows = len(rows)
    places = {(one.partition, one.offset) for one in records} - garbage
    _same(counted, "rows and records", {tuple(row)[:2] for row in rows}, places)
    fates: dict[str, Counter[str]] = {"matched": Counter(), "parked": Counter()}
    unrecognised = set()
    for _, _, event_id, classification in rows:
        if classification in fates:
            fates[classification][event_id] += 1
        elif classification == "unrecognised":
            unrecognised.add(event_id)
    for fate, expected in (("matched", sent.matched), ("parked", sent.parked)):
        _same(counted, f"events {fate}", set(fates[fate]), set(expected))
        if fates[fate] and max(fates[fate].values()) > 1:
            counted.wrong.append(f"an event is {fate} twice")
    _same(counted, "events unrecognised", unrecognised, set(sent.unrecognised))
    counted.matched, counted.parked = len(fates["matched"]), len(fates["parked"])
    counted.unrecognised = len(unrecognised)
    await _judge_told(on, sent, garbage, counted)


async def _judge_told(
    on: Machine, sent: Sent, garbage: set[tuple[int, int]], counted: Counted
) -> None:
    told = [
        given
        for record in await everything(on.log, Topic.EVIDENCE, on.partitions)
        if isinstance(given := read_input(record), Evidence)
    ]
    sources = {(given.key, given.source_id) for given in told}
    counted.evidence, counted.told_again = len(sources), len(told) - len(sources)
    actions = Counter(key for key, _ in sources)
    _same(
        counted,
        "actions with evidence",
        set(actions),
        {f"charge:v1:acme:count-{event_id[4:]}" for event_id in sent.matched},
    )
    if actions and max(actions.values()) > 1:
        counted.wrong.append("an action has evidence under two sources of one event")
    kept = [
        QuarantinedRecord.model_validate(json.loads(record.value)["data"])
        for record in await everything(on.log, Topic.QUARANTINE, on.partitions)
    ]
    counted.quarantined = len({(one.partition, one.offset) for one in kept})
    _same(counted, "quarantined", {(one.partition, one.offset) for one in kept}, garbage)


def _same(
    counted: Counted, what: str, found: AbstractSet[object], expected: AbstractSet[object]
) -> None:
    missing, foreign = expected - found, found - expected
    if missing or foreign:
        counted.wrong.append(f"{what}: {len(missing)} missing, {len(foreign)} too many")


async def run(count: int, workers: int, partitions: int, mix: Mix) -> Counted:
    """With servers of its own."""
    with tempfile.TemporaryDirectory(prefix="actionledger-counts-") as folder:
        async with local.servers() as servers:
            return await count_equality(
                servers,
                Path(folder),
                count=count,
                workers=workers,
                partitions=partitions,
                mix=mix,
            )


def main(arguments: list[str]) -> int:
    """Count and report; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.counts", description=__doc__)
    parser.add_argument("--webhooks", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--only-parked", action="store_true")
    given = parser.parse_args(arguments)
    mix = Mix.PARKED if given.only_parked else Mix.ALL
    counted = asyncio.run(run(given.webhooks, given.workers, given.partitions, mix))
    sys.stdout.write(json.dumps(asdict(counted), indent=1) + "\n")
    return 1 if counted.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
