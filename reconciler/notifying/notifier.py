"""Tells people that something waits for them: keeps what is to be told, and tells it until it has
arrived or is not needed any more.

Guarantees that a notice is kept before its record is acknowledged, and told at least once, under an
id that stays the same; that no destination gets more than one message a minute, with all that came
meanwhile in it; that trouble with one destination holds up no other, and nothing else at all: it is
tried again, bounded, then logged and counted. Must never decide, or let anybody decide, anything.
Run beside the agents of the reconciler.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from ledger.core.people import People
from ledger.log.attention_record import AttentionRaised
from reconciler.limits import ACQUIRE_SECONDS
from reconciler.notifying import notices
from reconciler.notifying.destinations import Destination, Destinations
from reconciler.notifying.limits import (
    LOOK_MS,
    QUIET_MS,
    TRIES_MAX,
    TRY_AGAIN_FIRST_MS,
    TRY_AGAIN_MAX_MS,
)
from reconciler.notifying.messages import Message, Pages
from reconciler.notifying.notices import Claimed, Connection
from reconciler.notifying.sending import send
from reconciler.notifying.wanted import Wanted, concerned
from reconciler.receiving import is_trouble

logger = logging.getLogger("actionledger")


class Notifier:
    """One reconciler's part in telling people."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        known: Destinations,
        pages: Pages,
        *,
        people: Callable[[], Awaitable[People]],
        now_ms: Callable[[], int],
        quiet_ms: int = QUIET_MS,
    ) -> None:
        """`people` is the newest document of who may decide."""
        self._pool = pool
        self._known = known
        self._pages = pages
        self._people = people
        self._now_ms = now_ms
        self._quiet_ms = quiet_ms
        self._came = asyncio.Event()
        self._telling: dict[str, asyncio.Task[None]] = {}
        self.sent_count = 0
        self.given_up_count = 0

    async def keep(self, raised: Sequence[AttentionRaised]) -> None:
        """Keep what is to be told. Raises where Postgres or Kafka is away: then it comes again."""
        wanted = [one for one in map(Wanted.of, raised) if one is not None]
        if not wanted or not self._known.all:
            return
        people = await self._people()
        kept = [(one, to) for one in wanted for to in concerned(one, people, self._known)]
        if kept:
            async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
                await self._keep(connection, kept)
            self._came.set()
        told = {one.notice for one, _ in kept}
        for one in wanted:
            if one.notice not in told:
                logger.warning(
                    "nobody_to_notify", extra={"action": one.action, "groups": one.groups}
                )

    async def _keep(self, connection: Connection, kept: Sequence[tuple[Wanted, str]]) -> None:
        """Keep all of it; one that cannot be kept is logged, and holds up none behind it."""
        try:
            await notices.keep(connection, kept)
        except Exception as failure:
            if is_trouble(failure):
                raise
            if len(kept) == 1:
                logger.exception("notifier_failed", extra={"destination": kept[0][1]})
                return
            for one in kept:
                await self._keep(connection, [one])

    async def run(self, stop: asyncio.Event) -> None:
        """Tell until `stop` is set. Nothing but cancellation ends it."""
        async with asyncio.TaskGroup() as tasks:
            while not stop.is_set():
                self._came.clear()
                await self._unless_trouble("", self._begin(tasks))
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LOOK_MS / 1_000):
                        await self._came.wait()
            for task in tuple(self._telling.values()):
                task.cancel()

    async def _begin(self, tasks: asyncio.TaskGroup) -> None:
        """Try what is due, each destination by itself: one that hangs holds up no other."""
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            waiting = await notices.waiting(connection)
            await notices.forget(connection, now_ms=self._now_ms())
        for destination in self._known.all:
            if destination.id in waiting and destination.id not in self._telling:
                self._telling[destination.id] = tasks.create_task(self._tell(destination))

    async def _tell(self, destination: Destination) -> None:
        try:
            await self._unless_trouble(destination.id, self._told(destination))
        finally:
            del self._telling[destination.id]

    async def _unless_trouble(self, destination: str, work: Awaitable[None]) -> None:
        """Trouble with one destination, or with the database, waits for a better time."""
        try:
            await work
        except Exception as failure:
            if is_trouble(failure):
                logger.warning(
                    "notices_wait", extra={"destination": destination, "failure": repr(failure)}
                )
            else:
                logger.exception("notifier_failed", extra={"destination": destination})

    async def _told(self, destination: Destination) -> None:
        """Claim, try, and write down what came of it; no connection is held while it is tried."""
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            claimed = await notices.claim(
                connection,
                destination.id,
                new_id=f"msg_{secrets.token_hex(12)}",
                now_ms=self._now_ms(),
                quiet_ms=self._quiet_ms,
            )
        if claimed is None:
            return
        message = Message(claimed.message, claimed.wanted, self._now_ms())
        why = await send(destination, message, self._pages, self._known.smtp)
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            if why is None:
                await self._taken(connection, destination, claimed)
            else:
                await self._refused(connection, destination, claimed, why)

    async def _taken(
        self, connection: Connection, destination: Destination, claimed: Claimed
    ) -> None:
        now_ms = self._now_ms()
        await notices.sent(connection, destination.id, claimed.message, now_ms=now_ms)
        self.sent_count += 1
        told = {"destination": destination.id, "actions": len(claimed.wanted)}
        logger.info("people_notified", extra=told)

    async def _refused(
        self, connection: Connection, destination: Destination, claimed: Claimed, why: str
    ) -> None:
        """Try again later, more and more rarely, and not for ever."""
        now_ms, tries = self._now_ms(), claimed.tries + 1
        told: dict[str, object] = {"destination": destination.id, "reason": why, "tries": tries}
        if tries >= TRIES_MAX:
            await notices.give_up(connection, destination.id, claimed.message, now_ms=now_ms)
            self.given_up_count += 1
            logger.error("notice_given_up", extra={**told, "given_up": self.given_up_count})
            return
        wait_ms = min(TRY_AGAIN_FIRST_MS * 2 ** (tries - 1), TRY_AGAIN_MAX_MS)
        await notices.failed(
            connection, destination.id, claimed.message, again_ms=now_ms + wait_ms, why=why
        )
        logger.warning("notice_not_taken", extra={**told, "again_ms": wait_ms})
