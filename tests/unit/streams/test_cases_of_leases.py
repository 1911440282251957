"""Public failure cases about leases and workers that come back late, where it is not the core alone
that answers: the holder's own last look, the catalogue's check, and state that was put away.
"""

import asyncio
from collections.abc import Callable

import pytest

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.snapshot import dump, load
from ledger.core.state import AttemptStatus, Status
from reconciler.providers import port
from streams import provider_call
from streams.assignments import Assignment
from streams.clock import mono_ms
from streams.provider_call import act
from tests.examples import (
    CATALOGUE_TEXT,
    CHARGE,
    LEASE_MARGIN_MS,
    LEASE_MS,
    RESPONSE_MS,
    SKEW_MS,
    STREAM,
    decline,
    offer,
    propose,
    recorded,
    report,
    request,
    started,
    success,
    tick,
)
from tests.unit.core.language import Given, Story

ALWAYS = 400 * 24 * 3_600_000
MARGIN_MS = 1_000
LAPSE = LEASE_MS + SKEW_MS


class Provider:
    """Counts what reaches it; opening a connection takes as long as `opening` says."""

    def __init__(self, opening: Callable[[], None]) -> None:
        self._opening = opening
        self.calls = 0

    async def perform(
        self,
        request: port.ProviderRequest,
        *,
        provider_key: str,
        deadlines: port.Deadlines,
        before_first_byte: Callable[[], None],
    ) -> port.Outcome:
        """One effect, unless the last look says no."""
        await asyncio.sleep(0)
        self._opening()
        before_first_byte()
        self.calls += 1
        return port.Succeeded("R1", {})

    async def close(self) -> None:
        """Nothing is open."""


class Clock:
    """The holder's clock, moved by hand."""

    def __init__(self) -> None:
        self.ms = mono_ms()

    def __call__(self) -> int:
        """What it shows."""
        return self.ms


async def _said(clock: Clock, provider: Provider) -> i.Report | i.Decline:
    own = Assignment(started(), STREAM, 0, recorded(CHARGE), clock.ms)
    return await act(own, request(CHARGE), provider, margin_ms=MARGIN_MS, refuses=lambda: None)


@pytest.mark.case("C041")
@pytest.mark.parametrize(
    ("slept_ms", "calls"), [(0, 1), (LEASE_MS - MARGIN_MS - 1, 0), (45_000, 0)]
)
async def test_c041_a_worker_that_slept_before_its_first_byte_sends_nothing(
    monkeypatch: pytest.MonkeyPatch, slept_ms: int, calls: int
) -> None:
    """C041: between the start and the first byte a worker stood still for 45 s. With the connection
    open it looks once more and gives the start back: nobody needs to know its token to be safe.
    """
    clock = Clock()
    monkeypatch.setattr(provider_call, "mono_ms", clock)

    def sleep() -> None:
        clock.ms += slept_ms

    provider = Provider(sleep)
    answer = await _said(clock, provider)
    assert provider.calls == calls
    assert isinstance(answer, i.Report if calls else i.Decline)


@pytest.mark.case("C041")
def test_c041_a_result_is_added_and_never_overwritten() -> None:
    """C041: the slow worker's result stands; what it, or anybody, says later about the same attempt
    is kept beside it, and another effect is a person's case.
    """
    story = Story()
    story.hears(propose(), offer=offer())
    story.hears(tick(), at=LAPSE, offer=offer(until=ALWAYS, incarnation="w2"))
    story.hears(report(success("R1")), at=45_000)
    story.hears(report(success("R2")), at=46_000)
    action = story.action()
    assert (action.status, action.reference) == (Status.COMPLETED, "R1")
    assert action.review == "second_effect"
    assert story.count("attempt.succeeded") == 1
    assert story.count("evidence.recorded") == 1


@pytest.mark.case("C043")
@pytest.mark.parametrize("name", ["charge", "payout", "ticket", "note", "email"])
def test_c043_a_call_longer_than_its_lease_allows_is_refused(name: str) -> None:
    """C043: an operation whose answer may take 300 s under a margin of some seconds is refused,
    whichever it is, and with the whole catalogue: nothing starts under it.
    """
    begin = CATALOGUE_TEXT.index(f'name = "{name}"')
    at = CATALOGUE_TEXT.index(f"response_ms = {RESPONSE_MS}", begin)
    text = CATALOGUE_TEXT[:at] + CATALOGUE_TEXT[at:].replace(
        f"response_ms = {RESPONSE_MS}", "response_ms = 300_000", 1
    )
    mistakes = parse_catalogue(text)
    assert not isinstance(mistakes, Catalogue)
    (mistake,) = (one for one in mistakes if one.path.endswith("deadlines.response_ms"))
    assert str(LEASE_MARGIN_MS) in mistake.message


@pytest.mark.case("C045")
def test_c045_tokens_go_on_where_state_was_put_away() -> None:
    """C045: the holder of token 7 stands still, everything in memory goes, and the stream comes
    back from its stored bytes: the next token is 8, and the word of 7 is void.
    """
    story = Story()
    story.hears(propose(), offer=offer())
    for number in range(1, 7):
        holder = "executor-1" if number == 1 else f"w{number}"
        story.hears(decline(attempt=number, holder=holder), at=number * 20_000)
        again = offer(until=ALWAYS, incarnation=f"w{number + 1}")
        story.hears(tick(), at=number * 20_000 + 10_000, offer=again)
    assert story.action().attempts[-1].fencing_token == 7
    story.hears(decline(attempt=7, holder="w7"), at=140_000)
    story.known = Given(load(dump(story.known.stream)), story.known.config, story.known.offset)
    story.hears(tick(), at=150_000, offer=offer(until=ALWAYS, incarnation="w8"))
    assert story.action().attempts[-1].fencing_token == 8
    stale = story.hears(report(success("late"), attempt=8, token=7, holder="w7"), at=150_500)
    assert stale.decided.refused is not None
    assert stale.decided.refused.code == "stale_token"
    assert story.action().attempts[-1].status is AttemptStatus.RUNNING


@pytest.mark.case("C047")
async def test_c047_trouble_before_the_first_byte_is_said_and_after_it_is_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """C047: a fault while the connection opens gives the start back, because the last look had not
    consented: no byte left. The same fault behind it leaves the outcome open.
    """

    def fail() -> None:
        raise ConnectionError("the database is away")

    before = Provider(fail)
    clock = Clock()
    monkeypatch.setattr(provider_call, "mono_ms", clock)
    answer = await _said(clock, before)
    assert isinstance(answer, i.Decline)
    assert before.calls == 0

    class After(Provider):
        async def perform(
            self,
            request: port.ProviderRequest,
            *,
            provider_key: str,
            deadlines: port.Deadlines,
            before_first_byte: Callable[[], None],
        ) -> port.Outcome:
            before_first_byte()
            raise ConnectionError("the database is away")

    answer = await _said(clock, After(lambda: None))
    assert isinstance(answer, i.Report)
    assert answer.outcome == i.NoAnswer(code="fault_in_adapter")
