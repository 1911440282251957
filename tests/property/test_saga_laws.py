"""Laws of sagas under everything that can be said about their actions, fitting or not: gates that
answer late or never, people who say no, evidence that contradicts, callers who give up.
"""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ledger.core import inputs as i
from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.decide.resolving import moves
from ledger.core.order import GIVEN_UP, has_something_to_undo
from ledger.core.policy import Policy
from ledger.core.records import Decision
from ledger.core.sagas import NO_EFFECT, Saga, SagaStatus, is_compensation, saga_of
from ledger.core.state import Action, AttemptStatus, Status
from ledger.core.statement import Move, Say
from tests import asking, ledgers
from tests import examples as x
from tests.examples_of_sagas import TRIP, cancel_trip, do, plan, step
from tests.ledgers import LedgerBuilder

SEEDS = 60
STEPS = 120
END_STEPS_MAX = 400
ITEMS = ("flight", "hotel", "car")
ADOPTED = 0.15
"""How often another table is adopted."""
HEARD = 0.25
"""How often anything is delivered meanwhile, so that gates are often asked under the one before."""
TABLES = (
    ledgers.ASKED.policy,
    asking.policy(asking.EVERYTHING_GOES_AHEAD),
    asking.policy(asking.asked("charge", valid_ms=30_000) + asking.EVERYTHING_GOES_AHEAD),
)


def config() -> Config:
    """Charges pass gates and are undone by payouts, about which people are asked."""
    asked = ledgers.ASKED
    operations = tuple(
        one.model_copy(update={"compensation": "payout"}) for one in asked.catalogue.operations
    )
    catalogue = Catalogue(operations, asked.catalogue.content_hash, asked.catalogue.timing)
    return replace(asked, catalogue=catalogue)


def trip(builder: LedgerBuilder) -> Saga:
    """The saga as it stands."""
    saga = saga_of(builder.streams[x.STREAM], TRIP)
    assert saga is not None
    return saga


def check(saga: Saga, decision: Decision) -> None:
    """What may never happen, whatever was said."""
    for fact in decision.facts:
        if fact.type == "attempt.started" and fact.attempt == 1:
            action = next((one for one in saga.actions if one.key == fact.action), None)
            if action is not None and action.saga is not None:
                place = action.saga.step
                (_undo_begins if is_compensation(action) else _step_begins)(saga, place)
    for one in saga.steps:
        undo = one.compensation
        if undo is not None and undo.attempts:
            assert one.action.status is Status.COMPLETED or one.action.review is not None


def _asks_of_the_past(builder: LedgerBuilder, decision: Decision) -> list[str]:
    """Ceilings that gates are asked about, by actions that something was decided of, and that no
    table declares any more: nobody would ever answer. What is forced is counted whatever there is.
    """
    decided = {fact.action for fact in decision.facts}
    return [
        name
        for action in builder.streams[x.STREAM].actions
        for claim in action.claims
        if action.key in decided and claim.waits_for_message and claim.is_held
        for name in claim.ceilings
        if not claim.forced and builder.config.policy.ceiling(name) is None
    ]


def _step_begins(saga: Saga, place: int) -> None:
    """The ones before it are completed, and nothing has come to nothing."""
    assert not saga.is_unwinding
    assert all(one.action.status is Status.COMPLETED for one in saga.steps[: place - 1])
    assert not any(one.action.attempts for one in saga.steps[place:])


def _undo_begins(saga: Saga, place: int) -> None:
    """Every step is at its end, its own has its effect, and what comes after it is settled."""
    assert saga.is_unwinding
    assert all(one.action.is_final for one in saga.steps)
    assert has_something_to_undo(saga.steps[place - 1].action)
    assert all(one.is_settled for one in saga.steps[place:])


def _nothing_is_left(saga: Saga) -> None:
    """Every effect of a step is undone, or a person has been told that it is there."""
    for one in saga.steps:
        undo = one.compensation
        if undo is not None and has_something_to_undo(one.action):
            assert has_something_to_undo(undo) or undo.review == GIVEN_UP


def said(chance: random.Random, builder: LedgerBuilder) -> i.Decidable:
    """Something about one action of the saga, or about all of it."""
    if chance.random() < 0.02:
        return cancel_trip()
    if chance.random() < 0.02:
        return plan(run="run-1")
    going_on = [one for one in trip(builder).actions if not one.is_final or one.case is not None]
    action = chance.choice(going_on or list(trip(builder).actions))
    return ledgers._input(chance, builder, action.key)


