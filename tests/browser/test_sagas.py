"""Sagas as people see them: the list, one with its steps, and what they have nothing to do with."""

import pytest

from ledger.core.inputs import OpenSaga, Planned, PlannedStep
from ledger.core.money import Money
from ledger.core.request import Request
from tests.browser.conftest import Visiting
from tests.browser.stage import Stage
from tests.browser.visits import NARROW
from tests.patience import PATIENCE_MS

pytestmark = pytest.mark.servers

ITEMS = ("goods", "freight")


def planned(operation: str, event: str, item: str) -> Planned:
    """One action of a plan."""
    request = Request(
        operation=operation,
        version=1,
        target=f"order:{event}",
        money=Money(minor=1_000, currency="EUR"),
        principal="agent:support",
        environment="production",
    )
    return Planned(key=f"{operation}:v1:acme:{event}#{item}", request=request)


def opened(stage: Stage, event: str) -> str:
    """Open a saga of two charges, each undone by a refund; the key of its first step."""
    steps = tuple(
        PlannedStep(
            **dict(planned("charge", event, item)), compensation=planned("refund", event, item)
        )
        for item in ITEMS
    )
    given = OpenSaga(stream=f"acme/{event}", saga="order", principal="agent:support", steps=steps)
    answer = stage.run(stage.client.open_saga(given, timeout_ms=PATIENCE_MS))
    assert answer.decision.refused is None, answer.decision.refused
    stage.wait_for(steps[0].key, "policy.decided")
    return steps[0].key


def test_a_saga_shows_its_steps_and_what_undoes_them(stage: Stage, visiting: Visiting) -> None:
    """From the list to the plan, and from there to each of its actions; also in a narrow window."""
    first = opened(stage, "saga-1")
    anna = visiting("anna", size=NARROW)
    page = anna.log_in("/console/sagas")
    page.get_by_role("row", name="saga-1").get_by_role("link", name="order").click()
    page.get_by_role("heading", name="Saga order").wait_for()
    assert not anna.is_wider_than_window()
    rows = page.get_by_role("region", name="Steps, in order").get_by_role("row")
    told = [one.inner_text() for one in rows.all()]
    assert "next" in told[1]
    assert "planned, if it is needed" in told[1]
    assert first in told[1]
    assert "blocked" in told[2]
    page.get_by_role("link", name=first).click()
    page.locator(".heading .key", has_text=first).wait_for()


def test_other_tenants_sagas_are_not_there(stage: Stage, visiting: Visiting) -> None:
    """Somebody who is not registered for the tenant sees no saga of it."""
    opened(stage, "saga-hidden")
    gus = visiting("gus")
    page = gus.log_in("/console/sagas")
    assert "saga-hidden" not in page.content()
    page.goto(f"{gus.origin}/console/sagas/acme/saga-hidden/order")
    assert page.get_by_role("alert").locator("code").inner_text() == "not_found"
    gus.complaints.clear()
