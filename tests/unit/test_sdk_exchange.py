"""What the SDK does by itself when the network fails: the same bytes again, a few times only."""

import asyncio
import json
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import httpx
import pytest

from actionledger import (
    Call,
    CallerMistake,
    Effect,
    Intent,
    Ledger,
    LedgerUnavailable,
    Money,
    Plan,
    PlannedStep,
    Result,
    Retries,
    Succeeded,
    testing,
)
from actionledger.exchange import ASKING_MAX, EARLY_MS, WAITING_MAX
from tests.flaky import FlakyTransport
from tests.patience import PATIENCE_SECONDS
from tests.unit.test_performing import EITHER, charge

if TYPE_CHECKING:
    from pydantic import JsonValue

KEY = "charge:v1:acme:renewal-1"
COMPLETED = json.dumps({"key": KEY, "status": "completed", "version": 5, "reference": "ch_1"})
QUICK = Retries(attempts_max=4, total_ms=5_000, first_ms=1, cap_ms=5)
INTENT = Intent(
    operation="charge",
    business_event="renewal-1",
    environment="test",
    money=Money(minor=4_990, currency="USD"),
    params={"note": "hi \ud83d"},
)


def answering(status: int = 200, text: str = COMPLETED) -> httpx.AsyncBaseTransport:
    """A ledger that says one thing."""
    return httpx.MockTransport(lambda _: httpx.Response(status, text=text))


def ledger(transport: httpx.AsyncBaseTransport, retries: Retries = QUICK) -> Ledger:
    """The SDK over a transport."""
    return Ledger("http://ledger", "al_key", transport=transport, retries=retries)


@pytest.mark.parametrize(
    "steps", [["refuse"], ["lose"], [503], [502, 504, 429], ["refuse", "lose", 503]]
)
async def test_trouble_is_asked_again_with_the_same_bytes(steps: list[str | int]) -> None:
    """Whatever went wrong, every repetition is the request as it was, so its key is the same."""
    transport = FlakyTransport(answering(), steps)
    async with ledger(transport) as client:
        result = await client.propose(INTENT)
    assert isinstance(result, Succeeded)
    assert len(transport.seen) == len(steps) + 1
    assert len(set(transport.seen)) == 1


async def test_asking_again_ends() -> None:
    """After the last attempt it is unavailable, with what happened and what to do."""
    transport = FlakyTransport(answering(), ["refuse"] * 100)
    async with ledger(transport) as client:
        with pytest.raises(LedgerUnavailable, match="ConnectError") as raised:
            await client.propose(INTENT)
    assert len(transport.seen) == QUICK.attempts_max
    assert "it is safe" in raised.value.hint
    assert "do not try another way" in raised.value.text_for_model


async def test_asking_again_ends_in_time() -> None:
    """A wait that would pass the total is not begun."""
    transport = FlakyTransport(answering(), [503] * 100)
    slow = Retries(attempts_max=100, total_ms=50, first_ms=60_000, cap_ms=60_000)
    async with ledger(transport, slow) as client, asyncio.timeout(slow.first_ms / 2_000):
        with pytest.raises(LedgerUnavailable, match="503"):
            await client.get(KEY)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500])
async def test_a_refusal_is_never_asked_again(status: int) -> None:
    """What was answered is answered."""
    problem = {"title": "No.", "code": "x", "hint": "Stop.", "asking_again": "never_helps"}
    transport = FlakyTransport(answering(status, json.dumps(problem)), [])
    async with ledger(transport) as client:
        with pytest.raises(Exception, match=r"No\."):
            await client.get(KEY)
    assert len(transport.seen) == 1


async def test_a_redirect_is_not_followed() -> None:
    """The API key goes to no other address."""
    transport = FlakyTransport(
        httpx.MockTransport(lambda _: httpx.Response(307, headers={"Location": "http://evil/"})), []
    )
    async with ledger(transport) as client:
        with pytest.raises(Exception, match="307"):
            await client.propose(INTENT)
    assert len(transport.seen) == 1


