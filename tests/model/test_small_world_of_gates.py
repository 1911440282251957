"""Every history of a small world in which two actions meet at one gate: they ask, are told, act,
give back and are taken back, while messages come late, twice or never, and time goes by.

Breadth first over the real decide and evolve, exhaustive to the depth that is stated, and in long
walks by chance beyond it. In every
state at most one of them has what the gate guards, no start comes before its grant, and what is
given back unspent can have no effect; once all is quiet nothing is left held or waiting.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import pytest

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide import decide
from ledger.core.decide.draft import Decided
from ledger.core.decide.schedule import due_at
from ledger.core.evolve import Place
from ledger.core.facts import AnyFact, AttemptStarted, GateClosing
from ledger.core.gates import Gate
from ledger.core.ids import GateKind, gate_key, stream_key_of
from ledger.core.records import Cause, Decision
from ledger.core.state import Action, Status, Stream
from ledger.core.transitions import ACCEPTED
from ledger.log.fold import fold_decision
from tests import asking
from tests.examples import (
    CONFIG,
    SKEW_MS,
    T0,
    cancel,
    found_out,
    no_answer,
    offer,
    propose,
    refusal,
    report,
    success,
    tick,
)
from tests.model.test_small_world import relative

DEPTH = 4
"""Steps after both have asked. Nothing is left out."""
WALKS, STEPS = 150, 40
"""So many histories by chance, and how long they are before all is quiet."""
QUIET_STEPS_MAX = 60
ONE, OTHER = (f"email:v1:acme:renewal-{number}" for number in (1, 2))
TARGET = "order:A-1842"
_ROW = """
[[row]]
name = "gated"
outcome = "automatic"
reason = "One at a time."
"""
_DAY = """
[[ceiling]]
name = "day"
per = "tenant"
window = "day"
side_effects = 1
"""
WORLDS: dict[str, tuple[Config, str]] = {
    "target": (
        replace(CONFIG, policy=asking.policy(f"{_ROW}block_target = true\n")),
        gate_key("acme", GateKind.TARGET, TARGET),
    ),
    "budget": (
        replace(CONFIG, policy=asking.policy(f'{_ROW}ceilings = ["day"]\n{_DAY}')),
        gate_key("acme", GateKind.WINDOW, "day:2027-01-15"),
    ),
}


@dataclass(frozen=True, slots=True)
class Node:
    """Two actions and a gate at a moment of log time, and what they have said and nobody has heard
    yet.
    """

    streams: tuple[Stream, ...]
    now: int
    offset: int
    said: tuple[i.Message, ...] = ()

    def stream(self, key: str) -> Stream:
        """A stream by its key, empty where nothing was decided about it."""
        return next((one for one in self.streams if one.key == key), Stream(key))

    def action(self, key: str) -> Action | None:
        """An action by its key."""
        return self.stream(stream_key_of(key)).action(key)

    def facts(self, step: "Step", decided: Decided) -> Iterator[tuple[Stream, Action, AnyFact]]:
        """Every fact about an action that is there, with its stream and itself before the fact."""
        decision = self._decision(step, decided)
        stream = self.stream(decision.stream)
        for fact in decided.facts:
            action = stream.action(fact.action)
            if action is not None:
                yield stream, action, fact
            alone = decision.model_copy(update={"facts": (fact,), "gate": None})
            stream = fold_decision(stream, alone)

    def after(self, step: "Step", decided: Decided) -> "Node | None":
        """The next moment; None where nothing changes."""
        decision = self._decision(step, decided)
        before = self.stream(decision.stream)
        stream = fold_decision(before, decision)
        others = (one for one in self.streams if one.key != before.key)
        said = tuple({repr(one): one for one in (*step.left, *decided.messages)}.values())
        if stream == before and said == self.said:
            return None
        return Node((*others, stream), step.now, self.offset + 1, said)

    def _decision(self, step: "Step", decided: Decided) -> Decision:
        return Decision(
            at=self.offset,
            epoch=1,
            cause=Cause(topic="internal", partition=0, offset=self.offset),
            decided_at=step.now,
            stream=i.stream_of_input(step.given),
            facts=decided.facts,
            gate=decided.gate or None,
        )


@dataclass(frozen=True, slots=True)
class Step:
    """What is decided next, when, and which messages are on their way without it."""

    given: i.Decidable
    now: int
    left: tuple[i.Message, ...]


def shape(node: Node, gate: str) -> tuple[object, ...]:
    """What decides the future, with times as distances."""
    actions = (node.action(ONE), node.action(OTHER))
    held = node.stream(gate).gate
    return (
        *(
            None if one is None else (*relative(one, node.now), _claims(one, node))
            for one in actions
        ),
        None if held is None else _held(held, node),
        tuple(sorted(map(repr, node.said))),
    )


def _claims(action: Action, node: Node) -> tuple[object, ...]:
    wait = None if action.wait_until is None else action.wait_until - node.now
    return wait, tuple(
        (one.round, one.status, one.grant, one.kept, one.spent, one.sends, one.sent_at - node.now)
        for one in action.claims
    )


def _held(gate: Gate, node: Node) -> tuple[object, ...]:
    return (
        tuple(sorted(gate.used.items())),
        gate.next_grant,
        tuple(
            (one.action, one.round, one.grant, one.kept, one.sends, one.sent_at - node.now)
            for one in gate.reservations
        ),
    )


def steps(node: Node, gate: str) -> Iterator[Step]:
    """Every message once or twice, every word about an action, and every timer."""
    for place, message in enumerate(node.said):
        rest = (*node.said[:place], *node.said[place + 1 :])
        yield Step(message, node.now, rest)
        yield Step(message, node.now, node.said)
    for key in (ONE, OTHER):
        action = node.action(key)
        if action is None:
            continue
        if not action.is_final:
            yield Step(cancel(key), node.now, node.said)
        running = action.running
        if running is not None:
            for outcome in (success(), refusal("never", i.Retry.NEVER), no_answer()):
                word = report(outcome, key=key, attempt=1, holder=running.holder)
                yield Step(word, node.now, node.said)
        if action.attempts and not action.sources:
            late = found_out(i.Meaning.EFFECT, key=key, lookup=None, source="webhook:e")
            yield Step(late, node.now, node.said)
    for stream in node.streams:
        due = due_of(stream, node.now)
        if due is not None:
            # By then whatever is on its way may have been lost.
            for left in (node.said, ()) if node.said else ((),):
                yield Step(tick(stream.key), max(due, node.now), left)


def due_of(stream: Stream, now: int) -> int | None:
    """When time alone next changes a stream."""
    times = [due_at(one, now, skew_ms=SKEW_MS) for one in stream.actions]
    times += [] if stream.gate is None else [stream.gate.due_at]
    return min((time for time in times if time is not None), default=None)


def walked(node: Node, step: Step, world: str, reached: set[tuple[Status, str]]) -> Node | None:
    """One step from a node, checked; None where it changes nothing."""
    config, gate = WORLDS[world]
    key = i.stream_of_input(step.given)
    before, now = node.stream(key), step.now
    at_hand = offer(at=now - T0, until=now - T0 + 1, key=ONE)
    decided = decide(before, config, step.given, Place(node.offset, now), at_hand)
    assert decided.refused is None or isinstance(step.given, i.Cancel)
    for _, action, fact in node.facts(step, decided):
        reached.add((action.status, fact.type))
        check_fact(node, action, fact, gate)
    after = node.after(step, decided)
    if after is not None:
        check(after, gate)
    return after


def check_fact(node: Node, action: Action, fact: object, gate: str) -> None:
    """No start without its grant, which the gate has given; nothing unspent that may be there."""
    if isinstance(fact, AttemptStarted):
        (claim,) = (one for one in action.claims if one.grant is not None and one.is_held)
        held = node.stream(gate).gate
        assert held is not None
        reserved = held.reservation(action.key, claim.round)
        assert reserved is not None
        assert reserved.grant == claim.grant
    if isinstance(fact, GateClosing) and fact.grant is not None and fact.sends == 1:
        assert fact.spent or not action.has_effect


def check(node: Node, gate: str) -> None:
    """The laws of one state."""
    held, actions = node.stream(gate).gate, (node.action(ONE), node.action(OTHER))
    at_work = [one.key for one in actions if one is not None and one.is_open]
    is_budget = "window" in gate
    done = [one.key for one in actions if one is not None and one.status is Status.COMPLETED]
    assert len(at_work) + (len(done) if is_budget else 0) <= 1
    if held is None:
        return
    assert sum(1 for _ in held.granted) + held.used.get("side_effects", 0) <= 1 or any(
        one.forced for one in held.granted
    )
    assert any(held.granted) or not any(held.queue), "somebody is let in, or nobody waits"
    if node.said or any(due_of(stream, node.now) is not None for stream in node.streams):
        return
    # Who has left a queue unheard is let in once, and gives it back.
    for one in held.granted:
        action = node.action(one.action)
        assert action is not None
        assert not action.is_final or action.case is not None, f"{one.action} has ended"
    if is_budget:
        assert held.used.get("side_effects", 0) == len(done)


@cache
def explore(world: str) -> tuple[frozenset[tuple[Status, str]], int, int]:
    """Walk breadth first; the cells that were reached, the states, and those in which all is
    quiet.
    """
    reached: set[tuple[Status, str]] = set()
    seen: set[tuple[object, ...]] = set()
    _, gate = WORLDS[world]
    front, quiet = [_both_have_asked(world, reached)], 0
    for _ in range(DEPTH):
        following: list[Node] = []
        for node in front:
            for step in steps(node, gate):
                after = walked(node, step, world, reached)
                if after is None:
                    continue
                identity = shape(after, gate)
                if identity not in seen:
                    seen.add(identity)
                    following.append(after)
                    quiet += not after.said
        front = following
    return frozenset(reached), len(seen), quiet


@pytest.mark.law("S19")
@pytest.mark.parametrize("world", WORLDS)
def test_long_histories_come_to_rest(world: str) -> None:
    """However it went, once messages arrive and time goes by nobody waits for a gate any more."""
    _, gate = WORLDS[world]
    ended: set[str] = set()
    for seed in range(WALKS):
        chance, cells = random.Random(f"{world} {seed}"), set[tuple[Status, str]]()
        node = _both_have_asked(world, cells)
        for _ in range(STEPS):
            some = list(steps(node, gate))
            node = (some and walked(node, chance.choice(some), world, cells)) or node
        node = _comes_to_rest(node, world)
        ended |= {str(action.status) for key in (ONE, OTHER) if (action := node.action(key))}
        assert cells <= ACCEPTED
    assert {"completed", "failed", "cancelled"} <= ended


def _comes_to_rest(node: Node, world: str) -> Node:
    """Deliver everything, then let time go by, until nothing is due."""
    for _ in range(QUIET_STEPS_MAX):
        if node.said:
            step = Step(node.said[0], node.now, node.said[1:])
        else:
            times = {one.key: due_of(one, node.now) for one in node.streams}
            due = {key: when for key, when in times.items() if when is not None}
            if not due:
                return node
            key = min(due, key=due.__getitem__)
            step = Step(tick(key), max(node.now, due[key]), ())
        after = walked(node, step, world, set())
        node = replace(node, now=step.now, said=step.left) if after is None else after
    raise AssertionError(f"never at rest: {node}")


def _both_have_asked(world: str, reached: set[tuple[Status, str]]) -> Node:
    node = Node((), T0, 0)
    for key in (ONE, OTHER):
        after = walked(node, Step(propose(key), T0, node.said), world, reached)
        assert after is not None
        node = after
    assert len(node.said) == 2
    return node


@pytest.mark.law("S19")
@pytest.mark.parametrize("world", WORLDS)
def test_every_short_history_of_two_actions_at_one_gate_keeps_the_laws(world: str) -> None:
    """No order, loss or repetition of messages, no cancellation and no outcome lets both through,
    starts what was not let in, or leaves a gate held for nobody.
    """
    _, states, quiet = explore(world)
    assert states > 1_000
    assert quiet > 50


def test_cells_of_gates_are_led_to() -> None:
    """What the table accepts of gates, two actions without people and policies lead to."""
    reached = frozenset[tuple[Status, str]]().union(*(explore(world)[0] for world in WORLDS))
    assert reached <= ACCEPTED
    wanted = {(Status.READY, "gate.asked"), (Status.BLOCKED, "gate.answered")}
    wanted |= {(status, "gate.closing") for status in (Status.COMPLETED, Status.FAILED)}
    wanted |= {(Status.CANCELLED, "gate.closing"), (Status.BLOCKED, "review.opened")}
    assert wanted <= reached
