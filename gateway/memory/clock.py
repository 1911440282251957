"""Time that moves only when somebody waits for it or moves it.

Guarantees that nothing happens out of the order of its moments, and that work of the installation
which can go on without time has gone on before the next moment comes. Must never read a clock or
sleep. Called by everything in `gateway.memory`.
"""

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from ledger.log.simulated import VirtualTime

TURNS: Final = 25
"""Turns of the event loop that others get between two moments, where several callers wait: enough
for an answer to reach its caller through client and door.
"""

_T = TypeVar("_T")


class HandClock:
    """Virtual time for asynchronous code. Use it in one event loop."""

    def __init__(self, now: int) -> None:
        self.time = VirtualTime(now)
        """The moment that it is, for the simulated log. Nothing is asked of it."""
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._asked = 0
        self._busy = 0
        self._waiters = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failure: BaseException | None = None

    @property
    def now(self) -> int:
        """Milliseconds since the epoch."""
        return self.time.now

    def after(self, delay_ms: int, call: Callable[[], None]) -> None:
        """Make a call in so many milliseconds; calls for one moment come in the order of asking."""
        self._asked += 1
        heapq.heappush(self._queue, (self.now + max(0, delay_ms), self._asked, call))

    async def sleep(self, delay_ms: int) -> None:
        """Wait for a later moment. Only work that `spawn` or `run` began may."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                self._busy += 1
                woken.set_result(None)

        self.after(delay_ms, wake)
        self._busy -= 1
        await woken

    def spawn(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Begin work that goes on as time passes. What it raises ends whoever moves time next."""
        self._busy += 1
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        self._busy -= 1
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do work, and let time pass for as long as it takes."""
        task = self.spawn(work)
        await self.until(task.done, self.now + 2**40)
        return await task

    async def until(self, holds: Callable[[], bool], deadline_at: int) -> bool:
        """Let time pass, moment by moment, until something holds; False at the deadline."""
        self.after(deadline_at - self.now, lambda: None)
        self._waiters += 1
        try:
            while True:
                await self._quiet()
                if holds():
                    return True
                if self.now >= deadline_at:
                    return False
                self.time.now, _, call = heapq.heappop(self._queue)
                call()
        finally:
            self._waiters -= 1

    async def _quiet(self) -> None:
        """Let everything go on that does not wait for time."""
        for _ in range(TURNS if self._waiters > 1 else 1):
            await asyncio.sleep(0)
        while self._busy > 0:  # noqa: ASYNC110 - it never waits: each turn lets some work go on
            await asyncio.sleep(0)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    async def close(self) -> None:
        """End what still runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