def helped(builder: LedgerBuilder, action: Action) -> i.Decidable:
    """What brings an action to an end, as far as somebody can."""
    at = builder.decided_at(x.STREAM)
    if action.case is not None:
        operation = builder.config.operation(action.request.operation, action.request.version)
        offered = [one.move for one in moves(action, operation, builder.config, at)]
        wanted = (Move.ACKNOWLEDGE, Move.EFFECT_EXISTS, Move.NO_EFFECT, Move.ALLOW)
        move = next((one for one in wanted if one in offered), None)
        if move is None:
            return x.tick()
        signed = asking.resolution(action, "ada", move, ledger=builder.generation, at=at)
        if move is Move.ALLOW:
            signed = signed.model_copy(update={"accepts": action.case.names})
        return asking.judged(
            asking.judge(signed), builder.config.people, at=at, ledger=builder.generation
        )
    asked = action.approval
    if action.status is Status.AWAITING_APPROVAL and asked is not None:
        if asked.ended is not None:
            return i.AskAgain(key=action.key, principal="agent:billing")
        yes = asking.statement(action, "ada", Say.APPROVE, ledger=builder.generation, at=at)
        return asking.judged(
            asking.judge(yes), builder.config.people, at=at, ledger=builder.generation
        )
    tried = action.attempts[-1] if action.attempts else None
    if tried is not None and tried.status is AttemptStatus.RUNNING:
        token = tried.fencing_token
        return x.report(
            x.success(f"ok_{action.key[-4:]}"),
            key=action.key,
            attempt=tried.number,
            token=token,
            holder=tried.holder,
        )
    if action.lookup is not None:
        source = f"helped:{action.version}"
        return x.found_out(
            i.Meaning.EFFECT, key=action.key, lookup=action.lookup.number, source=source
        )
    return x.tick()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_is_said_a_saga_keeps_its_order_and_comes_to_an_end(seed: int) -> None:
    """No step begins before its turn and no undo before everything is settled; and once whoever is
    asked answers, the saga is completed or compensated.
    """
    _tell(random.Random(seed), LedgerBuilder(config=config()), tables=())


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_tables_are_adopted_meanwhile_a_saga_comes_to_an_end(seed: int) -> None:
    """Ceilings go and come back while gates are asked about them, and people are asked about less
    or more: nothing waits for an answer that nobody would give.
    """
    _tell(random.Random(seed), LedgerBuilder(config=config()), tables=TABLES)


def _tell(chance: random.Random, builder: LedgerBuilder, tables: Sequence[Policy]) -> None:
    opened = plan(*(step(item) for item in ITEMS), run="run-1")
    assert builder.take(opened, executor=chance.choice((None, x.HOLDER))).refused is None
    for _ in range(STEPS):
        later_ms = chance.choice((0, 0, 1, 40, 900, 5_000))
        if tables and chance.random() < ADOPTED:
            builder.config = replace(builder.config, policy=chance.choice(tables))
        given = said(chance, builder)
        decision = builder.take(given, later_ms=later_ms)
        if decision.stream == x.STREAM:
            check(trip(builder), decision)
            assert _asks_of_the_past(builder, decision) == []
        if not tables or chance.random() < HEARD:
            ledgers._deliver_some(chance, builder)
        check(trip(builder), decision)
    _comes_to_an_end(builder)
    saga = trip(builder)
    assert not saga.awaits_person
    if saga.status is SagaStatus.COMPLETED:
        undos = [one.compensation for one in saga.steps if one.compensation is not None]
        assert all(one.status in NO_EFFECT or one.proof == "person" for one in undos)
    else:
        _nothing_is_left(saga)
    assert builder.streams[x.STREAM].action(do("flight")) is not None


def _comes_to_an_end(builder: LedgerBuilder) -> None:
    """Everybody answers, until there is nothing left to say."""
    for turn in range(END_STEPS_MAX):
        for gate in [key for key, stream in builder.streams.items() if stream.gate is not None]:
            builder.take(x.tick(gate))
        builder.take(x.tick())
        builder.deliver()
        saga = trip(builder)
        if saga.status in {SagaStatus.COMPLETED, SagaStatus.COMPENSATED}:
            waiting = [one for one in saga.actions if one.case is not None]
        else:
            waiting = [one for one in saga.actions if one.case or not one.is_final]
        if not waiting:
            return
        action = waiting[turn % len(waiting)]
        decision = builder.take(helped(builder, action), later_ms=2_000 if turn % 7 else 30_000)
        if decision.stream == x.STREAM:
            check(trip(builder), decision)
    left = [one for one in trip(builder).actions if not one.is_final or one.case is not None]
    raise AssertionError([(one.key, one.status, one.blocked, one.claims) for one in left])
