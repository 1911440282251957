"""Changes rows in a described database.

Guarantees the promises of the port. The only byte that can have an effect is the COMMIT: whatever
ends before it is sent ends as nothing, by the rules of the database, and is told as not sent or
refused; whatever ends after it is unresolved unless the database says that it did not commit. The
guard runs when the connection is there, before BEGIN; what follows is bounded by the deadline that
the lease counts with. Built by the kind, held by executors only.
"""

import asyncio
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import asyncpg
import orjson

from reconciler.providers.http.answers import kept
from reconciler.providers.http.performer import names_of
from reconciler.providers.http.templates import Names, Unsendable
from reconciler.providers.http_exchange import Trouble
from reconciler.providers.limits import CODE_CHARS_MAX, REFERENCE_CHARS_MAX, RESULT_MEMBERS_MAX
from reconciler.providers.port import (
    Deadlines,
    Declined,
    NotSent,
    Outcome,
    ProviderRequest,
    Refused,
    Retry,
    Succeeded,
    Unresolved,
)
from reconciler.providers.postgres.connecting import Connection, Databases, NotConnected
from reconciler.providers.postgres.description import Change, PostgresDescription

_ROWS: Final = re.compile(r"[A-Z ]+ (?:\d+ )?(\d+)")
_DIGEST_CHARS: Final = 32
# SQLSTATE classes that say: not this time. Conflicts between transactions, locks and limits of
# time, resources, a server that is just starting or has become a standby. And that a connection is
# not the one it was: a pooler has changed sessions (26000, 42P05), or its tables were altered.
_LATER: Final = ("08", "26000", "40", "42P05", "53", "55", "57", "58", "25006", "XX")
_OF_THE_CONNECTION: Final = (asyncpg.InvalidCachedStatementError,)
# What the database says of a COMMIT that did not happen. Of the class 40 all but one: 40003 is its
# own way of not knowing. A shutdown (57) may come between the commit and its answer.
_NOT_COMMITTED: Final = ("23", "25", "40", "P0")
_UNKNOWN: Final = "40003"
_TROUBLES: Final = (
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)


class _Refusal(Exception):
    """Ends the transaction with a definite no of our own."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(slots=True)
class _Progress:
    """How far one call has come."""

    is_committing: bool = False
    is_over: bool = False


class PostgresPerformer:
    """Changes rows as a description says."""

    def __init__(self, described: PostgresDescription, databases: Databases) -> None:
        self._described = described
        self._databases = databases

    async def perform(
        self,
        request: ProviderRequest,
        *,
        provider_key: str,
        deadlines: Deadlines,
        before_first_byte: Callable[[], None],
    ) -> Outcome:
        """Make one change, once; see the port."""
        change = self._described.changes.get(request.operation)
        if change is None:
            return NotSent("operation_not_described", Retry.NEVER)
        if request.account not in self._databases:
            return NotSent("account_not_configured", Retry.LATER)
        try:
            values = _values(change, {**names_of(request), "provider_key": provider_key})
        except Unsendable:
            return NotSent(Trouble.UNSENDABLE.value, Retry.NEVER)
        try:
            async with asyncio.timeout(deadlines.connect_ms / 1000):
                connection = await self._databases.lend(request.account)
        except TimeoutError:
            return NotSent(Trouble.CONNECT_TIMED_OUT.value, Retry.LATER)
        except NotConnected as error:
            return NotSent(error.code, Retry.LATER)
        progress = _Progress()
        try:
            before_first_byte()
            async with asyncio.timeout(deadlines.response_ms / 1000):
                await self._begin(connection, change, deadlines)
                outcome = await self._within(
                    connection, change, request, provider_key, values, progress
                )
            progress.is_over = True
            return outcome
        except Declined as declined:
            progress.is_over = True
            return NotSent(declined.code, Retry.LATER)
        except _TROUBLES as error:
            return _broken(error, progress)
        finally:
            await self._databases.take(request.account, connection, is_clean=progress.is_over)

    async def close(self) -> None:
        """Close all connections; idempotent."""
        await self._databases.close()

    async def _begin(self, connection: Connection, change: Change, deadlines: Deadlines) -> None:
        await connection.execute(f"begin isolation level {change.isolation} read write")
        await connection.fetch(self._databases.sql["bound"], str(deadlines.response_ms))

    async def _within(
        self,
        connection: Connection,
        change: Change,
        request: ProviderRequest,
        provider_key: str,
        values: list[object],
        progress: _Progress,
    ) -> Outcome:
        """The transaction, up to its end. Raises what the database or the connection says."""
        sql = self._databases.sql
        await connection.fetch(sql["hold_key"], provider_key)
        earlier = await connection.fetchrow(sql["effect_of_key"], provider_key)
        if earlier is not None:
            await connection.execute("rollback")
            return _replayed(request, earlier)
        try:
            done = await _changed(connection, change, provider_key, values)
        except _Refusal as refusal:
            await connection.execute("rollback")
            return Refused(refusal.code, Retry.NEVER)
        money = request.money
        await connection.execute(
            sql["record_effect"],
            provider_key,
            request.action_key,
            request.request_hash,
            request.account,
            request.operation,
            done.reference,
            None if money is None else money.minor,
            None if money is None else money.currency,
            orjson.dumps(dict(done.result), option=orjson.OPT_SORT_KEYS).decode(),
        )
        progress.is_committing = True
        said = await connection.execute("commit")
        # A transaction that had failed unseen is rolled back by COMMIT, which says so.
        return done if said == "COMMIT" else Refused("rolled_back", Retry.LATER)


async def _changed(
    connection: Connection, change: Change, provider_key: str, values: list[object]
) -> Succeeded:
    """Run the operation's statement; raises _Refusal where it did not do what it has to."""
    statement = await connection.prepare(change.statement.text)
    try:
        rows = await statement.fetch(*values)
    except asyncpg.DataError as error:
        # Of the client where it has no number: a value that does not fit the type of its place.
        raise _Refusal(
            f"sqlstate_{(getattr(error, 'sqlstate', None) or '22000').lower()}"
        ) from None
    match = _ROWS.fullmatch(statement.get_statusmsg() or "")
    count = len(rows) if match is None else int(match[1])
    if not change.rows <= count <= change.rows_at_most:
        raise _Refusal(f"rows_affected_{count}")
    first = dict(rows[0]) if len(rows) == 1 else {}
    reference = _own_reference(provider_key)
    if change.reference is not None:
        reference = str(first.get(change.reference) or "")
        if not reference or len(reference) > REFERENCE_CHARS_MAX:
            raise _Refusal("no_reference_returned")
    shown = {
        name: kept(value if isinstance(value, str | int | None) else str(value))
        for name, value in list(first.items())[:RESULT_MEMBERS_MAX]
    }
    return Succeeded(reference, {"rows": count, **shown})


