"""A replay: to any offset or time, and what it finds in rows that are not what the log says."""

from dataclasses import replace
from typing import Any

import pytest

from ledger.audit.replay import Replay, ReplayStoppedError, StoredStream, compare, replay
from ledger.core.snapshot import FOLD_VERSION, dump
from ledger.core.state import Stream
from tests import examples as x
from tests.ledgers import LedgerBuilder, MemoryLog, history


def stored(replayed: Replay) -> list[StoredStream]:
    """The rows that a projection of the same log has."""
    return [
        StoredStream(key, one.next_offset, FOLD_VERSION, dump(one.stream))
        for key, one in replayed.streams.items()
    ]


def settled() -> LedgerBuilder:
    """A charge, from proposal to proof, 40 ms later."""
    builder = LedgerBuilder()
    builder.take(x.propose())
    builder.take(x.report(x.success()), later_ms=40)
    return builder


async def test_a_replay_has_every_state() -> None:
    """To the end of all partitions it has what the owners had."""
    builder = history(3, partitions=3)
    found = await replay(MemoryLog(builder.everything()), range(3))
    assert {key: one.stream for key, one in found.streams.items()} == {
        key: stream for key, stream in builder.streams.items() if stream != Stream(key)
    }
    assert found.void_count == sum(fold.void_count for fold in found.folds.values())


async def test_a_replay_ends_where_it_is_told() -> None:
    """Up to an offset it has exactly the decisions below it, and says how far it has come."""
    builder = settled()
    heard: list[tuple[int, int]] = []
    found = await replay(
        MemoryLog(builder.records()),
        [0],
        until={0: 4},
        progress=lambda done, total: heard.append((done, total)),
    )
    assert found.folds[0].next_offset == 4
    assert found.streams[x.STREAM].stream.actions[0].status == "attempting"
    assert heard[-1] == (4, 4)


async def test_an_offset_of_nothing_is_an_empty_replay() -> None:
    """A partition that is not asked for is not read."""
    found = await replay(MemoryLog(settled().records()), [0], until={})
    assert found.streams == {}


async def test_a_replay_ends_at_a_time() -> None:
    """As of a time there is nothing that was decided later."""
    log = MemoryLog(settled().records())
    before = await replay(log, [0], as_of=x.T0 + 39)
    assert before.streams[x.STREAM].stream.actions[0].status == "attempting"
    at = await replay(log, [0], as_of=x.T0 + 40)
    assert at.streams[x.STREAM].stream.actions[0].status == "completed"


async def test_a_replay_stops_at_what_cannot_be_folded() -> None:
    """A record that counts and cannot be folded ends it, with its place."""
    builder = settled()
    offset = builder.break_decision()
    with pytest.raises(ReplayStoppedError) as stopped:
        await replay(MemoryLog(builder.records()), [0])
    assert (stopped.value.partition, stopped.value.offset) == (0, offset)


async def test_equal_rows_have_no_difference() -> None:
    """Rows of the same log at the same offsets are what it says."""
    found = await replay(MemoryLog(history(4).records()), [0])
    assert compare(found.streams, stored(found)) == ()


async def test_an_edited_row_is_named_field_by_field() -> None:
    """A status that somebody changed by hand is found, with both values."""
    found = await replay(MemoryLog(settled().records()), [0])
    (row,) = stored(found)
    edited = row.state.replace(b'"status":"completed"', b'"status":"failed"')
    (difference,) = compare(
        found.streams, [StoredStream(row.key, row.next_offset, row.fold_version, edited)]
    )
    assert difference.path == "/actions/0/status"
    assert (difference.log, difference.stored) == ("completed", "failed")
    assert str(difference) == (
        "acme/renewal-1 /actions/0/status: the log says 'completed', the projection 'failed'"
    )


@pytest.mark.parametrize(
    ("row", "path", "kept"),
    [
        pytest.param({"next_offset": 4}, "next_offset", 4, id="behind"),
        pytest.param({"fold_version": 0}, "fold_version", 0, id="version"),
        pytest.param({"state": b"{"}, "", "bytes that are no JSON", id="damaged"),
        pytest.param({"state": dump(Stream(x.STREAM))}, "/actions/0", None, id="emptied"),
    ],
)
async def test_other_differences_are_named(row: dict[str, Any], path: str, kept: object) -> None:
    """A row that is behind, of another version or damaged says which."""
    found = await replay(MemoryLog(settled().records()), [0])
    (good,) = stored(found)
    (difference,) = compare(found.streams, [replace(good, **row)])
    assert (difference.path, difference.stored) == (path, kept)


async def test_the_same_values_in_other_bytes_are_a_difference() -> None:
    """The state is exact: reordered or reformatted bytes are not it."""
    found = await replay(MemoryLog(settled().records()), [0])
    (row,) = stored(found)
    loose = row.state.replace(b'"key":', b'"key": ', 1)
    (difference,) = compare(
        found.streams, [StoredStream(row.key, row.next_offset, row.fold_version, loose)]
    )
    assert difference.stored == "other bytes"


async def test_missing_and_foreign_streams_are_named() -> None:
    """A stream on one side only is a difference on either side."""
    found = await replay(MemoryLog(settled().records()), [0])
    foreign = StoredStream("globex/other", 1, FOLD_VERSION, dump(Stream("globex/other")))
    missing, unknown = compare(found.streams, [foreign])
    assert (missing.stream, missing.stored) == (x.STREAM, None)
    assert (unknown.stream, unknown.log) == ("globex/other", None)
