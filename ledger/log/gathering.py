"""An appender for many callers at once: what comes for a partition while an append to it is on its
way goes into the next one together.

Guarantees what the appender behind it does, for each caller alone: whoever is answered has their
records in the log, and of callers whose records were appended together all hear of a failure. The
order in which they came is kept within a partition. A caller that gives up leaves the others alone;
its records may be in the log. Never more than one append to a partition is at work, so it must not
be used where one that hangs may hold others up beyond their own deadline. Holds what its callers
wait for and no more: whoever lets them in bounds it. Used by the door of webhooks and by executors.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ledger.core.errors import LedgerError
from ledger.log.port import Appended, Appender, AppendUnknownError, Outgoing
from ledger.log.trouble import LogRefusedError

_Place = tuple[str, int]


@dataclass(slots=True)
class _Part:
    """The records of one caller."""

    records: Sequence[Outgoing]
    answer: "asyncio.Future[list[Appended]]"


class _Patience:
    """Ends waits that take too long, with one timer for all of them."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._until_s: dict[asyncio.Future[list[Appended]], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def wait_for(self, answer: "asyncio.Future[list[Appended]]") -> list[Appended]:
        """The answer. Raises AppendUnknownError where it does not come in time."""
        loop = asyncio.get_running_loop()
        self._until_s[answer] = loop.time() + self._patience_s
        if self._timer is None:
            self._timer = loop.call_later(self._patience_s, self._end_waits, loop)
        try:
            return await answer
        finally:
            del self._until_s[answer]

    def _end_waits(self, loop: asyncio.AbstractEventLoop) -> None:
        """End those that are over. They stand in the order in which they began."""
        self._timer = None
        for answer, until_s in self._until_s.items():
            if until_s > loop.time():
                self._timer = loop.call_at(until_s, self._end_waits, loop)
                return
            if not answer.done():
                answer.set_exception(_too_late())


class GatheringAppender:
    """Appends through another appender, in as few appends as the callers' pace allows."""

    def __init__(self, appender: Appender, *, patience_s: float | None = None) -> None:
        """`appender` is closed with this one. Who has waited for `patience_s` is answered that it
        is not known.
        """
        self._appender = appender
        self._waiting: dict[_Place, list[_Part]] = {}
        self._at_work: dict[_Place, asyncio.Task[None]] = {}
        self._patience = None if patience_s is None else _Patience(patience_s)
        self._is_closed = False

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """See `Appender.append`."""
        if not records:
            return []
        if self._is_closed:
            raise _closed()
        place = (topic, partition)
        part = _Part(records, asyncio.get_running_loop().create_future())
        self._waiting.setdefault(place, []).append(part)
        if place not in self._at_work:
            self._at_work[place] = asyncio.create_task(self._work(place), name="gathered_appends")
        if self._patience is None:
            return await part.answer
        return await self._patience.wait_for(part.answer)

    async def _work(self, place: _Place) -> None:
        """Append until nobody waits for this partition."""
        try:
            while place in self._waiting:
                parts = [part for part in self._waiting.pop(place) if not part.answer.done()]
                if parts:
                    await self._append(place, parts)
        finally:
            del self._at_work[place]

    async def _append(self, place: _Place, parts: Sequence[_Part]) -> None:
        together = [record for part in parts for record in part.records]
        try:
            landed = iter(await self._appender.append(*place, together))
        except BaseException as failure:
            # Each gets one of its own: what is raised carries the stack of who raised it.
            for part in parts:
                if not part.answer.done():
                    part.answer.set_exception(_of_their_own(failure))
            if not isinstance(failure, Exception):
                raise
            return
        for part in parts:
            places = [next(landed) for _ in part.records]
            if not part.answer.done():
                part.answer.set_result(places)

    async def close(self) -> None:
        """Let go; who still waits does not learn what became of their records."""
        self._is_closed = True
        for task in list(self._at_work.values()):
            task.cancel()
        await asyncio.gather(*self._at_work.values(), return_exceptions=True)
        for parts in self._waiting.values():
            for part in parts:
                if not part.answer.done():
                    part.answer.set_exception(_closed())
        self._waiting.clear()
        await self._appender.close()


def _of_their_own(failure: BaseException) -> LedgerError:
    """The failure for one of those who share it: refused for all of them, or not known."""
    own: LedgerError = AppendUnknownError(
        f"An append that several share was not acknowledged ({failure!r}).",
        hint="The records may be in the log. Appending again is safe for what counts once.",
    )
    if isinstance(failure, LogRefusedError):
        own = LogRefusedError(failure.message, hint=failure.hint)
    own.__cause__ = failure
    return own


def _too_late() -> AppendUnknownError:
    return AppendUnknownError(
        "An append was not acknowledged in time.",
        hint="The records may be in the log. Appending again is safe for what counts once.",
    )


def _closed() -> AppendUnknownError:
    return AppendUnknownError(
        "This appender is closed.", hint="Whoever closed it has stopped; start anew."
    )
