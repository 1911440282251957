"""The routes of sagas and batches: open a plan, look at it, call it off; look at a batch.

Guarantees that a 2xx answer to a plan means that all of it is durable, and that a saga of another
tenant is answered exactly as one that does not exist. Called by agents, through the SDK or without
it.
"""

from dataclasses import dataclass
from typing import Final

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.http import following
from gateway.http.bodies import (
    CancelBody,
    Poll,
    Wait,
    check_idempotency_key,
    read_json,
    read_model,
    read_optional_json,
    read_query,
    wrong_name,
)
from gateway.http.codes import Code
from gateway.http.doors import Doors, caller_of, doors_of, proposer_of
from gateway.http.limits import (
    CANCEL_BYTES_MAX,
    DECISION_MS_MAX,
    READ_AGAIN_MS,
    RUN_ACTIONS_MAX,
    SAGAS_LISTED_MAX,
    WAIT_MS_MAX,
    WAITERS_MAX,
)
from gateway.http.openapi import answer, header, json_body, optional_json_body, problems, query
from gateway.http.problems import LedgerPlace, No, Original, refused
from gateway.http.routes import DoorRoute
from gateway.http.run_views import cut
from gateway.http.saga_bodies import SagaBody, cancellation, plan
from gateway.http.saga_views import (
    BatchView,
    SagaList,
    SagaView,
    batch_view,
    next_action,
    saga_line,
    saga_view,
    undecided,
)
from gateway.http.seeing import may_ask, may_see
from gateway.keys import Caller
from ledger.client.client import Answer
from ledger.core.evolve import Place, evolve
from ledger.core.ids import ActionKey, stream_key
from ledger.core.inputs import OpenSaga, Propose
from ledger.core.rejections import Rejection
from ledger.core.sagas import Saga, saga_of
from ledger.core.state import Status, Stream

router = APIRouter(prefix="/v1", tags=["sagas"], route_class=DoorRoute)

_JSON: Final = "application/json"
_MS_PER_S: Final = 1_000
_WAIT: Final = query(
    "wait_ms", f"Answer later, at most after so many milliseconds (0 to {WAIT_MS_MAX})."
)
_UNDECIDED: Final = answer(202, SagaView, "Durable, and not decided in time.")
_OPENED: Final = (
    answer(200, SagaView, "A replay: the saga as it stands.")
    | answer(201, SagaView, "Recorded and durable, whole. Location names the saga.")
    | _UNDECIDED
    | problems(400, 401, 403, 404, 408, 409, 413, 415, 422, 500, 503)
)
_CANCELLED: Final = (
    answer(200, SagaView, "Called off, now or earlier.")
    | _UNDECIDED
    | problems(400, 401, 403, 404, 408, 409, 413, 415, 500, 503)
)


@dataclass(frozen=True, slots=True)
class _Yes:
    """A saga on its way to the caller, under a 2xx status."""

    view: SagaView
    status: int


def _response(answered: _Yes | No) -> Response:
    if isinstance(answered, No):
        return answered.response()
    return Response(
        answered.view.model_dump_json(exclude_none=True),
        status_code=answered.status,
        headers={"Location": answered.view.href},
        media_type=_JSON,
    )


def _shown(view: BaseModel | No) -> Response:
    if isinstance(view, No):
        return view.response()
    return Response(view.model_dump_json(exclude_none=True), media_type=_JSON)


# --- opening and calling off ---------------------------------------------------------------------


@router.post(
    "/sagas",
    operation_id="openSaga",
    summary="Open a saga",
    response_model=None,
    status_code=201,
    responses=_OPENED,
    openapi_extra=json_body(SagaBody)
    | {
        "parameters": [
            _WAIT,
            header(
                "Idempotency-Key",
                "Optional, and checked: the business event and the saga as `event/saga`, or the "
                "saga alone. It follows from the body, and is never forgotten.",
            ),
        ]
    },
)
async def open_saga(http: HttpRequest) -> Response:
    """Record a plan whole or not at all, and answer how it stands.

    The same plan again is the same saga: nothing happens twice. After 503, a timeout or a lost
    connection open the same again.
    """
    return _response(await _answer_open(http, doors_of(http)))


