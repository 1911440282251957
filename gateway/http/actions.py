"""The routes of actions: propose, look, follow, cancel, timeline.

Guarantees that a 2xx answer to a proposal means that the intent is durable, and that an action of
another tenant is answered exactly as one that does not exist. Called by agents, through the SDK or
without it.
"""

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.http import following, views
from gateway.http.bodies import (
    CancelBody,
    NothingBody,
    OutcomeBody,
    Poll,
    ProposeBody,
    Wait,
    check_idempotency_key,
    own_key,
    proposal,
    read_json,
    read_model,
    read_optional_json,
    read_query,
    report,
)
from gateway.http.codes import Code
from gateway.http.doors import Doors, caller_of, doors_of, proposer_of
from gateway.http.limits import (
    CANCEL_BYTES_MAX,
    DECISION_MS_MAX,
    NAMES_COMPARED_MAX,
    VERSIONS_NAMED_MAX,
    WAIT_MS_MAX,
)
from gateway.http.openapi import answer, header, json_body, optional_json_body, problems, query
from gateway.http.persons import is_from_person, looking_at
from gateway.http.problems import No, Trouble
from gateway.http.routes import DoorRoute
from gateway.http.seeing import may_ask, timeline_told, told_to
from gateway.http.timeline import TimelineView, timeline_of
from gateway.http.views import ActionView
from gateway.keys import Caller, Role
from ledger.client.client import Answer
from ledger.core.ids import ActionKey
from ledger.core.inputs import AskAgain, Cancel
from ledger.core.rejections import Rejection
from ledger.core.state import Status

router = APIRouter(prefix="/v1/actions", tags=["actions"], route_class=DoorRoute)

_JSON: Final = "application/json"
_COUNTED: Final = {200: "replayed", 201: "new", 202: "undecided"}
_WAIT: Final = query(
    "wait_ms", f"Answer later, at most after so many milliseconds (0 to {WAIT_MS_MAX})."
)
_UNDECIDED: Final = answer(202, ActionView, "Durable, and not decided in time.")
_PROPOSED: Final = (
    answer(200, ActionView, "A replay: the action as it stands.")
    | answer(201, ActionView, "Recorded and durable. Location names the action.")
    | _UNDECIDED
    | problems(400, 401, 403, 408, 409, 413, 415, 422, 500, 503)
)
_CANCELLED: Final = (
    answer(200, ActionView, "Cancelled, now or earlier.")
    | _UNDECIDED
    | problems(400, 401, 403, 404, 408, 409, 413, 415, 500, 503)
)
_ASKED: Final = (
    answer(200, ActionView, "People are asked, now or already.")
    | _UNDECIDED
    | problems(400, 401, 403, 404, 408, 409, 413, 415, 500, 503)
)
_REPORTED: Final = (
    answer(200, ActionView, "Recorded: the action as it stands.")
    | _UNDECIDED
    | problems(400, 401, 403, 404, 408, 409, 413, 415, 500, 503)
)


@dataclass(frozen=True, slots=True)
class _Yes:
    """An action on its way to the caller, under a 2xx status."""

    view: ActionView
    status: int


@router.post(
    "",
    operation_id="propose",
    summary="Propose an action",
    response_model=None,
    status_code=201,
    responses=_PROPOSED,
    openapi_extra=json_body(ProposeBody)
    | {
        "parameters": [
            _WAIT,
            header(
                "Idempotency-Key",
                "Optional, and checked: the action key, or its action id. It follows from the "
                "body, and is never forgotten.",
            ),
        ]
    },
)
async def propose(http: HttpRequest) -> Response:
    """Record the intent, decide it, and answer how the action stands.

    The same intent again is the same action: nothing happens twice. After 503, a timeout or a lost
    connection ask again with the same body.
    """
    doors = doors_of(http)
    answered = await _answer_proposal(http, doors)
    if isinstance(answered, No):
        doors.metrics.intent(answered.code.value)
        return answered.response()
    doors.metrics.intent(_COUNTED[answered.status])
    return _response(answered)


