"""The finder's promises: it sees what there is, and says absent only after asking."""

import asyncio

import pytest

from reconciler.providers.port import (
    Absent,
    Deadlines,
    Found,
    Inconclusive,
    ListingFailed,
    Succeeded,
)
from tests.contract.calls import Call, eventually, finding, now_ms, performing
from tests.contract.stage import Behaviour, Stage
from tests.patience import PATIENCE_MS, PATIENCE_SECONDS

PATIENT = Deadlines(connect_ms=60_000, response_ms=60_000)
"""For many calls at once that only make what a list is to show."""


async def test_a_finder_cannot_perform(stage: Stage) -> None:
    """Whoever looks up holds nothing that can make an effect."""
    async with finding(stage) as finder:
        assert not hasattr(finder, "perform")


async def test_absent_is_said_before_the_lag_is_over_and_found_after(stage: Stage) -> None:
    """A search that is behind says how far it reaches, so that nobody takes it for proof."""
    lag_ms = stage.capabilities(Behaviour.LAGGING_SEARCH).search_lag_ms
    assert isinstance(lag_ms, int)
    async with asyncio.timeout(PATIENCE_SECONDS):
        # A busy machine may be too slow to see the lag.
        while True:
            call = Call.on(stage, Behaviour.LAGGING_SEARCH)
            async with performing(stage) as performer, finding(stage) as finder:
                outcome = await call.perform(performer)
                committed_by = now_ms()
                early = await call.find(finder)
            if lag_ms == 0 or now_ms() < call.entries[0].arrived_at + lag_ms:
                break
    if lag_ms == 0:
        # Its lookups do not rest on what is behind.
        assert isinstance(early, Found)
        return
    assert isinstance(early, Absent)
    assert early.searched_until_at is not None
    assert early.searched_until_at < committed_by
    await eventually(lambda: now_ms() > committed_by + lag_ms)
    async with finding(stage) as finder:
        late = await call.find(finder)
    assert isinstance(late, Found)
    assert isinstance(outcome, Succeeded)
    assert late.reference == outcome.reference


async def test_a_known_reference_is_found_at_once(stage: Stage) -> None:
    """Asking by the provider's own id does not wait for its index."""
    call = Call.on(stage, Behaviour.LAGGING_SEARCH)
    async with performing(stage) as performer, finding(stage) as finder:
        outcome = await call.perform(performer)
        assert isinstance(outcome, Succeeded)
        found = await call.find(finder, reference=outcome.reference)
    assert isinstance(found, Found)
    assert found.reference == outcome.reference


async def test_an_effect_without_a_key_is_found_by_its_marker(stage: Stage) -> None:
    """Where there are no keys the action key in the metadata leads to the effect."""
    call = Call.on(stage, Behaviour.UNIQUE_REFERENCES)
    async with performing(stage) as performer, finding(stage) as finder:
        await call.perform(performer)
        found = await call.find(finder)
    assert isinstance(found, Found)
    assert found.provider_key is None
    assert [found.reference] == call.effects


async def test_two_effects_under_one_action_are_both_shown(stage: Stage) -> None:
    """An act that happened twice is never reported as one."""
    call = Call.on(stage, Behaviour.IGNORES_KEYS)
    async with performing(stage) as performer, finding(stage) as finder:
        await call.perform(performer)
        await call.perform(performer)
        found = await call.find(finder)
    assert isinstance(found, Found)
    assert [found.reference, *found.further_references] == call.effects


async def test_a_reference_of_another_action_proves_nothing(stage: Stage) -> None:
    """An id that leads to somebody else's effect is neither found nor absent."""
    mine, other = Call.on(stage), Call.on(stage)
    other = Call(stage, mine.account)
    async with performing(stage) as performer, finding(stage) as finder:
        outcome = await other.perform(performer)
        assert isinstance(outcome, Succeeded)
        found = await mine.find(finder, reference=outcome.reference)
    assert found == Inconclusive("effect_of_another_action")


async def test_a_reference_that_the_provider_does_not_know_is_no_absence(stage: Stage) -> None:
    """Somebody saw that reference: its absence is a contradiction, not an answer."""
    call = Call.on(stage)
    async with finding(stage) as finder:
        assert await call.find(finder, reference="ch_none") == Inconclusive("reference_not_found")


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (Behaviour.SEARCH_DOWN, "search_unavailable"),
        (Behaviour.NOTHING_AT_ALL, "search_not_offered"),
    ],
)
async def test_a_search_without_an_answer_is_inconclusive(
    stage: Stage, behaviour: Behaviour, code: str
) -> None:
    """A lookup that nobody answered is never an absence, and a listing breaks off loudly."""
    call = Call.on(stage, behaviour)
    async with finding(stage) as finder:
        assert await call.find(finder) == Inconclusive(stage.word(code))
        with pytest.raises(ListingFailed) as failed:
            async for _ in finder.list_effects(
                account=call.account, since_at=0, timeout_ms=PATIENCE_MS
            ):
                pass
    assert failed.value.code == stage.word(code)


async def test_a_lookup_ends_at_its_deadline(stage: Stage) -> None:
    """The time of a lookup is bounded in all, whatever it asks."""
    call = Call.on(stage)
    async with finding(stage) as finder:
        found = await finder.find(
            account=call.account,
            provider_key=call.action_key,
            action_key=call.action_key,
            reference=None,
            timeout_ms=0,
        )
    assert found == Inconclusive("lookup_timed_out")


async def test_the_list_shows_every_effect_once_and_in_order(stage: Stage) -> None:
    """Paging neither repeats nor leaves out, and the time given is where it starts."""
    calls = [Call.on(stage)]
    calls += [Call(stage, calls[0].account) for _ in range(219)]
    async with performing(stage) as performer, finding(stage) as finder:
        async with asyncio.TaskGroup() as group:
            for call in calls:
                group.create_task(call.perform(performer, deadlines=PATIENT))
        listing = finder.list_effects(account=calls[0].account, since_at=0, timeout_ms=PATIENCE_MS)
        listed = [effect async for effect in listing]
        middle = listed[110].committed_at
        listing = finder.list_effects(
            account=calls[0].account, since_at=middle, timeout_ms=PATIENCE_MS
        )
        later = [effect async for effect in listing]
    made = [entry.effect for entry in stage.book(calls[0].account)]
    assert [effect.reference for effect in listed] == made
    assert {effect.action_key for effect in listed} == {call.action_key for call in calls}
    assert later == [effect for effect in listed if effect.committed_at >= middle]


async def test_the_list_shows_effects_that_are_not_ours(stage: Stage) -> None:
    """An effect that somebody made past the ledger is listed without an action key."""
    account = stage.account(Behaviour.HONOURS_KEYS)
    for _ in range(2):
        await asyncio.to_thread(stage.strange_effect, account)
    async with finding(stage) as finder:
        listing = finder.list_effects(account=account, since_at=0, timeout_ms=PATIENCE_MS)
        listed = [effect async for effect in listing]
    assert [effect.action_key for effect in listed] == [None, None]
