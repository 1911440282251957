"""Laws of the replay: as of any time it is what had been decided by then."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.audit.replay import Replay
from ledger.core.records import Decision
from ledger.log.envelope import read_ledger
from tests import examples as x
from tests.ledgers import history


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32), later=st.integers(0, 200_000))
def test_any_time_is_a_prefix_of_each_partition(seed: int, later: int) -> None:
    """As of any time the states are those of the decisions up to it."""
    builder = history(seed, steps=60, partitions=2)
    replayed, expected = Replay(as_of=x.T0 + later), Replay()
    for partition in range(2):
        for record in builder.records(partition):
            replayed.feed(record)
        for record in builder.records(partition):
            read = read_ledger(record.value)
            if isinstance(read, Decision) and read.decided_at > x.T0 + later:
                break
            expected.feed(record)
    assert replayed.streams == expected.streams
