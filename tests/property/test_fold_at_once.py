"""Folding a decision at once gives what folding its facts one by one gives, and leaves the stream
before it as it was.
"""

import pytest

from ledger.core.evolve import Place, evolve, evolve_all
from ledger.core.records import Decision
from ledger.core.snapshot import dump
from ledger.core.state import Stream
from ledger.log.envelope import read_ledger
from tests.ledgers import history


@pytest.mark.parametrize("seed", range(20))
def test_a_decision_at_once_is_its_facts_one_by_one(seed: int) -> None:
    """Whatever an action can meet, in one decision after the other."""
    streams: dict[str, Stream] = {}
    for record in history(seed).everything():
        read = read_ledger(record.value)
        if not isinstance(read, Decision) or not read.facts:
            continue
        before = streams.get(read.stream) or Stream(read.stream)
        place, was = Place(read.at, read.decided_at), dump(before)
        one_by_one = before
        for fact in read.facts:
            one_by_one = evolve(one_by_one, fact, place)
        assert evolve_all(before, read.facts, place) == one_by_one
        assert dump(before) == was
        streams[read.stream] = one_by_one
    assert streams
