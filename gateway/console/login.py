"""Logging in with a passkey, and out.

Guarantees that a challenge is answered once and within its time, and that a log-in gives reading
only. After it a browser is led to the page that it came for, and to none of another site.
"""

import hashlib
import logging
import re
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.console.limits import SESSION_MS
from gateway.console.refusals import PageCode, PageNo, refusal
from gateway.console.request import Answer, Asked, Seen, opened, posted, submitted
from gateway.console.seals import Purpose
from ledger.signing.logins import NotLoggedIn, read_passkey_login
from ledger.signing.registering import authentication_options, read_assertion

logger = logging.getLogger("actionledger.console")

router = APIRouter(prefix="/console", include_in_schema=False)

FIRST_PAGE: Final = "/console/waiting"
_OURS: Final = re.compile(r"/console/[A-Za-z0-9/:%._~?&=#-]{1,1024}")
_MS_PER_S: Final = 1_000


@router.get("/login")
async def login_page(http: HttpRequest) -> Response:
    """The page to log in."""
    return await opened(http, _login_page)


@router.post("/login")
async def login(http: HttpRequest) -> Response:
    """Take a passkey's answer for a log-in."""
    return await posted(http, _login)


@router.post("/logout")
async def logout(http: HttpRequest) -> Response:
    """End the session."""
    return await submitted(http, _logout)


async def _login_page(asked: Asked) -> Answer:
    wanted = asked.http.query_params.get("next", "")
    return _login_form(asked, wanted if _OURS.fullmatch(wanted) else FIRST_PAGE)


def _login_form(asked: Asked, wanted: str, no: PageCode | None = None) -> Response:
    """The form with a challenge of its own, which nothing but itself remembers."""
    console = asked.console
    once = console.seals.once(Purpose.LOGIN, {"next": wanted}, now_ms=asked.now)
    options = authentication_options(rp_id=console.site.rp_id, challenge=challenge_of(once))
    said = None if no is None else refusal(no)
    context = {"once": once, "options": options, "session_ms": SESSION_MS, "no": said}
    return asked.page("login", context, status=200 if said is None else said.status)


def challenge_of(once: str) -> bytes:
    """What a passkey signs for a one-time value."""
    return hashlib.sha256(f"actionledger.console.v1\n{once}".encode()).digest()


async def _login(asked: Asked) -> Answer:
    console, sealed = asked.console, asked.form.get("once", "")
    once = console.seals.opened(Purpose.LOGIN, sealed, now_ms=asked.now)
    if once is None:
        return _login_form(asked, FIRST_PAGE, PageNo.CHALLENGE_OVER)
    wanted = str(once.content["next"])
    assertion = read_assertion(asked.form.get("credential", ""))
    if assertion is None:
        return _login_form(asked, wanted, NotLoggedIn.LOGIN_INVALID)
    challenge = challenge_of(sealed)
    person = read_passkey_login(assertion, asked.people, challenge=challenge, now_ms=asked.now)
    if person is NotLoggedIn.LOGIN_UNKNOWN_SIGNER:
        people = await console.port.newest_people()
        person = read_passkey_login(assertion, people, challenge=challenge, now_ms=asked.now)
    if isinstance(person, NotLoggedIn):
        logger.warning("console_login_refused", extra={"code": person.value})
        return _login_form(asked, wanted, person)
    # Only now: strangers have nothing written down.
    if not await console.port.spend(once.id):
        return _login_form(asked, wanted, PageNo.CHALLENGE_OVER)
    logger.info("console_login", extra={"person": person.name})
    _, cookie = console.seals.session(person.name, assertion.credential_id, now_ms=asked.now)
    entered = asked.to(wanted)
    entered.set_cookie(
        console.cookie,
        cookie,
        max_age=SESSION_MS // _MS_PER_S,
        path="/",
        secure=console.site.is_secure,
        httponly=True,
        samesite="strict",
    )
    return entered


async def _logout(seen: Seen) -> Answer:
    console = seen.console
    await console.port.spend(seen.visitor.session.id)
    left = seen.to("/console/login")
    left.delete_cookie(
        console.cookie, path="/", secure=console.site.is_secure, httponly=True, samesite="strict"
    )
    return left
