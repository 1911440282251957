"""Capabilities are honest: what an adapter declares for an account is what its provider does."""

import pytest

from reconciler.providers.port import (
    IMPOSSIBLE,
    Found,
    Inconclusive,
    Reliability,
    Remembered,
    Succeeded,
    Unresolved,
)
from tests.contract.calls import Call, eventually, finding, now_ms, performing
from tests.contract.stage import Behaviour, Stage

# A behaviour that only shows when the provider restarts, and one that is trouble, not nature.
SHOWN_WHILE_RUNNING = [
    behaviour
    for behaviour in Behaviour
    if behaviour not in {Behaviour.LOSES_KEYS_ON_RESTART, Behaviour.SEARCH_DOWN}
]


@pytest.mark.parametrize("behaviour", SHOWN_WHILE_RUNNING)
async def test_a_second_call_does_what_the_class_says(stage: Stage, behaviour: Behaviour) -> None:
    """Keyed and reference accounts make one effect of two calls; only the others may make two."""
    declared = stage.capabilities(behaviour)
    call = Call.on(stage, behaviour)
    async with performing(stage) as performer:
        await call.perform(performer)
        second = await call.perform(performer)
    guarded = declared.reliability in {Reliability.KEYED, Reliability.REFERENCE}
    assert len(call.effects) == (1 if guarded else 2)
    if declared.replay_proven:
        assert isinstance(second, Succeeded)


@pytest.mark.parametrize("behaviour", SHOWN_WHILE_RUNNING)
async def test_lookups_work_where_they_are_declared(stage: Stage, behaviour: Behaviour) -> None:
    """A declared search finds after its declared lag; where none is declared it proves nothing."""
    declared = stage.capabilities(behaviour)
    call = Call.on(stage, behaviour)
    async with performing(stage) as performer, finding(stage) as finder:
        await call.perform(performer)
        if declared.search_lag_ms is IMPOSSIBLE:
            assert not declared.finds_by_marker
            assert isinstance(await call.find(finder), Inconclusive)
            return
        visible_at = now_ms() + declared.search_lag_ms
        await eventually(lambda: now_ms() > visible_at)
        found = await call.find(finder)
    assert isinstance(found, Found)
    assert (found.provider_key is not None) == bool(declared.finds_by_key)


@pytest.mark.parametrize("behaviour", SHOWN_WHILE_RUNNING)
async def test_remembered_errors_are_declared(stage: Stage, behaviour: Behaviour) -> None:
    """An account repeats a server error for ever exactly where it declares that it does."""
    declared = stage.capabilities(behaviour)
    call = Call.on(stage, behaviour)
    stage.script(call.action_key, "fail_after_commit")
    async with performing(stage) as performer:
        await call.perform(performer)
        second = await call.perform(performer)
    repeats = second == Unresolved(stage.word("internal_error"))
    assert repeats == (Remembered.SERVER_ERROR in declared.remembers)


@pytest.mark.parametrize("behaviour", list(Behaviour))
async def test_every_question_is_answered(stage: Stage, behaviour: Behaviour) -> None:
    """An account without keys has no window, and one without a search has no lag nor horizon."""
    declared = stage.capabilities(behaviour)
    assert (declared.key_window_ms is IMPOSSIBLE) == (declared.reliability != Reliability.KEYED)
    searches = declared.finds_by_key or declared.finds_by_reference or declared.finds_by_marker
    assert (declared.search_lag_ms is IMPOSSIBLE) == (not searches)
    assert (declared.settle_horizon_ms is IMPOSSIBLE) == (not searches)