async def _answer_open(http: HttpRequest, doors: Doors) -> _Yes | No:
    caller = proposer_of(http, doors)
    if isinstance(caller, No):
        return caller
    wait = read_query(Wait, http)
    if isinstance(wait, No):
        return wait
    value = await read_json(http)
    if isinstance(value, No):
        return value
    body = read_model(SagaBody, value, Code.INVALID_BODY)
    if isinstance(body, No):
        return body
    given = plan(body, caller)
    if isinstance(given, No):
        return given
    name = f"{body.business_event}/{body.saga}"
    differs = check_idempotency_key(http.headers, name, body.saga)
    if differs is not None:
        return differs
    paused, quota, first = doors.runs_paused, doors.waiting_quota, _first_step(given)
    over = None if paused is None else await paused.refusal(doors, first, caller)
    if over is None and quota is not None:
        over = await quota.refusal(doors, first)
    if over is not None:
        return over
    asked = await following.ask(doors.ledger.open_saga(given, timeout_ms=DECISION_MS_MAX))
    if isinstance(asked, No):
        return asked
    if isinstance(asked, following.Undecided):
        return _Yes(undecided(caller.tenant, body.business_event, body.saga), 202)
    view = _refusal(asked) or await _view_after(doors, given.stream, given.saga, asked)
    if quota is not None and not _waits_for_people(view):
        quota.settled(first)
    if isinstance(view, No):
        return view
    if wait.wait_ms:
        view = await _until_settled(doors, given.stream, view, wait.wait_ms)
    return _Yes(view, 201 if asked.decision.facts else 200)


def _first_step(given: OpenSaga) -> Propose:
    """The step about which people may be asked at once; about the others they are asked later."""
    return Propose(key=given.steps[0].key, request=given.steps[0].request, run=given.run)


def _waits_for_people(view: SagaView | No) -> bool:
    return isinstance(view, SagaView) and view.steps[0].action.status == Status.AWAITING_APPROVAL


async def _view_after(doors: Doors, stream: str, saga: str, asked: Answer) -> SagaView | No:
    """The view of a saga once a decision about it stands."""
    found = await _saga_after(doors, stream, saga, asked)
    return found if isinstance(found, No) else _view(found, asked)


@router.post(
    "/sagas/{event}/{saga}/cancel",
    operation_id="cancelSaga",
    summary="Call a saga off",
    response_model=None,
    responses=_CANCELLED,
    openapi_extra=optional_json_body(CancelBody),
)
async def cancel_saga(http: HttpRequest, event: str, saga: str) -> Response:
    """What has not begun never begins; what is open is settled, and what was done is undone."""
    return _response(await _answer_cancel(http, doors_of(http), event, saga))


async def _answer_cancel(http: HttpRequest, doors: Doors, event: str, saga: str) -> _Yes | No:
    caller = proposer_of(http, doors)
    if isinstance(caller, No):
        return caller
    value = await read_optional_json(http, bytes_max=CANCEL_BYTES_MAX)
    body = value if isinstance(value, No) else read_model(CancelBody, value, Code.INVALID_BODY)
    if isinstance(body, No):
        return body
    given = cancellation(event, saga, body.reason, caller)
    if isinstance(given, No):
        return given
    known = await _allowed_saga(doors, caller, event, saga)
    if isinstance(known, No):
        return known
    asked = await following.ask(doors.ledger.cancel_saga(given, timeout_ms=DECISION_MS_MAX))
    if isinstance(asked, No):
        return asked
    if isinstance(asked, following.Undecided):
        return _Yes(undecided(caller.tenant, event, saga), 202)
    view = _refusal(asked) or await _view_after(doors, given.stream, saga, asked)
    return view if isinstance(view, No) else _Yes(view, 200)


