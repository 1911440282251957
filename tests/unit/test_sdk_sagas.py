"""Sagas through the SDK and the HTTP door, with a whole ledger in memory."""

import json
from typing import Any

import httpx
import pytest

from actionledger import (
    CallerMistake,
    Conflict,
    Ledger,
    Money,
    Plan,
    PlannedAction,
    PlannedStep,
    SagaResult,
    testing,
)
from actionledger.client import TOLD_REST_MS
from actionledger.exchange import Reply
from actionledger.sagas import read_saga

EVENT = "order-2026-11-30-07"
TEN = Money(minor=1_000, currency="EUR")
ASKED = """
[[row]]
name = "asked"
outcome = "people"
valid_ms = 600_000
reason = "Somebody looks at it."
"""


def charged(item: str, order: str = "order:A-1842") -> PlannedStep:
    """A charge that a refund undoes."""
    undo = PlannedAction(operation="refund", item=item, target=order, money=TEN)
    return PlannedStep(operation="charge", item=item, target=order, money=TEN, compensation=undo)


def order(*items: str, **changes: Any) -> Plan:  # noqa: ANN401 - fields of a model
    """A plan of charges."""
    steps = tuple(charged(item) for item in items or ("goods", "freight", "gift"))
    whole = {"saga": "order", "business_event": EVENT, "environment": "test", "steps": steps}
    return Plan(**(whole | changes))


def told(result: SagaResult | Conflict) -> SagaResult:
    """A saga as it stands."""
    assert isinstance(result, SagaResult)
    return result


async def test_a_plan_is_carried_out_step_by_step() -> None:
    """One call opens it, and waits until all of it is done; the same again is a replay."""
    async with testing.ledger() as world:
        opened = told(await world.ledger.open_saga(order()))
        assert not opened.replayed
        result = told(await world.ledger.saga(EVENT, "order", timeout_ms=60_000))
        assert result.status == "completed"
        assert [one.status for one in result.steps] == ["completed"] * 3
        assert [one.undone for one in result.steps] == ["not_needed"] * 3
        assert "Nothing is left to do" in result.text_for_model
        # Steps in a list are the same plan.
        again = told(await world.ledger.open_saga(order(steps=list(order().steps))))
        assert again.replayed
        assert again.status == "completed"
        assert [one.operation for one in world.provider.effects] == ["charge"] * 3


async def test_what_was_done_is_undone_in_reverse_when_a_step_is_refused() -> None:
    """The third charge is declined for good: two refunds, the last charge first, and no more; and
    an answer that is lost in between is found out before anything else is undone.
    """
    async with testing.ledger() as world:
        refuse = {"kind": "refuse", "code": "card_declined"}
        world.provider.script({**refuse}, action_key=f"charge:v1:acme:{EVENT}#gift")
        lost = {"kind": "commit_then_drop"}
        world.provider.script({**lost}, action_key=f"refund:v1:acme:{EVENT}#freight")
        await world.ledger.open_saga(order())
        undoing = told(await world.ledger.saga(EVENT, "order", timeout_ms=5_000))
        assert undoing.status == "compensating"
        assert [one.undone for one in undoing.steps] == ["planned", "needed", "not_needed"]
        assert undoing.steps[1].compensation_status == "unknown"
        result = told(await world.ledger.saga(EVENT, "order", timeout_ms=3_600_000))
        assert result.status == "compensated"
        assert "step 3 is failed" in result.text_for_model
        assert [one.undone for one in result.steps] == ["done", "done", "not_needed"]
        done = [(one.operation, one.action_key or "") for one in world.provider.effects]
        assert [operation for operation, _ in done] == ["charge", "charge", "refund", "refund"]
        assert [key.rpartition("#")[2] for _, key in done[2:]] == ["freight", "goods"]


async def test_opening_a_saga_waits_while_its_first_step_asks_its_gates() -> None:
    """A gate's word comes within the request, so the caller hears how the step came on."""
    policy = """
[[row]]
name = "guarded"
outcome = "automatic"
block_target = true
reason = "One at a time on an order."
"""
    async with testing.ledger(policy=policy) as world:
        opened = told(await world.ledger.open_saga(order("goods")))
        assert opened.status == "completed"


async def test_waiting_for_a_saga_ends_where_it_needs_a_person() -> None:
    """A step that nobody can find out has a case, and is not said to go on by itself."""
    async with testing.ledger() as world:
        world.provider.drop_next_answer()
        mail = PlannedStep(
            operation="email",
            params={"to": ["ann@example.org"], "subject": "Sent", "body": "It is on its way."},
        )
        steps = (mail, *order("goods").steps)
        await world.ledger.open_saga(order("goods").model_copy(update={"steps": steps}))
        began = world.now_ms
        result = told(await world.ledger.saga(EVENT, "order", timeout_ms=36_000_000))
        assert result.needs_person
        assert result.cases == (result.steps[0].key,)
        assert "A person has to settle" in result.text_for_model
        assert "by itself" not in result.text_for_model
        assert world.now_ms - began < 36_000_000


