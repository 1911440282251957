"""The reference consumer of an outbox on a real database: one effect for each key, and no more."""

import asyncio
import logging
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaTimeoutError
from aiokafka.structs import ConsumerRecord
from pydantic import JsonValue

from ledger.core.money import Money
from ledger.log.access import KafkaAccess
from reconciler.providers import postgres
from reconciler.providers.kafka.consumer import (
    Outbox,
    OutboxConsumer,
    RecordRefused,
    RefusedRecord,
    Report,
)
from reconciler.providers.kafka.headers import Asked, asked_by, headers_of
from reconciler.providers.kafka.mapping import EffectReport
from reconciler.providers.port import ProviderRequest
from reconciler.providers.postgres.connecting import Connection
from tests.integration.strange_headers import STANDS_FOR, with_no_text
from tests.patience import PATIENCE_SECONDS
from tests.servers import Addresses

pytestmark = pytest.mark.servers

EFFECTS_SQL = Path(postgres.__file__).with_name("effects.sql").read_text(encoding="utf-8")
REQUEST = ProviderRequest(
    action_key="invoice:v1:acme:1",
    operation="invoice",
    version=1,
    target=None,
    params={},
    money=Money(minor=500, currency="EUR"),
    account="main",
    request_hash="sha256:" + "ab" * 32,
)
OUTBOX = Outbox("127.0.0.1:1", ("requests",), "service", KafkaAccess(), "requests.refused")


def record(
    offset: int, request: ProviderRequest = REQUEST, value: bytes | None = b'{"order": 7}'
) -> ConsumerRecord:
    """One record of the outbox, as the library hands it out."""
    return ConsumerRecord(
        topic="requests",
        partition=0,
        offset=offset,
        timestamp=0,
        timestamp_type=0,
        key=b"k",
        value=value,
        checksum=None,
        serialized_key_size=1,
        serialized_value_size=len(value or b""),
        headers=headers_of(request, "key-1"),
    )


def reasons(refused: Sequence[RefusedRecord]) -> list[str]:
    """Why records were set aside."""
    codes = [dict(one.headers)["actionledger-refused"] for one in refused]
    return [code.decode() for code in codes if code is not None]


class Down(Exception):
    """The service's own trouble."""


@dataclass
class Service:
    """A service that makes invoices, and what it told the ledger."""

    pool: asyncpg.Pool
    reports: list[EffectReport] = field(default_factory=list)
    refused: list[RefusedRecord] = field(default_factory=list)
    is_down: bool = False
    is_unheard: bool = False

    async def act(
        self, connection: Connection, asked: Asked, value: JsonValue
    ) -> Mapping[str, JsonValue]:
        """Make an invoice, and fail after it where the service is down."""
        if not isinstance(value, dict):
            raise TypeError(value)
        if value.get("order") == "gone":
            raise RecordRefused("order_unknown", "there is no such order")
        await connection.execute("insert into invoices values ($1)", str(value["order"]))
        if self.is_down:
            raise Down
        return {"operation": asked.operation}

    async def take(self, *records: ConsumerRecord) -> None:
        """Take records as one run does."""
        consumer = OutboxConsumer(OUTBOX, self.pool, self.act, self.report)
        for one in records:
            await consumer.take(one, self.set_aside)

    async def set_aside(self, refused: RefusedRecord) -> None:
        """Keep what was refused."""
        self.refused.append(refused)

    async def report(self, report: EffectReport) -> None:
        """Tell the ledger, where it hears."""
        if self.is_unheard:
            raise ConnectionError
        self.reports.append(report)

    def told_then(self, stop: asyncio.Event) -> Report:
        """Tell the ledger, and let the run come to its end."""

        async def report(report: EffectReport) -> None:
            await self.report(report)
            stop.set()

        return report

    async def invoices(self) -> int:
        """How many there are."""
        count = await self.pool.fetchval("select count(*) from invoices")
        assert isinstance(count, int)
        return count


@pytest_asyncio.fixture
async def service(empty_database_url: str) -> AsyncIterator[Service]:
    """The service on an empty database."""
    async with asyncpg.create_pool(empty_database_url, min_size=0, max_size=2) as pool:
        await pool.execute(EFFECTS_SQL)
        await pool.execute("create table invoices (order_id text check (length(order_id) < 20))")
        yield Service(pool)


@pytest.mark.case("C155")
async def test_a_record_that_comes_again_is_one_effect_and_one_report(service: Service) -> None:
    """Copies carry one key: the second is reported as the first, by the same event."""
    await service.take(record(4))
    await service.take(record(9))
    assert await service.invoices() == 1
    first, second = service.reports
    assert first.event_id == second.event_id
    assert first.reference == second.reference == "requests/0/4"
    assert first.money == REQUEST.money
    assert first.action_key == REQUEST.action_key


