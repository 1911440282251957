"""Effects at providers that no action has made: listed, and closed by an operator's word.

Guarantees that the word is an event in the log before it is a column of a row, and that it closes
nothing but the list: the line stays parked and is matched the day its action appears. It is not
signed, because it settles nothing. Called by the command line.
"""

import asyncio
from typing import Final

from gateway.settings import Settings
from gateway.wiring.installation import open_log, open_pool
from ledger.core.errors import LedgerError
from ledger.core.excerpt import visible
from ledger.core.people import EVERY_TENANT
from ledger.log.follow import genesis_of
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from reconciler import orphans
from reconciler.orphan_notes import OrphanNote
from reconciler.orphans import Orphan
from reconciler.parking import Position
from streams.clock import mono_ms, wall_ms

LOOK_MS: Final = 200
NOTED_MS_MAX: Final = 30_000


class NoSuchOrphanError(LedgerError):
    """Nothing that stands at this place is an effect without an action."""


class NotNotedError(LedgerError):
    """A word is in the log, and the reconciler has not taken it in."""


async def list_orphans(settings: Settings, limit: int) -> tuple[list[Orphan], int]:
    """The oldest that nobody has looked at, and how many there are."""
    async with await open_pool(settings) as pool:
        return await orphans.list_orphans(pool, (EVERY_TENANT,), limit=limit)


async def note_orphan(settings: Settings, place: Position, note: OrphanNote) -> None:
    """Write down who looked at an orphan, and wait until it is off the list. Raises
    NoSuchOrphanError, NotNotedError, and what log and tables raise. The first word counts.
    """
    genesis = await genesis_of(open_log(settings, "cli"))
    async with await open_pool(settings) as pool:
        found = await orphans.find_orphan(pool, (EVERY_TENANT,), place)
        if found is None:
            raise NoSuchOrphanError(
                f"Nothing at {place.partition}/{place.offset} is an effect without an action.",
                hint="`actionledger review list --orphans` has the places.",
            )
        if found.seen_by is not None:
            raise NoSuchOrphanError(
                visible(f"{found.seen_by} has looked at it already: {found.note}"),
                hint="The first word counts.",
            )
        partition, record = orphans.noted(
            found, note, partitions=genesis.partitions, at_ms=wall_ms()
        )
        appender = SteadyAppender(open_log(settings, "gateway-webhooks").appender)
        try:
            await appender.append(Topic.WEBHOOKS, partition, [record])
        finally:
            await appender.close()
        until_ms = mono_ms() + NOTED_MS_MAX
        while mono_ms() < until_ms:
            now = await orphans.find_orphan(pool, (EVERY_TENANT,), place)
            if now is None or now.seen_by is not None:
                return
            await asyncio.sleep(LOOK_MS / 1_000)
    raise NotNotedError(
        "The word is in the log, and the list does not show it yet.",
        hint="See whether the reconciler runs: actionledger status.",
    )
