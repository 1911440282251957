"""The SDK against the real door: what an agent sees when everything goes well, and when not."""

import time
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import pytest_asyncio

from actionledger import (
    CallerMistake,
    Cancelled,
    Conflict,
    Failed,
    Intent,
    Ledger,
    LedgerUnavailable,
    Money,
    NotAllowed,
    Pending,
    Retries,
    Succeeded,
    Unauthorized,
    Unknown,
    UnknownAction,
    UnstableKey,
)
from gateway.keys import Role
from ledger.core.facts import IntentRecorded
from reconciler.providers import port
from reconciler.providers.null import NullPerformer
from tests.flaky import FlakyTransport
from tests.integration.door import Door, opened
from tests.servers import Addresses

pytestmark = [pytest.mark.servers, pytest.mark.asyncio(loop_scope="module")]


class ByTarget(NullPerformer):
    """The null provider, but an order that is called `lost` or `refused` gets that outcome."""

    async def perform(
        self,
        request: port.ProviderRequest,
        *,
        provider_key: str,
        deadlines: port.Deadlines,
        before_first_byte: Callable[[], None],
    ) -> port.Outcome:
        """Send, and then do as the order says."""
        outcome = await super().perform(
            request,
            provider_key=provider_key,
            deadlines=deadlines,
            before_first_byte=before_first_byte,
        )
        match request.target:
            case "order:lost":
                return port.Unresolved("response_lost")
            case "order:refused":
                return port.Refused("card_declined", port.Retry.NEVER)
            case _:
                return outcome


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def door(servers: Addresses, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Door]:
    """Open one door for all tests, with processor and executor behind it."""
    async with opened(servers, tmp_path_factory.mktemp("sdk")) as one:
        await one.one.processor()
        await one.one.executor(ByTarget())
        yield one


def intent(event: str, *, target: str = "order:A-1842", minor: int = 4_990) -> Intent:
    """An intent to charge an order."""
    return Intent(
        operation="charge",
        business_event=event,
        target=target,
        money=Money(minor=minor, currency="USD"),
        environment="production",
    )


async def test_an_intent_succeeds_and_asking_again_tells_the_same(door: Door) -> None:
    """One effect, one reference, and the second answer says that it is a replay."""
    async with door.ledger() as ledger:
        first = await ledger.propose(intent("happy"))
        again = await ledger.propose(intent("happy"))
    assert isinstance(first, Succeeded)
    assert isinstance(again, Succeeded)
    assert first.reference == again.reference
    assert (first.replayed, again.replayed) == (False, True)


async def test_an_answer_lost_on_the_way_is_asked_for_again_and_is_one_action(door: Door) -> None:
    """The intent arrives, its answer does not; the repetition finds the action and adds none."""
    transport = FlakyTransport(httpx.ASGITransport(door.app), ["refuse", "lose", "lose", 503])
    key = door.keys["acme", Role.AGENT]
    quick = Retries(first_ms=1, cap_ms=5)
    async with Ledger("http://door", key, transport=transport, retries=quick) as ledger:
        result = await ledger.propose(intent("lost-answer"))
    assert isinstance(result, Succeeded)
    assert len(transport.seen) == 5
    recorded = [
        fact
        for decision in await door.one.decisions()
        for fact in decision.facts
        if isinstance(fact, IntentRecorded) and fact.action.endswith(":lost-answer")
    ]
    assert len(recorded) == 1


async def test_a_refusal_of_the_provider_is_failed_with_its_code(door: Door) -> None:
    """A definite no effect, for ever."""
    async with door.ledger() as ledger:
        result = await ledger.propose(intent("declined", target="order:refused"))
        waited = await ledger.wait(result.key, timeout_ms=1_000)
    for one in (result, waited):
        assert isinstance(one, Failed)
        assert one.code == "card_declined"


async def test_a_lost_outcome_is_unknown_and_waiting_for_it_ends_in_time(door: Door) -> None:
    """The agent gets Unknown at once, and again when its patience ends: never a guess."""
    async with door.ledger() as ledger:
        result = await ledger.propose(intent("open", target="order:lost"))
        assert isinstance(result, Unknown)
        assert result.attempts == 1
        waited = await ledger.wait(result.key, timeout_ms=400)
        again = await ledger.propose(intent("open", target="order:lost"), wait_ms=0)
    assert isinstance(waited, Unknown)
    assert waited.next_check_at is not None
    assert isinstance(again, Unknown)
    assert again.replayed