async def _answer_proposal(http: HttpRequest, doors: Doors) -> _Yes | No:
    caller = proposer_of(http, doors)
    if isinstance(caller, No):
        return caller
    wait = read_query(Wait, http)
    if isinstance(wait, No):
        return wait
    value = await read_json(http)
    if isinstance(value, No):
        return value
    body = read_model(ProposeBody, value, Code.INVALID_BODY)
    if isinstance(body, No):
        return body
    given = proposal(body, caller)
    if isinstance(given, No):
        return given
    action_id = str(ActionKey.parse(given.key).action_id)
    differs = check_idempotency_key(http.headers, given.key, action_id)
    if differs is not None:
        return differs
    paused, quota = doors.runs_paused, doors.waiting_quota
    over = None if paused is None else await paused.refusal(doors, given, caller)
    if over is None and quota is not None:
        over = await quota.refusal(doors, given)
    if over is not None:
        return over
    asked = await following.ask(doors.ledger.propose(given, timeout_ms=DECISION_MS_MAX))
    if isinstance(asked, No):
        return asked
    if isinstance(asked, following.Undecided):
        return _Yes(views.undecided(given.key), 202)
    view = await following.decided(doors, given.key, asked)
    if quota is not None and not _waits_for_people(view):
        quota.settled(given)
    if isinstance(view, No):
        # Nothing is said of an action to somebody who may not ask for its like.
        is_told = await may_ask(doors, caller, given.request.operation)
        if isinstance(is_told, No):
            return is_told
        if not is_told:
            return No(Rejection.NOT_ALLOWED, ledger=view.ledger)
        is_slip = view.code is Rejection.UNKNOWN_OPERATION
        return replace(view, problems=(_meant(doors, caller, body),)) if is_slip else view
    status = 200 if view.replayed else 201
    started = given.caller and doors.ledger.caller_start(given.key, given.caller.nonce)
    if started:
        # Nothing moves before the caller has acted.
        return _Yes(views.with_start(view, started), status)
    if wait.wait_ms:
        view = await following.until_settled(doors, view, wait.wait_ms)
    return _Yes(await told_to(doors, caller, view), status)


def _waits_for_people(view: ActionView | No) -> bool:
    return isinstance(view, ActionView) and view.status == Status.AWAITING_APPROVAL


@router.get(
    "/{key}",
    operation_id="getAction",
    summary="Look at an action",
    response_model=None,
    responses=answer(200, ActionView, "As it stands.") | problems(400, 401, 404, 503),
    openapi_extra={
        "parameters": [
            _WAIT,
            query("after_version", "With wait_ms: answer once the version is above this one."),
        ]
    },
)
async def get_action(http: HttpRequest, key: str) -> Response:
    """How the action stands, at once or as soon as it moves."""
    doors = doors_of(http)
    answered = await _answer_look(http, doors, key)
    return answered.response() if isinstance(answered, No) else _response(answered)


async def _answer_look(http: HttpRequest, doors: Doors, text: str) -> _Yes | No:
    asking = await _key_of(http, doors, text)
    if isinstance(asking, No):
        return asking
    caller, key = asking
    poll = read_query(Poll, http)
    if isinstance(poll, No):
        return poll
    known = await following.current(doors, str(key))
    after = poll.after_version
    if poll.wait_ms and (isinstance(known, No) or (after is not None and known.version <= after)):
        later = await following.until_later(doors, str(key), after or 0, poll.wait_ms)
        known = known if later is None else later
    return known if isinstance(known, No) else _Yes(await told_to(doors, caller, known), 200)


@router.get(
    "/{key}/timeline",
    operation_id="getTimeline",
    summary="Look at everything that happened to an action",
    response_model=None,
    responses=answer(200, TimelineView, "Its facts in order, each with its cause.")
    | problems(400, 401, 404, 503),
)
async def get_timeline(http: HttpRequest, key: str) -> Response:
    """Every recorded fact of the action, from the read model."""
    doors = doors_of(http)
    asking = await _key_of(http, doors, key)
    if isinstance(asking, No):
        return asking.response()
    caller, own = asking
    answered = await timeline_of(doors, own)
    if isinstance(answered, No):
        return answered.response()
    told = await timeline_told(doors, caller, answered)
    return Response(told.model_dump_json(exclude_none=True), media_type=_JSON)


