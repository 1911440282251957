"""The routes of the review desk: which cases wait for a person, and everything about one of them.

Guarantees that a person sees the cases of their tenants only, and that looking settles nothing:
what a person signs about a case is handed in where all decisions are. Called by the command line
and by people's own tools.
"""

from typing import Final

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.http import following
from gateway.http.case_sheets import CaseList, CaseSheet
from gateway.http.cases import blocked_entry, case_entry, case_sheet_of
from gateway.http.doors import doors_of
from gateway.http.limits import SHEETS_MAX
from gateway.http.openapi import answer, problems
from gateway.http.persons import looking_at, person_of, readable
from gateway.http.problems import No
from gateway.http.routes import DoorRoute
from gateway.http.sheets import for_person
from ledger.core.rejections import Rejection

router = APIRouter(prefix="/v1", tags=["reviews"], route_class=DoorRoute)

_JSON: Final = "application/json"


@router.get(
    "/reviews",
    operation_id="listReviews",
    summary="Look at the cases that wait for a person",
    response_model=None,
    responses=answer(200, CaseList, f"The oldest {SHEETS_MAX}, oldest first.")
    | problems(400, 401, 503),
    openapi_extra={"security": [{"login": []}]},
)
async def list_reviews(http: HttpRequest) -> Response:
    """Every case that somebody has to settle, of the tenants for which this person decides; and
    what only waits for another action, which a person may let pass.
    """
    doors = doors_of(http)
    person = await person_of(http, doors)
    if isinstance(person, No):
        return person.response()
    rows = await following.read(doors.queries.cases(person.tenants, limit=SHEETS_MAX + 1))
    if isinstance(rows, No):
        return rows.response()
    blocked = await following.read(doors.queries.blocked(person.tenants, limit=SHEETS_MAX + 1))
    if isinstance(blocked, No):
        return blocked.response()
    found = CaseList(
        ledger=doors.ledger_id,
        now=doors.wall_clock_ms(),
        you=person.name,
        tenants=person.tenants,
        cases=tuple(case_entry(row) for row in rows[:SHEETS_MAX]),
        blocked=tuple(blocked_entry(row) for row in blocked[:SHEETS_MAX]),
        more=True if len(rows) > SHEETS_MAX else None,
        more_blocked=True if len(blocked) > SHEETS_MAX else None,
    )
    return Response(found.model_dump_json(exclude_none=True), media_type=_JSON)


@router.get(
    "/reviews/{key}",
    operation_id="getReview",
    summary="Look at everything about a case, and what would settle it",
    response_model=None,
    responses=answer(200, CaseSheet, "The whole of it.") | problems(400, 401, 404, 503),
    openapi_extra={"security": [{"login": []}]},
)
async def get_review(http: HttpRequest, key: str) -> Response:
    """Why it is here, every attempt, all evidence, its ends, and the moves that are safe now."""
    found = await _sheet(http, key)
    if isinstance(found, No):
        return found.response()
    return Response(found.model_dump_json(exclude_none=True), media_type=_JSON)


async def _sheet(http: HttpRequest, text: str) -> CaseSheet | No:
    doors = doors_of(http)
    asked = await looking_at(http, doors, text)
    if isinstance(asked, No):
        return asked
    person, key = asked
    found = await readable(text, doors.queries.case_sheet(key.tenant, text))
    if isinstance(found, No):
        return found
    if found is None:
        return No(Rejection.UNKNOWN_ACTION)
    sheet = case_sheet_of(
        found,
        doors.published(),
        ledger=doors.ledger_id,
        now_ms=doors.wall_clock_ms(),
        you=person.name,
    )
    return for_person(sheet, person, None if sheet.case is None else sheet.groups)
