"""The routes of people: what waits for them, what they would sign, what they have signed.

Guarantees that nothing is written of a decision that no registered person has signed for this
ledger and this action, and that what counts is said by the ledger alone. A signature is its own
authority: no API key takes or replaces one. Called by the command line and by people's own tools.
"""

import hashlib
import logging
from typing import Final

from fastapi import APIRouter
from pydantic import JsonValue
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.http import following
from gateway.http.bodies import parsed_key, read_json, read_model
from gateway.http.codes import Code
from gateway.http.doors import Doors, doors_of
from gateway.http.limits import (
    DECISION_MS_MAX,
    JUDGEMENT_BYTES_MAX,
    JUDGEMENTS_IN_FLIGHT_MAX,
    SHEETS_MAX,
)
from gateway.http.openapi import answer, json_body, problems
from gateway.http.persons import looking_at, person_of, readable
from gateway.http.problems import No
from gateway.http.routes import DoorRoute
from gateway.http.sheets import DecisionSheet, WaitingList, entry_of, for_person, sheet_of
from gateway.http.views import ActionView, undecided
from ledger.core.inputs import Judge
from ledger.core.rejections import Rejection
from ledger.core.statement import Signed
from ledger.core.wire import Text, Wire
from ledger.signing.reading import Read, read_signed

logger = logging.getLogger("actionledger.http")

router = APIRouter(prefix="/v1", tags=["approvals"], route_class=DoorRoute)

_JSON: Final = "application/json"


class DecisionBody(Wire):
    """What a person signed about one action, with its proof: a compact JWS of their own key, or a
    passkey's assertion. Who they are and what they said stands in it.
    """

    key: Text
    signed: Signed


@router.post(
    "/decisions",
    operation_id="decide",
    summary="Hand in what a person has signed",
    response_model=None,
    responses=answer(200, ActionView, "It counts, now or earlier: the action as it stands.")
    | answer(202, ActionView, "Durable, and not decided in time.")
    | problems(400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 503),
    openapi_extra=json_body(DecisionBody) | {"security": []},
)
async def decide(http: HttpRequest) -> Response:
    """Record a person's decision and answer what it counts. The same again counts once."""
    doors = doors_of(http)
    value = await read_json(http, bytes_max=JUDGEMENT_BYTES_MAX)
    answered = value if isinstance(value, No) else await _in_turn(doors, value)
    if isinstance(answered, No):
        doors.metrics.decision(answered.code.value)
        return answered.response()
    view, status, said = answered
    doors.metrics.decision(said)
    return Response(
        view.model_dump_json(exclude_none=True),
        status_code=status,
        headers={"Location": view.href},
        media_type=_JSON,
    )


async def _in_turn(doors: Doors, value: JsonValue) -> tuple[ActionView, int, str] | No:
    if doors.judgements_in_flight >= JUDGEMENTS_IN_FLIGHT_MAX:
        return No(Code.TOO_BUSY)
    doors.judgements_in_flight += 1
    try:
        return await _decided(doors, value)
    finally:
        doors.judgements_in_flight -= 1


async def _decided(doors: Doors, value: JsonValue) -> tuple[ActionView, int, str] | No:
    body = read_model(DecisionBody, value, Code.INVALID_BODY)
    if isinstance(body, No):
        return body
    key = parsed_key(body.key)
    if isinstance(key, No):
        return key
    given = Judge(key=body.key, signed=body.signed)
    read = await proven(doors, given)
    if isinstance(read, No):
        return read
    asked = await following.ask(doors.ledger.judge(given, timeout_ms=DECISION_MS_MAX))
    if isinstance(asked, No):
        return asked
    said = str(read.statement.decision)
    if isinstance(asked, following.Undecided):
        return undecided(given.key), 202, said
    view = await following.decided(doors, given.key, asked)
    return view if isinstance(view, No) else (view, 200, said)


