"""What an owner asks a database for: some streams at a time, and nothing again that is not to be
had.
"""

import asyncio
from collections.abc import Collection, Mapping

import pytest

from ledger.core.state import Stream
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from projections.cold import ColdStore, ColdStoreError
from projections.fold import Held
from projections.states import ColdStreams
from streams import cold_loading as module
from streams.cold_loading import ColdLoading
from streams.limits import COLD_BACKOFF_MS_MAX, COLD_STREAMS_AT_ONCE_MAX, DAMAGED_ASKED_MS
from streams.owner import Owner
from tests.examples import STREAM, T0, propose, report, success
from tests.ledgers import GENERATION, LedgerBuilder

COUNT = 3 * COLD_STREAMS_AT_ONCE_MAX


class Rows(ColdStore):
    """Rows at hand, as a database would give them; remembers what it was asked for."""

    def __init__(self, projected_offset: int, *, damaged: Collection[str] = ()) -> None:
        self.projected_offset = projected_offset
        self.damaged = damaged
        self.asked: list[list[str]] = []
        self.streams: dict[str, Stream] = {}
        self.timers: list[tuple[int, str]] = []
        self.next_offset = 1

    async def load(self, keys: Mapping[int, Collection[str]]) -> dict[int, ColdStreams]:
        """All but the damaged ones."""
        (wanted,) = keys.values()
        self.asked.append(list(wanted))
        streams = {
            key: Held(self.streams.get(key, Stream(key)), self.next_offset)
            for key in wanted
            if key not in self.damaged
        }
        damaged = {key: "a fact is missing" for key in wanted if key in self.damaged}
        return {0: ColdStreams(self.projected_offset, streams, damaged)}

    async def due(
        self, partition: int, behind: tuple[int, str], until: int, limit: int
    ) -> list[tuple[int, str]]:
        """The timers behind a place."""
        return [timer for timer in self.timers if behind < timer <= (until, "")]


class Clock:
    """Stands still until it is set on."""

    def __init__(self) -> None:
        self.now = T0

    def __call__(self) -> int:
        """See `clock.mono_ms`."""
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of what loads; it looks after timers without a pause."""
    clock = Clock()
    monkeypatch.setattr(module, "mono_ms", clock)
    monkeypatch.setattr(module, "LET_GO_CHECK_MS", 0)
    return clock


async def looked(loading: ColdLoading, one: Owner) -> None:
    """Timers were looked after, once."""
    stop = asyncio.Event()

    def owners() -> dict[int, Owner]:
        stop.set()
        return {0: one}

    await loading.keep_up(owners, stop)


def owner(builder: LedgerBuilder | None = None) -> Owner:
    """The owner of a partition that begins where its projection stands, and holds nothing."""
    fold = PartitionFold(0)
    for record in (builder or LedgerBuilder()).records():
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


async def test_a_stream_with_damaged_rows_waits_and_is_not_asked_for_again_at_once(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither held nor new; the others are. It is told once, however often it is asked for."""
    one, given = owner(), inputs(3)
    rows = Rows(one.fold.next_offset, damaged={"acme/e1"})
    loading = ColdLoading(rows)
    for _ in range(3):
        await loading.bring({0: one}, {0: given})
    assert [one.is_missing(record) for record in given] == [False, True, False]
    assert rows.asked == [["acme/e0", "acme/e1", "acme/e2"]]
    clock.now += DAMAGED_ASKED_MS
    await loading.bring({0: one}, {0: given})
    assert rows.asked[1:] == [["acme/e1"]]
    assert [one.message for one in caplog.records] == ["stream_rows_damaged"]


async def test_what_waits_behind_a_damaged_stream_is_not_asked_for_round_after_round() -> None:
    """It cannot be decided; the other inboxes go on."""
    one, given = owner(), inputs(3)
    rows = Rows(one.fold.next_offset, damaged={"acme/e1"})
    loading = ColdLoading(rows)
    await loading.bring({0: one}, {0: given[:2]})
    other = Record("reports", 0, 0, 0, b"acme/other", b"", ())
    for _ in range(3):
        await loading.bring({0: one}, {0: [*given, other]})
    assert rows.asked == [["acme/e0", "acme/e1"], ["acme/other"]]


async def test_a_projection_that_is_behind_is_asked_once_a_round() -> None:
    """It says nothing, and would say it as often as it is asked."""
    one, given = owner(), inputs(2)
    rows = Rows(0)
    loading = ColdLoading(rows)
    for _ in range(2):
        await loading.bring({0: one}, {0: given})
    assert all(map(one.is_missing, given))
    assert len(rows.asked) == 2


async def test_who_folds_the_ledger_says_that_the_database_has_gone_back() -> None:
    """Nothing that it says would be as of where the fold begins."""
    one, given = owner(), inputs(2)
    behind = ColdLoading(Rows(0))
    with pytest.raises(ColdStoreError, match="behind"):
        await behind.bring_all({0: one}, given)


