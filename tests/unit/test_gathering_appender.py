"""Appends gathered from many callers: few on the wire, one answer for each caller."""

import asyncio
from collections.abc import Sequence

import pytest

from ledger.log.gathering import GatheringAppender
from ledger.log.port import Appended, AppendUnknownError, Outgoing
from ledger.log.trouble import LogRefusedError


def record(number: int) -> Outgoing:
    """One that can be told from others."""
    return Outgoing(b"key", str(number).encode())


class Gate:
    """An appender that holds each append back until it is let go, and fails when told to."""

    def __init__(self) -> None:
        self.appends: list[tuple[str, int, list[Outgoing]]] = []
        self.begun = asyncio.Semaphore(0)
        self.free = asyncio.Semaphore(0)
        self.fails = False
        self.refuses = False
        self.is_closed = False

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """Append when let go."""
        before = sum(len(one) for *_, one in self.appends)
        self.appends.append((topic, partition, list(records)))
        self.begun.release()
        await self.free.acquire()
        if self.fails:
            self.fails = False
            raise AppendUnknownError("not acknowledged", hint="append again")
        if self.refuses:
            raise LogRefusedError("no rights", hint="ask for them")
        return [Appended(before + ordinal, 0) for ordinal in range(len(records))]

    async def close(self) -> None:
        """Let go."""
        self.is_closed = True


async def let_all_wait() -> None:
    """Give every task that can run its turn."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_what_comes_during_an_append_goes_into_the_next_one() -> None:
    """One append at a time, in the order of the callers, each told where its own records stand."""
    gate = Gate()
    gathering = GatheringAppender(gate)
    callers = [
        asyncio.create_task(gathering.append("webhooks", 0, [record(number)]))
        for number in range(5)
    ]
    await gate.begun.acquire()
    late = asyncio.create_task(gathering.append("webhooks", 0, [record(5), record(6)]))
    await let_all_wait()
    gate.free.release()
    gate.free.release()
    answers = [place.offset for caller in callers for place in await caller]
    assert answers == [0, 1, 2, 3, 4]
    assert [place.offset for place in await late] == [5, 6]
    assert [len(records) for *_, records in gate.appends] == [5, 2]
    assert [one.value for *_, records in gate.appends for one in records] == [
        str(number).encode() for number in range(7)
    ]
    await gathering.close()


async def test_partitions_do_not_wait_for_each_other() -> None:
    """An append that hangs holds up its own partition only."""
    gate = Gate()
    gathering = GatheringAppender(gate)
    hanging = asyncio.create_task(gathering.append("webhooks", 0, [record(0)]))
    await gate.begun.acquire()
    other = asyncio.create_task(gathering.append("webhooks", 1, [record(1)]))
    await gate.begun.acquire()
    gate.free.release()
    gate.free.release()
    await asyncio.gather(hanging, other)
    assert [partition for _, partition, _ in gate.appends] == [0, 1]
    await gathering.close()


async def test_a_failure_is_told_to_all_who_share_the_append_and_to_nobody_else() -> None:
    """Nobody is answered as if durable; whoever comes next is appended anew."""
    gate = Gate()
    gathering = GatheringAppender(gate)
    sharing = [
        asyncio.create_task(gathering.append("webhooks", 0, [record(number)]))
        for number in range(3)
    ]
    await gate.begun.acquire()
    next_one = asyncio.create_task(gathering.append("webhooks", 0, [record(3)]))
    await let_all_wait()
    gate.fails = True
    gate.free.release()
    failures = await asyncio.gather(*sharing, return_exceptions=True)
    assert all(isinstance(failure, AppendUnknownError) for failure in failures)
    assert len({id(failure) for failure in failures}) == 3
    gate.free.release()
    assert len(await next_one) == 1
    await gathering.close()


async def test_a_caller_that_gives_up_leaves_the_others_alone() -> None:
    """Cancelled while it waits, its records are not appended; during the append, others hear."""
    gate = Gate()
    gathering = GatheringAppender(gate)
    first = asyncio.create_task(gathering.append("webhooks", 0, [record(0)]))
    beside = asyncio.create_task(gathering.append("webhooks", 0, [record(1)]))
    await gate.begun.acquire()
    waiting = asyncio.create_task(gathering.append("webhooks", 0, [record(2)]))
    behind = asyncio.create_task(gathering.append("webhooks", 0, [record(3)]))
    await let_all_wait()
    first.cancel()
    waiting.cancel()
    await let_all_wait()
    gate.free.release()
    gate.free.release()
    assert [place.offset for place in await beside] == [1]
    assert len(await behind) == 1
    assert [one.value for *_, records in gate.appends for one in records] == [b"0", b"1", b"3"]
    await gathering.close()


async def test_closing_answers_whoever_waits() -> None:
    """Nobody is left waiting, and the appender behind it is closed."""
    gate = Gate()
    gathering = GatheringAppender(gate)
    at_work = asyncio.create_task(gathering.append("webhooks", 0, [record(0)]))
    await gate.begun.acquire()
    waiting = asyncio.create_task(gathering.append("webhooks", 0, [record(1)]))
    await let_all_wait()
    await gathering.close()
    for caller in (at_work, waiting):
        with pytest.raises(AppendUnknownError):
            await caller
    assert gate.is_closed
    with pytest.raises(AppendUnknownError):
        await gathering.append("webhooks", 0, [record(2)])


async def test_an_append_of_nothing_waits_for_nobody() -> None:
    """As every appender has it."""
    gate = Gate()
    assert await GatheringAppender(gate).append("webhooks", 0, []) == []
    assert gate.appends == []


async def test_a_refusal_is_one_for_each_who_shares_it() -> None:
    """Whoever would ask again where nobody answered ends where it is told no."""
    gate = Gate()
    gate.refuses = True
    gathering = GatheringAppender(gate)
    sharing = [
        asyncio.create_task(gathering.append("attempts", 0, [record(number)]))
        for number in range(2)
    ]
    gate.free.release()
    failures = await asyncio.gather(*sharing, return_exceptions=True)
    assert [str(failure) for failure in failures] == ["no rights ask for them"] * 2
    assert all(isinstance(failure, LogRefusedError) for failure in failures)
    await gathering.close()


async def test_who_waits_too_long_is_told_so_and_is_not_appended_later() -> None:
    """Behind an append that hangs too; that one goes on, and may be in the log."""
    gate = Gate()
    gathering = GatheringAppender(gate, patience_s=0.01)
    hanging = asyncio.create_task(gathering.append("webhooks", 0, [record(0)]))
    await gate.begun.acquire()
    behind = asyncio.create_task(gathering.append("webhooks", 0, [record(1)]))
    for waiting in (hanging, behind):
        with pytest.raises(AppendUnknownError, match="in time"):
            await waiting
    gate.free.release()
    await let_all_wait()
    assert [one.value for *_, records in gate.appends for one in records] == [b"0"]
    with pytest.raises(AppendUnknownError, match="in time"):
        await gathering.append("webhooks", 1, [record(2)])
    await gathering.close()


async def test_patience_that_lasts_ends_nobody() -> None:
    """An answer that came is the caller's, however many wait beside it."""
    gate = Gate()
    gathering = GatheringAppender(gate, patience_s=3_600)
    callers = [
        asyncio.create_task(gathering.append("webhooks", place, [record(place)]))
        for place in range(3)
    ]
    await let_all_wait()
    callers[0].cancel()
    for _ in callers:
        gate.free.release()
    assert [len(await one) for one in callers[1:]] == [1, 1]
    await gathering.close()
