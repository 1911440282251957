"""A webhook goes straight to its route, and is answered as the framework would have it."""

from typing import Any, cast

import httpx
import pytest

from gateway.http.app import create_app
from gateway.http.doors import Instance
from gateway.http.webhooks import is_delivery
from gateway.settings import Settings
from ledger.log.published import Published


@pytest.mark.parametrize(
    ("method", "path", "is_one"),
    [
        ("POST", "/v1/webhooks/stripe", True),
        ("GET", "/v1/webhooks/stripe", False),
        ("POST", "/v1/webhooks/", False),
        ("POST", "/v1/webhooks", False),
        ("POST", "/v1/webhooks/stripe/main", False),
        ("POST", "/v1/webhooksstripe", False),
        ("POST", "/console/v1/webhooks/stripe", False),
    ],
)
def test_only_what_the_route_takes_is_taken_to_it(method: str, path: str, *, is_one: bool) -> None:
    """Everything else goes the framework's way, with its answers."""
    assert is_delivery({"type": "http", "method": method, "path": path}) is is_one


async def test_it_is_counted_under_its_route_and_refused_by_its_codes() -> None:
    """The way there is shorter; what is measured and answered is the same."""
    nobody = cast("Any", None)
    settings = Settings.from_environment({})
    app = create_app(nobody, nobody, nobody, nobody, settings, Instance("g", Published))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://door") as http:
        unknown = await http.post("/v1/webhooks/nobody", content=b"{}")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "webhook_source_unknown")
        assert unknown.headers["x-content-type-options"] == "nosniff"
        assert (await http.get("/v1/webhooks/nobody")).status_code == 405
        # A slash that was sent within a name parts nothing: this is no delivery.
        assert (await http.post("/v1%2Fwebhooks/nobody", content=b"{}")).json()["code"] != (
            "webhook_source_unknown"
        )
        twice = await http.post("/v1/webhooks/nobody?account=a&account=b", content=b"{}")
        assert (twice.status_code, twice.json()["code"]) == (400, "invalid_query")
        long = await http.post(f"/v1/webhooks/nobody?account={'a' * 300}", content=b"{}")
        assert (long.status_code, long.json()["code"]) == (404, "webhook_source_unknown")
    counted = app.state.doors.metrics.text().decode()
    assert 'route="/v1/webhooks/{provider}",status="4xx"' in counted
