"""Histories of a small world in which an action, what revises it and what undoes it share a target:
in any order, with every outcome, while messages come late, twice or never.

Breadth first over the real decide and evolve to the depth that is stated, and in long walks by
chance beyond it. In no state are two of them at work at once; nothing revised starts any more, a
revision starts when the earlier one surely has no effect, and nothing is undone that was not done.
"""

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Final

import pytest

from ledger.core import inputs as i
from ledger.core.decide import decide
from ledger.core.evolve import Place
from ledger.core.facts import AnyFact, AttemptStarted
from ledger.core.ids import GateKind, gate_key
from ledger.core.offers import Offer
from ledger.core.state import FINAL, Action, Status, Stream
from ledger.core.transitions import ACCEPTED
from tests import asking
from tests.examples import (
    NOTE,
    STREAM,
    T0,
    cancel,
    found_out,
    no_answer,
    offer,
    propose,
    refusal,
    report,
    request,
    success,
    tick,
)
from tests.model.test_small_world import relative
from tests.model.test_small_world_of_gates import Node, Step, due_of
from tests.unit.core.beside import GENERATION, world

DEPTH = 4
WALKS, STEPS = 120, 45
REST_STEPS_MAX = 160
AGAIN: Final = f"{NOTE}~2"
UNDO: Final = NOTE.replace("note", "email")
KEYS: Final = (NOTE, AGAIN, UNDO)
GATE: Final = gate_key("acme", GateKind.TARGET, request(NOTE).target or "")
CONFIG: Final = world(
    asking.policy(
        '[[row]]\nname = "gated"\noutcome = "automatic"\nreason = "One at a time."\n'
        "block_target = true\n"
    )
)


def proposals() -> Iterator[i.Propose]:
    """What the agent may ask for: the note, the same otherwise, and the correction that undoes
    it.
    """
    yield propose(NOTE)
    changed = request(NOTE, text="other")
    yield propose(AGAIN, request=changed, revises=NOTE)
    yield propose(UNDO, compensates=NOTE)


def steps(node: Node) -> Iterator[Step]:
    """Every message once or twice, every word about an action, and every timer."""
    for place, message in enumerate(node.said):
        rest = (*node.said[:place], *node.said[place + 1 :])
        yield Step(message, node.now, rest)
        yield Step(message, node.now, node.said)
    for said in proposals():
        if node.action(said.key) is None:
            yield Step(said, node.now, node.said)
    for key in KEYS:
        action = node.action(key)
        if action is not None:
            for word in _words(action, node.now):
                yield Step(word, node.now, node.said)
    for stream in node.streams:
        due = due_of(stream, node.now)
        if due is not None:
            for left in (node.said, ()) if node.said else ((),):
                yield Step(tick(stream.key), max(due, node.now), left)
    if node.action(NOTE) is not None:
        yield Step(tick(STREAM), node.now, node.said)


def _answers(action: Action | None) -> Iterator[i.Evidence]:
    """What the provider says of an action that it is asked about."""
    if action is not None and action.lookup is not None:
        number = action.lookup.number
        yield found_out(i.Meaning.ABSENT, key=action.key, lookup=number, source=f"lookup:{number}")


def _words(action: Action, now: int) -> Iterator[i.Decidable]:
    key, running, asked = action.key, action.running, action.approval
    if not action.is_final:
        yield cancel(key)
    if running is not None:
        for outcome in (success(f"of {key}"), refusal("never", i.Retry.NEVER), no_answer()):
            yield report(outcome, key=key, attempt=running.number, holder=running.holder)
    if action.attempts and not action.sources:
        yield found_out(
            i.Meaning.EFFECT, key=key, lookup=None, source="webhook:e", reference=f"of {key}"
        )
    yield from _answers(action)
    if action.status is Status.AWAITING_APPROVAL and asked is not None and asked.ended is None:
        said = asking.statement(action, "ada", ledger=GENERATION, at=now)
        yield asking.judged(asking.judge(said), CONFIG.people, at=now, ledger=GENERATION)


def walked(node: Node, step: Step, reached: set[tuple[Status, str]]) -> Node | None:
    """One step from a node, checked; None where it changes nothing."""
    key, now = i.stream_of_input(step.given), step.now
    before = node.stream(key)
    decided = decide(before, CONFIG, step.given, Place(node.offset, now), _capacity(node, step))
    for stream, action, fact in node.facts(step, decided):
        reached.add((action.status, fact.type))
        check_fact(stream, action, fact)
    after = node.after(step, decided)
    if after is not None:
        check(after)
    return after


