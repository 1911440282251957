"""The reference consumer of an outbox on a real database: one effect for each key, and no more."""

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest
import pytest_asyncio
from aiokafka.structs import ConsumerRecord
from pydantic import JsonValue

from ledger.core.money import Money
from ledger.log.access import KafkaAccess
from reconciler.providers import postgres
from reconciler.providers.kafka.consumer import Outbox, OutboxConsumer
from reconciler.providers.kafka.headers import Asked, headers_of
from reconciler.providers.kafka.mapping import EffectReport
from reconciler.providers.port import ProviderRequest
from reconciler.providers.postgres.connecting import Connection

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
OUTBOX = Outbox("127.0.0.1:1", ("requests",), "service", KafkaAccess())


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


class Down(Exception):
    """The service's own trouble."""


@dataclass
class Service:
    """A service that makes invoices, and what it told the ledger."""

    pool: asyncpg.Pool
    reports: list[EffectReport] = field(default_factory=list)
    is_down: bool = False
    is_unheard: bool = False

    @property
    def consumer(self) -> OutboxConsumer:
        """One run of it."""
        return OutboxConsumer(OUTBOX, self.pool, self.act, self.report)

    async def act(
        self, connection: Connection, asked: Asked, value: JsonValue
    ) -> Mapping[str, JsonValue]:
        """Make an invoice, and fail after it where the service is down."""
        assert isinstance(value, dict)
        await connection.execute("insert into invoices values ($1)", str(value["order"]))
        if self.is_down:
            raise Down
        return {"operation": asked.operation}

    async def report(self, report: EffectReport) -> None:
        """Tell the ledger, where it hears."""
        if self.is_unheard:
            raise ConnectionError
        self.reports.append(report)

    async def invoices(self) -> int:
        """How many there are."""
        count = await self.pool.fetchval("select count(*) from invoices")
        assert isinstance(count, int)
        return count


@pytest_asyncio.fixture
async def service(database_url: str) -> AsyncIterator[Service]:
    """The service on an empty database."""
    async with asyncpg.create_pool(database_url, min_size=0, max_size=2) as pool:
        await pool.execute(EFFECTS_SQL)
        await pool.execute("create table invoices (order_id text)")
        yield Service(pool)


@pytest.mark.case("C155")
async def test_a_record_that_comes_again_is_one_effect_and_one_report(service: Service) -> None:
    """Copies carry one key: the second is reported as the first, by the same event."""
    await service.consumer.take(record(4))
    await service.consumer.take(record(9))
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
        await service.consumer.take(record(4))
    assert await service.invoices() == 0
    service.is_down = False
    await service.consumer.take(record(4))
    assert await service.invoices() == 1


async def test_another_request_under_a_key_makes_nothing(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """It is named, and what was made before stays the one effect of that key."""
    await service.consumer.take(record(4))
    other = ProviderRequest(
        REQUEST.action_key, "invoice", 1, None, {}, None, "main", "sha256:" + "cd" * 32
    )
    with caplog.at_level(logging.ERROR, "actionledger"):
        await service.consumer.take(record(5, other))
    assert [one.message for one in caplog.records] == ["outbox_key_reused"]
    assert await service.invoices() == 1
    assert len(service.reports) == 1


@pytest.mark.parametrize("value", [b"{", b"\xff", b'{"order": NaN}'])
async def test_what_nobody_understands_is_named_and_stops_nobody(
    service: Service, caplog: pytest.LogCaptureFixture, value: bytes
) -> None:
    """The next record is taken as if nothing had been."""
    with caplog.at_level(logging.ERROR, "actionledger"):
        await service.consumer.take(record(3, value=value))
    assert [one.message for one in caplog.records] == ["outbox_record_not_understood"]
    await service.consumer.take(record(4))
    assert await service.invoices() == 1


async def test_a_report_that_is_not_heard_stops_nobody(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """The effect is made and can be looked up: that it was not told is a warning."""
    service.is_unheard = True
    with caplog.at_level(logging.WARNING, "actionledger"):
        await service.consumer.take(record(4))
    assert [one.message for one in caplog.records] == ["outbox_report_failed"]
    assert await service.invoices() == 1