def _refusal(asked: Answer) -> No | None:
    """Why the ledger refused or quarantined the input, or None."""
    decision = asked.decision
    place = LedgerPlace(partition=asked.partition, offset=decision.at)
    if decision.quarantined is not None:
        return No(Code.QUARANTINED, detail=decision.quarantined.reason, ledger=place)
    if decision.refused is None:
        return None
    original = None
    if decision.refused.action is not None:
        key = decision.refused.action
        original = Original(key=key, href=f"/v1/actions/{key}")
    return refused(decision.refused, place=place, original=original)


async def _saga_after(doors: Doors, stream: str, saga: str, asked: Answer) -> Saga | No:
    """The saga once a decision about it stands. It is taken from what this process followed, else
    from the decision itself where that began the saga, else from the read model.
    """
    known = doors.ledger.saga(stream, saga)
    if known is not None:
        return known
    if asked.decision.facts and asked.decision.facts[0].type == "intent.recorded":
        begun = Stream(stream)
        for fact in asked.decision.facts:
            begun = evolve(begun, fact, Place(asked.decision.at, asked.decision.decided_at))
        opened = saga_of(begun, saga)
        if opened is not None:
            return opened
    return await current(doors, stream, saga)


def _view(saga: Saga, asked: Answer) -> SagaView:
    place = LedgerPlace(partition=asked.partition, offset=asked.decision.at)
    return saga_view(saga, replayed=not asked.decision.facts, ledger=place)


# --- looking -------------------------------------------------------------------------------------


@router.get(
    "/sagas/{event}/{saga}",
    operation_id="getSaga",
    summary="Look at a saga",
    response_model=None,
    responses=answer(200, SagaView, "As it stands.") | problems(400, 401, 404, 503),
    openapi_extra={
        "parameters": [
            _WAIT,
            query("after_version", "With wait_ms: answer once the version is above this one."),
        ]
    },
)
async def get_saga(http: HttpRequest, event: str, saga: str) -> Response:
    """How the saga stands, at once or as soon as it moves."""
    doors = doors_of(http)
    caller = caller_of(http, doors)
    if isinstance(caller, No):
        return caller.response()
    poll = read_query(Poll, http)
    if isinstance(poll, No):
        return poll.response()
    found = await _allowed_saga(doors, caller, event, saga)
    if isinstance(found, No):
        return found.response()
    view = saga_view(found)
    if poll.wait_ms:
        view = await _until_later(
            doors, stream_key(caller.tenant, event), view, poll.after_version or 0, poll.wait_ms
        )
    return _shown(view)


async def _allowed_saga(doors: Doors, caller: Caller, event: str, saga: str) -> Saga | No:
    """The saga of a path, if it is of the caller's tenant and, for an agent, of operations that it
    may ask for. Any other is answered like one that does not exist.
    """
    for field, name in (("event", event), ("saga", saga)):
        wrong = wrong_name(field, name, Code.INVALID_PATH)
        if wrong is not None:
            return wrong
    found = await current(doors, stream_key(caller.tenant, event), saga)
    if isinstance(found, No):
        return found
    operations = {ActionKey.parse(one.key).operation for one in found.actions}
    may = await may_ask(doors, caller, *operations)
    if isinstance(may, No):
        return may
    return found if may else No(Rejection.UNKNOWN_SAGA)


async def current(doors: Doors, stream: str, saga: str) -> Saga | No:
    """How a saga stands: as the log says where this process followed it, else the read model."""
    followed = doors.ledger.saga(stream, saga)
    if followed is not None:
        return followed
    found = await following.read(doors.queries.saga(stream, saga))
    return No(Rejection.UNKNOWN_SAGA) if found is None else found


