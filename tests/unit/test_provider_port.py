"""The port's own words: no capability is assumed, and contradictions are refused."""

from dataclasses import MISSING, fields, replace
from typing import get_args

import pytest

from ledger.core import state
from reconciler.providers import null
from reconciler.providers.port import IMPOSSIBLE, POSSIBLE, Capabilities, Reliability, Remembered
from reconciler.providers.simulated.capabilities import CAPABILITIES


def test_no_capability_has_a_default() -> None:
    """An adapter answers every question, or it cannot be built."""
    assert all(
        field.default is MISSING and field.default_factory is MISSING
        for field in fields(Capabilities)
    )


def test_only_possible_is_true() -> None:
    """`if capabilities.x` can never read an impossibility as a yes."""
    assert POSSIBLE
    assert not IMPOSSIBLE


def test_classes_are_called_as_the_ledger_calls_them() -> None:
    """A class means the same in the catalogue, in an action's state and at an adapter."""
    assert {one.value for one in Reliability} == set(get_args(state.Reliability))


@pytest.mark.parametrize(
    ("changes", "contradiction"),
    [
        ({"key_window_ms": IMPOSSIBLE}, "keyed without a key window"),
        ({"reliability": Reliability.LOOKUP}, "replay proven without keys"),
        ({"search_lag_ms": IMPOSSIBLE}, "searchable without a search lag"),
        ({"reliability": Reliability.NONE}, "none, though it can be searched"),
        ({"sends_webhooks": IMPOSSIBLE}, "retries webhooks that it does not send"),
    ],
)
def test_answers_that_cannot_all_be_true_are_refused(
    changes: dict[str, object], contradiction: str
) -> None:
    """A contradiction is found when the adapter is built, not when money moves."""
    with pytest.raises(ValueError, match=contradiction):
        replace(CAPABILITIES, **changes)  # type: ignore[arg-type]


def test_without_any_lookup_there_is_no_lookup_class() -> None:
    """A provider that can do nothing cannot claim lookups, nor remembered answers."""
    without = "lookup without a search by key or marker"
    with pytest.raises(ValueError, match=without):
        replace(null.CAPABILITIES, reliability=Reliability.LOOKUP)
    # Its name for an effect is in the answer, and that is what was lost.
    with pytest.raises(ValueError, match=without):
        replace(
            null.CAPABILITIES,
            reliability=Reliability.LOOKUP,
            finds_by_reference=POSSIBLE,
            search_lag_ms=1_000,
        )
    with pytest.raises(ValueError, match="remembers answers without keys"):
        replace(null.CAPABILITIES, remembers=frozenset({Remembered.SUCCESS}))
