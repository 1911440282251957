"""Public failure cases about what was read before: old starts that nobody may act on again, and a
log that promises records and gives none.
"""

import asyncio
import contextlib
from collections.abc import Iterable

import pytest

from ledger.log import reading
from ledger.log.port import Record
from ledger.log.reading import Place, read_up_to
from ledger.log.trouble import LogUnreachableError
from streams.assignments import Assignments
from tests import examples as x
from tests.ledgers import LedgerBuilder

OLD = 2_500


@pytest.mark.case("C151")
def test_c151_an_executor_that_begins_again_acts_on_nothing_old() -> None:
    """C151: positions are gone, and thousands of old starts lie in the log. A new incarnation acts
    on starts that spend an offer of its own, made after it had read to the end: so on none of them,
    also where somebody gave it an old name.
    """
    builder = LedgerBuilder()
    for number in range(OLD):
        builder.take(x.propose(f"charge:v1:acme:old-{number}"))
    for name in (x.HOLDER, "another"):
        assignments = Assignments(name, ("charge",), {0: 8})
        acted = [one for record in builder.records() for one in assignments.feed(record)]
        assert acted == []
        assert assignments.next_offset(0) == builder.ends()[0]
        assert assignments.offer(0, 0, valid_ms=6_000) is None
        assignments.caught_up(0)
        offered = assignments.offer(0, 0, valid_ms=6_000)
        assert offered is not None
        assert offered.seen_offset == builder.ends()[0] - 1


class Silent:
    """A reader of a partition whose records never come, though its end says that there are some."""

    async def read(self, *, timeout_ms: int, records_max: int = 1) -> list[Record]:
        """Nothing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1_000):
                await asyncio.Event().wait()
        return []

    def pause(self, topic: str, partition: int) -> None:
        """Nothing to pause."""

    async def end_offsets(self, places: Iterable[Place]) -> dict[Place, int]:
        """Forty records that cannot be seen."""
        return dict.fromkeys(places, 140)

    async def close(self) -> None:
        """Nothing is held."""


@pytest.mark.case("C153")
async def test_c153_a_visible_end_that_stands_still_is_an_alarm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C153: who must read to an end, and gets nothing, says so and ends; it never goes on with what
    it has.
    """
    monkeypatch.setattr(reading, "STALLED_SECONDS_MAX", 0.05)
    monkeypatch.setattr(reading, "LOOK_MS", 10)
    place = ("ledger", 0)
    records = read_up_to(Silent(), {place: 100}, {place: 140})
    with pytest.raises(LogUnreachableError, match="though there are some"):
        await anext(records)
