"""What tests of the reconciler and the inquirer need: signed webhooks as the door writes them, both
processes as tasks beside an installation, and what came of it on topics and in tables.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import asyncpg
from standardwebhooks import Webhook

from ledger.core.ids import ActionKey
from ledger.core.inputs import Evidence
from ledger.core.money import Money
from ledger.log.envelope import read_input
from ledger.log.port import Record
from ledger.log.quarantine import QuarantinedRecord
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic, partition_of
from ledger.log.webhook_record import WebhookReceived, webhook_key, webhook_outgoing
from reconciler.evidence import webhook_source_id
from reconciler.lost_rows import LostRows
from reconciler.notifying.notifier import Notifier
from reconciler.providers.port import Finder, MappedWebhook, WebhookMapping
from reconciler.providers.simulated.api import Event, EventData, EventType, Metadata
from reconciler.providers.simulated.mapping import SimulatedMapping
from reconciler.receiving import WebhookDesk
from reconciler.repeats import fact_of
from reconciler.webhooks import Verified, verify
from streams.agents import add_attention_agent, add_webhook_agent, keep_whole
from streams.app import AppSettings, build_app
from streams.attention import AttentionWindow
from streams.clock import wall_ms
from streams.inquirer import Inquirer
from tests import databases
from tests.integration.faust_kit import POLL_SECONDS, Running, run_as_task
from tests.integration.installation import PARTITIONS, Installation
from tests.patience import PATIENCE_SECONDS

_AT_ONCE = asyncio.Event()
_AT_ONCE.set()
_TOLD: list[int] = [0]

SECRET = "whsec_cmVjb25jaWxlciBpbnRlZ3JhdGlvbiB0ZXN0cw=="
MONEY = Money(minor=4_990, currency="EUR")
KEY = "charge:v1:acme:renewal-1"
SIMULATED: Mapping[str, WebhookMapping] = {"simulated": SimulatedMapping()}


def a_new_moment() -> int:
    """This one, or the next that was not told before: two events of one object and type at one
    moment are one fact, whatever their ids. Not counted from the beginning of all tests, which is
    too long ago for what is looked at by the hour.
    """
    _TOLD[0] = max(_TOLD[0] + 1, wall_ms())
    return _TOLD[0]


def settlement(
    event_id: str,
    *,
    reference: str | None = "ch_1",
    action_key: str | None = None,
    provider_key: str | None = None,
    account: str = "main",
    verified_for: str = "main",
    event_type: EventType = "effect.settled",
    occurred_at: int | None = None,
) -> WebhookReceived:
    """A webhook of the simulated provider, signed, verified and written down as the door does; it
    happened at a moment of its own.
    """
    event = Event(
        id=event_id,
        type=event_type,
        account=account,
        created_at=a_new_moment() if occurred_at is None else occurred_at,
        data=EventData(
            effect_id=reference,
            operation="charge",
            target="order:A-1842",
            description=None,
            amount=MONEY,
            key=provider_key,
            reference=None,
            metadata=Metadata(action_key=action_key),
        ),
    )
    raw = event.model_dump_json().encode()
    now = datetime.now(UTC)
    headers = {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign(event_id, now, raw.decode()),
    }
    verified = verify(raw, headers, [SECRET], int(time.time() * 1000))
    assert isinstance(verified, Verified)
    return WebhookReceived.of(
        raw,
        provider="simulated",
        account=verified_for,
        event_id=verified.event_id,
        sent_at=verified.sent_at,
        headers=headers,
    )


def source_of(webhook: WebhookReceived) -> str:
    """The id of a webhook as a source of evidence."""
    mapped = SimulatedMapping().map(webhook.raw())
    assert isinstance(mapped, MappedWebhook)
    named = fact_of(mapped, webhook.source) or mapped.event_id
    return webhook_source_id(webhook.provider, webhook.account, named)


async def receive(one: Installation, *webhooks: WebhookReceived) -> list[tuple[int, int]]:
    """Write webhooks to their topic; where each stands."""
    places = []
    for webhook in webhooks:
        partition = partition_of(webhook_key(webhook), PARTITIONS)
        (offset,) = await one.put(Topic.WEBHOOKS, partition, webhook_outgoing(webhook))
        places.append((partition, offset))
    return places


async def all_records(one: Installation, topic: Topic) -> list[Record]:
    """Everything on a topic now."""
    return [
        record
        for partition in range(PARTITIONS)
        for record in await one.records(topic.value, partition)
    ]


async def evidence(one: Installation) -> list[Evidence]:
    """Everything on the topic `evidence` now, checked to stand where its stream lives."""
    found = []
    for record in await all_records(one, Topic.EVIDENCE):
        given = read_input(record)
        if isinstance(given, Evidence):
            assert record.key is not None
            assert record.partition == partition_of(record.key.decode(), PARTITIONS)
            found.append(given)
    return found


async def quarantine(one: Installation) -> list[QuarantinedRecord]:
    """Everything on the topic `quarantine` now."""
    return [
        QuarantinedRecord.model_validate_json(_data_of(record.value))
        for record in await all_records(one, Topic.QUARANTINE)
    ]


async def quarantine_becomes(one: Installation, count: int) -> list[QuarantinedRecord]:
    """Wait until so much is in quarantine: partitions are not in step with one another."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found := await quarantine(one)) < count:
            await asyncio.sleep(POLL_SECONDS)
    return found


def _data_of(value: bytes) -> bytes:
    return value[value.index(b'"data":') + len(b'"data":') : -1]


async def rows(pool: asyncpg.Pool) -> dict[tuple[int, int], asyncpg.Record]:
    """Every webhook's row by where it stands."""
    found = await pool.fetch("select * from actionledger.webhooks")
    return {(row["partition"], row["topic_offset"]): row for row in found}


