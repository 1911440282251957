"""The sweep: parked webhooks are matched again once the reference they name is known.

Guarantees the other order, webhook first and reference later, whatever the agent missed. Evidence
is durable before the row says so, so that a crash between the two repeats what counts once. Any
number of sweeps may run at a time: each takes rows that no other has. Called by the inquirer.
"""

import logging
from collections import defaultdict
from collections.abc import Callable

import asyncpg

from ledger.log.crashpoints import crash_point
from ledger.log.port import Outgoing
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from reconciler.evidence import webhook_evidence, webhook_record
from reconciler.limits import ACQUIRE_SECONDS, SWEEP_ROWS_MAX, UNMATCHED_ALARM_MS
from reconciler.matching import Matched, Parked, match_webhook
from reconciler.parking import Waiting, lock_matchable, settle_waiting
from reconciler.webhook_rows import unmatched

logger = logging.getLogger("actionledger")


async def sweep_parked(
    pool: asyncpg.Pool,
    appender: SteadyAppender,
    *,
    partitions: int,
    now_ms: Callable[[], int],
    shared_accounts: frozenset[str] = frozenset(),
) -> int:
    """Match what can be matched now; how many were. Raises trouble of Kafka or Postgres."""
    matched_count = 0
    while True:
        async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection, connection.transaction():
            found = await lock_matchable(connection, now_ms=now_ms(), rows_max=SWEEP_ROWS_MAX)
            matches = [(waiting, _match(waiting, shared_accounts)) for waiting in found]
            for partition, records in _evidence(matches, partitions).items():
                await appender.append(Topic.EVIDENCE, partition, records)
                crash_point("sweep_evidence_acked")
            for waiting, match in matches:
                await settle_waiting(connection, waiting, match, now_ms=now_ms())
        for waiting, match in matches:
            matched_count += isinstance(match, Matched)
            _log(waiting, match)
        if len(found) < SWEEP_ROWS_MAX:
            return matched_count


def _match(waiting: Waiting, shared_accounts: frozenset[str]) -> Matched | Parked:
    match = match_webhook(
        waiting.mapped,
        account=waiting.receipt.account,
        known=waiting.known,
        shared_accounts=shared_accounts,
    )
    if not isinstance(match, Matched | Parked):
        raise TypeError("a parked webhook says something about an effect")
    return match


def _evidence(
    matches: list[tuple[Waiting, Matched | Parked]], partitions: int
) -> dict[int, list[Outgoing]]:
    """The evidence of what matched, by the partition of its stream."""
    by_partition: defaultdict[int, list[Outgoing]] = defaultdict(list)
    for waiting, match in matches:
        if isinstance(match, Matched):
            evidence = webhook_evidence(match, waiting.mapped, waiting.receipt)
            placed = webhook_record(evidence, waiting.receipt, partitions)
            by_partition[placed.partition].append(placed.record)
    return by_partition


def _log(waiting: Waiting, match: Matched | Parked) -> None:
    fields: dict[str, object] = {
        "provider": waiting.receipt.provider,
        "account": waiting.receipt.account,
        "event_id": waiting.mapped.event_id,
        "partition": waiting.receipt.partition,
        "offset": waiting.receipt.offset,
    }
    if isinstance(match, Matched):
        logger.info("parked_webhook_matched", extra={**fields, "action": match.action_key})
    else:
        logger.warning("webhook_parked", extra={**fields, "reason": match.reason.value})


async def tell_unmatched(pool: asyncpg.Pool, *, now_ms: int) -> int:
    """Say in the log what has been nobody's for too long, a line for each reason of an account; how
    much that is. Nothing of it is dropped: it is listed until somebody has looked at it.
    """
    late = [
        one
        for one in await unmatched(pool, now_ms=now_ms)
        if one.oldest_at is not None and now_ms - one.oldest_at > UNMATCHED_ALARM_MS
    ]
    for one in late:
        logger.warning(
            "webhooks_unmatched",
            extra={
                "provider": one.provider,
                "account": one.account,
                "reason": one.reason,
                "count": one.waiting,
                "oldest_minutes": (now_ms - (one.oldest_at or now_ms)) // 60_000,
                "expired": one.expired,
            },
        )
    return sum(one.waiting for one in late)
