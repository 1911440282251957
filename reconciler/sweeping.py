"""The sweep: parked webhooks are matched again once the reference or the action they name is known.

Guarantees the other order, webhook first and its action later, whatever the agent missed. Evidence
is durable before the row says so, so that a crash between the two repeats what counts once. Any
number of sweeps may run at a time: each takes rows that no other has. Called by the inquirer.
"""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias, assert_never

import asyncpg

from ledger.log.crashpoints import crash_point
from ledger.log.port import Outgoing
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from reconciler.evidence import webhook_evidence, webhook_record
from reconciler.limits import ACQUIRE_SECONDS, SWEEP_ROWS_MAX, UNMATCHED_ALARM_MS
from reconciler.matching import (
    Fitting,
    Match,
    Matched,
    Parked,
    ParkedReason,
    match_composite,
    match_webhook,
    shared_of,
)
from reconciler.parking import (
    Connection,
    Position,
    Waiting,
    lock_composites,
    lock_matchable,
    named_actions,
    settle_waiting,
)
from reconciler.providers.port import MappedWebhook, Unrecognised
from reconciler.statement_matching import match_named
from reconciler.webhook_rows import unmatched

logger = logging.getLogger("actionledger")

_BEFORE_ALL: Final = Position(-1, -1)

Accounts: TypeAlias = frozenset[tuple[str, str]]
"""Accounts, each with its provider's name."""

Settled: TypeAlias = Matched | Parked | Unrecognised
"""What a webhook that waited is now."""

_Looked: TypeAlias = tuple[list[Waiting], list[tuple[Waiting, Settled]]]
"""The rows that were looked at, and those of them that are something else now."""


async def sweep_parked(
    pool: asyncpg.Pool,
    appender: SteadyAppender,
    *,
    partitions: int,
    now_ms: Callable[[], int],
    shown_ms: int | None = None,
    shared_accounts: Accounts = frozenset(),
) -> int:
    """Match what can be matched now; how many were. Composites are asked for what came before the
    tables showed all of the ledger, as they did at `shown_ms`; for nothing where that is not known.
    Raises trouble of Kafka or Postgres.
    """

    async def by_mark(connection: Connection, after: Position) -> _Looked:
        found = await lock_matchable(
            connection, after=after, now_ms=now_ms(), rows_max=SWEEP_ROWS_MAX
        )
        return found, await _matches(connection, found, shared_accounts)

    async def by_composite(connection: Connection, after: Position) -> _Looked:
        found = await lock_composites(
            connection,
            after=after,
            now_ms=now_ms(),
            shown_ms=shown_ms or 0,
            rows_max=SWEEP_ROWS_MAX,
        )
        return [waiting for waiting, _ in found], _composites(found, shared_accounts)

    matched_count = 0
    looks = (by_mark,) if shown_ms is None else (by_mark, by_composite)
    for look in looks:
        matched_count += await _sweep(pool, appender, look, partitions, now_ms)
    return matched_count


async def _sweep(
    pool: asyncpg.Pool,
    appender: SteadyAppender,
    look: Callable[[Connection, Position], Awaitable[_Looked]],
    partitions: int,
    now_ms: Callable[[], int],
) -> int:
    """Settle what one kind of look finds, some rows at a time; how many were matched."""
    matched_count, after = 0, _BEFORE_ALL
    while True:
        async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection, connection.transaction():
            found, matches = await look(connection, after)
            for partition, records in evidence_of(matches, partitions).items():
                await appender.append(Topic.EVIDENCE, partition, records)
                crash_point("sweep_evidence_acked")
            for waiting, match in matches:
                await settle_waiting(connection, waiting, match, now_ms=now_ms())
        for waiting, match in matches:
            matched_count += isinstance(match, Matched)
            _log(waiting, match)
        if len(found) < SWEEP_ROWS_MAX:
            return matched_count
        after = found[-1].position


