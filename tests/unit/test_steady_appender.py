"""The steady appender: a spent producer is replaced, once, and the next append goes on."""

import asyncio
from collections.abc import Sequence

import pytest

from ledger.log.port import Appended, AppendUnknownError, Outgoing
from ledger.log.steady import SteadyAppender

RECORD = Outgoing(b"key", b"value")


class Line:
    """A log that fails when it is told to; `open` counts appenders that were not closed."""

    def __init__(self) -> None:
        self.records: list[Outgoing] = []
        self.started = 0
        self.open = 0
        self.fails = 0

    async def appender(self) -> "OneLine":
        """Give another appender."""
        self.started += 1
        self.open += 1
        await asyncio.sleep(0)
        return OneLine(self)


class OneLine:
    """One appender of the line, spent by its first failure."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._is_spent = False

    async def append(
        self, topic: str, partition: int, records: Sequence[Outgoing]
    ) -> list[Appended]:
        """Append, unless it is spent or made to fail."""
        assert (topic, partition) == ("evidence", 0)
        await asyncio.sleep(0)
        if self._is_spent or self._line.fails:
            self._line.fails = max(0, self._line.fails - 1)
            self._is_spent = True
            raise AppendUnknownError("not acknowledged", hint="append again")
        self._line.records += records
        return [Appended(len(self._line.records) - 1, 0)]

    async def close(self) -> None:
        """Let go."""
        self._line.open -= 1


async def test_it_starts_one_producer_for_all_that_append_at_once() -> None:
    """However many begin at the same moment, one producer serves them."""
    line = Line()
    steady = SteadyAppender(line.appender)
    assert line.started == 0
    await asyncio.gather(*(steady.append("evidence", 0, [RECORD]) for _ in range(10)))
    assert (line.started, len(line.records)) == (1, 10)
    await steady.close()
    assert line.open == 0


async def test_a_spent_producer_is_let_go_and_replaced() -> None:
    """The append that failed is told so; the next one goes through a new producer."""
    line = Line()
    steady = SteadyAppender(line.appender)
    await steady.append("evidence", 0, [RECORD])
    line.fails = 1
    with pytest.raises(AppendUnknownError):
        await steady.append("evidence", 0, [RECORD])
    assert line.open == 0
    await steady.append("evidence", 0, [RECORD])
    assert (line.started, line.open, len(line.records)) == (2, 1, 2)
    await steady.close()


async def test_several_that_fail_together_replace_it_once() -> None:
    """However many used the spent producer, it is closed once, and one new one serves them."""
    line = Line()
    steady = SteadyAppender(line.appender)
    line.fails = 1
    appends = [steady.append("evidence", 0, [RECORD]) for _ in range(5)]
    outcomes = await asyncio.gather(*appends, return_exceptions=True)
    failed = sum(isinstance(outcome, AppendUnknownError) for outcome in outcomes)
    assert failed > 0
    await asyncio.gather(*(steady.append("evidence", 0, [RECORD]) for _ in range(5)))
    assert (line.started, line.open, len(line.records)) == (2, 1, 10 - failed)
    await steady.close()
    await steady.close()
    assert line.open == 0


async def test_once_closed_it_starts_nothing_more() -> None:
    """Whoever still appends is told so; a producer that was being started meanwhile is let go."""
    line = Line()
    steady = SteadyAppender(line.appender)
    late = asyncio.create_task(steady.append("evidence", 0, [RECORD]))
    await asyncio.sleep(0)
    assert line.started == 1
    await steady.close()
    with pytest.raises(AppendUnknownError):
        await late
    with pytest.raises(AppendUnknownError):
        await steady.append("evidence", 0, [RECORD])
    assert (line.started, line.open, line.records) == (1, 0, [])
