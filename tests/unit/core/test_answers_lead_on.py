"""Every answer that a case offers to a person leads on: no case comes back as it was, on nothing
but the answer that somebody gave to it.

A world for every reason there is, and in each every answer that is offered. What has to be asked of
a provider, a gate or people is asked by then, or the action is at its end, or there is another
question.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple, get_args

import pytest

from ledger.core.catalogue import Catalogue
from ledger.core.config import Config
from ledger.core.facts import ReviewReason
from ledger.core.inputs import GateAnswer, Meaning, Retry
from ledger.core.policy import Outcome
from ledger.core.state import Action
from ledger.core.statement import Move
from streams.timetable import next_due_of
from tests import examples as x
from tests.asking import policy
from tests.examples import CHARGE, EMAIL, PAYOUT, T0, kept, review
from tests.examples_of_gates import REACHED
from tests.examples_of_people import FREE, PEOPLE, judged, resolution, ruled, table, under
from tests.unit.core import desk
from tests.unit.core.beside import Event, eur, world
from tests.unit.core.crossing import ceiling, passes
from tests.unit.core.language import After, Given, given

UNDO: Final = PAYOUT
MORE: Final = f"{PAYOUT}#more"
LATE_MS: Final = 100_000
"""When nothing of an attempt can be under way any more, and its key is still known."""
STEPS_MAX: Final = 20


class Case(NamedTuple):
    """An action with a case, and when a person looks at it."""

    known: Given
    key: str = CHARGE
    at: int = LATE_MS


# --- worlds --------------------------------------------------------------------------------------


def by_facts(reason: ReviewReason, known: Given, names: str | None = None) -> Given:
    """The history with a case at its end."""
    return known.and_then(review(reason).model_copy(update={"names": names}))


def told_of(event: Event, key: str = UNDO) -> Case:
    """An event that has brought an action to a person."""
    config = replace(event.known.config, people=PEOPLE)
    return Case(event.known.under(config), key, max(event.now, LATE_MS))


def charged(config: Config | None = None) -> Event:
    """The charge has completed."""
    event = Event(config)
    event.completes(CHARGE)
    return event


def other_amount(event: Event) -> None:
    """The provider tells of another amount of the charge, and a person takes note."""
    event.take(x.found_out(Meaning.EFFECT, lookup=None, money=eur(100)))
    event.settles(CHARGE, Move.ACKNOWLEDGE)


def given_back(event: Event) -> None:
    """The bank gives back some of the charge by itself."""
    said = x.found_out(Meaning.REVERSED, lookup=None, reference="dp_1", money=eur(1_200))
    event.take(said.model_copy(update={"reverses": x.REFERENCE}))


def noted(event: Event) -> None:
    """The bank does, and a person takes note, unless it may be what a refund did."""
    given_back(event)
    if event.action().case is not None:
        event.settles(CHARGE, Move.ACKNOWLEDGE)


def without_lookups() -> Config:
    """Payouts are keyed, and cannot be looked up."""
    config = world()
    operations = tuple(
        one.model_copy(update={"reliability": "keyed", "key_window_ms": 86_400_000, "lookups": ()})
        if one.name == "payout"
        else one
        for one in config.catalogue.operations
    )
    known = config.catalogue
    return replace(config, catalogue=Catalogue(operations, config.content_hash, known.timing))


def undone_otherwise(happens: Callable[[Event], None], *, is_open: bool) -> Case:
    """A refund is asked for, and before it goes, or while it is unknown, something is told."""
    event = charged(without_lookups() if is_open else None)
    event.propose(UNDO, compensates=CHARGE, acts=is_open)
    if is_open:
        event.reports(UNDO, x.no_answer())
    happens(event)
    event.goes_on()
    return told_of(event)


def failed_undo() -> Case:
    """A refund is refused for good."""
    event = charged()
    event.propose(UNDO, compensates=CHARGE)
    event.goes_on()
    event.reports(UNDO, x.refusal("declined", Retry.NEVER))
    return told_of(event)


def undone_late() -> Case:
    """A refund was called off and came all the same, beside one that waits for its turn."""
    event = charged()
    event.propose(UNDO, compensates=CHARGE, money=eur(1_000))
    event.take(x.cancel(key=UNDO))
    event.propose(MORE, compensates=CHARGE)
    event.take(x.found_out(Meaning.EFFECT, key=UNDO, lookup=None, money=eur(1_000)))
    event.settles(UNDO, Move.ACKNOWLEDGE)
    return told_of(event, MORE)


def refused_by_table() -> Case:
    """What it asks for is more than an action may be, by itself."""
    event = Event(world(policy(ceiling("one", "action", spend={"EUR": 100}) + passes("one"))))
    event.start(CHARGE)
    return told_of(event, CHARGE)


def refused_by_gate(reason: ReviewReason, names: str | None) -> Case:
    """A gate says no."""
    event = Event(
        world(
            policy(ceiling(per="tenant", window="day", side_effects=1) + passes("run", target=True))
        )
    )
    event.propose(CHARGE)
    (claim,) = event.action().claims
    is_ceiling = reason == "ceiling_reached"
    said = {
        "key": CHARGE,
        "gate": claim.gate,
        "round": claim.round,
        "outcome": "refused",
        "reason": reason,
        "reached": REACHED if is_ceiling else None,
        "like": None if is_ceiling else names,
    }
    event.take(GateAnswer.model_validate(said))
    return told_of(event, CHARGE)


def refused_by_gate_too(case: Case) -> Case:
    """A gate that was asked before says no to what is a person's already."""
    return case._replace(known=case.known.and_then(review("gate_full", key=case.key)))


