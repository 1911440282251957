"""What may have happened: how old, what was found so far, what comes next, and how much is left of
the time in which its key may be used; and what the reconciler saw lately.

Guarantees that a page shows nothing of a tenant that its reader is not registered for. Webhooks are
no tenant's until they are matched, so figures about them are shown to those who may see all
tenants. Looking changes nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.console.limits import WAITING_ROWS_MAX
from gateway.console.request import Answer, Seen, looked
from gateway.console.sheet import amount
from gateway.unknowns import Unknown, unknown_of
from ledger.core.ids import ActionKey
from ledger.core.people import EVERY_TENANT
from projections.query_rows import UnknownAge
from reconciler.windows import Live

router = APIRouter(prefix="/console", include_in_schema=False)

_HUNDRED: Final = 100
AGES: Final = {
    "1m": "below 1 min",
    "10m": "below 10 min",
    "1h": "below 1 h",
    "6h": "below 6 h",
    "1d": "below 1 d",
    "older": "older",
}


@dataclass(frozen=True, slots=True)
class Line:
    """One action of the list."""

    one: Unknown
    href: str
    operation: str
    amount: str | None


@dataclass(frozen=True, slots=True)
class Rate:
    """Webhooks of a provider in the last minutes, by what became of them."""

    provider: str
    told: str


@router.get("/unknowns")
async def unknowns_page(http: HttpRequest) -> Response:
    """What may have happened."""
    return await looked(http, _unknowns)


async def _unknowns(seen: Seen) -> Answer:
    person, port = seen.visitor.person, seen.console.port
    is_for_all = EVERY_TENANT in person.tenants
    rows = await port.unknowns(person.tenants, limit=WAITING_ROWS_MAX + 1)
    ages = await port.unknown_ages(person.tenants, now_ms=seen.now)
    live = await port.live(now_ms=seen.now) if is_for_all else None
    context = {
        "lines": [_line(unknown_of(one, seen.now)) for one in rows[:WAITING_ROWS_MAX]],
        "is_cut": len(rows) > WAITING_ROWS_MAX,
        "tenants_shown": "all tenants" if is_for_all else ", ".join(person.tenants),
        "ages": list(AGES.values()),
        "providers": _by_provider(ages),
        "live": live,
        "rates": [] if live is None else list(_rates(live)),
        "matched": None if live is None else _matched(live),
        "unmatched": {} if live is None else live.unmatched,
    }
    return seen.page("unknowns", context)


def _line(one: Unknown) -> Line:
    return Line(
        one=one,
        href=f"/console/actions/{quote(one.key, safe=':~')}",
        operation=ActionKey.parse(one.key).operation,
        amount=None if one.money is None else amount(one.money),
    )


def _by_provider(ages: Sequence[UnknownAge]) -> dict[str, list[int]]:
    """How many of each age, for every provider that has any."""
    found: dict[str, list[int]] = {}
    for one in ages:
        counts = found.setdefault(one.provider, [0] * len(AGES))
        counts[list(AGES).index(one.below)] = one.actions
    return found


def _rates(live: Live) -> Iterator[Rate]:
    for provider, counts in live.webhooks_per_s.items():
        told = ", ".join(
            f"{per_s:.3g} a second {became.replace('_', ' ')}" for became, per_s in counts.items()
        )
        yield Rate(provider, told)


def _matched(live: Live) -> str | None:
    """How long webhooks took to their action, as a sentence; None where none did lately."""
    if live.matched_p50_ms is None or live.matched_p99_ms is None:
        return None
    return (
        f"Half of them matched within {_within(live.matched_p50_ms)}, "
        f"99 in {_HUNDRED} within {_within(live.matched_p99_ms)}."
    )


def _within(bound_ms: float) -> str:
    return "more than a minute" if bound_ms == float("inf") else f"{bound_ms:,.0f} ms"
