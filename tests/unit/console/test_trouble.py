"""The pages while the database is away: they say so, and nobody is let in meanwhile."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import httpx
import pytest
from fastapi import FastAPI

from gateway.console.app import Console, add_console
from gateway.console.login import challenge_of
from gateway.console.reading import ConsoleReading
from gateway.console.site_file import Site
from gateway.local.ports import free_ports
from gateway.orphans import NoOrphans
from gateway.passkeys import PasskeyLinks
from ledger.client.client import Answer, ClientFailedError
from ledger.core.inputs import AskAgain, Judge
from ledger.core.people import parse_people
from ledger.core.people_text import written
from ledger.log.published import Published
from projections.queries import Queries
from reconciler.windows import read_live
from tests import asking
from tests.browser.http import code_of, hidden
from tests.passkeys import ORIGIN, SoftwarePasskey

SITE = Site(ORIGIN, b"s" * 32)
PASSKEY = SoftwarePasskey.of(1)
STRANGER = SoftwarePasskey.of(2)


class Away:
    """A log that does not answer."""

    async def judge(self, given: Judge, *, timeout_ms: int) -> Answer:
        """Fail, as a client does that no longer follows."""
        raise ClientFailedError("away", hint="")

    async def ask_again(self, given: AskAgain, *, timeout_ms: int) -> Answer:
        """Fail as well."""
        raise ClientFailedError("away", hint="")


async def not_in_time() -> bool:
    """The log does not say what was published last."""
    return False


@dataclass
class Pages:
    """The pages, and a session of somebody."""

    http: httpx.AsyncClient
    console: Console


@pytest.fixture
async def pages() -> AsyncIterator[Pages]:
    """Serve the pages over a database and a log that are not there."""
    person = asking.people(asking.people_text("ada")).people[0]
    person = person.model_copy(update={"keys": (PASSKEY.registered(),)})
    people = parse_people(written(Published().people, (person,)))
    published = Published(people=people)  # type: ignore[arg-type] # a document in order
    (port,) = free_ports(1)
    url = f"postgresql://nobody@127.0.0.1:{port}/nothing"
    async with asyncpg.create_pool(url, min_size=0, max_size=1) as pool:
        reading = ConsoleReading(
            Queries(pool),
            Away(),
            PasskeyLinks(pool),
            lambda: published,
            generation="g",
            live=lambda now_ms: read_live(pool, now_ms=now_ms),
            orphans=NoOrphans(),
            catch_up=not_in_time,
        )
        console = Console(reading, SITE)
        app = FastAPI()
        add_console(app, console)
        transport = httpx.ASGITransport(app)
        headers = {"Origin": ORIGIN}
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN, headers=headers) as http:
            yield Pages(http, console)


async def test_a_page_says_that_the_ledger_does_not_answer(pages: Pages) -> None:
    """It names no part and shows no stack; what was recorded is safe."""
    now = pages.console.wall_clock_ms()
    _, cookie = pages.console.seals.session("ada", PASSKEY.id, now_ms=now)
    pages.http.cookies["actionledger"] = cookie
    for path in ("waiting", "unknowns", "actions/charge:v1:acme:e", "approve/charge:v1:acme:e"):
        answer = await pages.http.get(f"/console/{path}")
        assert (answer.status_code, code_of(answer)) == (503, "not_answering")
        assert "127.0.0.1" not in answer.text
    answer = await pages.http.get("/console/passkeys/anything")
    assert code_of(answer) == "not_answering"


async def test_nobody_is_let_in_whose_answer_cannot_be_spent(pages: Pages) -> None:
    """A challenge that might count twice counts for nothing."""
    page = await pages.http.get("/console/login")
    assert page.status_code == 200
    once = hidden(page.text, "once")
    form = {"once": once, "credential": PASSKEY.assertion_json(challenge_of(once))}
    answer = await pages.http.post("/console/login", data=form)
    assert (answer.status_code, code_of(answer)) == (503, "not_answering")
    assert "set-cookie" not in answer.headers


async def test_nobody_is_called_unknown_by_people_that_may_not_be_the_newest(pages: Pages) -> None:
    """Whose passkey was published a moment ago is to try again, not to enrol once more."""
    once = hidden((await pages.http.get("/console/login")).text, "once")
    form = {"once": once, "credential": STRANGER.assertion_json(challenge_of(once))}
    answer = await pages.http.post("/console/login", data=form)
    assert (answer.status_code, code_of(answer)) == (503, "not_answering")


async def test_strangers_meet_no_database(pages: Pages) -> None:
    """What needs no session asks nobody, so it is there while the database is away."""
    assert (await pages.http.get("/console/waiting")).status_code == 303
    assert (await pages.http.get("/console/static/console.css")).status_code == 200
    assert (await pages.http.get("/console/static/other.css")).status_code == 404
    answer = await pages.http.post("/console/login", data={"once": "x", "credential": "{}"})
    assert code_of(answer) == "challenge_over"
    too_many = {f"f{n}": "x" for n in range(20)}
    for body in (b"a=1&a=2", b"x" * 70_000, b"%ff=%fe", b"a", b"note=a%00b"):
        answer = await pages.http.post(
            "/console/login",
            content=body,
            headers={"Content-Type": "application/x-www-form-urlencoded"},
        )
        assert (answer.status_code, code_of(answer)) == (400, "form_malformed"), body[:20]
    answer = await pages.http.post("/console/login", data=too_many)
    assert code_of(answer) == "form_malformed"
