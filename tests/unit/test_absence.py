"""A search that says it is further behind than declared has proven nothing."""

import pytest

from ledger.core.money import Money
from reconciler.absence import BEHIND, counted
from reconciler.providers.port import Absent, Found, Inconclusive, Lookup

NOW = 1_800_000_000_000
LAG, SKEW = 5_000, 1_000
FOUND = Found("ch_1", Money(minor=1, currency="EUR"), {}, None)


def judged(answer: Lookup) -> Lookup:
    """What counts of an answer to a question of this moment."""
    return counted(answer, asked_at=NOW, search_lag_ms=LAG, skew_ms=SKEW)


@pytest.mark.parametrize("behind_ms", [-1_000, 0, LAG, LAG + SKEW])
def test_an_index_that_reaches_as_far_as_declared_counts(behind_ms: int) -> None:
    """Within the declared lag, and what clocks may be apart, absent is absent."""
    answer = Absent(NOW - behind_ms)
    assert judged(answer) == answer


def test_an_index_that_is_further_behind_proves_nothing() -> None:
    """The effect may be in what was not searched: asked again, and never taken for absent."""
    assert judged(Absent(NOW - LAG - SKEW - 1)) == Inconclusive(BEHIND)


@pytest.mark.parametrize("answer", [Absent(None), FOUND, Inconclusive("http_503")])
def test_whatever_says_nothing_of_its_index_is_as_it_is(answer: Lookup) -> None:
    """Without the provider's word the declared lag counts, and what was found is found."""
    assert judged(answer) == answer
