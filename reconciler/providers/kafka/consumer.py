"""The reference consumer of an outbox: one effect for each key, however often it is written.

Guarantees that the effect and the row that says for which key it was made are one transaction of
Postgres, and that a record's offset is committed after that transaction and after its report. So a
consumer that dies anywhere takes the record again, finds the row and reports once more; the ledger
knows the report by its id. A record under a known key with another request makes nothing.

A record that is refused, here or by `act`, makes nothing and stops nothing: it is written whole,
with the reason, to a topic of its own before its offset is committed, and can be written back from
there. Must never swallow any other error: of `act`, or of a database that cannot be had. It ends
the run with the record not taken, and whoever supervises it starts it again. Run it in your own
service, on the database that it changes.
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import asyncpg
import orjson
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import MessageSizeTooLargeError, RecordListTooLargeError
from pydantic import JsonValue

from ledger.log import clients
from ledger.log.access import KafkaAccess
from reconciler.providers.kafka.headers import Asked, asked_by
from reconciler.providers.kafka.mapping import EffectReport
from reconciler.providers.postgres.connecting import Connection
from reconciler.sql_files import statements

logger = logging.getLogger("actionledger.outbox")

Act: TypeAlias = Callable[[Connection, Asked, JsonValue], Awaitable[Mapping[str, JsonValue]]]
"""Makes one effect in the transaction that it is given, from the record's value; what it returns is
kept with it. Raises RecordRefused for a record of which nothing can be made, whenever it comes.
"""
Report: TypeAlias = Callable[[EffectReport], Awaitable[None]]
"""Tells the ledger, as a webhook of the outbox; an error is logged, and a lookup finds out."""

HANDLING_FAILED: Final = "handling_failed"
_OF_WHAT_IS_DOWN: Final = (OSError, asyncpg.ClientConfigurationError)
"""Errors that are no record's, though they may be a ValueError, as one of a certificate is. What
else asyncpg says of a connection is in neither table, and comes out too."""
_OF_THE_RECORD: Final = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    asyncpg.DataError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.ProgramLimitExceededError,
)
"""Errors of `act` that the same record would have again: a value that is not there, is of another
kind, or that the database does not take. What is down or late is none of them.
"""
_POLL_MS: Final = 500
_BATCH_RECORDS_MAX: Final = 100
_RECORD_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of the producer alone: how large a record may be is the broker's to say."""
_CODE_BYTES_MAX: Final = 100
_DETAIL_BYTES_MAX: Final = 1_000
_REFUSED: Final = "actionledger-refused"


class RecordRefused(Exception):
    """Nothing can be made of a record. `code` says why, in snake case."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(code, detail)
        self.code, self.detail = code, detail


Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record as it is set aside: its key, value and headers as they were, and what is said of it,
    which are headers too.
    """

    key: bytes | None
    value: bytes | None
    theirs: Headers
    said: Headers

    @property
    def headers(self) -> Headers:
        """All headers; ours are the last ones."""
        return (*self.theirs, *self.said)

    def forms(self) -> Iterator["RefusedRecord"]:
        """The record whole, and then with less of it, for a broker that takes no more bytes than
        the record had, or a header whose name is no UTF-8: without its value, and with nothing but
        what is said, which is always small. Where it stands and the hash of its value are said in
        each.
        """
        yield self
        without_value = (f"{_REFUSED}-value", b"left_out")
        yield RefusedRecord(self.key, b"", self.theirs, (*self.said, without_value))
        rest = b"".join(
            len(part).to_bytes(8, "big") + part
            for part in (self.key or b"", *(_flat(header) for header in self.theirs))
        )
        without_rest = (
            (f"{_REFUSED}-key-and-headers", b"left_out"),
            (f"{_REFUSED}-key-and-headers-bytes", str(len(rest)).encode()),
            (f"{_REFUSED}-key-and-headers-sha256", hashlib.sha256(rest).hexdigest().encode()),
        )
        yield RefusedRecord(None, b"", (), (*self.said, without_value, *without_rest))


def _flat(header: tuple[str, bytes | None]) -> bytes:
    return header[0].encode(errors="surrogatepass") + b"\0" + (header[1] or b"")


Consumed: TypeAlias = Any
"""A record as the library hands it out, which has no types."""
SetAside: TypeAlias = Callable[[RefusedRecord], Awaitable[None]]
"""Keeps a refused record; it is durable when this returns."""


@dataclass(frozen=True, slots=True)
class Outbox:
    """Where to consume: the topics of the description, under a group of your own; and the topic for
    records that are refused, which is nobody else's and is there before this begins.
    """

    brokers: str
    topics: tuple[str, ...]
    group: str
    access: KafkaAccess
    refused_topic: str


