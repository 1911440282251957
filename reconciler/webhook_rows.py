"""Webhooks as people look at them: what became of each, what is nobody's and since when, and whose
it might be.

Guarantees that nothing that was received is out of sight: what waited longer than it is looked for
is listed as expired, for ever. A suggestion is a hint for a person, never a match. Must never
change a row. Called by the command line, the doctor and the inquirer's alarm.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias

import asyncpg

from reconciler.limits import ACQUIRE_SECONDS, PARKED_MS, SUGGESTIONS_MAX
from reconciler.parking import TEST_EVENT, Position
from reconciler.sql_files import statements

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OPEN: Final = ("parked", "unrecognised")


class State(StrEnum):
    """What a webhook is, for who looks for it. `expired` was parked or unrecognised for 30 days."""

    MATCHED = "matched"
    PARKED = "parked"
    UNRECOGNISED = "unrecognised"
    EXPIRED = "expired"
    DUPLICATE = "duplicate"
    IRRELEVANT = "irrelevant"


@dataclass(frozen=True, slots=True)
class WebhookView:
    """One row. Times are milliseconds, `place` is where it stands on the topic."""

    place: str
    state: State
    reason: str | None
    provider: str
    account: str
    source: str
    event_id: str
    event_type: str | None
    meaning: str | None
    effect: str | None
    reference: str | None
    reverses: str | None
    amount_minor: int | None
    currency: str | None
    action_key: str | None
    matched_by: str | None
    repeats: str | None
    received_at: int
    occurred_at: int | None
    seen_by: str | None
    sha256: str
    mapping_hash: str


@dataclass(frozen=True, slots=True)
class Unmatched:
    """What is nobody's for one reason at one account. `oldest_at` is None where all has expired."""

    provider: str
    account: str
    state: State
    reason: str
    waiting: int
    oldest_at: int | None
    expired: int


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An action that a webhook may be about, for a person to look at."""

    action_key: str
    tenant_id: str
    operation: str
    target: str | None
    status: str
    created_at: int


Source: TypeAlias = asyncpg.Pool
"""Where rows are read, in the role of an operator."""


async def list_webhooks(
    pool: Source,
    state: State | None = None,
    *,
    provider: str | None = None,
    account: str | None = None,
    now_ms: int,
    limit: int,
) -> list[WebhookView]:
    """Rows of one state or of all, the newest first."""
    wanted = list(State) if state is None else [state]
    classifications = [*_OPEN] if state is State.EXPIRED else [one.value for one in wanted]
    border = _time(now_ms - PARKED_MS)
    rows = await _fetch(
        pool,
        "list_rows",
        classifications,
        provider,
        account,
        border if state in _OPEN else None,
        border if state is State.EXPIRED else None,
        limit,
    )
    return [_view(row, now_ms) for row in rows]


async def find_webhook(pool: Source, position: Position, *, now_ms: int) -> WebhookView | None:
    """The row of one place, or None."""
    rows = await _fetch(pool, "one_row", *position)
    return _view(rows[0], now_ms) if rows else None


async def find_body(
    pool: Source, provider: str, account: str, sha256: str, *, since_ms: int, now_ms: int
) -> WebhookView | None:
    """The newest row of an account with this body that came since then, or None."""
    rows = await _fetch(pool, "row_of_body", provider, account, sha256, _time(since_ms))
    return _view(rows[0], now_ms) if rows else None


async def unmatched(pool: Source, *, now_ms: int) -> list[Unmatched]:
    """What is nobody's as of a moment, by account and reason; without what a person has seen."""
    rows = await _fetch(pool, "unmatched", _time(now_ms - PARKED_MS), TEST_EVENT)
    return [
        Unmatched(
            provider=row["provider"],
            account=row["account"],
            state=State(row["classification"]),
            reason=row["reason"],
            waiting=row["waiting"],
            oldest_at=_ms(row["oldest_at"]),
            expired=row["expired"],
        )
        for row in rows
    ]


async def open_places(pool: Source, *, provider: str | None = None, limit: int) -> list[Position]:
    """Where everything stands that another look may settle, in the order of the topic."""
    rows = await _fetch(pool, "open_places", provider, limit)
    return [Position(row["partition"], row["topic_offset"]) for row in rows]


async def suggestions(pool: Source, view: WebhookView) -> list[Suggestion]:
    """Actions with an open outcome, and the account, amount, currency and time of a webhook."""
    if view.state not in {State.PARKED, State.EXPIRED} or view.amount_minor is None:
        return []
    rows = await _fetch(
        pool,
        "suggestions",
        view.provider,
        view.account,
        view.amount_minor,
        view.currency,
        _time(view.occurred_at or view.received_at),
        SUGGESTIONS_MAX,
    )
    return [
        Suggestion(
            action_key=row["action_key"],
            tenant_id=row["tenant_id"],
            operation=row["operation"],
            target=row["target"],
            status=row["status"],
            created_at=_ms(row["created_at"]) or 0,
        )
        for row in rows
    ]


async def _fetch(pool: Source, name: str, *values: object) -> list[asyncpg.Record]:
    async with pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
        return list(
            await connection.fetch(statements("reconciler", "webhook_rows.sql")[name], *values)
        )


def _view(row: asyncpg.Record, now_ms: int) -> WebhookView:
    received_at = _ms(row["received_at"]) or 0
    state = State(row["classification"])
    if row["classification"] in _OPEN and received_at <= now_ms - PARKED_MS:
        state = State.EXPIRED
    repeats = row["repeats_partition"]
    return WebhookView(
        place=f"webhooks/{row['partition']}/{row['topic_offset']}",
        state=state,
        reason=row["reason"],
        provider=row["provider"],
        account=row["account"],
        source=row["source"],
        event_id=row["event_id"],
        event_type=row["event_type"],
        meaning=row["meaning"],
        effect=row["effect"],
        reference=row["reference"],
        reverses=row["reverses"],
        amount_minor=row["amount_minor"],
        currency=row["currency"],
        action_key=row["action_key"],
        matched_by=row["matched_by"],
        repeats=None if repeats is None else f"webhooks/{repeats}/{row['repeats_offset']}",
        received_at=received_at,
        occurred_at=_ms(row["occurred_at"]),
        seen_by=row["seen_by"],
        sha256=row["sha256"],
        mapping_hash=row["mapping_hash"],
    )


def _time(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def _ms(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // timedelta(milliseconds=1)