async def test_a_service_that_dies_leaves_nothing_and_takes_it_again(service: Service) -> None:
    """The effect and its row are one transaction; the error comes out, so the offset stays."""
    service.is_down = True
    with pytest.raises(Down):
        await service.take(record(4))
    assert await service.invoices() == 0
    service.is_down = False
    await service.take(record(4))
    assert await service.invoices() == 1


async def test_another_request_under_a_key_makes_nothing(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named, and what was made before stays the one effect of that key."""
    await service.take(record(4))
    other = ProviderRequest(
        REQUEST.action_key, "invoice", 1, None, {}, None, "main", "sha256:" + "cd" * 32
    )
    with caplog.at_level(logging.ERROR, "actionledger"):
        await service.take(record(5, other))
    assert [one.message for one in caplog.records] == ["outbox_record_refused"]
    assert reasons(service.refused) == ["key_reused"]
    assert await service.invoices() == 1
    assert len(service.reports) == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"{", "value_not_json"),
        (b"\xff", "value_not_json"),
        (b'{"order": NaN}', "value_not_json"),
        (b'{"order": "gone"}', "order_unknown"),
        (b'{"amount": 5}', "handling_failed"),
        (b'{"order": "a\\u0000b"}', "handling_failed"),
        (b'{"order": "%s"}' % (b"long" * 10), "handling_failed"),
        (None, "handling_failed"),
    ],
)
async def test_what_is_refused_is_named_and_stops_nobody(
    service: Service, caplog: pytest.LogCaptureFixture, value: bytes | None, reason: str
) -> None:
    """It is set aside whole, with why and from where; nothing of it is made or told, and the next
    record is taken as if nothing had been.
    """
    with caplog.at_level(logging.ERROR, "actionledger"):
        await service.take(record(3, value=value))
    (said,) = caplog.records
    assert (said.message, vars(said)["reason"]) == ("outbox_record_refused", reason)
    (refused,) = service.refused
    assert (refused.key, refused.value) == (b"k", value)
    assert asked_by(refused.headers) == asked_by(record(3).headers)
    assert reasons([refused]) == [reason]
    assert dict(refused.headers)["actionledger-refused-place"] == b"requests/0/3"
    assert (await service.invoices(), service.reports) == (0, [])
    await service.take(record(4))
    assert await service.invoices() == 1


async def test_a_certificate_that_is_over_elsewhere_takes_nothing(service: Service) -> None:
    """Its error is a ValueError too, and still the surroundings': the record is tried again."""

    async def act(connection: Connection, _asked: Asked, _value: JsonValue) -> dict[str, JsonValue]:
        await connection.execute("insert into invoices values ('7')")
        raise ssl.SSLCertVerificationError("certificate has expired")

    consumer = OutboxConsumer(OUTBOX, service.pool, act, service.report)
    with pytest.raises(ssl.SSLCertVerificationError):
        await consumer.take(record(3), service.set_aside)
    assert (await service.invoices(), service.refused) == (0, [])


async def test_a_value_of_another_kind_stops_nobody(service: Service) -> None:
    """Code that asks a list for a field has an AttributeError, each time that it comes."""

    async def act(_c: Connection, _asked: Asked, value: JsonValue) -> dict[str, JsonValue]:
        return {"order": value.get("order")}  # type: ignore[union-attr]

    consumer = OutboxConsumer(OUTBOX, service.pool, act, service.report)
    await consumer.take(record(3, value=b"[]"), service.set_aside)
    assert reasons(service.refused) == ["handling_failed"]


async def test_a_value_that_no_statement_takes_stops_nobody(service: Service) -> None:
    """The client refuses it before the server does: an error of its interface, and a ValueError."""

    async def act(connection: Connection, _a: Asked, value: JsonValue) -> dict[str, JsonValue]:
        return {"order": await connection.fetchval("select $1::int", value)}

    consumer = OutboxConsumer(OUTBOX, service.pool, act, service.report)
    await consumer.take(record(3, value=b'"seven"'), service.set_aside)
    assert reasons(service.refused) == ["handling_failed"]


@pytest.mark.parametrize(
    "header",
    [
        ("actionledger-account", None),
        ("actionledger-amount-minor", None),
        ("actionledger-action-key", b"k" * 1_025),
    ],
)
async def test_headers_that_cannot_be_reported_make_nothing(
    service: Service, header: tuple[str, bytes | None]
) -> None:
    """One without a value, or one that no report could hold: refused before anything is made."""
    strange = record(3)
    strange.headers = [*strange.headers, header]
    await service.take(strange)
    assert reasons(service.refused) == ["headers_not_understood"]
    assert service.refused[0].theirs == strange.headers
    assert (await service.invoices(), service.reports) == (0, [])


@pytest.mark.parametrize("key", ["", "key\x00one"])
async def test_headers_that_no_adapter_wrote_stop_nobody(service: Service, key: str) -> None:
    """Without a key, or with one that no database takes, a record asks for nothing."""
    strange = record(3)
    named = [one for one in strange.headers if not one[0].endswith("provider-key")]
    strange.headers = [*named, ("actionledger-provider-key", key.encode())] if key else named
    await service.take(strange)
    reason = "handling_failed" if key else "headers_not_understood"
    assert reasons(service.refused) == [reason]
    assert await service.invoices() == 0


async def test_a_record_that_is_not_set_aside_is_not_taken(service: Service) -> None:
    """Where the topic of refusals is away the error comes out, so the offset stays."""

    async def away(_refused: RefusedRecord) -> None:
        raise KafkaTimeoutError

    consumer = OutboxConsumer(OUTBOX, service.pool, service.act, service.report)
    with pytest.raises(KafkaTimeoutError):
        await consumer.take(record(3, value=b"{"), away)


async def test_a_report_that_is_not_heard_stops_nobody(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """The effect is made and can be looked up: that it was not told is a warning."""
    service.is_unheard = True
    with caplog.at_level(logging.WARNING, "actionledger"):
        await service.take(record(4))
    assert [one.message for one in caplog.records] == ["outbox_report_failed"]
    assert await service.invoices() == 1


async def test_refused_records_do_not_block_their_partition(
    service: Service, servers: Addresses
) -> None:
    """On a real broker: of one partition what is good is made, what is not is in the topic of
    refusals in its order, one that is as large as the broker takes without its value, one that is
    so by its headers without these, as is one with a name of a header that is no text; and every
    offset is committed.
    """
    prefix = f"refusing{secrets.token_hex(4)}."
    requests, refusals = f"{prefix}requests", f"{prefix}refused"
    at = servers.kafka_bootstrap
    admin = AIOKafkaAdminClient(bootstrap_servers=at)
    await admin.start()
    small = {"max.message.bytes": "4096"}
    await admin.create_topics(
        [NewTopic(requests, 1, 1), NewTopic(refusals, 1, 1, topic_configs=small)]
    )
    values = (
        b"{", b'{"order": "gone"}', b"[%s" % (b" " * 8_000),
        b"[]", b"{}", b"{", b"{", b'{"order": 7}',
    )  # fmt: skip
    further: dict[int, list[tuple[str, bytes | None]]] = {
        4: [("trace", b"t" * 8_000)],
        5: [("trace", None)],
        6: [(STANDS_FOR, b"t")],
    }
    async with AIOKafkaProducer(bootstrap_servers=at) as producer:
        for place, value in enumerate(values):
            headers = [*further.get(place, []), *record(0).headers]
            batch = producer.create_batch()
            batch.append(key=b"k", value=value, timestamp=None, headers=headers)
            await (await producer.send_batch(with_no_text(batch), requests, partition=0))
    outbox = Outbox(at, (requests,), f"{prefix}group", KafkaAccess(), refusals)
    stop = asyncio.Event()
    consumer = OutboxConsumer(outbox, service.pool, service.act, service.told_then(stop))
    async with asyncio.timeout(PATIENCE_SECONDS):
        await consumer.run(stop)
    assert await service.invoices() == 1
    places = {TopicPartition(requests, 0): len(values)}
    committed = await admin.list_consumer_group_offsets(outbox.group)
    assert {place: one.offset for place, one in committed.items()} == places
    await admin.close()
    reader = AIOKafkaConsumer(refusals, bootstrap_servers=at, auto_offset_reset="earliest")
    async with reader:
        found: list[ConsumerRecord] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while len(found) < len(values) - 1:
                found.append(await reader.getone())
    assert reasons(found) == [
        "value_not_json",
        "order_unknown",
        "value_not_json",
        "handling_failed",
        "handling_failed",
        "value_not_json",
        "value_not_json",
    ]
    kept = [values[0], values[1], b"", values[3], b"", values[5], b""]
    assert [one.value for one in found] == kept
    assert [one.key for one in found] == [b"k", b"k", b"k", b"k", None, b"k", None]
    assert dict(found[2].headers)["actionledger-refused-value"] == b"left_out"
    by_headers = dict(found[4].headers)
    assert by_headers["actionledger-refused-key-and-headers"] == b"left_out"
    assert by_headers["actionledger-refused-place"] == f"{requests}/0/4".encode()
    assert ("trace", None) in found[5].headers
