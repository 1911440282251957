"""The acceptance rule in every small world: two owners of one partition, crashes, late batches.

Breadth first over all interleavings. Owners fold the log with the rule under test, open an epoch,
decide the inputs 0, 1, 2 … from the position that the accepted log shows, two batches on the way at
a time; an owner may give up a producer and decide again in its epoch. What a crashed owner or a
given-up producer had sent lands at any later time, in its order, or is lost with all behind it. The
law: accepted causes are exactly 0, 1, 2 …, each once.
"""

from collections import deque
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import pytest

from ledger.core.records import Cause, Decision, EpochOpened, Verdict, accept

LOG_MAX, INPUTS, CRASHES_MAX, SENT_MAX = 6, 2, 1, 2
STATES_MAX = 2_000_000


class Sent(NamedTuple):
    """One record as written: a barrier has no cause."""

    epoch: int
    at: int
    cause: int | None


Rule = Callable[[int, int, Sent], bool]


@cache
def real(epoch: int, offset: int, sent: Sent) -> bool:
    """The product's own rule."""
    if sent.cause is None:
        barrier = EpochOpened(at=sent.at, epoch=sent.epoch, nonce="n")
        return accept(epoch, offset, barrier) is Verdict.ACCEPTED
    decision = Decision(
        at=sent.at,
        epoch=sent.epoch,
        cause=Cause(topic="intents", partition=0, offset=sent.cause),
        decided_at=0,
        stream="",
    )
    return accept(epoch, offset, decision) is Verdict.ACCEPTED


def without_place(epoch: int, _offset: int, sent: Sent) -> bool:
    """The rule with its second half left out."""
    return sent.epoch == epoch + 1 if sent.cause is None else sent.epoch == epoch


def without_anything(_epoch: int, _offset: int, _sent: Sent) -> bool:
    """Everything counts."""
    return True


@cache
def _text(part: object) -> str:
    """An order for what has none of its own."""
    return repr(part)


class Owner(NamedTuple):
    """What one owner believes. `sent` is on the way, `acked` landed and not looked at."""

    phase: str = "idle"
    epoch: int = 0
    at: int = 0
    cause: int = 0
    sent: tuple[Sent, ...] = ()
    acked: tuple[tuple[Sent, int], ...] = ()


class World(NamedTuple):
    """The log, two owners, and batches whose owner is gone."""

    log: tuple[Sent, ...] = ()
    owners: tuple[Owner, Owner] = (Owner(), Owner())
    late: tuple[tuple[Sent, ...], ...] = ()
    crashes: int = 0

    def canonical(self) -> "World":
        """The same world under one name: owners are alike, and late batches have no order."""
        first, second = sorted(self.owners, key=_text)
        return self._replace(owners=(first, second), late=tuple(sorted(self.late, key=_text)))

    def with_owner(self, number: int, owner: Owner) -> "World":
        """The same world with another owner in a place."""
        pair = (owner, self.owners[1]) if number == 0 else (self.owners[0], owner)
        return self._replace(owners=pair)


def fold(log: tuple[Sent, ...], rule: Rule) -> tuple[int, tuple[int, ...]]:
    """The epoch and the accepted causes."""
    epoch, causes = 0, []
    for offset, sent in enumerate(log):
        if rule(epoch, offset, sent):
            if sent.cause is None:
                epoch = sent.epoch
            else:
                causes.append(sent.cause)
    return epoch, tuple(causes)


def next_worlds(world: World, rule: Rule) -> Iterator[World]:
    """Every single step that something could take."""
    for number, owner in enumerate(world.owners):
        yield from _steps_of(world, number, owner, rule)
    for place, batch in enumerate(world.late):
        others = world.late[:place] + world.late[place + 1 :]
        rest = (batch[1:],) if len(batch) > 1 else ()
        if len(world.log) < LOG_MAX:
            yield world._replace(log=(*world.log, batch[0]), late=others + rest)
        yield world._replace(late=others)


def _steps_of(world: World, number: int, owner: Owner, rule: Rule) -> Iterator[World]:
    if owner.phase == "idle":
        if len(world.log) < LOG_MAX:
            epoch, _ = fold(world.log, rule)
            barrier = Sent(epoch + 1, len(world.log), None)
            opening = Owner("opening", epoch + 1, len(world.log), 0, (barrier,))
            yield world.with_owner(number, opening)
        return
    if owner.phase == "active" and owner.cause < INPUTS and len(owner.sent) < SENT_MAX:
        sent = Sent(owner.epoch, owner.at, owner.cause)
        yield world.with_owner(
            number,
            owner._replace(at=owner.at + 1, cause=owner.cause + 1, sent=(*owner.sent, sent)),
        )
    if owner.sent and len(world.log) < LOG_MAX:
        landed = (*owner.acked, (owner.sent[0], len(world.log)))
        grown = world._replace(log=(*world.log, owner.sent[0]))
        yield grown.with_owner(number, owner._replace(sent=owner.sent[1:], acked=landed))
    if owner.acked:
        after = _after_ack(world, owner, rule)
        late = (*world.late, owner.sent) if owner.sent and not after.sent else world.late
        yield world._replace(late=late).with_owner(number, after)
    may_fail = world.crashes < CRASHES_MAX
    if may_fail and owner.phase == "active" and owner.sent and not owner.acked:
        epoch, causes = fold(world.log, rule)
        if epoch == owner.epoch:
            anew = Owner("active", epoch, len(world.log), len(causes))
            late = (*world.late, owner.sent)
            given_up = world._replace(late=late, crashes=world.crashes + 1)
            yield given_up.with_owner(number, anew)
    if may_fail:
        late = (*world.late, owner.sent) if owner.sent else world.late
        gone = world._replace(late=late, crashes=world.crashes + 1)
        yield gone.with_owner(number, Owner())


def _after_ack(world: World, owner: Owner, rule: Rule) -> Owner:
    """Look at one acknowledgement. A barrier in the wrong place ends the owner; a decision makes it
    read on and decide again in the same epoch, once nothing of its own is on the way.
    """
    (sent, offset), rest = owner.acked[0], owner.acked[1:]
    if offset != sent.at:
        epoch, causes = fold(world.log, rule)
        if sent.cause is None or epoch != owner.epoch or owner.sent or rest:
            return Owner()
        return Owner("active", epoch, len(world.log), len(causes))
    if sent.cause is not None:
        return owner._replace(acked=rest)
    _, causes = fold(world.log[: offset + 1], rule)
    return Owner("active", owner.epoch, offset + 1, len(causes), owner.sent, rest)


def first_violation(rule: Rule) -> tuple[Sent, ...] | None:
    """The first log, breadth first, in which an input is skipped or decided twice; None if there is
    none.
    """
    seen = {World()}
    waiting = deque(seen)
    while waiting:
        world = waiting.popleft()
        _, causes = fold(world.log, rule)
        if causes != tuple(range(len(causes))):
            return world.log
        for step in next_worlds(world, rule):
            following = step.canonical()
            if following not in seen:
                seen.add(following)
                waiting.append(following)
        assert len(seen) < STATES_MAX
    return None


def test_no_interleaving_of_two_owners_skips_or_repeats_an_input() -> None:
    """The product's rule holds in every reachable world up to the bounds above."""
    assert first_violation(real) is None


@pytest.mark.parametrize("rule", [without_place, without_anything])
def test_a_weaker_rule_is_caught(rule: Rule) -> None:
    """Leave the place out, or everything, and some interleaving breaks the law."""
    assert first_violation(rule) is not None
