"""Webhooks in Postgres: each recorded once, parked until it is somebody's, matched when it is.

Guarantees that a record read again changes nothing, that of any number of deliveries of one event
one row decides, and that a row says `matched` only after its evidence was durable: whoever calls
appends first and records second, so a crash between the two repeats the evidence, never loses it.
Must never write any other table. Called by the webhook agent and the inquirer's sweep; the
statements are in `parking.sql`.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, assert_never

import asyncpg

from ledger.core.money import Money
from reconciler.evidence import UNREPORTABLE, Receipt, tellable
from reconciler.limits import (
    CLOCKS_APART_MS,
    COMPOSITE_AFTER_MS,
    COMPOSITE_BACK_MS,
    PARKED_MS,
)
from reconciler.matching import (
    AWAITS_ACTION,
    AWAITS_REFERENCE,
    OUTCOME_OPEN,
    WITHOUT_MARK,
    Fitting,
    Irrelevant,
    Match,
    Matched,
    Parked,
)
from reconciler.orphan_notes import OrphanNote
from reconciler.providers.port import About, MappedWebhook, Unrecognised
from reconciler.sql_files import statements
from reconciler.statement_matching import NamedAction, Said

TEST_EVENT: Final = "actionledger.test"
"""The type of an event that was sent on purpose, to see that webhooks arrive."""

Connection: TypeAlias = (
    "asyncpg.Connection[asyncpg.Record] | asyncpg.pool.PoolConnectionProxy[asyncpg.Record]"
)

_Row: TypeAlias = "asyncpg.Record | tuple[Any, ...]"

_ARGUMENT: Final = re.compile(r"\$([0-9]+)")
_ROWS_OF: Final = "array(select one from (\n{}\n) as one)"

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_MS_MAX: Final = 250_000_000_000_000
"""Year 9892: what a provider says beyond it is no time, and a `timestamptz` could not hold it."""


_UNSEEN: Final = (None, None, None)
"""Who has looked at a row, when, and what they say: nobody, when it is written."""

_ABOUT_NOTHING: Final = (None, None)

_NO_REPEAT: Final = (None, None)
"""Where the row stands that a duplicate repeats: known when it is found to be one."""

_COMPOSITE_LOCK: Final = 0x616C_6370
"""First half of the advisory lock of those who ask composites."""

CONFIRMS: Final = "confirms"
"""The reason of a matched row of which the ledger held everything: it has no evidence."""


class Reference(NamedTuple):
    """A provider's name for an effect, or the key that it was given, on one of its accounts."""

    provider: str
    account: str
    reference: str


class EventName(NamedTuple):
    """What identifies an event of a provider, whatever its deliveries."""

    provider: str
    account: str
    event_id: str


class Position(NamedTuple):
    """Where a webhook stands on its topic."""

    partition: int
    offset: int


class Decided(NamedTuple):
    """The row that decides for an event: where it stands, and what it says."""

    position: Position
    said: Said


