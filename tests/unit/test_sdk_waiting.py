"""`Ledger.wait` in a loop: what is new is told at once, and nobody asks without end."""

import asyncio
import json
from collections.abc import Awaitable, Callable

import httpx
import pytest

from actionledger import (
    ApprovalExpired,
    Call,
    Effect,
    Ledger,
    NeedsReview,
    Pending,
    Result,
    Retries,
)
from actionledger.client import TOLD_REST_MS, TURN_REST_MS, _Told
from tests.unit.test_performing import charge

KEY = "charge:v1:acme:renewal-1"
QUICK = Retries(attempts_max=2, total_ms=1_000, first_ms=1, cap_ms=1)


class Told(httpx.AsyncBaseTransport):
    """A ledger that tells one thing after another, each at once or when who asks has waited, and
    the last of them for ever. Time passes while it lets wait.
    """

    def __init__(self, *said: tuple[str, int], approval: dict[str, object] | None = None) -> None:
        self._said = list(said)
        self._more = {} if approval is None else {"approval": approval}
        self.now_s = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        if len(self._said) > 1:
            status, version = self._said.pop(0)
        else:
            status, version = self._said[0]
            self.now_s += int(request.url.params.get("wait_ms", 0)) / 1_000
        told = {"key": KEY, "status": status, "version": version, "performer": "caller"}
        told |= self._more
        return httpx.Response(200, text=json.dumps(told))

    def client(self) -> Ledger:
        """A client in this ledger's time."""
        return Ledger("http://ledger", "k", transport=self, retries=QUICK, clock=lambda: self.now_s)


async def test_who_looks_on_does_not_ask_without_end_while_it_is_somebodys_turn() -> None:
    """Whoever waited again for an outcome asked a thousand times a second, for hours."""
    transport = Told(("ready", 5))
    async with transport.client() as client:
        for waited in range(1, 4):
            result = await client.wait(KEY, timeout_ms=60_000)
            assert isinstance(result, Pending)
            assert result.is_callers_turn
            assert transport.now_s == waited * TURN_REST_MS / 1_000
        await client.wait(KEY, timeout_ms=1_000)
        assert transport.now_s == 3 * TURN_REST_MS / 1_000 + 1


async def test_whose_turn_it_becomes_is_told_at_once() -> None:
    """Also where it was its turn before, and somebody began and left it."""
    for before in (("awaiting_approval", 3), ("ready", 3)):
        transport = Told(before, ("attempting", 4), ("ready", 5), ("ready", 5))
        async with transport.client() as client:
            result = await client.wait(KEY, timeout_ms=60_000)
        assert isinstance(result, Pending)
        assert (result.is_callers_turn, result.version, transport.now_s) == (True, 5, 0)


async def test_who_looks_on_hears_the_outcome_once_somebody_begins() -> None:
    """The rest is for the turn alone: what was begun is waited for as long as was asked."""
    transport = Told(("ready", 3), ("attempting", 4))
    async with transport.client() as client:
        result = await client.wait(KEY, timeout_ms=60_000)
    assert (result.version, transport.now_s) == (4, 60)


async def never(_: Call) -> Effect:
    """What is not to be performed."""
    raise AssertionError(KEY)


LOOKS: tuple[Callable[[Ledger], Awaitable[Result]], ...] = (
    lambda client: client.propose(charge()),
    lambda client: client.get(KEY),
    lambda client: client.ask_again(KEY),
    lambda client: client.perform(charge(), never),
    lambda client: client.wait(KEY, timeout_ms=0),
)
EXPIRED: dict[str, object] = {"state": "expired", "expires_at": 1}
FOR_PEOPLE = pytest.mark.parametrize(
    ("status", "approval", "kind"),
    [("needs_review", None, NeedsReview), ("awaiting_approval", EXPIRED, ApprovalExpired)],
)


