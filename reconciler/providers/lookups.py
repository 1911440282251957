"""What every search at a provider has in common: a time, and no answer that can be read.

Guarantees that trouble of a question becomes `Inconclusive`, which proves nothing, and never an
absence. Called by the finders of adapters.
"""

import asyncio
from collections.abc import Awaitable

from reconciler.providers.port import Inconclusive, Lookup


class Unanswered(Exception):
    """A question got no answer that can be read; never seen outside of the adapter."""

    def __init__(self, code: str, retry_after_ms: int | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.retry_after_ms = retry_after_ms


async def looked_up(looking: Awaitable[Lookup], *, timeout_ms: int) -> Lookup:
    """What a search found within `timeout_ms` in all."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await looking
    except Unanswered as unanswered:
        return Inconclusive(unanswered.code, unanswered.retry_after_ms)
    except TimeoutError:
        return Inconclusive("lookup_timed_out")
