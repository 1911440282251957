"""Runs, ceilings and what blocks an action, as people see them and let them pass."""

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Visiting
from tests.browser.stage import Stage
from tests.browser.visits import NARROW

pytestmark = pytest.mark.servers

LARGE = {"minor": 2_000_00, "currency": "EUR"}


def large(stage: Stage, event: str, *, order: str, run: str) -> str:
    """A charge that passes gates."""
    return stage.propose(f"charge:v1:acme:{event}", money=LARGE, target=f"order:{order}", run=run)


def allowed(page: Page, comment: str) -> None:
    """Let it pass with a passkey."""
    page.get_by_label("Allow").check()
    page.get_by_label("Why: how you know").fill(comment)
    page.get_by_role("button", name="Sign and settle it").click()
    page.get_by_role("heading", name="Settled", exact=True).wait_for()
    assert "what you let it pass stands under your signature" in page.locator("main").inner_text()


def test_a_run_has_a_bar_for_every_ceiling_and_one_is_raised(
    stage: Stage, visiting: Visiting
) -> None:
    """What is used and reserved, and whose word it is; the second of one is let pass by name."""
    first = large(stage, "run-1", order="run-1", run="r-web")
    stage.wait_for(first, "gate.answered", times=3)
    second = large(stage, "run-2", order="run-2", run="r-web")
    stage.wait_for(second, "review.opened")
    stage.catch_up()
    page = visiting("anna").log_in("/console/runs")
    windows = page.get_by_role("region", name="Windows of now").inner_text()
    assert "reserved of 100000.00 EUR" in windows
    page.get_by_role("link", name="r-web").click()
    bars = page.get_by_role("region", name="Ceilings").inner_text()
    for told in ("side effects", "1 reserved of 1", "counted here, reached", "agent's own word"):
        assert told in bars, told
    actions = page.get_by_role("region", name="Its actions")
    assert "1 needs review" in actions.inner_text()
    actions.get_by_role("link", name=second).click()
    page.get_by_role("link", name="Look at the case and settle it").click()
    why = page.get_by_role("region", name="Why a person is needed").inner_text()
    assert "The ceiling run is 1 side effect, of which 1 were taken" in why
    assert "Lets pass" in page.get_by_role("region", name="What you sign").inner_text()
    allowed(page, "It is due as well.")
    settled = stage.only(second, "review.resolved")
    assert (settled.data["move"], settled.data["accepts"]) == ("allow", "run")


def test_what_waits_for_another_action_is_let_pass(stage: Stage, visiting: Visiting) -> None:
    """It stands below the cases, names the other action, and links there."""
    first = large(stage, "wait-1", order="wait", run="r-wait-1")
    stage.wait_for(first, "gate.answered", times=3)
    second = large(stage, "wait-2", order="wait", run="r-wait-2")
    stage.wait_for(second, "gate.answered", times=3)
    stage.catch_up()
    anna = visiting("anna", size=NARROW, scheme="dark")
    page = anna.log_in("/console/reviews")
    waits = page.get_by_role("region", name="Waiting for another action")
    row = waits.get_by_role("row", name=second)
    assert f"{first} holds the same target" in row.inner_text()
    row.get_by_role("link").click()
    assert not anna.is_wider_than_window()
    why = page.get_by_role("region", name="What it waits for")
    assert why.get_by_role("link", name=first).count() == 1
    assert page.get_by_role("radio").count() == 1
    allowed(page, "The customer knows of both.")
    settled = stage.only(second, "review.resolved")
    assert (settled.data["move"], settled.data["accepts"]) == ("allow", first)


def test_other_tenants_runs_are_not_there(stage: Stage, visiting: Visiting) -> None:
    """Somebody who is not registered for the tenant sees no run of it."""
    key = large(stage, "hidden-1", order="hidden", run="r-hidden")
    stage.wait_for(key, "gate.answered", times=3)
    stage.catch_up()
    gus = visiting("gus")
    page = gus.log_in("/console/runs")
    assert "r-hidden" not in page.content()
    page.goto(f"{gus.origin}/console/runs/acme/r-hidden")
    assert page.get_by_role("alert").locator("code").inner_text() == "not_found"
    gus.complaints.clear()
