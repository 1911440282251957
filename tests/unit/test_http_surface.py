"""What any client may send to the door beside what the routes are for: methods, headers, encodings.

One meaning for each request, and the answers that HTTP itself asks for (RFC 9110).
"""

import gzip
from collections.abc import AsyncIterator

import httpx
import orjson
import pytest
from fastapi.routing import APIRoute

from actionledger import testing
from gateway.http.app import ROUTERS

CHARGE = {
    "operation": "charge",
    "version": 1,
    "business_event": "renewal-1",
    "target": "order:A-1",
    "params": {"customer": "cus_7f", "description": "Renewal"},
    "money": {"minor": 100, "currency": "EUR"},
    "environment": "production",
}
ACTION = "/v1/actions/charge:v1:acme:renewal-1"


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A door in memory, with one action."""
    async with testing.ledger() as world:
        installation = world._installation
        key = installation.api_key("acme", "agent:x")
        transport = httpx.ASGITransport(installation.app)
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://door", headers=headers
        ) as client:
            assert (await client.post("/v1/actions", json=CHARGE)).status_code == 201
            yield client


def code_of(answer: httpx.Response) -> tuple[int, str]:
    """Status and code of a problem."""
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/actions", "POST"),
        ("OPTIONS", ACTION, "GET, HEAD"),
        ("DELETE", f"{ACTION}/cancel", "POST"),
        ("POST", "/healthz", "GET, HEAD"),
        ("GET", "/v1/webhooks/simulated", "POST"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ],
)
async def test_a_method_that_is_not_taken_is_told_which_are(
    http: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    """In `Allow`, as RFC 9110 demands of every 405."""
    answer = await http.request(method, path)
    assert code_of(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", ACTION, "/v1/runs"])
async def test_whatever_may_be_read_may_be_asked_for_without_its_body(
    http: httpx.AsyncClient, path: str
) -> None:
    """HEAD is answered as GET: balancers ask so whether the door is there."""
    head, get = await http.head(path), await http.get(path)
    assert head.status_code == get.status_code == 200
    assert head.headers["content-type"] == get.headers["content-type"]


@pytest.mark.parametrize("packing", ["gzip", "br", "identity, gzip", "deflate"])
async def test_a_packed_body_is_not_read_as_if_it_were_none(
    http: httpx.AsyncClient, packing: str
) -> None:
    """What is declared packed is refused, whether it is or not: it would have two meanings."""
    plain = orjson.dumps(CHARGE)
    for path in ("/v1/actions", f"{ACTION}/cancel"):
        for body in (plain, gzip.compress(plain)):
            answer = await http.post(
                path,
                content=body,
                headers={"content-type": "application/json", "content-encoding": packing},
            )
            assert code_of(answer) == (415, "unsupported_media_type")
            assert answer.headers["accept-encoding"] == "identity"
    answer = await http.post("/v1/actions", json=CHARGE, headers={"content-encoding": "identity"})
    assert answer.status_code == 200


async def test_a_header_that_says_two_things_says_nothing(http: httpx.AsyncClient) -> None:
    """Whoever stands in front of the door may have looked at the other one."""
    own = http.headers["authorization"]
    for first, second in ((own, "Bearer x"), ("Bearer x", own), (own, own)):
        http.headers = httpx.Headers([("authorization", first), ("authorization", second)])
        assert code_of(await http.get(ACTION)) == (401, "unauthenticated")
    http.headers = httpx.Headers([("authorization", "Login a.b.c"), ("authorization", own)])
    assert code_of(await http.get("/v1/approvals")) == (401, "login_invalid")
    http.headers = httpx.Headers(
        [
            ("authorization", own),
            ("content-type", "application/json"),
            ("content-type", "text/plain"),
        ]
    )
    answer = await http.post("/v1/actions", content=orjson.dumps(CHARGE))
    assert code_of(answer) == (415, "unsupported_media_type")


@pytest.mark.parametrize(
    "number", ["1_0", "1.0", "+1", " 1", "01", "1e1", "%D9%A1", "", "-0", "0x1", "9" * 400]
)
async def test_a_number_is_written_in_digits(http: httpx.AsyncClient, number: str) -> None:
    """Of all ways in which one could be read from a text one is taken."""
    for name in ("wait_ms", "after_version"):
        answer = await http.get(f"{ACTION}?{name}={number.replace('+', '%2B')}")
        assert code_of(answer) == (400, "invalid_query")
        assert [one["path"] for one in answer.json()["problems"]] == [f"/{name}"]
    assert (await http.get(f"{ACTION}?wait_ms=0&after_version=12")).status_code == 200


DOOR = sorted(
    (method, route.path)
    for router in ROUTERS
    for route in router.routes
    if isinstance(route, APIRoute) and route.path.startswith("/v1/")
    for method in route.methods or ()
)


@pytest.mark.parametrize(("method", "path"), DOOR)
async def test_what_no_route_reads_is_refused_and_not_passed_over(
    http: httpx.AsyncClient, method: str, path: str
) -> None:
    """Who asked a list for one tenant, or a call for a dry run, would take the answer for that."""
    path = path.replace("{key}", ACTION.rpartition("/")[2])
    for name in ("dry_run", "tenant"):
        answer = await http.request(method, f"{path}?{name}=true")
        assert code_of(answer) == (400, "invalid_query")
        assert [one["path"] for one in answer.json()["problems"]] == [f"/{name}"]


async def test_who_has_people_asked_again_says_nothing_beside(http: httpx.AsyncClient) -> None:
    """A body would be a wish that nobody reads; an empty object is none."""
    answer = await http.post(f"{ACTION}/ask", json={"to": "ada"})
    assert code_of(answer) == (400, "invalid_body")
    assert [one["path"] for one in answer.json()["problems"]] == ["/to"]
    answer = await http.post(f"{ACTION}/ask", content=b"to=ada")
    assert code_of(answer) == (415, "unsupported_media_type")
    for nothing in (b"", b"{}"):
        headers = {"content-type": "application/json"}
        answer = await http.post(f"{ACTION}/ask", content=nothing, headers=headers)
        assert answer.status_code == 200


async def test_a_body_may_be_left_out_in_chunks_too(http: httpx.AsyncClient) -> None:
    """Clients that do not know the length of a body send one chunk of nothing."""

    async def nothing() -> AsyncIterator[bytes]:
        parts: tuple[bytes, ...] = ()
        for part in parts:
            yield part

    answer = await http.post(f"{ACTION}/cancel", content=nothing())
    assert answer.status_code in {200, 409}, answer.text
    answer = await http.post(f"{ACTION}/cancel", content=b"{}")
    assert code_of(answer) == (415, "unsupported_media_type")
