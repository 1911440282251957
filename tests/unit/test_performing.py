"""An agent that performs its own action: the function runs at most once, after the ledger started
it for that call, and what is said of it is what is known. Against the product's own rules, in
memory.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from actionledger import (
    ActionRaised,
    AwaitingApproval,
    Call,
    CallerMistake,
    Conflict,
    Effect,
    EffectNotSent,
    EffectRefused,
    EffectUnknown,
    Failed,
    Intent,
    LedgerUnavailable,
    Money,
    NeedsReview,
    NotAllowed,
    OutcomeNotRecorded,
    Pending,
    Succeeded,
    Unknown,
    testing,
)
from actionledger.client import TURN_REST_MS
from gateway.wiring.publishing import default_catalogue

EITHER = default_catalogue().replace(
    'principals = ["*"]', 'principals = ["*"]\nperformer = "either"'
)
ATTESTING = EITHER.replace(
    'performer = "either"', 'performer = "either"\ncaller_attests_no_effect = true'
)


def charge(event: str = "renewal-1", *, minor: int = 4_990) -> Intent:
    """An intent to charge an order."""
    return Intent(
        operation="charge",
        business_event=event,
        target="order:A-1842",
        money=Money(minor=minor, currency="USD"),
        environment="test",
    )


def email(event: str = "renewal-1") -> Intent:
    """An intent to send an e-mail, of which nobody could say later whether it went out."""
    return Intent(
        operation="email",
        business_event=event,
        params={"to": ["zoe@example.com"], "subject": "Renewal", "body": "Thank you."},
        environment="test",
    )


class Tool:
    """An agent's own function: does as it is told, and remembers every run."""

    def __init__(self, does: Callable[[Call], Awaitable[Effect]] | None = None) -> None:
        self.calls: list[Call] = []
        self._does = does

    async def __call__(self, call: Call) -> Effect:
        """Act once."""
        self.calls.append(call)
        return Effect(f"ch_{len(self.calls)}") if self._does is None else await self._does(call)


def raising(error: BaseException) -> Tool:
    """A function that raises this."""

    async def act(_call: Call) -> Effect:
        raise error

    return Tool(act)


@pytest.fixture
async def world() -> AsyncIterator[testing.World]:
    """Open a ledger whose operations a caller may perform."""
    async with testing.ledger(EITHER) as one:
        yield one


@pytest.fixture
async def attesting() -> AsyncIterator[testing.World]:
    """Open one that also takes a caller's word for "no effect"."""
    async with testing.ledger(ATTESTING) as one:
        yield one


async def facts_of(world: testing.World, key: str) -> list[str]:
    """What the ledger recorded, by type."""
    return [fact["type"] for fact in await world.facts(key)]


async def test_the_function_runs_after_the_start_and_its_effect_completes(
    world: testing.World,
) -> None:
    """When it runs the start is in the ledger; what it returns is the recorded result."""
    seen: list[list[str]] = []

    async def act(call: Call) -> Effect:
        seen.append(await facts_of(world, call.key))
        return Effect("ch_9", {"paid": True})

    result = await world.ledger.perform(charge(), act)
    assert isinstance(result, Succeeded)
    assert (result.reference, result.result, result.proof) == ("ch_9", {"paid": True}, "report")
    assert seen == [["intent.recorded", "policy.decided", "attempt.started"]]


async def test_the_function_gets_a_stable_key_and_a_deadline(world: testing.World) -> None:
    """Both come from the start: the key from the action, the time from the catalogue."""
    tool = Tool()
    result = await world.ledger.perform(charge(), tool)
    (call,) = tool.calls
    assert (call.key, call.attempt) == (result.key, 1)
    assert call.provider_key == result.key
    assert 0 < call.seconds_left <= 12


async def test_a_duplicate_is_answered_from_the_record(world: testing.World) -> None:
    """The function does not run again, in this process or in another."""
    tool = Tool()
    first = await world.ledger.perform(charge(), tool)
    again = await world.ledger.perform(charge(), tool)
    other = await world.ledger_of("acme", "agent:test").perform(charge(), tool)
    assert isinstance(again, Succeeded)
    assert isinstance(other, Succeeded)
    assert again.replayed
    assert {first.key, again.key, other.key} == {first.key}
    assert len(tool.calls) == 1