async def proven(doors: Doors, given: Judge) -> Read | No:
    """Who signed what, by the people in force; or why nothing of it is written. What the ledger
    makes of it is for the ledger to say.
    """
    read = await doors.by_newest(
        lambda: read_signed(given.signed, doors.published().people),
        lambda said: said is Rejection.UNKNOWN_SIGNER,
    )
    if isinstance(read, No):
        return read
    if not isinstance(read, Read):
        return _refuse_unseen(doors, read)
    if read.statement.ledger != doors.ledger_id:
        return _refuse_unseen(doors, Rejection.OTHER_LEDGER)
    if read.statement.key != given.key:
        return _refuse_unseen(doors, Rejection.OTHER_ACTION)
    return read if _is_within_limits(doors, given, read.person) else No(Code.TOO_MANY_DECISIONS)


def _is_within_limits(doors: Doors, given: Judge, person: str) -> bool:
    """Count a decision, unless it or its person comes too often; whether it was counted. Somebody
    who has got hold of a decision and sends it again and again uses up the limit of that decision,
    not of the person who signed it, and fills no log.
    """
    now_s = doors.monotonic_s()
    same = hashlib.sha256(given.model_dump_json().encode()).hexdigest()
    is_new = not doors.repeats.times(same, now_s)
    if is_new and not doors.signers.allows(person, now_s):
        return False
    return doors.repeats.allows(same, now_s)


def _refuse_unseen(doors: Doors, code: Rejection) -> No:
    """A refusal without a look at the action; a flood of them is logged every few seconds."""
    unsaid = doors.refusals_logged.left_out(("decision", code.value), doors.monotonic_s())
    if unsaid is not None:
        logger.warning("decision_refused", extra={"reason": code.value, "unsaid": unsaid})
    return No(code)


@router.get(
    "/approvals",
    operation_id="listApprovals",
    summary="Look at what waits for people",
    response_model=None,
    responses=answer(
        200,
        WaitingList,
        f"Oldest first; of more than {SHEETS_MAX} those that can be decided now before the rest.",
    )
    | problems(400, 401, 503),
    openapi_extra={"security": [{"login": []}]},
)
async def list_approvals(http: HttpRequest) -> Response:
    """Everything that people are asked about, of the tenants for which this person decides."""
    doors = doors_of(http)
    person = await person_of(http, doors)
    if isinstance(person, No):
        return person.response()
    rows = await following.read(doors.queries.waiting(person.tenants, limit=SHEETS_MAX + 1))
    if isinstance(rows, No):
        return rows.response()
    now_ms = doors.wall_clock_ms()
    known = doors.published()
    # Cut before it is put in order of time: what can be decided now comes before what ran out.
    entries = [entry_of(row, known, now_ms=now_ms) for row in rows[:SHEETS_MAX]]
    found = WaitingList(
        ledger=doors.ledger_id,
        now=now_ms,
        you=person.name,
        tenants=person.tenants,
        waiting=tuple(sorted(entries, key=lambda one: one.since)),
        more=True if len(rows) > SHEETS_MAX else None,
    )
    return Response(found.model_dump_json(exclude_none=True), media_type=_JSON)


@router.get(
    "/approvals/{key}",
    operation_id="getApproval",
    summary="Look at everything that a person would sign about an action",
    response_model=None,
    responses=answer(200, DecisionSheet, "The whole of it.") | problems(400, 401, 404, 503),
    openapi_extra={"security": [{"login": []}]},
)
async def get_approval(http: HttpRequest, key: str) -> Response:
    """The recorded request, the dry run, the row of the table, who has agreed, and the hashes."""
    doors = doors_of(http)
    found = await _sheet(http, doors, key)
    if isinstance(found, No):
        return found.response()
    return Response(found.model_dump_json(exclude_none=True), media_type=_JSON)


async def _sheet(http: HttpRequest, doors: Doors, text: str) -> DecisionSheet | No:
    asked = await looking_at(http, doors, text)
    if isinstance(asked, No):
        return asked
    person, key = asked
    found = await readable(text, doors.queries.case_sheet(key.tenant, text))
    if isinstance(found, No):
        return found
    if found is None:
        return No(Rejection.UNKNOWN_ACTION)
    signed = await following.read(doors.queries.signed(key.tenant, text))
    if isinstance(signed, No):
        return signed
    sheet = sheet_of(
        found,
        tuple(signed),
        doors.published(),
        ledger=doors.ledger_id,
        now_ms=doors.wall_clock_ms(),
        you=person.name,
    )
    return for_person(sheet, person, None if sheet.asked is None else sheet.asked.groups)
