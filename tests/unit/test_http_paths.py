"""Names in paths: whatever comes where a route has a name, the answer says what is wrong."""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

import httpx
import pytest
from fastapi.routing import APIRoute

from actionledger import testing
from gateway.http.app import ROUTERS
from gateway.http.metrics import Metrics
from gateway.http.outermost import Outermost
from gateway.http.problems import MEDIA_TYPE
from gateway.http.run_views import name_in_path
from gateway.memory import Installation, open_installation
from ledger.signing.logins import login_token
from tests.asking import EVERYTHING_GOES_AHEAD

KEY: Final = "charge:v1:acme:renewal-1"
NO_NAMES: Final = {
    "a slash": "a%2Fb",
    "a slash in small letters": "a%2fb",
    "a slash alone": "%2F",
    "the end of another route": "a%2Fsteps",
    "the folder above": "..%2F..",
    "NUL": "%00",
    "a name and NUL": "a%00",
    "no UTF-8": "%FF%FE",
    "half a sequence of UTF-8": "a%C3",
    "half of a surrogate pair": "%ED%A0%80",
    "a sign of percent": "%25",
    "an encoded escape": "a%252Fb",
    "no escape at all": "%zz",
    "a blank": "a%20b",
    "a line": "a%0D%0Ab",
    "a question": "a%3Fb",
    "a turn of the reading direction": "%E2%80%AE",
    "an accent": "caf%C3%A9",
    "one too long": "a" * 129,
    "one much too long": "a" * 4_000,
}
NO_PARTS: Final = {"nothing": "", "a bare slash": "a/b", "a slash alone": "/", "a tail": "a/"}
"""What makes another path of it: no route takes it."""
BODIES: Final = {"/v1/runs/{run}/steps": {"step": 1}, "/v1/actions/{key}/outcome": {}}
NAMED: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Place:
    """One name of one route."""

    method: str
    template: str
    name: str

    def path(self, text: str) -> str:
        """The path with this text in place of the name; the other names are in order."""
        path = self.template.replace(f"{{{self.name}}}", text)
        return NAMED.sub(lambda found: KEY if found[1] == "key" else "1", path)


def places() -> Iterator[Place]:
    """Every name of every route."""
    for router in ROUTERS:
        for route in router.routes:
            assert isinstance(route, APIRoute)
            for name in NAMED.findall(route.path_format):
                for method in route.methods or ():
                    yield Place(method, route.path_format, name)


PLACES: Final = tuple(places())


@dataclass
class Knocking:
    """An agent, and a person who logs in for each request."""

    one: Installation
    http: httpx.AsyncClient
    agent: str

    async def ask(self, place: Place, text: str) -> httpx.Response:
        """Ask under a path with this text as the name."""
        path = place.path(text)
        token = f"Bearer {self.agent}"
        if place.template.startswith(("/v1/approvals", "/v1/reviews", "/v1/orphans")):
            login = login_token(
                self.one._people._keys["ada"],
                ledger=self.one._log.generation,
                method=place.method,
                path=path,
                now_ms=self.one.now_ms,
            )
            token = f"Login {login}"
        body = BODIES.get(place.template)
        return await self.http.request(
            place.method, path, json=body, headers={"Authorization": token}
        )


@pytest.fixture
async def door() -> AsyncIterator[Knocking]:
    """Open a door on an installation in memory."""
    async with open_installation(policy=EVERYTHING_GOES_AHEAD) as one:
        transport = httpx.ASGITransport(one.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url=one.address) as http:
            yield Knocking(one, http, one.api_key("acme", "agent:test"))


def wrong(response: httpx.Response) -> tuple[str, set[str]]:
    """The code of a refusal, and the names that it says are wrong."""
    problem = response.json()
    assert response.headers["content-type"] == MEDIA_TYPE
    assert problem["hint"]
    return problem["code"], {one["path"] for one in problem.get("problems", ())}


def test_every_route_is_walked() -> None:
    """A route that is added has its names tried by itself."""
    names = {"key", "run", "event", "saga", "batch", "provider", "partition", "offset"}
    assert {one.name for one in PLACES} == names
    assert len(PLACES) >= 12


async def test_what_is_no_name_is_refused_by_name(door: Knocking) -> None:
    """The route that the path was meant for says which name cannot be one; of a provider, that
    nothing is expected from it.
    """
    for place in PLACES:
        expected = {
            "key": (400, "malformed_key", {"/key"}),
            "provider": (404, "webhook_source_unknown", set()),
        }.get(place.name, (400, "invalid_path", {f"/{place.name}"}))
        for told, text in NO_NAMES.items():
            response = await door.ask(place, text)
            found = (response.status_code, *wrong(response))
            assert found == expected, (place, told, response.text)


async def test_a_path_that_misses_its_route_says_which_name_is_in_the_way(door: Knocking) -> None:
    """An empty name, or one with a bare slash, makes a path that no route has."""
    for place in PLACES:
        for told, text in NO_PARTS.items():
            response = await door.ask(place, text)
            code, names = wrong(response)
            assert (response.status_code, code) == (404, "not_found"), (place, told)
            assert names, (place, told, response.text)
            assert names <= {f"/{one}" for one in NAMED.findall(place.template)}, (place, told)


async def test_a_path_that_has_nothing_to_do_with_a_route_names_nothing(door: Knocking) -> None:
    """There is nothing here, and nothing to correct."""
    for path in ("/", "//", "/v1", "/v1/nothing", "/v1/runs%2Fa", "/v2/runs/"):
        assert wrong(await door.http.get(path)) == ("not_found", set()), path


async def test_a_stranger_learns_no_more_of_a_slash_than_of_any_name(door: Knocking) -> None:
    """Who asks without a key is told that, whatever is in the path."""
    for path in ("/v1/runs/a", "/v1/runs/a%2Fb", "/v1/runs/%00", f"/v1/actions/{KEY}%2Fcancel"):
        assert wrong(await door.http.get(path))[0] == "unauthenticated"


@pytest.mark.parametrize("run", [".", "..", "...", "-", "a" * 128])
async def test_a_run_of_any_name_that_a_key_can_hold_is_found(run: str) -> None:
    """Names that a client would take for a folder reach the door as what they are, in what the
    door answers too.
    """
    async with testing.ledger() as world:
        await world.ledger.report_step(run, 1)
        assert (await world.ledger.run(run)).run == run
    assert httpx.URL(f"http://door/v1/runs/{name_in_path(run)}/steps").path.count("/") == 4


async def test_a_request_without_its_bytes_is_taken_as_it_is_decoded() -> None:
    """A server need not say how a path was sent."""
    seen: list[str] = []

    async def app(scope: dict[str, object], _receive: object, _send: object) -> None:
        seen.append(str(scope["path"]))

    scope = {"type": "http", "method": "GET", "path": "/v1/runs/a/b", "headers": []}
    await Outermost(app, Metrics())(scope, None, None)  # type: ignore[arg-type]
    assert seen == ["/v1/runs/a/b"]


async def test_a_path_of_slashes_is_answered_and_not_searched(door: Knocking) -> None:
    """Which name is in the way is asked of paths that somebody may have meant: thousands of slashes
    can be parted in the square of so many ways, and everybody would wait for that.
    """
    for path in ("/v1/sagas/e" + "/" * 40 + "x/cancel", "/v1/sagas/" + "a/" * 14_000 + "cancel"):
        assert wrong(await door.http.post(path)) == ("not_found", set()), path[:60]
    assert wrong(await door.http.post("/v1/sagas/e//cancel"))[1]
