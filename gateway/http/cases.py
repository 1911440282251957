"""A case that a person settles: from what was recorded to the sheet and to its line in the list.

Guarantees that a sheet holds why a person is needed, every attempt, every piece of evidence and
every move that is safe now with what it would do; whatever a resolution is bound to stands on it.
Called by the routes of reviews and by the pages.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from gateway.console.why import BLOCKED, review_sentence
from gateway.http import views
from gateway.http.budgets import amount_words, measured
from gateway.http.case_sheets import (
    AboutSheet,
    AttemptSheet,
    CaseEntry,
    CaseSheet,
    EvidenceSheet,
    Kind,
    MoveSheet,
    ReasonSheet,
    ResolvedSheet,
)
from gateway.http.sheets import of_action, of_row
from ledger.core.blocking import blocking
from ledger.core.ceilings import Ceiling
from ledger.core.config import Config
from ledger.core.decide.gate_demands import demand_of
from ledger.core.decide.resolving import moves
from ledger.core.decide.schedule import key_window_closes_at
from ledger.core.money import Money, format_money
from ledger.core.state import Action
from ledger.core.statement import Move
from projections.query_rows import ActionRow, CaseRow, EventRow, ReviewRow

if TYPE_CHECKING:
    from ledger.log.published import Published

OUTCOMES: Final = {
    "attempt.succeeded": "effect",
    "attempt.refused": "no_effect",
    "attempt.not_sent": "no_effect",
    "attempt.declined": "no_effect",
    "attempt.unresolved": "inconclusive",
    "attempt.absent": "absent",
}
"""What the outcome of an attempt says about its effect, in the words of evidence."""


def case_entry(row: ReviewRow) -> CaseEntry:
    """One line of the list."""
    return CaseEntry(
        href=views.case_href(row.action_key),
        page=views.case_page(row.action_key),
        **of_row(row),
        status=row.status,
        kind="alarm" if row.kind == "alarm" else "review",
        reason=row.reason,
        sentence=review_sentence(row.reason),
        names=row.names,
        since=row.opened_at,
    )


def blocked_entry(row: ActionRow) -> CaseEntry:
    """One line of the list of what is blocked."""
    reason, by = row.blocked_reason or "target", row.blocked_by or ""
    amount = None
    if row.amount_minor is not None and row.currency is not None:
        amount = format_money(Money(minor=row.amount_minor, currency=row.currency))
    return CaseEntry(
        key=row.action_key,
        href=views.case_href(row.action_key),
        page=views.case_page(row.action_key),
        tenant=row.tenant_id,
        operation=row.operation,
        target=row.target,
        amount=amount,
        principal=row.principal,
        environment=row.environment,
        provider=row.provider,
        account=row.account,
        status=row.status,
        kind="blocked",
        reason=reason,
        sentence=f"{BLOCKED[reason].format(by)}.",
        names=by,
        since=row.updated_at,
    )


def case_sheet_of(
    found: CaseRow, known: "Published", *, ledger: str, now_ms: int, you: str
) -> CaseSheet:
    """The sheet of a case as it stands, for a person; without `case` where nothing is to settle."""
    action, events = found.action, found.events
    operation = None
    if known.catalogue is not None:
        request = action.request
        operation = known.catalogue.operation(request.operation, request.version)
    attempts = _attempts(action, known)
    last_bytes = [one.last_byte_at for one in attempts if one.last_byte_at is not None]
    stake = _at_stake(action)
    return CaseSheet(
        ledger=ledger,
        now=now_ms,
        you=you,
        href=views.case_href(action.key),
        page=views.case_page(action.key),
        kind=stake.kind,
        case=stake.case,
        moved=stake.moved,
        reasons=_reasons(action, events),
        about=_about(action, stake, events, known, now_ms),
        accepts=stake.accepts,
        attempts=attempts,
        evidence=tuple(evidence_of(events)),
        key_window_closes_at=None if operation is None else key_window_closes_at(action, operation),
        last_byte_at=max(last_bytes, default=None),
        groups=known.policy.review_groups,
        moves=_moves(action, known, now_ms) if found.is_whole else (),
        resolved=tuple(_resolved(events)),
        more=None if found.is_whole else True,
        **of_action(action, known),
    )


def _moves(action: Action, known: "Published", now_ms: int) -> tuple[MoveSheet, ...]:
    """What the ledger would take now; nothing where no catalogue is known here."""
    catalogue = known.catalogue
    if catalogue is None:
        return ()
    config = Config(
        catalogue, catalogue.content_hash, known.holds, policy=known.policy, people=known.people
    )
    operation = config.operation(action.request.operation, action.request.version)
    return tuple(
        MoveSheet(
            move=one.move,
            sentence=one.sentence,
            needs_reference=one.move is Move.EFFECT_EXISTS,
        )
        for one in moves(action, operation, config, now_ms)
    )


def _attempts(action: Action, known: "Published") -> tuple[AttemptSheet, ...]:
    skew_ms = None if known.catalogue is None else known.catalogue.timing.skew_ms
    return tuple(
        AttemptSheet(
            number=one.number,
            status=one.status,
            code=one.code,
            holder=one.holder,
            provider_key=one.provider_key,
            started_at=one.started_at,
            lease_until=one.lease_until,
            last_byte_at=None if skew_ms is None else one.lease_until + skew_ms,
            ended_at=one.ended_at,
        )
        for one in action.attempts
    )


@dataclass(frozen=True, slots=True)
class _Stake:
    """What a person may settle of an action: its case, or what blocks it."""

    kind: Kind | None = None
    case: int | None = None
    moved: int | None = None
    accepts: str | None = None


def _at_stake(action: Action) -> _Stake:
    case, waits = action.case, blocking(action)
    if case is not None:
        kind: Kind = "alarm" if action.is_final else "review"
        return _Stake(kind, case.opened_version, case.moved_version, case.names)
    if waits is None or not waits.may_be_allowed:
        return _Stake()
    return _Stake("blocked", waits.version, waits.version, waits.by)


def _about(
    action: Action, stake: _Stake, events: Sequence[EventRow], known: "Published", now_ms: int
) -> AboutSheet | None:
    name = stake.accepts
    if name is None:
        return None
    if action.case is not None and action.case.reason in _AMOUNTS:
        sentence = _AMOUNTS[action.case.reason]
        return AboutSheet(kind="amounts", name=name, sentence=sentence)
    if action.case is None or action.case.reason != "ceiling_reached":
        sentence = _OTHERS[stake.kind if action.case is None else action.case.reason].format(name)
        return AboutSheet(
            kind="action",
            name=name,
            sentence=sentence,
            href=views.href(name),
            page=views.action_page(name),
        )
    return _ceiling(action, name, events, known, now_ms)


_AMOUNTS: Final = {
    "reversed_elsewhere": "So much of it was given back, and not by an action of this ledger.",
    "returned_too_much": "So much of it came back, by whom these names say.",
    "returned_already": "So much of what it undoes was given back elsewhere.",
}
_OTHERS: Final[defaultdict[str | None, str]] = defaultdict(
    lambda: "It is about {}.",
    {
        "blocked": "It waits until {} is settled, whose effect may still come.",
        "suspected_duplicate": "{} asked for the same before.",
        "compensation_failed": "{} is to be undone by it, and is not.",
        "original_amount_differs": "{} had its effect with another amount than was asked for.",
    },
)


def _ceiling(
    action: Action, name: str, events: Sequence[EventRow], known: "Published", now_ms: int
) -> AboutSheet:
    """The ceiling, as it stood when the gate refused: by the gate's own answer, or, of one that is
    for each action by itself, by the policy.
    """
    demand, ceiling = demand_of(action.request), known.policy.ceiling(name)
    told = [one.data for one in reversed(events) if (one.data.get("reached") or {}) != {}]
    answer = next((one for one in told if one["reached"]["ceiling"] == name), None)
    found = None if answer is None else answer["reached"]
    window, within, over = _window(ceiling, answer, now_ms)
    if found is None:
        passed = None if ceiling is None else ceiling.reached_by(demand)
        found = None if passed is None else passed.model_dump()
    if found is None:
        return AboutSheet(kind="ceiling", name=name, sentence=f"It would pass the ceiling {name}.")
    dimension, taken, limit = found["dimension"], found["taken"], found["limit"]
    wanted = demand.get(dimension, 0)
    needs = f"; this needs {measured(dimension, wanted)}" if wanted else ""
    return AboutSheet(
        kind="ceiling",
        name=name,
        sentence=f"The ceiling {name} is {measured(dimension, limit)}{within}, of which "
        f"{amount_words(dimension, taken)} were taken{needs}.{over}",
        window=window,
        dimension=dimension,
        taken=taken,
        wanted=wanted,
        limit=limit,
    )


def _window(
    ceiling: Ceiling | None, answer: Mapping[str, Any] | None, now_ms: int
) -> tuple[str | None, str, str]:
    """The window that counted, in words too; and whether it is over, so that nobody has to let
    the action pass.
    """
    window = None if ceiling is None or answer is None else ceiling.window_of(answer["gate"])
    if window is None or ceiling is None:
        return None, "", ""
    is_over = window != ceiling.window_at(now_ms)
    over = " That window is over: tried again, it counts in the one of now." if is_over else ""
    return window, f" in {window} ({ceiling.zone})", over


def _reasons(action: Action, events: Sequence[EventRow]) -> tuple[ReasonSheet, ...]:
    """Why a person was asked for, each time since the case was opened; or what blocks it."""
    case, waits = action.case, blocking(action)
    if case is None:
        if waits is None or not waits.may_be_allowed:
            return ()
        since = next((one.decided_at for one in events if one.version == waits.version), 0)
        sentence = f"{BLOCKED[waits.why].format(waits.by)}."
        return (
            ReasonSheet(
                version=waits.version,
                reason=waits.why,
                sentence=sentence,
                opened_at=since,
                names=waits.by,
            ),
        )
    since_version = case.opened_version
    return tuple(
        ReasonSheet(
            version=one.version,
            reason=one.data["reason"],
            sentence=review_sentence(one.data["reason"]),
            opened_at=one.decided_at,
            names=one.data.get("names"),
        )
        for one in events
        if one.type == "review.opened" and one.version >= since_version
    )


def evidence_of(events: Sequence[EventRow]) -> Iterator[EvidenceSheet]:
    """Everything that is known about the effect, in the order in which it became known."""
    for one in events:
        if one.type == "evidence.recorded":
            yield EvidenceSheet(version=one.version, at=one.decided_at, **_evidence(one.data))
        elif (meaning := OUTCOMES.get(one.type)) is not None:
            yield EvidenceSheet(
                version=one.version,
                at=one.decided_at,
                kind="response",
                meaning=meaning,
                attempt=one.data["attempt"],
                reference=one.data.get("reference"),
                code=one.data.get("code"),
                result=one.data.get("result"),
                source_id=one.data.get("source_id"),
            )


_EVIDENCE: Final = (
    "kind",
    "meaning",
    "attempts_upto",
    "lookup",
    "reference",
    "code",
    "source_id",
    "raw_sha256",
    "occurred_at",
    "reverses",
)


def _evidence(data: dict[str, Any]) -> dict[str, Any]:
    money = None if data.get("money") is None else Money.model_validate(data["money"])
    told = {name: data.get(name) for name in _EVIDENCE}
    return {**told, "money": money, "amount": None if money is None else format_money(money)}


def _resolved(events: Sequence[EventRow]) -> Iterator[ResolvedSheet]:
    for one in events:
        if one.type == "review.resolved":
            data = one.data
            yield ResolvedSheet(
                version=one.version,
                case=data["case"],
                move=data["move"],
                person=data["person"],
                reference=data.get("reference"),
                accepts=data.get("accepts"),
                comment=data["comment"],
                resolved_at=one.decided_at,
            )