async def test_the_request_bears_the_key_and_only_ascii() -> None:
    """Half a character arrives as what it is, for the ledger to refuse by name."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        named = request.url.path.removeprefix("/v1/actions").removesuffix("/cancel")
        return httpx.Response(200, text=COMPLETED.replace(KEY, named.removeprefix("/") or KEY))

    async with ledger(httpx.MockTransport(answer)) as client:
        await client.propose(INTENT, wait_ms=99_999)
        await client.get("charge:v1:acme:e#item")
        await client.cancel(KEY, reason="é")
    first, second, third = seen
    assert first.headers["authorization"] == "Bearer al_key"
    assert first.url.params["wait_ms"] == "30000"
    assert b"\\ud83d" in first.content
    assert json.loads(first.content)["money"] == {"minor": 4_990, "currency": "USD"}
    assert "item" not in json.loads(first.content)
    assert second.url.raw_path == b"/v1/actions/charge:v1:acme:e%23item"
    assert json.loads(third.content) == {"reason": "é"}


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), Decimal("4.99"), date(2026, 12, 1), b"x", {1}]
)
async def test_what_json_cannot_say_is_the_callers_mistake(value: object) -> None:
    """It is found before anything is sent, also where it was put in after the intent was made."""
    transport = FlakyTransport(answering(), [])
    async with ledger(transport) as client:
        with pytest.raises(CallerMistake):
            await client.propose(INTENT.model_copy(update={"params": {"x": value}}))
        later = INTENT.model_copy(update={"params": {}})
        later.params["x"] = value  # type: ignore[assignment]
        with pytest.raises(CallerMistake, match="no JSON form"):
            await client.propose(later)
        step = PlannedStep(operation="charge", params={"of": {}})
        step.params["of"] = value  # type: ignore[assignment]
        plan = Plan(saga="s", business_event="e", environment="test", steps=(step,))
        with pytest.raises(CallerMistake, match="no JSON form"):
            await client.open_saga(plan)
    assert not transport.seen


async def test_what_is_nested_without_end_is_the_callers_mistake() -> None:
    """Also where it was put in after the intent was made; nobody meets a recursion."""
    deep: JsonValue = "x"
    for _ in range(100_000):
        deep = [deep]
    transport = FlakyTransport(answering(), [])
    async with ledger(transport) as client:
        later = INTENT.model_copy(update={"params": {}})
        later.params["x"] = deep
        with pytest.raises(CallerMistake, match="no JSON form"):
            await client.propose(later)
        step = PlannedStep(operation="charge", params={"of": {}})
        step.params["of"] = deep
        plan = Plan(saga="s", business_event="e", environment="test", steps=(step,))
        with pytest.raises(CallerMistake, match="no JSON form"):
            await client.open_saga(plan)
    assert not transport.seen


async def test_who_asks_too_often_is_told_so_and_for_how_long() -> None:
    """A proxy that holds back is no ledger that is away."""
    held = httpx.MockTransport(lambda _: httpx.Response(429, headers={"retry-after": "30"}))
    async with ledger(held, Retries(attempts_max=1)) as client:
        with pytest.raises(LedgerUnavailable) as raised:
            await client.propose(INTENT)
    told = "status 429: it is asked too often, and wants to be left alone for 30 s"
    assert told in str(raised.value)


async def test_a_long_answer_is_cut() -> None:
    """An endless body is no answer of a ledger."""
    async with ledger(answering(200, "x" * 5_000_000)) as client:
        with pytest.raises(Exception, match="no action"):
            await client.get(KEY)


async def test_a_cancelled_call_is_not_asked_again() -> None:
    """Whoever stops waiting stops asking."""
    transport = FlakyTransport(answering(), [503] * 100)
    slow = Retries(attempts_max=100, total_ms=60_000, first_ms=60_000, cap_ms=60_000)
    async with ledger(transport, slow) as client:
        asking = asyncio.create_task(client.get(KEY))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not transport.seen:
                await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert len(transport.seen) == 1


def test_waits_are_jittered_and_bounded() -> None:
    """Doubling up to the cap, drawn from the whole range, never less than was asked for."""
    retries = Retries(first_ms=100, cap_ms=1_000)
    for attempt in range(1, 60):
        draws = [retries.wait_ms(attempt, 0) for _ in range(50)]
        assert 1 <= min(draws) <= max(draws) <= min(1_000, 100 * 2 ** (attempt - 1))
    assert len({retries.wait_ms(10, 0) for _ in range(50)}) > 10
    assert retries.wait_ms(1, 700) >= 700
    assert retries.wait_ms(1, 999_999) == 1_000


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1:8788",
        "http://",
        "http://127.0.0.1:99999",
        "http://[::1",
        "http://127.0.0.1:8788\n",
        "http://a b",
        "ftp://a",
    ],
)
def test_an_address_that_is_none_is_refused_at_once(address: str) -> None:
    """The mistake shows where it is made, and not as a ledger that does not answer."""
    with pytest.raises(ValueError, match="http://host"):
        Ledger(address, "al_key")


@pytest.mark.parametrize("key", ["", "al_key\n", " al_key", "Bearer al_key", "al_\u043a", None])
def test_a_key_that_cannot_be_sent_is_refused_at_once(key: str) -> None:
    """Read from a file with its line end it was asked with again and again, and then told that the
    ledger gives no answer and that the same call is safe.
    """
    with pytest.raises(ValueError, match="api_key"):
        Ledger("http://127.0.0.1:8788", key)


async def test_a_name_of_half_a_character_is_refused_by_the_ledger() -> None:
    """As any other that is no name, and not by a stack."""
    async with testing.ledger() as world:
        for asking in (world.ledger.get("\ud83d"), world.ledger.run("\ud83d")):
            with pytest.raises(CallerMistake):
                await asking


async def test_a_ledger_that_lets_nobody_wait_is_not_asked_without_end() -> None:
    """Family `limits`: with as many waiting as it lets wait it answers at once how things stand,
    and who waits rests before it asks again.
    """
    moving = json.dumps({"key": KEY, "status": "attempting", "version": 5})
    transport = FlakyTransport(answering(200, moving), [])
    async with ledger(transport) as client:
        result = await client.wait(KEY, timeout_ms=1_000)
    assert result.version == 5
    assert len(transport.seen) <= 1_000 // (EARLY_MS // 2) + 2


async def test_news_are_told_without_a_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody rests who has something to hear."""

    async def rests(_: float) -> None:
        raise AssertionError("rested")

    monkeypatch.setattr("actionledger.exchange.asyncio.sleep", rests)
    versions = iter(range(1, 9))

    def answer(_: httpx.Request) -> httpx.Response:
        version = next(versions)
        status = "completed" if version == 8 else "attempting"
        told = {"key": KEY, "status": status, "version": version}
        return httpx.Response(200, text=json.dumps(told))

    async with ledger(httpx.MockTransport(answer)) as client:
        assert isinstance(await client.wait(KEY, timeout_ms=60_000), Succeeded)


