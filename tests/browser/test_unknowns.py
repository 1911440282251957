"""What may have happened, as people see it: how old, what was found, what is next, and the bar."""

import pytest

from ledger.core.inputs import Meaning
from reconciler.windows import WebhookWindow, Windows, write_windows
from tests.browser.conftest import Visiting
from tests.browser.stage import Stage
from tests.browser.visits import NARROW

pytestmark = pytest.mark.servers


def test_an_unknown_action_shows_all_that_is_known_of_it(stage: Stage, visiting: Visiting) -> None:
    """Age, evidence so far, the next check and the key window as a bar; also in a narrow window."""
    key = stage.lose("charge:v1:acme:lost-1")
    anna = visiting("anna", size=NARROW)
    page = anna.log_in("/console/unknowns")
    row = page.get_by_role("table", name="Uncertain actions").get_by_role("row", name=key)
    assert "none, after 1 attempt at simulated" in row.inner_text()
    assert not anna.is_wider_than_window()
    stage.tell(key, "evt_lost_1", "ch_lost", 4_990, Meaning.PENDING)
    stage.wait_for(key, "evidence.recorded")
    anna.open("/console/unknowns")
    told = row.inner_text()
    for part in ("webhook: under way (ch_lost)", "the provider is asked", "left", "until 20"):
        assert part in told, part
    bar = row.get_by_role("img").get_attribute("aria-label")
    assert bar == "0 in a hundred of the key window are gone"
    ages = page.get_by_role("region", name="By provider and age").get_by_role("row")
    assert "simulated" in ages.nth(1).inner_text()
    row.get_by_role("link").click()
    page.wait_for_url("**/console/actions/**")


def test_what_was_found_out_is_not_there_any_more(stage: Stage, visiting: Visiting) -> None:
    """A webhook that proves the effect takes it off the list."""
    key = stage.lose("charge:v1:acme:lost-2")
    anna = visiting("anna")
    page = anna.log_in("/console/unknowns")
    assert key in page.content()
    stage.tell(key, "evt_lost_2", "ch_lost_2", 4_990, Meaning.EFFECT)
    stage.wait_for(key, "action.completed")
    anna.open("/console/unknowns")
    page.get_by_role("heading", name="What may have happened").wait_for()
    assert key not in page.content()


def test_other_tenants_unknowns_and_all_webhooks_are_not_there(
    stage: Stage, visiting: Visiting
) -> None:
    """Somebody registered for another tenant sees neither the action nor figures about webhooks,
    which are no tenant's; who may see all tenants sees both, added up over members.
    """
    key = stage.lose("charge:v1:acme:lost-3")
    gus, carla = visiting("gus"), visiting("carla")
    gus.log_in("/console/unknowns")
    carla.log_in("/console/unknowns")
    # Figures are shown while they are fresh: nobody is to log in meanwhile.
    window = WebhookWindow()
    now_ms = _now_ms(stage)
    for _ in range(30):
        window.add("simulated", "matched", now_ms=now_ms, matched_after_ms=40)
    windows = Windows(
        webhooks=window.webhooks(now_ms),
        matched_within=window.matched_within(now_ms),
        unmatched={"parked:reference_unknown": 2},
        unmatched_at=now_ms,
    )
    stage.run(_write(stage, windows, now_ms))
    page = gus.open("/console/unknowns")
    assert key not in page.content()
    assert page.get_by_role("region", name="Webhooks in the last five minutes").count() == 0
    stage.run(_write(stage, windows, _now_ms(stage)))
    page = carla.open("/console/unknowns")
    assert key in page.content()
    told = page.get_by_role("region", name="Webhooks in the last five minutes").inner_text()
    for part in ("0.1 a second matched", "Half of them matched within 50 ms", "2 parked"):
        assert part in told, part


def _now_ms(stage: Stage) -> int:
    return int(stage.run(stage.pool.fetchval("select extract(epoch from now()) * 1000")))


async def _write(stage: Stage, windows: Windows, now_ms: int) -> None:
    async with stage.pool.acquire() as connection:
        await write_windows(connection, "member", windows, now_ms=now_ms)
