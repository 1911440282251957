"""Sagas: several effects of one business event, one after the other, and undone in reverse where
one comes to nothing.

Guarantees that what is told to a model is made of names and statuses alone. Read from the answers
of the ledger; made by the client.
"""

import json
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from actionledger.errors import CallerMistake, Trouble, UnexpectedAnswer
from actionledger.exchange import Reply
from actionledger.results import Conflict, is_named
from actionledger.wire import (
    NO_JSON,
    NOT_SAID,
    OTHER_VERSION,
    Money,
    about_another,
    read_problem,
)

SagaStatus = Literal[
    "undecided", "running", "compensating", "completed", "compensated", "stuck", "unknown"
]
"""How a saga stands. `completed` and `compensated` are its ends; from `stuck` a person leads on."""


class PlannedAction(BaseModel):
    """One action of a plan, as an `Intent` would ask for it alone. `item` tells several acts of one
    operation apart.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    operation: str
    version: int = 1
    item: str | None = None
    target: str | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    money: Money | None = None
    occurrence: str | None = None


class PlannedStep(PlannedAction):
    """A step, and the `compensation` that undoes its effect where a later step comes to nothing.
    Leave it out where nothing can undo the step, or nothing has to. `compensates` is the key of an
    earlier action of the same business event that the step itself undoes.
    """

    compensation: PlannedAction | None = None
    compensates: str | None = None


class Plan(BaseModel):
    """What you want, as a whole or not at all: each step begins once the one before it is done.

    `saga` is your own name for the plan within its business event. As with an intent both must be
    the same whenever the same is meant. `step_ms` bounds all steps from now on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    saga: str
    business_event: str
    environment: str
    steps: Annotated[tuple[PlannedStep, ...], Field(strict=False)]
    run: str | None = None
    step_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaStep:
    """One step as it stands. `undone` says how far its compensation is: `planned`, `needed`,
    `done`, `not_needed`, or `by_a_person`; None where nothing is planned.
    """

    step: int
    key: str
    status: str
    reference: str | None = None
    code: str | None = None
    compensation: str | None = None
    compensation_status: str | None = None
    undone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SagaResult:
    """How a saga stands. `current` is the key of the action that it goes on with or waits for,
    `cases` are those that a person has to settle.
    """

    saga: str
    business_event: str
    status: SagaStatus
    version: int
    replayed: bool
    steps: tuple[SagaStep, ...]
    current: str | None = None
    cases: tuple[str, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether it has come to its end."""
        return self.status in {"completed", "compensated"}

    @property
    def needs_person(self) -> bool:
        """Whether nothing new begins before a person has settled something."""
        return bool(self.cases) or self.status == "stuck"

    @property
    def text_for_model(self) -> str:
        """What happened, what may be done next, what must not."""
        count = len(self.steps)
        done = sum(one.status == "completed" for one in self.steps)
        match self.status:
            case "completed":
                return f"All {count} steps of the saga {self.saga} are done. Nothing is left to do."
            case "running":
                return (
                    f"{done} of {count} steps of the saga {self.saga} are done.{self._now} "
                    f"{self._goes_on}: look again later. Do not do any of its steps another way."
                )
            case "compensating":
                return (
                    f"The saga {self.saga} came to nothing{self._cause}. What was done is being "
                    f"undone, the last step first.{self._now} {self._goes_on}: look again later. "
                    "Do not undo anything yourself, and do not try the plan another way."
                )
            case "compensated":
                return (
                    f"The saga {self.saga} came to nothing{self._cause}. What had been done is "
                    "undone, or a person has taken it over. Say so. The same plan under another "
                    "name needs a new decision of whoever asked for it."
                )
            case "stuck":
                return (
                    f"The saga {self.saga} came to nothing{self._cause}, and an effect of it could "
                    "not be undone. A person has to settle that. Say so, and do not try to undo "
                    "it yourself."
                )
            case _:
                return (
                    f"The saga {self.saga} is recorded, and it is not known how it stands. Look "
                    "again later. Do not say that it succeeded or failed."
                )

    @property
    def _now(self) -> str:
        return "" if self.current is None else f" Now it is the turn of {self.current}."

    @property
    def _goes_on(self) -> str:
        if self.cases:
            return "A person has to settle something of it before anything new begins, so say that"
        return "It goes on by itself"

    @property
    def _cause(self) -> str:
        ended = [
            one for one in self.steps if one.status in _NO_EFFECT and one.code != "saga_called_off"
        ]
        return f": step {ended[0].step} is {ended[0].status}" if ended else ""


_NO_EFFECT: Final = frozenset({"failed", "denied", "expired", "cancelled", "superseded"})


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Action(_Read):
    key: str
    status: str
    reference: str | None = None
    code: str | None = None


class _Step(_Read):
    step: int
    action: _Action
    compensation: _Action | None = None
    undone: str | None = None


class _Next(_Read):
    key: str


class _Saga(_Read):
    saga: str
    business_event: str
    status: str
    version: int = 0
    replayed: bool | None = None
    steps: tuple[_Step, ...] = ()
    next: _Next | None = None
    cases: tuple[str, ...] = ()


_STATUSES: Final[dict[str, SagaStatus]] = {
    "undecided": "undecided",
    "running": "running",
    "compensating": "compensating",
    "completed": "completed",
    "compensated": "compensated",
    "stuck": "stuck",
}


def plan_bytes(plan: Plan) -> bytes:
    """The plan as JSON; raises CallerMistake where it has no JSON form."""
    try:
        body = plan.model_dump(exclude_none=True, warnings=False)
        return json.dumps(body, allow_nan=False).encode()
    except NOT_SAID as error:
        raise CallerMistake(
            "The plan has no JSON form.",
            hint=NO_JSON,
            code="malformed_json",
            status=400,
            problems=(Trouble("/steps", "not_json", str(error)),),
        ) from None


def read_saga(reply: Reply, business_event: str, saga: str) -> SagaResult | Conflict:
    """How a saga stands, by an answer; raises LedgerTrouble for every other one, and for an answer
    that is about another saga.
    """
    if reply.status not in {200, 201, 202}:
        problem = read_problem(reply.status, reply.raw)
        if not isinstance(problem, Conflict):
            raise problem
        if _event_of(problem.key) != business_event:
            raise about_another("saga", reply.status)
        return problem
    try:
        read = _Saga.model_validate_json(reply.raw)
    except ValidationError:
        raise UnexpectedAnswer(
            f"The answer with status {reply.status} is no saga that this client knows.",
            hint=OTHER_VERSION,
            status=reply.status,
        ) from None
    if (read.business_event, read.saga) != (business_event, saga):
        raise about_another("saga", reply.status)
    return SagaResult(
        saga=read.saga,
        business_event=read.business_event,
        status=_STATUSES.get(read.status, "unknown"),
        version=read.version,
        replayed=read.replayed is True,
        steps=tuple(_step(one) for one in read.steps),
        current=None if read.next is None else read.next.key,
        cases=read.cases,
    )


def _event_of(key: str) -> str:
    """The business event of an action key."""
    return key.rpartition(":")[2].partition("~")[0].partition("#")[0]


def _step(one: _Step) -> SagaStep:
    """A step, with the names that look like names: nothing else speaks to the model."""
    undo, action = one.compensation, one.action
    return SagaStep(
        step=one.step,
        key=action.key,
        status=action.status if is_named(action.status) else "unknown",
        reference=action.reference,
        code=action.code,
        compensation=None if undo is None else undo.key,
        compensation_status=None if undo is None else undo.status,
        undone=one.undone,
    )
