"""Classifying webhooks again: by a mapping that was taught since, or references that became known.

Guarantees that it may be done any number of times, over any part of the topic: what is matched or
repeats another stays as it is; evidence is durable before a row says so, and bears the id it would
have had at the first time, so that the ledger counts it once. What the topic holds and no row knows
is handled as a new arrival. Must never change a record or drop a row. Called by the command line.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from ledger.log.port import Record
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from reconciler.evidence import webhook_evidence, webhook_record
from reconciler.limits import ACQUIRE_SECONDS
from reconciler.matching import Matched
from reconciler.parking import EventName, Position, WebhookRow, decided_events, row_values
from reconciler.providers.port import MappedWebhook
from reconciler.receiving import WebhookDesk
from reconciler.sql_files import statements

OPEN: Final = frozenset({"parked", "unrecognised", "irrelevant"})
"""What another look may change."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """One record, and what it was and is: `classification`, or `classification:reason`. `before` is
    None where it had no row.
    """

    position: Position
    before: str | None
    after: str

    @property
    def is_changed(self) -> bool:
        """Whether the look made a difference."""
        return self.before != self.after


async def replay(
    desk: WebhookDesk,
    pool: asyncpg.Pool,
    appender: SteadyAppender,
    records: Sequence[Record],
    *,
    partitions: int,
) -> list[Replayed]:
    """Classify records again, in their order. Raises trouble of Kafka or Postgres; then it may be
    done again from the beginning.
    """
    found = []
    for record in records:
        position = Position(record.partition, record.offset)
        before = await _standing(pool, position)
        if before is None:
            await desk.handle([record])
        elif before.partition(":")[0] in OPEN:
            row = await desk.judge(record)
            if row is not None:
                await _reclassify(pool, appender, row, partitions)
        after = await _standing(pool, position)
        found.append(Replayed(position, before, after or "set_aside"))
    return found


async def _standing(pool: asyncpg.Pool, position: Position) -> str | None:
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
        row = await connection.fetchrow(_sql("standing"), *position)
    if row is None:
        return None
    return ":".join(part for part in (row["classification"], row["reason"]) if part)


async def _reclassify(
    pool: asyncpg.Pool, appender: SteadyAppender, row: WebhookRow, partitions: int
) -> None:
    """Write down what a record is now, after its evidence is durable."""
    event = EventName(row.receipt.provider, row.receipt.account, row.event_id)
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection, connection.transaction():
        # Of two who look again at one record, the second waits and finds it decided.
        if await connection.fetchval(_sql("lock_open"), *row.position, sorted(OPEN)) is None:
            return
        decided = (await decided_events(connection, {event})).get(event)
        if (
            isinstance(row.match, Matched)
            and isinstance(row.mapped, MappedWebhook)
            and not row.match.is_known
            and (decided is None or decided.position == row.position)
        ):
            evidence = webhook_evidence(row.match, row.mapped, row.receipt, event_id=row.event_id)
            placed = webhook_record(evidence, row.receipt, partitions)
            await appender.append(Topic.EVIDENCE, placed.partition, [placed.record])
        try:
            async with connection.transaction():
                await connection.execute(_sql("reclassify"), [row_values(row)])
        except asyncpg.UniqueViolationError:
            # Another delivery, or another event about the same fact, decides for it by now.
            await connection.execute(_sql("reclassify_repeated"), [row_values(row)])


def _sql(name: str) -> str:
    return statements("reconciler", "replaying.sql")[name]