async def rows_become(pool: asyncpg.Pool, count: int) -> dict[tuple[int, int], asyncpg.Record]:
    """Wait until so many webhooks have a row."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(found := await rows(pool)) < count:
            await asyncio.sleep(POLL_SECONDS)
    return found


async def classified(pool: asyncpg.Pool, place: tuple[int, int], classification: str) -> None:
    """Wait until a webhook's row says this."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            row = (await rows(pool)).get(place)
            if row is not None and row["classification"] == classification:
                return
            await asyncio.sleep(POLL_SECONDS)


async def know_reference(pool: asyncpg.Pool, reference: str, *action_keys: str) -> None:
    """Let the read model know a provider reference, as the projector does, with its notice."""
    async with pool.acquire() as connection, connection.transaction():
        for action_key in action_keys:
            await connection.execute(
                "insert into actionledger.provider_references values"
                " ('main', $1, $2, 'acme', 'acme/renewal-1', 'simulated', now(), 0, 7)",
                reference,
                action_key,
            )
        await connection.execute("select pg_notify('actionledger_changed', '0:8')")


async def know_action(
    pool: asyncpg.Pool,
    *action_keys: str,
    status: str = "unknown",
    money: Money = MONEY,
    account: str = "main",
    target: str | None = None,
    asked_at: int | None = None,
    begun_at: int | None = None,
    provider_key: str | None = None,
) -> None:
    """Let the read model know actions, as the projector does, with its notice: asked for at a time,
    by itself now, and begun at one, by itself never. The provider was given `provider_key`, by
    itself the action's own.
    """
    asked = datetime.now(UTC) if asked_at is None else _moment(asked_at)
    for text in action_keys:
        key = ActionKey.parse(text)
        await pool.execute(
            "insert into actionledger.actions (tenant_id, action_id, operation, operation_version,"
            " action_key, stream_key, request_hash, amount_minor, currency, principal, environment,"
            " provider, account, reliability, status, version, attempts, step_deadline_at,"
            " intent_offset, epoch, ledger_partition, ledger_offset, created_at, updated_at,"
            " target) values ($1, $2, $3, 1, $4, $5, 'sha256:00', $6, $7, 'p', 'test', 'simulated',"
            " $8, 'keyed', $9, 1, 1, now(), 0, 1, 0, 0, $11, now(), $10)",
            key.tenant,
            str(key.action_id),
            key.operation,
            text,
            key.stream_key,
            money.minor,
            money.currency,
            account,
            status,
            target,
            asked,
        )
        if begun_at is not None:
            await pool.execute(
                "insert into actionledger.attempts (action_key, number, tenant_id, provider,"
                " account, fencing_token, holder, provider_key, status, started_at, lease_until)"
                " values ($1, 1, $2, 'simulated', $3, 1, 'h', $5, 'unresolved', $4, $4)",
                text,
                key.tenant,
                account,
                _moment(begun_at),
                text if provider_key is None else provider_key,
            )
    await pool.execute("select pg_notify('actionledger_changed', '0:8')")


def _moment(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, UTC)


@dataclass
class Reconciling:
    """The reconciler's processes beside an installation."""

    one: Installation
    pool: asyncpg.Pool
    appender: SteadyAppender
    window: AttentionWindow
    reconciler: Running

    async def inquirer(self, finders: Mapping[str, Finder] | None = None) -> Inquirer:
        """Start an inquirer and wait until it is up to date."""
        inquirer = Inquirer(self.one.log, finders or {}, pool=self.pool, sweep_ms=500)
        await self.one._start(inquirer.run, inquirer.ready)
        return inquirer


def desk(
    one: Installation,
    pool: asyncpg.Pool,
    appender: SteadyAppender,
    mappings: Mapping[str, WebhookMapping] = SIMULATED,
) -> WebhookDesk:
    """What the webhook agent hands its records to."""
    return WebhookDesk(appender, pool, mappings, partitions=PARTITIONS, now_ms=wall_ms)


@contextlib.asynccontextmanager
async def migrated(database_url: str) -> AsyncIterator[asyncpg.Pool]:
    """A pool on a database with every table."""
    async with asyncpg.create_pool(database_url, min_size=1, max_size=5) as pool:
        await databases.complete(pool)
        yield pool


@contextlib.asynccontextmanager
async def reconciling(
    one: Installation,
    database_url: str,
    mappings: Mapping[str, WebhookMapping] = SIMULATED,
    *,
    notifier_of: Callable[[asyncpg.Pool], Notifier] | None = None,
) -> AsyncIterator[Reconciling]:
    """Run a reconciler on an installation and a database of its own; with a notifier beside it
    where a test brings one.
    """
    prefix = one.log.prefix
    settings = AppSettings(one.log.bootstrap, f"{prefix}reconciler", commit_interval_ms=100)
    appender = SteadyAppender(one.log.appender)
    window = AttentionWindow()
    async with migrated(database_url) as pool:
        app = build_app(settings)
        whole = LostRows(desk(one, pool, appender, mappings), pool, one.log)
        add_webhook_agent(app, whole, prefix=prefix)
        notifier = None if notifier_of is None else notifier_of(pool)
        if notifier is None:
            add_attention_agent(app, window, appender, prefix=prefix)
        else:
            add_attention_agent(app, window, appender, prefix=prefix, notify=notifier.keep)
            await one._start(notifier.run, _AT_ONCE)
        running = run_as_task(app, settings)
        looks = asyncio.create_task(keep_whole(whole, app, running.stop))
        try:
            yield Reconciling(one, pool, appender, window, running)
        finally:
            while one.tasks:
                await one.crash()
            await running.stopped()
            await looks
            await appender.close()
