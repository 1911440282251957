"""The ledger in memory that users test their agents with: the product's own rules, a clock moved by
hand, and a provider that does wrong on demand.
"""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from actionledger import (
    ApprovalExpired,
    AwaitingApproval,
    CallerMistake,
    Cancelled,
    Denied,
    Failed,
    Intent,
    LedgerUnavailable,
    Money,
    NeedsReview,
    Pending,
    Succeeded,
    Unknown,
    UnknownAction,
    testing,
)
from gateway.memory.installation import InvalidCatalogueError
from ledger.core.errors import LedgerError


def charge(event: str = "renewal-1") -> Intent:
    """An intent to charge an order."""
    return Intent(
        operation="charge",
        business_event=event,
        target="order:A-1842",
        money=Money(minor=4_990, currency="USD"),
        environment="test",
    )


@pytest.fixture
async def world() -> AsyncIterator[testing.World]:
    """Open a ledger with the shipped catalogue."""
    async with testing.ledger() as one:
        yield one


async def test_an_agent_proposes_and_an_executor_acts(world: testing.World) -> None:
    """Everything between the intent and the effect is the product's own."""
    result = await world.ledger.propose(charge())
    assert isinstance(result, Succeeded)
    (effect,) = world.provider.effects
    assert (effect.reference, effect.key) == (result.reference, result.key)
    assert (effect.minor, effect.currency) == (4_990, "USD")


async def test_a_lost_answer_is_found_out_by_moving_the_clock(world: testing.World) -> None:
    """The charge exists; the first lookup proves it, and asking again never charges twice."""
    world.provider.drop_next_answer()
    first = await world.ledger.propose(charge())
    assert isinstance(first, Unknown)
    await world.advance(minutes=11)
    settled = await world.ledger.propose(charge())
    assert isinstance(settled, Succeeded)
    assert settled.proof == "lookup"
    assert len(world.provider.effects) == 1


async def test_a_lost_request_is_tried_again_with_the_same_key(world: testing.World) -> None:
    """Nothing was done; a lookup comes first, then the same key, and there is one effect."""
    world.provider.drop_next_request()
    assert isinstance(await world.ledger.propose(charge()), Unknown)
    await world.advance(minutes=11)
    assert isinstance(await world.ledger.get("charge:v1:acme:renewal-1"), Succeeded)
    (effect,) = world.provider.effects
    assert effect.key == "charge:v1:acme:renewal-1"


async def test_a_webhook_settles_before_the_first_lookup(world: testing.World) -> None:
    """Where the provider tells of its effects, a lost answer is known a moment later."""
    world.provider.send_webhooks(after_ms=500)
    world.provider.drop_next_answer()
    await world.ledger.propose(charge())
    await world.advance(seconds=1)
    settled = await world.ledger.get("charge:v1:acme:renewal-1")
    assert isinstance(settled, Succeeded)
    assert settled.proof == "webhook"


async def test_a_refusal_fails(world: testing.World) -> None:
    """Definitely no effect, for ever."""
    world.provider.refuse_next("card_declined")
    result = await world.ledger.propose(charge())
    assert isinstance(result, Failed)
    assert result.code == "card_declined"
    assert world.provider.effects == ()


async def test_a_limit_is_waited_out(world: testing.World) -> None:
    """The provider says when to come again, and the ledger does."""
    world.provider.limit_next(seconds=30)
    result = await world.ledger.propose(charge())
    assert isinstance(result, Pending)
    await world.advance(seconds=31)
    assert isinstance(await world.ledger.get(result.key), Succeeded)


async def test_a_slow_provider_costs_no_time_of_the_test(world: testing.World) -> None:
    """A call that takes eight seconds takes none here; a caller's patience ends as it would."""
    began = time.perf_counter()
    world.provider.slow_next(after_ms=8_000)
    assert isinstance(await world.ledger.propose(charge("a"), wait_ms=3_000), Pending)
    assert isinstance(await world.ledger.wait("charge:v1:acme:a", timeout_ms=9_000), Succeeded)
    assert time.perf_counter() - began < 9


