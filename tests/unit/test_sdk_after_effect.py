"""Once a function has run, or a request may have been taken, nothing that the SDK raises may tell a
model that nothing was started or recorded.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping

import httpx
import pytest

from actionledger import (
    Call,
    Effect,
    EffectNotSent,
    EffectRefused,
    Ledger,
    Portal,
    Succeeded,
    testing,
)
from actionledger.errors import (
    ActionRaised,
    CallerMistake,
    LedgerTrouble,
    LedgerUnavailable,
    OutcomeNotRecorded,
)
from actionledger.exchange import Retries
from tests.unit.test_performing import ATTESTING, EITHER, Tool, charge, facts_of, raising

HASTY = Retries(first_ms=1, cap_ms=1)


def refusal(status: int) -> httpx.Response:
    """A refusal in the ledger's form."""
    body = {
        "type": "x",
        "title": "No.",
        "status": status,
        "code": "some_code",
        "hint": "Read it.",
        "asking_again": "is_useless",
    }
    return httpx.Response(status, json=body)


class Spoilt(httpx.AsyncBaseTransport):
    """Answers every outcome with something else than the ledger's answer."""

    def __init__(
        self, inner: httpx.AsyncBaseTransport, answer: Callable[[], httpx.Response]
    ) -> None:
        self._inner = inner
        self._answer = answer

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        if request.url.path.endswith("/outcome"):
            return self._answer()
        return await self._inner.handle_async_request(request)


async def performed(
    returned: object, answer: Callable[[], httpx.Response] | None = None
) -> BaseException | None:
    """What a caller hears once its function has returned that."""
    async with testing.ledger(EITHER) as world:

        async def does(_: object) -> Effect:
            return returned  # type: ignore[return-value] # on purpose

        tool = Tool(does)
        if answer is not None:
            client = world.ledger._exchange._pools.here()
            client._transport = Spoilt(client._transport, answer)
        try:
            await world.ledger.perform(charge(), tool)
        except Exception as trouble:  # noqa: BLE001 - whatever it is, it is looked at
            return trouble
        finally:
            assert tool.calls
    return None


@pytest.mark.parametrize("reference", ["ch_\x00", "ch_\ud800", "\u00e9" * 600, "x" * 1_024])
async def test_a_name_that_the_ledger_does_not_take_is_kept_for_the_caller(reference: str) -> None:
    """The effect is there, whatever it is called."""
    trouble = await performed(Effect(reference, {}))
    if trouble is not None:
        assert isinstance(trouble, OutcomeNotRecorded)
        assert trouble.reference == reference


@pytest.mark.parametrize("reference", [None, 12_345])
async def test_a_name_that_is_no_text_is_told_as_unknown(reference: object) -> None:
    """The function did not keep to its declaration; it has run."""
    trouble = await performed(Effect(reference, {}))  # type: ignore[arg-type]
    assert isinstance(trouble, ActionRaised)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500])
async def test_no_refusal_of_an_outcome_hides_that_the_function_ran(status: int) -> None:
    """A key that was withdrawn meanwhile, an action that is elsewhere, a faulty gateway."""
    trouble = await performed(Effect("ch_1", {}), lambda: refusal(status))
    assert isinstance(trouble, OutcomeNotRecorded)
    assert trouble.reference == "ch_1"


async def test_an_answer_that_cannot_be_unpacked_is_none() -> None:
    """It is asked for again, and at last said to be unavailable."""

    def packed() -> httpx.Response:
        stream = httpx.ByteStream(b"not packed at all")
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=stream)

    assert isinstance(await performed(Effect("ch_1", {}), packed), LedgerTrouble)


class Unreadable(Mapping[str, object]):
    """What reads itself from somewhere, and cannot."""

    def __getitem__(self, name: str) -> object:
        raise RuntimeError("detached")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("detached")

    def __len__(self) -> int:
        return 1


def _nested(levels: int) -> list[object]:
    nested: list[object] = []
    for _ in range(levels):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    "result", [{"x": _nested(100_000)}, Unreadable(), None], ids=["deep", "unreadable", "nothing"]
)
async def test_whatever_a_function_says_beside_its_effect_the_effect_is_told(
    result: dict[str, object],
) -> None:
    """What has no JSON form is left out, for whichever reason: the effect was told as unknown."""
    assert await performed(Effect("ch_1", result)) is None


@pytest.mark.parametrize("kind", [EffectRefused, EffectNotSent])
@pytest.mark.parametrize(("code", "told"), [(402, "402"), (None, "no_code"), (b"x", "b_x_")])
async def test_a_code_that_is_no_text_is_told_all_the_same(
    kind: type[EffectRefused | EffectNotSent], code: object, told: str
) -> None:
    """The status of an answer, or nothing: a definite no was told as unknown, and a stack came."""
    async with testing.ledger(ATTESTING) as world:
        result = await world.ledger.perform(charge(), raising(kind(code)))  # type: ignore[arg-type]
        said = {one["type"]: one.get("code") for one in await world.facts(result.key)}
    assert said.get("attempt.refused", said.get("attempt.not_sent")) == told


