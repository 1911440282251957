"""A browser, and people who use the pages with it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Literal

import pytest
from playwright.sync_api import Browser

from tests.browser.http import Knocking
from tests.browser.stage import Stage, staged
from tests.browser.visits import WIDE, NoBrowserError, Visit, chromium, visit
from tests.servers import Addresses

Visiting = Callable[..., Visit]
Knocks = Callable[[str], Knocking]


@pytest.fixture(scope="module")
def stage(servers: Addresses, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Run an installation with its pages for the module."""
    with staged(servers, tmp_path_factory.mktemp("pages")) as made:
        yield made


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Run the machine's Chromium for the module: its driver keeps the thread's event loop."""
    try:
        with chromium() as started:
            yield started
    except NoBrowserError as none:
        pytest.fail(str(none), pytrace=False)


@pytest.fixture
def visiting(browser: Browser, stage: Stage) -> Iterator[Visiting]:
    """Open windows for people; in none of them may the browser have complained of anything."""
    visits: list[Visit] = []

    def open_window(
        name: str | None = None,
        *,
        size: tuple[int, int] = WIDE,
        scheme: Literal["light", "dark"] = "light",
        script: Literal["on", "off"] = "on",
    ) -> Visit:
        visits.append(visit(browser, stage, name, size=size, scheme=scheme, script=script))
        return visits[-1]

    yield open_window
    complaints = [line for one in visits for line in one.complaints]
    for one in visits:
        one.context.close()
    assert complaints == []


@pytest.fixture
def knocking(stage: Stage) -> Iterator[Knocks]:
    """Speak to the pages without a browser, as people who have a passkey."""
    with ExitStack() as clients:

        def knock(name: str) -> Knocking:
            one = Knocking(stage, name)
            clients.callback(one.http.close)
            return one

        yield knock
