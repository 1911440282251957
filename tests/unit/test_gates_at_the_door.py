"""What an agent meets at the door where ceilings and targets hold it back: the whole product, in
memory.
"""

from collections.abc import AsyncIterator

import pytest

from actionledger import (
    Blocked,
    Call,
    CallerMistake,
    Effect,
    Intent,
    Ledger,
    Money,
    NeedsReview,
    Plan,
    PlannedAction,
    PlannedStep,
    RunUsage,
    SagaResult,
    Succeeded,
    testing,
)
from gateway.memory.queries import MemoryQueries
from gateway.wiring.publishing import default_catalogue

POLICY = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 2
spend = { EUR = 10_000 }
steps = 3
tokens = 1_000

[[ceiling]]
name = "day"
per = "tenant"
window = "day"
zone = "Europe/Berlin"
spend = { EUR = 1_000_000 }

[[row]]
name = "money"
when = { operation = ["refund"] }
outcome = "automatic"
ceilings = ["run", "day"]
block_target = true
reason = "Refunds count by run and day, one at a time on an order."

[[row]]
name = "rest"
outcome = "automatic"
reason = "Everything else goes ahead."
"""


def refund(event: str, *, target: str, minor: int = 1_000, run: str | None = "r1") -> Intent:
    """A refund that counts in a run."""
    return Intent(
        operation="refund",
        business_event=event,
        environment="production",
        target=target,
        params={"charge": "ch_1", "reason": "duplicate"},
        money=Money(minor=minor, currency="EUR"),
        run=run,
    )


@pytest.fixture
async def world() -> AsyncIterator[testing.World]:
    """A ledger with ceilings."""
    async with testing.ledger(policy=POLICY) as opened:
        yield opened


def budget(usage: RunUsage, dimension: str) -> tuple[int, int, int | None]:
    """What is used and reserved of a dimension, and left."""
    (one,) = (one for one in usage.budgets if one.dimension == dimension)
    return one.used, one.reserved, one.left


async def test_an_action_that_passes_its_gates_is_answered_as_done(world: testing.World) -> None:
    """Within the one request: what waits for a gate's word goes on by itself."""
    done = await world.ledger.propose(refund("e1", target="order:1"))
    assert isinstance(done, Succeeded)
    await world.advance(seconds=1)
    usage = await world.ledger.run("r1")
    assert budget(usage, "side_effects") == (1, 0, 1)
    assert budget(usage, "spend.EUR") == (1_000, 0, 9_000)
    assert "1 of 2 side effects" in usage.text_for_model


async def test_one_action_at_a_time_on_a_target(world: testing.World) -> None:
    """The second learns whom it waits for, and goes on by itself once that one is settled."""
    world.provider.drop_next_answer()
    first = await world.ledger.propose(refund("e1", target="order:1"), wait_ms=1_000)
    second = await world.ledger.propose(refund("e2", target="order:1", run="r2"), wait_ms=1_000)
    assert isinstance(second, Blocked)
    assert (second.reason, second.by) == ("target", first.key)
    assert first.key in second.text_for_model
    await world.advance(minutes=30)
    assert isinstance(await world.ledger.get(first.key), Succeeded)


async def test_a_reached_ceiling_is_named_and_forbids_another_key(world: testing.World) -> None:
    """The third of two is held back, and asking again changes nothing."""
    for number in (1, 2):
        await world.ledger.propose(refund(f"e{number}", target=f"order:{number}"))
    third = await world.ledger.propose(refund("e3", target="order:3"))
    assert isinstance(third, NeedsReview)
    assert (third.reason, third.names) == ("ceiling_reached", "run")
    assert "A new key is the wrong move" in third.text_for_model
    again = await world.ledger.propose(refund("e3", target="order:3"))
    assert isinstance(again, NeedsReview)
    assert (again.replayed, again.names) == (True, "run")
    assert len(world.provider.effects) == 2


async def run_loops(world: testing.World, numbers: range) -> set[str | None]:
    """An agent tries with one new key after the other; the actions that the refusals name."""
    named = set()
    for number in numbers:
        with pytest.raises(CallerMistake) as refused:
            await world.ledger.propose(refund(f"e{number}", target=f"order:{number}"))
        assert refused.value.code == "run_paused"
        named.add(refused.value.key)
    return named