async def test_c017_another_amount_under_the_key_is_a_conflict(door: Door) -> None:
    """C017: a result, not an exception; with the field, the original and the wrong move."""
    async with door.ledger() as ledger:
        first = await ledger.propose(intent("amount"))
        result = await ledger.propose(intent("amount", minor=49_900))
    assert isinstance(result, Conflict)
    assert [item.path for item in result.differences] == ["/money/minor"]
    assert (result.key, result.original_status) == (first.key, "completed")


@pytest.mark.parametrize(
    "made",
    [
        lambda: f"renewal-{int(time.time())}",
        lambda: f"renewal-{time.time_ns()}",
        lambda: f"renewal-{time.strftime('%Y-%m-%dT%H%M%S')}",
        lambda: f"renewal-{None}",
        lambda: "renewal-attempt-2",
        lambda: f"renewal-{object()!r}".translate(str.maketrans("<> ", "--.")),
    ],
)
async def test_a_key_that_is_made_anew_for_each_try_is_refused(
    door: Door, made: Callable[[], str]
) -> None:
    """What programs really put into names: the clock, a count, a missing value, an object. The next
    try with a name of its own goes ahead, and the refused one left nothing behind.
    """
    name = made()
    async with door.ledger() as ledger:
        with pytest.raises(UnstableKey) as refused:
            await ledger.propose(intent(name))
        assert [item.path for item in refused.value.problems] == ["/business_event"]
        with pytest.raises(UnknownAction):
            await ledger.get(f"charge:v1:acme:{name}")


async def test_mistakes_and_refusals_are_exceptions_with_reasons(door: Door) -> None:
    """What the caller's code has to correct is told apart from trouble."""
    async with door.ledger() as ledger:
        with pytest.raises(CallerMistake) as mistake:
            await ledger.propose(intent("wrong", target="customer:1"))
        assert mistake.value.code == "invalid_request"
        assert [item.path for item in mistake.value.problems] == ["/target"]
        with pytest.raises(UnknownAction):
            await ledger.get("charge:v1:acme:never-used")
        with pytest.raises(UnknownAction):
            await ledger.wait("charge:v1:globex:happy")
        done = await ledger.propose(intent("done"))
        with pytest.raises(CallerMistake) as final:
            await ledger.cancel(done.key)
        assert final.value.key == done.key
    async with door.ledger("globex") as other:
        with pytest.raises(UnknownAction):
            await other.get(done.key)


async def test_a_key_that_may_not_or_is_none_is_told_so(door: Door) -> None:
    """401 and 403 have classes of their own."""
    transport = httpx.ASGITransport(door.app)
    async with Ledger("http://door", "al_nobody", transport=transport) as nobody:
        with pytest.raises(Unauthorized):
            await nobody.propose(intent("nobody"))
    analyst = door.keys["acme", Role.ANALYST]
    async with Ledger("http://door", analyst, transport=transport) as reader:
        with pytest.raises(NotAllowed):
            await reader.propose(intent("analyst"))


async def test_a_ledger_that_is_not_there_is_unavailable() -> None:
    """Nobody listens: bounded attempts, then an exception that says that it is safe to go on."""
    retries = Retries(attempts_max=3, first_ms=1, cap_ms=5)
    async with Ledger("http://127.0.0.1:1", "al_key", retries=retries) as ledger:
        with pytest.raises(LedgerUnavailable):
            await ledger.propose(intent("nowhere"))


async def test_what_has_not_begun_can_be_taken_back(
    servers: Addresses, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Without an executor the action waits; cancelled, it is final, and again changes nothing."""
    async with opened(servers, tmp_path_factory.mktemp("cancel")) as idle:
        await idle.one.processor()
        async with idle.ledger() as ledger:
            result = await ledger.propose(intent("regret"), wait_ms=200)
            assert isinstance(result, Pending)
            assert isinstance(await ledger.cancel(result.key, reason="changed"), Cancelled)
            assert isinstance(await ledger.cancel(result.key), Cancelled)
            again = await ledger.propose(intent("regret"))
            assert isinstance(again, Cancelled)
            assert again.replayed
