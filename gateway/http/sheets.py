"""What people are asked about, as JSON: a list of what waits, and the sheet of one action.

Guarantees that a sheet holds everything that a person signs and everything by which they could be
misled, whole: the recorded request is as it stands in the log, never a summary of it. It is data to
be shown, not to be believed: whoever signs computes the hashes again from what was shown. Made for
the routes of approvals, read by the command line.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gateway.console.rounds import earlier_rounds, is_void
from gateway.console.sheet import barred_of, named
from gateway.http import views
from ledger.core.ids import ActionKey
from ledger.core.money import Money, exponent, format_money
from ledger.core.operation import Operation, Risk
from ledger.core.people import People, Person
from ledger.core.policy import BEFORE_THE_TABLE, Policy
from ledger.core.policy_contradictions import DEFAULT_ROW
from ledger.core.preview import Preview
from ledger.core.request import RecordedRequest
from ledger.core.state import Action, Approval
from projections.limits import ROWS_READ_MAX
from projections.query_rows import CaseRow, ReviewRow, SignedRow, WaitingRow

if TYPE_CHECKING:
    from ledger.log.published import Published

DEFAULT_REASON: Final = "No row of the table applies: one person is asked."


class OnSheet(BaseModel):
    """Something that is shown to people, as JSON."""

    model_config = ConfigDict(frozen=True)


class PolicySheet(OnSheet):
    """The row by which people are asked, and its sentence; None where the table is not known."""

    policy_hash: str
    row: str
    reason: str | None = None


class OperationSheet(OnSheet):
    """What is to be done, by its declaration in the newest catalogue; nothing where it has none."""

    description: str | None = None
    kind: str | None = None
    risk: Risk | None = None
    personal: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()


class AgreedSheet(OnSheet):
    """Somebody who has agreed in this round. `void` where they, or their key, were revoked since:
    it counts no more, and people are asked anew before anything begins.
    """

    person: str
    granted_at: int
    expires_at: int
    void: Literal[True] | None = None


class AskedSheet(OnSheet):
    """What people are asked now. `ended` says why it is over; expired is no denial. What you issued
    up to `void_until` was taken back with an earlier yes of yours.
    """

    round: int
    nonce: str
    requested_at: int
    expires_at: int
    policy_hash: str
    row: str
    preview_hash: str
    quorum: int
    groups: tuple[str, ...]
    escalate_at: int | None = None
    escalate_to: tuple[str, ...] = ()
    agreed: tuple[AgreedSheet, ...] = ()
    ended: str | None = None
    void_until: int | None = None


class SignedSheet(OnSheet):
    """What somebody has signed about the action before, and what counted."""

    version: int
    round: int
    decision: Literal["approve", "deny", "withdraw"]
    person: str
    comment: str | None = None
    decided_at: int


class DifferenceSheet(OnSheet):
    """A value that was shown, and the one that stands in its place now, both whole."""

    name: str
    was: str
    now: str


class EarlierSheet(OnSheet):
    """A round that came to nothing: when people were asked and until when that stood, why it ended,
    by name and in a sentence, and every value that is another one now.
    """

    round: int
    asked_at: int
    ended_at: int
    reason: str
    sentence: str
    changes: tuple[DifferenceSheet, ...] = ()


class BarredSheet(OnSheet):
    """Why somebody may not decide, by name, in a sentence, and who may."""

    code: str
    sentence: str
    hint: str


class ActionSheet(OnSheet):
    """What a person sees of an action, whatever they sign about it. `ledger` is the generation of
    the log, `now` the time there, for the countdown; times are milliseconds since
    1970-01-01T00:00:00Z. `you` is the person who looks; `exponent` is how many decimals the
    currency has. `compensates` is the action whose effect it undoes; `performer` is set where no
    executor but the caller itself carries it out. `more` stands there where more was recorded than
    is read: the sheet may be outdated, and nothing of it is to be signed. `barred` is why nothing
    that `you` sign of it would count, because of who you are; only the ledger can say that it does.
    """

    ledger: str
    now: int
    you: str
    key: str
    href: str
    page: str
    tenant: str
    status: str
    version: Annotated[int, Field(ge=0)]
    operation: OperationSheet
    request: RecordedRequest
    request_hash: str
    amount: str | None = None
    exponent: int | None = None
    provider: str
    account: str
    reliability: str
    behalf: tuple[str, ...] = ()
    compensates: str | None = None
    performer: Literal["caller"] | None = None
    policy: PolicySheet | None = None
    recorded_at: int
    step_deadline_at: int
    more: Literal[True] | None = None
    barred: BarredSheet | None = None


AnySheet = TypeVar("AnySheet", bound=ActionSheet)


def for_person(sheet: AnySheet, person: Person, groups: tuple[str, ...] | None) -> AnySheet:
    """The sheet with why this person may not decide, if so; `groups` of which one decides, None
    where nothing is asked.
    """
    asks = (sheet.request.principal, *sheet.behalf)
    barred = None if groups is None else barred_of(person, asks, groups)
    if barred is None:
        return sheet
    why = named(barred)
    told = BarredSheet(code=why.code, sentence=why.sentence, hint=why.hint)
    return sheet.model_copy(update={"barred": told})


class DecisionSheet(ActionSheet):
    """Everything that a person sees before they decide. `preview` is None while the provider is to
    say what it foresees. `earlier` has the rounds that came to nothing, newest first.
    """

    preview: Preview | None = None
    asked: AskedSheet | None = None
    signed: tuple[SignedSheet, ...] = ()
    earlier: tuple[EarlierSheet, ...] = ()


class ListEntry(OnSheet):
    """One action on a list of what waits for people."""

    key: str
    href: str
    page: str
    tenant: str
    operation: str
    target: str | None = None
    amount: str | None = None
    principal: str
    environment: str
    provider: str
    account: str


class WaitingEntry(ListEntry):
    """One action that people are asked about, for a list. `preparing` before there is anything to
    sign; `expired` until somebody asks again.
    """

    state: Literal["preparing", "waiting", "expired", "ended"]
    since: int
    expires_at: int | None = None
    quorum: int | None = None
    agreed: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    policy: PolicySheet | None = None
    preview: dict[str, JsonValue] | None = None


class PersonsList(OnSheet):
    """A list for a person: `now` is the time at the ledger, `you` who looks, and `tenants` those
    for which you decide (`*` is all of them).
    """

    ledger: str
    now: int
    you: str
    tenants: tuple[str, ...]


class WaitingList(PersonsList):
    """What waits for people, oldest first; `now` is the time at the ledger, `you` who looks, and
    `tenants` those for which you decide (`*` is all of them). `more` stands there where more wait
    than are listed: then what ran out gave way to what can be decided now.
    """

    waiting: tuple[WaitingEntry, ...]
    more: Literal[True] | None = None


def sheet_of(
    found: CaseRow,
    signed: tuple[SignedRow, ...],
    known: "Published",
    *,
    ledger: str,
    now_ms: int,
    you: str,
) -> DecisionSheet:
    """The sheet of an action as it stands, for a person; with `more` as it was."""
    action = found.action
    dry, approval = action.dry, action.approval
    shown = of_action(action, known)
    if approval is not None:
        # Another table that asks the same lets what is asked stand: the row that is signed is that
        # of the table by which people were asked.
        shown["policy"] = _policy(known.policies, approval.policy_hash, approval.row)
    return DecisionSheet(
        ledger=ledger,
        now=now_ms,
        you=you,
        href=views.sheet_href(action.key),
        page=views.page(action.key),
        preview=None if dry is None else dry.content,
        asked=None if approval is None else _asked(approval, you, known.people, now_ms),
        signed=tuple(SignedSheet.model_validate(_as_dict(one)) for one in signed),
        earlier=tuple(
            EarlierSheet.model_validate(asdict(one)) for one in earlier_rounds(found.events)
        ),
        more=None if found.is_whole and len(signed) < ROWS_READ_MAX else True,
        **shown,
    )


def of_action(action: Action, known: "Published") -> dict[str, Any]:
    """What every sheet shows of its action, whoever looks at it and whatever for."""
    request, money = action.request, action.request.money
    return {
        "key": action.key,
        "tenant": ActionKey.parse(action.key).tenant,
        "status": action.status,
        "version": action.version,
        "operation": _operation(known, request),
        "request": request,
        "request_hash": action.request_hash,
        "amount": None if money is None else format_money(money),
        "exponent": None if money is None else exponent(money.currency),
        "provider": action.provider,
        "account": action.account,
        "reliability": action.reliability,
        "behalf": action.behalf or (),
        "compensates": action.compensates,
        "performer": action.performer,
        "policy": _policy(known.policies, action.policy_hash, action.policy_row),
        "recorded_at": action.recorded_at,
        "step_deadline_at": action.step_deadline_at,
    }


def _as_dict(one: SignedRow) -> dict[str, object]:
    return {name: getattr(one, name) for name in SignedSheet.model_fields}


def _operation(known: "Published", request: RecordedRequest) -> OperationSheet:
    declared: Operation | None = None
    if known.catalogue is not None:
        declared = known.catalogue.operation(request.operation, request.version)
    if declared is None:
        return OperationSheet()
    return OperationSheet(
        description=declared.description,
        kind=declared.kind,
        risk=declared.risk,
        personal=declared.personal,
        volatile=declared.volatile,
    )


def _policy(
    policies: Mapping[str, Policy], policy_hash: str | None, row: str | None
) -> PolicySheet | None:
    if policy_hash is None or row is None:
        return None
    if row == DEFAULT_ROW:
        return PolicySheet(policy_hash=policy_hash, row=row, reason=DEFAULT_REASON)
    table = policies.get(policy_hash)
    found = None if table is None else table.row(row)
    reason = BEFORE_THE_TABLE.get(row) if found is None else found.reason
    return PolicySheet(policy_hash=policy_hash, row=row, reason=reason)


def _asked(approval: Approval, you: str, people: People, now_ms: int) -> AskedSheet:
    void = [one.void_until for one in approval.withdrawals if one.person == you]
    return AskedSheet(
        round=approval.round,
        nonce=approval.nonce,
        requested_at=approval.requested_at,
        expires_at=approval.expires_at,
        policy_hash=approval.policy_hash,
        row=approval.row,
        preview_hash=approval.preview_hash,
        quorum=approval.quorum,
        groups=approval.groups,
        escalate_at=approval.escalate_at,
        escalate_to=approval.escalate_to,
        agreed=tuple(
            AgreedSheet(
                person=grant.person,
                granted_at=grant.granted_at,
                expires_at=grant.expires_at,
                void=True if is_void(grant, people, now_ms) else None,
            )
            for grant in approval.grants
        ),
        ended=approval.ended,
        void_until=max(void, default=None),
    )


def of_row(row: WaitingRow | ReviewRow) -> dict[str, Any]:
    """What every line shows of its action."""
    amount = None
    if row.amount_minor is not None and row.currency is not None:
        amount = format_money(Money(minor=row.amount_minor, currency=row.currency))
    return {
        "key": row.action_key,
        "tenant": row.tenant_id,
        "operation": row.operation,
        "target": row.target,
        "amount": amount,
        "principal": row.principal,
        "environment": row.environment,
        "provider": row.provider,
        "account": row.account,
    }


def entry_of(row: WaitingRow, known: "Published", *, now_ms: int) -> WaitingEntry:
    """One line of the list."""
    return WaitingEntry(
        href=views.sheet_href(row.action_key),
        page=views.page(row.action_key),
        **of_row(row),
        state=_state(row, now_ms),
        since=row.created_at if row.requested_at is None else row.requested_at,
        expires_at=row.expires_at,
        quorum=row.quorum,
        agreed=row.granted_by,
        groups=row.groups,
        policy=_policy(known.policies, row.policy_hash, row.policy_row),
        preview=row.preview,
    )


def _state(row: WaitingRow, now_ms: int) -> Literal["preparing", "waiting", "expired", "ended"]:
    if row.expires_at is None:
        return "preparing"
    if row.ended == "expired" or (row.ended is None and now_ms >= row.expires_at):
        return "expired"
    return "waiting" if row.ended is None else "ended"
