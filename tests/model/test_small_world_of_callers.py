"""Every history of a small world in which the caller carries the action out itself: two calls that
offer, report, or are never heard of again, beside executors that have capacity for everything.

Breadth first over the real decide and evolve, with the laws of the world of executors and two more:
only a call that offered is ever started, and what a caller says is no effect is believed only where
the operation says so.
"""

from collections.abc import Iterator
from functools import cache

import pytest

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.decide import Decided, decide
from ledger.core.decide.schedule import due_at
from ledger.core.evolve import Place, evolve
from ledger.core.facts import ActionFailed, AttemptStarted
from ledger.core.offers import Offer, is_caller, offer_of_caller
from ledger.core.state import Action, AttemptStatus, Status, Stream
from tests.examples import (
    CONFIG,
    KEYS,
    SKEW_MS,
    STREAM,
    T0,
    cancel,
    found_out,
    no_answer,
    not_sent,
    offer,
    operation_of,
    propose,
    refusal,
    report,
    success,
    tick,
)
from tests.model.test_small_world import (
    HALF_MS,
    Node,
    check_future,
    check_step,
    relative,
)

DEPTH = 6
NONCES = ("first", "second")
SAID = (
    success(),
    refusal(),
    refusal("never", i.Retry.NEVER),
    not_sent(),
    no_answer(),
)


def config(*, attests: bool) -> Config:
    """The shared catalogue, its operations carried out by their callers."""
    changes = {"performer": "caller", "caller_attests_no_effect": attests}
    known = CONFIG.catalogue
    operations = tuple(one.model_copy(update=changes) for one in known.operations)
    return Config(Catalogue(operations, known.content_hash, known.timing), known.content_hash)


def offers(nonce: str) -> i.CallerOffer:
    """A call offers itself."""
    return i.CallerOffer(nonce=nonce, valid_ms=1_000)


def everything_sayable(key: str, action: Action | None) -> Iterator[i.Decidable]:
    """Every input that somebody could send, sensible or not."""
    for nonce in NONCES:
        yield propose(key, caller=offers(nonce))
    yield propose(key)
    yield cancel(key)
    if action is None:
        return
    for attempt in action.attempts[-2:]:
        for nonce in NONCES:
            for outcome in SAID:
                yield i.CallerReport(
                    key=key,
                    principal="agent:billing",
                    attempt=attempt.number,
                    fencing_token=attempt.fencing_token,
                    nonce=nonce,
                    outcome=outcome,
                )
        yield report(success(), key=key, attempt=attempt.number, holder=attempt.holder)
    if action.lookups_asked:
        for meaning in (i.Meaning.EFFECT, i.Meaning.ABSENT, i.Meaning.PENDING):
            yield found_out(meaning, key=key, lookup=action.lookups_asked)
    yield found_out(i.Meaning.EFFECT, key=key, lookup=None, source="webhook:e")


def steps(node: Node, key: str) -> Iterator[tuple[i.Decidable, int, Offer | None]]:
    """Every input now, proposals in time and too late; and ticks when something is due, each with
    an executor's capacity at hand.
    """
    action = node.stream.action(key)
    name = operation_of(key).name
    for said in everything_sayable(key, action):
        yield said, node.now, None
        if isinstance(said, i.Propose) and said.caller is not None:
            yield said, node.now, offer_of_caller(said.caller, name, node.now)
    moments = {node.now, node.now + HALF_MS}
    if action is not None and not action.is_final:
        due = due_at(action, node.now, skew_ms=SKEW_MS)
        if due is not None:
            moments |= {max(node.now, due - 1), max(node.now, due)}
    for moment in sorted(moments):
        yield tick(), moment, offer(at=moment - T0, until=moment - T0 + 1, key=key)


def check_callers(
    said: i.Decidable, before: Action | None, outcome: Decided, *, attests: bool
) -> None:
    """Only the call that offered is started; and no word of a caller alone makes an action fail,
    unless the operation believes it.
    """
    for fact in outcome.facts:
        if isinstance(fact, AttemptStarted):
            assert isinstance(said, i.Propose)
            assert said.caller is not None
            assert fact.holder == f"caller:{said.caller.nonce}"
            assert is_caller(fact.holder)
    if isinstance(said, i.CallerReport):
        assert before is not None
        attempt = before.attempts[said.attempt - 1]
        if attempt.holder != f"caller:{said.nonce}":
            assert outcome.facts == ()
        if not attests:
            assert not any(isinstance(fact, ActionFailed) for fact in outcome.facts)
    if isinstance(said, i.Report):
        assert outcome.facts == ()


@cache
def explore(key: str, *, attests: bool) -> tuple[int, frozenset[Status], int]:
    """Walk breadth first: how many states, which statuses, and the most attempts of one action."""
    rules = config(attests=attests)
    seen: set[tuple[object, ...]] = set()
    statuses: set[Status] = set()
    most = 0
    front = [Node(Stream(STREAM), T0, 0)]
    for _ in range(DEPTH):
        following: list[Node] = []
        for node in front:
            before = node.stream.action(key)
            for said, now, at_hand in steps(node, key):
                place = Place(node.offset, now)
                outcome = decide(node.stream, rules, said, place, at_hand)
                check_callers(said, before, outcome, attests=attests)
                if not outcome.facts:
                    continue
                stream = node.stream
                for fact in outcome.facts:
                    stream = evolve(stream, fact, place)
                action = stream.action(key)
                assert action is not None
                check_step(before, action, outcome)
                check_future(action, now)
                statuses.add(action.status)
                most = max(most, action.counted_attempts)
                identity = relative(action, now)
                if identity not in seen:
                    seen.add(identity)
                    following.append(Node(stream, now, node.offset + 1))
        front = following
    return len(seen), frozenset(statuses), most


@pytest.mark.parametrize("attests", [False, True], ids=["word", "proof"])
@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.split(":")[0])
def test_every_short_history_of_callers_keeps_the_laws(key: str, *, attests: bool) -> None:
    """Whatever calls, executors, providers and time do, in whatever order."""
    states, statuses, _ = explore(key, attests=attests)
    assert states > 30
    assert {Status.READY, Status.ATTEMPTING, Status.COMPLETED} <= statuses


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.split(":")[0])
def test_a_caller_gets_as_many_attempts_as_its_class_allows(key: str) -> None:
    """One where nobody can tell, a second after an absence where the operation opts in, more where
    the provider keeps the key or the reference.
    """
    _, _, most = explore(key, attests=True)
    operation = operation_of(key)
    repeats = operation.reliability in {"keyed", "reference"}
    opted_in = operation.second_attempt_after_absence
    assert most == 1 if not (repeats or opted_in) else most >= (2 if repeats else 1)


def test_an_attempt_of_a_caller_is_never_declined() -> None:
    """Giving a start back is an executor's word; a caller that did not act says so, or nothing."""
    rules = config(attests=True)
    key = KEYS[0]
    node = Node(Stream(STREAM), T0, 0)
    said = propose(key, caller=offers("first"))
    at_hand = offer_of_caller(offers("first"), operation_of(key).name, T0)
    started = decide(node.stream, rules, said, Place(0, T0), at_hand)
    stream = node.stream
    for fact in started.facts:
        stream = evolve(stream, fact, Place(0, T0))
    action = stream.action(key)
    assert action is not None
    given_back = i.Decline(
        key=key,
        attempt=1,
        fencing_token=1,
        holder=action.attempts[0].holder,
        code="shutdown",
    )
    refused = decide(stream, rules, given_back, Place(1, T0)).refused
    assert refused is not None
    assert action.attempts[0].status is AttemptStatus.RUNNING
