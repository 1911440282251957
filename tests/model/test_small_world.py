"""Every history of a small world: one action of each class, every input that anybody could send, in
every order, up to a depth; checked after each step against laws that need no provider.

Breadth first over the real decide and evolve. States that differ only in when they happened are one
state, so the depth covers far more histories than it has steps.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from ledger.core import inputs as i
from ledger.core.decide import Decided, decide
from ledger.core.decide.schedule import awaits_offer, due_at
from ledger.core.evolve import Place, evolve
from ledger.core.facts import AttemptStarted
from ledger.core.state import FINAL, OPEN, Action, AttemptStatus, Status, Stream
from ledger.core.transitions import ACCEPTED
from tests.examples import (
    CONFIG,
    EUR_499,
    KEYS,
    SKEW_MS,
    STREAM,
    T0,
    cancel,
    decline,
    found_out,
    no_answer,
    not_sent,
    offer,
    operation_of,
    propose,
    refusal,
    report,
    request,
    success,
    tick,
)

DEPTH = 6
HALF_MS = 500
UNREACHED_STATUSES = frozenset(
    {
        Status.PROPOSED,
        Status.AWAITING_APPROVAL,
        Status.BLOCKED,
        Status.DENIED,
        Status.SUPERSEDED,
    }
)
"""Declared in the table, and stayed in by nothing where nobody is asked."""
OF_PEOPLE = (
    "policy.decided",
    "approval.withdrawn",
    "approval.ended",
    "action.denied",
    "review.resolved",
)
"""What befalls an action only by the word of people: that world has its own tests."""

OF_OTHERS = ("gate.", "action.blocked", "action.superseded")
"""What comes with gates and with other actions of its stream: worlds of their own, too."""


@dataclass(frozen=True, slots=True)
class Node:
    """A stream at a moment of log time."""

    stream: Stream
    now: int
    offset: int


def relative(action: Action, now: int) -> tuple[object, ...]:
    """What decides an action's future, with times as distances: equal for states that are one."""
    return (
        action.status,
        action.review,
        action.step_deadline_at - now,
        tuple(
            (one.status, one.holder, one.lease_until - now, one.started_at - now)
            for one in action.attempts
        ),
        None if action.timer is None else (action.timer.purpose, action.timer.due_at - now),
        None
        if action.lookup is None
        else (action.lookup.attempts_upto, action.lookup.asked_at - now),
        (action.lookups_asked - action.lookups_answered, action.lookups_answered),
        action.reference,
        len(action.sources),
    )


def everything_sayable(key: str, action: Action | None) -> Iterator[i.Decidable]:
    """Every input that somebody could send about an action, sensible or not."""
    yield propose(key)
    yield propose(key, request=request(key, text="other"))
    yield cancel(key)
    if action is None:
        return
    for attempt in action.attempts[-2:]:
        holder, number = attempt.holder, attempt.number
        for outcome in (
            success(),
            refusal(),
            refusal("never", i.Retry.NEVER),
            not_sent(),
            no_answer(),
        ):
            yield report(outcome, key=key, attempt=number, holder=holder)
        yield decline(key=key, attempt=number, holder=holder)
    if action.lookups_asked:
        for meaning in (i.Meaning.EFFECT, i.Meaning.ABSENT, i.Meaning.PENDING):
            yield found_out(meaning, key=key, lookup=action.lookups_asked)
    for meaning, name in ((i.Meaning.EFFECT, "e"), (i.Meaning.NO_EFFECT, "n")):
        yield found_out(meaning, key=key, lookup=None, source=f"webhook:{name}")
    other_money = found_out(i.Meaning.EFFECT, key=key, lookup=None, source="webhook:m")
    yield other_money.model_copy(update={"money": EUR_499})


def steps(node: Node, key: str) -> Iterator[tuple[i.Decidable, int, bool]]:
    """Every input now; and ticks now, half a second on, and when something is due; each with an
    executor's capacity at hand and without.
    """
    action = node.stream.action(key)
    for said in everything_sayable(key, action):
        yield said, node.now, False
        if isinstance(said, i.Propose):
            yield said, node.now, True
    moments = {node.now, node.now + HALF_MS}
    if action is not None and not action.is_final:
        due = due_at(action, node.now, skew_ms=SKEW_MS)
        if due is not None:
            moments |= {max(node.now, due - 1), max(node.now, due)}
    for moment in sorted(moments):
        yield tick(), moment, False
        yield tick(), moment, True


def decided(node: Node, said: i.Decidable, now: int, key: str, *, capacity: bool) -> Decided:
    """What the core decides; the second holder offers where the first gave back."""
    action = node.stream.action(key)
    declines = 0 if action is None else action.declines
    holder = f"executor-{declines + 1}"
    at_hand = None
    if capacity:
        at_hand = offer(at=now - T0, until=now - T0 + 1, key=key, incarnation=holder)
    return decide(node.stream, CONFIG, said, Place(node.offset, now), at_hand)