async def test_a_run_that_loops_at_a_full_ceiling_makes_one_case(world: testing.World) -> None:
    """Whatever else it asks for is refused with that case, and nothing of it is recorded; what is
    there already is answered as ever, and another run has a case of its own.
    """
    for number in (1, 2):
        await world.ledger.propose(refund(f"e{number}", target=f"order:{number}"))
    third = await world.ledger.propose(refund("e3", target="order:3"))
    assert await run_loops(world, range(4, 60)) == {third.key}
    with pytest.raises(CallerMistake) as unknown:
        await world.ledger.get(third.key.replace("e3", "e4"))
    assert unknown.value.code == "unknown_action"
    assert isinstance(await world.ledger.propose(refund("e1", target="order:1")), Succeeded)
    assert isinstance(await world.ledger.propose(refund("e3", target="order:3")), NeedsReview)
    assert isinstance(
        await world.ledger.propose(refund("e99", target="order:1", run="r2")), Succeeded
    )


async def test_what_fits_under_the_ceiling_is_let_in_beside_the_case(world: testing.World) -> None:
    """The run has 40.00 left: another 50.00 are refused with the case of 60.00, and 10.00 go."""
    await world.ledger.propose(refund("e1", target="order:1", minor=6_000))
    held = await world.ledger.propose(refund("e2", target="order:2", minor=6_000))
    assert isinstance(held, NeedsReview)
    with pytest.raises(CallerMistake) as refused:
        await world.ledger.propose(refund("e3", target="order:3", minor=5_000))
    assert (refused.value.code, refused.value.key) == ("run_paused", held.key)
    assert isinstance(await world.ledger.propose(refund("e4", target="order:4")), Succeeded)


