"""Bringing lines of statements to the topic `webhooks`, and finding out what became of each.

Guarantees that a line whose row is there already is not sent again, that a line sent twice (after a
crash, or because an acknowledgement was lost) counts once, and that what is said of a line is what
the ledger decided, never what was guessed here: until it has decided, the line waits. Must never
write a table. Called by the import of files and by the comparison of listings, in the receiver's
role at the log and as a reader of the tables.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

import asyncpg

from ledger.log.crashpoints import crash_point, crash_while
from ledger.log.port import AppendUnknownError, Outgoing
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic, partition_of
from ledger.log.webhook_record import WebhookReceived, WebhookSource, webhook_key, webhook_outgoing
from reconciler.evidence import webhook_source_id
from reconciler.matching import ParkedReason
from reconciler.parking import CONFIRMS
from reconciler.sql_files import statements
from reconciler.statement_lines import (
    StatementLine,
    changed_event_id,
    said_by_line,
    statement_received,
)
from reconciler.statement_matching import Said


class Standing(StrEnum):
    """What became of a line."""

    WAITING = "waiting"
    MATCHED = "matched"
    UNMATCHED = "unmatched"
    CONFLICTING = "conflicting"


_NOBODYS = frozenset(
    {
        ParkedReason.ORPHAN_EFFECT,
        ParkedReason.ACTION_UNKNOWN,
        ParkedReason.REFERENCE_UNKNOWN,
        ParkedReason.REFERENCE_MISSING,
        ParkedReason.ACCOUNT_SHARED,
    }
)
"""Reasons for which a line is no action's; for the others it contradicts something."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one line, why, and the action that it is about; whether a person has looked
    at it.
    """

    standing: Standing
    why: str | None = None
    action_key: str | None = None
    is_noted: bool = False


class Sought(NamedTuple):
    """What a line's row is found by: its event id, the one that it has where an earlier line under
    its id says something else, and what it says.
    """

    event_id: str
    changed_id: str
    said: Said


class Brought(NamedTuple):
    """A line with the record that it travels as."""

    received: WebhookReceived
    said: Said

    @property
    def sought(self) -> Sought:
        """What its row is found by."""
        name = self.received.event_id
        return Sought(name, changed_event_id(name, self.received.sha256), self.said)


class StatementIntake:
    """Lines of one account at one provider, on their way to the ledger."""

    def __init__(
        self,
        appender: SteadyAppender,
        pool: asyncpg.Pool,
        *,
        partitions: int,
        source: WebhookSource,
        provider: str,
        account: str,
    ) -> None:
        """`appender` writes as the receiver; `pool` reads as an operator."""
        self._appender = appender
        self._pool = pool
        self._partitions = partitions
        self._source = source
        self._provider = provider
        self._account = account

    def brought(self, body: bytes, *, line_id: str, occurred_at: int, said: Said) -> Brought:
        """The record of a line that was written down as `StatementLine.body` makes it."""
        received = statement_received(
            body,
            line_id=line_id,
            occurred_at=occurred_at,
            source=self._source,
            provider=self._provider,
            account=self._account,
        )
        return Brought(received, said)

    def brought_line(self, line: StatementLine) -> Brought:
        """The record of a line."""
        return self.brought(
            line.body(),
            line_id=line.line_id,
            occurred_at=line.occurred_at,
            said=said_by_line(line),
        )

    async def send(self, lines: Collection[Brought]) -> None:
        """Append lines, durable when this returns. Raises AppendUnknownError where some may not be;
        sending them again is safe.
        """
        by_partition: defaultdict[int, list[Outgoing]] = defaultdict(list)
        for one in lines:
            partition = partition_of(webhook_key(one.received), self._partitions)
            by_partition[partition].append(webhook_outgoing(one.received))
        await crash_while("lines_sent", self._append_all(by_partition))
        crash_point("lines_acked")

    async def _append_all(self, by_partition: Mapping[int, list[Outgoing]]) -> None:
        """All are awaited before the first failure is told, so that none lands behind our back."""
        appends = [self._append(partition, records) for partition, records in by_partition.items()]
        for outcome in await asyncio.gather(*appends, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _append(self, partition: int, records: list[Outgoing]) -> None:
        """Append what counts once; again with a new producer when the first one is spent."""
        try:
            await self._appender.append(Topic.WEBHOOKS, partition, records)
        except AppendUnknownError:
            await self._appender.append(Topic.WEBHOOKS, partition, records)

    async def rows_of(self, lines: Sequence[Sought]) -> list[bool]:
        """Whether each line has a row already, in their order."""
        found = await self._pool.fetch(
            statements("reconciler", "statement_intake.sql")["there"],
            self._provider,
            self._account,
            _names(lines),
        )
        rows = {row["event_id"]: row for row in found}
        return [_row_of(one, rows) is not None for one in lines]

    async def findings(self, lines: Sequence[Sought]) -> list[Finding | None]:
        """What became of each line, in their order; None where there is no row of it yet."""
        wanted = _names(lines)
        sources = [webhook_source_id(self._provider, self._account, name) for name in wanted]
        found = await self._pool.fetch(
            statements("reconciler", "statement_intake.sql")["lines"],
            self._provider,
            self._account,
            wanted,
            sources,
        )
        rows = {row["event_id"]: row for row in found}
        return [_finding(one, rows) for one in lines]


def _names(lines: Sequence[Sought]) -> list[str]:
    return [name for one in lines for name in (one.event_id, one.changed_id)]


def _row_of(one: Sought, rows: Mapping[str, asyncpg.Record]) -> asyncpg.Record | None:
    """The row that a line has: under its own id where that row says the same."""
    if (changed := rows.get(one.changed_id)) is not None:
        return changed
    row = rows.get(one.event_id)
    return None if row is None or _said(row) != one.said else row


def _finding(one: Sought, rows: Mapping[str, asyncpg.Record]) -> Finding | None:
    row = _row_of(one, rows)
    return None if row is None else _standing(one.said, row)


def _standing(said: Said, row: asyncpg.Record) -> Finding:
    reason, action_key = row["reason"], row["action_key"]
    if row["classification"] == "parked":
        standing = Standing.UNMATCHED if reason in _NOBODYS else Standing.CONFLICTING
        return Finding(standing, reason, action_key, is_noted=row["seen_at"] is not None)
    if reason != CONFIRMS and not row["is_recorded"]:
        return Finding(Standing.WAITING, "evidence_undecided", action_key)
    why = row["case_reason"] or (None if reason == CONFIRMS else _difference(said, row))
    if why is not None:
        return Finding(Standing.CONFLICTING, why, action_key)
    return Finding(Standing.MATCHED, reason, action_key)


def _difference(said: Said, row: asyncpg.Record) -> str | None:
    """Where the tables contradict a line whose evidence opened no case, because one was open."""
    asked = (row["action_minor"], row["action_currency"])
    is_other_money = asked[1] is not None and asked != (said.minor, said.currency)
    is_completed = row["status"] == "completed"
    is_same = said.reference == row["provider_reference"]
    match said.effect:
        case "exists" if is_other_money:
            return "amount_differs"
        case "exists" if is_completed and not is_same:
            return "second_effect"
        case "exists" if row["status"] in {"failed", "cancelled", "expired", "denied"}:
            return "evidence_conflicts"
        case "none" if is_completed and is_same:
            return "evidence_conflicts"
        case _:
            return None


def _said(row: asyncpg.Record) -> Said:
    return Said(
        row["effect"],
        row["reference"],
        row["reverses"],
        row["claimed_key"],
        row["provider_key"],
        row["amount_minor"],
        row["currency"],
    )
