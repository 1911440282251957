"""The routes of what providers state and no action explains: a list, one of them, and a word on it.

Guarantees that a person sees what bears the key of an action of their tenants, and one who decides
for all of them the rest too; and that a word settles nothing: it takes a row off a list, under its
person's name. Called by people's own tools.
"""

import logging
from functools import partial
from typing import Annotated, Final

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.http import following
from gateway.http.bodies import read_json, read_model
from gateway.http.codes import Code
from gateway.http.doors import doors_of
from gateway.http.limits import SHEETS_MAX
from gateway.http.openapi import answer, json_body, problems
from gateway.http.persons import person_of, uncovered
from gateway.http.problems import No, Trouble
from gateway.http.routes import DoorRoute
from gateway.http.sheets import OnSheet, PersonsList
from gateway.orphans import WHY
from ledger.core.errors import LedgerError
from ledger.core.money import Money, format_money
from ledger.core.people import Person
from ledger.core.wire import Wire
from reconciler.limits import NOTE_CHARS_MAX
from reconciler.orphan_notes import OrphanNote
from reconciler.orphans import Orphan, is_number, place_of

logger = logging.getLogger("actionledger.http")

router = APIRouter(prefix="/v1/orphans", tags=["reviews"], route_class=DoorRoute)

_JSON: Final = "application/json"


class OrphanSheet(OnSheet):
    """What a provider states and no action explains. `why` is `orphan_effect`, `line_changed` or
    `effect_not_listed`, `sentence` says it in words; `place` is where its row stands, and `source`
    how it came. `claimed_key` is the action that it names, where it names one, and `provider_key`
    the key at the provider that it bears. `noted_by` has looked at it, and says `note`. Times are
    milliseconds.
    """

    place: str
    href: str
    why: str
    sentence: str
    provider: str
    account: str
    source: str
    reference: str | None = None
    reverses: str | None = None
    claimed_key: str | None = None
    provider_key: str | None = None
    says: str | None = None
    money: Money | None = None
    amount: str | None = None
    occurred_at: int | None = None
    received_at: int
    noted_by: str | None = None
    noted_at: int | None = None
    note: str | None = None


class OrphanList(PersonsList):
    """The oldest that nobody has looked at, and how many there are; see the list of cases."""

    orphans: tuple[OrphanSheet, ...]
    total: int


class NoteBody(Wire):
    """What came of it."""

    note: Annotated[str, Field(min_length=1, max_length=NOTE_CHARS_MAX)]


class Noted(OnSheet):
    """A word that is in the log, and whose it is. The row leaves the list when it is read there."""

    place: str
    by: str


def orphan_sheet(one: Orphan) -> OrphanSheet:
    """One of them as JSON."""
    return OrphanSheet(
        place=one.place,
        href=f"/v1/orphans/{one.place}",
        why=one.why,
        sentence=WHY[one.why],
        provider=one.provider,
        account=one.account,
        source=one.source,
        reference=one.reference,
        reverses=one.reverses,
        claimed_key=one.claimed_key,
        provider_key=one.provider_key,
        says=one.said,
        money=one.money,
        amount=None if one.money is None else format_money(one.money),
        occurred_at=one.occurred_at,
        received_at=one.received_at,
        noted_by=one.seen_by,
        noted_at=one.seen_at,
        note=one.note,
    )


@router.get(
    "",
    operation_id="listOrphans",
    summary="Look at what providers state and no action explains",
    response_model=None,
    responses=answer(200, OrphanList, f"The oldest {SHEETS_MAX}, oldest first.")
    | problems(400, 401, 503),
    openapi_extra={"security": [{"login": []}]},
)
async def list_orphans(http: HttpRequest) -> Response:
    """What nobody has looked at, of the tenants for which this person decides."""
    doors = doors_of(http)
    person = await person_of(http, doors)
    if isinstance(person, No):
        return person.response()
    read = await following.read(doors.orphans.orphans(person.tenants, limit=SHEETS_MAX))
    if isinstance(read, No):
        return read.response()
    rows, total = read
    found = OrphanList(
        ledger=doors.ledger_id,
        now=doors.wall_clock_ms(),
        you=person.name,
        tenants=person.tenants,
        orphans=tuple(orphan_sheet(one) for one in rows),
        total=total,
    )
    return Response(found.model_dump_json(exclude_none=True), media_type=_JSON)


@router.get(
    "/{partition}/{offset}",
    operation_id="getOrphan",
    summary="Look at one of them, noted or not",
    response_model=None,
    responses=answer(200, OrphanSheet, "All that is known of it.") | problems(400, 401, 404, 503),
    openapi_extra={"security": [{"login": []}]},
)
async def get_orphan(http: HttpRequest, partition: str, offset: str) -> Response:
    """One by the place of its row."""
    found = await _asked(http, partition, offset)
    if isinstance(found, No):
        return found.response()
    sheet = orphan_sheet(found[1])
    return Response(sheet.model_dump_json(exclude_none=True), media_type=_JSON)


@router.post(
    "/{partition}/{offset}/note",
    operation_id="noteOrphan",
    summary="Say what came of it, and take it off the list",
    response_model=None,
    responses=answer(202, Noted, "The word is in the log.")
    | problems(400, 401, 404, 408, 409, 413, 415, 429, 503),
    openapi_extra=json_body(NoteBody) | {"security": [{"login": []}]},
)
async def note_orphan(http: HttpRequest, partition: str, offset: str) -> Response:
    """Record a person's word. It settles nothing, and the first one counts."""
    noted = await _noted(http, partition, offset)
    if isinstance(noted, No):
        return noted.response()
    return Response(noted.model_dump_json(), status_code=202, media_type=_JSON)


async def _noted(http: HttpRequest, partition: str, offset: str) -> Noted | No:
    doors = doors_of(http)
    asked = await _asked(http, partition, offset)
    if isinstance(asked, No):
        return asked
    person, found = asked
    value = await read_json(http, objection=partial(uncovered, http, doors))
    if isinstance(value, No):
        return value
    body = read_model(NoteBody, value, Code.INVALID_BODY)
    if isinstance(body, No):
        return body
    if found.seen_by is not None:
        return No(Code.ORPHAN_NOTED)
    if not doors.signers.allows(person.name, doors.monotonic_s()):
        return No(Code.TOO_MANY_DECISIONS)
    try:
        await doors.orphans.note(found, OrphanNote(by=person.name, note=body.note))
    except (LedgerError, TimeoutError) as trouble:
        logger.warning("note_not_kept", extra={"place": found.place, "reason": repr(trouble)})
        return No(Code.NOT_DURABLE)
    return Noted(place=found.place, by=person.name)


async def _asked(http: HttpRequest, partition: str, offset: str) -> tuple[Person, Orphan] | No:
    """Who asks, and the row that they may see; or why they are shown nothing."""
    doors = doors_of(http)
    person = await person_of(http, doors)
    if isinstance(person, No):
        return person
    place = place_of(partition, offset)
    if place is None:
        return _no_place(partition=partition, offset=offset)
    found = await following.read(doors.orphans.orphan(person.tenants, place))
    if isinstance(found, No):
        return found
    return No(Code.UNKNOWN_ORPHAN) if found is None else (person, found)


def _no_place(**named: str) -> No:
    """What in a path is no number, or that there is nothing at such a place."""
    said = "is no number: the list has the places"
    wrong = tuple(
        Trouble(path=f"/{name}", code="malformed_identifier", message=f"{name} {said}")
        for name, text in named.items()
        if not is_number(text)
    )
    return No(Code.INVALID_PATH, problems=wrong) if wrong else No(Code.UNKNOWN_ORPHAN)