async def test_what_a_plain_function_did_is_told() -> None:
    """It ran, and returned its effect without being waited for: it was told as unknown."""
    async with testing.ledger(EITHER) as world:
        act = lambda call: Effect(f"ch_{call.attempt}")  # noqa: E731 - as somebody would write it
        result = await world.ledger.perform(charge(), act)  # type: ignore[arg-type]
    assert isinstance(result, Succeeded)
    assert result.reference == "ch_1"


class Held(httpx.AsyncBaseTransport):
    """Holds the first outcome back until it is let go."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        if request.url.path.endswith("/outcome") and not self.reached.is_set():
            self.reached.set()
            await self.let_go.wait()
        return await self._inner.handle_async_request(request)


async def test_an_effect_that_was_seen_is_told_by_a_call_that_is_cancelled() -> None:
    """A deadline of the agent that comes while it is told: the ledger heard of no effect, and
    people were asked about one whose name was known.
    """
    async with testing.ledger(EITHER) as world:
        client = world.ledger._exchange._pools.here()
        client._transport = held = Held(client._transport)
        call = asyncio.create_task(world.ledger.perform(charge(), Tool()))
        await held.reached.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert "attempt.succeeded" in await facts_of(world, "charge:v1:acme:renewal-1")


async def test_a_client_that_was_closed_meanwhile_hides_no_effect() -> None:
    """The function ran: whoever called it hears so, with its name."""
    async with testing.ledger(EITHER) as world:
        client = world.ledger_of("acme", "agent:test")

        async def does(_: Call) -> Effect:
            await client.close()
            return Effect("ch_1")

        with pytest.raises(OutcomeNotRecorded) as raised:
            await client.perform(charge(), does)
    assert raised.value.reference == "ch_1"


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As at a terminal: a shell has what it starts in the background ignore interrupts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_at_a_portal_waits_for_what_is_still_said() -> None:
    """Else the portal is closed, and the client in it, before the ledger hears of the end."""

    async def does(_: Call) -> Effect:
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, signal.SIGINT)
        await asyncio.Event().wait()
        return Effect("never")

    with Portal() as portal:
        world = portal.enter(testing.ledger(EITHER))
        with pytest.raises(KeyboardInterrupt):
            portal.call(world.ledger.perform, charge(), does)
        facts = portal.call(facts_of, world, "charge:v1:acme:renewal-1")
    assert "attempt.unresolved" in facts


class Loses(httpx.AsyncBaseTransport):
    """Loses the first answer, or never takes the first request, and refuses every further one."""

    def __init__(self, first: httpx.TransportError, status: int) -> None:
        self._first: httpx.TransportError | None = first
        self._status = status

    async def handle_async_request(self, _: httpx.Request) -> httpx.Response:
        """One request."""
        first, self._first = self._first, None
        if first is not None:
            raise first
        return refusal(self._status)


@pytest.mark.parametrize("status", [401, 403, 422])
async def test_a_refusal_after_a_lost_answer_is_no_word_about_the_first(status: int) -> None:
    """The first may be recorded and done; the same call again tells."""
    transport = Loses(httpx.ReadError("lost"), status)
    async with Ledger("http://ledger", "k", transport=transport, retries=HASTY) as ledger:
        with pytest.raises(LedgerUnavailable) as trouble:
            await ledger.propose(charge())
    assert "Nothing was" not in trouble.value.text_for_model
    assert str(status) in trouble.value.message


async def test_a_refusal_after_a_request_that_never_left_is_a_refusal() -> None:
    """What nobody could connect to has taken nothing."""
    transport = Loses(httpx.ConnectError("nobody there"), 422)
    async with Ledger("http://ledger", "k", transport=transport, retries=HASTY) as ledger:
        with pytest.raises(CallerMistake):
            await ledger.propose(charge())


class Undecided(httpx.AsyncBaseTransport):
    """A ledger that takes offers, decides none before so many, and until then knows of nothing.
    Time passes while it lets wait.
    """

    def __init__(self, decides: int | None) -> None:
        self._left = decides
        self.now_s = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        if request.method == "GET":
            self.now_s += int(request.url.params["wait_ms"]) / 1_000
            problem = {"title": "No such action.", "code": "unknown_action", "hint": "Look."}
            return httpx.Response(404, json=problem)
        is_decided = self._left == 0
        self._left = None if self._left is None else self._left - 1
        told = {"key": "charge:v1:acme:renewal-1", "version": 0, "status": "undecided"}
        done = {"version": 5, "status": "completed", "reference": "ch_1"}
        return (
            httpx.Response(200, json=told | done) if is_decided else httpx.Response(202, json=told)
        )


@pytest.mark.parametrize(("decides", "status"), [(2, "completed"), (None, "undecided")])
async def test_an_offer_that_nobody_has_decided_is_no_unknown_action(
    decides: int | None, status: str
) -> None:
    """It is durable, and may be started yet: a call that was told there was no such action left,
    and the attempt that was then its own was unknown.
    """
    ledger = Undecided(decides)
    async with Ledger("http://l", "k", transport=ledger, clock=lambda: ledger.now_s) as client:
        result = await client.perform(charge(), Tool(), wait_ms=4_000)
    assert getattr(result, "status", "completed") == status
