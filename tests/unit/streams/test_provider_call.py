"""One call for one start, whatever the adapter does: nothing is said of it that is not known."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import pytest
from pydantic import JsonValue

from ledger.core import inputs as i
from ledger.core.limits import TEXT_CHARS_MAX
from reconciler.providers import port
from streams import provider_call
from streams.assignments import Assignment
from streams.clock import mono_ms
from streams.provider_call import act
from tests.examples import CHARGE, REFERENCE, STREAM, T0, recorded, request, started

MARGIN_MS = 50
Guard = Callable[[], None]


@dataclass
class Adapter:
    """An adapter that does what a test says once it has been asked to perform."""

    behave: Callable[[Guard], object]
    asked: int = 0
    keys: list[str] = field(default_factory=list)

    async def perform(
        self,
        request: port.ProviderRequest,
        *,
        provider_key: str,
        deadlines: port.Deadlines,
        before_first_byte: Guard,
    ) -> port.Outcome:
        """Behave."""
        self.asked += 1
        self.keys.append(provider_key)
        outcome = self.behave(before_first_byte)
        if asyncio.iscoroutine(outcome):
            outcome = await outcome
        assert isinstance(outcome, port.Succeeded | port.Refused | port.NotSent | port.Unresolved)
        return outcome

    async def close(self) -> None:
        """Nothing is open."""


def assignment(*, offered_ms_ago: int = 0, lease_ms: int = 60_000) -> Assignment:
    """A start that spends an offer made so long ago."""
    start = started().model_copy(
        update={
            "offered_at": T0,
            "deadline_at": T0 + 30_000,
            "lease_until": T0 + lease_ms,
            "key_expires_at": None,
            "connect_ms": 200,
            "response_ms": 200,
        }
    )
    sent_at = mono_ms() - offered_ms_ago
    return Assignment(start, STREAM, 0, recorded(CHARGE), sent_at, offer_valid_ms=30_000)


def nothing_refuses() -> str | None:
    """Nothing that is published speaks against it."""
    return None


async def said(adapter: Adapter, own: Assignment | None = None) -> i.Report | i.Decline:
    """What the executor would tell the ledger."""
    own = own or assignment()
    assert own.intent is not None
    return await act(own, own.intent.request, adapter, margin_ms=MARGIN_MS, refuses=nothing_refuses)


def outcome(answer: i.Report | i.Decline) -> i.ReportedOutcome:
    """The outcome of a report."""
    assert isinstance(answer, i.Report)
    return answer.outcome


def succeed(result: Mapping[str, JsonValue] | None = None, reference: str = REFERENCE) -> Adapter:
    """An adapter that passes the check and succeeds."""

    def behave(check: Guard) -> port.Outcome:
        check()
        return port.Succeeded(reference, result or {})

    return Adapter(behave)


async def test_a_success_is_reported_with_the_recorded_key() -> None:
    """One call, with the key that the start names."""
    adapter = succeed({"paid": True})
    own = assignment()
    assert outcome(await said(adapter, own)) == i.Success(
        reference=REFERENCE, result={"paid": True}
    )
    assert adapter.keys == [own.start.provider_key]


@pytest.mark.parametrize(
    ("offered_ms_ago", "code"), [(60_000, "lease_over"), (30_000, "deadline_over")]
)
async def test_a_start_that_came_too_late_is_given_back_without_a_call(
    offered_ms_ago: int, code: str
) -> None:
    """Declined before anything is opened."""
    adapter = succeed()
    answer = await said(adapter, assignment(offered_ms_ago=offered_ms_ago))
    assert isinstance(answer, i.Decline)
    assert answer.code == code
    assert adapter.asked == 0


async def test_another_request_than_the_hashed_one_never_leaves() -> None:
    """The check recomputes the hash of what it is about to send."""
    own = assignment()
    adapter = succeed()
    other = request(CHARGE).model_copy(update={"target": "order:B-1"})
    answer = await act(own, other, adapter, margin_ms=MARGIN_MS, refuses=nothing_refuses)
    assert isinstance(answer, i.Decline)
    assert answer.code == "request_hash_differs"
    assert adapter.asked == 0


async def test_an_adapter_that_fails_before_the_check_sent_nothing() -> None:
    """Its fault is a decline: nothing left, and another executor may try."""

    def behave(check: Guard) -> port.Outcome:
        raise KeyError("account")

    answer = await said(Adapter(behave))
    assert isinstance(answer, i.Decline)
    assert answer.code == "fault_in_adapter"


async def test_an_adapter_that_fails_after_the_check_may_have_sent_everything() -> None:
    """Its fault is an unknown outcome, never a failure; nobody else's call is ended by it."""

    def behave(check: Guard) -> port.Outcome:
        check()
        raise KeyError("id")

    assert outcome(await said(Adapter(behave))) == i.NoAnswer(code="fault_in_adapter")


