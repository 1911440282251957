"""How many actions of a principal may wait for people at once: what counts, and what does not."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from gateway.http.codes import Code
from gateway.http.doors import Doors
from gateway.http.waiting_quota import PRINCIPALS_COUNTED_MAX, SHOWN_WITHIN_S, WaitingQuota
from gateway.wiring.publishing import default_catalogue, default_policy
from ledger.client.client import Progress
from ledger.core.catalogue import Catalogue, parse_catalogue
from ledger.core.inputs import Propose
from ledger.core.money import Money
from ledger.core.policy import Policy, parse_policy
from ledger.core.request import Request
from ledger.log.published import Published
from tests.doors import doors_over

OPEN_MAX = 3


class Away(Exception):
    """The database does not answer."""


@dataclass
class World:
    """What a door knows: the tables as they show it, the log as it follows it, and a clock."""

    shown: dict[str, set[str]] = field(default_factory=dict)
    statuses: dict[str, str] = field(default_factory=dict)
    is_away: bool = False
    now_s: float = 1_000.0

    async def waiting_keys(self, tenant: str, principal: str, *, limit: int) -> Sequence[str]:
        """As the read model has it."""
        if self.is_away:
            raise Away
        return sorted(self.shown.get(f"{tenant}/{principal}", set()))[:limit]

    async def action(self, tenant: str, action_key: str) -> None:
        """No action is older than this door."""
        if self.is_away:
            raise Away

    async def progress(self, key: str, *, after_version: int, timeout_ms: int) -> Progress | None:
        """As the log was followed."""
        status = self.statuses.get(key)
        if status is None:
            return None
        return Progress(key, 1, status, None, None, None, None, 0, 0)

    def doors(self) -> Doors:
        """The doors over this world, under the shipped catalogue and table."""
        catalogue, policy = parse_catalogue(default_catalogue()), parse_policy(default_policy())
        assert isinstance(catalogue, Catalogue)
        assert isinstance(policy, Policy)
        known = Published()
        known.catalogue, known.policy = catalogue, policy
        return doors_over(self, lambda: known, monotonic_s=lambda: self.now_s)


def refund(number: int, *, minor: int = 12_000, tenant: str = "acme", by: str = "a") -> Propose:
    """A refund; of 120 EUR, which a person has to confirm, unless a test says otherwise."""
    request = Request(
        operation="refund",
        version=1,
        target="order:A-1842",
        params={"charge": "ch_1"},
        money=Money(minor=minor, currency="EUR"),
        principal=f"agent:{by}",
        environment="production",
    )
    return Propose(key=f"refund:v1:{tenant}:return-{number}", request=request)


async def admitted(quota: WaitingQuota, world: World, *given: Propose) -> list[bool]:
    """Which of these are let in, all asked for at once."""
    doors = world.doors()
    said = await asyncio.gather(*(quota.refusal(doors, one) for one in given))
    assert {one.code for one in said if one is not None} <= {Code.TOO_MANY_WAITING}
    return [one is None for one in said]


async def test_as_many_as_may_wait_are_let_in_however_many_come_at_once() -> None:
    """Before the tables show any of them, and again while they do."""
    world, quota = World(), WaitingQuota(OPEN_MAX)
    assert await admitted(quota, world, *map(refund, range(8))) == [True] * 3 + [False] * 5
    world.shown["acme/agent:a"] = {refund(number).key for number in range(3)}
    world.now_s += SHOWN_WITHIN_S + 1
    assert await admitted(quota, world, refund(9)) == [False]
    world.shown["acme/agent:a"].pop()
    assert await admitted(quota, world, refund(9), refund(10)) == [True, False]


async def test_only_what_waits_for_people_is_counted() -> None:
    """What goes ahead by itself, what is asked again, and other principals are never refused."""
    world, quota = World(), WaitingQuota(OPEN_MAX)
    waiting = [refund(number) for number in range(OPEN_MAX)]
    assert all(await admitted(quota, world, *waiting))
    assert all(await admitted(quota, world, *waiting, refund(7, minor=2_000)))
    assert await admitted(quota, world, refund(7, tenant="globex")) == [True]
    assert await admitted(quota, world, refund(7, by="b")) == [True]
    world.statuses[refund(8).key] = "completed"
    assert await admitted(quota, world, refund(8), refund(9)) == [True, False]


async def test_what_is_taken_and_undecided_is_let_through_however_late() -> None:
    """Nobody has decided it, and others took its place: asked for again it goes to the ledger. It
    makes no room for anything else.
    """
    world, quota = World(), WaitingQuota(OPEN_MAX)
    assert await admitted(quota, world, refund(0)) == [True]
    world.shown["acme/agent:a"] = {refund(number).key for number in range(1, 1 + OPEN_MAX)}
    for _ in range(2):
        world.now_s += SHOWN_WITHIN_S + 1
        assert await admitted(quota, world, refund(0), refund(9)) == [True, False]
    quota.settled(refund(0))
    assert await admitted(quota, world, refund(0)) == [False]


async def test_what_is_over_makes_room_at_once() -> None:
    """Refused by the ledger, decided or cancelled before the tables ever showed it."""
    world, quota = World(), WaitingQuota(OPEN_MAX)
    assert all(await admitted(quota, world, *map(refund, range(OPEN_MAX))))
    quota.settled(refund(0))
    assert await admitted(quota, world, refund(3), refund(4)) == [True, False]
    world.statuses[refund(1).key] = "cancelled"
    assert await admitted(quota, world, refund(4), refund(5)) == [True, False]


async def test_without_the_tables_a_door_counts_what_it_has_let_in() -> None:
    """A database that is away neither opens the flood nor closes the door."""
    world, quota = World(is_away=True), WaitingQuota(OPEN_MAX)
    assert await admitted(quota, world, *map(refund, range(5))) == [True] * 3 + [False] * 2
    assert await admitted(quota, world, refund(0)) == [True]


async def test_no_more_principals_are_remembered_than_may_be() -> None:
    """Whoever was not heard of for longest is forgotten first."""
    world, quota = World(), WaitingQuota(1)
    doors = world.doors()
    for number in range(PRINCIPALS_COUNTED_MAX + 1):
        assert await quota.refusal(doors, refund(0, by=str(number))) is None
    assert await admitted(quota, world, refund(1, by="0")) == [True]
    assert await admitted(quota, world, refund(1, by=str(PRINCIPALS_COUNTED_MAX))) == [False]