class OutboxConsumer:
    """Takes records one by one and makes each effect once."""

    def __init__(self, outbox: Outbox, pool: asyncpg.Pool, act: Act, report: Report) -> None:
        """`pool` leads to the database with the table of `postgres/effects.sql`."""
        self._outbox, self._pool, self._act, self._report = outbox, pool, act, report
        self._sql = statements("reconciler.providers.postgres", "statements.sql")

    async def run(self, stop: asyncio.Event) -> None:
        """Consume until asked to stop. Raises what `act` and the database raise but for refusals;
        KafkaError, LogUnreachableError, LogRefusedError.
        """
        options = {"bootstrap_servers": self._outbox.brokers, **self._outbox.access.options()}
        # Not idempotent: one record that the broker finds too large would end such a producer, and
        # a refusal that is written twice says nothing else.
        producer = AIOKafkaProducer(**options, acks="all", max_request_size=_RECORD_BYTES_MAX)
        await clients.start(producer, options)
        try:
            consumer = AIOKafkaConsumer(
                *self._outbox.topics,
                **options,
                group_id=self._outbox.group,
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            )
            await clients.start(consumer, options)
            try:
                # Seen now, and not when there is a record that must not be lost.
                await producer.partitions_for(self._outbox.refused_topic)
                await self._consume(consumer, producer, stop)
            finally:
                await clients.end(consumer)
        finally:
            await clients.end(producer)

    async def _consume(
        self, consumer: AIOKafkaConsumer, producer: AIOKafkaProducer, stop: asyncio.Event
    ) -> None:
        async def set_aside(refused: RefusedRecord) -> None:
            *larger, smallest = refused.forms()
            for form in larger:
                try:
                    await self._write(producer, form)
                except (MessageSizeTooLargeError, RecordListTooLargeError, UnicodeEncodeError):
                    continue  # the last: a name of theirs that is no text, which cannot be written
                return
            await self._write(producer, smallest)

        while not stop.is_set():
            clients.check_fetching(consumer)
            taken = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_BATCH_RECORDS_MAX)
            for place, records in taken.items():
                for record in records:
                    await self.take(record, set_aside)
                    await consumer.commit({place: record.offset + 1})

    async def _write(self, producer: AIOKafkaProducer, refused: RefusedRecord) -> None:
        await producer.send_and_wait(
            self._outbox.refused_topic, refused.value, refused.key, headers=list(refused.headers)
        )

    async def take(self, record: Consumed, set_aside: SetAside) -> None:
        """Make what one record asks for, unless it is made, and report it; or set it aside."""
        place = f"{record.topic}/{record.partition}/{record.offset}"
        made = await self._made_or_not(record, place)
        if isinstance(made, RecordRefused):
            await set_aside(_refused(record, place, made))
            logger.error(
                "outbox_record_refused",
                extra={"place": place, "reason": made.code, "detail": made.detail},
            )
            return
        try:
            await self._report(made)
        except Exception as error:  # noqa: BLE001 - the effect is made: a lookup finds out
            logger.warning("outbox_report_failed", extra={"place": place, "reason": repr(error)})

    async def _made_or_not(self, record: Consumed, place: str) -> EffectReport | RecordRefused:
        """The effect of a record, or why there is none: then the transaction was ended with it.
        Raises what is no record's doing, above all that the database cannot be had.
        """
        asked = asked_by(record.headers)
        if asked is None:
            return RecordRefused("headers_not_understood")
        try:
            value: JsonValue = orjson.loads(record.value or b"null")
        except orjson.JSONDecodeError as error:
            return RecordRefused("value_not_json", str(error))
        async with self._pool.acquire() as connection:
            try:
                async with connection.transaction():
                    return await self._made(connection, asked, value, place)
            except RecordRefused as refusal:
                return refusal
            except _OF_WHAT_IS_DOWN:
                raise
            except _OF_THE_RECORD as error:
                return RecordRefused(HANDLING_FAILED, repr(error))

    async def _made(
        self, connection: Connection, asked: Asked, value: JsonValue, place: str
    ) -> EffectReport:
        """The effect of a key, made now or before, in the transaction that is open: so nothing is
        made of what cannot be reported. Raises RecordRefused.
        """
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
            raise RecordRefused("key_reused", asked.provider_key)
        return EffectReport(
            event_id=hashlib.sha256(asked.provider_key.encode()).hexdigest(),
            account=asked.account,
            action_key=asked.action_key,
            provider_key=asked.provider_key,
            reference=row["reference"],
            money=asked.money,
            occurred_at=now["now_ms"],
        )


def _refused(record: Consumed, place: str, refusal: RecordRefused) -> RefusedRecord:
    said = (
        (_REFUSED, _cut(refusal.code, _CODE_BYTES_MAX)),
        (f"{_REFUSED}-detail", _cut(refusal.detail, _DETAIL_BYTES_MAX)),
        (f"{_REFUSED}-place", place.encode()),
        (f"{_REFUSED}-sha256", hashlib.sha256(record.value or b"").hexdigest().encode()),
    )
    return RefusedRecord(record.key, record.value, record.headers, said)


def _cut(text: str, bytes_max: int) -> bytes:
    """The beginning of a text, whole characters only."""
    raw = text[:bytes_max].encode(errors="backslashreplace")
    return raw[:bytes_max].decode(errors="ignore").encode()
