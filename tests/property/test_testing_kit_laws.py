"""Whatever a test makes go wrong in the ledger in memory, its provider's own book agrees with what
the ledger says in the end: for executors, and for callers that act themselves.
"""

import asyncio
import contextlib
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from actionledger import (
    Call,
    Effect,
    EffectNotSent,
    Failed,
    Intent,
    Ledger,
    LedgerTrouble,
    Money,
    NeedsReview,
    Result,
    Succeeded,
    testing,
)
from gateway.wiring.publishing import default_catalogue

EITHER = default_catalogue().replace(
    'principals = ["*"]', 'principals = ["*"]\nperformer = "either"'
)
FAULTS = (
    {"kind": "commit_then_drop"},
    {"kind": "commit_then_garbage"},
    {"kind": "fail_after_commit"},
    {"kind": "fail_before_commit"},
    {"kind": "drop_before_commit"},
    {"kind": "refuse", "code": "card_declined"},
    {"kind": "limit", "retry_after_s": 3},
    {"kind": "slow", "after_ms": 20_000},
    {"kind": "slow", "before_ms": 14_000},
)
faults = st.lists(st.sampled_from(FAULTS), max_size=4)
waits = st.lists(st.sampled_from([1, 40, 130]), min_size=1, max_size=4)
crashes = st.lists(st.sampled_from(["none", "before", "after", "lost"]), max_size=3)
EXAMPLES = 40
"""Each is a whole installation over two days."""
KEY = "charge:v1:acme:e-1"
CHARGE = Intent(
    operation="charge",
    business_event="e-1",
    target="order:A-1842",
    money=Money(minor=4_990, currency="USD"),
    environment="test",
)


def play(world: testing.World, some: Sequence[dict[str, object]]) -> None:
    """Queue faults for the provider's next requests."""
    for fault in some:
        world.provider.script(fault)  # type: ignore[arg-type] # JSON all the same


def judge(result: Result, world: testing.World) -> None:
    """What the ledger says in the end, held against the provider's book."""
    made = len(world.provider.effects)
    assert made <= 1, "a keyed provider was made to act twice"
    assert isinstance(result, Succeeded | Failed | NeedsReview), result
    if isinstance(result, Succeeded):
        assert made == 1
        assert result.reference == world.provider.effects[0].reference
    if isinstance(result, Failed):
        assert made == 0


@settings(max_examples=EXAMPLES)
@given(faults, waits, st.sampled_from([None, 500]))
def test_an_executors_action_ends_as_the_book_says(
    some: list[dict[str, object]], passes: list[int], told_after_ms: int | None
) -> None:
    """However often it is asked for, and whatever is lost."""

    async def live() -> None:
        async with testing.ledger() as world:
            play(world, some)
            if told_after_ms is not None:
                world.provider.send_webhooks(after_ms=told_after_ms)
            for seconds in passes:
                await world.ledger.propose(CHARGE)
                await world.advance(seconds=seconds)
            await world.advance(hours=48)
            judge(await world.ledger.propose(CHARGE), world)

    asyncio.run(live())


@settings(max_examples=EXAMPLES)
@given(faults, crashes, waits)
def test_a_callers_action_ends_as_the_book_says(
    some: list[dict[str, object]], ends: list[str], passes: list[int]
) -> None:
    """Its process may be lost before the call, after it, or with only the answer gone."""

    async def live() -> None:
        async with testing.ledger(EITHER) as world:
            play(world, some)
            planned = [*ends, "none"]
            for place, end in enumerate(planned):
                await attempt(world, end)
                await world.advance(seconds=passes[place % len(passes)])
            await world.advance(hours=48)
            await attempt(world, "none")
            judge(await world.ledger.get(KEY), world)

    asyncio.run(live())


async def attempt(world: testing.World, end: str) -> None:
    """One process of the agent, which may be lost on the way; the next one is connected again."""
    ledger: Ledger = world.ledger_of("acme", "agent:test")

    async def act(call: Call) -> Effect:
        if end == "before":
            world.cut_off()
            raise EffectNotSent("lost_its_process")
        reference = await world.provider.call(call, "charge", minor=4_990, currency="USD")
        if end == "after":
            world.cut_off()
        return Effect(reference)

    if end == "lost":
        world.lose_next_answer(of="outcome")
    # Its trouble is told to nobody: the process is gone.
    with contextlib.suppress(LedgerTrouble):
        await ledger.perform(CHARGE, act, wait_ms=3_000)
    world.reconnect()