@dataclass(frozen=True, slots=True)
class WebhookRow:
    """What is kept of one webhook. `received_at` and `matched_at` are milliseconds, `fact` is what
    `repeats.fact_of` says of it.
    """

    receipt: Receipt
    event_id: str
    received_at: int
    mapping_hash: str
    mapped: MappedWebhook | Unrecognised
    match: Match
    matched_at: int
    fact: str | None

    @property
    def position(self) -> Position:
        """Where the webhook stands."""
        return Position(self.receipt.partition, self.receipt.offset)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A parked webhook whose reference, key or action became known, with the actions known under
    its reference, and under its key at the provider, and why it was parked. Unrecognised is what an
    older mapping said that the log cannot hold.
    """

    receipt: Receipt
    mapped: MappedWebhook | Unrecognised
    known: tuple[str, ...]
    reason: str
    keyed: tuple[str, ...] = ()

    @property
    def position(self) -> Position:
        """Where it stands."""
        return Position(self.receipt.partition, self.receipt.offset)


@dataclass(frozen=True, slots=True)
class Known:
    """What the tables say of a batch: the action keys known under each reference, the rows that
    decide for its events already, and the actions that it names; what they do not have is absent.
    """

    references: dict[Reference, tuple[str, ...]]
    decided: dict[EventName, Decided]
    actions: dict[str, NamedAction]


async def known_of(
    connection: Connection,
    *,
    references: Collection[Reference],
    events: Collection[EventName],
    action_keys: Collection[str],
) -> Known:
    """All of it in one question: each that follows another waits for its turn on both sides."""
    (row,) = await connection.fetch(
        _at_once("known_references", "decided_events", "named_actions"),
        *_columns(references),
        *_columns(events),
        list(action_keys),
    )
    return Known(_known(row[0]), _decided(row[1]), _named(row[2]))


async def known_keys(
    connection: Connection, wanted: Collection[Reference]
) -> dict[Reference, tuple[str, ...]]:
    """The action keys whose attempts gave the provider these keys, where they are not their own."""
    if not wanted:
        return {}
    return _known(await connection.fetch(_sql("known_keys"), *_columns(wanted)))


def _known(rows: Iterable[_Row]) -> dict[Reference, tuple[str, ...]]:
    found: defaultdict[Reference, list[str]] = defaultdict(list)
    for provider, account, reference, action_key in rows:
        found[Reference(provider, account, reference)].append(action_key)
    return {reference: tuple(keys) for reference, keys in found.items()}


async def decided_events(
    connection: Connection, events: Collection[EventName]
) -> dict[EventName, Decided]:
    """The events that have a deciding row already, with that row's place and content."""
    if not events:
        return {}
    return _decided(await connection.fetch(_sql("decided_events"), *_columns(events)))


def _decided(rows: Iterable[_Row]) -> dict[EventName, Decided]:
    return {
        EventName(provider, account, event_id): Decided(Position(partition, offset), Said(*said))
        for provider, account, event_id, partition, offset, *said in rows
    }


async def named_actions(connection: Connection, keys: Collection[str]) -> dict[str, NamedAction]:
    """What the tables say of each of these actions; one that they do not have is absent."""
    if not keys:
        return {}
    return _named(await connection.fetch(_sql("named_actions"), list(keys)))


def _named(rows: Iterable[_Row]) -> dict[str, NamedAction]:
    return {
        action_key: NamedAction(
            provider,
            account,
            status,
            reference,
            None if currency is None else Money(minor=minor, currency=currency),
        )
        for action_key, provider, account, status, reference, minor, currency in rows
    }


async def note_orphan(connection: Connection, event: EventName, note: OrphanNote, at: int) -> bool:
    """Write down who has looked at an orphan; whether it was one that nobody had looked at. The
    first word counts.
    """
    found = await connection.fetchval(_sql("note_orphan"), *event, note.by, note.note, _time(at))
    return found is not None


async def record_webhooks(
    connection: Connection, rows: Sequence[WebhookRow]
) -> tuple[set[Position], set[Position]]:
    """Record a batch; the places that are further deliveries of an event, and those that had rows.

    Safe to repeat, and so in two statements that stand for themselves: a place that has a row keeps
    it, and one that has none yet gets it at the next time.
    """
    values = {row.position: row_values(row) for row in rows}
    repeats: set[Position] = set()
    if values:
        for place in await connection.fetch(_sql("record_first"), list(values.values())):
            del values[Position(*place)]
    if values:
        found = await connection.fetch(_sql("record_duplicates"), list(values.values()))
        repeats = {Position(*place) for place in found}
    return repeats, values.keys() - repeats


