"""Reads for doors, owners, the inquirer and the command line, over a pool.

Guarantees that an answer for a tenant holds nothing of another, and that every list has an end. A
read model is never the last word on whether something may happen: that is decided in the log.
"""

from asyncio import to_thread
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

import asyncpg
from pydantic_core import from_json, to_json

from ledger.core.evolve import Place, evolve
from ledger.core.ids import GateKind, stream_key_of
from ledger.core.limits import STREAM_ACTIONS_MAX
from ledger.core.sagas import Saga, saga_of
from ledger.core.state import Action, Stream
from projections.fold import Held
from projections.limits import ACTION_FACTS_MAX, ROWS_READ_MAX, SAGAS_READ_MAX
from projections.query_rows import (
    ActionRow,
    AllTenants,
    AttemptRow,
    Became,
    CaseRow,
    CauseRow,
    DueStream,
    EventRow,
    GateRow,
    OffsetRow,
    PieceRow,
    ReservationRow,
    ResolutionRow,
    ReviewRow,
    SignedRow,
    TenantScope,
    TenantsScope,
    UnknownAge,
    UnknownRow,
    WaitingRow,
)
from projections.roles import EVERY_TENANT, TENANT_SETTING
from projections.rows import read_holds
from projections.statements import LIVE_SCHEMA, statements
from projections.states import FACT, load_streams

_View = TypeVar("_View")