async def test_a_guard_that_declines_is_heard_through_any_adapter() -> None:
    """Also through one that lets the refusal pass."""
    own = replace(assignment(), offered_mono_ms=mono_ms() - 29_950)

    async def behave(check: Guard) -> port.Outcome:
        while mono_ms() < own.until(own.start.deadline_at):
            await asyncio.sleep(0)
        check()
        return port.Succeeded(REFERENCE, {})

    answer = await said(Adapter(behave), own)
    assert isinstance(answer, i.Decline)
    assert answer.code == "deadline_over"


async def test_a_call_that_never_ends_is_cut_off_and_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind the check it may have happened; before it nothing did."""
    monkeypatch.setattr(provider_call, "HARD_STOP_GRACE_MS", 0)

    async def sent(check: Guard) -> port.Outcome:
        check()
        await asyncio.Event().wait()
        raise AssertionError

    async def unsent(check: Guard) -> port.Outcome:
        await asyncio.Event().wait()
        raise AssertionError

    assert outcome(await said(Adapter(sent))) == i.NoAnswer(code="hard_deadline")
    answer = await said(Adapter(unsent))
    assert isinstance(answer, i.Decline)
    assert answer.code == "deadline_over"


async def test_no_call_lasts_into_the_end_of_its_lease() -> None:
    """However long its own deadlines are: it is over long before them."""
    own = assignment(lease_ms=400)
    long = {"response_ms": 60_000, "deadline_at": T0 + 60_200}
    own = replace(own, start=own.start.model_copy(update=long))

    async def behave(check: Guard) -> port.Outcome:
        check()
        await asyncio.Event().wait()
        raise AssertionError

    began = mono_ms()
    assert outcome(await said(Adapter(behave), own)) == i.NoAnswer(code="hard_deadline")
    assert mono_ms() < began + 60_000


async def test_an_adapter_that_asks_twice_sends_once_and_says_nothing_of_the_second_time() -> None:
    """The second try is not let out; that it was not sent is no word about the first."""

    def behave(check: Guard) -> port.Outcome:
        check()
        try:
            check()
        except port.Declined as declined:
            return port.NotSent(declined.code, port.Retry.LATER)
        raise AssertionError

    assert outcome(await said(Adapter(behave))) == i.NoAnswer(code="asked_twice")


async def test_what_the_ledger_would_refuse_to_read_is_left_out_of_a_success() -> None:
    """The reference is what counts: no detail may cost it."""
    for detail in ({"share": 0.5}, {"text": "x" * 300_000}):
        told = outcome(await said(succeed(detail)))
        assert isinstance(told, i.Success)
        assert (told.reference, list(told.result)) == (REFERENCE, ["left_out"])
    too_long = succeed(reference="r" * (TEXT_CHARS_MAX + 1))
    assert outcome(await said(too_long)) == i.NoAnswer(code="unreportable_answer")


async def test_a_held_start_is_given_back_without_a_call() -> None:
    """A hold that was published before the executor came to it: nothing is opened."""
    own, adapter = assignment(), succeed()
    assert own.intent is not None
    answer = await act(
        own, own.intent.request, adapter, margin_ms=MARGIN_MS, refuses=lambda: "held"
    )
    assert answer == own.decline("held")
    assert adapter.asked == 0


async def test_a_hold_that_comes_while_the_connection_opens_stops_the_first_byte() -> None:
    """The last check asks again."""
    own, heard = assignment(), []

    def behave(check: Guard) -> port.Outcome:
        heard.append("held")
        check()
        raise AssertionError("the check consented")

    assert own.intent is not None
    answer = await act(
        own,
        own.intent.request,
        Adapter(behave),
        margin_ms=MARGIN_MS,
        refuses=lambda: "held" if heard else None,
    )
    assert answer == own.decline("held")


async def test_a_decline_after_the_first_byte_is_no_decline() -> None:
    """An adapter that lets its second try's refusal out has sent the first one."""

    def behave(check: Guard) -> port.Outcome:
        check()
        check()
        raise AssertionError

    assert outcome(await said(Adapter(behave))) == i.NoAnswer(code="asked_twice")


