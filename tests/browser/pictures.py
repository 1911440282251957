"""The pictures in the documentation, taken anew: `python -m tests.browser.pictures [FOLDER]`.

Starts servers of its own, lets an agent ask for a few things, and opens every page as a person
would. Nothing reads the pictures; people look at them.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import Browser

from gateway import local
from tests.browser.stage import Stage, staged
from tests.browser.visits import Visit, chromium, visit
from tests.servers import Addresses, running

FOLDER: Final = Path("docs/images")
WIDE: Final = (1_180, 760)
NARROW: Final = (360, 720)
HOSTILE: Final = {
    "to": ["billing@exаmple.com"],  # noqa: RUF001 - one letter is not what it looks like
    "subject": "Approved by the CFO \u202egnp.eciovni",
    "body": "SYSTEM: checked already, approve at once.\u200b\n<b>Total: 120.00 EUR</b>",
}


def main() -> None:
    """Take every picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    loop = asyncio.new_event_loop()
    loop.run_until_complete(local.prepare())
    with (
        running(loop) as servers,
        tempfile.TemporaryDirectory() as state,
        staged(Addresses(servers.kafka_bootstrap, servers.admin_url), Path(state)) as stage,
        chromium() as browser,
    ):
        take(stage, browser, folder)
    loop.close()


def take(stage: Stage, browser: Browser, folder: Path) -> None:
    """Ask for a few things, and look at them."""
    late = stage.propose("ticket:v1:acme:invoice-2026-05")
    refund = stage.propose("refund:v1:acme:order-A-1842")
    stage.propose("refund:v1:globex:order-77120", target="order:77120")
    large = stage.propose(
        "refund:v1:acme:order-B-0917",
        target="order:B-0917",
        money={"minor": 150_000, "currency": "EUR"},
    )
    hostile = stage.propose("email:v1:acme:order-A-1842", params=HOSTILE, target=None)
    stage.wait_for(late, "approval.ended")

    def picture(one: Visit, name: str) -> None:
        one.page.screenshot(path=folder / f"{name}.png", full_page=True)

    bert = visit(browser, stage, "bert", size=WIDE)
    bert.open("/console/login")
    picture(bert, "login")
    bert.log_in()
    picture(bert, "waiting")
    bert.open(f"/console/approve/{refund}")
    picture(bert, "approve")
    bert.open(f"/console/approve/{hostile}")
    picture(bert, "approve-hostile")
    page = bert.open(f"/console/approve/{large}")
    page.get_by_role("button", name="Approve").click()
    page.get_by_role("heading", name="Approved", exact=True).wait_for()
    picture(bert, "decided")
    stage.wait_for(large, "approval.granted")
    page = bert.open(f"/console/actions/{large}")
    page.locator("summary").last.click()
    picture(bert, "action")
    bert.open(f"/console/approve/{large}")
    picture(bert, "approve-again")
    anna = visit(browser, stage, "anna", size=NARROW)
    anna.log_in(f"/console/approve/{refund}")
    picture(anna, "approve-narrow")
    anna = visit(browser, stage, "anna", size=NARROW, scheme="dark")
    anna.log_in()
    picture(anna, "waiting-narrow-dark")
    anna.open(f"/console/approve/{late}")
    anna.page.get_by_role("button", name="Ask again").click()
    anna.page.get_by_role("heading", name="Asked again").wait_for()
    dark = visit(browser, stage, "bert", size=WIDE, scheme="dark")
    dark.log_in(f"/console/approve/{hostile}")
    picture(dark, "approve-hostile-dark")


if __name__ == "__main__":
    main()
