"""What a member of the reconciler saw lately, written down every few seconds for whoever watches.

Guarantees that watching never costs an event: while the database is away nothing is written and
nothing else waits. Run by the wiring beside the Faust app.
"""

import asyncio
import logging
import secrets

import asyncpg

from reconciler.limits import ACQUIRE_SECONDS
from reconciler.parking import Connection, parked_counts
from reconciler.receiving import is_trouble
from reconciler.windows import WebhookWindow, Windows, write_windows
from streams.attention import AttentionWindow
from streams.clock import wall_ms
from streams.limits import SHOWN_EVERY_MS, UNMATCHED_COUNTED_MS

logger = logging.getLogger("actionledger")


class WindowWriter:
    """Writes this member's windows."""

    def __init__(
        self, pool: asyncpg.Pool, webhooks: WebhookWindow, attention: AttentionWindow
    ) -> None:
        self._pool = pool
        self._webhooks = webhooks
        self._attention = attention
        self._member = secrets.token_hex(8)
        self._unmatched: dict[str, int] = {}
        self._unmatched_at = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Write until asked to stop, or cancelled."""
        while not stop.is_set():
            try:
                await self.show()
            except Exception as failure:
                if not is_trouble(failure):
                    raise
                logger.warning("windows_not_shown", extra={"failure": repr(failure)})
            await asyncio.sleep(SHOWN_EVERY_MS / 1_000)

    async def show(self) -> None:
        """Write once. Raises trouble of Postgres."""
        now_ms = wall_ms()
        async with self._pool.acquire(timeout=ACQUIRE_SECONDS) as connection:
            await self._count_unmatched(connection, now_ms)
            windows = Windows(
                webhooks=self._webhooks.webhooks(now_ms),
                matched_within=self._webhooks.matched_within(now_ms),
                attention={kind.value: count for kind, count in self._attention.counts().items()},
                unmatched=self._unmatched,
                unmatched_at=self._unmatched_at,
            )
            await write_windows(connection, self._member, windows, now_ms=now_ms)

    async def _count_unmatched(self, connection: Connection, now_ms: int) -> None:
        """Seldom: it looks at every row that waits."""
        if now_ms - self._unmatched_at >= UNMATCHED_COUNTED_MS:
            self._unmatched = await parked_counts(connection, now_ms=now_ms)
            self._unmatched_at = now_ms
