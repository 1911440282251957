"""The review desk: which cases wait, one case with all that is known of it, and settling it.

Guarantees that a resolution is made only for the very case that its person was shown, and only by a
move that was offered there; and that looking changes nothing. What counts is decided by the ledger.
"""

from asyncio import to_thread

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.console.actions import own_tenant
from gateway.console.case import CasePage, case_page_of
from gateway.console.deciding import (
    handed_in,
    json_page,
    outcome_of,
    outcome_page,
    to_be_signed,
    told,
)
from gateway.console.limits import COMMENT_CHARS_MAX, REFERENCE_CHARS_MAX, WAITING_ROWS_MAX
from gateway.console.port import Decided
from gateway.console.refusals import PageNo
from gateway.console.request import Answer, Seen, looked, submitted
from gateway.console.seals import Purpose
from ledger.core.statement import Move, Resolution

router = APIRouter(prefix="/console", include_in_schema=False)


@router.get("/reviews")
async def cases_page(http: HttpRequest) -> Response:
    """The cases that somebody has to settle."""
    return await looked(http, _cases)


@router.get("/review/{key}")
async def case_page(http: HttpRequest, key: str) -> Response:
    """Everything about a case, and the moves that are safe, where all of it is there."""

    async def work(seen: Seen) -> Answer:
        page = await _page_of(seen, key)
        return PageNo.NOT_FOUND if page is None else await to_thread(_shown, seen, page)

    return await looked(http, work)


@router.post("/review/{key}/statement")
async def resolution(http: HttpRequest, key: str) -> Response:
    """What settles a case, to be signed: as JSON, for the script of the page."""

    async def work(seen: Seen) -> Answer:
        made = await _resolution(seen, key)
        if isinstance(made, PageNo):
            return told(seen, made)
        return json_page(seen, to_be_signed(seen, made, Purpose.RESOLUTION), 200)

    return await submitted(http, work)


@router.post("/review/{key}")
async def resolve(http: HttpRequest, key: str) -> Response:
    """Hand in what a passkey signed, and show what the ledger decided."""

    async def work(seen: Seen) -> Answer:
        if own_tenant(seen, key) is None:
            return PageNo.NOT_FOUND
        decided = await handed_in(seen, key, Resolution, Purpose.RESOLUTION)
        if not isinstance(decided, Decided):
            return decided
        return outcome_page(seen, key, outcome_of(decided))

    return await submitted(http, work)


async def _cases(seen: Seen) -> Answer:
    tenants = seen.visitor.person.tenants
    found = await seen.console.port.cases(tenants, limit=WAITING_ROWS_MAX + 1)
    blocked = await seen.console.port.blocked(tenants, limit=WAITING_ROWS_MAX + 1)
    _, orphans = await seen.console.port.orphans(tenants, limit=1)
    context = {
        "cases": found[:WAITING_ROWS_MAX],
        "blocked": blocked[:WAITING_ROWS_MAX],
        "is_blocked_cut": len(blocked) > WAITING_ROWS_MAX,
        "orphans": orphans,
        "is_cut": len(found) > WAITING_ROWS_MAX,
        "tenants_shown": "all tenants" if "*" in tenants else ", ".join(tenants),
    }
    return seen.page("reviews", context)


async def _page_of(seen: Seen, key: str) -> CasePage | None:
    tenant = own_tenant(seen, key)
    if tenant is None:
        return None
    person = seen.visitor.person
    found = await seen.console.port.case(tenant, key, person.name, now_ms=seen.now)
    if found is None:
        return None
    # What an agent wrote may be long: it is read through beside those who serve agents.
    return await to_thread(case_page_of, found, person)


def _shown(seen: Seen, page: CasePage) -> Response:
    context = {
        "page": page,
        "sheet": page.sheet,
        "moves": [one for one in page.sheet.moves if one.move in set(page.may)],
        "fingerprint": page.fingerprint(),
        "comment_chars_max": COMMENT_CHARS_MAX,
        "reference_chars_max": REFERENCE_CHARS_MAX,
    }
    return seen.page("review", context)


async def _resolution(seen: Seen, key: str) -> Resolution | PageNo:
    page, form = await _page_of(seen, key), seen.form
    if page is None:
        return PageNo.NOT_FOUND
    move = next((one for one in page.may if one.value == form.get("move")), None)
    if form.get("shown") != page.fingerprint():
        return PageNo.SHEET_CHANGED
    # What a browser calls a line end in a form is another text than what was typed.
    comment = form.get("comment", "").replace("\r\n", "\n").strip()
    reference = form.get("reference", "").strip()
    if move is None:
        return PageNo.MOVE_MISSING
    if not comment or (move is Move.EFFECT_EXISTS and not reference):
        return PageNo.WORDS_MISSING
    if len(comment) > COMMENT_CHARS_MAX or len(reference) > REFERENCE_CHARS_MAX:
        return PageNo.FORM_MALFORMED
    named = reference if move is Move.EFFECT_EXISTS else None
    return page.resolution(move, reference=named, comment=comment)
