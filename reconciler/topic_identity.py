"""Whether the topic `webhooks` is the one that the rows came from.

Guarantees that nothing of a topic which was made anew, or has lost its end, is taken for what stood
at the same places before. The last row of each partition says so: its record is still there, or it
is another topic. Must never change a row. Called by the reconciler before it works, and by the desk
where a place has a row already.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

import asyncpg

from ledger.core.errors import LedgerError
from ledger.log.envelope import Unreadable
from ledger.log.kafka import KafkaLog
from ledger.log.topics import Topic
from ledger.log.trouble import TruncatedLogError
from ledger.log.webhook_record import read_webhook
from reconciler.limits import ACQUIRE_SECONDS
from reconciler.parking import Connection, WebhookRow
from reconciler.sql_files import statements

_TOPIC: Final = Topic.WEBHOOKS.value


class TopicMadeAnewError(LedgerError):
    """Rows of webhooks came from another topic than the one that is there. `partition` is the first
    in which that shows.
    """

    def __init__(self, why: str, *, partition: int) -> None:
        super().__init__(
            f"{_TOPIC} {partition} is not the topic that the rows came from: {why}.",
            hint="It was deleted and made anew, or has lost records. Restore it; where it is gone "
            "for good, put the rows aside (docs/OPERATIONS.md, A topic that is gone).",
        )
        self.partition = partition


async def require_same_topic(log: KafkaLog, pool: asyncpg.Pool, partitions: int) -> None:
    """See that the record of the last row of each partition is there. Raises TopicMadeAnewError,
    and what the log and Postgres do.
    """
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
        rows = await connection.fetch(_sql("newest_rows"), list(range(partitions)))
    reader = await log.reader({})
    try:
        ends = await reader.end_offsets([(_TOPIC, row["partition"]) for row in rows])
    finally:
        await reader.close()
    for partition, offset, _ in rows:
        end = ends[_TOPIC, partition]
        if end <= offset:
            why = f"it ends at {end}, and there is a row of {offset}"
            raise TopicMadeAnewError(why, partition=partition)
    looks = [_require_body(log, *row) for row in rows]
    for outcome in await asyncio.gather(*looks, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


async def _require_body(log: KafkaLog, partition: int, offset: int, sha256: str) -> None:
    try:
        received = read_webhook(await log.read_one(_TOPIC, partition, offset))
    except TruncatedLogError:
        raise TopicMadeAnewError(f"nothing stands at {offset}", partition=partition) from None
    if isinstance(received, Unreadable) or received.sha256 != sha256:
        raise TopicMadeAnewError(f"another record stands at {offset}", partition=partition)


async def require_same_rows(connection: Connection, rows: Sequence[WebhookRow]) -> None:
    """See that what was not written, because its places have rows, is what these say. Raises
    TopicMadeAnewError.
    """
    if not rows:
        return
    other = await connection.fetchrow(
        _sql("other_rows"),
        [row.receipt.partition for row in rows],
        [row.receipt.offset for row in rows],
        [row.receipt.sha256 for row in rows],
    )
    if other is not None:
        why = f"another record stood at {other['topic_offset']} before"
        raise TopicMadeAnewError(why, partition=other["partition"])


def _sql(name: str) -> str:
    return statements("reconciler", "topic_identity.sql")[name]
