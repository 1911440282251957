"""Public failure cases about who comes to a door: one agent in the way of another, and links that a
machine opens before the person does.
"""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.keys import Role, create_key
from tests import asking
from tests.integration.asking_people import Office, known, office, refund_body
from tests.integration.door import code_of
from tests.integration.installation import CATALOGUE, settled
from tests.servers import Addresses

pytestmark = pytest.mark.servers

POLICY = asking.asked("refund") + asking.EVERYTHING_GOES_AHEAD
DEPLOYER, STRANGER = "agent:deployer", "agent:stranger"
# Only one of both agents may ask for charges; the catalogue says so, with one line.
NARROWED = CATALOGUE.replace('principals = ["*"]', f'principals = ["{DEPLOYER}"]', 1)


@pytest.fixture
async def people(servers: Addresses, tmp_path: Path) -> AsyncIterator[Office]:
    """An installation in which refunds are asked about, and one agent alone may ask for charges."""
    async with office(servers, tmp_path, POLICY, catalogue=NARROWED) as made:
        yield made


def bearer(people: Office, principal: str) -> dict[str, str]:
    """The header of an agent of this name."""
    key = create_key(
        people.door.settings.api_keys_file, tenant="acme", principal=principal, role=Role.AGENT
    )
    return {"Authorization": f"Bearer {key}"}


def charge(minor: int, target: str) -> dict[str, Any]:
    """The body of a charge under a key that anybody can guess: a commit's."""
    return {
        "operation": "charge",
        "version": 1,
        "business_event": "deploy-9f3c",
        "target": target,
        "params": {},
        "money": {"minor": minor, "currency": "EUR"},
        "environment": "production",
    }


@pytest.mark.case("C191")
async def test_a_guessable_key_is_no_way_to_be_in_the_way(people: Office) -> None:
    """C191: a key belongs to its tenant and to those who may ask for its operation. Whoever may not
    can take it with rubbish before, during or after: nothing is recorded under it, the real caller
    runs, and to the other one the action does not exist.
    """
    http = people.door.http
    stranger, deployer = bearer(people, STRANGER), bearer(people, DEPLOYER)
    rubbish = charge(1, "order:rubbish")
    first = await known(people, rubbish, stranger)
    assert code_of(first) == "not_allowed"
    real = await http.post("/v1/actions", json=charge(4_990, "order:9f3c"), headers=deployer)
    assert real.status_code == 201, real.text
    key = real.json()["key"]
    assert code_of(await http.post("/v1/actions", json=rubbish, headers=stranger)) == "not_allowed"
    nothing = key.replace("9f3c", "0000")
    for method, path in (
        ("GET", ""),
        ("GET", "/timeline"),
        ("POST", "/cancel"),
        ("POST", "/ask"),
    ):
        told = [
            await http.request(method, f"/v1/actions/{one}{path}", headers=stranger)
            for one in (key, nothing)
        ]
        assert {code_of(one) for one in told} == {"unknown_action"}
        assert told[0].text.replace(key, "") == told[1].text.replace(nothing, "")
    await settled(people.door.client, key, "completed")
    seen = await http.get(f"/v1/actions/{key}", headers=deployer)
    assert (seen.status_code, seen.json()["status"]) == (200, "completed")
    assert people.provider.calls == {key: 1}


@pytest.mark.case("C109")
async def test_a_link_that_a_scanner_opens_decides_nothing(people: Office) -> None:
    """C109: looking at the page of an action, however often and by whomever, changes nothing; only
    what a person has signed for this question does, and once.
    """
    http = people.door.http
    proposed = await people.door.propose(refund_body("return-1"))
    key, page = proposed.json()["key"], proposed.json()["approval"]["page"]
    for _ in range(2):
        for method in ("GET", "HEAD", "OPTIONS"):
            await opened(http, method, page)
            await opened(http, method, f"{page}?decision=approve")
            await opened(http, method, f"{page}?decision=deny")
    assert (await http.get("/v1/decisions")).status_code == 405
    version = (await people.door.get(f"/v1/actions/{key}")).json()["version"]
    assert version == proposed.json()["version"]
    await people.say(await people.sheet(key))
    await people.until(key, "completed")
    assert people.provider.calls == {key: 1}


async def opened(http: httpx.AsyncClient, method: str, page: str) -> None:
    """Follow a link as a scanner of mail does."""
    answer = await http.request(method, page, follow_redirects=True)
    assert "set-cookie" not in answer.headers
