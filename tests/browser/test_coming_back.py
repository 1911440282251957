"""The pages as people come back to them by the browser's button."""

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import Visiting
from tests.browser.stage import Stage

pytestmark = pytest.mark.servers


def approve(page: Page) -> None:
    """Press the button and wait for what was decided."""
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("heading", name="Approved", exact=True).wait_for()


def test_who_comes_back_sees_what_was_decided(stage: Stage, visiting: Visiting) -> None:
    """Family appr: behind the browser's button stands the sheet as it is now, with an approval to
    take back and none to give once more.
    """
    key = stage.propose("refund:v1:acme:back")
    page = visiting("anna").log_in(f"/console/approve/{key}")
    approve(page)
    stage.wait_for(key, "approval.granted")
    page.go_back()
    page.wait_for_url(f"**/console/approve/{key}")
    page.locator("h1").wait_for()
    assert page.get_by_role("button", name="Approve").count() == 0
    assert stage.facts(key).count("approval.granted") == 1


def test_a_page_that_a_browser_kept_is_read_again(stage: Stage, visiting: Visiting) -> None:
    """Family appr: a browser that shows the page as it was left, busy with what was handed in long
    ago, is made to read it again.
    """
    key = stage.propose("refund:v1:acme:kept")
    page = visiting("anna").log_in(f"/console/approve/{key}")
    page.locator("form[data-decide]").evaluate("form => { form.dataset.busy = 'yes'; }")
    with page.expect_navigation():
        page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    approve(page)
