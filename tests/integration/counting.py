"""A provider in memory that knows no keys, so that every call of it is an effect: it counts them,
and answers when it is told to.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from reconciler.providers import port


class CountingProvider:
    """One effect a call. `may_answer` is open unless a test closes it."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.waits_for: set[str] | None = None
        """Only calls for these actions wait; None is every call."""

    async def perform(
        self,
        request: port.ProviderRequest,
        *,
        provider_key: str,
        deadlines: port.Deadlines,
        before_first_byte: Callable[[], None],
    ) -> port.Outcome:
        """Have the effect, answer when it may."""
        try:
            before_first_byte()
        except port.Declined as declined:
            return port.NotSent(declined.code, port.Retry.LATER)
        self.calls[request.action_key] += 1
        if self.waits_for is None or request.action_key in self.waits_for:
            await self.may_answer.wait()
        return port.Succeeded(f"ef_{provider_key}", {})

    async def close(self) -> None:
        """Nothing is open."""