async def test_a_call_that_takes_longer_than_its_deadline_is_unknown(world: testing.World) -> None:
    """The provider goes on all the same, and is found to have done it."""
    world.provider.slow_next(before_ms=20_000)
    assert isinstance(await world.ledger.propose(charge(), wait_ms=15_000), Unknown)
    assert world.provider.effects == ()
    await world.advance(minutes=11)
    assert isinstance(await world.ledger.get("charge:v1:acme:renewal-1"), Succeeded)
    assert len(world.provider.effects) == 1


async def test_a_search_that_is_down_leaves_it_unknown(world: testing.World) -> None:
    """Only answered lookups count; in the end a person looks."""
    world.provider.behave(keys="unsupported", search="unavailable")
    world.provider.drop_next_answer(times=5)
    await world.ledger.propose(charge())
    await world.advance(minutes=5)
    assert isinstance(await world.ledger.get("charge:v1:acme:renewal-1"), Unknown)
    await world.advance(hours=24 * 8)
    assert isinstance(await world.ledger.get("charge:v1:acme:renewal-1"), NeedsReview)


async def test_time_passes_only_when_somebody_waits_or_moves_it(world: testing.World) -> None:
    """Nothing is due by itself, however long the test takes."""
    before = world.now_ms
    for _ in range(100):
        await asyncio.sleep(0)
    assert world.now_ms == before
    await world.advance(hours=1, minutes=2, seconds=3, ms=4)
    assert world.now_ms == before + 3_723_004


async def test_agents_side_by_side_wait_for_the_same_clock(world: testing.World) -> None:
    """Each gets its own answer, and nobody's patience is used up by another."""
    world.provider.slow_next(after_ms=4_000, operation="charge")
    results = await asyncio.gather(*(world.ledger.propose(charge(f"e-{n}")) for n in range(20)))
    assert {type(result) for result in results} == {Succeeded}
    assert len(world.provider.effects) == 20


async def test_tenants_do_not_see_each_other(world: testing.World) -> None:
    """As at a real door."""
    result = await world.ledger.propose(charge())
    other = world.ledger_of("globex", "agent:test")
    with pytest.raises(UnknownAction):
        await other.get(result.key)


async def test_an_answer_of_the_ledger_itself_may_be_lost(world: testing.World) -> None:
    """The client asks again with the same bytes: one action."""
    world.lose_next_answer()
    result = await world.ledger.propose(charge())
    assert isinstance(result, Succeeded)
    assert len(world.provider.effects) == 1


async def test_a_client_that_is_cut_off_is_told_so(world: testing.World) -> None:
    """And after it is connected again the same call is safe."""
    world.cut_off()
    with pytest.raises(LedgerUnavailable):
        await world.ledger.propose(charge())
    world.reconnect()
    assert isinstance(await world.ledger.propose(charge()), Succeeded)


async def test_a_cancelled_action_never_begins() -> None:
    """Nobody offers for what only its caller may perform, so it can be taken back."""
    catalogue = _catalogue('performer = "caller"')
    async with testing.ledger(catalogue) as world:
        with pytest.raises(CallerMistake):
            await world.ledger.propose(charge())
    async with testing.ledger() as world:
        world.provider.limit_next(seconds=600)
        result = await world.ledger.propose(charge())
        assert isinstance(await world.ledger.cancel(result.key), Cancelled)


def _catalogue(line: str) -> str:
    from gateway.wiring.publishing import default_catalogue  # noqa: PLC0415 - used here only

    return default_catalogue().replace('principals = ["*"]', f'principals = ["*"]\n{line}')


async def test_the_facts_of_an_action_are_there_to_look_at(world: testing.World) -> None:
    """With the time of each, as the timeline has them."""
    result = await world.ledger.propose(charge())
    facts = await world.facts(result.key)
    assert [fact["type"] for fact in facts] == [
        "intent.recorded",
        "policy.decided",
        "attempt.started",
        "attempt.succeeded",
        "action.completed",
    ]
    assert facts[0]["at"] >= 1_800_000_000_000


