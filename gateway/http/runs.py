"""The routes of runs: what a step took, what a run has used of its ceilings, and what is left.

Guarantees that a step counts once, that what an agent says of itself is told apart from what the
ledger counts, and that a run is one of the caller's own tenant. Called by agents, through the SDK
or without it.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.http import following
from gateway.http.bodies import StepBody, read_json, read_model, run_gate, step_report
from gateway.http.budgets import reached_budget, run_sentence
from gateway.http.codes import Code
from gateway.http.doors import Doors, caller_of, doors_of, proposer_of
from gateway.http.limits import (
    CANCEL_BYTES_MAX,
    DECISION_MS_MAX,
    READ_AGAIN_MS,
    READ_MS_MAX,
    RUN_ACTIONS_MAX,
    SHEETS_MAX,
)
from gateway.http.openapi import answer, json_body, problems
from gateway.http.problems import LedgerPlace, No, refused
from gateway.http.routes import DoorRoute
from gateway.http.run_views import (
    CeilingList,
    RunList,
    RunView,
    StepView,
    ceiling_list,
    cut,
    run_href,
    run_list,
    run_view,
)
from gateway.http.seeing import may_see
from gateway.http.windows import gates_of_windows
from gateway.keys import Caller
from ledger.client.client import Answer
from ledger.core.gates import AnyGateFact, StepReported
from ledger.core.inputs import ReportStep
from projections.query_rows import GateRow

router = APIRouter(prefix="/v1", tags=["runs"], route_class=DoorRoute)

_JSON: Final = "application/json"
_MS_PER_S: Final = 1_000
_REPORTED: Final = (
    answer(200, StepView, "Counted, now or before: how the run stands.")
    | answer(202, StepView, "Durable, and not decided in time.")
    | problems(400, 401, 403, 408, 409, 413, 415, 500, 503)
)


@router.post(
    "/runs/{run}/steps",
    operation_id="reportStep",
    summary="Say what a step of a run took",
    response_model=None,
    responses=_REPORTED,
    openapi_extra=json_body(StepBody),
)
async def report_step(http: HttpRequest, run: str) -> Response:
    """Count one step of a run, and answer what the run has used and has left. Steps of a reporter
    only grow: the same step again, or an earlier one, counts nothing.
    """
    doors = doors_of(http)
    found = await _step(http, doors, run)
    if isinstance(found, No):
        return found.response()
    view, status = found
    return Response(view.model_dump_json(exclude_none=True), status_code=status, media_type=_JSON)


async def _step(http: HttpRequest, doors: Doors, run: str) -> tuple[StepView, int] | No:
    caller = proposer_of(http, doors)
    if isinstance(caller, No):
        return caller
    value = await read_json(http, bytes_max=CANCEL_BYTES_MAX)
    if isinstance(value, No):
        return value
    body = read_model(StepBody, value, Code.INVALID_BODY)
    if isinstance(body, No):
        return body
    given = step_report(run, body, caller)
    if isinstance(given, No):
        return given
    asked = await following.ask(doors.ledger.report_step(given, timeout_ms=DECISION_MS_MAX))
    if isinstance(asked, No):
        return asked
    if isinstance(asked, following.Undecided):
        return _recorded(doors, caller, run, given), 202
    return await _counted(doors, caller, run, given, asked)


async def _counted(
    doors: Doors, caller: Caller, run: str, given: ReportStep, asked: Answer
) -> tuple[StepView, int] | No:
    decision = asked.decision
    place = LedgerPlace(partition=asked.partition, offset=decision.at)
    if decision.refused is not None:
        return refused(decision.refused, place=place)
    if decision.quarantined is not None:
        return No(Code.QUARANTINED, detail=decision.quarantined.reason, ledger=place)
    version = decision.gate[-1].version if decision.gate else 0
    gate = await _gate_at(doors, caller.tenant, given.gate, version)
    replayed = decision.unchanged is not None
    if gate is None:
        view = _recorded(doors, caller, run, given, decision.gate or ())
        return view.model_copy(update={"replayed": replayed, "ledger": place}), 200
    known = run_view(
        caller.tenant, run, gate, None, doors.published().policy, doors.wall_clock_ms()
    )
    told = {"reporter": given.reporter, "step": given.step, "replayed": replayed, "ledger": place}
    return StepView.model_validate(known.model_dump() | told), 200


def _recorded(
    doors: Doors,
    caller: Caller,
    run: str,
    given: ReportStep,
    facts: Sequence[AnyGateFact] = (),
) -> StepView:
    """A durable step of a run of which nothing else is known just now but what it has reached."""
    reached = tuple(
        reached_budget(one)
        for fact in facts
        if isinstance(fact, StepReported)
        for one in fact.reached or ()
    )
    return StepView(
        run=run,
        tenant=caller.tenant,
        href=run_href(run),
        now=doors.wall_clock_ms(),
        policy_hash=doors.published().policy.content_hash,
        budgets=reached,
        sentence=run_sentence(run, reached)
        if reached
        else f"The step is recorded. How the run {run} stands is not known just now; you may ask "
        "again with the same step, which counts nothing twice.",
        reporter=given.reporter,
        step=given.step,
        replayed=False,
    )


async def _gate_at(doors: Doors, tenant: str, key: str, version: int) -> GateRow | None:
    """The gate once the read model has it as of a version; None where that did not come in time."""
    until_s = doors.monotonic_s() + READ_MS_MAX / _MS_PER_S
    while True:
        found = await following.read(doors.queries.gate(tenant, key))
        if isinstance(found, No):
            return None
        if found is not None and found.version >= version:
            return found
        if doors.monotonic_s() >= until_s or doors.is_stopping:
            return None
        await asyncio.sleep(READ_AGAIN_MS / 10 / _MS_PER_S)


@router.get(
    "/runs/{run}",
    operation_id="getRun",
    summary="Look at a run and its ceilings",
    response_model=None,
    responses=answer(200, RunView, "As it stands.") | problems(400, 401, 404, 503),
)
async def get_run(http: HttpRequest, run: str) -> Response:
    """What the run has used of each ceiling, and its actions by status."""
    doors = doors_of(http)
    found = await _run(http, doors, run)
    if isinstance(found, No):
        return found.response()
    return Response(found.model_dump_json(exclude_none=True), media_type=_JSON)


async def _run(http: HttpRequest, doors: Doors, run: str) -> RunView | No:
    caller = caller_of(http, doors)
    if isinstance(caller, No):
        return caller
    key = run_gate(run, caller)
    if isinstance(key, No):
        return key
    gate = await following.read(doors.queries.gate(caller.tenant, key))
    if isinstance(gate, No):
        return gate
    rows = await following.read(
        doors.queries.actions_of_run(caller.tenant, run, limit=RUN_ACTIONS_MAX)
    )
    if isinstance(rows, No):
        return rows
    if gate is None and not rows:
        return No(Code.NOT_FOUND, detail=f"No action and no step of a run {run} is known.")
    seen = await may_see(doors, caller, rows)
    policy, now_ms = doors.published().policy, doors.wall_clock_ms()
    return run_view(caller.tenant, run, gate, seen, policy, now_ms, more=cut(rows))


@router.get(
    "/runs",
    operation_id="listRuns",
    summary="Look at the newest runs",
    response_model=None,
    responses=answer(200, RunList, f"The newest {SHEETS_MAX}, newest first.")
    | problems(400, 401, 503),
)
async def list_runs(http: HttpRequest) -> Response:
    """Runs that a ceiling or a report counts, each with what it has used."""
    doors = doors_of(http)
    caller = caller_of(http, doors)
    if isinstance(caller, No):
        return caller.response()
    rows = await following.read(doors.queries.runs(caller.tenant, limit=SHEETS_MAX))
    if isinstance(rows, No):
        return rows.response()
    found = run_list(rows, doors.published().policy, doors.wall_clock_ms())
    return Response(found.model_dump_json(exclude_none=True), media_type=_JSON)


@router.get(
    "/ceilings",
    operation_id="listCeilings",
    summary="Look at the ceilings in force, and how their windows of now stand",
    response_model=None,
    responses=answer(200, CeilingList, "For the caller's tenant.") | problems(400, 401, 503),
)
async def list_ceilings(http: HttpRequest) -> Response:
    """Every ceiling of the policy in force, with what its windows of now have used and reserved."""
    doors = doors_of(http)
    caller = caller_of(http, doors)
    if isinstance(caller, No):
        return caller.response()
    policy, now_ms = doors.published().policy, doors.wall_clock_ms()
    gates = await following.read(gates_of_windows(doors.queries, caller.tenant, policy, now_ms))
    if isinstance(gates, No):
        return gates.response()
    found = ceiling_list(caller.tenant, gates, policy, now_ms)
    return Response(found.model_dump_json(exclude_none=True), media_type=_JSON)
