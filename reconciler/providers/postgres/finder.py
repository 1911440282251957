"""Looks effects up in a described database, by the rows that were written with them.

Guarantees that absent is said only by a database that could have the row and has no transaction of
that key under way. Reads only; where the description names other addresses for lookups, as a role
that can do nothing else. Built by the kind.
"""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import orjson

from ledger.core.money import Money
from reconciler.providers.http_exchange import Trouble
from reconciler.providers.limits import (
    FURTHER_REFERENCES_MAX,
    LIST_PAGE_EFFECTS_MAX,
    LIST_PAGES_MAX,
)
from reconciler.providers.port import (
    Absent,
    Found,
    Inconclusive,
    ListedEffect,
    ListingFailed,
    Lookup,
)
from reconciler.providers.postgres.connecting import Connection, Databases, NotConnected

_TROUBLES = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    NotConnected,
)


class PostgresFinder:
    """Looks effects up."""

    def __init__(self, databases: Databases) -> None:
        self._databases = databases

    async def find(
        self,
        *,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
        timeout_ms: int,
    ) -> Lookup:
        """Read the row of a key or an action; see the port."""
        if account not in self._databases:
            return Inconclusive("account_not_configured")
        try:
            async with asyncio.timeout(timeout_ms / 1000), _Lent(self._databases, account) as lent:
                return await self._find(lent, account, provider_key, action_key, reference)
        except TimeoutError:
            return Inconclusive("lookup_timed_out")
        except _TROUBLES as trouble:
            return Inconclusive(_code(trouble))

    async def list_effects(
        self, *, account: str, since_at: int, timeout_ms: int
    ) -> AsyncIterator[ListedEffect]:
        """Page through the account's rows; see the port."""
        at, after = since_at, ""
        for _ in range(LIST_PAGES_MAX):
            page = await self._page(account, at, after, timeout_ms)
            for row in page:
                yield _listed(row)
            if len(page) < LIST_PAGE_EFFECTS_MAX:
                return
            at, after = page[-1]["committed_ms"], page[-1]["provider_key"]
        raise ListingFailed("list_too_long")

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._databases.close()

    async def _find(
        self,
        lent: Connection,
        account: str,
        provider_key: str,
        action_key: str,
        reference: str | None,
    ) -> Lookup:
        sql = self._databases.sql
        async with lent.transaction(isolation="read_committed", readonly=True):
            # First of all: what commits after this was under way when it was asked.
            if not await lent.fetchval(sql["key_is_free"], provider_key):
                return Inconclusive("in_progress")
            now = await lent.fetchrow(sql["now"])
            rows = await lent.fetch(
                sql["effects_of_action"],
                account,
                provider_key,
                action_key,
                FURTHER_REFERENCES_MAX + 1,
            )
            owner = None
            if reference is not None:
                owner = await lent.fetchrow(sql["effect_of_reference"], account, reference)
        if any(row["action_key"] != action_key for row in rows):
            return Inconclusive("effect_of_another_action")
        if reference is not None and owner is None:
            return Inconclusive("reference_not_found")
        if owner is not None and owner["action_key"] != action_key:
            return Inconclusive("effect_of_another_action")
        if rows:
            return _found(rows)
        if now is None or now["is_standby"]:
            return Inconclusive("standby_answers")
        return Absent(now["now_ms"])

    async def _page(
        self, account: str, at: int, after: str, timeout_ms: int
    ) -> list[asyncpg.Record]:
        if account not in self._databases:
            raise ListingFailed("account_not_configured")
        try:
            async with asyncio.timeout(timeout_ms / 1000), _Lent(self._databases, account) as lent:
                return await lent.fetch(
                    self._databases.sql["list_effects"], account, at, after, LIST_PAGE_EFFECTS_MAX
                )
        except TimeoutError:
            raise ListingFailed("lookup_timed_out") from None
        except _TROUBLES as trouble:
            raise ListingFailed(_code(trouble)) from None


class _Lent:
    """A connection for a while; dropped where anything went wrong with it."""

    def __init__(self, databases: Databases, account: str) -> None:
        self._databases, self._account = databases, account
        self._connection: Connection | None = None

    async def __aenter__(self) -> Connection:
        self._connection = await self._databases.lend(self._account)
        return self._connection

    async def __aexit__(self, kind: object, *_: object) -> None:
        if self._connection is not None:
            await self._databases.take(self._account, self._connection, is_clean=kind is None)


def _found(rows: list[asyncpg.Record]) -> Found:
    first, *more = rows
    return Found(
        reference=first["reference"],
        money=_money(first),
        result=orjson.loads(first["result"]),
        provider_key=first["provider_key"],
        further_references=tuple(row["reference"] for row in more),
    )


def _listed(row: asyncpg.Record) -> ListedEffect:
    return ListedEffect(
        reference=row["reference"],
        operation=row["operation"],
        account=row["account"],
        money=_money(row),
        provider_key=row["provider_key"],
        action_key=row["action_key"],
        request_hash=row["request_hash"],
        committed_at=row["committed_ms"],
    )


def _money(row: asyncpg.Record) -> Money | None:
    if row["amount_minor"] is None:
        return None
    return Money(minor=row["amount_minor"], currency=row["currency"])


def _code(trouble: Exception) -> str:
    if isinstance(trouble, NotConnected):
        return trouble.code
    state = getattr(trouble, "sqlstate", None)
    return f"sqlstate_{state.lower()}" if state else Trouble.CONNECTION_LOST.value