async def test_of_calls_at_once_one_acts_and_all_get_its_result(world: testing.World) -> None:
    """The start names one nonce; the others wait for what comes of it."""
    tool = Tool()
    results = await asyncio.gather(*(world.ledger.perform(charge(), tool) for _ in range(5)))
    assert len(tool.calls) == 1
    assert {type(result) for result in results} == {Succeeded}


async def test_a_changed_request_is_a_conflict_and_does_not_run(world: testing.World) -> None:
    """The same key for another amount is never a second charge."""
    tool = Tool()
    await world.ledger.perform(charge(), tool)
    result = await world.ledger.perform(charge(minor=49_900), tool)
    assert isinstance(result, Conflict)
    assert len(tool.calls) == 1


async def test_an_operation_that_demands_an_executor_is_refused_by_name() -> None:
    """The shipped catalogue lets no caller act; nothing is recorded and nothing runs."""
    tool = Tool()
    async with testing.ledger() as strict:
        with pytest.raises(NotAllowed) as refused:
            await strict.ledger.perform(charge(), tool)
        assert refused.value.code == "needs_executor"
        assert isinstance(await strict.ledger.propose(charge()), Succeeded)
    assert tool.calls == []


async def test_an_operation_that_demands_its_caller_is_refused_to_others() -> None:
    """No executor could ever carry it out."""
    async with testing.ledger(EITHER.replace('"either"', '"caller"')) as own:
        with pytest.raises(NotAllowed) as refused:
            await own.ledger.propose(charge())
        assert refused.value.code == "needs_caller"


# What the function says


async def test_a_refusal_is_believed_where_the_catalogue_says_so(attesting: testing.World) -> None:
    """A definite no fails the action, once and for all."""
    tool = raising(EffectRefused("card_declined"))
    result = await attesting.ledger.perform(charge(), tool)
    again = await attesting.ledger.perform(charge(), tool)
    assert isinstance(result, Failed)
    assert result.code == "card_declined"
    assert isinstance(again, Failed)
    assert len(tool.calls) == 1


async def test_a_refusal_is_else_found_out(world: testing.World) -> None:
    """The caller's word is kept and proves nothing; the provider's search does."""
    result = await world.ledger.perform(charge(), raising(EffectRefused("card_declined")))
    assert isinstance(result, Unknown)
    (unresolved,) = (
        fact for fact in await world.facts(result.key) if fact["type"] == "attempt.unresolved"
    )
    assert unresolved["code"] == "unattested:card_declined"


async def test_what_may_be_tried_later_waits_for_the_next_call(attesting: testing.World) -> None:
    """Nobody runs it again by itself; a later call does, after the backoff."""
    tool = raising(EffectRefused("rate_limited", retry="later"))
    result = await attesting.ledger.perform(charge(), tool)
    assert isinstance(result, Pending)
    await attesting.advance(minutes=2)
    assert len(tool.calls) == 1
    later = Tool()
    assert isinstance(await attesting.ledger.perform(charge(), later), Succeeded)
    assert [call.attempt for call in later.calls] == [2]


async def test_the_provider_of_a_test_says_no_as_a_real_one(attesting: testing.World) -> None:
    """What it limits may be done later: a test of an agent saw it fail for good. What it has not
    is a mistake of the test.
    """

    async def act(call: Call) -> Effect:
        return Effect(await attesting.provider.call(call, "charge", minor=4_990, currency="USD"))

    attesting.provider.limit_next()
    result = await attesting.ledger.perform(charge(), act)
    assert isinstance(result, Pending)
    assert result.is_callers_turn
    await attesting.advance(minutes=2)
    assert isinstance(await attesting.ledger.perform(charge(), act), Succeeded)
    attesting.provider.refuse_next()
    assert isinstance(await attesting.ledger.perform(charge("other"), act), Failed)

    async def wrong(call: Call) -> Effect:
        return Effect(await attesting.provider.call(call, "chrage"))

    with pytest.raises(ActionRaised) as raised:
        await attesting.ledger.perform(charge("wrong"), wrong)
    assert "'chrage'" in str(raised.value.__cause__)


