"""Every history of a small world in which people are asked: a few people, several tables, a
provider that foresees or does not, and capacity for everything.

Breadth first over the real decide and evolve, with the laws of the world of executors and those of
S4: a start rests on the word of enough different people, each of whom may decide, about exactly
what was asked, and is in time. Reached is every cell of the table that comes with people.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pytest

from ledger.core import inputs as i
from ledger.core.config import Config
from ledger.core.decide import Decided, decide
from ledger.core.decide.schedule import due_at
from ledger.core.evolve import Place, evolve
from ledger.core.facts import AttemptStarted
from ledger.core.policy import Outcome
from ledger.core.preview import Change
from ledger.core.state import Action, Approval, Status, Stream
from ledger.core.statement import Say, SignedByKey, Statement
from ledger.core.transitions import ACCEPTED
from tests.examples import (
    CHARGE,
    EUR_49_90,
    SKEW_MS,
    STREAM,
    T0,
    cancel,
    decline,
    found_out,
    no_answer,
    offer,
    propose,
    refusal,
    report,
    tick,
)
from tests.examples_of_people import (
    ADA,
    BEN,
    CLEO,
    EVE,
    GENERATION,
    KEYS_OF,
    ask_again,
    foresees,
    people,
    table,
    under,
)
from tests.model.test_small_world import OF_OTHERS, check_future, check_step, relative

DEPTH = 7
STATES_MAX = 6_000
"""Of one depth: past it only states of other shapes are followed."""
REVOKED = people(ADA.model_copy(update={"revoked": True}), BEN, CLEO, EVE)
REGISTERED = people(ADA, BEN, CLEO, EVE)
PAIR = table("pair", quorum=2, escalate_after_ms=20_000, escalate_to=("managers",))
TABLES = {
    "pair": PAIR,
    "one": table(),
    "same": table(version=2),
    "free": table("free", Outcome.AUTOMATIC),
    "never": table("never", Outcome.DENY),
}
CONFIGS: dict[tuple[str, str, str], Config] = {
    (name, who, source): under(one, registered, preview=source)
    for name, one in TABLES.items()
    for who, registered in (("all", REGISTERED), ("revoked", REVOKED))
    for source in ("request", "provider")
}
PROOF = SignedByKey(jws="proven elsewhere")
MOVED = (Change(name="balance", was="10000", now="3"),)


@dataclass(frozen=True, slots=True)
class Node:
    """A stream at a moment of log time, under a configuration."""

    stream: Stream
    now: int
    offset: int
    config: tuple[str, str, str]


Step = tuple[i.Decidable, int, bool, tuple[str, str, str]]


def shape(action: Action, now: int) -> tuple[object, ...]:
    """What decides the future of what people are asked, with times as distances."""
    dry, asked = action.dry, action.approval
    return (
        *relative(action, now),
        action.policy_row,
        None if action.people_until is None else action.people_until - now,
        None if dry is None else (dry.failed, dry.code, dry.content is None, dry.answer_by is None),
        None
        if asked is None
        else (
            min(asked.round, 3),
            asked.ended,
            asked.expires_at - now,
            asked.escalate_at is None,
            asked.groups,
            tuple(grant.person for grant in asked.grants),
            tuple(one.person for one in asked.withdrawals),
        ),
    )


def said(asked: Approval, action: Action, name: str, decision: Say, now: int) -> i.Judged:
    """What somebody signs about what is asked now."""
    statement = Statement(
        ledger=GENERATION,
        decision=decision,
        approver=name,
        tenant="acme",
        environment="live",
        key=action.key,
        request_hash=action.request_hash,
        preview_hash=asked.preview_hash,
        policy_hash=asked.policy_hash,
        row=asked.row,
        nonce=asked.nonce,
        issued_at=now,
        expires_at=asked.expires_at,
    )
    return i.Judged(action.key, PROOF, now, GENERATION, statement, KEYS_OF[name].id)


def everything_sayable(action: Action | None, now: int) -> Iterator[i.Decidable]:
    """Every input that somebody could send, sensible or not."""
    yield propose()
    if action is None:
        return
    yield cancel()
    yield ask_again()
    if action.approval is not None:
        for name in ("ada", "ben", "cleo", "eve"):
            yield said(action.approval, action, name, Say.APPROVE, now)
        yield said(action.approval, action, "ada", Say.WITHDRAW, now)
        yield said(action.approval, action, "ben", Say.DENY, now)
    if action.dry is not None:
        yield foresees(action.dry.number)
        yield foresees(action.dry.number, foreseen=None)
    running = action.running
    if running is not None:
        holder, number = running.holder, running.number
        for outcome in (refusal(), no_answer()):
            yield report(outcome, attempt=number, holder=holder)
        back = decline(attempt=number, holder=holder)
        yield back
        yield back.model_copy(update={"changes": MOVED})
    yield found_out(i.Meaning.EFFECT, lookup=None, source="webhook:e", money=EUR_49_90)


def steps(node: Node) -> Iterator[Step]:
    """Every input now; ticks when something is due, with capacity and without; and another table,
    or somebody revoked, with the tick that follows.
    """
    action = node.stream.action(CHARGE)
    for word in everything_sayable(action, node.now):
        yield word, node.now, False, node.config
        if isinstance(word, i.Propose | i.Judged):
            yield word, node.now, True, node.config
    if action is None or action.is_final:
        return
    due = due_at(action, node.now, skew_ms=SKEW_MS)
    moments = {node.now, *(() if due is None else (max(node.now, due - 1), max(node.now, due)))}
    for moment in sorted(moments):
        yield tick(), moment, False, node.config
        yield tick(), moment, True, node.config
    name, who, source = node.config
    for other in TABLES:
        if other != name and len(action.attempts) < 2:
            yield tick(), node.now, True, (other, who, source)
    if who == "all":
        yield tick(), node.now, True, (name, "revoked", source)


def decided(node: Node, step: Step) -> Decided:
    """What the core decides; the next holder offers where one gave back."""
    word, now, capacity, config = step
    action = node.stream.action(CHARGE)
    holder = f"executor-{1 if action is None else action.declines + 1}"
    at = now - T0
    at_hand = offer(at=at, until=at + 1, incarnation=holder) if capacity else None
    return decide(node.stream, CONFIGS[config], word, Place(node.offset, now), at_hand)


def check_start(before: Action, start: AttemptStarted, now: int, config: Config) -> None:
    """S4, from the state before the start and the people and the table in force."""
    ruling = config.policy.rows[0]
    if before.counted_attempts == 0:
        assert ruling.outcome is not Outcome.DENY
        assert ruling.name == before.policy_row
        assert (ruling.asks is None) is (start.approval is None)
    if before.asks is None:
        assert start.approval is None
        return
    asked, shown = before.approval, start.approval
    assert asked is not None
    assert shown is not None
    assert asked.ended is None
    names = {grant.person for grant in asked.grants}
    assert len(names) >= before.asks.quorum
    assert len(names) == len(asked.grants) == len(shown.signed)
    for grant in asked.grants:
        person = config.people.signer(grant.key_id, now)
        assert person is not None
        assert person.name == grant.person
        assert set(person.groups) & set(asked.groups)
        assert not person.asks_as(before.request.principal)
        assert asked.requested_at <= grant.granted_at <= now
        assert now < min(grant.expires_at, asked.expires_at, shown.expires_at + 1)
    assert (shown.nonce, shown.preview_hash) == (asked.nonce, asked.preview_hash)
    assert before.dry is not None
    assert before.dry.content_hash == asked.preview_hash


@cache
def explore(source: str) -> tuple[frozenset[tuple[Status, str]], int]:
    """Walk breadth first; the accepted cells that were reached, and the number of states."""
    reached: set[tuple[Status, str]] = set()
    seen: set[tuple[object, ...]] = set()
    front = [Node(Stream(STREAM), T0, 0, (name, "all", source)) for name in ("pair", "one", "free")]
    for _ in range(DEPTH):
        following: list[Node] = []
        for node in front:
            for step in steps(node):
                after = walked(node, step, reached)
                if after is None:
                    continue
                action = after.stream.action(CHARGE)
                assert action is not None
                identity = (after.config, *shape(action, after.now))
                if identity not in seen and len(following) < STATES_MAX:
                    seen.add(identity)
                    following.append(after)
        front = following
    return frozenset(reached), len(seen)


def walked(node: Node, step: Step, reached: set[tuple[Status, str]]) -> Node | None:
    """One step from a node, checked; None where it changes nothing."""
    word, now, _, named = step
    config, before, stream = CONFIGS[named], node.stream.action(CHARGE), node.stream
    outcome = decided(node, step)
    for fact in outcome.facts:
        current = stream.action(CHARGE)
        if current is not None:
            reached.add((current.status, fact.type))
            if isinstance(fact, AttemptStarted):
                check_start(current, fact, now, config)
        stream = evolve(stream, fact, Place(node.offset, now))
    after = stream.action(CHARGE)
    if isinstance(word, i.Tick) and after is not None and not after.is_final:
        due = due_at(after, now, skew_ms=SKEW_MS)
        assert due is None or due > now, "a tick leaves nothing due"
    if not outcome.facts:
        return None
    assert after is not None
    check_step(before, after, outcome)
    check_future(after, now)
    if after.status is Status.READY and after.asks is not None:
        assert after.approval is not None
        assert after.approval.is_met
    if after.status is Status.AWAITING_APPROVAL:
        assert after.asks is not None
    return Node(stream, now, node.offset + 1, named)


@pytest.mark.law("S4")
@pytest.mark.law("S5")
@pytest.mark.law("S6")
@pytest.mark.parametrize("source", ["request", "provider"])
def test_every_short_history_keeps_the_laws(source: str) -> None:
    """No order of words, tables and times starts what people did not agree to, breaks the fold, or
    leaves an action waiting for nothing.
    """
    _, states = explore(source)
    assert states > 5_000


def test_every_cell_that_comes_with_people_is_led_to() -> None:
    """The table accepts nothing about people that decide cannot lead to; what they sign about cases
    has a world of its own.
    """
    reached = explore("request")[0] | explore("provider")[0]
    waiting = {cell for cell in ACCEPTED if cell[0] is Status.AWAITING_APPROVAL}
    asked = {cell for cell in ACCEPTED if cell[1].startswith(("policy.", "preview.", "approval."))}
    denied = {cell for cell in ACCEPTED if "denied" in (cell[0].value, cell[1].split(".")[1])}
    elsewhere = {Status.PROPOSED, Status.BLOCKED}
    unreached = {
        cell
        for cell in ACCEPTED
        if cell[0] in elsewhere or cell[1].startswith((*OF_OTHERS, "review.resolved"))
    }
    assert (waiting | asked | denied) - unreached - reached == set()
