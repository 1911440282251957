"""What callers send to open a saga: a plan for one business event, read as strictly as an intent.

Guarantees that tenant and principal are the API key's and that every key follows from what the
body names. Called by the routes of sagas.
"""

from typing import Annotated

from pydantic import ConfigDict, Field, JsonValue, ValidationError

from gateway.http.bodies import wrong_name
from gateway.http.codes import Code
from gateway.http.problems import No, Trouble, invalid
from gateway.keys import Caller
from ledger.core.ids import ActionId, ActionKey, MalformedId, check_component, stream_key
from ledger.core.inputs import CancelSaga, OpenSaga, Planned, PlannedStep
from ledger.core.limits import DURATION_MS_MAX, SAGA_STEPS_MAX
from ledger.core.money import Money
from ledger.core.request import Request
from ledger.core.wire import Text, Wire


class PlannedBody(Wire):
    """One action of a plan, as it would be proposed alone. `item` tells acts of one operation
    within the business event apart.
    """

    operation: Text
    version: int
    item: Text | None = None
    target: Text | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    money: Money | None = None
    occurrence: Text | None = None


class PlannedStepBody(PlannedBody):
    """A step, and what undoes it: where a later step comes to nothing, that is carried out. It is
    left out where nothing can undo the step, or nothing has to. `compensates` is the key of an
    earlier action that the step itself undoes.
    """

    compensation: PlannedBody | None = None
    compensates: Text | None = None


class SagaBody(Wire):
    """A plan: several effects of one business event, one after the other, whole or not at all.

    Each step begins once the one before it is completed. Where one comes to nothing for good, the
    effects before it are undone in reverse. `saga` names the plan within its business event: the
    same plan again is a replay, another one under the same name is refused. `step_ms` bounds all
    steps from now on; `run` names the run of the agent that plans.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "saga": "order",
                    "business_event": "order-2026-11-30-07",
                    "environment": "production",
                    "steps": [
                        {
                            "operation": "charge",
                            "version": 1,
                            "target": "order:A-1842",
                            "money": {"minor": 4_990, "currency": "USD"},
                            "compensation": {
                                "operation": "refund",
                                "version": 1,
                                "target": "order:A-1842",
                                "money": {"minor": 4_990, "currency": "USD"},
                            },
                        },
                        {
                            "operation": "ticket",
                            "version": 1,
                            "params": {"title": "Pack order A-1842"},
                        },
                    ],
                }
            ]
        }
    )

    saga: Text
    business_event: Text
    environment: Text
    steps: Annotated[
        tuple[PlannedStepBody, ...], Field(strict=False, min_length=1, max_length=SAGA_STEPS_MAX)
    ]
    run: Text | None = None
    step_ms: Annotated[int, Field(ge=1, le=DURATION_MS_MAX)] | None = None


def plan(body: SagaBody, caller: Caller) -> OpenSaga | No:
    """The plan of a body for the caller's own tenant and principal."""
    names = (("saga", body.saga), ("business_event", body.business_event), ("run", body.run))
    for field, name in names:
        wrong = None if name is None else wrong_name(field, name, Code.INVALID_BODY)
        if wrong is not None:
            return wrong
    steps: list[PlannedStep] = []
    for number, step in enumerate(body.steps):
        path = f"/steps/{number}"
        planned = _planned(step, body, caller, path)
        if isinstance(planned, No):
            return planned
        undo = step.compensation
        undone = None if undo is None else _planned(undo, body, caller, f"{path}/compensation")
        if isinstance(undone, No):
            return undone
        steps.append(
            PlannedStep(
                key=planned.key,
                request=planned.request,
                occurrence=planned.occurrence,
                compensation=undone,
                compensates=step.compensates,
            )
        )
    return OpenSaga(
        stream=stream_key(caller.tenant, body.business_event),
        saga=body.saga,
        principal=caller.principal,
        steps=tuple(steps),
        run=body.run,
        step_ms=body.step_ms,
        behalf=caller.behalf or None,
    )


def _planned(one: PlannedBody, body: SagaBody, caller: Caller, path: str) -> Planned | No:
    """One action of the plan, or what is wrong with it and where."""
    try:
        action_id = ActionId(body.business_event, one.item)
        key = ActionKey(one.operation, one.version, caller.tenant, action_id)
        request = Request(
            operation=one.operation,
            version=one.version,
            target=one.target,
            params=one.params,
            money=one.money,
            principal=caller.principal,
            environment=body.environment,
        )
        if one.occurrence is not None:
            check_component(one.occurrence, "occurrence")
    except MalformedId as malformed:
        where = f"{path}/{malformed.field}"
        return _no(Trouble(path=where, code="malformed_identifier", message=str(malformed)))
    except ValidationError as error:
        wrong = invalid(Code.INVALID_BODY, error)
        at_step = (t.model_copy(update={"path": f"{path}{t.path}"}) for t in wrong.problems)
        return No(Code.INVALID_BODY, problems=tuple(at_step))
    return Planned(key=str(key), request=request, occurrence=one.occurrence)


def _no(trouble: Trouble) -> No:
    return No(Code.INVALID_BODY, problems=(trouble,))


def cancellation(event: str, saga: str, reason: str | None, caller: Caller) -> CancelSaga | No:
    """The caller's word that a saga of its own tenant is not wanted any more."""
    for field, name in (("event", event), ("saga", saga)):
        wrong = wrong_name(field, name, Code.INVALID_PATH)
        if wrong is not None:
            return wrong
    return CancelSaga(
        stream=stream_key(caller.tenant, event),
        saga=saga,
        principal=caller.principal,
        reason=reason,
    )
