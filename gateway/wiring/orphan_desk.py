"""Effects at providers that no action has made: listed, and closed by an operator's word.

Guarantees that the word is an event in the log before it is a column of a row, and that it closes
nothing but the list: the line stays parked and is matched the day its action appears. It is not
signed, because it settles nothing. Called by the command line.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gateway.settings import Settings
from gateway.wiring.installation import open_log, open_pool
from ledger.core.errors import LedgerError
from ledger.core.money import Money
from ledger.log.follow import genesis_of
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic, partition_of
from ledger.log.webhook_record import webhook_key, webhook_outgoing
from reconciler.orphan_notes import OrphanNote, note_received
from reconciler.statements import statements
from streams.clock import mono_ms, wall_ms

LOOK_MS: Final = 200
NOTED_MS_MAX: Final = 30_000


class NoSuchOrphanError(LedgerError):
    """Nothing that stands at this place is an effect without an action."""


class NotNotedError(LedgerError):
    """A word is in the log, and the reconciler has not taken it in."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """One effect without an action; `place` is where its line stands on the topic `webhooks`."""

    place: str
    provider: str
    account: str
    source: str
    reference: str
    claimed_key: str | None
    said: str | None
    money: Money | None
    occurred_at: datetime | None
    received_at: datetime


async def list_orphans(settings: Settings, limit: int) -> tuple[list[Orphan], int]:
    """The oldest that nobody has looked at, and how many there are."""
    async with await open_pool(settings) as pool:
        rows = await pool.fetch(statements("reconciler", "comparing.sql")["orphans"], limit)
    found = [
        Orphan(
            place=f"{row['partition']}/{row['topic_offset']}",
            provider=row["provider"],
            account=row["account"],
            source=row["source"],
            reference=row["reference"],
            claimed_key=row["claimed_key"],
            said=row["event_type"],
            money=None
            if row["currency"] is None
            else Money(minor=row["amount_minor"], currency=row["currency"]),
            occurred_at=row["occurred_at"],
            received_at=row["received_at"],
        )
        for row in rows
    ]
    return found, rows[0]["orphans"] if rows else 0


async def note_orphan(settings: Settings, partition: int, offset: int, note: OrphanNote) -> None:
    """Write down who looked at an orphan, and wait until it is off the list. Raises
    NoSuchOrphanError, NotNotedError, and what log and tables raise. The first word counts.
    """
    genesis = await genesis_of(open_log(settings, "cli"))
    query = statements("reconciler", "comparing.sql")["orphan"]
    async with await open_pool(settings) as pool:
        row = await pool.fetchrow(query, partition, offset)
        if row is None:
            raise NoSuchOrphanError(
                f"Nothing at {partition}/{offset} is an effect without an action.",
                hint="`actionledger review list --orphans` has the places.",
            )
        if row["seen_by"] is not None:
            raise NoSuchOrphanError(
                f"{row['seen_by']} has looked at it already: {row['seen_note']}",
                hint="The first word counts.",
            )
        received = note_received(
            note,
            provider=row["provider"],
            account=row["account"],
            event_id=row["event_id"],
            at_ms=wall_ms(),
        )
        appender = SteadyAppender(open_log(settings, "gateway-webhooks").appender)
        try:
            place = partition_of(webhook_key(received), genesis.partitions)
            await appender.append(Topic.WEBHOOKS, place, [webhook_outgoing(received)])
        finally:
            await appender.close()
        until_ms = mono_ms() + NOTED_MS_MAX
        while mono_ms() < until_ms:
            row = await pool.fetchrow(query, partition, offset)
            if row is None or row["seen_by"] is not None:
                return
            await asyncio.sleep(LOOK_MS / 1_000)
    raise NotNotedError(
        "The word is in the log, and the list does not show it yet.",
        hint="See whether the reconciler runs: actionledger status.",
    )