async def lock_matchable(
    connection: Connection, *, after: Position, now_ms: int, rows_max: int
) -> list[Waiting]:
    """Parked webhooks behind a place that can be matched again, in the order of their places;
    locked until the caller's transaction ends.
    """
    rows = await connection.fetch(
        _sql("lock_matchable"),
        sorted(AWAITS_REFERENCE),
        sorted(AWAITS_ACTION),
        _time(now_ms - PARKED_MS),
        *after,
        rows_max,
    )
    return [
        Waiting(_receipt(row), _kept(row), tuple(row["known"]), row["reason"], tuple(row["keyed"]))
        for row in rows
    ]


async def lock_composites(
    connection: Connection, *, after: Position, now_ms: int, shown_ms: int, rows_max: int
) -> list[tuple[Waiting, Fitting]]:
    """Parked webhooks behind a place of which a declared composite says something, each with the
    actions that have what it names: two at most, and none that was begun after its effect. Only
    what came some time before `shown_ms`, when the tables showed all of the ledger. Locked as
    `lock_matchable` does; none while another transaction has locked some.
    """
    if not await connection.fetchval(_sql("composite_turn"), _COMPOSITE_LOCK):
        return []
    rows = await connection.fetch(
        _sql("lock_composites"),
        sorted(WITHOUT_MARK),
        _time(now_ms - PARKED_MS),
        _time(min(now_ms, shown_ms) - COMPOSITE_AFTER_MS),
        *after,
        rows_max,
        sorted(OUTCOME_OPEN),
        timedelta(milliseconds=COMPOSITE_BACK_MS),
        timedelta(milliseconds=CLOCKS_APART_MS),
    )
    return [
        (
            Waiting(_receipt(row), _kept(row), (), row["reason"]),
            Fitting(dict(zip(row["fitting"], row["statuses"], strict=True)), row["is_taken"]),
        )
        for row in rows
    ]


async def settle_waiting(
    connection: Connection,
    waiting: Waiting,
    match: Matched | Parked | Unrecognised,
    *,
    now_ms: int,
) -> None:
    """Write down what became of a parked webhook, after its evidence is durable."""
    place = (waiting.receipt.partition, waiting.receipt.offset)
    match match:
        case Matched(action_key=action_key, by=by):
            await connection.execute(
                _sql("settle_matched"), *place, action_key, by.value, _time(now_ms)
            )
        case Parked(reason=reason):
            await connection.execute(_sql("settle_parked"), *place, reason.value)
        case Unrecognised(code=code):
            await connection.execute(_sql("settle_unrecognised"), *place, code)
        case _:
            assert_never(match)


async def parked_counts(connection: Connection, *, now_ms: int) -> dict[str, int]:
    """How many webhooks are parked as of a moment, by reason, without what a person has seen."""
    rows = await connection.fetch(_sql("parked_counts"), _time(now_ms), TEST_EVENT)
    return {f"{classification}:{reason}": count for classification, reason, count in rows}


def _sql(name: str) -> str:
    return statements("reconciler", "parking.sql")[name]


@cache
def _at_once(*names: str) -> str:
    """Statements as one that gives an array of the rows of each, their arguments one behind the
    other.
    """
    parts: list[str] = []
    taken = 0
    for name in names:
        sql = _sql(name).rstrip(";")
        count = max(int(number) for number in _ARGUMENT.findall(sql))
        for number in range(count, 0, -1):
            sql = sql.replace(f"${number}", f"${number + taken}")
        parts.append(_ROWS_OF.format(sql))
        taken += count
    return f"select {','.join(parts)}"


def _columns(
    wanted: Collection[tuple[str, str, str]],
) -> tuple[list[str], list[str], list[str]]:
    if not wanted:
        return [], [], []
    first, second, third = zip(*wanted, strict=True)
    return list(first), list(second), list(third)


def _time(at_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=at_ms)