@router.post(
    "/{key}/cancel",
    operation_id="cancel",
    summary="Take an action back",
    response_model=None,
    responses=_CANCELLED,
    openapi_extra=optional_json_body(CancelBody),
)
async def cancel(http: HttpRequest, key: str) -> Response:
    """Take back an action of which no attempt can have had an effect; again changes nothing."""
    doors = doors_of(http)
    answered = await _answer_cancel(http, doors, key)
    return answered.response() if isinstance(answered, No) else _response(answered)


async def _answer_cancel(http: HttpRequest, doors: Doors, text: str) -> _Yes | No:
    asking = await _proposer_of(http, doors, text)
    if isinstance(asking, No):
        return asking
    caller, key = asking
    value = await read_optional_json(http, bytes_max=CANCEL_BYTES_MAX)
    body = value if isinstance(value, No) else read_model(CancelBody, value, Code.INVALID_BODY)
    if isinstance(body, No):
        return body
    given = Cancel(key=str(key), principal=caller.principal, reason=body.reason)
    return await _view_after(
        doors, caller, given.key, doors.ledger.cancel(given, timeout_ms=DECISION_MS_MAX)
    )


async def _view_after(
    doors: Doors, caller: Caller | None, key: str, asking: Awaitable[Answer]
) -> _Yes | No:
    """How an action stands once the ledger has answered what was asked about it; a `caller` of None
    is a person.
    """
    asked = await following.ask(asking)
    if isinstance(asked, No):
        return asked
    if isinstance(asked, following.Undecided):
        return _Yes(views.undecided(key), 202)
    view = await following.decided(doors, key, asked)
    if isinstance(view, No):
        return view
    return _Yes(view if caller is None else await told_to(doors, caller, view), 200)


@router.post(
    "/{key}/ask",
    operation_id="askAgain",
    summary="Have people asked once more",
    response_model=None,
    responses=_ASKED,
    openapi_extra={"security": [{"apiKey": []}, {"login": []}]},
)
async def ask_again(http: HttpRequest, key: str) -> Response:
    """Ask people again after nobody decided in time; while they are asked it changes nothing."""
    doors = doors_of(http)
    answered = await _answer_ask_again(http, doors, key)
    return answered.response() if isinstance(answered, No) else _response(answered)


async def _answer_ask_again(http: HttpRequest, doors: Doors, text: str) -> _Yes | No:
    asking = await _asker_of(http, doors, text)
    if isinstance(asking, No):
        return asking
    caller, principal, key = asking
    value = await read_optional_json(http, bytes_max=CANCEL_BYTES_MAX)
    body = value if isinstance(value, No) else read_model(NothingBody, value, Code.INVALID_BODY)
    if isinstance(body, No):
        return body
    given = AskAgain(key=str(key), principal=principal)
    return await _view_after(
        doors, caller, given.key, doors.ledger.ask_again(given, timeout_ms=DECISION_MS_MAX)
    )


async def _asker_of(
    http: HttpRequest, doors: Doors, text: str
) -> tuple[Caller | None, str, ActionKey] | No:
    """Who may have people asked again: whoever may propose for the tenant, or decide for it. With
    the caller where it is one, and the name under which it is asked.
    """
    if not is_from_person(http, doors):
        asking = await _proposer_of(http, doors, text)
        return asking if isinstance(asking, No) else (asking[0], asking[0].principal, asking[1])
    looking = await looking_at(http, doors, text)
    return looking if isinstance(looking, No) else (None, looking[0].name, looking[1])


