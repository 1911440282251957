"""Runs of agents and ceilings: what each has used, and what is left.

Guarantees that a page shows nothing of a tenant that its reader is not registered for: such a run
is answered as one that does not exist. Looking changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.console.limits import WAITING_ROWS_MAX
from gateway.console.refusals import PageNo
from gateway.console.request import Answer, Seen, looked
from gateway.http.budgets import BudgetView, budget_line, dimension_words
from gateway.http.run_views import CeilingList, RunView, WindowView
from ledger.core.people import EVERY_TENANT

router = APIRouter(prefix="/console", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Bar:
    """One ceiling as a bar: `used` and `reserved` are in hundredths of its length."""

    name: str
    ceiling: str | None
    told: str
    whose: str
    used: int
    reserved: int
    is_reached: bool
    is_limited: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One run of the list."""

    run: RunView
    href: str
    bars: tuple[Bar, ...]


@router.get("/runs")
async def runs_page(http: HttpRequest) -> Response:
    """The newest runs, and the windows of now."""
    return await looked(http, _runs)


@router.get("/runs/{tenant}/{run}")
async def run_page(http: HttpRequest, tenant: str, run: str) -> Response:
    """One run: a bar for every ceiling, and its actions."""

    async def work(seen: Seen) -> Answer:
        if not seen.visitor.person.may_decide_for(tenant):
            return PageNo.NOT_FOUND
        found = await seen.console.port.run(tenant, run, now_ms=seen.now)
        if found is None:
            return PageNo.NOT_FOUND
        context = {"run": found, "bars": bars(found.budgets), "actions": found.actions or ()}
        return seen.page("run", context)

    return await looked(http, work)


async def _runs(seen: Seen) -> Answer:
    person = seen.visitor.person
    found = await seen.console.port.runs(
        person.tenants, limit=WAITING_ROWS_MAX + 1, now_ms=seen.now
    )
    listed = found.runs[:WAITING_ROWS_MAX]
    is_for_all = EVERY_TENANT in person.tenants
    tenants = sorted({one.tenant for one in listed} if is_for_all else set(person.tenants))
    ceilings = [await seen.console.port.ceilings(one, now_ms=seen.now) for one in tenants[:_SHOWN]]
    context = {
        "lines": [_line(one) for one in listed],
        "is_cut": len(found.runs) > WAITING_ROWS_MAX,
        "tenants_shown": "all tenants" if is_for_all else ", ".join(person.tenants),
        "windows": [line for one in ceilings for line in _windows(one)],
    }
    return seen.page("runs", context)


_SHOWN = 16
"""Tenants whose windows stand on one page."""


@dataclass(frozen=True, slots=True)
class WindowLine:
    """One window of a ceiling."""

    tenant: str
    ceiling: str
    per: str
    zone: str
    window: WindowView
    bars: tuple[Bar, ...]


def _windows(found: CeilingList) -> Iterable[WindowLine]:
    for ceiling in found.ceilings:
        for one in ceiling.windows:
            yield WindowLine(
                tenant=found.tenant,
                ceiling=ceiling.name,
                per=ceiling.per,
                zone=ceiling.zone or "UTC",
                window=one,
                bars=bars(one.budgets),
            )


def _line(one: RunView) -> Line:
    return Line(one, f"/console/runs/{one.tenant}/{one.run}", bars(one.budgets))


def bars(found: Sequence[BudgetView]) -> tuple[Bar, ...]:
    """Every budget as a bar."""
    return tuple(_bar(one) for one in found)


def _bar(one: BudgetView) -> Bar:
    used = _hundredths(one.used, one.limit)
    return Bar(
        name=dimension_words(one.dimension),
        ceiling=one.ceiling,
        told=budget_line(one),
        whose="counted here" if one.kind == "enforced" else "the agent's own word",
        used=used,
        reserved=min(_hundredths(one.reserved, one.limit), 100 - used),
        is_reached=one.is_reached,
        is_limited=one.limit is not None,
    )


def _hundredths(amount: int, limit: int | None) -> int:
    """How much of a bar an amount fills; a little shows as a little, and never as nothing."""
    if limit is None or not amount:
        return 0
    return 100 if limit == 0 else min(100, max(1, amount * 100 // limit))
