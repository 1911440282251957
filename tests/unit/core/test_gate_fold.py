"""The fold of a gate and of what an action asked of it: what cannot be said is a broken invariant,
and what is said leads to one state.
"""

import pytest

from ledger.core.facts import AnyFact
from ledger.core.gates import (
    GATE_FACT_TYPES,
    SIDE_EFFECTS,
    AnyGateFact,
    Gate,
    ReservationClosed,
    ReservationKept,
    ReservationQueued,
    ReservationSentAgain,
    StepReported,
    evolve_gate,
    resend_at,
    spend,
)
from ledger.core.invariants import BrokenInvariantError
from ledger.core.limits import GATE_RESEND_MS, GATE_RESEND_MS_MAX, REPORTERS_MAX
from ledger.core.state import Status
from tests.examples import CHARGE, PAYOUT, T0, automatic, recorded
from tests.examples_of_gates import (
    DEMAND,
    answered,
    asks_gate,
    gate_facts,
    gives_back,
    identity,
    is_taken_back,
    keeps,
    reserved,
)
from tests.unit.core.language import given


def folded(*facts: AnyGateFact) -> Gate:
    """A gate after facts, numbered in their order."""
    gate: Gate | None = None
    for version, fact in enumerate(facts, start=1):
        gate = evolve_gate(gate, fact.model_copy(update={"version": version}), T0 + version)
    assert gate is not None
    return gate


def closed(grant: int | None = 1, *, key: str = CHARGE, spent: bool = False) -> ReservationClosed:
    """What was held is given back."""
    return ReservationClosed(version=0, action=key, round=3, grant=grant, spent=spent)


def kept(grant: int = 1) -> ReservationKept:
    """The action has it."""
    return ReservationKept(version=0, action=CHARGE, round=3, grant=grant)


def again(grant: int = 1) -> ReservationSentAgain:
    """It was said once more."""
    return ReservationSentAgain(version=0, action=CHARGE, round=3, grant=grant, sends=2)


def queued(key: str = PAYOUT) -> ReservationQueued:
    """Somebody waits."""
    return ReservationQueued(version=0, action=key, round=3, demand={}, behind=CHARGE)


def step(number: int, reporter: str = "agent", principal: str = "agent:billing") -> StepReported:
    """A step of a run."""
    return StepReported(
        version=0, principal=principal, reporter=reporter, step=number, amounts={"steps": 1}
    )


# --- a gate --------------------------------------------------------------------------------------


def test_every_fact_about_a_gate_has_an_example() -> None:
    """What stands in golden bytes is everything that may stand there."""
    assert {fact.type for fact in gate_facts()} == set(GATE_FACT_TYPES)


def test_what_is_reserved_is_used_or_free() -> None:
    """Both ways what is taken goes over into what is used, or is gone."""
    eur = spend("EUR")
    held = folded(reserved())
    assert (held.used, held.taken(eur), held.taken("mood")) == ({}, 4_990, 0)
    spent = folded(reserved(), closed(spent=True))
    assert (spent.used, spent.taken(eur), spent.reservations) == (DEMAND, 4_990, ())
    free = folded(reserved(), closed())
    assert (free.used, free.taken(eur), free.reservations) == ({}, 0, ())


def test_what_waits_takes_nothing() -> None:
    """A place in the queue is no budget; it keeps its order and its beginning when granted."""
    gate = folded(reserved(demand={}), queued(), reserved(2, key=PAYOUT, demand={SIDE_EFFECTS: 1}))
    assert gate.taken(SIDE_EFFECTS) == 1
    _, second = gate.reservations
    assert (second.action, second.version, second.asked_at, second.granted_at) == (
        PAYOUT,
        2,
        T0 + 2,
        T0 + 3,
    )


