"""What people saw is read again right before the call: nothing goes out unless it still holds."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pytest
from pydantic import JsonValue

from ledger.core.inputs import Decline, Report
from ledger.core.preview import Change, Foreseen, Preview
from reconciler.providers import port
from streams.assignments import Assignment
from streams.clock import mono_ms
from streams.provider_call import act
from tests.examples import CHARGE, REFERENCE, STREAM, T0, recorded
from tests.forging import World
from tests.policies import operation

SHOWN_WITHOUT_FACTS = Preview(
    request_hash=recorded(CHARGE).request_hash, provider="simulated", account="main"
)
Answer = Mapping[str, JsonValue] | port.Unforeseen


@dataclass
class Provider:
    """Performer and previewer in one, so that a test sees in which order they are asked."""

    answer: Answer | Exception = field(default_factory=dict)
    never: asyncio.Event | None = None
    asked: list[str] = field(default_factory=list)
    requests: list[port.ProviderRequest] = field(default_factory=list)

    async def preview(
        self, request: port.ProviderRequest, *, timeout_ms: int
    ) -> Foreseen | port.Unforeseen:
        """Nobody asks for the whole of it here."""
        raise NotImplementedError

    async def recheck(
        self, request: port.ProviderRequest, *, timeout_ms: int
    ) -> Mapping[str, JsonValue] | port.Unforeseen:
        """Answer at once, or never."""
        assert timeout_ms > 0
        self.asked.append("recheck")
        self.requests.append(request)
        if self.never is not None:
            await self.never.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def perform(
        self,
        request: port.ProviderRequest,
        *,
        provider_key: str,
        deadlines: port.Deadlines,
        before_first_byte: Callable[[], None],
    ) -> port.Outcome:
        """Have the effect."""
        self.asked.append("perform")
        self.requests.append(request)
        before_first_byte()
        return port.Succeeded(REFERENCE, {})

    async def close(self) -> None:
        """Nothing is open."""


def nothing_refuses() -> str | None:
    """Nothing that is published speaks against it."""
    return None


async def said(
    provider: Provider,
    *,
    previewer: Provider | None = None,
    world: World | None = None,
    response_ms: int = 200,
    **declared: object,
) -> Decline | Report:
    """What becomes of a start whose people saw a balance of 10,000, as its operation is `declared`
    by the newest catalogue.
    """
    start = (world or World()).start.model_copy(
        update={
            "offered_at": T0,
            "deadline_at": T0 + 30_000,
            "lease_until": T0 + 60_000,
            "key_expires_at": None,
            "connect_ms": 100,
            "response_ms": response_ms,
        }
    )
    intent = recorded(start.action)
    own = Assignment(start, STREAM, 0, intent, mono_ms(), offer_valid_ms=30_000)
    assert own.intent is not None
    return await act(
        own,
        own.intent.request,
        provider,
        margin_ms=50,
        refuses=nothing_refuses,
        previewer=previewer,
        declared=operation(preview="provider", **declared),
    )


async def test_what_still_holds_is_acted_on_with_the_same_request() -> None:
    """First the look, then the call, both about the same."""
    provider = Provider({"balance": 10_000})
    assert isinstance(await said(provider, previewer=provider), Report)
    assert provider.asked == ["recheck", "perform"]
    assert provider.requests[0] == provider.requests[1]


@pytest.mark.parametrize("balance", [9_900, 10_100])
async def test_a_fact_may_move_as_far_as_its_tolerance(balance: int) -> None:
    """In both directions, and not one further."""
    provider = Provider({"balance": balance})
    answer = await said(provider, previewer=provider, tolerances={"balance": 100})
    assert isinstance(answer, Report)
    further = Provider({"balance": balance + (1 if balance > 10_000 else -1)})
    answer = await said(further, previewer=further, tolerances={"balance": 100})
    assert isinstance(answer, Decline)
    assert answer.code == "volatile_changed"
    assert answer.changes is not None
    assert answer.changes[0].was == "10000"


@pytest.mark.parametrize(
    ("read", "changes"),
    [
        ({"balance": 9_999}, (Change(name="balance", was="10000", now="9999"),)),
        ({}, (Change(name="balance", was="10000", now="(absent)"),)),
        (
            {"balance": 10_000, "frozen": True},
            (Change(name="frozen", was="(absent)", now="true"),),
        ),
        ({"balance": "10000"}, (Change(name="balance", was="10000", now='"10000"'),)),
    ],
)
async def test_what_moved_is_told_with_both_values_and_nothing_is_sent(
    read: dict[str, JsonValue], changes: tuple[Change, ...]
) -> None:
    """Another value, none, one more, another kind of value: each is not what people saw."""
    provider = Provider(read)
    answer = await said(provider, previewer=provider)
    assert isinstance(answer, Decline)
    assert (answer.code, answer.changes) == ("volatile_changed", changes)
    assert provider.asked == ["recheck"]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (port.Unforeseen("down"), "recheck_failed:down"),
        (RuntimeError("a fault of ours"), "fault_in_adapter"),
    ],
)
async def test_what_cannot_be_read_again_does_not_hold(
    answer: Answer | Exception, code: str
) -> None:
    """No answer is no consent, and ends no approval either."""
    provider = Provider(answer)
    declined = await said(provider, previewer=provider)
    assert isinstance(declined, Decline)
    assert (declined.code, declined.changes) == (code, None)
    assert provider.asked == ["recheck"]


async def test_a_look_that_takes_too_long_is_none() -> None:
    """It has no more time than the call itself."""
    slow = Provider({"balance": 10_000}, never=asyncio.Event())
    declined = await said(slow, previewer=slow, response_ms=50)
    assert isinstance(declined, Decline)
    assert declined.code == "recheck_failed:timed_out"
    assert slow.asked == ["recheck"]


async def test_without_a_previewer_nothing_is_acted_on_that_people_saw_facts_of() -> None:
    """An executor that cannot look does not guess."""
    provider = Provider()
    declined = await said(provider)
    assert isinstance(declined, Decline)
    assert declined.code == "no_previewer_here"
    assert provider.asked == []


NOTHING_SEEN = World(approval_changes={"preview": SHOWN_WITHOUT_FACTS})


async def test_what_became_volatile_since_people_agreed_is_shown_to_them_first() -> None:
    """Another catalogue has the provider asked: whoever agreed to the bare request saw no fact."""
    provider = Provider({"balance": 10_000})
    answer = await said(provider, previewer=provider, world=NOTHING_SEEN, volatile=("balance",))
    assert isinstance(answer, Decline)
    unseen = Change(name="balance", was="(absent)", now="10000")
    assert (answer.code, answer.changes) == ("volatile_changed", (unseen,))
    assert provider.asked == ["recheck"]
    plain = Provider({"balance": 10_000})
    assert isinstance(await said(plain, previewer=plain, world=NOTHING_SEEN), Report)
    assert plain.asked == ["perform"]


async def test_a_volatile_fact_that_the_provider_does_not_tell_keeps_the_call_back() -> None:
    """Nobody knows whether it holds; and no approval ends for it."""
    for world, read in ((NOTHING_SEEN, {}), (World(), {"balance": 10_000})):
        provider = Provider(read)
        answer = await said(provider, previewer=provider, world=world, volatile=("stock",))
        assert isinstance(answer, Decline)
        assert (answer.code, answer.changes) == ("recheck_failed:volatile_missing", None)
        assert provider.asked == ["recheck"]


async def test_a_later_attempt_is_not_held_against_what_its_own_effect_may_have_moved() -> None:
    """Its start carries no preview, and nothing is read again."""
    world = World(
        start_changes={"attempt": 2, "fencing_token": 2}, approval_changes={"preview": None}
    )
    provider = Provider({"balance": 1})
    answer = await said(provider, previewer=provider, world=world, volatile=("balance",))
    assert isinstance(answer, Report)
    assert provider.asked == ["perform"]
