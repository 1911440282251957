"""What a door refuses of a run that waits at a ceiling: what it may tell whom, and what was asked
before.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from actionledger import CallerMistake, Intent, Ledger, Money, NeedsReview, Succeeded, testing
from gateway.http.codes import Code
from gateway.http.doors import Doors
from gateway.http.runs_paused import RunsPaused
from gateway.keys import Caller, Role
from gateway.wiring.publishing import default_catalogue
from ledger.client.client import Progress
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.inputs import Propose
from ledger.core.policy import Policy, parse_policy
from ledger.core.request import Request
from ledger.log.published import Published
from projections.query_rows import GateRow
from tests.doors import doors_over

POLICY = """
[[ceiling]]
name = "run"
per = "run"
side_effects = 1

[[row]]
name = "all"
outcome = "automatic"
ceilings = ["run"]
reason = "One effect a run."
"""


def intent(operation: str, event: str) -> Intent:
    """A charge or a ticket of the same run."""
    is_charge = operation == "charge"
    return Intent(
        operation=operation,
        business_event=event,
        environment="production",
        target=f"order:{event}" if is_charge else None,
        params={} if is_charge else {"title": "Look at it"},
        money=Money(minor=1_000, currency="EUR") if is_charge else None,
        run="r1",
    )


@pytest.fixture
async def world() -> AsyncIterator[testing.World]:
    """A ledger in which only agent:billing may charge."""
    head, charge = default_catalogue().split('name = "charge"', 1)
    own = charge.replace('principals = ["*"]', 'principals = ["agent:billing"]', 1)
    catalogue = f'{head}name = "charge"{own}'
    async with testing.ledger(catalogue=catalogue, policy=POLICY) as opened:
        yield opened


async def refused(ledger: Ledger, asked: Intent) -> CallerMistake:
    """How the door refuses it."""
    with pytest.raises(CallerMistake) as mistake:
        await ledger.propose(asked)
    assert mistake.value.code == "run_paused"
    return mistake.value


async def test_no_agent_is_told_of_an_action_for_whose_like_it_may_not_ask(
    world: testing.World,
) -> None:
    """Whoever names the run of another agent learns that it waits, and not at what."""
    billing = world.ledger_of("acme", "agent:billing")
    assert isinstance(await billing.propose(intent("charge", "e1")), Succeeded)
    held = await billing.propose(intent("charge", "secret-renewal-7"))
    assert isinstance(held, NeedsReview)
    own = await refused(billing, intent("charge", "e3"))
    assert own.key == held.key
    with pytest.raises(CallerMistake) as unknown:
        await world.ledger_of("acme", "agent:other").get(held.key)
    assert unknown.value.code == "unknown_action"
    other = await refused(world.ledger_of("acme", "agent:other"), intent("ticket", "t1"))
    assert other.key is None
    assert "secret-renewal-7" not in f"{other} {other.text_for_model}"


# --- what was asked before -----------------------------------------------------------------------

CASE = "ticket:v1:acme:case"
AGENT = Caller("0" * 16, "acme", "agent:a", Role.AGENT)


class Away(Exception):
    """The database does not answer."""


@dataclass
class Tables:
    """What a door knows: a run that is full as the tables show it, and the log as it follows it."""

    used: int = 0
    paused_keys: tuple[str, ...] = ()
    is_action_away: bool = False
    statuses: dict[str, str] = field(default_factory=dict)

    async def gate(self, tenant: str, key: str) -> GateRow:
        """The run, of whatever name."""
        used = {"side_effects": self.used}
        return GateRow(tenant, key, "run", "r1", 1, used, {}, 0, 0, None, 0, 0, 0, 0)

    async def paused(self, tenant: str, run: str) -> tuple[tuple[str, str], ...]:
        """What waits for a person."""
        return tuple((key, "run") for key in self.paused_keys)

    async def action(self, tenant: str, action_key: str) -> None:
        """The tables do not show what is asked about."""
        if self.is_action_away:
            raise Away

    async def progress(self, key: str, *, after_version: int, timeout_ms: int) -> Progress | None:
        """As the log was followed."""
        status = self.statuses.get(key)
        return None if status is None else Progress(key, 1, status, None, None, None, None, 0, 0)

    def doors(self) -> Doors:
        """The doors over this world."""
        catalogue, policy = parse_catalogue(default_catalogue()), parse_policy(POLICY)
        assert isinstance(catalogue, Catalogue)
        assert isinstance(policy, Policy)
        known = Published()
        known.catalogue, known.policy = catalogue, policy
        return doors_over(self, lambda: known)


def ticket(event: str, run: str = "r1") -> Propose:
    """A ticket of a run, as its agent asks for it."""
    request = Request(
        operation="ticket",
        version=1,
        params={"title": "Look at it"},
        principal=AGENT.principal,
        environment="production",
    )
    return Propose(key=f"ticket:v1:acme:{event}", request=request, run=run)


async def test_what_is_taken_and_undecided_is_never_told_to_be_unrecorded() -> None:
    """It was let in before the run was full, and nobody has decided it so far: asked for again it
    goes to the ledger, which knows.
    """
    tables, paused = Tables(), RunsPaused()
    doors = tables.doors()
    assert await paused.refusal(doors, ticket("slow"), AGENT) is None
    tables.used, tables.paused_keys = 1, (CASE,)
    new = await paused.refusal(doors, ticket("new"), AGENT)
    assert new is not None
    assert new.code is Code.RUN_PAUSED
    assert await paused.refusal(doors, ticket("slow"), AGENT) is None


async def test_where_nobody_can_say_that_it_is_new_nothing_is_refused() -> None:
    """The tables went away between two questions: what is asked for may be done long ago."""
    tables, paused = Tables(used=1, paused_keys=(CASE,)), RunsPaused()
    doors = tables.doors()
    refusal = await paused.refusal(doors, ticket("e1"), AGENT)
    assert refusal is not None
    tables.is_action_away = True
    assert await paused.refusal(doors, ticket("e1"), AGENT) is None
