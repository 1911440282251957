"""What a projector keeps of folded streams: bounded, and never less than is not written yet."""

from typing import Any

import pytest

from ledger.core.snapshot import dump
from ledger.core.state import Stream
from ledger.log.port import Record
from projections import projector
from projections import session as module
from projections.fold import Batch, Held
from projections.projector import _slices
from projections.rows import STREAMS, stream_row
from projections.session import Session

NOBODY: Any = None


def batch(*streams: tuple[str, int]) -> Batch:
    """A batch with the rows of these streams, each with where it stands."""
    rows = [stream_row(Stream(key), 0, next_offset) for key, next_offset in streams]
    return Batch(rows={STREAMS.name: rows})


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Session:
    """One that holds three streams, of which a batch in the making has changed the oldest."""
    monkeypatch.setattr(module, "STREAMS_HELD_BYTES_MAX", 1_000)
    made = Session(NOBODY, NOBODY, NOBODY, {})
    for number in range(3):
        made.hold(f"acme/e{number}", Held(Stream(f"acme/e{number}"), number + 1))
        made.sizes.add(f"acme/e{number}", 400)
    made.unwritten["acme/e0"] = 1
    return made


def test_long_streams_are_let_go_by_what_they_take(session: Session) -> None:
    """The oldest of those that are written; a stream of an unwritten batch would come back from the
    tables as it was before.
    """
    session.let_go()
    assert list(session.held) == ["acme/e0", "acme/e2"]
    session.let_go()
    assert list(session.held) == ["acme/e0", "acme/e2"]


def test_a_written_batch_frees_what_stands_where_it_was_written(session: Session) -> None:
    """What a later batch has changed again is not written by this one."""
    session.written(batch(("acme/e0", 1)))
    session.hold("acme/e1", Held(Stream("acme/e1"), 9))
    session.unwritten["acme/e1"] = 9
    session.written(batch(("acme/e1", 2)))
    assert session.unwritten == {"acme/e1": 9}
    session.sizes.add("acme/e0", 1_000)
    session.let_go()
    assert list(session.held) == ["acme/e2", "acme/e1"]


def test_settled_streams_count_no_more(session: Session) -> None:
    """They leave with the commit."""
    session.settled.append(("acme/e1", 2))
    session.let_go()
    assert list(session.held) == ["acme/e0", "acme/e2"]
    assert session.sizes.total_bytes == 800


def test_a_stream_takes_what_its_newest_row_says(session: Session) -> None:
    """Not what its records took together, and nothing once it is let go; nor does one count that
    nothing is expected of.
    """
    written = batch(("acme/e1", 2), ("acme/e2", 3), ("acme/e9", 1))
    written.settled.append(("acme/e2", 3))
    state = len(dump(Stream("acme/e1")))
    session.written(written)
    session.written(written)
    assert session.sizes.total_bytes == 400 + state + 400
    session.let_go()
    assert session.sizes.total_bytes == 400 + state
    assert "acme/e2" not in session.held


def test_slices_end_by_records_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few records, fewer where they are large, one at least; none is left out or comes twice."""
    monkeypatch.setattr(projector, "SLICE_RECORDS_MAX", 3)
    monkeypatch.setattr(projector, "SLICE_BYTES_MAX", 100)
    sizes = [1, 1, 1, 1, 60, 60, 500, 100, 1]
    records = [
        Record("ledger", 0, offset, 0, b"", b"x" * size, ()) for offset, size in enumerate(sizes)
    ]
    assert list(_slices(records)) == [(0, 3), (3, 6), (6, 7), (7, 8), (8, 9)]
