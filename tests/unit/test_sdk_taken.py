"""What a client was told is taken and undecided is no unknown action, and no unknown saga."""

import httpx
import pytest

from actionledger import Intent, Ledger, Pending, Plan, PlannedStep, Succeeded, taken
from actionledger.errors import CallerMistake, UnknownAction

KEY = "charge:v1:acme:renewal-1"
INTENT = Intent(operation="charge", business_event="renewal-1", params={}, environment="production")
PLAN = Plan(
    saga="order",
    business_event="renewal-1",
    environment="production",
    steps=(PlannedStep(operation="charge", params={}),),
)


class Slow(httpx.AsyncBaseTransport):
    """A ledger that takes what it is asked for and decides it only after so many looks."""

    def __init__(self, looks: int) -> None:
        self.looks_left = looks

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        saga = {"saga": "order", "business_event": "renewal-1", "steps": []}
        told = {"key": KEY, "version": 0, **saga, "status": "undecided"}
        if request.method == "POST":
            return httpx.Response(202, json=told)
        self.looks_left -= 1
        if self.looks_left >= 0 or "other" in request.url.path:
            code = "unknown_saga" if "sagas" in request.url.path else "unknown_action"
            return httpx.Response(404, json={"title": "No.", "code": code, "hint": "Look."})
        return httpx.Response(200, json=told | {"version": 5, "status": "completed"})


@pytest.fixture(autouse=True)
def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(taken, "REST_S", 0.0)


async def test_a_wait_goes_on_until_what_was_taken_is_known() -> None:
    """It raised that there is no such action, and whoever asked for it under another event had it
    twice.
    """
    async with Ledger("http://l", "k", transport=Slow(3)) as ledger:
        first = await ledger.propose(INTENT)
        assert isinstance(first, Pending)
        assert await ledger.get(KEY) == first
        assert isinstance(await ledger.wait(KEY), Succeeded)


async def test_when_the_time_is_over_it_is_undecided_still() -> None:
    """And what nobody was told of is unknown."""
    async with Ledger("http://l", "k", transport=Slow(10**9)) as ledger:
        with pytest.raises(UnknownAction):
            await ledger.wait(KEY)
        first = await ledger.propose(INTENT)
        assert await ledger.wait(KEY, timeout_ms=20) == first
        with pytest.raises(UnknownAction):
            await ledger.wait("charge:v1:acme:other")


async def test_a_saga_is_waited_for_as_well() -> None:
    """By its name, as it was opened."""
    async with Ledger("http://l", "k", transport=Slow(2)) as ledger:
        with pytest.raises(CallerMistake, match="No"):
            await ledger.saga("renewal-1", "order")
        opened = await ledger.open_saga(PLAN)
        assert await ledger.saga("renewal-1", "order") == opened
        done = await ledger.saga("renewal-1", "order", timeout_ms=5_000)
    assert getattr(done, "status", None) == "completed"


async def test_the_newest_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever proposes for days without an answer keeps no more than so many."""
    monkeypatch.setattr(taken, "KEPT_MAX", 2)
    told = taken.Taken(lambda: 0.0)
    for name in "abc":
        told.told(name, Pending(key=name, version=0, replayed=False, status="undecided"))
    assert list(told._undecided) == ["b", "c"]
