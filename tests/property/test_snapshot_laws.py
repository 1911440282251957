"""Laws of the serialised state: exact both ways, and the same bytes in every process."""

import hashlib
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.records import Decision
from ledger.core.snapshot import dump, load
from ledger.core.state import Stream
from ledger.log.envelope import read_ledger
from ledger.log.fold import PartitionFold, fold_decision
from tests.ledgers import history

PRINT_DIGEST = "from tests.property import test_snapshot_laws as t; print(t.digest_of_states())"


def digest_of_states() -> str:
    """One digest over the states of a whole history."""
    states = b"".join(dump(stream) for stream in history(7).streams.values())
    return hashlib.sha256(states).hexdigest()


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_every_state_of_a_history_round_trips(seed: int) -> None:
    """Whatever a stream has been through, its bytes give it back, and it gives its bytes back."""
    streams: dict[str, Stream] = {}
    fold = PartitionFold(0)
    for record in history(seed, steps=60).records():
        read = fold.feed(record)
        if isinstance(read, Decision) and (read.facts or read.gate):
            before = streams.get(read.stream) or Stream(read.stream)
            after = streams[read.stream] = fold_decision(before, read)
            raw = dump(after)
            assert load(raw) == after
            assert dump(load(raw)) == raw


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_folding_on_from_bytes_is_folding_on(seed: int) -> None:
    """A stream that was written and loaded between any two decisions goes on as if it never was."""
    builder = history(seed, steps=60, events=2)
    loaded: dict[str, Stream] = {}
    fold = PartitionFold(0)
    for record in builder.records():
        read = fold.feed(record)
        if isinstance(read, Decision) and (read.facts or read.gate):
            before = loaded.get(read.stream) or Stream(read.stream)
            loaded[read.stream] = load(dump(fold_decision(before, read)))
    assert loaded == {
        key: stream for key, stream in builder.streams.items() if stream != Stream(key)
    }


@pytest.mark.law("S22")
@pytest.mark.parametrize("hash_seed", ["0", "1", "random"])
def test_bytes_do_not_depend_on_the_process(hash_seed: str) -> None:
    """Another process, with strings hashed otherwise, writes the same bytes."""
    printed = subprocess.run(
        [sys.executable, "-c", PRINT_DIGEST],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert printed.strip() == digest_of_states()


def test_a_record_is_read_as_it_was_written() -> None:
    """The builder's records are those of the envelope: every one of them reads back."""
    assert all(read_ledger(record.value) for record in history(3, partitions=2).everything())
