"""What an owner asks a database for: some streams at a time, and nothing again that is not to be
had.
"""

from collections.abc import Collection, Mapping

import pytest

from ledger.core.state import Stream
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from projections.cold import ColdStore, ColdStoreError
from projections.errors import DamagedRowsError
from projections.fold import Held
from projections.states import ColdStreams
from streams.cold_loading import ColdLoading
from streams.limits import COLD_STREAMS_AT_ONCE_MAX
from streams.owner import Owner
from tests.ledgers import GENERATION, LedgerBuilder

COUNT = 3 * COLD_STREAMS_AT_ONCE_MAX


class Rows(ColdStore):
    """Rows at hand, as a database would give them; remembers what it was asked for."""

    def __init__(self, projected_offset: int, *, damaged: Collection[str] = ()) -> None:
        self.projected_offset = projected_offset
        self.damaged = damaged
        self.asked: list[list[str]] = []

    async def load(self, keys: Mapping[int, Collection[str]]) -> dict[int, ColdStreams]:
        """All but the damaged ones."""
        (wanted,) = keys.values()
        self.asked.append(list(wanted))
        streams = {key: Held(Stream(key), 1) for key in wanted if key not in self.damaged}
        damaged = {key: "a fact is missing" for key in wanted if key in self.damaged}
        return {0: ColdStreams(self.projected_offset, streams, damaged)}


def owner() -> Owner:
    """The owner of a partition that begins where its projection stands, and holds nothing."""
    fold = PartitionFold(0)
    for record in LedgerBuilder().records():
        fold.feed(record)
    return Owner(0, 1, GENERATION, "nonce", checkpoint=fold)


def inputs(count: int) -> list[Record]:
    """So many inputs, each about a stream of its own."""
    return [
        Record("intents", 0, number, 0, b"acme/e%d" % number, b"", ()) for number in range(count)
    ]


async def brought(loading: ColdLoading, one: Owner, given: list[Record]) -> None:
    """Rounds, until nothing more is asked for."""
    before = -1
    while before != (before := sum(one.is_missing(record) for record in given)):
        await loading.bring({0: one}, {0: given})


async def test_streams_are_asked_for_in_parts_and_in_the_order_of_inputs() -> None:
    """An answer about all that wait would take a turn of everybody else's."""
    one, given = owner(), inputs(COUNT)
    rows = Rows(one.fold.next_offset)
    await brought(ColdLoading(rows), one, given)
    assert not any(map(one.is_missing, given))
    assert max(map(len, rows.asked)) == COLD_STREAMS_AT_ONCE_MAX
    asked = [key for part in rows.asked for key in part]
    assert asked == [record.key.decode() for record in given if record.key]


async def test_a_stream_with_damaged_rows_waits_and_is_not_asked_for_again_at_once() -> None:
    """Neither held nor new; the others are."""
    one, given = owner(), inputs(3)
    rows = Rows(one.fold.next_offset, damaged={"acme/e1"})
    loading = ColdLoading(rows)
    for _ in range(3):
        await loading.bring({0: one}, {0: given})
    assert [one.is_missing(record) for record in given] == [False, True, False]
    assert rows.asked == [["acme/e0", "acme/e1", "acme/e2"]]


async def test_a_projection_that_is_behind_is_asked_once_a_round() -> None:
    """It says nothing, and would say it as often as it is asked."""
    one, given = owner(), inputs(2)
    rows = Rows(0)
    loading = ColdLoading(rows)
    for _ in range(2):
        await loading.bring({0: one}, {0: given})
    assert all(map(one.is_missing, given))
    assert len(rows.asked) == 2


async def test_who_folds_the_ledger_needs_every_stream_of_it() -> None:
    """Where one is not to be had, or the database has gone back, that is said by name."""
    one, given = owner(), inputs(2)
    behind = ColdLoading(Rows(0))
    with pytest.raises(ColdStoreError, match="behind"):
        await behind.bring_all({0: one}, given)
    damaged = ColdLoading(Rows(one.fold.next_offset, damaged={"acme/e1"}))
    with pytest.raises(DamagedRowsError, match="acme/e1"):
        await damaged.bring_all({0: one}, given)
