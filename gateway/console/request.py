"""One request to the pages: who asks, whether it came from a page of ours, and what it carries.

Guarantees that nothing is done for a request under another host, from another origin, or without
the session's own form token; and that whoever is not logged in learns nothing but that. Called by
every route.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote

from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from gateway.console.limits import FORM_BYTES_MAX, FORM_FIELDS_MAX, FORM_MS_MAX
from gateway.console.pages import Pages
from gateway.console.port import ConsolePort, NotAnsweringError
from gateway.console.refusals import PageCode, PageNo, refusal
from gateway.console.seals import Seals, Visitor
from gateway.console.site_file import Site
from ledger.core.people import People
from ledger.core.strict_json import character_fault

logger = logging.getLogger("actionledger.console")

SEE_OTHER: Final = 303
_MS_PER_S: Final = 1_000
_FORM: Final = "application/x-www-form-urlencoded"


@dataclass(slots=True)
class Console:
    """Everything behind the pages."""

    port: ConsolePort
    site: Site
    wall_clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    seals: Seals = field(init=False)
    pages: Pages = field(init=False)

    def __post_init__(self) -> None:
        self.seals = Seals(self.site.secret)
        self.pages = Pages(self.site)

    @property
    def cookie(self) -> str:
        """The session's cookie; under https a browser lets no other host set it."""
        return "__Host-actionledger" if self.site.is_secure else "actionledger"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the routes see it."""

    http: HttpRequest
    console: Console
    people: People
    visitor: Visitor | None
    now: int
    form: Mapping[str, str]

    def page(
        self, template: str, context: Mapping[str, Any] | None = None, *, status: int = 200
    ) -> Response:
        """A page, with what every page shows."""
        visitor = self.visitor
        token = "" if visitor is None else self.console.seals.form(visitor.session)
        base = {"visitor": visitor, "form": token, "now": self.now, "here": template, "no": None}
        return self.console.pages.page(template, {**base, **(context or {})}, status=status)

    def refused(self, code: PageCode, *, key: str | None = None) -> Response:
        """A page that says no."""
        no = refusal(code)
        logger.info("console_refused", extra={"code": no.code, "status": no.status})
        context = {"no": no, "heading": "That was not done", "key": key}
        return self.page("refused", context, status=no.status)

    def to(self, path: str) -> Response:
        """Go on at another page of ours."""
        return self.console.pages.protected(RedirectResponse(path, status_code=SEE_OTHER))


@dataclass(frozen=True, slots=True)
class Seen(Asked):
    """A request of somebody who is logged in."""

    visitor: Visitor


Answer = Response | PageCode
ForAnybody = Callable[[Asked], Awaitable[Answer]]
ForVisitors = Callable[[Seen], Awaitable[Answer]]


def console_of(http: HttpRequest) -> Console:
    """What the app of a request was created with."""
    return cast("Console", http.app.state.console)


async def opened(http: HttpRequest, work: ForAnybody) -> Response:
    """A page that anybody may open: it changes nothing."""
    return await _answered(http, {}, work)


async def looked(http: HttpRequest, work: ForVisitors) -> Response:
    """A page for people who are logged in: it changes nothing. Others are asked to log in."""

    async def only_visitors(asked: Asked) -> Answer:
        if asked.visitor is None:
            return _entrance(asked)
        return await work(_seen(asked, asked.visitor))

    return await _answered(http, {}, only_visitors)


async def posted(http: HttpRequest, work: ForAnybody) -> Response:
    """A form of a page of ours, by anybody: what it carries proves who they are."""

    async def only_ours(asked: Asked) -> Answer:
        return await work(asked) if _is_from_our_page(asked) else PageNo.ORIGIN_REFUSED

    return await _answered(http, await _form_of(http), only_ours)


async def submitted(http: HttpRequest, work: ForVisitors) -> Response:
    """A form that a person who is logged in was given in this session."""

    async def only_own(asked: Asked) -> Answer:
        visitor = asked.visitor
        if not _is_from_our_page(asked):
            return PageNo.ORIGIN_REFUSED
        if visitor is None:
            return PageNo.LOG_IN_FIRST
        if not asked.console.seals.is_form_of(asked.form.get("form", ""), visitor.session):
            return PageNo.FORM_REFUSED
        return await work(_seen(asked, visitor))

    return await _answered(http, await _form_of(http), only_own)


async def _answered(
    http: HttpRequest, form: Mapping[str, str] | PageNo, work: ForAnybody
) -> Response:
    console = console_of(http)
    now = console.wall_clock_ms()
    if http.headers.get("host") != console.site.authority:
        return _elsewhere(http, console, now)
    people = console.port.people()
    cookie = http.cookies.get(console.cookie)
    visitor = console.seals.visitor(cookie, people, now_ms=now)
    asked = Asked(http, console, people, visitor, now, {} if isinstance(form, PageNo) else form)
    try:
        if visitor is not None and await console.port.is_spent(visitor.session.id):
            # Its person logged out; whoever has a copy of the cookie is nobody.
            asked = replace(asked, visitor=None)
        answer = form if isinstance(form, PageNo) else await work(asked)
    except NotAnsweringError:
        answer = PageNo.NOT_ANSWERING
    return answer if isinstance(answer, Response) else asked.refused(answer)


def _seen(asked: Asked, visitor: Visitor) -> Seen:
    return Seen(asked.http, asked.console, asked.people, visitor, asked.now, asked.form)


def _elsewhere(http: HttpRequest, console: Console, now: int) -> Response:
    """Passkeys and cookies belong to one origin: whoever comes under another name is sent there.

    It keeps out pages that make a name of their own stand for this machine, too.
    """
    if http.method == "GET":
        target = f"{console.site.origin}{_path(http)}"
        return console.pages.protected(RedirectResponse(target, status_code=SEE_OTHER))
    return Asked(http, console, console.port.people(), None, now, {}).refused(PageNo.ORIGIN_REFUSED)


def _path(http: HttpRequest) -> str:
    """The path and query as they were sent."""
    raw: bytes = http.scope["raw_path"]
    query: bytes = http.scope["query_string"]
    return (raw + b"?" + query if query else raw).decode("ascii", "replace")


def _entrance(asked: Asked) -> Response:
    """Send somebody to log in, and then back.

    A browser that comes from a link on another site keeps its cookie to itself for that one
    request; the page that opens itself once more is asked from here, with it.
    """
    path = _path(asked.http)
    if asked.http.headers.get("sec-fetch-site") == "cross-site":
        return asked.page("opening", {"path": path})
    return asked.to(f"/console/login?next={quote(path, safe='')}")


def _is_from_our_page(asked: Asked) -> bool:
    headers = asked.http.headers
    is_ours = headers.get("origin") == asked.console.site.origin
    return is_ours and headers.get("sec-fetch-site", "same-origin") == "same-origin"


async def _form_of(http: HttpRequest) -> Mapping[str, str] | PageNo:
    """The fields of a form, each at most once, with nothing in them that is unfit for the log."""
    declared = http.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared != _FORM:
        return PageNo.FORM_MALFORMED
    raw = bytearray()
    try:
        async with asyncio.timeout(FORM_MS_MAX / _MS_PER_S):
            async for chunk in http.stream():
                raw += chunk
                if len(raw) > FORM_BYTES_MAX:
                    return PageNo.FORM_MALFORMED
        pairs = parse_qsl(
            raw.decode(),
            keep_blank_values=True,
            strict_parsing=bool(raw),
            errors="strict",
            max_num_fields=FORM_FIELDS_MAX,
        )
    except (ValueError, TimeoutError, ClientDisconnect):
        return PageNo.FORM_MALFORMED
    fields = dict(pairs)
    if any(character_fault(text) for text in fields.values()):
        return PageNo.FORM_MALFORMED
    return fields if len(fields) == len(pairs) else PageNo.FORM_MALFORMED
