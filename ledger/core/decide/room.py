"""Room in a plan: no step begins before there is room in every budget for all that may have to be
undone.
"""

from ledger.core.config import Config
from ledger.core.decide.gating import holds_its_gates
from ledger.core.decide.ruling import needs_ruling
from ledger.core.sagas import Saga, saga_of
from ledger.core.state import Action, Stream


def without_room(saga: Saga, config: Config, now: int) -> Action | None:
    """The first compensation of a plan that does not hold the budget that the table in force asks
    for, or None.
    """
    for step in saga.steps:
        undo = step.compensation
        if undo is not None and not _has_room(undo, config, now):
            return undo
    return None


def _has_room(undo: Action, config: Config, now: int) -> bool:
    """Whether a compensation holds its budget. One that a person has ended holds none, and so the
    plan cannot go on either.
    """
    if undo.is_final:
        return False
    declared = config.operation(undo.request.operation, undo.request.version)
    is_ruled = declared is None or not needs_ruling(undo, config)
    return is_ruled and holds_its_gates(undo, config, now)


def has_room_to_undo(stream: Stream, action: Action, config: Config, now: int) -> bool:
    """Whether an action may begin as far as the budgets of its plan go; true of what is no step of
    a plan, and of a step that has begun.
    """
    place = action.saga
    if place is None or place.role != "step" or action.has_begun:
        return True
    saga = saga_of(stream, place.saga)
    return saga is None or without_room(saga, config, now) is None