def check_step(before: Action | None, after: Action, facts: Decided) -> None:
    """The laws of one step."""
    if before is not None:
        assert not before.is_final or after.status is before.status
        for old, new in zip(before.attempts, after.attempts, strict=False):
            assert old.status in OPEN or new == old, "an outcome was overwritten"
            assert (old.provider_key, old.holder) == (new.provider_key, new.holder)
    if after.status in FINAL - {Status.COMPLETED}:
        assert not after.is_open
    if after.status in {Status.READY, Status.PROPOSED}:
        assert not after.is_open
    if after.is_open:
        assert after.status in {
            Status.ATTEMPTING,
            Status.UNKNOWN,
            Status.NEEDS_REVIEW,
            Status.COMPLETED,
        }
    for fact in facts.facts:
        if isinstance(fact, AttemptStarted) and before is not None:
            check_start(before, after, fact)


def check_start(before: Action, after: Action, start: AttemptStarted) -> None:
    """The laws of a start that follows others: same key, one at a time, and only where the class of
    the provider makes it safe.
    """
    assert before.running is None
    assert len({attempt.provider_key for attempt in after.attempts}) == 1
    tokens = [attempt.fencing_token for attempt in after.attempts]
    assert tokens == sorted(set(tokens))
    earlier = [one for one in after.attempts[:-1] if one.status is not AttemptStatus.DECLINED]
    if not earlier:
        return
    operation = operation_of(after.key)
    match after.reliability:
        case "keyed":
            assert start.key_expires_at is not None
            assert after.attempts[-1].started_at < start.key_expires_at
        case "reference":
            pass
        case "lookup":
            assert operation.second_attempt_after_absence
            assert len(earlier) == 1
            assert not before.is_open
        case "none":
            raise AssertionError("a second attempt where one is all there may be")


def check_future(action: Action, now: int) -> None:
    """Nothing waits for nobody: what is neither final nor with a person is due sometime."""
    if not action.is_final and action.status is not Status.NEEDS_REVIEW:
        assert due_at(action, now, skew_ms=SKEW_MS) is not None, (
            f"{action.status} waits for nothing"
        )


def check_tick(before: Action, after: Action, now: int, *, capacity: bool) -> None:
    """A tick is never idle: capacity that is waited for is used, and what was due is done, so that
    no stream is ticked for ever.
    """
    if capacity and awaits_offer(before, now) and not before.is_final:
        assert after.version > before.version
    if not after.is_final:
        due = due_at(after, now, skew_ms=SKEW_MS)
        assert due is None or due > now


@cache
def explore(key: str) -> tuple[frozenset[tuple[Status, str]], int]:
    """Walk breadth first; the accepted cells that were reached, and the number of states."""
    reached: set[tuple[Status, str]] = set()
    seen: set[tuple[object, ...]] = set()
    front = [Node(Stream(STREAM), T0, 0)]
    for _ in range(DEPTH):
        following: list[Node] = []
        for node in front:
            for said, now, capacity in steps(node, key):
                after = walked(node, said, now, key, reached, capacity=capacity)
                if after is None:
                    continue
                action = after.stream.action(key)
                assert action is not None
                identity = relative(action, now)
                if identity not in seen:
                    seen.add(identity)
                    following.append(after)
        front = following
    return frozenset(reached), len(seen)


def walked(
    node: Node,
    said: i.Decidable,
    now: int,
    key: str,
    reached: set[tuple[Status, str]],
    *,
    capacity: bool,
) -> Node | None:
    """One step from a node, checked; None where it changes nothing."""
    before, stream = node.stream.action(key), node.stream
    outcome = decided(node, said, now, key, capacity=capacity)
    for fact in outcome.facts:
        current = stream.action(key)
        if current is not None:
            reached.add((current.status, fact.type))
        stream = evolve(stream, fact, Place(node.offset, now))
    after = stream.action(key)
    if before is not None and after is not None and isinstance(said, i.Tick):
        check_tick(before, after, now, capacity=capacity)
    if not outcome.facts:
        return None
    assert after is not None
    check_step(before, after, outcome)
    check_future(after, now)
    return Node(stream, now, node.offset + 1)


@pytest.mark.law("S5")
@pytest.mark.law("S6")
@pytest.mark.law("S9")
@pytest.mark.parametrize("key", KEYS)
def test_every_short_history_keeps_the_laws(key: str) -> None:
    """No order of inputs breaks the fold, overwrites an outcome, ends what is open, starts what
    may not start, or leaves an action waiting for nothing.
    """
    _, states = explore(key)
    assert states > 400


def test_every_accepted_cell_is_led_to() -> None:
    """The table accepts nothing that decide cannot lead to, but for what comes with people, with
    gates and with other actions.
    """
    reached = frozenset[tuple[Status, str]]().union(*(explore(key)[0] for key in KEYS))
    declared = {
        (status, kind)
        for status, kind in ACCEPTED
        if status not in UNREACHED_STATUSES
        and kind not in OF_PEOPLE
        and not kind.startswith(OF_OTHERS)
    }
    assert declared - reached == set()