async def test_a_door_knows_the_case_that_the_tables_do_not_show_yet(
    world: testing.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that asks again at once is quicker than the tables."""

    async def behind(*_: object) -> tuple[tuple[str, str], ...]:
        return ()

    monkeypatch.setattr(MemoryQueries, "paused", behind)
    for number in (1, 2):
        await world.ledger.propose(refund(f"e{number}", target=f"order:{number}"))
    third = await world.ledger.propose(refund("e3", target="order:3"))
    assert isinstance(third, NeedsReview)
    assert await run_loops(world, range(4, 60)) == {third.key}


async def test_a_case_that_the_tables_show_and_that_is_over_refuses_nothing(
    world: testing.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person has settled it a moment ago, and the tables are behind the log."""
    first = await world.ledger.propose(refund("e1", target="order:1"))
    await world.ledger.propose(refund("e2", target="order:2"))

    async def behind(*_: object) -> tuple[tuple[str, str], ...]:
        return ((first.key, "run"),)

    monkeypatch.setattr(MemoryQueries, "paused", behind)
    third = await world.ledger.propose(refund("e3", target="order:3"))
    assert isinstance(third, NeedsReview)


async def test_an_undo_is_taken_also_of_a_run_that_is_paused(world: testing.World) -> None:
    """What was to be undone and is not has to come to a person."""
    charge = Intent(
        operation="charge",
        business_event="trip-1",
        environment="production",
        target="order:4",
        money=Money(minor=1_000, currency="EUR"),
        run="r1",
    )
    done = await world.ledger.propose(charge)
    assert isinstance(done, Succeeded)
    for number in (1, 2, 3):
        await world.ledger.propose(refund(f"e{number}", target=f"order:{number}"))
    asked = refund("trip-1", target="order:4").model_copy(update={"compensates": done.key})
    held = await world.ledger.propose(asked)
    assert isinstance(held, NeedsReview)
    assert (held.reason, held.names) == ("ceiling_reached", "run")


async def test_a_run_has_to_be_named_where_it_is_counted(world: testing.World) -> None:
    """Nobody leaves a ceiling out by leaving out the run."""
    with pytest.raises(CallerMistake) as refused:
        await world.ledger.propose(refund("e1", target="order:1", run=None))
    assert refused.value.code == "run_missing"


async def test_a_step_counts_once_and_is_told_as_the_agents_own_word(
    world: testing.World,
) -> None:
    """What is used of each ceiling, whose word it is, and that a repeated step is a replay."""
    first = await world.ledger.report_step("r1", 1, tool_calls=2, tokens=400)
    assert not first.replayed
    assert budget(first, "steps") == (1, 0, 2)
    assert budget(first, "tokens") == (400, 0, 600)
    assert budget(first, "tool_calls") == (2, 0, None)
    kinds = {one.dimension: one.kind for one in first.budgets}
    assert kinds["tokens"] == "self_reported"
    assert kinds["side_effects"] == "enforced"
    again = await world.ledger.report_step("r1", 1, tokens=400)
    assert again.replayed
    assert budget(again, "tokens") == (400, 0, 600)


async def test_a_run_that_has_reached_what_it_reports_is_told_so(world: testing.World) -> None:
    """The report is taken, the model hears of it, and the next action is held back."""
    usage = await world.ledger.report_step("r1", 1, tokens=1_200)
    assert [one.dimension for one in usage.reached] == ["tokens"]
    assert "do not go on under the name of another run" in usage.text_for_model.lower()
    held = await world.ledger.propose(refund("e1", target="order:1"))
    assert isinstance(held, NeedsReview)
    assert (held.reason, held.names) == ("ceiling_reached", "run")


async def test_what_a_step_has_reached_is_told_without_the_read_model(
    world: testing.World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step is counted all the same, and the decision itself says what it has reached."""

    async def away(*_: object) -> None:
        raise OSError("the database is away")

    monkeypatch.setattr(MemoryQueries, "gate", away)
    quiet = await world.ledger.report_step("r1", 1, tokens=10)
    assert (quiet.budgets, quiet.replayed) == ((), False)
    reached = await world.ledger.report_step("r1", 2, tokens=1_000)
    assert [(one.dimension, one.used, one.left) for one in reached.reached] == [
        ("tokens", 1_010, 0)
    ]
    assert "has reached a ceiling" in reached.text_for_model


async def test_what_cannot_be_a_step_is_refused_by_name(world: testing.World) -> None:
    """Each with its field."""
    for run, step, reporter, code in (
        ("r 1", 1, "agent", "invalid_path"),
        ("r/1", 1, "agent", "invalid_path"),
        ("", 1, "agent", "not_found"),
        ("r1", 0, "agent", "invalid_body"),
        ("r1", 1, "two words", "invalid_body"),
    ):
        with pytest.raises(CallerMistake) as refused:
            await world.ledger.report_step(run, step, reporter=reporter)
        assert refused.value.code == code
        assert len(refused.value.problems) == 1


async def test_a_run_is_one_of_the_own_tenant(world: testing.World) -> None:
    """Of another tenant's run nothing is known, as of one that nobody ever named."""
    await world.ledger.report_step("r1", 1)
    other: Ledger = world.ledger_of("globex", "agent:test")
    with pytest.raises(CallerMistake) as refused:
        await other.run("r1")
    assert refused.value.code == "not_found"


async def test_what_a_caller_performs_itself_passes_the_same_gates() -> None:
    """The function runs once the gates have granted it; where a ceiling is reached, not at all."""
    shipped = default_catalogue().replace(
        'name = "refund"\n', 'name = "refund"\nperformer = "either"\n', 1
    )
    acted: list[str] = []

    async def act(call: Call) -> Effect:
        acted.append(call.key)
        return Effect(reference=f"re_{len(acted)}")

    async with testing.ledger(shipped, policy=POLICY) as world:
        for number in (1, 2):
            done = await world.ledger.perform(refund(f"e{number}", target=f"order:{number}"), act)
            assert isinstance(done, Succeeded)
        held = await world.ledger.perform(refund("e3", target="order:3"), act)
        assert isinstance(held, NeedsReview)
        assert held.names == "run"
        assert len(acted) == 2


CAREFUL = default_catalogue().replace(
    "look_alike_window_ms = 0", "look_alike_window_ms = 3_600_000"
)
GUARDED = POLICY.replace('operation = ["refund"]', 'operation = ["charge"]').replace(
    'ceilings = ["run", "day"]', 'ceilings = ["day"]'
)


def seats(event: str, *items: str) -> Plan:
    """Equal charges of one order, told apart by their items alone, in one run."""
    price = Money(minor=1_000, currency="EUR")
    steps = tuple(
        PlannedStep(
            operation="charge",
            item=item,
            target="order:1",
            money=price,
            compensation=PlannedAction(
                operation="refund", item=item, target="order:1", money=price
            ),
        )
        for item in items
    )
    return Plan(saga="seats", business_event=event, environment="production", steps=steps, run="r1")


async def test_equal_steps_of_one_plan_are_meant_and_of_two_plans_suspected() -> None:
    """A plan lists side by side what it wants twice: nobody is asked. The same from elsewhere is
    the same again, be it a plan of another business event or an action on its own.
    """
    async with testing.ledger(CAREFUL, policy=GUARDED) as world:
        opened = await world.ledger.open_saga(seats("trip-1", "a", "b", "c"))
        assert isinstance(opened, SagaResult)
        assert opened.status == "completed"
        assert len(world.provider.effects) == 3
        other = await world.ledger.open_saga(seats("trip-2", "a", "b"))
        assert isinstance(other, SagaResult)
        assert other.needs_person
        assert len(world.provider.effects) == 3
        alone = Intent(
            operation="charge",
            business_event="trip-3",
            environment="production",
            target="order:1",
            money=Money(minor=1_000, currency="EUR"),
            run="r1",
        )
        held = await world.ledger.propose(alone)
        assert isinstance(held, NeedsReview)
        assert held.reason == "suspected_duplicate"
        assert held.names == "charge:v1:acme:trip-1#c"
