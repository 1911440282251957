"""What no action explains, as people see it: who is shown what, and a word that is kept."""

import pytest

from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from tests.browser.conftest import Visiting
from tests.browser.stage import Stage
from tests.browser.visits import NARROW
from tests.integration.reconciling import all_records, desk, receive, settlement
from tests.integration.test_odd_evidence import line

pytestmark = pytest.mark.servers


async def _reconciled(stage: Stage) -> None:
    appender = SteadyAppender(stage.one.log.appender)
    await desk(stage.one, stage.pool, appender).handle(await all_records(stage.one, Topic.WEBHOOKS))
    await appender.close()


def test_a_person_says_what_came_of_an_effect_without_an_action(
    stage: Stage, visiting: Visiting
) -> None:
    """Seen by who decides for its tenant, from the page of cases on; noted, it is off the list.
    What is no tenant's is shown to who decides for all, and to nobody else.
    """
    marked = settlement("evt_hand", reference="ch_hand", action_key="charge:v1:acme:by-hand-1")
    unmarked = line("hand", reference="ch_nobody", provider_key="own-<b>1</b>")
    stage.run(receive(stage.one, marked, unmarked))
    stage.run(_reconciled(stage))
    anna = visiting("anna", size=NARROW)
    page = anna.log_in("/console/reviews")
    page.get_by_role("link", name="1 that providers state").click()
    page.get_by_role("heading", name="What no action explains").wait_for()
    assert not anna.is_wider_than_window()
    row = page.get_by_role("table", name="Without an action").get_by_role("row", name="ch_hand")
    for part in ("simulated, main", "charge:v1:acme:by-hand-1", "no action here has made"):
        assert part in row.inner_text(), part
    assert "ch_nobody" not in page.content()
    row.get_by_label("What came of ch_hand").fill("By hand, <b>in</b> their dashboard.")
    row.get_by_role("button", name="Note").click()
    page.get_by_role("heading", name="Your word is kept").wait_for()
    stage.run(_reconciled(stage))
    page.get_by_role("link", name="Back to the list").click()
    page.get_by_text("Nothing, in acme").wait_for()
    carla = visiting("carla").log_in("/console/orphans")
    row = carla.get_by_role("table", name="Without an action").get_by_role("row", name="ch_nobody")
    assert "at the provider under own-<b>1</b>" in row.inner_text()
    noted = stage.run(stage.pool.fetchrow("select * from actionledger.webhooks where seen_by > ''"))
    assert noted is not None
    assert (noted["seen_by"], noted["seen_note"]) == ("anna", "By hand, <b>in</b> their dashboard.")
    assert (noted["classification"], noted["event_id"]) == ("parked", "evt_hand")