async def test_not_sent_is_no_effect_too(attesting: testing.World) -> None:
    """Nothing was asked of any provider."""
    tool = raising(EffectNotSent("no_such_customer", retry="never"))
    result = await attesting.ledger.perform(charge(), tool)
    assert isinstance(result, Failed)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EffectUnknown("answer lost"), "answer_lost"),
        (TimeoutError(), "raised:TimeoutError"),
        (ConnectionResetError(), "raised:ConnectionResetError"),
        (testing.Unreachable("gone"), "raised:Unreachable"),
    ],
    ids=["said", "timeout", "reset", "httpx"],
)
async def test_a_lost_answer_is_unknown(world: testing.World, error: Exception, code: str) -> None:
    """A timeout is never taken for a failure, and is no exception of the call."""
    result = await world.ledger.perform(charge(), raising(error))
    assert isinstance(result, Unknown)
    (unresolved,) = (
        fact for fact in await world.facts(result.key) if fact["type"] == "attempt.unresolved"
    )
    assert unresolved["code"] == code


async def test_any_other_exception_is_told_to_the_ledger_first(world: testing.World) -> None:
    """It may have acted before it broke: the action is unknown, and the cause is not hidden."""
    with pytest.raises(ActionRaised) as raised:
        await world.ledger.perform(charge(), raising(KeyError("amount")))
    assert isinstance(raised.value.result, Unknown)
    assert isinstance(raised.value.__cause__, KeyError)
    assert raised.value.text_for_model == raised.value.result.text_for_model


@pytest.mark.parametrize("returned", [None, "ch_1", Effect("")], ids=["none", "text", "empty"])
async def test_a_return_that_is_no_effect_proves_nothing(
    world: testing.World, returned: Effect
) -> None:
    """Without a reference there is nothing to find it by; the programmer is told."""

    async def act(_call: Call) -> Effect:
        return returned

    with pytest.raises(ActionRaised) as raised:
        await world.ledger.perform(charge(), act)
    assert isinstance(raised.value.__cause__, TypeError)
    assert isinstance(raised.value.result, Unknown)


@pytest.mark.parametrize(
    "result",
    [{"at": object()}, {"rate": 4.5}, {"text": "x" * 40_000}],
    ids=["no_json", "fraction", "too_large"],
)
async def test_a_result_that_cannot_be_kept_does_not_unmake_the_effect(
    world: testing.World, result: dict[str, object]
) -> None:
    """What it belongs to exists all the same, and is completed without it."""

    async def act(_call: Call) -> Effect:
        return Effect("ch_1", result)

    done = await world.ledger.perform(charge(), act)
    assert isinstance(done, Succeeded)
    assert (done.reference, done.result) == ("ch_1", {})


async def test_the_deadline_of_the_attempt_stops_the_function() -> None:
    """It is counted from when the call sent its offer, and what was cut off is unknown."""
    brief = EITHER.replace("connect_ms = 2_000", "connect_ms = 10").replace(
        "response_ms = 10_000", "response_ms = 60"
    )
    stopped: list[bool] = []

    async def act(_call: Call) -> Effect:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)
        return Effect("never")

    async with testing.ledger(brief) as world:
        result = await world.ledger.perform(charge(), act)
        assert isinstance(result, Unknown)
        types = {fact.get("code") for fact in await world.facts(result.key)}
    assert stopped == [True]
    assert "deadline_passed" in types


# Crashes and lost answers


async def test_a_call_that_is_cancelled_says_so_and_ends(world: testing.World) -> None:
    """The action is unknown at once, and not only when its lease lapses."""
    began = asyncio.Event()

    async def act(_call: Call) -> Effect:
        began.set()
        await asyncio.Event().wait()
        return Effect("never")

    call = asyncio.create_task(world.ledger.perform(charge(), act))
    await began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert isinstance(await world.ledger.get("charge:v1:acme:renewal-1"), Unknown)


async def test_a_crash_in_between_is_found_out_and_never_run_again(world: testing.World) -> None:
    """The effect exists, nobody reported it: the ledger asks, and later calls get the answer."""

    async def act(call: Call) -> Effect:
        reference = await world.provider.call(call, "charge", minor=4_990, currency="USD")
        world.cut_off()
        return Effect(reference)

    with pytest.raises(OutcomeNotRecorded) as lost:
        await world.ledger.perform(charge(), act)
    assert lost.value.reference == "ch_1"
    world.reconnect()
    tool = Tool()
    assert isinstance(await world.ledger.perform(charge(), tool, wait_ms=100), Pending)
    await world.advance(minutes=2)
    result = await world.ledger.perform(charge(), tool)
    assert isinstance(result, Succeeded)
    assert (result.reference, result.proof) == ("ch_1", "lookup")
    assert tool.calls == []
    assert len(world.provider.effects) == 1