async def test_who_folds_the_ledger_leaves_out_a_stream_with_damaged_rows(clock: Clock) -> None:
    """All others are folded, and it comes back with its timers once a row has all that was passed
    over: a row that was brought back from an older copy would be a stream of the past.
    """
    builder = LedgerBuilder()
    builder.take(propose())
    before = builder.streams[STREAM]
    one = owner(builder)
    begin = one.fold.next_offset
    builder.take(report(success("ch_1")))
    other = builder.take(propose("charge:v1:acme:other")).stream
    rows = Rows(begin, damaged={STREAM})
    loading = ColdLoading(rows)
    for record in builder.records()[begin:]:
        await loading.bring_all({0: one}, [record])
        one.feed(record)
    assert one.fold.next_offset == builder.ends()[0]
    assert one.memory.get(other) == builder.streams[other]
    assert not one.memory.knows(STREAM)
    assert sum(STREAM in asked for asked in rows.asked) == 1
    given = Record("intents", 0, 0, 0, STREAM.encode(), b"", ())
    rows.damaged, rows.streams = (), {STREAM: before}
    clock.now += DAMAGED_ASKED_MS
    await loading.bring({0: one}, {0: [given]})
    await looked(loading, one)
    assert one.is_missing(given)
    assert sum(STREAM in asked for asked in rows.asked) == 2
    rows.next_offset, rows.streams = one.fold.next_offset, dict(builder.streams)
    clock.now += DAMAGED_ASKED_MS
    await looked(loading, one)
    assert one.memory.get(STREAM) == builder.streams[STREAM]


@pytest.mark.parametrize("finds", ["timers", "an input"])
async def test_the_timer_of_a_damaged_stream_comes_back_once_its_rows_are_mended(
    clock: Clock, finds: str
) -> None:
    """Whoever found the damage: its page is read and never read again, others behind it do not
    wait, and an action that is unknown would be asked about by nobody.
    """
    builder = LedgerBuilder()
    builder.take(propose())
    one = owner(builder)
    rows = Rows(one.fold.next_offset, damaged={STREAM})
    rows.streams = dict(builder.streams)
    rows.timers = [(1, STREAM), (2, "acme/other")]
    loading = ColdLoading(rows)
    if finds == "an input":
        given = Record("intents", 0, 0, 0, STREAM.encode(), b"", ())
        await loading.bring({0: one}, {0: [given]})
    for _ in range(3):
        await looked(loading, one)
    assert one.memory.knows("acme/other")
    assert sum(STREAM in asked for asked in rows.asked) == 1
    clock.now += DAMAGED_ASKED_MS
    await looked(loading, one)
    assert sum(STREAM in asked for asked in rows.asked) == 2
    rows.damaged = ()
    clock.now += DAMAGED_ASKED_MS - 1
    await looked(loading, one)
    assert one.next_due_at() is None
    clock.now += 1
    await looked(loading, one)
    assert one.memory.get(STREAM) == builder.streams[STREAM]
    assert one.next_due_at() is not None
    asked = len(rows.asked)
    clock.now += DAMAGED_ASKED_MS
    await looked(loading, one)
    assert len(rows.asked) == asked


class Away(Rows):
    """A database that may be away."""

    is_away = True

    async def load(self, keys: Mapping[int, Collection[str]]) -> dict[int, ColdStreams]:
        """Nothing, while it is away."""
        loaded = await super().load(keys)
        if self.is_away:
            raise ColdStoreError("The database does not answer.", hint="Start it again.")
        return loaded


async def test_a_database_that_is_back_is_not_out_of_reach_though_nothing_waits_any_more(
    clock: Clock,
) -> None:
    """The ticks that asked for it were passed over and ask for nothing more; the next one, hours
    later, was passed over as well, although the database had been there all the time.
    """
    one = owner()
    (given,) = inputs(1)
    rows = Away(one.fold.next_offset)
    loading = ColdLoading(rows)
    await loading.bring({0: one}, {0: [given]})
    assert not loading.is_out_of_reach("acme/e0")
    clock.now += COLD_BACKOFF_MS_MAX
    assert loading.is_out_of_reach("acme/e0")
    await looked(loading, one)
    assert loading.is_out_of_reach("acme/e0")
    asked = len(rows.asked)
    rows.is_away = False
    await looked(loading, one)
    assert len(rows.asked) == asked
    clock.now += COLD_BACKOFF_MS_MAX
    await looked(loading, one)
    assert rows.asked[asked:] == [["acme/e0"]]
    assert not loading.is_out_of_reach("acme/e1")
    assert one.memory.knows("acme/e0")
    await looked(loading, one)
    assert len(rows.asked) == asked + 1


async def test_a_database_is_back_as_well_where_others_have_brought_what_was_asked_for(
    clock: Clock,
) -> None:
    """A page of timers brought it, and it is held."""
    one = owner()
    (given,) = inputs(1)
    rows = Away(one.fold.next_offset)
    loading = ColdLoading(rows)
    await loading.bring({0: one}, {0: [given]})
    rows.is_away, rows.timers = False, [(1, "acme/e0")]
    clock.now += COLD_BACKOFF_MS_MAX
    await looked(loading, one)
    assert len(rows.asked) == 2
    assert not loading.is_out_of_reach("acme/e1")


async def test_a_stream_that_only_an_input_named_comes_back_once_its_rows_are_mended(
    clock: Clock,
) -> None:
    """It was a tick, perhaps, which was passed over: its timer waited for the next one."""
    builder = LedgerBuilder()
    builder.take(propose())
    one = owner(builder)
    rows = Rows(one.fold.next_offset, damaged={STREAM})
    rows.streams = dict(builder.streams)
    loading = ColdLoading(rows)
    given = Record("internal", 0, 0, 0, STREAM.encode(), b"", ())
    await loading.bring({0: one}, {0: [given]})
    rows.damaged = ()
    clock.now += DAMAGED_ASKED_MS
    await looked(loading, one)
    assert one.memory.get(STREAM) == builder.streams[STREAM]
