"""Laws of gates and actions: whatever becomes of what they say to each other, lost, doubled, late
or out of turn, no ceiling is passed, nobody shares a target, and in the end both know the same.
"""

import random
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.gates import SIDE_EFFECTS, Gate, spend
from ledger.core.ids import GateKind, gate_kind
from ledger.core.state import Status
from tests.unit.core.crossing import A, B, C, Crossing, D, ceiling, passes

KEYS = (A, B, C, D)
EUR = spend("EUR")
HOUR_MS = 3_600_000
ROOMY = ceiling(side_effects=9) + passes("run", target=True)
NARROW = (
    ceiling(side_effects=3)
    + ceiling("day", "tenant", window="day", spend={"EUR": 10_000})
    + passes("run", "day", target=True)
)


def gates(world: Crossing) -> Iterator[tuple[str, Gate]]:
    """Every gate, with its key."""
    for key, stream in world.ledger.streams.items():
        if stream.gate is not None:
            yield key, stream.gate


def one_step(world: Crossing, chance: random.Random) -> None:
    """One message is delivered, kept for later, doubled or lost; or an attempt comes to its end."""
    said = world.ledger.said
    running = [key for key in KEYS if key_is(world, key, Status.ATTEMPTING)]
    if running and (not said or chance.random() < 0.2):
        end = world.completes if chance.random() < 0.6 else world.fails
        end(chance.choice(running))
        return
    if not said:
        world.waits(ms=chance.choice((1_000, 5_000, 20_000)))
        return
    said.rotate(chance.randrange(len(said)))
    match chance.randrange(6):
        case 0:
            said.popleft()
        case 1:
            world.hears(said[0])
        case _:
            world.hears(said.popleft())


def key_is(world: Crossing, key: str, status: Status) -> bool:
    """Whether an action is there, in a status."""
    stream = world.ledger.streams.get(f"acme/{key.rpartition(':')[2]}")
    return stream is not None and bool(stream.actions) and world.status(key) is status


def come_to_rest(world: Crossing) -> None:
    """Nothing more is lost, and every attempt comes to its end."""
    world.holds_back = False
    world.deliver()
    for _ in range(40):
        running = [key for key in KEYS if key_is(world, key, Status.ATTEMPTING)]
        for key in running:
            world.completes(key)
        waiting = any(one.waits_for_message for key in KEYS for one in world.action(key).claims)
        if not running and not waiting and all(gate.due_at is None for _, gate in gates(world)):
            return
        world.waits(ms=10_000)


def check_bounds(world: Crossing) -> None:
    """No ceiling is passed, and a target has one holder."""
    for key, gate in gates(world):
        match gate_kind(key):
            case GateKind.RUN:
                assert gate.taken(SIDE_EFFECTS) <= 9
            case GateKind.WINDOW:
                assert gate.taken(EUR) <= 10_000
            case GateKind.TARGET:
                assert len(world.held(gate)) <= 1


def check_agreement(world: Crossing) -> None:
    """What a gate has used is what was done; it holds nothing for whoever is at its end, and nobody
    waits for an answer.
    """
    done = [key for key in KEYS if world.status(key) is Status.COMPLETED]
    for key, gate in gates(world):
        assert [one.action for one in gate.reservations if world.action(one.action).is_final] == []
        if gate_kind(key) is GateKind.RUN:
            assert gate.used.get(SIDE_EFFECTS, 0) == len(done) - len(world.held(gate))
    for key in KEYS:
        action = world.action(key)
        assert not action.is_final or not any(one.waits_for_message for one in action.claims)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_no_delivery_passes_a_ceiling_or_shares_a_target(seed: int) -> None:
    """At every step, however messages fare; and once they come through, all is accounted for."""
    chance = random.Random(seed)
    world = Crossing(NARROW)
    world.holds_back = True
    waiting = list(KEYS)
    while waiting or chance.random() < 0.95:
        if waiting and chance.random() < 0.3:
            world.proposes(waiting.pop(), run="r1", target=f"order:{chance.randrange(2)}")
        else:
            one_step(world, chance)
        check_bounds(world)
    come_to_rest(world)
    check_bounds(world)
    check_agreement(world)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_delivery_leads_to_the_same_end(seed: int) -> None:
    """Where nobody stands in anybody's way, order, loss and repetition leave no trace."""
    chance = random.Random(seed)
    world = Crossing(ROOMY)
    world.holds_back = True
    for key in chance.sample(KEYS, len(KEYS)):
        world.proposes(key, run="r1", target=f"order:{key[-1]}")
    fates = dict(zip(KEYS, (True, True, False, True), strict=True))
    for _ in range(400):
        running = [key for key in KEYS if world.status(key) is Status.ATTEMPTING]
        if not world.ledger.said and not running:
            if all(world.action(key).is_final for key in KEYS):
                break
            world.waits(ms=5_000)
        elif running and chance.random() < 0.3:
            key = chance.choice(running)
            (world.completes if fates[key] else world.fails)(key)
        elif world.ledger.said:
            one_step_of_messages(world, chance)
    come_to_rest(world)
    statuses = Counter(world.statuses(*KEYS))
    assert statuses == {Status.COMPLETED: 3, Status.FAILED: 1}
    assert world.run().used == {SIDE_EFFECTS: 3, EUR: 3 * 4_990}
    assert all(gate.reservations == () for _, gate in gates(world))
    check_agreement(world)


def one_step_of_messages(world: Crossing, chance: random.Random) -> None:
    """One message is delivered, kept for later, doubled or lost."""
    said = world.ledger.said
    said.rotate(chance.randrange(len(said)))
    fate = chance.random()
    if fate < 0.15:
        said.popleft()
    elif fate < 0.3:
        world.hears(said[0])
    else:
        world.hears(said.popleft())


@pytest.mark.parametrize("times", [2, 3])
def test_everything_said_twice_is_said_once(times: int) -> None:
    """A broker that delivers every message again changes nothing but the count of decisions."""
    once, often = Crossing(ROOMY), Crossing(ROOMY)
    often.holds_back = True
    for key in KEYS:
        once.proposes(key, run="r1")
        often.proposes(key, run="r1")
        while often.ledger.said:
            message = often.ledger.said.popleft()
            for _ in range(times):
                often.hears(message)
    assert once.statuses(*KEYS) == often.statuses(*KEYS)
    for one, other in ((once.run(), often.run()), (once.target(), often.target())):
        assert one.used == other.used
        assert once.held(one) == often.held(other)
        assert once.queued(one) == often.queued(other)
