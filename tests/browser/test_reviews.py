"""Cases as people settle them: with a browser, a passkey, and only what is safe."""

import pytest

from tests.browser.conftest import Visiting
from tests.browser.stage import Stage
from tests.browser.visits import NARROW

pytestmark = pytest.mark.servers


def test_a_person_settles_a_case_with_their_passkey(stage: Stage, visiting: Visiting) -> None:
    """The list leads to the case, the case to a signature over its resolution, and that to what was
    decided.
    """
    key = stage.propose("charge:v1:acme:settled")
    stage.claim(key, "evt_1", "ch_9", 4_990)
    page = visiting("anna").log_in("/console/reviews")
    row = page.get_by_role("row", name=key)
    assert "effect that no attempt explains" in row.inner_text()
    row.get_by_role("link").click()
    known = page.get_by_role("region", name="What is known of the effect").inner_text()
    for told in ("effect", "ch_9", "49.90 EUR", "evt_1", "sha256:"):
        assert told in known
    assert page.get_by_label("Try again").count() == 0
    page.get_by_label("Effect exists").check()
    page.get_by_label("Reference of the effect").fill("ch_9")
    page.get_by_label("Why: how you know").fill("It is in the provider's\nown list.")
    page.get_by_role("button", name="Sign and settle it").click()
    page.get_by_role("heading", name="Settled", exact=True).wait_for()
    assert page.locator(".outcome-name").inner_text() == "review.resolved"
    stage.wait_for(key, "action.completed")
    settled = stage.only(key, "review.resolved")
    assert (settled.data["move"], settled.data["person"]) == ("effect_exists", "anna")
    assert settled.data["comment"] == "It is in the provider's\nown list."
    page.get_by_role("link", name="The action as it is now").click()
    assert page.locator(".status").inner_text() == "completed"


def test_what_is_not_said_is_not_signed(stage: Stage, visiting: Visiting) -> None:
    """Without a move, a reason, or a reference where one is needed, no passkey is asked."""
    key = stage.propose("charge:v1:acme:unsaid")
    stage.claim(key, "evt_2", "ch_10", 4_990)
    anna = visiting("anna", size=NARROW, scheme="dark")
    page = anna.log_in(f"/console/review/{key}")
    declared = page.get_by_role("region", name="The operation").inner_text()
    assert "Charge a customer's stored payment method." in declared
    assert "irreversibility medium" in declared
    button = page.get_by_role("button", name="Sign and settle it")
    button.click()
    assert page.locator("[data-said]").inner_text() == ""
    assert not anna.is_wider_than_window()
    page.get_by_label("No effect").check()
    page.get_by_label("Why: how you know").fill("The provider took it back.")
    button.click()
    page.get_by_role("heading", name="Settled", exact=True).wait_for()
    stage.wait_for(key, "action.cancelled")
    assert "It is over on your word" in page.locator("main").inner_text()
    page = anna.open(f"/console/review/{key}")
    assert page.get_by_role("alert").locator("code").inner_text() == "no_case"
    assert page.get_by_role("button", name="Sign and settle it").count() == 0
    settled = page.get_by_role("region", name="Settled before").inner_text()
    assert "The provider took it back." in settled


def test_what_became_known_meanwhile_has_to_be_read_first(stage: Stage, visiting: Visiting) -> None:
    """A case that has moved since it was shown is not signed."""
    key = stage.propose("charge:v1:acme:moved")
    stage.claim(key, "evt_3", "ch_11", 4_990)
    anna = visiting("anna")
    page = anna.log_in(f"/console/review/{key}")
    stage.claim(key, "evt_4", "ch_12", 4_990)
    stage.wait_for(key, "evidence.recorded", times=2)
    page.get_by_label("No effect").check()
    page.get_by_label("Why: how you know").fill("Nothing came of it.")
    page.get_by_role("button", name="Sign and settle it").click()
    page.locator("[data-said]", has_text="no longer what you were shown").wait_for()
    assert "review.resolved" not in stage.facts(key)
    # The browser tells of every answer that is a no.
    anna.complained()
    assert len(anna.complaints) == 1
    anna.complaints.clear()


def test_other_tenants_cases_are_not_there(stage: Stage, visiting: Visiting) -> None:
    """Somebody who is not registered for the tenant sees no case of it."""
    key = stage.propose("charge:v1:acme:hidden")
    stage.claim(key, "evt_5", "ch_13", 4_990)
    gus = visiting("gus")
    page = gus.log_in("/console/reviews")
    assert key not in page.content()
    page.goto(f"{gus.origin}/console/review/{key}")
    assert page.get_by_role("alert").locator("code").inner_text() == "not_found"
    gus.complaints.clear()
