"""What providers state and no action explains: a list, and a word of the person who looked.

Guarantees that a page shows nothing of a tenant that its reader does not decide for, and what is no
tenant's only to who decides for all. A word settles nothing: it is kept, and takes a row off the
list.
"""

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.console.limits import WAITING_ROWS_MAX
from gateway.console.refusals import PageNo
from gateway.console.request import Answer, Seen, looked, submitted
from gateway.console.sheet import amount
from gateway.http.codes import Code
from gateway.http.views import action_page
from gateway.orphans import WHY
from ledger.core.ids import ActionKey, MalformedId
from reconciler.limits import NOTE_CHARS_MAX
from reconciler.orphan_notes import OrphanNote
from reconciler.orphans import Orphan, place_of

router = APIRouter(prefix="/console", include_in_schema=False)


@router.get("/orphans")
async def orphans_page(http: HttpRequest) -> Response:
    """What nobody has looked at, the oldest first."""
    return await looked(http, _orphans)


@router.post("/orphans/{partition}/{offset}")
async def note(http: HttpRequest, partition: str, offset: str) -> Response:
    """Write down what came of one, and show the list again."""

    async def work(seen: Seen) -> Answer:
        return await _noted(seen, partition, offset)

    return await submitted(http, work)


async def _orphans(seen: Seen) -> Answer:
    tenants = seen.visitor.person.tenants
    found, total = await seen.console.port.orphans(tenants, limit=WAITING_ROWS_MAX)
    context = {
        "orphans": [(one, WHY[one.why], _amount(one), _page(one)) for one in found],
        "total": total,
        "tenants_shown": "all tenants" if "*" in tenants else ", ".join(tenants),
        "note_chars_max": NOTE_CHARS_MAX,
    }
    return seen.page("orphans", context)


async def _noted(seen: Seen, partition: str, offset: str) -> Answer:
    place, port = place_of(partition, offset), seen.console.port
    person = seen.visitor.person
    found = None if place is None else await port.orphan(person.tenants, place)
    if found is None:
        return PageNo.NOT_FOUND
    if found.seen_by is not None:
        return Code.ORPHAN_NOTED
    # What a browser calls a line end in a form is another text than what was typed.
    text = seen.form.get("note", "").replace("\r\n", "\n").strip()
    if not text:
        return PageNo.NOTE_MISSING
    if len(text) > NOTE_CHARS_MAX:
        return PageNo.FORM_MALFORMED
    await port.note_orphan(found, OrphanNote(by=person.name, note=text))
    return seen.page("noted", {"orphan": found, "note": text})


def _amount(one: Orphan) -> str | None:
    return None if one.money is None else amount(one.money)


def _page(one: Orphan) -> str | None:
    """Where the action is shown that it names; a text that is no key names none."""
    if one.claimed_key is None:
        return None
    try:
        return action_page(str(ActionKey.parse(one.claimed_key)))
    except MalformedId:
        return None
