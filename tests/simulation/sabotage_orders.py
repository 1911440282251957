"""Seeded bugs where actions belong together: what revises, what undoes, plans, and gates that are
full.
"""

from typing import Final, Literal

from ledger.core import evolve as evolving
from ledger.core import inputs as i
from ledger.core import order
from ledger.core import sagas as plans
from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.decide import (
    compensations,
    consequences,
    gate_demands,
    gates,
    gating,
    intake,
    ruling,
    sagas,
    schedule,
)
from ledger.core.decide.draft import Decided, Draft
from ledger.core.facts import IntentRecorded
from ledger.core.gates import Gate, Identity
from ledger.core.order import Waits
from ledger.core.policy import Policy, Ruling
from ledger.core.request import RecordedRequest
from ledger.core.sagas import Saga, SagaStep
from ledger.core.state import Action, Stream
from tests.simulation.sabotage import Saboteur

# --- revisions -----------------------------------------------------------------------------------

_original_waits_for = order.waits_for


def _waits_for_no_earlier(stream: Stream, action: Action) -> Waits | None:
    """A revision goes ahead whatever became of what it revises."""
    waits = _original_waits_for(stream, action)
    return None if waits is not None and waits.reason == "revised_open" else waits


def _revised_goes_on(stream: Stream, fact: IntentRecorded) -> tuple[Action, ...]:
    """What is revised knows nothing of it."""
    return stream.actions


_original_rule = Policy.rule


def _rules_as_the_row_says(
    self: Policy,
    operation: Operation | None,
    request: RecordedRequest,
    tenant: str,
    revises: str | None = None,
    performer: Literal["caller"] | None = None,
) -> Ruling:
    return _original_rule(self, operation, request, tenant, performer=performer)


# --- undoing -------------------------------------------------------------------------------------


def _waits_for_no_original(stream: Stream, action: Action) -> Waits | None:
    """An undo goes ahead as soon as it is asked for."""
    waits = _original_waits_for(stream, action)
    return None if waits is not None and waits.reason == "original_open" else waits


def _any_amount(stream: Stream, given: i.Propose) -> Decided | None:
    """Whatever is asked for is given back."""


def _of_any_amount(stream: Stream, action: Action) -> None:
    """What was told of the amount that there is to undo keeps nothing back."""


def _any_target(draft: Draft, given: i.Propose, operation: Operation) -> Decided | None:
    """Whatever is named is where it is given back."""


_original_identity_of = gate_demands.identity_of


def _of_no_plan(action: Action, operation: Operation | None) -> Identity:
    """The target is not told of which plan a step is."""
    return _original_identity_of(action, operation).model_copy(update={"plan": None})


def _names_no_original(stream: Stream, action: Action) -> str | None:
    """The provider is not told what is undone."""


# --- plans ---------------------------------------------------------------------------------------


def _first_first(self: Saga) -> SagaStep | None:
    """Steps are undone in the order in which they were done."""
    if not self.is_unwinding:
        return None
    if any(one.action.is_unsettled or not one.action.is_final for one in self.steps):
        return None
    return next((one for one in self.steps if not one.is_settled), None)


def _undoes_while_open(self: Saga) -> SagaStep | None:
    """What is done is undone although nobody knows of a step after it."""
    if not self.is_unwinding:
        return None
    ended = [one for one in self.steps if one.action.is_final]
    return next((one for one in reversed(ended) if not one.is_settled), None)


def _ended_is_done(original: Action) -> bool:
    """Whatever has come to its end is there to be undone."""
    return original.is_final and not original.is_unsettled


def _two_at_once(self: Saga) -> SagaStep | None:
    """A step begins while the one before it is still under way."""
    if self.is_unwinding:
        return None
    waits = (one for one in self.steps if not one.action.is_final and not one.action.attempts)
    return next(waits, None)


def _never_a_person(self: Saga) -> bool:
    """A case keeps nobody waiting."""
    return False


def _goes_nowhere(draft: Draft) -> None:
    """Nobody leads a plan on."""


def _room_is_taken_for_granted(saga: Saga, config: Config, now: int) -> Action | None:
    """A step begins without room for what may have to be undone."""


def _always(stream: Stream, action: Action, config: Config, now: int) -> bool:
    return True


