"""What an absence is worth: a search that says it is further behind than declared has proven
nothing, and one that knows when the effect can have come about needs to look at no other time.
"""

import pytest

from ledger.core.money import Money
from reconciler.absence import BEHIND, counted, span_of
from reconciler.providers.port import Absent, Found, Inconclusive, Lookup, Span
from tests import examples as x

NOW = 1_800_000_000_000
LAG, SKEW = 5_000, 1_000
FOUND = Found("ch_1", Money(minor=1, currency="EUR"), {}, None)


def judged(answer: Lookup) -> Lookup:
    """What counts of an answer to a question of this moment."""
    return counted(answer, asked_at=NOW, wanted_at=NOW - 50, search_lag_ms=LAG, skew_ms=SKEW)


@pytest.mark.parametrize("behind_ms", [-1_000, 0, LAG, LAG + SKEW])
def test_an_index_that_reaches_as_far_as_declared_counts(behind_ms: int) -> None:
    """Within the declared lag, and what clocks may be apart, absent is absent."""
    answer = Absent(NOW - behind_ms)
    assert judged(answer) == answer


def test_an_index_that_is_further_behind_proves_nothing() -> None:
    """The effect may be in what was not searched: asked again, and never taken for absent."""
    assert judged(Absent(NOW - LAG - SKEW - 1)) == Inconclusive(BEHIND)


def test_a_machine_whose_clock_is_an_hour_behind_makes_no_index_look_fresh() -> None:
    """Family `search`, beside C095: by the clock of the inquirer the index reaches into its future,
    by the log's it is far behind. It proves nothing, so nothing is sent again because of it.
    """
    hour_ms = 3_600_000
    told = {"asked_at": NOW - hour_ms, "search_lag_ms": LAG, "skew_ms": SKEW}
    behind = Absent(NOW - hour_ms // 2)
    assert counted(behind, wanted_at=NOW, **told) == Inconclusive(BEHIND)
    assert counted(Absent(NOW - LAG), wanted_at=NOW, **told) == Absent(NOW - LAG)


@pytest.mark.parametrize("answer", [Absent(None), FOUND, Inconclusive("http_503")])
def test_whatever_says_nothing_of_its_index_is_as_it_is(answer: Lookup) -> None:
    """Without the provider's word the declared lag counts, and what was found is found."""
    assert judged(answer) == answer


def test_an_effect_comes_about_between_the_first_start_and_the_horizon_of_the_last() -> None:
    """From the first start to the end of the last lease, what a provider may settle after it, and
    what clocks may be apart at either end.
    """
    asked = x.asked(2).model_copy(
        update={"first_started_at": NOW, "last_lease_until": NOW + 90_000}
    )
    span = span_of(asked, settle_horizon_ms=7_000, skew_ms=SKEW)
    assert span == Span(NOW - SKEW, NOW + 90_000 + 7_000 + SKEW)


def test_a_question_from_before_it_told_its_span_has_none() -> None:
    """What older logs hold is asked about as ever: whenever the effect may have come about."""
    older = x.asked(1).model_copy(update={"first_started_at": None, "last_lease_until": None})
    assert span_of(older, settle_horizon_ms=1, skew_ms=SKEW) is None
