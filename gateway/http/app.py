"""The HTTP app: its routes, and what stands behind them.

Guarantees that every answer that is not an action, a webhook's receipt or a measurement is a
problem. Built by the gateway process and by tests; holds no connection of its own.
"""

from typing import Any, Final

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.console.app import Console, add_console
from gateway.http import actions, approvals, health, orphans, reviews, runs, sagas, webhooks
from gateway.http.approvals import DecisionBody
from gateway.http.bodies import CancelBody, OutcomeBody, ProposeBody, StepBody
from gateway.http.codes import Code
from gateway.http.doors import Doors, Instance, KeyPort, LedgerPort, QueriesPort
from gateway.http.openapi import describe
from gateway.http.orphans import NoteBody
from gateway.http.outermost import InFlight, Outermost
from gateway.http.paths import methods_of, names_in_the_way, path_with_whole_names
from gateway.http.persons import LoginTokens
from gateway.http.problems import No
from gateway.http.runs_paused import RunsPaused
from gateway.http.saga_bodies import SagaBody
from gateway.http.waiting_quota import WaitingQuota
from gateway.http.webhooks import deliver, is_delivery
from gateway.settings import Settings
from gateway.webhook_secrets import SecretsFile
from ledger.log.port import Appender
from reconciler.schemes import scheme_of

VERSION: Final = "1"
_DESCRIPTION: Final = (
    "Agents propose side effects; each is decided, recorded, carried out once and settled. A 2xx "
    "answer to a proposal means that it is durable. Every refusal is an RFC 9457 problem with a "
    "stable code and a hint."
)
ROUTERS: Final = (
    actions.router,
    runs.router,
    sagas.router,
    approvals.router,
    reviews.router,
    orphans.router,
    webhooks.router,
    health.router,
)
"""Every route of the door that machines speak to."""

_BY_STATUS: Final = {404: Code.NOT_FOUND, 405: Code.METHOD_NOT_ALLOWED}


class _Door(FastAPI):
    """The app, which takes a delivery of a webhook to its own layer at once: those of the framework
    have nothing to do for it, and cost a tenth of what it takes.
    """

    straight: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take a request."""
        if self.straight is not None and scope["type"] == "http":
            scope["path"] = path_with_whole_names(scope)
            if is_delivery(scope):
                scope["app"] = self
                await self.straight(scope, receive, send)
                return
            if scope["method"] == "HEAD":
                # As GET is answered; the server keeps back the body, by the scope of its own.
                scope = {**scope, "method": "GET"}
        await super().__call__(scope, receive, send)


def bare_app() -> _Door:
    """The routes with nothing behind them: enough to be described."""
    app = _Door(
        title="Action Ledger",
        version=VERSION,
        description=_DESCRIPTION,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        exception_handlers={HTTPException: _refused},
    )
    for router in ROUTERS:
        app.include_router(router)

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = describe(
                app,
                (ProposeBody, CancelBody, OutcomeBody, StepBody, SagaBody, DecisionBody, NoteBody),
            )
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign] # as FastAPI's own manual does it
    return app


def create_app(
    client: LedgerPort,
    queries: QueriesPort,
    webhooks_appender: Appender,
    keys: KeyPort,
    settings: Settings,
    instance: Instance,
    *,
    console: Console | None = None,
) -> FastAPI:
    """The app over its parts, which the caller has started and closes after it.

    With `console` it serves the pages for people too.
    """
    app = bare_app()
    doors = Doors(
        ledger=client,
        queries=queries,
        webhooks=webhooks_appender,
        keys=keys,
        webhook_secrets=SecretsFile(
            settings.webhook_secrets_file,
            is_usable=lambda provider, secret: scheme_of(
                instance.schemes, provider
            ).is_usable_secret(secret),
        ),
        webhook_schemes=instance.schemes,
        partitions=settings.partitions,
        ledger_id=instance.ledger_id,
        published=instance.published,
        catch_up=instance.catch_up,
        persons=(LoginTokens(),),
        waiting_quota=WaitingQuota(settings.approvals_open_max),
        runs_paused=RunsPaused(),
        checks=instance.checks,
        live=instance.live,
        orphans=instance.orphans,
    )
    app.state.doors = doors
    if console is not None:
        add_console(app, console)
    in_flight = InFlight()
    app.add_middleware(Outermost, metrics=doors.metrics, in_flight=in_flight)
    app.straight = Outermost(deliver, doors.metrics, in_flight)
    return app


async def _refused(http: HttpRequest, refusal: Exception) -> Response:
    """What the framework refuses: no such path, no such method."""
    code, allowed = Code.INTERNAL, ""
    if isinstance(refusal, HTTPException):
        code = _BY_STATUS.get(refusal.status_code, Code.INTERNAL)
        allowed = (refusal.headers or {}).get("Allow", "")
    routes = [route for router in ROUTERS for route in router.routes]
    if code is Code.METHOD_NOT_ALLOWED:
        taken = methods_of(http.scope["path"], routes) or set(allowed.split(", "))
        return No(code, headers={"Allow": ", ".join(sorted(taken))}).response()
    if code is not Code.NOT_FOUND:
        return No(code).response()
    return No(code, problems=names_in_the_way(http, routes)).response()