class Queries:
    """Every read of one schema. Errors of the database are asyncpg's own."""

    def __init__(self, pool: asyncpg.Pool, schema: str = LIVE_SCHEMA) -> None:
        self._pool = pool
        self._schema = schema
        self._sql = statements("queries.sql", schema)

    async def action(self, tenant: TenantScope, action_key: str) -> ActionRow | None:
        """An action as it stands in the projections, or None."""
        return next(iter(await self._actions(tenant, [action_key])), None)

    async def actions_of_run(
        self, tenant: TenantScope, run: str, *, limit: int = ROWS_READ_MAX
    ) -> tuple[ActionRow, ...]:
        """The actions that were proposed with a run, those recorded first first."""
        return await self._actions_of(tenant, "run", run, limit)

    async def actions_of_batch(
        self, tenant: TenantScope, batch: str, *, limit: int = ROWS_READ_MAX
    ) -> tuple[ActionRow, ...]:
        """The actions that were proposed with a batch, those recorded first first."""
        return await self._actions_of(tenant, "batch", batch, limit)

    async def actions_of_saga(
        self, tenant: TenantScope, saga: str, *, limit: int = ROWS_READ_MAX
    ) -> tuple[ActionRow, ...]:
        """The steps of a saga and their planned compensations, as they were recorded."""
        return await self._actions_of(tenant, "saga", saga, limit)

    async def sagas(
        self, scope: TenantScope | TenantsScope, *, limit: int = SAGAS_READ_MAX
    ) -> tuple[Saga, ...]:
        """Sagas, the newest first. Raises BrokenInvariantError, ValueError where stored facts
        lie.
        """
        tenants = [scope] if isinstance(scope, str) else scope
        rows = await self._rows(tenants, "sagas", max(0, min(limit, SAGAS_READ_MAX)))
        return await self._sagas(tenants, [(row["stream_key"], row["saga"]) for row in rows])

    async def tenants(self, scope: TenantScope, *, limit: int = ROWS_READ_MAX) -> tuple[str, ...]:
        """The tenants that have an action, in their order."""
        rows = await self._rows(scope, "tenants", _bounded(limit))
        return tuple(row["tenant_id"] for row in rows)

    async def saga(self, stream_key: str, name: str) -> Saga | None:
        """A saga of a business event, folded from everything that was recorded of it; or None. The
        key names its tenant. Raises BrokenInvariantError, ValueError where its stored facts lie.
        """
        tenant = stream_key.partition("/")[0]
        return next(iter(await self._sagas([tenant], [(stream_key, name)])), None)

    async def _sagas(
        self, tenants: TenantScope | TenantsScope, asked: Sequence[tuple[str, str]]
    ) -> tuple[Saga, ...]:
        keys, names = {key for key, _ in asked}, {name for _, name in asked}
        limit = ACTION_FACTS_MAX * STREAM_ACTIONS_MAX
        rows = await self._rows(tenants, "saga_facts", sorted(keys), sorted(names), limit)
        # Plans have many long facts, and whoever else is served by this process is not to wait.
        return await to_thread(_sagas_of, rows, asked)

    async def gate(self, tenant: TenantScope, gate_key: str) -> GateRow | None:
        """A gate as it stands, or None: nothing was asked of it yet. For its key see
        `ids.gate_key` and `Ceiling.gate`.
        """
        rows = await self._rows(tenant, "gate", gate_key)
        return None if not rows else _view(GateRow, rows[0], "used", "reserved")

    async def runs(
        self, scope: TenantScope | TenantsScope, *, limit: int = ROWS_READ_MAX
    ) -> tuple[GateRow, ...]:
        """The gates of runs, the newest run first: runs that a ceiling or a report counts."""
        tenants = [scope] if isinstance(scope, str) else scope
        rows = await self._rows(tenants, "gates_of_kind", GateKind.RUN.value, _bounded(limit))
        return tuple(_view(GateRow, row, "used", "reserved") for row in rows)

    async def windows(
        self, tenant: TenantScope, *, limit: int = ROWS_READ_MAX
    ) -> tuple[GateRow, ...]:
        """The gates of ceilings by the hour, day, week or month, the newest first."""
        tenants = [tenant] if isinstance(tenant, str) else tenant
        rows = await self._rows(tenants, "gates_of_kind", GateKind.WINDOW.value, _bounded(limit))
        return tuple(_view(GateRow, row, "used", "reserved") for row in rows)

    async def reservations(
        self, tenant: TenantScope, gate_key: str, *, limit: int = ROWS_READ_MAX
    ) -> tuple[ReservationRow, ...]:
        """What a gate holds and who waits for it, in the order in which it was asked."""
        rows = await self._rows(tenant, "reservations", gate_key, _bounded(limit))
        return tuple(
            _view(ReservationRow, {**row, "over": tuple(row["over"])}, "demand") for row in rows
        )

    async def waiting(
        self, tenants: TenantsScope, *, limit: int = ROWS_READ_MAX
    ) -> tuple[WaitingRow, ...]:
        """Actions that people are asked about, whoever was asked longest ago first, and what ran
        out behind all others: with what they are shown, and how far they are. `*` among the tenants
        is all of them, for a person who may decide for all.
        """
        rows = await self._rows(tenants, "waiting", _bounded(limit))
        return tuple(_waiting(row) for row in rows)

    async def waiting_keys(
        self, tenant: TenantScope, principal: str, *, limit: int = ROWS_READ_MAX
    ) -> tuple[str, ...]:
        """The keys of actions for which a principal waits for people, in no order."""
        rows = await self._rows(tenant, "waiting_keys", principal, _bounded(limit))
        return tuple(row["action_key"] for row in rows)

    async def paused(self, tenant: TenantScope, run: str) -> tuple[tuple[str, str], ...]:
        """The actions of a run that wait for a person at a ceiling, with its name, oldest first."""
        rows = await self._rows(tenant, "paused", run, _bounded(ROWS_READ_MAX))
        return tuple((row["action_key"], row["names"]) for row in rows)

    async def signed(
        self, tenant: TenantScope, action_key: str, *, limit: int = ROWS_READ_MAX
    ) -> tuple[SignedRow, ...]:
        """What people have signed about an action and what counted, in order."""
        rows = await self._rows(tenant, "signed", action_key, _bounded(limit))
        return tuple(_view(SignedRow, row) for row in rows)

    async def timeline(
        self,
        tenant: TenantScope,
        action_key: str,
        *,
        after_version: int = 0,
        limit: int = ROWS_READ_MAX,
    ) -> tuple[EventRow, ...]:
        """An action's facts in order, those behind `after_version`."""
        rows = await self._rows(tenant, "timeline", action_key, after_version, _bounded(limit))
        return tuple(_caused(EventRow, row, "data") for row in rows)

    async def attempts(self, tenant: TenantScope, action_key: str) -> tuple[AttemptRow, ...]:
        """An action's tries at its provider, in order."""
        rows = await self._rows(tenant, "attempts", action_key)
        return tuple(_view(AttemptRow, row) for row in rows)

    async def why_input(
        self, tenant: TenantScope, topic: str, partition: int, offset: int
    ) -> tuple[Became, ...]:
        """What one input became; empty where it is not decided, or not projected, yet."""
        rows = await self._rows(tenant, "why_input", topic, partition, offset)
        return tuple(_caused(Became, row, "details") for row in rows)

    async def why_action(
        self, tenant: TenantScope, action_key: str, *, limit: int = ROWS_READ_MAX
    ) -> tuple[Became, ...]:
        """Every decision about an action, each with its cause, in the order of the log."""
        rows = await self._rows(tenant, "why_action", action_key, _bounded(limit))
        return tuple(_caused(Became, row, "details") for row in rows)

    async def unknowns(
        self, scope: TenantScope | TenantsScope, *, limit: int = ROWS_READ_MAX
    ) -> tuple[UnknownRow, ...]:
        """Actions whose effect is not proven either way, those longest without news first."""
        tenants = [scope] if isinstance(scope, str) else scope
        rows = await self._rows(tenants, "unknowns", _bounded(limit))
        return tuple(_unknown(row) for row in rows)

    async def unknown_ages(
        self, scope: TenantScope | TenantsScope, *, now_ms: int
    ) -> tuple[UnknownAge, ...]:
        """How many actions are uncertain at each provider, by age."""
        tenants = [scope] if isinstance(scope, str) else scope
        now = datetime.fromtimestamp(now_ms / 1_000, UTC)
        rows = await self._rows(tenants, "unknown_ages", now)
        return tuple(UnknownAge(**row) for row in rows)

    async def cases(
        self, scope: TenantScope | TenantsScope, *, limit: int = ROWS_READ_MAX
    ) -> tuple[ReviewRow, ...]:
        """Cases that wait for a person, one an action, oldest first."""
        tenants = [scope] if isinstance(scope, str) else scope
        rows = await self._rows(tenants, "cases", _bounded(limit))
        return tuple(_view(ReviewRow, row) for row in rows)

    async def blocked(
        self, scope: TenantScope | TenantsScope, *, limit: int = ROWS_READ_MAX
    ) -> tuple[ActionRow, ...]:
        """Actions that wait for others and that a person may let pass them, oldest news first."""
        tenants = [scope] if isinstance(scope, str) else scope
        rows = await self._rows(tenants, "blocked", _bounded(limit))
        by_tenant: dict[str, list[str]] = {}
        for row in rows:
            by_tenant.setdefault(row["tenant_id"], []).append(row["action_key"])
        found = [await self._actions(tenant, keys) for tenant, keys in by_tenant.items()]
        return tuple(sorted((one for some in found for one in some), key=_since))

    async def case_sheet(
        self, tenant: TenantScope, action_key: str, *, limit: int = ACTION_FACTS_MAX
    ) -> CaseRow | None:
        """Everything that was recorded of an action and what it makes; or None. Of more facts than
        the limit the first are told; the action is what all of them make, and where it has more
        than `ACTION_FACTS_MAX`, what it was then: it is not whole, and nobody may sign it.

        What a person settles a case by. Raises BrokenInvariantError, ValueError where stored facts
        lie.
        """
        events = await self.whole_timeline(tenant, action_key)
        if not events:
            return None
        action = folded(action_key, events)
        # That another action revises it is no fact of its own.
        for row in await self._rows(tenant, "revised_by", action_key):
            action = replace(action, revised_by=row["action_key"])
        told = min(limit, ACTION_FACTS_MAX)
        return CaseRow(action, tuple(events[:told]), is_whole=len(events) <= told)

    async def whole_timeline(self, tenant: TenantScope, action_key: str) -> list[EventRow]:
        """All facts of an action in order, read page by page: what comes meanwhile stands behind
        them. Where it has more than `ACTION_FACTS_MAX`, one beyond these.
        """
        found: list[EventRow] = []
        while (wanted := min(ROWS_READ_MAX, ACTION_FACTS_MAX + 1 - len(found))) > 0:
            behind = found[-1].version if found else 0
            page = await self.timeline(tenant, action_key, after_version=behind, limit=wanted)
            found += page
            if len(page) < wanted:
                break
        return found

    async def resolutions(
        self, tenant: TenantScope, action_key: str, *, limit: int = ROWS_READ_MAX
    ) -> tuple[ResolutionRow, ...]:
        """How people have settled the cases of an action, in order."""
        rows = await self._rows(tenant, "resolutions", action_key, _bounded(limit))
        return tuple(_view(ResolutionRow, row) for row in rows)

    async def stream(self, stream_key: str) -> Held | None:
        """The folded state of a business event, or None; its key names its tenant."""
        async with self._pool.acquire() as connection:
            found = await load_streams(connection, [stream_key], schema=self._schema)
        return found.get(stream_key)

    async def streams_due(
        self, partition: int, until: int, *, limit: int = ROWS_READ_MAX
    ) -> tuple[DueStream, ...]:
        """Streams of a partition that time moves by `until`, the earliest first."""
        rows = await self._pool.fetch(self._sql["streams_due"], partition, until, _bounded(limit))
        return tuple(_view(DueStream, row) for row in rows)

    async def offsets(self) -> dict[int, OffsetRow]:
        """How far each partition is projected."""
        rows = await self._pool.fetch(self._sql["offsets"])
        return {
            row["partition"]: OffsetRow(
                **{
                    **row,
                    "positions": from_json(row["positions"]),
                    "holds": read_holds(row["holds"]),
                }
            )
            for row in rows
        }

    async def actions_by_reference(self, account: str, reference: str) -> tuple[str, ...]:
        """Keys of the actions that a provider's name stands for; more than one is a case."""
        rows = await self._pool.fetch(
            self._sql["actions_by_reference"], account, reference, ROWS_READ_MAX
        )
        return tuple(row["action_key"] for row in rows)

    async def _actions_of(
        self, tenant: TenantScope, what: str, name: str, limit: int
    ) -> tuple[ActionRow, ...]:
        rows = await self._rows(tenant, "actions_of", what, name, _bounded(limit))
        return await self._actions(tenant, [row["action_key"] for row in rows])

    async def _actions(self, tenant: TenantScope, keys: list[str]) -> tuple[ActionRow, ...]:
        rows = await self._rows(tenant, "actions", keys)
        parsed = ("result", "held", "approval", "denied")
        return tuple(_view(ActionRow, row, *parsed) for row in rows)

    async def _rows(
        self, scope: TenantScope | TenantsScope, statement: str, *arguments: object
    ) -> list[asyncpg.Record]:
        """The rows of a statement whose first argument is the tenant, or are the tenants.

        Whose rows are meant is told to the database too, for as long as the transaction: a
        statement that forgot to ask for it finds no other's rows, and the next one of the
        connection none at all.
        """
        if isinstance(scope, AllTenants):
            return await self._pool.fetch(self._sql[statement], None, *arguments)
        asked: object
        if isinstance(scope, str):
            asked, told = scope, scope
        elif EVERY_TENANT in scope:
            asked, told = None, EVERY_TENANT
        else:
            asked, told = list(scope), ",".join(scope)
        async with self._pool.acquire() as connection, connection.transaction(readonly=True):
            await connection.execute("select set_config($1, $2, true)", TENANT_SETTING, told)
            return await connection.fetch(self._sql[statement], asked, *arguments)