async def test_the_same_seed_and_the_same_calls_are_the_same_history() -> None:
    """A test that failed once fails again."""

    async def history() -> list[dict[str, object]]:
        async with testing.ledger(seed=7) as world:
            world.provider.drop_next_answer()
            result = await world.ledger.propose(charge())
            await world.advance(minutes=1)
            return await world.facts(result.key)

    assert await history() == await history()


async def test_a_catalogue_with_mistakes_is_refused_with_its_lines() -> None:
    """Before anything runs."""
    with pytest.raises(InvalidCatalogueError, match="line 1"):
        async with testing.ledger("[[operations]]"):
            raise AssertionError


async def test_without_the_product_the_kit_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The client alone is small, and cannot decide anything."""
    monkeypatch.setattr(testing, "PRODUCT", "no_such_product_anywhere")
    with pytest.raises(testing.NotInstalled, match=r"actionledger\[testing\]"):
        async with testing.ledger():
            raise AssertionError


async def test_a_fault_that_does_not_exist_is_refused(world: testing.World) -> None:
    """A script that plays nothing would be a test that proves nothing."""
    with pytest.raises(ValueError, match="kind"):
        world.provider.script({"kind": "catch_fire"})
    with pytest.raises(ValueError, match="no operation 'chrage'"):
        world.provider.drop_next_answer(operation="chrage")


async def test_time_that_runs_back_is_refused(world: testing.World) -> None:
    """Nothing would pass, and the test would not be about what it says."""
    with pytest.raises(ValueError, match="only goes on"):
        await world.advance(minutes=1, seconds=-61)


async def test_a_ledger_ends_with_its_test() -> None:
    """Whoever asks afterwards hears so, and of no trouble with the ledger."""
    async with testing.ledger() as world:
        assert isinstance(await world.ledger.propose(charge("e-1")), Succeeded)
    with pytest.raises(RuntimeError, match="ended with its test"):
        await world.ledger.propose(charge("e-1"))


ASKS = """
[[row]]
name = "refunds"
when.operation = ["refund"]
outcome = "people"
quorum = 2
reason = "Two people look at every refund."

