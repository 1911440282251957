"""`log tail`: which records it shows, and in which order, without a broker."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from gateway.cli import log as command
from ledger.log.port import Record


def record(partition: int, offset: int, at: int) -> Record:
    """A record of the ledger at a place, of a log time."""
    return Record("ledger", partition, offset, at, b"acme/e", b"{}", ())


async def batches(*given: list[Record]) -> AsyncIterator[tuple[list[Record], bool]]:
    """What was there at the start, in batches; then that it is all; then what is new."""
    for batch in given:
        yield batch, False
    yield [], True
    yield [record(0, 99, 99)], True


def found(wanted: command._Wanted, *given: list[Record]) -> list[tuple[int, int]]:
    """Partition and offset of what is shown of them."""
    total = sum(map(len, given))
    shown = asyncio.run(command._found(batches(*given), wanted, total))
    return [(one.partition, one.offset) for one in shown]


def wanted(*, begin: int | None = None, last: int = 3) -> command._Wanted:
    """Records of the ledger."""
    return command._Wanted("ledger", None, begin, None, None, last, follow=False)


def test_the_last_records_are_those_of_all_partitions() -> None:
    """A partition that is read last holds none of the newest by that: they are told by log time,
    and records of one time stay in the order of their partition.
    """
    newest = [record(0, 7, 70), record(0, 8, 80), record(0, 9, 90)]
    older = [record(1, offset, offset) for offset in range(1, 60)]
    assert found(wanted(), newest, *([one] for one in older)) == [(0, 7), (0, 8), (0, 9)]
    beside = [record(1, 3, 85), record(1, 4, 90)]
    assert found(wanted(last=4), newest, beside) == [(0, 8), (1, 3), (0, 9), (1, 4)]


def test_from_an_offset_on_it_reads_no_further_than_it_shows() -> None:
    """The first ones from there, and the rest of a long log is left alone."""

    async def long() -> AsyncIterator[tuple[list[Record], bool]]:
        for offset in range(5, 9):
            yield [record(0, offset, offset)], False
        pytest.fail("it read on")

    asked = wanted(begin=5, last=3)
    shown = asyncio.run(command._found(long(), asked, 1_000_000))
    assert [one.offset for one in shown] == [5, 6, 7]


def test_what_is_followed_from_an_offset_on_has_no_gap() -> None:
    """All that was there from it, however much, and then what is new; without an offset the last
    ones come before what is new.
    """

    async def shown(asked: command._Wanted) -> list[int]:
        there = [[record(0, offset, offset)] for offset in range(5, 12)]
        following = command._shown(batches(*there), asked, 7)
        return [one.offset async for one in following]

    from_there = replace(wanted(begin=5, last=3), follow=True)
    assert asyncio.run(shown(from_there)) == [5, 6, 7, 8, 9, 10, 11, 99]
    assert asyncio.run(shown(replace(wanted(last=3), follow=True))) == [9, 10, 11, 99]
    assert asyncio.run(shown(wanted(begin=5, last=3))) == [5, 6, 7]
