"""Sagas and batches as a caller sees them, made from their actions.

Pure; called by the routes, the pages and the command line.
"""

import re
from collections import Counter
from collections.abc import Collection
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.http import views
from gateway.http.problems import LedgerPlace
from gateway.http.run_views import RunAction, name_in_path, run_action
from gateway.http.views import ActionView
from ledger.core.ids import ActionKey
from ledger.core.order import has_something_to_undo
from ledger.core.sagas import Saga, SagaStatus, SagaStep
from ledger.core.state import Action, Status
from projections.query_rows import ActionRow

_NAME: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")

ON_PAGE_MAX: Final = 200
"""Actions of a batch that one answer lists; it counts all that were read."""


class SagaStepView(BaseModel):
    """One step as it stands, and the planned compensation of it. `undone`: `planned` while it may
    be needed, `needed` once it is its turn, `done`, `not_needed`, or `by_a_person` where a person
    has taken over what the plan could not undo; absent where there is nothing to undo.
    """

    model_config = ConfigDict(frozen=True)

    step: int
    action: ActionView
    compensation: ActionView | None = None
    undone: Literal["planned", "needed", "done", "not_needed", "by_a_person"] | None = None


class NextView(BaseModel):
    """What the saga goes on with, or waits for: the action that is its turn, and what it is."""

    model_config = ConfigDict(frozen=True)

    key: str
    href: str
    step: int
    what: Literal["step", "compensation"]
    status: Status


class SagaView(BaseModel):
    """A saga as it stands. `version` grows with everything that happens to any of its actions.
    `next` is what it goes on with, `cases` the actions that wait for a person before anything new
    begins. `sentence` can be given to a model.
    """

    model_config = ConfigDict(frozen=True)

    saga: str
    business_event: str
    href: str
    page: str
    status: SagaStatus | Literal["undecided"]
    version: Annotated[int, Field(ge=0)] = 0
    sentence: str
    steps: tuple[SagaStepView, ...] = ()
    next: NextView | None = None
    cases: tuple[str, ...] = ()
    run: str | None = None
    opened_at: int | None = None
    updated_at: int | None = None
    replayed: bool | None = None
    ledger: LedgerPlace | None = None

    @property
    def is_final(self) -> bool:
        """Whether it has come to its end."""
        return self.status in {SagaStatus.COMPLETED, SagaStatus.COMPENSATED}


class SagaLine(BaseModel):
    """One saga of a list."""

    model_config = ConfigDict(frozen=True)

    saga: str
    business_event: str
    href: str
    page: str
    status: SagaStatus
    steps: int
    completed: int
    sentence: str
    opened_at: int
    updated_at: int


class SagaList(BaseModel):
    """Sagas, the newest first."""

    model_config = ConfigDict(frozen=True)

    now: int
    sagas: tuple[SagaLine, ...]


class BatchView(BaseModel):
    """Independent actions that were proposed under one name, by status."""

    model_config = ConfigDict(frozen=True)

    batch: str
    href: str
    by_status: dict[str, int]
    actions: tuple[RunAction, ...]
    sentence: str
    more: Literal[True] | None = None
    """Set where as many actions were read as one answer counts: there may be others."""


def saga_href(business_event: str, saga: str) -> str:
    """Where the saga is found at this door."""
    return f"/v1/sagas/{name_in_path(business_event)}/{name_in_path(saga)}"


def saga_page(tenant: str, business_event: str, saga: str) -> str:
    """Where a person looks at the saga; every name in it can stand in a path."""
    return f"/console/sagas/{tenant}/{business_event}/{saga}"


def batch_href(batch: str) -> str:
    """Where the batch is found at this door."""
    return f"/v1/batches/{name_in_path(batch)}"


def undecided(tenant: str, business_event: str, saga: str) -> SagaView:
    """A durable plan without a decision so far."""
    return SagaView(
        saga=saga,
        business_event=business_event,
        href=saga_href(business_event, saga),
        page=saga_page(tenant, business_event, saga),
        status="undecided",
        sentence=f"The saga {saga} is recorded and not decided yet. Open the same again: it cannot "
        "happen twice.",
    )


def saga_view(
    saga: Saga, *, replayed: bool | None = None, ledger: LedgerPlace | None = None
) -> SagaView:
    """A saga, from its actions."""
    first = saga.steps[0].action
    key = ActionKey.parse(first.key)
    event = key.action_id.business_event
    return SagaView(
        saga=saga.name,
        business_event=event,
        href=saga_href(event, saga.name),
        page=saga_page(key.tenant, event, saga.name),
        status=saga.status,
        version=sum(one.version for one in saga.actions),
        sentence=sentence_of(saga),
        steps=tuple(_step(saga, one) for one in saga.steps),
        next=_next(saga),
        cases=tuple(one.key for one in saga.actions if one.case is not None),
        run=first.run,
        opened_at=first.recorded_at,
        updated_at=max(one.updated_at for one in saga.actions),
        replayed=replayed,
        ledger=ledger,
    )


def saga_line(saga: Saga) -> SagaLine:
    """A saga as one line of a list."""
    first = saga.steps[0].action
    key = ActionKey.parse(first.key)
    event = key.action_id.business_event
    return SagaLine(
        saga=saga.name,
        business_event=event,
        href=saga_href(event, saga.name),
        page=saga_page(key.tenant, event, saga.name),
        status=saga.status,
        steps=len(saga.steps),
        completed=sum(one.action.status is Status.COMPLETED for one in saga.steps),
        sentence=sentence_of(saga),
        opened_at=first.recorded_at,
        updated_at=max(one.updated_at for one in saga.actions),
    )