@router.post(
    "/{key}/outcome",
    operation_id="reportOutcome",
    summary="Say what became of an action that you performed yourself",
    response_model=None,
    responses=_REPORTED,
    openapi_extra=json_body(OutcomeBody),
)
async def report_outcome(http: HttpRequest, key: str) -> Response:
    """Record the caller's own word on the attempt that its start named; again changes nothing."""
    doors = doors_of(http)
    answered = await _answer_outcome(http, doors, key)
    return answered.response() if isinstance(answered, No) else _response(answered)


async def _answer_outcome(http: HttpRequest, doors: Doors, text: str) -> _Yes | No:
    asking = await _proposer_of(http, doors, text)
    if isinstance(asking, No):
        return asking
    caller, key = asking
    value = await read_json(http)
    if isinstance(value, No):
        return value
    body = read_model(OutcomeBody, value, Code.INVALID_BODY)
    if isinstance(body, No):
        return body
    given = report(str(key), body, caller)
    asked = await following.ask(doors.ledger.report(given, timeout_ms=DECISION_MS_MAX))
    if isinstance(asked, following.Undecided):
        doors.metrics.outcome(given.outcome.kind)
        return _Yes(views.undecided(given.key), 202)
    view = asked if isinstance(asked, No) else await following.decided(doors, given.key, asked)
    doors.metrics.outcome(view.code.value if isinstance(view, No) else given.outcome.kind)
    return view if isinstance(view, No) else _Yes(await told_to(doors, caller, view), 200)


async def _proposer_of(http: HttpRequest, doors: Doors, text: str) -> tuple[Caller, ActionKey] | No:
    """Who asks, and the key of a path, if they may change that action."""
    caller = proposer_of(http, doors)
    if isinstance(caller, No):
        return caller
    key = await _allowed_key(doors, text, caller)
    return key if isinstance(key, No) else (caller, key)


async def _key_of(http: HttpRequest, doors: Doors, text: str) -> tuple[Caller, ActionKey] | No:
    """Who asks, and the key of a path, if they may look at that action."""
    caller = caller_of(http, doors)
    if isinstance(caller, No):
        return caller
    key = await _allowed_key(doors, text, caller)
    return key if isinstance(key, No) else (caller, key)


async def _allowed_key(doors: Doors, text: str, caller: Caller) -> ActionKey | No:
    """The key of a path, if it is of the caller's tenant and, for an agent, of an operation that it
    may ask for. Any other is answered like a key that nobody ever used.
    """
    key = own_key(text, caller)
    if isinstance(key, No):
        return key
    may = await may_ask(doors, caller, key.operation)
    if isinstance(may, No):
        return may
    return key if may else No(Rejection.UNKNOWN_ACTION)


def _meant(doors: Doors, caller: Caller, body: ProposeBody) -> Trouble:
    """What was not declared, and what was meant by it: of what the caller may ask for alone."""
    catalogue = doors.published().catalogue
    known = [
        one
        for one in (() if catalogue is None else catalogue.operations)
        if caller.role is not Role.AGENT or one.allows(caller.principal)
    ]
    versions = sorted(one.version for one in known if one.name == body.operation)
    if body.version in versions:
        # The door has read a newer catalogue than the partition had adopted when it decided.
        return Trouble(
            path="/version",
            code="not_adopted_yet",
            message=f"{body.operation} v{body.version} has just been published: ask again",
        )
    if versions:
        there = " and ".join(map(str, versions[-VERSIONS_NAMED_MAX:]))
        return Trouble(
            path="/version",
            code="unknown_version",
            message=f"{body.operation} has version {there}",
        )
    close = get_close_matches(body.operation, {one.name for one in known[:NAMES_COMPARED_MAX]}, n=1)
    meant = f"; did you mean {close[0]}?" if close else ""
    message = f"the catalogue has no operation {body.operation}{meant}"
    return Trouble(path="/operation", code="unknown_operation", message=message)


def _response(yes: _Yes) -> Response:
    view = yes.view
    return Response(
        view.model_dump_json(exclude_none=True),
        status_code=yes.status,
        headers={"Location": view.href, "Idempotency-Key": f'"{view.key}"'},
        media_type=_JSON,
    )
