"""Public failure cases about agents that run again: a framework resumes a step by running all of it
from its beginning, so whatever it asked for before, it asks for again.
"""

import pytest

from actionledger import AwaitingApproval, Intent, Result, Succeeded, testing
from tests.asking import asked

THINGS = ("cluster-x", "cluster-y", "cluster-z")


def create(thing: str) -> Intent:
    """An intent to have one thing made."""
    return Intent(
        operation="ticket",
        business_event=f"create-{thing}",
        params={"title": f"Create {thing}"},
        environment="test",
    )


async def node(world: testing.World) -> list[Result]:
    """A step of an agent: one tool call after the other, until one waits for a person. It keeps
    nothing, so it always begins at the first.
    """
    results: list[Result] = []
    for thing in THINGS:
        results.append(await world.ledger.propose(create(thing)))
        if not isinstance(results[-1], Succeeded):
            break
    return results


@pytest.mark.case("C117")
async def test_c117_a_step_that_runs_again_makes_each_thing_once() -> None:
    """C117: three tools that each need a yes of their own. After every yes the step runs again from
    its beginning: what was made is told as the result that is stored, never as an error, and the
    next one waits.
    """
    async with testing.ledger(policy=asked("ticket")) as world:
        results = await node(world)
        references: list[str | None] = []
        for made, thing in enumerate(THINGS, start=1):
            waiting = results[-1]
            assert isinstance(waiting, AwaitingApproval)
            assert waiting.key.endswith(thing)
            assert len(world.provider.effects) == made - 1
            await world.approve(waiting.key)
            results = await node(world)
            stored = [one for one in results if isinstance(one, Succeeded)]
            assert len(stored) == made
            assert all(one.replayed for one in stored)
            assert [one.reference for one in stored[:-1]] == references
            references = [one.reference for one in stored]
        assert [one.key for one in world.provider.effects] == [one.key for one in results]
        assert len(set(references)) == len(THINGS)


@pytest.mark.case("C117")
async def test_c117_a_yes_for_one_tool_is_none_for_the_others() -> None:
    """C117: three calls of one model answer wait side by side. Each runs on its own yes, in
    whichever order they come, and asking for all of them again changes nothing.
    """
    async with testing.ledger(policy=asked("ticket")) as world:
        keys = [(await world.ledger.propose(create(thing))).key for thing in THINGS]
        for made, key in enumerate(reversed(keys), start=1):
            await world.approve(key)
            for again in range(2):
                results = [await world.ledger.propose(create(thing)) for thing in THINGS]
                done = [one.key for one in results if isinstance(one, Succeeded)]
                assert sorted(done) == sorted(keys[-made:]), again
            assert len(world.provider.effects) == made
        for key in keys:
            kinds = [fact["type"] for fact in await world.facts(key)]
            assert (kinds.count("attempt.started"), kinds.count("approval.granted")) == (1, 1)