[[row]]
name = "rest"
outcome = "automatic"
reason = "Nobody has to look at it."
"""
REFUND = Intent(
    operation="refund",
    business_event="return-1",
    target="order:A-1842",
    params={"charge": "ch_1"},
    money=Money(minor=12_000, currency="EUR"),
    environment="test",
)


async def test_an_agent_waits_for_people() -> None:
    """It is told whom it waits for, and that it is done when as many as had to have agreed."""
    async with testing.ledger(policy=ASKS) as world:
        asked = await world.ledger.propose(REFUND)
        assert isinstance(asked, AwaitingApproval)
        assert (asked.quorum, asked.granted) == (2, 0)
        assert asked.page == "http://ledger.memory/console/approve/refund:v1:acme:return-1"
        await world.approve(asked.key)
        assert isinstance(await world.ledger.get(asked.key), AwaitingApproval)
        assert world.provider.effects == ()
        await world.approve(asked.key, by="ben")
        assert isinstance(await world.ledger.wait(asked.key), Succeeded)
        assert len(world.provider.effects) == 1


async def test_an_agent_is_told_who_said_no() -> None:
    """Nothing happens, whoever had agreed before."""
    async with testing.ledger(policy=ASKS, people={"ada": (), "cyd": ("finance",)}) as world:
        asked = await world.ledger.propose(REFUND)
        await world.approve(asked.key)
        await world.deny(asked.key, by="cyd", comment="Paid last week.")
        denied = await world.ledger.get(asked.key)
        assert isinstance(denied, Denied)
        assert (denied.by, denied.person, denied.comment) == ("person", "cyd", "Paid last week.")
        with pytest.raises(testing.DecisionRefused, match="already_final"):
            await world.approve(asked.key, by="cyd")


async def test_an_agent_asks_again_after_nobody_decided() -> None:
    """What lapsed is no denial, and one call has people asked once more."""
    async with testing.ledger(policy=ASKS.replace("quorum = 2", "")) as world:
        asked = await world.ledger.propose(REFUND)
        await world.advance(minutes=11)
        assert isinstance(await world.ledger.get(asked.key), ApprovalExpired)
        with pytest.raises(testing.DecisionRefused, match="approval_expired"):
            await world.approve(asked.key)
        again = await world.ledger.ask_again(asked.key)
        assert isinstance(again, AwaitingApproval)
        assert isinstance(await world.ledger.ask_again(asked.key), AwaitingApproval)
        await world.approve(asked.key)
        assert isinstance(await world.ledger.wait(asked.key), Succeeded)


async def test_a_test_that_names_nobody_or_nothing_is_told_so() -> None:
    """Whoever writes a test reads what there is, not where it failed."""
    async with testing.ledger(policy=ASKS) as world:
        asked = await world.ledger.propose(REFUND)
        with pytest.raises(ValueError, match="nobody here is called zoe: there are ada, ben"):
            await world.approve(asked.key, by="zoe")
        with pytest.raises(ValueError, match="write operation:v1:tenant:event"):
            await world.approve("no key")
        with pytest.raises(ValueError, match="there is no action"):
            await world.approve(asked.key + "0")
    for wrong in (testing.ledger(policy="x = 1"), testing.ledger("x = 1")):
        with pytest.raises(LedgerError, match="line 1: x is not a known key here"):
            async with wrong:
                pass


async def test_what_was_agreed_can_be_taken_back_until_it_begins() -> None:
    """A yes that was taken back counts no more, until its person says it anew."""
    async with testing.ledger(policy=ASKS) as world:
        asked = await world.ledger.propose(REFUND)
        await world.approve(asked.key)
        await world.withdraw(asked.key)
        await world.approve(asked.key, by="ben")
        result = await world.ledger.get(asked.key)
        assert isinstance(result, AwaitingApproval)
        assert result.granted == 1
        await world.withdraw(asked.key, by="ben")
        await world.approve(asked.key, by="ben")
        await world.approve(asked.key)
        assert isinstance(await world.ledger.wait(asked.key), Succeeded)


async def test_a_changed_request_can_be_agreed_to_without_a_table(world: testing.World) -> None:
    """A revision is a person's, also where everything else goes ahead by itself: the people of the
    kit are there to agree to it.
    """
    world.provider.refuse_next()
    first = await world.ledger.propose(charge())
    changed = charge().model_copy(
        update={"money": Money(minor=4_500, currency="USD"), "revises": first.key}
    )
    waiting = await world.ledger.propose(changed)
    assert isinstance(waiting, AwaitingApproval)
    await world.approve(waiting.key)
    assert isinstance(await world.ledger.wait(waiting.key), Succeeded)
    (effect,) = world.provider.effects
    assert effect.minor == 4_500


async def test_nobody_hears_that_nothing_was_started_of_what_was(world: testing.World) -> None:
    """Family `late`, beside C087: taking back what may have happened, or has, is refused; a model
    that reads the refusal is not told that nothing was started, which it would try again.
    """
    world.provider.drop_next_answer()
    unknown = await world.ledger.propose(charge())
    assert isinstance(unknown, Unknown)
    with pytest.raises(CallerMistake) as refused:
        await world.ledger.cancel(unknown.key)
    assert refused.value.code == "attempt_open"
    assert "may have had its effect" in refused.value.text_for_model
    assert "Nothing was started" not in refused.value.text_for_model
    await world.advance(minutes=11)
    with pytest.raises(CallerMistake) as final:
        await world.ledger.cancel(unknown.key)
    assert final.value.code == "already_final"
    assert "Nothing was started" not in final.value.text_for_model
    with pytest.raises(CallerMistake) as elsewhere:
        await world.ledger.propose(charge("None"))
    assert "Nothing was started" in elsewhere.value.text_for_model