@pytest.mark.parametrize(
    "history",
    [
        pytest.param((reserved(2),), id="a number is left out"),
        pytest.param((reserved(), reserved(2)), id="granted twice"),
        pytest.param((reserved(), closed(), reserved(1, asked_at=9)), id="a number comes again"),
        pytest.param((queued(), queued()), id="queued twice"),
        pytest.param((closed(),), id="nothing is held"),
        pytest.param((reserved(), closed(2)), id="another grant is closed"),
        pytest.param((reserved(), closed(None)), id="a grant leaves the queue"),
        pytest.param((queued(), closed(None, key=PAYOUT, spent=True)), id="a place is spent"),
        pytest.param((reserved(), closed(), closed()), id="closed twice"),
        pytest.param((kept(),), id="nothing is kept"),
        pytest.param((reserved(), kept(2)), id="another grant is kept"),
        pytest.param((reserved(), again(2)), id="another grant is sent again"),
        pytest.param((step(1), step(1)), id="a step twice"),
        pytest.param((step(2), step(1)), id="a step back"),
        pytest.param((step(0),), id="no step"),
        pytest.param((step(1), step(2, principal="agent:other")), id="another reporter"),
        pytest.param(
            tuple(step(1, f"agent-{number}") for number in range(REPORTERS_MAX + 1)),
            id="too many reporters",
        ),
    ],
)
def test_what_cannot_be_is_broken(history: tuple[AnyGateFact, ...]) -> None:
    """A log that says so stops its reader."""
    if history[1:]:
        folded(*history[:-1])
    with pytest.raises(BrokenInvariantError):
        folded(*history)


@pytest.mark.parametrize("version", [0, 1, 3])
def test_versions_have_no_gap(version: int) -> None:
    """A fact is the next one of its gate."""
    with pytest.raises(BrokenInvariantError):
        evolve_gate(folded(reserved()), kept().model_copy(update={"version": version}), T0)


def test_a_grant_is_due_until_it_is_kept() -> None:
    """It is said again, ever more slowly; what is kept, and what waits, is not."""
    gate = folded(reserved())
    assert gate.due_at == T0 + 1 + GATE_RESEND_MS
    assert folded(reserved(), again()).due_at == T0 + 2 + 2 * GATE_RESEND_MS
    assert folded(reserved(), kept()).due_at is None
    assert folded(queued()).due_at is None
    assert resend_at(T0, 99) == T0 + GATE_RESEND_MS_MAX


def test_what_passed_is_remembered_once_and_forgotten_with_its_grant() -> None:
    """An effect that is there stays; a grant that came to nothing was nobody's duplicate."""
    passed = reserved(identity=identity())
    assert [one.action for one in folded(passed, closed(spent=True)).recent] == [CHARGE]
    assert folded(passed, closed()).recent == ()
    later = reserved(2, asked_at=3, identity=identity())
    assert len(folded(passed, closed(spent=True), later, closed(2)).recent) == 1


# --- what an action asked ------------------------------------------------------------------------

ASKED = given(recorded(), automatic(), asks_gate())
GRANTED = ASKED.and_then(answered())


def test_an_action_waits_until_the_last_answer() -> None:
    """Blocked with the first question, ready with the last grant."""
    assert ASKED.action().status is Status.BLOCKED
    assert GRANTED.action().status is Status.READY
    other = "acme/window:day:2027-01-15"
    both = ASKED.and_then(asks_gate(other, asked_at=4), answered())
    assert both.action().status is Status.BLOCKED
    assert both.and_then(answered(gate=other, asked_at=4)).action().status is Status.READY


def test_what_was_kept_is_remembered_until_the_gate_has_it_back() -> None:
    """What was not is gone at once, unless it was spent: then the gate may ask for it."""
    assert GRANTED.and_then(gives_back()).action().claims == ()
    (spent,) = GRANTED.and_then(gives_back(spent=True)).action().claims
    assert (spent.status.value, spent.spent, spent.due_at) == ("closed", True, None)
    closing = GRANTED.and_then(keeps(), gives_back())
    (claim,) = closing.action().claims
    assert (claim.status.value, claim.due_at) == ("closing", T0 + GATE_RESEND_MS)
    assert closing.and_then(is_taken_back()).action().claims == ()


@pytest.mark.parametrize(
    "fact",
    [
        pytest.param(asks_gate(asked_at=9), id="a round of another version"),
        pytest.param(asks_gate(asked_at=4, sends=2), id="a first question that comes again"),
        pytest.param(answered(asked_at=4), id="an answer to nothing"),
        pytest.param(answered(), id="an answer twice"),
        pytest.param(keeps(grant=2), id="another grant is kept"),
        pytest.param(gives_back(grant=2), id="another grant is given back"),
        pytest.param(is_taken_back(), id="taken back and not given"),
    ],
)
def test_what_an_action_cannot_say_is_broken(fact: AnyFact) -> None:
    """A claim follows its question, and its end follows both."""
    with pytest.raises(BrokenInvariantError):
        GRANTED.and_then(fact)
