"""The simulated provider's book outlives its process, and so does what it promised."""

import asyncio

import pytest

from reconciler.providers.port import Found, Inconclusive, NotSent, Retry, Succeeded, Unresolved
from tests.contract.calls import Call, eventually, finding, performing
from tests.contract.stage import Behaviour, DescribedStage, ProviderProcess, SimulatedStage

Adapter = type[SimulatedStage]
RETURNING = [Behaviour.HONOURS_KEYS, Behaviour.UNIQUE_REFERENCES, Behaviour.REMEMBERS_SERVER_ERRORS]


@pytest.fixture(params=[SimulatedStage, DescribedStage])
def adapter(request: pytest.FixtureRequest) -> Adapter:
    """Choose the adapter that the provider is called through."""
    chosen: Adapter = request.param
    return chosen


@pytest.mark.parametrize("behaviour", RETURNING)
async def test_a_killed_provider_keeps_its_memory(
    own_process: ProviderProcess, adapter: Adapter, behaviour: Behaviour
) -> None:
    """Killed after a commit, the provider still makes no second effect under the same key."""
    stage = adapter(own_process)
    call = Call.on(stage, behaviour)
    async with performing(stage) as performer:
        first = await call.perform(performer)
    own_process.kill()
    own_process.start()
    async with performing(stage) as performer, finding(stage) as finder:
        await call.perform(performer)
        found = await call.find(finder)
    assert isinstance(first, Succeeded)
    assert isinstance(found, Found)
    assert call.effects == [first.reference] == [found.reference]


async def test_effects_are_numbered_on_after_a_restart(
    own_process: ProviderProcess, adapter: Adapter
) -> None:
    """No two effects of a book share an id, whatever happened between them."""
    stage = adapter(own_process)
    call = Call.on(stage)
    other = Call(stage, call.account)
    async with performing(stage) as performer:
        await call.perform(performer)
    own_process.kill()
    own_process.start()
    async with performing(stage) as performer:
        await other.perform(performer)
    assert (call.effects, other.effects) == (["ch_1"], ["ch_2"])


async def test_a_provider_can_lose_its_keys_when_it_restarts(
    own_process: ProviderProcess, adapter: Adapter
) -> None:
    """An account whose keys die with the process makes a second effect, as it declares."""
    stage = adapter(own_process)
    call = Call.on(stage, Behaviour.LOSES_KEYS_ON_RESTART)
    async with performing(stage) as performer:
        await call.perform(performer)
        await call.perform(performer)
    assert len(call.effects) == 1
    own_process.kill()
    own_process.start()
    async with performing(stage) as performer:
        await call.perform(performer)
    assert len(call.effects) == 2
    assert not stage.capabilities(Behaviour.LOSES_KEYS_ON_RESTART).replay_proven


async def test_a_provider_that_is_gone_was_not_asked(
    own_process: ProviderProcess, adapter: Adapter
) -> None:
    """A refused connection is not sent, never unresolved, and the guard is not even asked."""
    stage = adapter(own_process)
    call = Call.on(stage)
    asked: list[str] = []
    async with performing(stage) as performer, finding(stage) as finder:
        await call.perform(performer)
        own_process.kill()
        again = await call.perform(performer, guard=lambda: asked.append("asked"))
        found = await call.find(finder)
    assert again == NotSent("connect_refused", Retry.LATER)
    assert asked == []
    assert found == Inconclusive("connect_refused")


async def test_a_provider_killed_while_it_works_leaves_the_outcome_open(
    own_process: ProviderProcess,
    adapter: Adapter,
) -> None:
    """The connection dies after the first byte: nobody can say what happened."""
    stage = adapter(own_process)
    call = Call.on(stage)
    stage.script(call.action_key, "slow", after_ms=5_000)
    async with performing(stage) as performer, asyncio.TaskGroup() as group:
        running = group.create_task(call.perform(performer))
        await eventually(lambda: len(call.effects) == 1)
        own_process.kill()
    outcome = running.result()
    assert outcome == Unresolved("connection_lost")
    assert len(call.effects) == 1


async def test_a_second_provider_on_the_same_book_is_refused(
    own_process: ProviderProcess,
) -> None:
    """Two writers would number their effects alike: the second one does not start."""
    second = ProviderProcess(own_process.folder)
    with pytest.raises(AssertionError, match="ended before"):
        second.start()
    assert own_process.control("mix", {}) == {}
