"""The reference consumer of an outbox: one effect for each key, however often it is written.

Guarantees that the effect and the row that says for which key it was made are one transaction of
Postgres, and that a record's offset is committed after that transaction and after its report. So a
consumer that dies anywhere takes the record again, finds the row and reports once more; the ledger
knows the report by its id. A record under a known key with another request makes nothing.

Must never swallow an error of `act`: it ends the run with the record not taken, and whoever
supervises it starts it again. Run it in your own service, on the database that it changes.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import asyncpg
import orjson
from aiokafka import AIOKafkaConsumer
from pydantic import JsonValue

from ledger.log.access import KafkaAccess
from reconciler.providers.kafka.headers import Asked, asked_by
from reconciler.providers.kafka.mapping import EffectReport
from reconciler.providers.postgres.connecting import Connection
from reconciler.statements import statements

logger = logging.getLogger("actionledger.outbox")

Act: TypeAlias = Callable[[Connection, Asked, JsonValue], Awaitable[Mapping[str, JsonValue]]]
"""Makes one effect in the transaction that it is given, from the record's value; what it returns is
kept with it.
"""
Report: TypeAlias = Callable[[EffectReport], Awaitable[None]]
"""Tells the ledger, as a webhook of the outbox; an error is logged, and a lookup finds out."""

_POLL_MS: Final = 500
_BATCH_RECORDS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class Outbox:
    """Where to consume: the topics of the description, under a group of your own."""

    brokers: str
    topics: tuple[str, ...]
    group: str
    access: KafkaAccess


class OutboxConsumer:
    """Takes records one by one and makes each effect once."""

    def __init__(self, outbox: Outbox, pool: asyncpg.Pool, act: Act, report: Report) -> None:
        """`pool` leads to the database with the table of `postgres/effects.sql`."""
        self._outbox, self._pool, self._act, self._report = outbox, pool, act, report
        self._sql = statements("reconciler.providers.postgres", "statements.sql")

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until asked to stop. Raises what `act` and the database raise."""
        consumer = AIOKafkaConsumer(
            *self._outbox.topics,
            bootstrap_servers=self._outbox.brokers.split(","),
            group_id=self._outbox.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            **self._outbox.access.options(),
        )
        await consumer.start()
        try:
            while not stop.is_set():
                taken = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_BATCH_RECORDS_MAX)
                for place, records in taken.items():
                    for record in records:
                        await self.take(record)
                        await consumer.commit({place: record.offset + 1})
        finally:
            await consumer.stop()

    async def take(self, record: Any) -> None:  # noqa: ANN401 - the library has no types
        """Make what one record asks for, unless it is made, and report it."""
        place = f"{record.topic}/{record.partition}/{record.offset}"
        asked = asked_by(record.headers)
        try:
            value: JsonValue = orjson.loads(record.value or b"null")
        except orjson.JSONDecodeError:
            asked, value = None, None
        if asked is None:
            logger.error("outbox_record_not_understood", extra={"place": place})
            return
        report = await self._made(asked, value, place)
        if report is None:
            logger.error(
                "outbox_key_reused", extra={"place": place, "provider_key": asked.provider_key}
            )
            return
        try:
            await self._report(report)
        except Exception as error:  # noqa: BLE001 - the effect is made: a lookup finds out
            logger.warning("outbox_report_failed", extra={"place": place, "reason": repr(error)})

    async def _made(self, asked: Asked, value: JsonValue, place: str) -> EffectReport | None:
        """The effect of a key, made now or before; None where the key is another request's."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.fetch(self._sql["hold_key"], asked.provider_key)
            row = await connection.fetchrow(self._sql["effect_of_key"], asked.provider_key)
            if row is None:
                result = await self._act(connection, asked, value)
                await connection.execute(
                    self._sql["record_effect"],
                    asked.provider_key,
                    asked.action_key,
                    asked.request_hash,
                    asked.account,
                    asked.operation,
                    place,
                    None if asked.money is None else asked.money.minor,
                    None if asked.money is None else asked.money.currency,
                    orjson.dumps(dict(result), option=orjson.OPT_SORT_KEYS).decode(),
                )
                row = await connection.fetchrow(self._sql["effect_of_key"], asked.provider_key)
            now = await connection.fetchrow(self._sql["now"])
        if row is None or now is None or row["request_hash"] != asked.request_hash:
            return None
        return EffectReport(
            event_id=hashlib.sha256(asked.provider_key.encode()).hexdigest(),
            account=asked.account,
            action_key=asked.action_key,
            provider_key=asked.provider_key,
            reference=row["reference"],
            money=asked.money,
            occurred_at=now["now_ms"],
        )
