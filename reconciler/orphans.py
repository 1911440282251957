"""What a provider states and no action explains: read for people, and closed by a person's word.

Three kinds of rows wait for somebody who looks: an effect that no action has made, a line that says
something else than the same line before, and a completed action that a whole list of the provider
does not have. Guarantees that somebody who decides for some tenants sees what bears the key of an
action of theirs, and nothing else: an effect that is nobody's is no tenant's, and neither is one
that bears keys of two. Must never write a row: a word goes to the log (`reconciler.orphan_notes`).
Called by the gateway and the command line.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import asyncpg

from ledger.core.limits import COMPONENT_CHARS_MAX, OPERATION_CHARS_MAX
from ledger.core.money import Money
from ledger.core.people import EVERY_TENANT
from ledger.log.port import Outgoing
from ledger.log.topics import partition_of
from ledger.log.webhook_record import webhook_key, webhook_outgoing
from reconciler.orphan_notes import OrphanNote, note_received
from reconciler.parking import Position
from reconciler.sql_files import statements

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS_MAX: Final = 18
"""A longer number is none that Postgres could hold."""

_PARTITION_MAX: Final = 2**31 - 1
_COMPONENT: Final = "[A-Za-z0-9._-]+"
_KEY: Final = (
    rf"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*:v[1-9][0-9]{{0,3}}:{_COMPONENT}:{_COMPONENT}"
    rf"(#{_COMPONENT})?(~([2-9]|[1-9][0-9]{{1,3}}))?$"
)
"""The form of an action key, as `ledger.core.ids` reads it, but for lengths: with its bounds in it
Postgres needs a hundred times as long."""
_TOO_LONG: Final = f"^[^:]{{{OPERATION_CHARS_MAX + 1}}}|[^:#~]{{{COMPONENT_CHARS_MAX + 1}}}"


@dataclass(frozen=True, slots=True)
class Orphan:
    """One of them; `place` is where its row stands on the topic `webhooks`, `why` the reason of its
    row. `claimed_key` is the action that it names, `provider_key` the key at the provider that it
    bears. Times are milliseconds. `seen_by` is who has looked at it, and `note` their word.
    """

    place: str
    why: str
    provider: str
    account: str
    source: str
    event_id: str
    reference: str | None
    reverses: str | None
    claimed_key: str | None
    said: str | None
    money: Money | None
    occurred_at: int | None
    received_at: int
    provider_key: str | None = None
    seen_by: str | None = None
    seen_at: int | None = None
    note: str | None = None


def is_number(text: str) -> bool:
    """Whether a text may be a part of a place."""
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


def place_of(partition: str, offset: str) -> Position | None:
    """The place that two texts name, or None where they name none."""
    if not (is_number(partition) and is_number(offset)):
        return None
    if int(partition) > _PARTITION_MAX:
        return None
    return Position(int(partition), int(offset))


async def list_orphans(
    pool: asyncpg.Pool, tenants: Collection[str], *, limit: int
) -> tuple[list[Orphan], int]:
    """The oldest that nobody has looked at, and how many there are; `*` is every tenant's."""
    rows = await pool.fetch(_sql("orphans"), _shown_to(tenants), _KEY, _TOO_LONG, limit)
    return [_orphan(row) for row in rows], rows[0]["orphans"] if rows else 0


async def find_orphan(
    pool: asyncpg.Pool, tenants: Collection[str], place: Position
) -> Orphan | None:
    """One of them by its place, looked at or not; None where these tenants have none there."""
    row = await pool.fetchrow(_sql("orphan"), _shown_to(tenants), _KEY, _TOO_LONG, *place)
    return None if row is None else _orphan(row)


def noted(orphan: Orphan, note: OrphanNote, *, partitions: int, at_ms: int) -> tuple[int, Outgoing]:
    """The partition of the topic `webhooks` and the record that take it off the list."""
    received = note_received(
        note,
        provider=orphan.provider,
        account=orphan.account,
        event_id=orphan.event_id,
        at_ms=at_ms,
    )
    return partition_of(webhook_key(received), partitions), webhook_outgoing(received)


def _sql(name: str) -> str:
    """A statement about what these tenants are shown."""
    sql = statements("reconciler", "comparing.sql")
    return f"{sql['shown']}\n{sql[name]}"


def _shown_to(tenants: Collection[str]) -> list[str] | None:
    return None if EVERY_TENANT in tenants else list(tenants)


def _orphan(row: asyncpg.Record) -> Orphan:
    money = None
    if row["currency"] is not None:
        money = Money(minor=row["amount_minor"], currency=row["currency"])
    received_at = _ms(row["received_at"])
    return Orphan(
        place=f"{row['partition']}/{row['topic_offset']}",
        why=row["reason"],
        provider=row["provider"],
        account=row["account"],
        source=row["source"],
        event_id=row["event_id"],
        reference=row["reference"],
        reverses=row["reverses"],
        claimed_key=row["claimed_key"],
        said=row["event_type"],
        money=money,
        occurred_at=_ms(row["occurred_at"]),
        received_at=0 if received_at is None else received_at,
        provider_key=row["provider_key"],
        seen_by=row["seen_by"],
        seen_at=_ms(row["seen_at"]),
        note=row["seen_note"],
    )


def _ms(at: datetime | None) -> int | None:
    return None if at is None else (at - _EPOCH) // timedelta(milliseconds=1)