@FOR_PEOPLE
async def test_that_it_needs_a_person_is_told_and_then_waited_for(
    status: str, approval: dict[str, object] | None, kind: type
) -> None:
    """An agent that looped on `wait` asked without end while a case waited for somebody. It hears
    of it as often as one request may wait, and at the end of what it gave.
    """
    transport = Told((status, 5), approval=approval)
    async with transport.client() as client:
        for waited in range(4):
            assert isinstance(await client.wait(KEY, timeout_ms=600_000), kind)
            assert transport.now_s == waited * TOLD_REST_MS / 1_000
        before_s = transport.now_s
        assert isinstance(await client.wait(KEY, timeout_ms=1_000), kind)
        assert transport.now_s == before_s + 1


@FOR_PEOPLE
async def test_whoever_only_looked_is_told_at_once_that_it_needs_a_person(
    status: str, approval: dict[str, object] | None, kind: type
) -> None:
    """Whoever proposed it, looked, or performs it themselves, and waits then, took the whole of the
    time that they gave to hear of it.
    """
    for look in LOOKS:
        transport = Told(*[(status, 5)] * 2, approval=approval)
        async with transport.client() as client:
            assert isinstance(await look(client), kind)
            began_s = transport.now_s
            assert isinstance(await client.wait(KEY, timeout_ms=600_000), kind)
            assert transport.now_s == began_s


@FOR_PEOPLE
async def test_what_is_new_is_told_at_once_also_that_it_still_needs_a_person(
    status: str, approval: dict[str, object] | None, kind: type
) -> None:
    """And an answer that is older than what was told, as of a door that lags behind, is not new."""
    said = [(status, version) for version in (6, 6, 5, 5, 7, 7)]
    transport = Told(*said, approval=approval)
    async with transport.client() as client:
        told = [(await client.wait(KEY, timeout_ms=600_000)).version for _ in range(2)]
    assert (told, transport.now_s) == ([6, 7], 0)


async def test_all_who_wait_with_one_client_hear_that_it_needs_a_person() -> None:
    """Whoever waited beside the first to hear went on for the whole of the time that they gave."""
    moved, now_s, following = asyncio.Event(), 0.0, 0

    async def answer(request: httpx.Request) -> httpx.Response:
        nonlocal now_s, following
        if "wait_ms" in request.url.params:
            following += 1
            if moved.is_set():
                now_s += int(request.url.params["wait_ms"]) / 1_000
            await moved.wait()
        told = ("needs_review", 5) if moved.is_set() else ("attempting", 4)
        said = {"key": KEY, "status": told[0], "version": told[1], "performer": "caller"}
        return httpx.Response(200, json=said)

    transport = httpx.MockTransport(answer)
    async with Ledger("http://l", "k", transport=transport, clock=lambda: now_s) as client:
        waiting = [asyncio.create_task(client.wait(KEY, timeout_ms=600_000)) for _ in range(3)]
        while following < len(waiting):
            assert not any(one.done() for one in waiting)
            await asyncio.sleep(0)
        moved.set()
        assert {type(await one) for one in waiting} == {NeedsReview}
        assert now_s == 0
        # Who comes a moment later waits a little; and who comes later than that does not.
        now_s = 10.0
        assert isinstance(await client.wait(KEY, timeout_ms=600_000), NeedsReview)
        assert now_s == TOLD_REST_MS / 1_000
        now_s += 2 * TOLD_REST_MS / 1_000
        began_s = now_s
        assert isinstance(await client.wait(KEY, timeout_ms=600_000), NeedsReview)
        assert now_s == began_s


def test_what_was_told_is_not_kept_for_ever() -> None:
    """A client that lives for months waits for millions of actions; it remembers the last minute.
    However many wait at a time, each loop is held.
    """
    told = _Told()
    many = 10_000
    for number in range(many):
        told.add(f"early {number}", 1, 100.0)
    assert all(told.of(f"early {number}").version == 1 for number in range(many))
    for now_s in (131.0, 162.0):
        told.add("late", 2, now_s)
        assert told.of("late") == (2, now_s + TOLD_REST_MS / 1_000)
    assert {told.of(f"early {number}").version for number in range(many)} == {-1}