# --- gates ---------------------------------------------------------------------------------------

_original_refusal = gates._refusal


def _never_full(gate: Gate | None, given: i.GateAsk, draft: Draft) -> gates._Refusal | None:
    """However much it holds, there is room for more."""
    refused = _original_refusal(gate, given, draft)
    return None if refused is not None and refused[0] == "gate_full" else refused


def _in(name: str, broken: object) -> tuple[tuple[object, str, object], ...]:
    """The same in the place of what its askers know by a name, and no check of the fold behind."""
    askers = (schedule, ruling, consequences)
    return (*((one, name, broken) for one in askers), (evolving, "check_order", _checks_no_order))


def _checks_no_order(stream: Stream, action: Action) -> None:
    """Whatever starts may."""


ORDERS: Final[dict[str, Saboteur]] = {
    "revision_beside_the_open_one": Saboteur(
        "a revision starts while what it revises may have had its effect",
        175,
        _in("waits_for", _waits_for_no_earlier),
    ),
    "revised_goes_on": Saboteur(
        "what is revised starts all the same",
        80,
        ((evolving, "revised", _revised_goes_on),),
    ),
    "revision_unasked": Saboteur(
        "a revision goes ahead by itself where its row asks nobody",
        50,
        ((Policy, "rule", _rules_as_the_row_says),),
    ),
    "gives_way_late": Saboteur(
        "what is revised stands beside its revision although it surely has no effect",
        80,
        (
            (consequences, "give_way", _goes_nowhere),
            (intake, "give_way", _goes_nowhere),
        ),
    ),
    "undone_while_open": Saboteur(
        "a compensation starts while its original may have had its effect",
        55,
        _in("waits_for", _waits_for_no_original),
    ),
    "given_back_twice": Saboteur(
        "compensations undo more than there was",
        286,
        ((intake, "refusal_of_amount", _any_amount),),
    ),
    "undone_whatever_was_told": Saboteur(
        "a compensation starts although its original was done in another amount",
        12_914,
        (
            (schedule, "kept_back", _of_any_amount),
            (compensations, "differs_from_asked", _of_any_amount),
            (compensations, "goes_beyond", _of_any_amount),
        ),
    ),
    "undone_elsewhere": Saboteur(
        "a compensation acts on another target than what it undoes",
        134,
        ((intake, "refusal_of_target", _any_target),),
    ),
    "plan_suspects_itself": Saboteur(
        "a step is held back for looking like another step of its plan",
        249,
        ((gating, "identity_of", _of_no_plan),),
    ),
    "original_not_named": Saboteur(
        "the provider is not told which effect is to be undone",
        55,
        ((schedule, "reference_to_undo", _names_no_original),),
    ),
    "undone_in_the_order_of_doing": Saboteur(
        "what was done first is undone first",
        454,
        ((plans.Saga, "to_undo", property(_first_first)),),
    ),
    "undone_before_settled": Saboteur(
        "steps are undone while one after them may have had its effect",
        454,
        ((plans.Saga, "to_undo", property(_undoes_while_open)),),
    ),
    "failed_step_undone": Saboteur(
        "a step that came to nothing is undone",
        50,
        (
            (order, "has_something_to_undo", _ended_is_done),
            (plans, "has_something_to_undo", _ended_is_done),
            (compensations, "has_something_to_undo", _ended_is_done),
        ),
    ),
    "steps_side_by_side": Saboteur(
        "a step begins before the one before it is done",
        83,
        ((plans.Saga, "to_do", property(_two_at_once)),),
    ),
    "plan_past_a_case": Saboteur(
        "a plan goes on while a person has to settle something of it",
        482,
        ((plans.Saga, "awaits_person", property(_never_a_person)),),
    ),
    "plan_stands_still": Saboteur(
        "nobody leads a plan on",
        57,
        ((consequences, "follow_sagas", _goes_nowhere),),
    ),
    "plan_without_room": Saboteur(
        "a step begins before there is room for what may have to be undone",
        3860,
        (
            (sagas, "without_room", _room_is_taken_for_granted),
            (schedule, "has_room_to_undo", _always),
        ),
    ),
    "gate_never_full": Saboteur(
        "a gate takes in whatever comes",
        57,
        ((gates, "_refusal", _never_full),),
    ),
}