async def test_that_a_saga_needs_a_person_is_told_and_then_waited_for() -> None:
    """Whoever looped on a saga that is stuck asked without end; and who looked at it before heard
    of it late.
    """
    read = {"saga": "order", "business_event": EVENT, "status": "stuck", "version": 3}
    now_s = 0.0

    def stuck(request: httpx.Request) -> httpx.Response:
        nonlocal now_s
        now_s += int(request.url.params.get("wait_ms", 0)) / 1_000
        return httpx.Response(200, json=read)

    transport = httpx.MockTransport(stuck)
    async with Ledger("http://l", "k", transport=transport, clock=lambda: now_s) as client:
        assert told(await client.saga(EVENT, "order")).needs_person
        for waited in range(3):
            assert told(await client.saga(EVENT, "order", timeout_ms=600_000)).needs_person
            assert now_s == waited * TOLD_REST_MS / 1_000


async def test_a_saga_is_called_off_and_says_what_may_be_done() -> None:
    """Nothing of it has begun where people are asked first: all of it ends."""
    async with testing.ledger(policy=ASKED) as world:
        opened = told(await world.ledger.open_saga(order(), wait_ms=0))
        assert opened.status == "running"
        assert opened.steps[0].status == "awaiting_approval"
        assert opened.current == opened.steps[0].key
        called_off = told(await world.ledger.cancel_saga(EVENT, "order", reason="not wanted"))
        assert called_off.status == "compensated"
        again = told(await world.ledger.cancel_saga(EVENT, "order"))
        assert again.replayed
        assert again.is_final


async def test_a_principal_with_too_much_waiting_for_people_opens_no_saga() -> None:
    """What is refused as a proposal is refused as the first step of a plan; a replay is not."""
    async with testing.ledger(policy=ASKED) as world:
        code = ""
        for number in range(200):
            try:
                plan = order("goods", business_event=f"order-{number}")
                await world.ledger.open_saga(plan, wait_ms=0)
            except CallerMistake as refused:
                code = refused.code
                break
        assert code == "too_many_waiting"
        again = told(await world.ledger.open_saga(order("goods", business_event="order-0")))
        assert again.replayed


async def test_another_plan_under_the_same_name_is_a_conflict() -> None:
    """It says in what it differs, and nothing of it is begun."""
    async with testing.ledger() as world:
        await world.ledger.open_saga(order("goods", "freight"))
        other = await world.ledger.open_saga(order("goods", "gift"))
        assert isinstance(other, Conflict)
        assert "/steps/1/key" in {one.path for one in other.differences}


async def test_a_plan_that_is_wrong_is_refused_whole_and_names_the_step() -> None:
    """Neither at the door nor in the ledger anything of it is recorded."""
    async with testing.ledger() as world:
        bad = PlannedStep(operation="charge", item="x", target="order:A-1842")
        with pytest.raises(CallerMistake) as refused:
            await world.ledger.open_saga(order(steps=(charged("goods"), bad)))
        assert refused.value.code == "invalid_request"
        assert {one.path for one in refused.value.problems} == {"/steps/1/money"}
        malformed = PlannedStep(operation="charge", item="not a name", money=TEN)
        with pytest.raises(CallerMistake) as refused:
            await world.ledger.open_saga(order(steps=(charged("goods"), malformed)))
        assert refused.value.code == "invalid_body"
        assert all(one.path.startswith("/steps/1/") for one in refused.value.problems)
        with pytest.raises(CallerMistake) as refused:
            await world.ledger.saga(EVENT, "order")
        assert refused.value.code == "unknown_saga"
        assert world.provider.effects == ()


async def test_a_saga_of_another_tenant_is_as_one_that_does_not_exist() -> None:
    """Whoever asks with another key learns nothing."""
    async with testing.ledger() as world:
        await world.ledger.open_saga(order())
        stranger = world.ledger_of("globex", "agent:other")
        with pytest.raises(CallerMistake) as refused:
            await stranger.saga(EVENT, "order")
        assert refused.value.code == "unknown_saga"
        with pytest.raises(CallerMistake) as refused:
            await stranger.cancel_saga(EVENT, "order")
        assert refused.value.code == "unknown_saga"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("running", "goes on by itself"),
        ("compensating", "undone, the last step first"),
        ("completed", "Nothing is left"),
        ("compensated", "came to nothing: step 1 is failed"),
        ("stuck", "A person has to settle"),
        ("undecided", "Look again later"),
        ("something_new", "Look again later"),
    ],
)
def test_every_status_has_words_for_the_model(status: str, said: str) -> None:
    """What happened, what may be done, what must not; also of a status that is not known here."""
    step = {"step": 1, "action": {"key": "charge:v1:acme:e", "status": "failed"}}
    body = {"saga": "s", "business_event": "e", "status": status, "steps": [step]}
    result = told(read_saga(Reply(200, json.dumps(body).encode()), "e", "s"))
    assert said in result.text_for_model