async def _until_settled(doors: Doors, stream: str, view: SagaView, wait_ms: int) -> SagaView:
    """The saga once it does not move by itself within seconds, or after `wait_ms`."""
    deadline_s = doors.monotonic_s() + wait_ms / _MS_PER_S
    while _moves(view):
        left_ms = int((deadline_s - doors.monotonic_s()) * _MS_PER_S)
        later = await _until_later(doors, stream, view, view.version, left_ms)
        if later.version == view.version:
            break
        view = later.model_copy(update={"replayed": view.replayed, "ledger": view.ledger})
    return view


def _moves(view: SagaView) -> bool:
    """Whether the action that a saga goes on with moves by itself within seconds."""
    actions = (one for step in view.steps for one in (step.action, step.compensation))
    key = None if view.next is None else view.next.key
    return any(one is not None and one.key == key and one.is_moving for one in actions)


async def _until_later(
    doors: Doors, stream: str, view: SagaView, after_version: int, wait_ms: int
) -> SagaView:
    """The saga once its version is above `after_version`, or as it is when the time is up."""
    deadline_s = doors.monotonic_s() + wait_ms / _MS_PER_S
    heard: dict[str, int] = {}
    if doors.waiters >= WAITERS_MAX:
        return view
    with doors.waiting():
        while view.version <= after_version and not view.is_final and not doors.is_stopping:
            left_ms = int((deadline_s - doors.monotonic_s()) * _MS_PER_S)
            found = await current(doors, stream, view.saga)
            if isinstance(found, No):
                return view
            view = saga_view(found)
            if left_ms <= 0 or view.version > after_version:
                return view
            turn = next_action(found)
            if turn is None:
                return view
            # A success is heard of before it is decided: what was heard is not waited for again.
            after = max(turn.version, heard.get(turn.key, 0))
            told = await doors.ledger.progress(
                turn.key, after_version=after, timeout_ms=min(left_ms, READ_AGAIN_MS)
            )
            if told is not None:
                heard[turn.key] = told.version
    return view


@router.get(
    "/sagas",
    operation_id="listSagas",
    summary="Look at the newest sagas",
    response_model=None,
    responses=answer(200, SagaList, f"The newest {SAGAS_LISTED_MAX}, newest first.")
    | problems(400, 401, 503),
)
async def list_sagas(http: HttpRequest) -> Response:
    """Sagas of the tenant, each with how far it is."""
    doors = doors_of(http)
    caller = caller_of(http, doors)
    return _shown(caller if isinstance(caller, No) else await saga_list(doors, caller.tenant))


async def saga_list(doors: Doors, tenant: str) -> SagaList | No:
    """The newest sagas of a tenant, from the read model."""
    rows = await following.read(doors.queries.sagas(tenant, limit=SAGAS_LISTED_MAX))
    if isinstance(rows, No):
        return rows
    return SagaList(now=doors.wall_clock_ms(), sagas=tuple(saga_line(one) for one in rows))


@router.get(
    "/batches/{batch}",
    operation_id="getBatch",
    summary="Look at a batch",
    response_model=None,
    responses=answer(200, BatchView, "As it stands.") | problems(400, 401, 404, 503),
)
async def get_batch(http: HttpRequest, batch: str) -> Response:
    """Independent actions that were proposed under one name, by status."""
    doors = doors_of(http)
    caller = caller_of(http, doors)
    return _shown(caller if isinstance(caller, No) else await _batch(doors, caller, batch))


async def _batch(doors: Doors, caller: Caller, batch: str) -> BatchView | No:
    wrong = wrong_name("batch", batch, Code.INVALID_PATH)
    if wrong is not None:
        return wrong
    rows = await following.read(
        doors.queries.actions_of_batch(caller.tenant, batch, limit=RUN_ACTIONS_MAX)
    )
    if isinstance(rows, No):
        return rows
    seen = await may_see(doors, caller, rows)
    if not seen:
        return No(Code.NOT_FOUND, detail=f"No action of a batch {batch} is known.")
    return batch_view(batch, seen, more=cut(rows))
