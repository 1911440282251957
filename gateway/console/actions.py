"""What waits for people, and one action with everything that happened to it.

Guarantees that a page shows nothing of a tenant that its reader is not registered for: such an
action is answered as one that does not exist. Looking changes nothing.
"""

import json
from asyncio import to_thread
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from gateway.console.limits import WAITING_ROWS_MAX
from gateway.console.port import Known, Waiting
from gateway.console.refusals import PageNo
from gateway.console.request import Answer, Seen, looked
from gateway.console.sheet import amount, sheet_of
from gateway.console.text import Shown, shown
from gateway.console.why import REVIEWS, told, why
from ledger.core.blocking import blocking
from ledger.core.ids import ActionKey, MalformedId
from ledger.core.money import Money
from ledger.core.operation import Risk
from ledger.core.people import EVERY_TENANT
from ledger.core.policy import BEFORE_THE_TABLE
from ledger.core.policy_when import LEVELS, RISKS
from ledger.core.state import Status
from projections.query_rows import CauseRow, EventRow

router = APIRouter(prefix="/console", include_in_schema=False)


@router.get("/waiting")
async def waiting_page(http: HttpRequest) -> Response:
    """What needs a person."""
    return await looked(http, _waiting)


@router.get("/actions/{key}")
async def action_page(http: HttpRequest, key: str) -> Response:
    """One action."""

    async def work(seen: Seen) -> Answer:
        known = await known_to(seen, key)
        # What an agent wrote may be long: it is made into a page beside those who serve agents.
        return PageNo.NOT_FOUND if known is None else await to_thread(_action, seen, known)

    return await looked(http, work)


async def known_to(seen: Seen, text: str) -> Known | None:
    """An action that the person may look at, or None."""
    tenant = own_tenant(seen, text)
    return None if tenant is None else await seen.console.port.known(tenant, text)


def own_tenant(seen: Seen, text: str) -> str | None:
    """The tenant of a key, where the person may look at its actions; or None."""
    try:
        key = ActionKey.parse(text)
    except MalformedId:
        return None
    return key.tenant if seen.visitor.person.may_decide_for(key.tenant) else None


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of what waits."""

    kind: str
    href: str
    operation: str
    key: str
    since: int
    target: Shown | None
    amount: str | None
    principal: Shown | None
    risk: str
    whom: str
    state: str
    expires_at: int | None


async def _waiting(seen: Seen) -> Answer:
    person = seen.visitor.person
    chosen = seen.http.query_params.get("tenant", "")
    if chosen and not person.may_decide_for(chosen):
        return PageNo.NOT_FOUND
    is_for_all = EVERY_TENANT in person.tenants
    own = () if is_for_all else person.tenants
    asked_for = (chosen,) if chosen else person.tenants
    rows = await seen.console.port.waiting(asked_for, limit=WAITING_ROWS_MAX + 1)
    tenants = sorted({*(one.tenant for one in rows), *own, *((chosen,) if chosen else ())})
    # Cut before it is put in order of time: what can be decided now comes before what has time.
    listed = sorted(rows[:WAITING_ROWS_MAX], key=lambda one: (one.since, one.key))
    entries = [entry(one, seen.now) for one in listed]
    context = {
        "rows": entries,
        "is_cut": len(rows) > WAITING_ROWS_MAX,
        "tenants": tenants,
        "chosen": chosen,
        "tenants_shown": chosen or ("all tenants" if is_for_all else ", ".join(own)),
    }
    return seen.page("waiting", context)


_STATES: Final = {
    "approval": "asked",
    "preview": "provider is asked first",
    "expired": "ran out: to be asked about again",
    "review": "to be settled",
}


def entry(one: Waiting, now_ms: int) -> Entry:
    """One line, in words."""
    key = ActionKey.parse(one.key)
    is_over = one.expires_at is not None and now_ms >= one.expires_at
    kind = "expired" if one.kind == "approval" and is_over else one.kind
    page = {"approval": "approve", "review": "review"}.get(kind, "actions")
    money = None
    if one.amount_minor is not None and one.currency is not None:
        money = amount(Money(minor=one.amount_minor, currency=one.currency))
    state = _STATES[kind]
    if kind == "review" and one.reason is not None:
        state = REVIEWS.get(one.reason, one.reason)
    return Entry(
        kind=kind,
        href=f"/console/{page}/{quote(one.key, safe=':~')}",
        operation=key.operation,
        key=one.key,
        since=one.since,
        target=None if one.target is None else shown(one.target),
        amount=money,
        principal=None if one.principal is None else shown(one.principal),
        risk=risk_in_words(one.risk),
        whom=_whom(one),
        state=state,
        expires_at=one.expires_at if kind == "approval" else None,
    )


def _whom(one: Waiting) -> str:
    if one.kind == "review":
        return "an operator"
    people = "1 person" if one.quorum == 1 else f"{one.quorum} people"
    groups = f" of {' or '.join(one.groups)}" if one.groups else ""
    agreed = f", {one.granted} agreed" if one.granted else ""
    return f"{people}{groups}{agreed}" if one.quorum else "people"


def risk_in_words(risk: Risk | None) -> str:
    """The highest level that an operation declares, and for what."""
    if risk is None:
        return "not declared"
    levels = {name: getattr(risk, name) for name in RISKS}
    highest = max(levels.values(), key=lambda level: LEVELS[level])
    if highest == "none":
        return "none"
    names = [name.replace("_", " ") for name, level in levels.items() if level == highest]
    return f"{highest}: {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class Line:
    """One fact of the timeline, in a few words and in its bytes."""

    told: str
    type: str
    decided_at: int
    partition: int
    ledger_offset: int
    ordinal: int
    event_id: str
    cause: CauseRow
    bytes: str


def lines(events: Sequence[EventRow]) -> Iterator[Line]:
    """The facts of a timeline."""
    for event in events:
        yield Line(
            told=told(event.type, event.data),
            type=event.type,
            decided_at=event.decided_at,
            partition=event.partition,
            ledger_offset=event.ledger_offset,
            ordinal=event.ordinal,
            event_id=event.event_id,
            cause=event.cause,
            bytes=json.dumps(event.data, ensure_ascii=False, separators=(",", ":")),
        )


def _action(seen: Seen, known: Known) -> Response:
    action = known.action
    waits = blocking(action)
    denied = [told(one.type, one.data) for one in known.events if one.type == "action.denied"]
    context: dict[str, Any] = {
        "action": action,
        "sheet": sheet_of(known, seen.visitor.person, now_ms=seen.now),
        "why": why(action, now_ms=seen.now, hold=known.hold, denied=next(iter(denied), None)),
        "may_be_let_pass": waits is not None and waits.may_be_allowed,
        "is_asked": action.status is Status.AWAITING_APPROVAL and action.approval is not None,
        "evidence": [event for event in known.events if event.type == "evidence.recorded"],
        "events": list(lines(known.events)),
        "is_whole": known.is_whole,
        "before_the_table": BEFORE_THE_TABLE.get(action.policy_row or ""),
    }
    return seen.page("action", context)
