"""Notices in Postgres: each kept once for each destination, until it was told or is not needed.

Guarantees that a message keeps its id and its notices from the first try to the last, and that what
an action's end or its time has overtaken is not told. Must never write any other table. Called by
the desk and the notifier; the statements are in `notices.sql`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import asyncpg

from ledger.core.money import Money
from reconciler.notifying.limits import KEPT_MS, LEASE_MS, MESSAGE_ROWS_MAX
from reconciler.notifying.wanted import Wanted
from reconciler.sql_files import statements

Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that is to be tried now, with how often it was tried before."""

    message: str
    tries: int
    wanted: tuple[Wanted, ...]


async def keep(connection: Connection, notices: Iterable[tuple[Wanted, str]]) -> None:
    """Keep notices with their destinations. Safe to repeat: what is there stays as it is."""
    await connection.executemany(_sql("keep"), [_values(one, to) for one, to in notices])


async def waiting(connection: Connection) -> frozenset[str]:
    """The destinations for which anything waits."""
    return frozenset(row["destination"] for row in await connection.fetch(_sql("waiting")))


async def claim(
    connection: Connection, destination: str, *, new_id: str, now_ms: int, quiet_ms: int
) -> Claimed | None:
    """What is to be told now, and by nobody else for LEASE_MS; or None: nothing waits, it is too
    soon after the last message, or the next try of one is yet to come.
    """
    now = _time(now_ms)
    async with connection.transaction():
        await connection.execute(_sql("lock_destination"), destination)
        await connection.execute(_sql("end_over"), destination, now)
        told_at = await connection.fetchval(_sql("told_at"), destination)
        if told_at is not None and now - told_at < timedelta(milliseconds=quiet_ms):
            return None
        under_way = await connection.fetchrow(_sql("claimed"), destination)
        if under_way is None:
            await connection.execute(_sql("claim"), destination, new_id, MESSAGE_ROWS_MAX)
            message, tries = new_id, 0
        elif under_way["try_after"] is not None and under_way["try_after"] > now:
            return None
        else:
            message, tries = under_way["message_id"], under_way["tries"]
        until = _time(now_ms + LEASE_MS)
        rows = await connection.fetch(_sql("lease"), destination, message, until)
    rows.sort(key=lambda row: (row["raised_at"], row["notice_id"]))
    return Claimed(message, tries, _wanted(rows)) if rows else None


async def sent(connection: Connection, destination: str, message: str, *, now_ms: int) -> None:
    """The destination has taken a message."""
    await connection.execute(_sql("sent"), destination, message, _time(now_ms))


async def failed(
    connection: Connection, destination: str, message: str, *, again_ms: int, why: str
) -> None:
    """A try came to nothing; the next comes at a time."""
    await connection.execute(_sql("failed"), destination, message, _time(again_ms), why)


async def give_up(connection: Connection, destination: str, message: str, *, now_ms: int) -> None:
    """No further try."""
    await connection.execute(_sql("give_up"), destination, message, _time(now_ms))


async def forget(connection: Connection, *, now_ms: int) -> None:
    """Let go of what ended long ago."""
    await connection.execute(_sql("forget"), _time(now_ms - KEPT_MS), MESSAGE_ROWS_MAX)


def _sql(name: str) -> str:
    return statements("reconciler.notifying", "notices.sql")[name]


def _time(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def _ms(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)


def _values(one: Wanted, destination: str) -> tuple[object, ...]:
    """The row in the order of the statement `keep`."""
    money = one.money
    return (
        one.notice,
        destination,
        one.tenant,
        one.action,
        one.version,
        one.kind,
        one.row,
        list(one.groups),
        one.quorum,
        None if one.expires_at is None else _time(one.expires_at),
        None if money is None else money.minor,
        None if money is None else money.currency,
        one.target,
        _time(one.raised_at),
    )


def _wanted(rows: Sequence[asyncpg.Record]) -> tuple[Wanted, ...]:
    return tuple(
        Wanted(
            notice=row["notice_id"],
            action=row["action_key"],
            version=row["action_version"],
            tenant=row["tenant_id"],
            kind=row["kind"],
            row=row["policy_row"],
            groups=tuple(row["groups"]),
            raised_at=_ms(row["raised_at"]),
            quorum=row["quorum"],
            expires_at=None if row["expires_at"] is None else _ms(row["expires_at"]),
            money=None
            if row["currency"] is None
            else Money(minor=row["amount_minor"], currency=row["currency"]),
            target=row["target"],
        )
        for row in rows
    )
