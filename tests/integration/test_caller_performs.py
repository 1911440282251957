"""An agent that performs its own action, over the real log: started for one call, told through the
door, settled like any other.
"""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from actionledger import Call, Effect, EffectUnknown, Ledger, Retries, Succeeded, Unknown
from gateway.keys import Role
from ledger.core.facts import AttemptStarted
from ledger.log.topics import Topic
from tests.flaky import FlakyTransport
from tests.integration.door import Door, opened
from tests.integration.installation import CATALOGUE
from tests.integration.test_sdk import intent
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]

EITHER = CATALOGUE.replace('principals = ["*"]', 'principals = ["*"]\nperformer = "either"')


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(servers: Addresses, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    """Open one door, with a processor and an executor that is given nothing of this."""
    folder = tmp_path_factory.mktemp("caller")
    async with opened(servers, folder, catalogue=EITHER) as one:
        await one.one.processor()
        await one.one.executor()
        yield one


class Tool:
    """An agent's own function, which remembers its calls."""

    def __init__(self, *, loses_answer: str | None = None) -> None:
        self.calls: list[Call] = []
        self._lost = loses_answer

    async def __call__(self, call: Call) -> Effect:
        """Act, and perhaps never hear what came of it."""
        self.calls.append(call)
        if self._lost is not None:
            raise EffectUnknown(self._lost)
        return Effect(f"own_{call.key}", {"by": "caller"})


async def test_of_many_calls_at_once_one_acts_and_all_get_its_result(door: Door) -> None:
    """The start names one nonce, and the log has one attempt."""
    tool = Tool()
    async with door.ledger() as ledger:
        results = await asyncio.gather(*(ledger.perform(intent("many"), tool) for _ in range(8)))
        again = await ledger.propose(intent("many"))
    assert len(tool.calls) == 1
    assert {type(result) for result in results} == {Succeeded}
    assert isinstance(again, Succeeded)
    assert again.reference == f"own_{again.key}"
    starts = [
        fact
        for decision in await door.one.decisions()
        for fact in decision.facts
        if isinstance(fact, AttemptStarted) and fact.action == again.key
    ]
    assert len(starts) == 1
    assert starts[0].holder.startswith("caller:")


async def test_lost_answers_of_the_door_make_no_second_run(door: Door) -> None:
    """The start and the outcome are each asked for again, with the same nonce."""
    tool = Tool()
    transport = FlakyTransport(httpx.ASGITransport(door.app), ["lose", "refuse", "lose", "lose"])
    key = door.keys["acme", Role.AGENT]
    quick = Retries(first_ms=1, cap_ms=5)
    async with Ledger("http://door", key, transport=transport, retries=quick) as ledger:
        result = await ledger.perform(intent("flaky"), tool)
    assert isinstance(result, Succeeded)
    assert [call.attempt for call in tool.calls] == [1]


async def test_an_unknown_of_a_caller_waits_for_the_provider(door: Door) -> None:
    """It is looked up like any other, and no executor is given it meanwhile."""
    tool = Tool(loses_answer="answer_lost")
    async with door.ledger() as ledger:
        result = await ledger.perform(intent("lost"), tool)
        again = await ledger.perform(intent("lost"), Tool())
    assert isinstance(result, Unknown)
    assert result.next_check_at is not None
    assert isinstance(again, Unknown)
    assert len(tool.calls) == 1


async def test_what_a_caller_says_stands_on_intents(door: Door) -> None:
    """A record says by its topic with what authority it was written."""
    async with door.ledger() as ledger:
        result = await ledger.perform(intent("topic"), Tool())
    decisions = [
        decision
        for decision in await door.one.decisions()
        if any(fact.action == result.key for fact in decision.facts)
    ]
    assert {decision.cause.topic for decision in decisions} == {Topic.INTENTS.value}
    assert [fact.type for decision in decisions for fact in decision.facts] == [
        "intent.recorded",
        "policy.decided",
        "attempt.started",
        "attempt.succeeded",
        "action.completed",
    ]
