"""Following a partition: what counts, what is void, and what stops the reader."""

import pytest

from ledger.core.invariants import BrokenInvariantError
from ledger.core.records import Adopted, Cause, Decision, EpochOpened, Genesis, LedgerRecord
from ledger.core.rejections import Unchanged
from ledger.core.state import Stream
from ledger.log.envelope import encode_ledger, ledger_headers
from ledger.log.fold import PartitionFold, fold_decision
from ledger.log.port import Record
from tests.examples import CHARGE, STREAM, T0, automatic, recorded
from tests.unit.core.language import numbered

GENERATION = "generation-1"
GENESIS = Genesis(generation=GENERATION, partition=3, partitions=6)
ADOPTED = Adopted(kind="catalogue", content="# text", content_hash="sha256:1", offset=0)


def at(offset: int, record: LedgerRecord) -> Record:
    """A ledger record as it is read at a place."""
    value = encode_ledger(record, generation=GENERATION, partition=3)
    return Record("ledger", 3, offset, T0, b"k", value, ledger_headers(record))


def epoch(place: int, number: int, adopted: Adopted | None = None) -> EpochOpened:
    """A barrier for a place."""
    return EpochOpened(at=place, epoch=number, nonce="n", adopted=adopted)


def decision(
    place: int, number: int, *, topic: str = "intents", offset: int = 1, time: int = T0
) -> Decision:
    """A decision for a place in an epoch, which changes nothing."""
    return Decision(
        at=place,
        epoch=number,
        cause=Cause(topic=topic, partition=3, offset=offset),
        decided_at=time,
        stream=STREAM,
        unchanged=Unchanged(reason="nothing_due"),
    )


def reader(*records: LedgerRecord) -> PartitionFold:
    """A reader that has read these, one after the other."""
    fold = PartitionFold(3)
    for offset, record in enumerate((GENESIS, *records)):
        fold.feed(at(offset, record))
    return fold


def test_a_reader_begins_with_the_genesis() -> None:
    """Generation and number of partitions are known from the first record on."""
    fold = reader()
    assert (fold.generation, fold.partitions, fold.epoch, fold.next_offset) == (GENERATION, 6, 0, 1)


def test_what_counts_moves_epoch_time_and_positions() -> None:
    """An accepted decision moves the position behind its cause, by inbox."""
    fold = reader(
        epoch(1, 1),
        decision(2, 1, offset=1),
        decision(3, 1, topic="evidence", offset=4, time=T0 + 5),
    )
    assert fold.epoch == 1
    assert fold.positions == {"intents": 2, "evidence": 5}
    assert fold.decided_at == T0 + 5
    assert (fold.next_offset, fold.void_count) == (4, 0)


def test_what_is_void_is_counted_and_changes_nothing() -> None:
    """An old owner's records, a wrong place, and a barrier that collided leave no trace but a
    count.
    """
    fold = reader(
        epoch(1, 1),
        decision(2, 1),
        epoch(3, 2),
        decision(3, 1, offset=2),
        epoch(3, 2),
        epoch(6, 2),
        decision(9, 2, offset=2),
    )
    assert (fold.epoch, fold.void_count, fold.next_offset) == (2, 4, 8)
    assert fold.positions == {"intents": 2}


def test_a_configuration_holds_until_the_next() -> None:
    """It comes with a barrier or a decision, and a barrier without one takes none away."""
    fold = reader(epoch(1, 1, ADOPTED), epoch(2, 2))
    assert fold.adopted == ADOPTED
    newer = ADOPTED.model_copy(update={"content_hash": "sha256:2", "offset": 1})
    adopting = decision(3, 2, topic="config", offset=1).model_copy(
        update={"adopted": newer, "unchanged": None}
    )
    fold.feed(at(3, adopting))
    assert fold.adopted == newer


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_offsets_have_no_gap(offset: int) -> None:
    """A record that is missing or comes again means that this reader knows nothing any more."""
    fold = reader(epoch(1, 1))
    with pytest.raises(BrokenInvariantError):
        fold.feed(at(offset, decision(offset, 1)))


def test_skipping_moves_by_one_and_has_no_gap_either() -> None:
    """A record that is known to open no epoch may be passed over."""
    fold = reader(epoch(1, 1))
    fold.skip(at(2, decision(2, 1)))
    assert fold.next_offset == 3
    with pytest.raises(BrokenInvariantError):
        fold.skip(at(4, decision(4, 1)))


@pytest.mark.parametrize("value", [b"", b"{", b"{}", b"\xff"])
def test_bytes_that_make_no_record_stop_the_reader(value: bytes) -> None:
    """They are never skipped: nobody can say that they do not count."""
    fold = reader(epoch(1, 1))
    with pytest.raises(BrokenInvariantError, match="offset 2"):
        fold.feed(at(2, decision(2, 1))._replace(value=value))
    assert fold.next_offset == 2


def test_an_input_is_decided_once() -> None:
    """A second accepted decision of one input, or of an earlier one, is broken."""
    for offset in (1, 2):
        fold = reader(epoch(1, 1), decision(2, 1, offset=2))
        with pytest.raises(BrokenInvariantError):
            fold.feed(at(3, decision(3, 1, offset=offset)))


def test_log_time_does_not_run_back() -> None:
    """An accepted decision that is older than the one before it is broken."""
    fold = reader(epoch(1, 1), decision(2, 1, time=T0))
    with pytest.raises(BrokenInvariantError):
        fold.feed(at(3, decision(3, 1, offset=2, time=T0 - 1)))


def test_the_genesis_of_another_partition_is_no_beginning() -> None:
    """A reader that was given the wrong partition stops at its first record."""
    with pytest.raises(BrokenInvariantError):
        PartitionFold(4).feed(at(0, GENESIS))


def test_a_decision_folds_whole() -> None:
    """All facts of a decision are folded at its place and time."""
    facts = tuple(numbered(Stream(STREAM), (recorded(), automatic())))
    whole = decision(2, 1, time=T0 + 7).model_copy(update={"facts": facts, "unchanged": None})
    action = fold_decision(Stream(STREAM), whole).action(CHARGE)
    assert action is not None
    assert (action.version, action.intent_offset, action.recorded_at) == (2, 2, T0 + 7)
