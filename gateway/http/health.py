"""Whether the process lives, whether it can do its work, and what it counted.

Called by whoever runs it. Without an API key, so it tells names of parts and nothing else.
"""

import asyncio
import logging
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.http.codes import Code
from gateway.http.doors import Check, Doors, doors_of
from gateway.http.limits import CHECK_MS_MAX, LOOKED_S_MIN
from gateway.http.metrics import MEDIA_TYPE
from gateway.http.openapi import answer, problems
from gateway.http.problems import No, Trouble
from ledger.core.people import EVERY_TENANT

logger = logging.getLogger("actionledger.http")

router = APIRouter(tags=["operations"])

_MS_PER_S = 1_000


class Health(BaseModel):
    """The process answers."""

    model_config = ConfigDict(frozen=True)

    status: Literal["ok"] = "ok"


@router.get(
    "/healthz",
    operation_id="isAlive",
    summary="Ask whether the process lives",
    response_model=None,
    responses=answer(200, Health, "It lives."),
    openapi_extra={"security": []},
)
async def is_alive() -> Response:
    """The process answers; it asks nobody."""
    return _ok()


@router.get(
    "/readyz",
    operation_id="isReady",
    summary="Ask whether it can do its work",
    response_model=None,
    responses=answer(200, Health, "Every part answers.") | problems(503),
    openapi_extra={"security": []},
)
async def is_ready(http: HttpRequest) -> Response:
    """Every part that is needed answers, each within two seconds; else 503 with their names."""
    doors = doors_of(http)
    found = await asyncio.gather(*(_trouble(name, check) for name, check in doors.checks.items()))
    troubles = tuple(trouble for trouble in found if trouble is not None)
    if doors.is_stopping:
        troubles = (*troubles, Trouble(path="", code="stopping", message="the process stops"))
    return No(Code.NOT_READY, problems=troubles).response() if troubles else _ok()


@router.get(
    "/metrics",
    operation_id="getMetrics",
    summary="Read what was counted",
    response_model=None,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    openapi_extra={"security": []},
)
async def get_metrics(http: HttpRequest) -> Response:
    """Everything counted since the process started, and how it stands with what is uncertain, in
    the text format of Prometheus. What does not answer in time is left out and named.
    """
    doors: Doors = doors_of(http)
    await _look(doors)
    return Response(doors.metrics.text(), headers={"Content-Type": MEDIA_TYPE})


async def _look(doors: Doors) -> None:
    """Ask how it stands, seldom: everybody may ask for metrics as often as they like."""
    now_s = doors.monotonic_s()
    if doors.looked_s is not None and now_s - doors.looked_s < LOOKED_S_MIN:
        return
    doors.looked_s = now_s
    try:
        async with asyncio.timeout(CHECK_MS_MAX / _MS_PER_S):
            now_ms = doors.wall_clock_ms()
            live = await doors.live(now_ms)
            ages = await doors.queries.unknown_ages((EVERY_TENANT,), now_ms=now_ms)
    except Exception as trouble:  # noqa: BLE001 - whatever it is, the read model does not answer
        logger.warning("live_windows_not_read", extra={"reason": repr(trouble)})
        doors.metrics.not_seen()
    else:
        doors.metrics.seen(live, ages)


async def _trouble(name: str, check: Check) -> Trouble | None:
    """What is wrong with one part. Its words go to the log, not to whoever asked."""
    try:
        async with asyncio.timeout(CHECK_MS_MAX / _MS_PER_S):
            await check()
    except Exception as trouble:  # noqa: BLE001 - whatever it is, the part does not answer
        logger.warning("part_not_answering", extra={"part": name, "reason": repr(trouble)})
        return Trouble(path="", code=name, message="does not answer")
    return None


def _ok() -> Response:
    return Response(Health().model_dump_json(), media_type="application/json")