def reversed_so(minor: int) -> Case:
    """What was taken is given back elsewhere, beside a refund of all of it or alone."""
    event = charged()
    if minor > 1_200:
        event.propose(UNDO, compensates=CHARGE)
        event.goes_on()
        event.reports(UNDO, x.success("re_1"))
    given_back(event)
    return told_of(event, CHARGE)


REFUSED = desk.begun().and_then(x.refused())
EFFECT = kept(x.found_out(Meaning.EFFECT, lookup=None))
CASES: Final[dict[str, Case]] = {
    "lookups_exhausted": Case(desk.OPEN),
    "lookups_exhausted, by reference": Case(desk.OPEN_PAYOUT, PAYOUT),
    "no_way_to_find_out": Case(desk.OPEN_EMAIL, EMAIL),
    "attempts_exhausted": Case(
        by_facts(
            "attempts_exhausted",
            REFUSED.and_then(x.started(2), x.refused(2), x.started(3), x.refused(3)),
        )
    ),
    "one_attempt_only": Case(by_facts("one_attempt_only", REFUSED)),
    "step_deadline_passed": Case(by_facts("step_deadline_passed", REFUSED)),
    "declines_exhausted": Case(desk.GIVEN_BACK),
    "operation_withdrawn": Case(desk.NEVER_BEGUN),
    "preview_failed": Case(
        given(x.recorded(), ruled(table("asks", Outcome.CONFIRMATION)))
        .and_then(review("preview_failed"))
        .under(under(table("asks", Outcome.CONFIRMATION)))
    ),
    "amount_differs": Case(desk.DIFFERS),
    "amount_differs, confirmed": Case(desk.CONFIRMED),
    "amount_differs, under way": Case(desk.RUNNING, at=4_500),
    "partly_succeeded": Case(desk.PARTLY),
    "evidence_conflicts": Case(by_facts("evidence_conflicts", REFUSED.and_then(EFFECT))),
    "second_effect": Case(by_facts("second_effect", desk.unknown().and_then(EFFECT))),
    "effect_without_attempt": Case(
        by_facts(
            "effect_without_attempt",
            given(x.recorded(), ruled(FREE), EFFECT).under(desk.UNDER),
        )
    ),
    "reversed_elsewhere": reversed_so(1_200),
    "returned_too_much": reversed_so(4_990),
    "compensation_failed": failed_undo(),
    "returned_already": undone_otherwise(noted, is_open=False),
    "returned_already, unknown": undone_otherwise(noted, is_open=True),
    "original_amount_differs": undone_otherwise(other_amount, is_open=False),
    "original_amount_differs, unknown": undone_otherwise(other_amount, is_open=True),
    "suspected_duplicate, undone late": undone_late(),
    "ceiling_reached, alone": refused_by_table(),
    "ceiling_reached": refused_by_gate("ceiling_reached", "run"),
    "suspected_duplicate": refused_by_gate("suspected_duplicate", "charge:v1:acme:renewal-2"),
    "gate_full": refused_by_gate("gate_full", None),
    "gate_full, and returned already": refused_by_gate_too(undone_otherwise(noted, is_open=False)),
}


