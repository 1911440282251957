"""Sagas at the door: the key that a header names; and waiting for one, where what was heard of and
is not decided keeps nothing busy.
"""

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import httpx
import pytest

from gateway.http.doors import Doors
from gateway.http.saga_views import saga_view
from gateway.http.sagas import _until_later
from gateway.memory.installation import ADDRESS, open_installation
from ledger.core.sagas import Saga
from tests.examples import STREAM
from tests.examples_of_sagas import TRIP, do
from tests.travelling import Travelling


@dataclass
class EarlyLedger:
    """A ledger that has heard of a success before it is decided; it decides when it may."""

    told: Travelling
    decided: asyncio.Event = field(default_factory=asyncio.Event)
    asked_after: list[int] = field(default_factory=list)

    def saga(self, stream: str, name: str) -> Saga:
        """The saga as it is decided."""
        assert (stream, name) == (STREAM, TRIP)
        return self.told.saga

    async def progress(self, key: str, *, after_version: int, timeout_ms: int) -> object:
        """At once what was heard; what comes later once it is decided."""
        version = self.told.action(key).version
        self.asked_after.append(after_version)
        if after_version == version:
            return SimpleNamespace(version=version + 1)
        await asyncio.wait_for(self.decided.wait(), timeout_ms / 1_000)
        return SimpleNamespace(version=self.told.action(key).version)


async def test_a_success_that_is_heard_of_is_waited_for_once() -> None:
    """Whoever waits at the door lets everybody else be served until the decision is there."""
    told = Travelling()
    told.begins(do("flight"))
    ledger = EarlyLedger(told)
    stub = SimpleNamespace(
        ledger=ledger,
        waiters=0,
        waiting=Doors.waiting,
        is_stopping=False,
        monotonic_s=asyncio.get_running_loop().time,
        metrics=SimpleNamespace(waiters=SimpleNamespace(inc=lambda: None, dec=lambda: None)),
    )
    stub.waiting = lambda: Doors.waiting(cast("Doors", stub))
    view = saga_view(told.saga)

    async def decide() -> None:
        told.does(do("flight"))
        ledger.decided.set()

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(
            _until_later(cast("Doors", stub), STREAM, view, view.version, 10_000)
        )
        tasks.create_task(decide())
    assert waiting.result().version > view.version
    version = told.saga.steps[0].action.version
    assert len(ledger.asked_after) <= 2, (ledger.asked_after, version)


PLAN = {
    "saga": "trip",
    "business_event": "order-7",
    "environment": "test",
    "steps": [
        {"operation": "ticket", "version": 1, "item": "a", "params": {"title": "One"}},
        {"operation": "ticket", "version": 1, "item": "b", "params": {"title": "Two"}},
    ],
}


@pytest.mark.parametrize(
    ("header", "status", "code"),
    [
        ('"order-7/trip"', 201, None),
        ("trip", 201, None),
        ("8e03978e-40d5-43dd-bc93-6894a57f9324", 400, "other_idempotency_key"),
        ('"order-7"', 400, "other_idempotency_key"),
        ("", 400, "malformed_idempotency_key"),
    ],
)
async def test_a_key_beside_a_plan_is_that_of_the_plan(
    header: str, status: int, code: str | None
) -> None:
    """Family `key`, beside C003: one that is drawn for every call is refused, and nothing of the
    plan is recorded; it was passed over, and whoever trusted in it had every draw carried out.
    """
    async with open_installation() as installation:
        key = installation.api_key("acme", "agent:test")
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(installation.app),
            base_url=ADDRESS,
            headers={"Authorization": f"Bearer {key}"},
        ) as http:
            answer = await http.post("/v1/sagas", json=PLAN, headers={"Idempotency-Key": header})
            assert (answer.status_code, answer.json().get("code")) == (status, code)
            found = await http.get("/v1/sagas/order-7/trip")
            assert found.status_code == (200 if status == 201 else 404)