async def _matches(
    connection: Connection, found: list[Waiting], shared_accounts: Accounts
) -> list[tuple[Waiting, Settled]]:
    """What each is now; what waits on for the same reason is left out."""
    by_marks = [_match(waiting, shared_accounts) for waiting in found]
    actions = await named_actions(
        connection, {match.action_key for match in by_marks if isinstance(match, Matched)}
    )
    matches: list[tuple[Waiting, Settled]] = []
    for waiting, by_mark in zip(found, by_marks, strict=True):
        if isinstance(waiting.mapped, Unrecognised):
            matches.append((waiting, waiting.mapped))
            continue
        match = match_named(
            by_mark,
            waiting.mapped,
            provider=waiting.receipt.provider,
            account=waiting.receipt.account,
            action=actions.get(by_mark.action_key) if isinstance(by_mark, Matched) else None,
        )
        if not isinstance(match, Matched | Parked):
            raise TypeError("a parked webhook says something about an effect")
        if isinstance(match, Matched) or match.reason != waiting.reason:
            matches.append((waiting, match))
    return matches


def _composites(
    found: Sequence[tuple[Waiting, Fitting]], shared_accounts: Accounts
) -> list[tuple[Waiting, Settled]]:
    """What each is now by its composite; what waits on for the same reason is left out. On an
    account that others write to it names nobody, and of two effects that name one action neither
    is taken for the other: what bears the same reference is one.
    """
    named: defaultdict[str, list[str | None]] = defaultdict(list)
    for waiting, fitting in found:
        if isinstance(waiting.mapped, MappedWebhook):
            for action_key in fitting.statuses:
                named[action_key].append(waiting.mapped.reference)
    matches: list[tuple[Waiting, Settled]] = []
    for waiting, fitting in found:
        if isinstance(waiting.mapped, Unrecognised):
            matches.append((waiting, waiting.mapped))
            continue
        match = match_composite(fitting, ParkedReason(waiting.reason))
        if isinstance(match, Matched) and _are_several(named[match.action_key]):
            match = Parked(ParkedReason.COMPOSITE_AMBIGUOUS)
        if not _is_shared(waiting, shared_accounts) and match != Parked(
            ParkedReason(waiting.reason)
        ):
            matches.append((waiting, match))
    return matches


def _are_several(references: Sequence[str | None]) -> bool:
    return len(references) > 1 and (None in references or len(set(references)) > 1)


def _match(waiting: Waiting, shared_accounts: Accounts) -> Match:
    return match_webhook(
        waiting.mapped,
        account=waiting.receipt.account,
        known=waiting.known,
        keyed=waiting.keyed,
        shared=shared_of(waiting.receipt.provider, shared_accounts),
    )


def _is_shared(waiting: Waiting, shared_accounts: Accounts) -> bool:
    return (waiting.receipt.provider, waiting.receipt.account) in shared_accounts


def evidence_of(
    matches: Sequence[tuple[Waiting, Settled]], partitions: int
) -> dict[int, list[Outgoing]]:
    """The evidence of what matched, by the partition of its stream."""
    by_partition: defaultdict[int, list[Outgoing]] = defaultdict(list)
    for waiting, match in matches:
        if isinstance(match, Matched) and isinstance(waiting.mapped, MappedWebhook):
            evidence = webhook_evidence(match, waiting.mapped, waiting.receipt)
            placed = webhook_record(evidence, waiting.receipt, partitions)
            by_partition[placed.partition].append(placed.record)
    return by_partition


def _log(waiting: Waiting, match: Settled) -> None:
    mapped = waiting.mapped
    fields: dict[str, object] = {
        "provider": waiting.receipt.provider,
        "account": waiting.receipt.account,
        "event_id": mapped.event_id if isinstance(mapped, MappedWebhook) else None,
        "partition": waiting.receipt.partition,
        "offset": waiting.receipt.offset,
    }
    match match:
        case Matched(action_key=action_key):
            logger.info("parked_webhook_matched", extra={**fields, "action": action_key})
        case Parked(reason=reason):
            logger.warning("webhook_parked", extra={**fields, "reason": reason.value})
        case Unrecognised(code=code):
            logger.warning("webhook_unrecognised", extra={**fields, "reason": code})
        case _:
            assert_never(match)


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
