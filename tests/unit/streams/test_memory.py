"""What the owner of a partition holds of its streams, and what it may conclude from rows."""

import pytest

from ledger.core.invariants import BrokenInvariantError
from ledger.core.state import Stream
from projections.fold import Held
from projections.states import ColdStreams
from streams.memory import StreamMemory
from tests.examples import propose, request
from tests.ledgers import LedgerBuilder


def with_streams(count: int, *, held_max: int = 100) -> StreamMemory:
    """Streams e0, e1, … each of one decision at the offset of its number."""
    memory = StreamMemory(held_max)
    for number in range(count):
        memory.put(Stream(f"acme/e{number}"), number + 1)
    return memory


def test_a_memory_that_has_everything_asks_for_nothing() -> None:
    """An owner that folded from the genesis knows of every key whether it is new."""
    memory = with_streams(2)
    assert memory.knows("acme/e9")
    assert memory.stream("acme/e9") == Stream("acme/e9")


def test_nothing_is_let_go_that_the_projection_does_not_have() -> None:
    """A stream whose last decision is not projected yet would come back as it was before."""
    memory = with_streams(5, held_max=2)
    memory.projected(2)
    assert [stream.key for stream in memory.let_go(())] == ["acme/e0", "acme/e1"]
    assert (len(memory), memory.cold_floor) == (3, 1)
    memory.projected(5)
    assert [stream.key for stream in memory.let_go(())] == ["acme/e2"]


def test_the_stream_used_last_stays_longest() -> None:
    """A decision makes its stream the youngest."""
    memory = with_streams(3, held_max=2)
    memory.put(Stream("acme/e0"), 4)
    memory.projected(4)
    assert [stream.key for stream in memory.let_go(())] == ["acme/e1"]


def test_a_pinned_stream_is_not_let_go() -> None:
    """A tick is on its way to it."""
    memory = with_streams(3, held_max=2)
    memory.projected(3)
    assert memory.let_go({"acme/e0"}) == []


def test_a_database_that_is_behind_what_was_let_go_says_nothing() -> None:
    """A row that is missing would mean new, and a second charge would look like a first one."""
    memory = with_streams(3, held_max=0)
    memory.projected(3)
    memory.let_go(())
    assert memory.cold_floor == 2
    assert not memory.knows("acme/e1")
    behind = ColdStreams(projected_offset=2, streams={})
    assert memory.take_in(["acme/e1"], behind) is None
    assert not memory.knows("acme/e1")
    with pytest.raises(BrokenInvariantError):
        memory.stream("acme/e1")


def test_no_row_means_new_once_the_database_has_passed() -> None:
    """And is asked again in the next round, where nothing came of it."""
    memory = with_streams(1)
    memory.begin_at(10)
    assert memory.take_in(["acme/n"], ColdStreams(10, {})) == {}
    assert memory.stream("acme/n") == Stream("acme/n")
    memory.forget_new()
    assert not memory.knows("acme/n")


def test_what_is_held_wins_over_what_was_read() -> None:
    """Only the owner writes, so that its own stream is never older than a row."""
    memory = with_streams(0)
    memory.begin_at(10)
    memory.put(Stream("acme/a"), 12)
    row = Held(Stream("acme/a"), 9)
    assert memory.take_in(["acme/a"], ColdStreams(11, {"acme/a": row})) == {}
    assert memory.folded_to("acme/a") == 12


FILTER_BYTES = 1_024


def test_a_filled_filter_tells_new_keys_without_a_question() -> None:
    """And says nothing of those that the projection has, before and after it is filled."""
    memory = with_streams(0)
    memory.begin_at(10)
    assert memory.wants_filter
    memory.begin_filter(FILTER_BYTES)
    assert memory.fill({"acme/old"}, 10)
    assert not memory.knows("acme/n")
    memory.filled()
    assert memory.knows("acme/n")
    assert memory.stream("acme/n") == Stream("acme/n")
    assert not memory.knows("acme/old")


def test_what_is_let_go_is_never_filtered_out() -> None:
    """Also while the filter is being filled: the projection may have passed its page by then."""
    memory = with_streams(3, held_max=2)
    memory.begin_at(0)
    memory.begin_filter(FILTER_BYTES)
    memory.projected(3)
    memory.let_go(())
    assert memory.fill((), 3)
    memory.filled()
    memory.held_max = 1
    memory.let_go(())
    assert not memory.knows("acme/e0")
    assert not memory.knows("acme/e1")
    assert memory.knows("acme/e9")


@pytest.mark.parametrize("pages", [(9,), (10, 9)], ids=["first page", "a later page"])
def test_a_filter_from_a_database_that_is_behind_is_given_up(pages: tuple[int, ...]) -> None:
    """A key that it lacks may be one that is not projected yet."""
    memory = with_streams(0)
    memory.begin_at(10)
    memory.begin_filter(FILTER_BYTES)
    assert [memory.fill({"acme/a"}, offset) for offset in pages][-1] is False
    memory.filled()
    assert not memory.knows("acme/n")
    assert memory.wants_filter


def test_an_owner_that_holds_everything_wants_no_filter() -> None:
    """It knows what is new by itself."""
    assert not with_streams(3).wants_filter


def test_long_streams_are_let_go_by_what_they_take() -> None:
    """The bound of bytes is kept as that of streams is, by those that were used last."""
    memory = StreamMemory(100, held_bytes_max=1_000)
    for number in range(5):
        memory.put(Stream(f"acme/e{number}"), number + 1, 300)
    assert memory.is_over
    memory.projected(1)
    assert [stream.key for stream in memory.let_go(())] == ["acme/e0"]
    memory.projected(5)
    assert [stream.key for stream in memory.let_go(())] == ["acme/e1"]
    assert memory.let_go(()) == []
    memory.put(Stream("acme/e4"), 6, 300)
    assert [stream.key for stream in memory.let_go(())] == ["acme/e2"]


def test_what_comes_back_from_the_projection_counts_by_its_state() -> None:
    """Nothing is known of the records that it was made from."""
    memory = StreamMemory(100, held_bytes_max=10_000)
    memory.begin_at(0)
    long = LedgerBuilder()
    for key in ("charge:v1:acme:e1", "charge:v1:acme:e2"):
        long.take(propose(key, request=request(key, text="x" * 9_000)), executor=None)
    came = ColdStreams(3, {key: Held(stream, 2) for key, stream in long.streams.items()})
    assert memory.take_in(list(long.streams), came)
    assert memory.is_over
    assert [stream.key for stream in memory.let_go(())] == ["acme/e1"]
    assert memory.let_go(()) == []


def test_a_stream_that_is_held_is_not_left_out() -> None:
    """Its good row came between the question and the answer that called it damaged: it stands as it
    is held, and a mended row, which nobody looks at, would not have to bring it back.
    """
    memory = with_streams(1)
    memory.leave_out(["acme/e0", "acme/e1"])
    assert [memory.is_left_out(f"acme/e{number}") for number in range(2)] == [False, True]
    assert memory.knows("acme/e0")