def _step(saga: Saga, step: SagaStep) -> SagaStepView:
    return SagaStepView(
        step=step.number,
        action=_plain(step.action),
        compensation=None if step.compensation is None else _plain(step.compensation),
        undone=_undone(saga, step),
    )


def _plain(action: Action) -> ActionView:
    """An action without what is said of the whole saga."""
    return views.of_action(action, None).model_copy(update={"replayed": None})


def _undone(
    saga: Saga, step: SagaStep
) -> Literal["planned", "needed", "done", "not_needed", "by_a_person"] | None:
    """How far what was planned to undo a step has come."""
    undo = step.compensation
    if undo is not None and (undo.status is Status.COMPLETED or has_something_to_undo(undo)):
        return "done"
    if step.has_no_effect or saga.is_completed:
        return None if undo is None else "not_needed"
    turn = saga.to_undo
    if turn is not None and turn.number == step.number:
        return "needed"
    if saga.is_unwinding and step.action.is_final and step.is_settled:
        return None if undo is None and step.reads else "by_a_person"
    return None if undo is None else "planned"


def _next(saga: Saga) -> NextView | None:
    going_on = next_action(saga)
    if going_on is None or going_on.saga is None:
        return None
    return NextView(
        key=going_on.key,
        href=views.href(going_on.key),
        step=going_on.saga.step,
        what=going_on.saga.role,
        status=going_on.status,
    )


def next_action(saga: Saga) -> Action | None:
    """What a saga goes on with or waits for, or None where it has come to its end."""
    steps = (one.action for one in saga.steps)
    unsettled = next((one for one in steps if one.is_unsettled or not one.is_final), None)
    if saga.is_unwinding and unsettled is not None:
        return unsettled
    undo, step = saga.to_undo, saga.to_do
    if undo is not None:
        return undo.action if undo.compensation is None else undo.compensation
    return None if step is None else step.action


def sentence_of(saga: Saga) -> str:
    """How a saga stands and what may be done, in words that a model can read."""
    count, name = len(saga.steps), saga.name
    done = sum(one.action.status is Status.COMPLETED for one in saga.steps)
    going_on = next_action(saga)
    match saga.status:
        case SagaStatus.COMPLETED:
            return f"All {count} steps of the saga {name} are completed. Nothing is left to do."
        case SagaStatus.COMPENSATED:
            return (
                f"The saga {name} came to nothing: {_cause(saga)}. What had been done is undone, "
                "or a person has taken it over. Do not do any of its steps by other means."
            )
        case SagaStatus.STUCK:
            return (
                f"The saga {name} came to nothing: {_cause(saga)}, and an effect could not be "
                f"undone. A person has to settle {_keys(saga)}. Do not try to undo it yourself."
            )
        case SagaStatus.COMPENSATING:
            key = "" if going_on is None else f" Now {_doing(going_on)}."
            return (
                f"The saga {name} came to nothing: {_cause(saga)}. What was done is being undone, "
                f"the last step first.{key} {_goes_on(saga)}: look again later."
            )
        case SagaStatus.RUNNING:
            key = "" if going_on is None else f" Now {_doing(going_on)}."
            return (
                f"{done} of {count} steps of the saga {name} are completed.{key} {_goes_on(saga)}: "
                "look again later, and propose none of its steps yourself."
            )


def _cause(saga: Saga) -> str:
    """Which step came to nothing first, and how: what the saga itself called off is no cause."""
    ended = [one for one in saga.steps if one.came_to_nothing]
    if not ended:
        return "a step of it did"
    one = next((step for step in ended if step.action.code != "saga_called_off"), ended[0])
    code = one.action.code or ""
    # A provider's own words have no place in a sentence for a model.
    why = f" ({code})" if _NAME.fullmatch(code) else ""
    return f"step {one.number}, {one.action.key}, is {one.action.status}{why}"


def _doing(action: Action) -> str:
    place = action.saga
    what = "step" if place is None or place.role == "step" else "what undoes step"
    number = "" if place is None else f" {place.step}"
    return f"{what}{number}, {action.key}, is {action.status}"


def _goes_on(saga: Saga) -> str:
    if saga.awaits_person:
        return f"A person has to settle {_keys(saga)} before anything new begins"
    return "It goes on by itself"


def _keys(saga: Saga) -> str:
    return " and ".join(one.key for one in saga.actions if one.case is not None)


def batch_view(
    batch: str, rows: Collection[ActionRow], *, more: Literal[True] | None = None
) -> BatchView:
    """A batch, from the rows of its actions; `more` is what `cut` says of all that were read."""
    counted = Counter(one.status for one in rows)
    by_status = dict(sorted(counted.items()))
    told = ", ".join(f"{count} {status}" for status, count in by_status.items())
    first, others = (
        ("the first ", "There may be more, which are not counted. ") if more else ("", "")
    )
    return BatchView(
        batch=batch,
        href=batch_href(batch),
        by_status=by_status,
        actions=tuple(run_action(one) for one in list(rows)[:ON_PAGE_MAX]),
        sentence=f"Of {first}{counted.total()} actions of the batch {batch}: {told}. "
        f"{others}Each stands for itself.",
        more=more,
    )