async def test_a_crash_before_the_effect_is_run_again_with_the_same_key(
    world: testing.World,
) -> None:
    """After the provider was asked, a new call acts under the key of the first attempt."""
    with pytest.raises(OutcomeNotRecorded):
        await world.ledger.perform(charge(), _crash_in(world))
    world.reconnect()
    await world.advance(seconds=70)
    tool = Tool()
    result = await world.ledger.perform(charge(), tool)
    assert isinstance(result, Succeeded)
    assert [(call.attempt, call.provider_key) for call in tool.calls] == [(2, result.key)]


async def test_a_class_that_nobody_can_ask_about_runs_once_ever(world: testing.World) -> None:
    """After a crash a person has to look; no call runs it again."""
    with pytest.raises(OutcomeNotRecorded):
        await world.ledger.perform(email(), _crash_in(world))
    world.reconnect()
    await world.advance(minutes=2)
    tool = Tool()
    assert isinstance(await world.ledger.perform(email(), tool), NeedsReview)
    assert tool.calls == []


def _crash_in(world: testing.World) -> Tool:
    """A function whose process loses its network before anything happened."""

    async def act(_call: Call) -> Effect:
        world.cut_off()
        raise TimeoutError

    return Tool(act)


async def test_a_start_whose_answer_was_lost_is_acted_on_once(world: testing.World) -> None:
    """The same call asks again with the same nonce and learns of the start that is its own."""
    world.lose_next_answer()
    tool = Tool()
    result = await world.ledger.perform(charge(), tool)
    assert isinstance(result, Succeeded)
    assert [call.attempt for call in tool.calls] == [1]


async def test_an_outcome_whose_answer_was_lost_is_said_again(world: testing.World) -> None:
    """The same word twice counts once."""
    world.lose_next_answer(of="outcome")
    tool = Tool()
    result = await world.ledger.perform(charge(), tool)
    assert isinstance(result, Succeeded)
    assert len(tool.calls) == 1
    assert (await facts_of(world, result.key)).count("attempt.succeeded") == 1


async def test_a_ledger_that_is_away_runs_nothing(world: testing.World) -> None:
    """Without a start nothing may act."""
    world.cut_off()
    tool = Tool()
    with pytest.raises(LedgerUnavailable):
        await world.ledger.perform(charge(), tool)
    assert tool.calls == []


async def test_an_intent_without_a_json_form_runs_nothing(world: testing.World) -> None:
    """What cannot be recorded cannot be started."""
    tool = Tool()
    bad = email().model_copy(update={"params": {"rate": float("nan")}})
    with pytest.raises(CallerMistake):
        await world.ledger.perform(bad, tool)
    assert tool.calls == []


async def test_what_waited_for_people_is_its_callers_turn_and_says_so() -> None:
    """An agent that was told "it goes on by itself" waited to its end for what nobody would do."""
    asks = """
[[row]]
name = "all"
outcome = "people"
reason = "Somebody looks at it."
"""
    tool = Tool()
    async with testing.ledger(EITHER, policy=asks) as world:
        asked = await world.ledger.perform(charge(), tool)
        assert isinstance(asked, AwaitingApproval)
        assert asked.by_caller
        assert "by itself" not in asked.text_for_model
        assert "same call has to be made again" in asked.text_for_model
        await world.approve(asked.key)
        began_ms = world.now_ms
        turn = await world.ledger.wait(asked.key, timeout_ms=600_000)
        assert isinstance(turn, Pending)
        assert (turn.is_callers_turn, tool.calls) == (True, [])
        assert world.now_ms - began_ms <= TURN_REST_MS
        assert "made again" in turn.text_for_model
        assert isinstance(await world.ledger.perform(charge(), tool), Succeeded)
        others = await world.ledger.propose(email("by-executor"))
        assert isinstance(others, AwaitingApproval)
        assert "it goes on by itself" in others.text_for_model
    assert len(tool.calls) == 1
