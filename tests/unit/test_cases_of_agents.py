"""Public failure cases about agents that run again: a framework resumes a step by running all of it
from its beginning, so whatever it asked for before, it asks for again.
"""

import pytest

from actionledger import (
    AwaitingApproval,
    Intent,
    Result,
    Succeeded,
    UnknownAction,
    UnstableKey,
    derived_event,
    testing,
)
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


@pytest.mark.case("C019")
@pytest.mark.parametrize(
    ("event", "item", "path", "code"),
    [
        ("bankaccount_None", None, "/business_event", "left_over"),
        ("order-7", "attempt-2", "/item", "attempt_number"),
        ("call_Ab3dEf6hIj9lMn2pQr5tUv8x", None, "/business_event", "call_id"),
        ("renewal-2026-08-28T10-15-00Z", None, "/business_event", "time_stamp"),
    ],
)
async def test_c019_a_name_that_changes_with_every_try_is_refused_at_the_door(
    event: str, item: str | None, path: str, code: str
) -> None:
    """C019: the caller is told which piece, and a model that its own words are not what is wrong.
    Nothing is recorded.
    """
    intent = create("x").model_copy(update={"business_event": event, "item": item})
    async with testing.ledger() as world:
        with pytest.raises(UnstableKey) as refused:
            await world.ledger.propose(intent)
        assert (refused.value.status, refused.value.code) == (422, "unstable_key")
        (problem,) = refused.value.problems
        assert (problem.path, problem.code) == (path, code)
        assert "in other words" in refused.value.text_for_model
        with pytest.raises(UnknownAction):
            await world.ledger.get(f"ticket:v1:acme:{event}")
        assert world.provider.effects == ()


async def test_a_run_that_is_resumed_finds_what_it_did_under_a_derived_key() -> None:
    """The same run, operation and fields are one effect; another run is another."""
    async with testing.ledger() as world:
        for run in ("run-7", "run-7", "run-8"):
            event = derived_event(run, "ticket", {"thing": "x"})
            intent = create("x").model_copy(update={"business_event": event})
            assert isinstance(await world.ledger.propose(intent), Succeeded)
        assert len(world.provider.effects) == 2


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
