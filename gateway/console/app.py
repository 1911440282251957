"""The pages put together: their routes, their files, and what an app needs for them.

Guarantees that nothing of them is in the description of the HTTP door, and that an app without a
console has none of their paths. Called when the gateway's app is made.
"""

from fastapi import APIRouter, FastAPI
from starlette.requests import Request as HttpRequest
from starlette.responses import RedirectResponse, Response

from gateway.console import (
    actions,
    deciding,
    enrolling,
    login,
    orphans,
    reviews,
    runs,
    sagas,
    unknowns,
)
from gateway.console.login import FIRST_PAGE
from gateway.console.refusals import PageNo
from gateway.console.request import SEE_OTHER, Console, console_of, opened

__all__ = ["Console", "add_console"]

router = APIRouter(prefix="/console", include_in_schema=False)


@router.get("")
@router.get("/")
async def first_page(http: HttpRequest) -> Response:
    """Lead to what waits."""
    return console_of(http).pages.protected(RedirectResponse(FIRST_PAGE, status_code=SEE_OTHER))


@router.get("/static/{name}")
async def asset(http: HttpRequest, name: str) -> Response:
    """One of the three files of the pages."""
    found = console_of(http).pages.asset(name)
    return found or await nothing(http)


async def nothing(http: HttpRequest) -> Response:
    """Whatever else is asked for below the pages."""

    async def work(_asked: object) -> PageNo:
        return PageNo.NOT_FOUND

    return await opened(http, work)


def add_console(app: FastAPI, console: Console) -> None:
    """Serve the pages from an app."""
    app.state.console = console
    pages = (
        router,
        login.router,
        enrolling.router,
        actions.router,
        deciding.router,
        reviews.router,
        orphans.router,
        runs.router,
        sagas.router,
        unknowns.router,
    )
    for part in pages:
        app.include_router(part)
    app.add_api_route("/console/{rest:path}", nothing, methods=["GET"], include_in_schema=False)