# --- the law -------------------------------------------------------------------------------------


def question(action: Action) -> tuple[str, str | None] | None:
    """What a person is asked."""
    return None if action.case is None else (action.case.reason, action.case.names)


def reason_of(case: Case) -> str | None:
    """Why a person is needed."""
    asked = question(case.known.action(case.key))
    return None if asked is None else asked[0]


def answered(case: Case, move: Move) -> Given:
    """What a person's answer leads to, at once."""
    action = case.known.action(case.key)
    before = action.case
    assert before is not None
    said = resolution(
        move,
        key=case.key,
        at=case.at,
        case=before.opened_version,
        moved=before.moved_version,
        request_hash=action.request_hash,
        accepts=before.names if move is Move.ALLOW else None,
    )
    decided = case.known.when(judged(said, at=case.at), at=case.at).decided
    assert decided.refused is None, decided.refused
    return case.known.and_then(After(case.at, decided.facts))


def asks_outside(action: Action, since: int) -> bool:
    """Whether an action has begun since, or waits for somebody who may say something new."""
    has_begun = any(one.started_at >= since for one in action.attempts)
    is_shown = action.approval is not None and action.approval.ended is None
    is_foreseen = action.dry is not None and action.dry.answer_by is not None
    return has_begun or action.lookup is not None or action.awaits_gates or is_shown or is_foreseen


def offers() -> Iterator[tuple[str, Move]]:
    """Every case with every answer that it offers."""
    for name, case in CASES.items():
        for move in sorted(desk.offered(case.known, at=case.at, key=case.key)):
            yield name, move


def test_every_reason_has_a_world_and_every_answer_is_offered() -> None:
    """A new reason has to be shown to lead on before it is shown to anybody."""
    led_by = {reason_of(case) for case in CASES.values()}
    assert led_by == set(get_args(ReviewReason))
    assert {name.partition(",")[0] for name in CASES} == led_by
    assert {move for _, move in offers()} == set(Move)


def test_no_person_is_without_an_answer() -> None:
    """Each case offers something, and what is not final can be ended."""
    offered = {name: desk.offered(one.known, at=one.at, key=one.key) for name, one in CASES.items()}
    assert [name for name, moves in offered.items() if not moves] == []


@pytest.mark.parametrize(("name", "move"), list(offers()))
def test_no_answer_leads_back_to_its_own_question(name: str, move: Move) -> None:
    """By the answer, and by time and capacity alone, there is another question, an end, or somebody
    is asked who may know something new.
    """
    case, at = CASES[name], CASES[name].at
    before, known = question(case.known.action(case.key)), answered(case, move)
    for _ in range(STEPS_MAX):
        action = known.action(case.key)
        leads_on = action.is_final or action.case is not None
        if leads_on or asks_outside(action, T0 + case.at):
            break
        capacity = x.offer(at=at, until=at + 9, key=case.key, incarnation=f"executor-{at}")
        known = known.and_then(After(at, known.when(x.tick(), at=at, offer=capacity).decided.facts))
        due_at = next_due_of(known.stream, T0 + at, known.config)
        at = max(at + 1, 0 if due_at is None else due_at - T0)
    action = known.action(case.key)
    assert question(action) != before
    assert action.is_final or action.case is not None or asks_outside(action, T0 + case.at)


def test_what_another_reason_hides_is_asked_about_once_it_is_tried_again() -> None:
    """A full gate leads the case, and has no name that could be let pass: whoever has it tried
    again is asked about what came back elsewhere, which can be.
    """
    case = CASES["gate_full, and returned already"]
    known = answered(case, Move.TRY_AGAIN)
    asked = question(known.action(case.key))
    assert asked is not None
    assert asked[0] == "returned_already"
    assert Move.ALLOW in desk.offered(known, at=case.at, key=case.key)
