"""Who puts questions to providers, and whose turn is next: so many at a time for each provider.

Guarantees that a provider that hangs is waited for by its own askers and nobody else's; that of
those who wait at one provider each partition and in it each tenant is served in turn; and that an
account which asked to be left alone is asked nothing until its time is over, while the provider's
other accounts are. What putting a question means is the inquirer's; without I/O of its own.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping

from streams.inquiring import Asked, Inquiring
from streams.limits import LOOKUPS_AT_ONCE_MAX

Put = Callable[[Inquiring, Asked], Awaitable[None]]
"""Put one question of a partition, to its end."""


class Askers:
    """Tasks that ask, while there is anything to ask."""

    def __init__(self, put: Put, now_ms: Callable[[], int]) -> None:
        """`now_ms` is a clock that only goes forward."""
        self._put = put
        self._now_ms = now_ms
        self._at_work: defaultdict[str, set[asyncio.Task[None]]] = defaultdict(set)
        self._asked_last: dict[str, int] = {}
        self._paused_until_ms: dict[tuple[str, str], int] = {}

    def begin(self, tasks: asyncio.TaskGroup, followed: Mapping[int, Inquiring]) -> None:
        """Let as many ask at each provider as may at once and find a question there. Each goes on
        with whoever's turn is next until nobody waits, so call it whenever questions have come, and
        now and then for those whose pause is over. `followed` may change meanwhile.
        """
        names = (name for one in followed.values() for name in one.providers())
        for provider in dict.fromkeys(names):
            askers = self._at_work[provider]
            while len(askers) < LOOKUPS_AT_ONCE_MAX:
                turn = self._next(provider, followed)
                if turn is None:
                    break
                asker = tasks.create_task(self._ask(provider, turn, followed))
                askers.add(asker)
                asker.add_done_callback(askers.discard)

    def pause(self, provider: str, account: str, wait_ms: int) -> None:
        """Ask nothing of an account for so long, or longer where it has said so before."""
        place = (provider, account)
        until_ms = self._now_ms() + wait_ms
        self._paused_until_ms[place] = max(until_ms, self._paused_until_ms.get(place, 0))

    def cancel(self) -> None:
        """Leave what is at work to others."""
        for askers in self._at_work.values():
            for asker in askers:
                asker.cancel()

    async def _ask(
        self, provider: str, turn: tuple[Inquiring, Asked] | None, followed: Mapping[int, Inquiring]
    ) -> None:
        while turn is not None:
            await self._put(*turn)
            turn = self._next(provider, followed)

    def _next(
        self, provider: str, followed: Mapping[int, Inquiring]
    ) -> tuple[Inquiring, Asked] | None:
        """The next question for a provider, of the partition behind the one that was last."""

        def may_ask(account: str) -> bool:
            return self._is_open(provider, account)

        last = self._asked_last.get(provider, -1)
        for partition in sorted(followed, key=lambda one: (one <= last, one)):
            asked = followed[partition].take_question(provider, may_ask)
            if asked is not None:
                self._asked_last[provider] = partition
                return followed[partition], asked
        return None

    def _is_open(self, provider: str, account: str) -> bool:
        place = (provider, account)
        until_ms = self._paused_until_ms.get(place)
        if until_ms is not None and until_ms <= self._now_ms():
            del self._paused_until_ms[place]
            return True
        return until_ms is None