def _capacity(node: Node, step: Step) -> Offer:
    """Capacity for whichever of them is next."""
    named = getattr(step.given, "key", None)
    ready = [one.key for one in node.stream(STREAM).actions if one.status is Status.READY]
    key = named or next(iter(ready), NOTE)
    return offer(at=step.now - T0, until=step.now - T0 + 1, key=key)


def check_fact(stream: Stream, action: Action, fact: AnyFact) -> None:
    """Who starts may: nothing revised, no revision beside what may have its effect, and nothing
    that undoes what is not done.
    """
    if not isinstance(fact, AttemptStarted):
        return
    original = stream.action(NOTE)
    assert original is not None
    assert action.revised_by is None
    if action.key == AGAIN:
        assert not original.is_open
        assert action.approval is not None
        assert action.approval.is_met
    if action.key == UNDO:
        assert original.status is Status.COMPLETED
    held = {claim.gate for claim in action.claims if claim.grant is not None and claim.is_held}
    assert GATE in held


def check(node: Node) -> None:
    """The laws of one state."""
    actions = [one for key in KEYS if (one := node.action(key)) is not None]
    assert sum(one.is_open for one in actions) <= 1
    gate = node.stream(GATE).gate
    if gate is not None:
        holders = [one for one in gate.granted if not one.forced]
        assert len({one.action for one in holders if not one.over}) <= 1
        assert holders or not any(gate.queue) or any(gate.granted)


@cache
def explore() -> tuple[frozenset[tuple[Status, str]], int]:
    """Walk breadth first from where the original has been asked for."""
    reached: set[tuple[Status, str]] = set()
    first = walked(Node((), T0, 0), Step(propose(NOTE), T0, ()), reached)
    assert first is not None
    seen: set[tuple[object, ...]] = set()
    front = [first]
    for _ in range(DEPTH):
        following: list[Node] = []
        for node in front:
            for step in steps(node):
                after = walked(node, step, reached)
                if after is not None and (identity := _shape(after)) not in seen:
                    seen.add(identity)
                    following.append(after)
        front = following
    return frozenset(reached), len(seen)


def _shape(node: Node) -> tuple[object, ...]:
    gate = node.stream(GATE).gate
    return (
        *(
            None
            if (one := node.action(key)) is None
            else (*relative(one, node.now), repr(one.claims), one.blocked, one.wait_until)
            for key in KEYS
        ),
        None if gate is None else (gate.next_grant, repr(gate.reservations)),
        node.now,
        tuple(sorted(map(repr, node.said))),
    )


@pytest.mark.law("S12")
@pytest.mark.law("S19")
def test_every_short_history_of_an_action_its_revision_and_its_undoing_keeps_the_laws() -> None:
    """No order of words and messages has two at work on one target."""
    reached, states = explore()
    assert states > 500
    assert reached <= ACCEPTED


@pytest.mark.law("S12")
@pytest.mark.law("S19")
def test_long_histories_of_them_come_to_rest() -> None:
    """However it went, in the end each has ended or has a person, and nothing is held for what has
    ended.
    """
    ended: set[tuple[str, str]] = set()
    for seed in range(WALKS):
        chance, cells = random.Random(f"orders {seed}"), set[tuple[Status, str]]()
        node = walked(Node((), T0, 0), Step(propose(NOTE), T0, ()), cells)
        assert node is not None
        for _ in range(STEPS):
            node = walked(node, chance.choice(list(steps(node))), cells) or node
        node = _comes_to_rest(node)
        for key in KEYS:
            action = node.action(key)
            if action is not None:
                assert action.status in {*FINAL, Status.NEEDS_REVIEW, Status.BLOCKED}
                ended.add((key, str(action.status)))
        assert cells <= ACCEPTED
    assert {(UNDO, "completed"), (AGAIN, "completed"), (NOTE, "superseded")} <= ended


def _comes_to_rest(node: Node) -> Node:
    """Deliver everything, then let the provider answer and time go by, until nothing is due."""
    for _ in range(REST_STEPS_MAX):
        due = {one.key: when for one in node.streams if (when := due_of(one, node.now)) is not None}
        if node.said:
            step = Step(node.said[0], node.now, node.said[1:])
        elif answers := [word for key in KEYS for word in _answers(node.action(key))]:
            step = Step(answers[0], node.now, ())
        elif due:
            key = min(due, key=due.__getitem__)
            step = Step(tick(key), max(node.now, due[key]), ())
        else:
            return node
        after = walked(node, step, set())
        node = replace(node, now=step.now, said=step.left) if after is None else after
    raise AssertionError(f"never at rest: {node}")
