"""Sagas: how the actions of a plan stand together, derived from them and stored nowhere.

Steps go on one after the other, each once the one before it is completed. When one has come to
nothing, the saga unwinds and never goes forward again: what has not begun is called off, what is
open is settled first, and then the effects that are there are undone in reverse, one by one. An
effect of a step that came to nothing, told late and noted by a person, is one of them. Read by
`decide`, by every door that shows a saga, and by the tests.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from ledger.core.order import GIVEN_UP, has_something_to_undo, is_without_effect
from ledger.core.state import Action, Stream
from ledger.core.state import Status as At

NO_EFFECT: Final = frozenset({At.FAILED, At.DENIED, At.EXPIRED, At.CANCELLED, At.SUPERSEDED})
"""Final statuses of an action that came to nothing. Its provider may tell of an effect later."""


class SagaStatus(StrEnum):
    """How a saga stands. Completed and compensated are its ends; from stuck a person leads on."""

    RUNNING = "running"
    COMPENSATING = "compensating"
    COMPLETED = "completed"
    COMPENSATED = "compensated"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class SagaStep:
    """One step, and the compensation that was planned for it."""

    number: int
    action: Action
    compensation: Action | None = None

    @property
    def came_to_nothing(self) -> bool:
        """Whether it ended otherwise than with its effect, whatever came to light after that."""
        return self.action.status in NO_EFFECT

    @property
    def has_no_effect(self) -> bool:
        """Whether it surely has no effect, so that there is nothing to undo."""
        return is_without_effect(self.action)

    @property
    def reads(self) -> bool:
        """Whether its operation has no effect on the world, so that there is nothing to undo."""
        return self.action.saga is not None and self.action.saga.reads

    @property
    def is_settled(self) -> bool:
        """Whether nothing of it is left to undo, or a person has taken over what is."""
        if self.has_no_effect:
            return True
        undo = self.compensation
        if undo is None:
            return self.reads or (self.action.review == GIVEN_UP and self.action.case is None)
        if undo.case is not None:
            return False
        if has_something_to_undo(undo):
            return True
        return undo.status in NO_EFFECT and undo.review == GIVEN_UP


@dataclass(frozen=True, slots=True)
class Saga:
    """The steps of one saga, in order."""

    name: str
    steps: tuple[SagaStep, ...]

    @property
    def actions(self) -> tuple[Action, ...]:
        """Every step, and every compensation."""
        undone = (one.compensation for one in self.steps if one.compensation is not None)
        return (*(one.action for one in self.steps), *undone)

    @property
    def is_unwinding(self) -> bool:
        """Whether some step came to nothing, so that the others must as well. It stays so where an
        effect of that step is told late: it is undone, for the others were called off.
        """
        return any(one.came_to_nothing for one in self.steps)

    @property
    def is_completed(self) -> bool:
        """Whether every step has had its effect."""
        return all(one.action.status is At.COMPLETED for one in self.steps)

    @property
    def awaits_person(self) -> bool:
        """Whether something of it has a case, so that nothing new begins before that is settled."""
        return any(one.case is not None for one in self.actions)

    @property
    def to_undo(self) -> SagaStep | None:
        """The step to undo now: of those not settled the last, once every one has come to an
        end and nothing told of it waits for a person. None where nothing is left, or not yet.
        """
        if not self.is_unwinding:
            return None
        if any(one.action.is_unsettled or not one.action.is_final for one in self.steps):
            return None
        return next((one for one in reversed(self.steps) if not one.is_settled), None)

    @property
    def to_do(self) -> SagaStep | None:
        """The step to go on with, or that goes on: the first that is not completed. None where
        there is none, or the saga unwinds: once it does it never goes forward again, also where
        no step is left without an effect.
        """
        if self.is_unwinding:
            return None
        return next((one for one in self.steps if one.action.status is not At.COMPLETED), None)

    @property
    def status(self) -> SagaStatus:
        """How it stands; it follows from its actions alone."""
        if self.is_completed:
            return SagaStatus.COMPLETED
        if not self.is_unwinding:
            return SagaStatus.RUNNING
        if any(one.case is not None and self._is_past(one) for one in self.actions):
            return SagaStatus.STUCK
        if all(one.action.is_final and one.is_settled for one in self.steps):
            return SagaStatus.COMPENSATED
        return SagaStatus.COMPENSATING

    @staticmethod
    def _is_past(action: Action) -> bool:
        """Whether a case of the action keeps the saga from being undone: of a compensation, or of
        a step that has come to its end. A step that is not final is settled as any action is.
        """
        return is_compensation(action) or action.is_final


def is_compensation(action: Action) -> bool:
    """Whether it is in a saga to undo one of its steps."""
    return action.saga is not None and action.saga.role == "compensation"


def names_of(stream: Stream) -> tuple[str, ...]:
    """The sagas of a business event, in the order in which they were opened."""
    named = (action.saga.saga for action in stream.actions if action.saga is not None)
    return tuple(dict.fromkeys(named))


def saga_of(stream: Stream, name: str) -> Saga | None:
    """The saga of a stream under a name, or None."""
    steps: dict[int, Action] = {}
    undo: dict[int, Action] = {}
    for action in stream.actions:
        place = action.saga
        if place is not None and place.saga == name:
            (undo if place.role == "compensation" else steps)[place.step] = action
    if not steps:
        return None
    return Saga(name, tuple(SagaStep(at, steps[at], undo.get(at)) for at in sorted(steps)))


def may_begin(stream: Stream, action: Action) -> bool:
    """Whether its saga lets an action start: what has begun goes on, whatever becomes of others."""
    return action.status is not At.READY or has_its_turn(stream, action)


def has_its_turn(stream: Stream, action: Action) -> bool:
    """Whether its saga has come to an action, and no person has to settle anything of it before
    anything new begins; of one in no saga, always.
    """
    place = action.saga
    saga = None if place is None else saga_of(stream, place.saga)
    if place is None or saga is None:
        return True
    if saga.awaits_person and not action.has_begun:
        return False
    turn = saga.to_undo if place.role == "compensation" else saga.to_do
    return turn is not None and turn.number == place.step
