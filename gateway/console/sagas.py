"""Sagas: the newest ones, and one with its steps in order, what undoes each, and what is next.

Guarantees that a page shows nothing of a tenant that its reader is not registered for: such a saga
is answered as one that does not exist. Looking changes nothing.
"""

from asyncio import to_thread
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.console.refusals import PageNo
from gateway.console.request import Answer, Seen, looked
from gateway.http.saga_views import SagaLine, saga_line, saga_view
from ledger.core.ids import ActionKey
from ledger.core.people import EVERY_TENANT
from ledger.core.sagas import Saga
from ledger.core.state import Action

router = APIRouter(prefix="/console", include_in_schema=False)

SAGAS_SHOWN: Final = 50
"""Sagas of the list, the newest."""


@dataclass(frozen=True, slots=True)
class Line:
    """One saga of the list."""

    tenant: str
    saga: SagaLine


@dataclass(frozen=True, slots=True)
class StepLine:
    """One step, or what undoes it, in words. `target` is what an agent wrote: shown as plain
    text.
    """

    key: str
    href: str
    status: str
    operation: str
    target: str | None
    told: str


@dataclass(frozen=True, slots=True)
class StepShown:
    """A step and its undo. `is_next`: the saga goes on with it, or waits for it."""

    number: int
    step: StepLine
    undo: StepLine | None
    undone: str
    is_next: bool


@router.get("/sagas")
async def sagas_page(http: HttpRequest) -> Response:
    """The newest sagas."""
    return await looked(http, _sagas)


@router.get("/sagas/{tenant}/{event}/{saga}")
async def saga_page(http: HttpRequest, tenant: str, event: str, saga: str) -> Response:
    """One saga."""

    async def work(seen: Seen) -> Answer:
        if not seen.visitor.person.may_decide_for(tenant):
            return PageNo.NOT_FOUND
        found = await seen.console.port.saga(tenant, event, saga)
        if found is None:
            return PageNo.NOT_FOUND
        return await to_thread(_saga, seen, found, tenant)

    return await looked(http, work)


async def _sagas(seen: Seen) -> Answer:
    person = seen.visitor.person
    found = await seen.console.port.sagas(person.tenants, limit=SAGAS_SHOWN)
    return await to_thread(_list, seen, found)


def _list(seen: Seen, found: Sequence[Saga]) -> Answer:
    """The page of the list. In a thread: fifty plans take long."""
    person = seen.visitor.person
    context = {
        "lines": [
            Line(ActionKey.parse(one.steps[0].action.key).tenant, saga_line(one)) for one in found
        ],
        "tenants_shown": (
            "all tenants" if EVERY_TENANT in person.tenants else ", ".join(person.tenants)
        ),
    }
    return seen.page("sagas", context)


def _saga(seen: Seen, found: Saga, tenant: str) -> Answer:
    """The page of a saga."""
    return seen.page("saga", saga_shown(found, tenant))


def saga_shown(saga: Saga, tenant: str) -> dict[str, object]:
    """What the page of a saga is made of."""
    view = saga_view(saga)
    return {
        "saga": view,
        "tenant": tenant,
        "steps": [_shown(saga, number) for number in range(len(saga.steps))],
        "cases": [(key, f"/console/review/{quote(key, safe=':~')}") for key in view.cases],
    }


UNDONE: Final = {
    "planned": "planned, if it is needed",
    "needed": "its turn now",
    "done": "undone",
    "not_needed": "not needed",
    "by_a_person": "taken over by a person",
    None: "nothing planned",
}


def _shown(saga: Saga, number: int) -> StepShown:
    view, step = saga_view(saga), saga.steps[number]
    undone = view.steps[number].undone
    return StepShown(
        number=step.number,
        step=_line(step.action),
        undo=None if step.compensation is None else _line(step.compensation),
        undone=UNDONE[undone],
        is_next=view.next is not None and view.next.step == step.number,
    )


def _line(action: Action) -> StepLine:
    told = (action.reference, action.code, action.review if action.case is not None else None)
    return StepLine(
        key=action.key,
        href=f"/console/actions/{quote(action.key, safe=':~')}",
        status=action.status.value,
        operation=action.request.operation,
        target=action.request.target,
        told=" ".join(part for part in told if part),
    )
