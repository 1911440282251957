"""What no action explains, by HTTP: who sees it, and a word that takes it off the list."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from reconciler.limits import NOTE_CHARS_MAX
from tests import asking
from tests.integration.asking_people import Office, office
from tests.integration.door import code_of
from tests.integration.reconciling import all_records, desk, receive, settlement
from tests.integration.test_odd_evidence import line
from tests.servers import Addresses

pytestmark = pytest.mark.servers

PEOPLE = "\n".join(
    (
        asking.people_text("ada"),
        asking.people_text("ben", tenants=("acme",)),
        asking.people_text("cyd", tenants=("globex",)),
    )
)


@asynccontextmanager
async def told(servers: Addresses, folder: Path) -> AsyncIterator[tuple[Office, list[str]]]:
    """An installation whose provider told of two effects without an action: one bears a key of
    acme, the other none. Their places.
    """
    policy = asking.EVERYTHING_GOES_AHEAD
    async with office(servers, folder, policy, people=PEOPLE, has_executor=False) as people:
        marked = settlement("evt_1", action_key="charge:v1:acme:by-hand-1")
        places = await receive(
            people.door.one, marked, line("1", reference="ch_2", provider_key="own-1")
        )
        await reconciled(people)
        yield people, [f"{partition}/{offset}" for partition, offset in places]


async def reconciled(people: Office) -> None:
    """Let a reconciler take all that is on the topic."""
    one = people.door.one
    appender = SteadyAppender(one.log.appender)
    async with asyncpg.create_pool(people.door.settings.database_url, min_size=0) as pool:
        await desk(one, pool, appender).handle(await all_records(one, Topic.WEBHOOKS))
    await appender.close()


async def say(people: Office, place: str, who: str, body: dict[str, Any]) -> httpx.Response:
    """Hand in a word on one of them."""
    path, raw = f"/v1/orphans/{place}/note", json.dumps(body).encode()
    return await sent(people, path, raw, people.login("POST", path, who, body=raw))


async def sent(people: Office, path: str, raw: bytes, login: dict[str, str]) -> httpx.Response:
    """Send a body under a login."""
    headers = {"Content-Type": "application/json", **login}
    return await people.door.http.post(path, content=raw, headers=headers)


async def test_people_see_what_is_their_tenants_and_one_word_closes_it(
    servers: Addresses, tmp_path: Path
) -> None:
    """Who decides for all tenants sees what is no tenant's too; a word is the person's, the first
    one counts, and the row stays parked.
    """
    async with told(servers, tmp_path) as (people, (marked, unmarked)):
        for who, seen in (("ada", {marked, unmarked}), ("ben", {marked}), ("cyd", set())):
            found = (await people.read("/v1/orphans", who)).json()
            assert {one["place"] for one in found["orphans"]} == seen
            assert (found["total"], found["you"]) == (len(seen), who)
            for place in (marked, unmarked):
                answer = await people.read(f"/v1/orphans/{place}", who)
                assert answer.status_code == (200 if place in seen else 404)
        sheet = (await people.read(f"/v1/orphans/{marked}", "ben")).json()
        assert (sheet["why"], sheet["source"], sheet["reference"]) == (
            *("orphan_effect", "webhook", "ch_1"),
        )
        assert (sheet["claimed_key"], sheet["amount"]) == ("charge:v1:acme:by-hand-1", "49.90 EUR")
        sheet = (await people.read(f"/v1/orphans/{unmarked}", "ada")).json()
        assert (sheet["provider_key"], sheet["reference"]) == ("own-1", "ch_2")

        answer = await say(people, marked, "cyd", {"note": "Not mine."})
        assert (answer.status_code, code_of(answer)) == (404, "unknown_orphan")
        answer = await say(people, marked, "ben", {"note": "By hand, in their dashboard."})
        assert (answer.status_code, answer.json()) == (202, {"place": marked, "by": "ben"})
        await reconciled(people)
        found = (await people.read("/v1/orphans", "ada")).json()
        assert [one["place"] for one in found["orphans"]] == [unmarked]
        sheet = (await people.read(f"/v1/orphans/{marked}", "ada")).json()
        assert (sheet["noted_by"], sheet["note"]) == ("ben", "By hand, in their dashboard.")
        answer = await say(people, marked, "ada", {"note": "Too late."})
        assert (answer.status_code, code_of(answer)) == (409, "orphan_noted")


async def test_what_is_asked_wrongly_has_a_name(servers: Addresses, tmp_path: Path) -> None:
    """Nobody logged in, no such place, and bodies that are no word; nothing is written."""
    async with told(servers, tmp_path) as (people, (marked, _)):
        for path in ("/v1/orphans", f"/v1/orphans/{marked}"):
            answer = await people.door.http.get(path)
            assert (answer.status_code, code_of(answer)) == (401, "login_invalid")
        for place, code in (
            ("0/99999", "unknown_orphan"),
            (f"{2**31}/0", "unknown_orphan"),
            ("-1/0", "invalid_path"),
            ("0/x", "invalid_path"),
            (f"0/{'9' * 30}", "invalid_path"),
        ):
            assert code_of(await people.read(f"/v1/orphans/{place}")) == code, place
        bodies: tuple[dict[str, Any], ...] = (
            {},
            {"note": ""},
            {"note": "x" * (NOTE_CHARS_MAX + 1)},
            {"note": "x", "by": "ben"},
        )
        for body in bodies:
            answer = await say(people, marked, "ada", body)
            assert (answer.status_code, code_of(answer)) == (400, "invalid_body"), body
        path, mine, other = f"/v1/orphans/{marked}/note", b'{"note":"mine"}', b'{"note":"other"}'
        for signed in (other, b""):
            answer = await sent(people, path, mine, people.login("POST", path, "ada", body=signed))
            assert (answer.status_code, code_of(answer)) == (401, "login_elsewhere")
        assert len(await all_records(people.door.one, Topic.WEBHOOKS)) == 2