@pytest.mark.parametrize("ends", ["late", "fault", "declined", "not_sent"])
async def test_what_an_adapter_leaves_running_may_not_send_any_more(ends: str) -> None:
    """Once it was told that nothing was sent, a thread of the adapter's that comes later is
    refused: the ledger may have begun the action anew.
    """
    may_go, refused = threading.Event(), asyncio.get_running_loop().create_future()
    loop = asyncio.get_running_loop()

    def straggle(check: Guard) -> None:
        may_go.wait()
        code = ""
        try:
            check()
        except port.Declined as declined:
            code = declined.code
        loop.call_soon_threadsafe(refused.set_result, code)

    async def behave(check: Guard) -> port.Outcome:
        call = asyncio.create_task(asyncio.to_thread(straggle, check))
        match ends:
            case "late":
                await asyncio.shield(call)
            case "fault":
                raise KeyError("pool")
            case "declined":
                raise port.Declined("changed_its_mind")
            case _:
                pass
        return port.NotSent("connect_failed", port.Retry.LATER)

    answer = await said(Adapter(behave))
    may_go.set()
    assert await refused == "call_over"
    assert isinstance(answer, i.Decline) or isinstance(answer.outcome, i.NotSent)


async def test_a_consent_that_comes_while_the_call_is_cut_off_is_read_after_closing() -> None:
    """Of asking and closing one comes first, and what is told says which."""
    asked, goes_on = threading.Event(), threading.Event()

    def refuses() -> str | None:
        if threading.current_thread() is not threading.main_thread():
            asked.set()
            goes_on.wait()
        return None

    async def behave(check: Guard) -> port.Outcome:
        threading.Thread(target=check).start()
        await asyncio.to_thread(asked.wait)
        threading.Timer(0.05, goes_on.set).start()
        raise KeyError("pool")

    own = assignment()
    assert own.intent is not None
    answer = await act(
        own, own.intent.request, Adapter(behave), margin_ms=MARGIN_MS, refuses=refuses
    )
    assert outcome(answer) == i.NoAnswer(code="fault_in_adapter")


@pytest.mark.parametrize("code", ["x" * (TEXT_CHARS_MAX + 1), "half \ud800", 7])
async def test_a_decline_that_the_log_cannot_hold_is_a_decline(code: object) -> None:
    """Nothing was sent, whatever the adapter calls it; nor does its word end other calls."""

    def behave(check: Guard) -> port.Outcome:
        raise port.Declined(code)  # type: ignore[arg-type] # as an adapter without types may

    answer = await said(Adapter(behave))
    assert isinstance(answer, i.Decline)
    assert answer.code == "unreportable_decline"