def row_values(row: WebhookRow) -> tuple[object, ...]:
    """The row in the order of the table's columns."""
    receipt, mapped = row.receipt, row.mapped
    head = (
        receipt.partition,
        receipt.offset,
        receipt.provider,
        receipt.account,
        row.event_id,
        _time(row.received_at),
    )
    occurred_at = None
    if isinstance(mapped, MappedWebhook) and mapped.occurred_at <= _TIME_MS_MAX:
        occurred_at = _time(mapped.occurred_at)
    return (
        *head,
        occurred_at,
        receipt.sha256,
        row.mapping_hash,
        *_said(mapped),
        *_verdict(row.match, row.matched_at),
        None if isinstance(mapped, Unrecognised) else mapped.reverses,
        receipt.source,
        *_UNSEEN,
        row.fact,
        *_NO_REPEAT,
        *_about(mapped),
    )


def _about(mapped: MappedWebhook | Unrecognised) -> tuple[str | None, str | None]:
    if isinstance(mapped, Unrecognised) or mapped.about is None:
        return _ABOUT_NOTHING
    return mapped.about.operation, mapped.about.target


def _said(mapped: MappedWebhook | Unrecognised) -> tuple[object, ...]:
    """Event type, meaning, effect, account, reference, our two keys, amount and currency."""
    if isinstance(mapped, Unrecognised):
        return (mapped.event_type, None, None, None, None, None, None, None, None)
    money = mapped.money
    return (
        mapped.event_type,
        mapped.meaning,
        mapped.effect,
        mapped.account,
        mapped.reference,
        mapped.action_key,
        mapped.provider_key,
        None if money is None else money.minor,
        None if money is None else money.currency,
    )


def _verdict(match: Match, matched_at: int) -> tuple[object, ...]:
    """Classification, reason, action key, matched by, matched at."""
    match match:
        case Matched(action_key=action_key, by=by, is_known=is_known):
            reason = CONFIRMS if is_known else None
            return ("matched", reason, action_key, by.value, _time(matched_at))
        case Parked(reason=reason):
            return ("parked", reason.value, None, None, None)
        case Irrelevant():
            return ("irrelevant", None, None, None, None)
        case Unrecognised(code=code):
            return ("unrecognised", code, None, None, None)
        case _:
            assert_never(match)


def _receipt(row: asyncpg.Record) -> Receipt:
    return Receipt(
        provider=row["provider"],
        account=row["account"],
        partition=row["partition"],
        offset=row["topic_offset"],
        sha256=row["sha256"],
        source=row["source"],
    )


_MEANINGS: Final[dict[str, Literal["final", "progress", "irrelevant"]]] = {
    "final": "final",
    "progress": "progress",
    "irrelevant": "irrelevant",
}
_EFFECTS: Final[dict[str, Literal["exists", "none", "pending", "reversed", "unlisted"]]] = {
    "exists": "exists",
    "none": "none",
    "pending": "pending",
    "reversed": "reversed",
    "unlisted": "unlisted",
}


def _kept(row: asyncpg.Record) -> MappedWebhook | Unrecognised:
    """What is kept of a parked webhook, where it can be told. Bounds were others when it was read,
    and no row may end the sweep over all the others.
    """
    try:
        return tellable(_mapped(row))
    except (KeyError, ValueError):
        return Unrecognised(UNREPORTABLE, row["event_type"])


def _mapped(row: asyncpg.Record) -> MappedWebhook:
    """What the mapping made of a parked webhook, as it was when the row was written."""
    occurred_at = row["occurred_at"]
    currency = row["currency"]
    return MappedWebhook(
        meaning=_MEANINGS[row["meaning"]],
        effect=_EFFECTS[row["effect"]],
        event_id=row["event_id"],
        event_type=row["event_type"],
        account=row["speaks_for"],
        reference=row["reference"],
        action_key=row["claimed_key"],
        provider_key=row["provider_key"],
        money=None if currency is None else Money(minor=row["amount_minor"], currency=currency),
        occurred_at=0
        if occurred_at is None
        else (occurred_at - _EPOCH) // timedelta(milliseconds=1),
        reverses=row["reverses"],
        about=None
        if row["about_target"] is None
        else About(row["about_operation"], row["about_target"]),
    )