class Crowded(httpx.AsyncBaseTransport):
    """Lets nobody go who waits, until it is told to; who does not wait is answered at once."""

    def __init__(self) -> None:
        self.waiting = self.at_once = 0
        self.is_full, self.let_go = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        if request.url.params.get("wait_ms", "0") == "0":
            self.at_once += 1
        else:
            self.waiting += 1
            if self.waiting == WAITING_MAX:
                self.is_full.set()
            await self.let_go.wait()
        name = json.loads(request.content)["business_event"] if request.content else "looked"
        return httpx.Response(200, json={"key": f"note:v1:acme:{name}", "status": "attempting"})


async def test_who_has_many_in_flight_is_told_of_each_and_an_outcome_waits_behind_none() -> None:
    """Of eight hundred at once nearly all were told of a ledger that does not answer: they had
    waited for a connection of their own program.
    """
    transport, more = Crowded(), 100
    async with Ledger("http://ledger", "k", transport=transport) as ledger:
        wanted = [
            Intent(operation="note", business_event=f"n-{number}", environment="test")
            for number in range(WAITING_MAX + more)
        ]
        asked = [asyncio.create_task(ledger.propose(one, wait_ms=50)) for one in wanted]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await transport.is_full.wait()
            assert (await ledger.get("note:v1:acme:looked")).key == "note:v1:acme:looked"
            await asyncio.gather(*asked[WAITING_MAX:])
        assert (transport.waiting, transport.at_once) == (WAITING_MAX, more + 1)
        transport.let_go.set()
        told = await asyncio.gather(*asked)
    assert [one.key for one in told] == [f"note:v1:acme:{one.business_event}" for one in wanted]


class Hung(httpx.AsyncBaseTransport):
    """Answers nobody who asks how something stands, until it is told to."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.hanging = 0
        self.is_full, self.let_go = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        if request.method == "GET":
            self.hanging += 1
            if self.hanging == ASKING_MAX:
                self.is_full.set()
            await self.let_go.wait()
        return await self._inner.handle_async_request(request)


async def test_nobody_waits_for_a_connection_longer_than_a_call_may_take() -> None:
    """A thousand at once with a second each took nine, behind answers that were lost."""
    transport, more = Hung(answering()), 100
    async with ledger(transport, Retries(total_ms=50)) as client:
        asked = [asyncio.create_task(client.get(KEY)) for _ in range(ASKING_MAX + more)]
        async with asyncio.timeout(PATIENCE_SECONDS):
            await transport.is_full.wait()
            told = await asyncio.gather(*asked[ASKING_MAX:], return_exceptions=True)
        assert {type(one) for one in told} == {LedgerUnavailable}
        assert all("(no free connection)" in str(one) for one in told)
        assert transport.hanging == ASKING_MAX
        transport.let_go.set()
        assert len(await asyncio.gather(*asked[:ASKING_MAX])) == ASKING_MAX


async def test_an_outcome_waits_behind_nothing_that_hangs() -> None:
    """What an agent's function did is told while nobody hears how anything stands."""
    async with testing.ledger(EITHER) as world:
        pool = world.ledger._exchange._pools.here()
        pool._transport = hung = Hung(pool._transport)
        asked = list[asyncio.Task[Result]]()

        async def does(_: Call) -> Effect:
            asked.extend(
                asyncio.create_task(world.ledger.get(KEY)) for _ in range(ASKING_MAX + 100)
            )
            await hung.is_full.wait()
            return Effect("ch_1")

        async with asyncio.timeout(PATIENCE_SECONDS):
            assert isinstance(await world.ledger.perform(charge(), does), Succeeded)
        hung.let_go.set()
        await asyncio.gather(*asked)