def folded(key: str, events: Sequence[EventRow]) -> Action:
    """The action that its facts make, from the first of them on."""
    stream = Stream(stream_key_of(key))
    for event in events:
        place = Place(offset=event.ledger_offset, decided_at=event.decided_at)
        stream = evolve(stream, FACT.validate_json(to_json(event.data)), place)
    return stream.actions[0]


def lag(offsets: Mapping[int, OffsetRow], ends: Mapping[int, int]) -> dict[int, int]:
    """Records of each partition that are in the log and not in the tables yet."""
    return {
        partition: max(0, end - (offsets[partition].next_offset if partition in offsets else 0))
        for partition, end in ends.items()
    }


def _since(row: ActionRow) -> tuple[int, str]:
    return row.updated_at, row.action_key


def _bounded(limit: int) -> int:
    return max(0, min(limit, ROWS_READ_MAX))


def _view(
    view: Callable[..., _View], row: asyncpg.Record | Mapping[str, object], *json: str
) -> _View:
    """A row as a view of the same fields; columns named in `json` are parsed."""
    fields = dict(row)
    for name in json:
        if fields[name] is not None:
            fields[name] = from_json(fields[name])
    return view(**fields)


def _unknown(row: asyncpg.Record) -> UnknownRow:
    pieces = () if row["evidence"] is None else from_json(row["evidence"])
    return UnknownRow(**{**row, "evidence": tuple(PieceRow(**piece) for piece in pieces)})


