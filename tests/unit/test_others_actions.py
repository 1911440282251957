"""What an agent is told of actions that it may not ask for: that its own waits."""

from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from actionledger import Blocked, Intent, Money, testing
from gateway.http import seeing
from gateway.http.doors import Doors
from gateway.http.problems import LedgerPlace
from gateway.http.timeline import CauseView, Entry, TimelineView
from gateway.http.views import ActionView
from gateway.keys import Caller, Role
from gateway.wiring.publishing import default_catalogue
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.state import Status
from ledger.log.published import Published
from tests.doors import doors_over

if TYPE_CHECKING:
    from pydantic import JsonValue

CASHIER, CLERK = "agent:cashier", "agent:clerk"
CATALOGUE = default_catalogue().replace('principals = ["*"]', f'principals = ["{CASHIER}"]', 1)
"""Charges are the cashier's alone."""

POLICY = """
[[row]]
name = "one"
outcome = "automatic"
block_target = true
reason = "One at a time on an order."
"""

CHARGE, REFUND = "charge:v1:acme:a", "refund:v1:acme:b"


@pytest.fixture
async def world() -> AsyncIterator[testing.World]:
    """A ledger in which one agent alone may ask for charges."""
    async with testing.ledger(CATALOGUE, policy=POLICY) as opened:
        yield opened


def intent(operation: str, event: str) -> Intent:
    """What acts on the one order."""
    params: dict[str, JsonValue] = (
        {"charge": "ch_1"} if operation == "refund" else {"customer": "cus_1"}
    )
    return Intent(
        operation=operation,
        business_event=event,
        environment="production",
        target="order:1",
        params=params,
        money=Money(minor=1_000, currency="EUR"),
    )


async def test_an_agent_waits_and_is_not_told_for_whose_action(world: testing.World) -> None:
    """Whoever may ask for charges is told; whoever may not learns that its own goes on."""
    cashier, clerk = (world.ledger_of("acme", one) for one in (CASHIER, CLERK))
    world.provider.drop_next_answer()
    first = await cashier.propose(intent("charge", "e1"), wait_ms=1_000)
    second = await clerk.propose(intent("refund", "e2"), wait_ms=1_000)
    assert isinstance(second, Blocked)
    assert (second.reason, second.by) == ("target", None)
    assert "another action is under way on the same target" in second.text_for_model
    assert first.key not in second.text_for_model
    for told in (await clerk.get(second.key), await clerk.propose(intent("refund", "e2"))):
        assert isinstance(told, Blocked)
        assert told.by is None
    seen = await cashier.get(second.key)
    assert isinstance(seen, Blocked)
    assert seen.by == first.key


def doors() -> Doors:
    """A door that knows the catalogue."""
    catalogue = parse_catalogue(CATALOGUE)
    assert isinstance(catalogue, Catalogue), catalogue
    known = Published()
    known.catalogue = catalogue
    return doors_over(None, lambda: known)


def caller(principal: str, role: Role = Role.AGENT) -> Caller:
    """Who asks."""
    return Caller("0" * 16, "acme", principal, role)


@pytest.mark.parametrize(
    ("who", "is_told"),
    [
        (caller(CLERK), False),
        (caller(CASHIER), True),
        (caller("service:books", Role.ANALYST), True),
    ],
)
async def test_what_an_action_looks_like_is_told_to_whom_it_concerns(
    who: Caller, *, is_told: bool
) -> None:
    """The name of a ceiling is told to everybody."""
    view = ActionView(
        key=REFUND,
        href="h",
        status=Status.NEEDS_REVIEW,
        review="suspected_duplicate",
        review_names=CHARGE,
    )
    told = await seeing.told_to(doors(), who, view)
    assert told.review_names == (CHARGE if is_told else None)
    ceiling = view.model_copy(update={"review": "ceiling_reached", "review_names": "run"})
    assert await seeing.told_to(doors(), who, ceiling) == ceiling


def entry(kind: str, **data: Any) -> Entry:  # noqa: ANN401 - as JSON has it
    """A fact in a timeline."""
    return Entry(
        version=1,
        type=kind,
        at=1,
        event_id="1.1",
        ledger=LedgerPlace(partition=0, offset=1),
        cause=CauseView(topic="intents", partition=0, offset=1),
        data=data,
    )


@pytest.mark.parametrize(
    ("kind", "data", "left"),
    [
        ("gate.answered", {"outcome": "queued", "behind": CHARGE}, {"outcome": "queued"}),
        ("gate.answered", {"outcome": "refused", "like": CHARGE}, {"outcome": "refused"}),
        ("gate.answered", {"behind": REFUND}, {"behind": REFUND}),
        ("gate.answered", {"behind": None}, {"behind": None}),
        (
            "review.opened",
            {"reason": "suspected_duplicate", "names": CHARGE},
            {"reason": "suspected_duplicate"},
        ),
        (
            "review.opened",
            {"reason": "ceiling_reached", "names": "run"},
            {"reason": "ceiling_reached", "names": "run"},
        ),
        (
            "action.blocked",
            {"reason": "original_open", "by": CHARGE},
            {"reason": "original_open", "by": CHARGE},
        ),
    ],
)
async def test_a_timeline_tells_no_more(
    kind: str, data: Mapping[str, Any], left: Mapping[str, Any]
) -> None:
    """What the agent has named itself stays."""
    timeline = TimelineView(key=REFUND, complete_to_version=1, entries=(entry(kind, **data),))
    told = await seeing.timeline_told(doors(), caller(CLERK), timeline)
    assert told.entries[0].data == left
    assert await seeing.timeline_told(doors(), caller(CASHIER), timeline) == timeline
