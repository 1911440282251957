"""Making a passkey with a one-time link.

Guarantees that nothing made here can decide: the public key waits beside, with what its person
calls the device, until an operator has compared the fingerprint and published it. A link makes one
passkey, within its time; looking at it changes nothing.
"""

import hashlib
import logging
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.console.limits import DEVICE_CHARS_MAX
from gateway.console.login import challenge_of
from gateway.console.port import Enrolment
from gateway.console.refusals import PageCode, PageNo, refusal
from gateway.console.request import Answer, Asked, opened, posted
from gateway.console.seals import Purpose
from gateway.passkeys import fingerprint
from ledger.core.excerpt import excerpt
from ledger.signing.registering import NotRegistered, read_registration, registration_options

logger = logging.getLogger("actionledger.console")

router = APIRouter(prefix="/console", include_in_schema=False)


@router.get("/passkeys/{token}")
async def enrolment_page(http: HttpRequest, token: str) -> Response:
    """The page behind a link."""

    async def work(asked: Asked) -> Answer:
        enrolment = await asked.console.port.enrolment(token)
        if enrolment is None:
            return PageNo.LINK_OVER
        return PageNo.LINK_USED if enrolment.key else _form(asked, token, enrolment)

    return await opened(http, work)


@router.post("/passkeys/{token}")
async def enrol(http: HttpRequest, token: str) -> Response:
    """Take what a browser made."""

    async def work(asked: Asked) -> Answer:
        return await _enrolled(asked, token)

    return await posted(http, work)


def _form(asked: Asked, token: str, enrolment: Enrolment, no: PageCode | None = None) -> Response:
    console = asked.console
    of = {"token": _named(token)}
    once = console.seals.once(Purpose.ENROLMENT, of, now_ms=asked.now)
    person = asked.people.person(enrolment.person)
    options = registration_options(
        ledger=console.port.ledger(),
        rp_id=console.site.rp_id,
        person=enrolment.person,
        challenge=challenge_of(once),
        known=() if person is None else console.site.passkeys_of(person),
    )
    said = None if no is None else refusal(no)
    context = {
        "enrolment": enrolment,
        "origin": console.site.origin,
        "path": f"/console/passkeys/{quote(token)}",
        "once": once,
        "options": options,
        "device_chars_max": DEVICE_CHARS_MAX,
        "no": said,
    }
    return asked.page("enrol", context, status=200 if said is None else said.status)


async def _enrolled(asked: Asked, token: str) -> Answer:
    console, sealed = asked.console, asked.form.get("once", "")
    enrolment = await console.port.enrolment(token)
    if enrolment is None:
        return PageNo.LINK_OVER
    if enrolment.key is not None:
        return PageNo.LINK_USED
    once = console.seals.opened(Purpose.ENROLMENT, sealed, now_ms=asked.now)
    if once is None or once.content["token"] != _named(token):
        return _form(asked, token, enrolment, PageNo.CHALLENGE_OVER)
    device = excerpt(asked.form.get("device", "").strip(), chars_max=DEVICE_CHARS_MAX)
    if not device:
        return _form(asked, token, enrolment, PageNo.FORM_MALFORMED)
    key = read_registration(
        asked.form.get("credential", ""),
        challenge=challenge_of(sealed),
        rp_id=console.site.rp_id,
        origin=console.site.origin,
    )
    if isinstance(key, NotRegistered):
        return _form(asked, token, enrolment, key)
    if not await console.port.enrol(token, key, device):
        return PageNo.LINK_USED
    logger.info("passkey_made", extra={"person": enrolment.person})
    context = {"person": enrolment.person, "device": device, "fingerprint": fingerprint(key)}
    return asked.page("enrolled", context)


def _named(token: str) -> str:
    """A link's token by its hash: what is sealed in a page is not secret."""
    return hashlib.sha256(token.encode()).hexdigest()