def _waiting(row: asyncpg.Record) -> WaitingRow:
    people = {name: tuple(row[name]) for name in ("groups", "granted_by")}
    preview = None if row["preview"] is None else from_json(row["preview"])
    return WaitingRow(**{**row, **people, "preview": preview})


_CAUSE = {
    "cause_topic": "topic",
    "cause_partition": "partition",
    "cause_offset": "offset",
    "cause_copied": "copied",
}


def _caused(view: Callable[..., _View], row: asyncpg.Record, json: str) -> _View:
    """A row as a view whose columns of a cause stand in one field."""
    fields = dict(row)
    cause = {short: fields.pop(name) for name, short in _CAUSE.items() if name in fields}
    fields[json] = from_json(fields[json])
    return view(**fields, cause=CauseRow(**cause))


def _sagas_of(rows: Sequence[asyncpg.Record], asked: Sequence[tuple[str, str]]) -> tuple[Saga, ...]:
    """The sagas of these names on these streams, from their facts in order."""
    events: dict[str, Stream] = {}
    for row in rows:
        key = row["stream_key"]
        place = Place(offset=row["ledger_offset"], decided_at=row["decided_at"])
        fact = FACT.validate_json(row["data"])
        events[key] = evolve(events.get(key) or Stream(key), fact, place)
    found = (saga_of(events[key], name) for key, name in asked if key in events)
    return tuple(one for one in found if one is not None)