def _own_reference(provider_key: str) -> str:
    digest = hashlib.sha256(f"actionledger.postgres_effect.v1\n{provider_key}".encode())
    return f"effect-{digest.hexdigest()[:_DIGEST_CHARS]}"


def _values(change: Change, names: Names) -> list[object]:
    """The values of a statement's places in their order. Raises Unsendable.

    Texts, whole numbers, booleans and null are bound as they are; lists and objects as JSON text.
    """
    found = [change.values[name].value(names) for name in change.statement.names]
    return [_bound(value) for value in found]


def _bound(value: object) -> object:
    match value:
        case None | bool() | int():
            return value
        case str():
            if "\0" in value:
                raise Unsendable
            return value
        case _:
            try:
                text = orjson.dumps(value, default=dict, option=orjson.OPT_SORT_KEYS).decode()
            except TypeError:
                raise Unsendable from None
            return text


def _replayed(request: ProviderRequest, earlier: asyncpg.Record) -> Succeeded | Refused:
    """What a row under the same key means: the effect of this request, or of another."""
    is_same = (
        earlier["action_key"] == request.action_key
        and earlier["request_hash"] == request.request_hash
        and earlier["account"] == request.account
    )
    if not is_same:
        return Refused("key_reused", Retry.NEVER)
    return Succeeded(earlier["reference"], orjson.loads(earlier["result"]))


def _broken(error: Exception, progress: _Progress) -> Outcome:
    """What an error means: nothing committed before COMMIT was sent, nobody knows after it."""
    state = getattr(error, "sqlstate", None) or ""
    is_answer = isinstance(error, asyncpg.PostgresError) and state[:2] != "08"
    if isinstance(error, TimeoutError):
        code = Trouble.ANSWER_TIMED_OUT.value
    else:
        code = _code(error, state) if is_answer else Trouble.CONNECTION_LOST.value
    if progress.is_committing:
        is_no = is_answer and state.startswith(_NOT_COMMITTED) and state != _UNKNOWN
        return _refused(code, state) if is_no else Unresolved(code)
    if isinstance(error, _OF_THE_CONNECTION):
        return Refused(code, Retry.LATER)
    return _refused(code, state) if is_answer else NotSent(code, Retry.LATER)


def _refused(code: str, state: str) -> Refused:
    return Refused(code, Retry.LATER if state.startswith(_LATER) else Retry.NEVER)


def _code(error: Exception, state: str) -> str:
    """`sqlstate_23514`, and after it the name of the constraint where there is one."""
    constraint = getattr(error, "constraint_name", None) or ""
    name = "_" + re.sub(r"[^a-z0-9]+", "_", constraint.lower()) if constraint else ""
    return f"sqlstate_{state.lower()}{name}"[:CODE_CHARS_MAX]
