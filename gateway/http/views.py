"""An action as a caller sees it: one shape, whatever it was learnt from.

Guarantees that every answer about an action has the same fields with the same meaning, and that a
newer version never gives way to an older one. Called by the routes; it asks nobody.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gateway.http.problems import LedgerPlace
from ledger.core import facts as f
from ledger.core.blocking import Blocking, blocking
from ledger.core.evolve import Place, evolve
from ledger.core.gates import ClaimStatus
from ledger.core.holds import Hold
from ledger.core.invariants import invariant
from ledger.core.records import Decision
from ledger.core.rejections import Unchanged
from ledger.core.state import FINAL, Action, Approval, Status, Stream
from projections.query_rows import ActionRow

if TYPE_CHECKING:
    from ledger.client.client import Progress

UNDECIDED: Final = "undecided"
"""What stands for a status while an intent is durable and not decided yet."""

MOVING: Final[frozenset[str]] = frozenset(
    {UNDECIDED, Status.PROPOSED, Status.READY, Status.ATTEMPTING}
)
"""What goes on by itself within seconds, so that waiting for it is worth a request."""

_SOON_OVER: Final[frozenset[str]] = frozenset({"gates", "target"})
"""What an action waits for that may be there within a request: a gate's word, its turn."""

_FINAL: Final[frozenset[str]] = frozenset(FINAL)


class HeldBy(BaseModel):
    """An operator keeps the action from starting: who, why, and since when. It goes on by itself
    when the hold is released.
    """

    model_config = ConfigDict(frozen=True)

    by: str
    reason: str | None = None
    since: int


def held_by(hold: Hold | None) -> HeldBy | None:
    """A hold as callers see it: its scope may name other tenants' affairs and is left out."""
    return None if hold is None else HeldBy(by=hold.by, reason=hold.reason, since=hold.since)


class ApprovalView(BaseModel):
    """What people are asked about the action. `preparing` before they are asked, while its dry run
    is made; `waiting` until `expires_at`; `expired` until somebody asks again, which is no denial;
    `granted` once `quorum` of them have agreed.

    `groups` may decide; anybody who is registered for the tenant where none is named. `page` is
    where they look and decide, `href` what they would sign as JSON. Neither takes an API key.
    """

    model_config = ConfigDict(frozen=True)

    state: Literal["preparing", "waiting", "expired", "granted", "ended"]
    href: str
    page: str
    round: int | None = None
    expires_at: int | None = None
    quorum: int | None = None
    granted: int | None = None
    groups: tuple[str, ...] | None = None


class BlockedView(BaseModel):
    """What the action waits for, and goes on by itself once it is there: another action (`by`), of
    which it needs the target, or which it revises, compensates or follows; or the answers of
    `gates`, which come by themselves. Whoever may not ask for the like of what holds the target is
    not told what that is.
    """

    model_config = ConfigDict(frozen=True)

    reason: Literal["gates", "target", "revised_open", "original_open", "saga_order", "planned"]
    by: str | None = None
    href: str | None = None
    gates: tuple[str, ...] | None = None


class DeniedView(BaseModel):
    """Who said no: a row of the policy, or a person, with what they said about it."""

    model_config = ConfigDict(frozen=True)

    by: Literal["policy", "person"]
    person: str | None = None
    comment: str | None = None


class StartView(BaseModel):
    """The attempt that the asking call itself may make now, once.

    `deadline_ms` and `lease_ms` count from the moment at which it sent its proposal first: the call
    ends at the deadline, and nothing may leave after the lease.
    """

    model_config = ConfigDict(frozen=True)

    attempt: int
    fencing_token: int
    provider_key: str
    deadline_ms: int
    lease_ms: int


class ActionView(BaseModel):
    """An action as it stands. `version` grows with everything that happens to it.

    `reference` and `result` are the provider's; `code` says why it failed; `review` why a person is
    needed, `review_names` the ceiling or the other action that this is about; `blocked` what it
    waits for; `next_check_at` when the ledger next does something about it by itself; `held` is
    there while an operator keeps it from starting; `approval` where people are asked, `denied`
    where somebody said no. `performer` is there where the action is its caller's to carry out: from
    `ready` it goes on when the same is proposed again with `caller`, and not by itself. Times are
    milliseconds since 1970-01-01T00:00:00Z.
    """

    model_config = ConfigDict(
        frozen=True,
        json_schema_extra={
            "examples": [
                {
                    "key": "charge:v1:acme:renewal-2026-08-28-01",
                    "href": "/v1/actions/charge:v1:acme:renewal-2026-08-28-01",
                    "status": "completed",
                    "version": 5,
                    "reference": "ch_1",
                    "proof": "webhook",
                    "replayed": True,
                }
            ]
        },
    )

    key: str
    href: str
    status: Status | Literal["undecided"]
    version: Annotated[int, Field(ge=0)] = 0
    request_hash: str | None = None
    reference: str | None = None
    result: dict[str, JsonValue] | None = None
    code: str | None = None
    proof: str | None = None
    review: str | None = None
    review_names: str | None = None
    blocked: BlockedView | None = None
    approval: ApprovalView | None = None
    denied: DeniedView | None = None
    attempts: int | None = None
    next_check_at: int | None = None
    held: HeldBy | None = None
    performer: Literal["caller"] | None = None
    recorded_at: int | None = None
    updated_at: int | None = None
    replayed: bool | None = None
    ledger: LedgerPlace | None = None
    start: StartView | None = None

    @property
    def is_final(self) -> bool:
        """Whether nothing can change the status any more."""
        return self.status in _FINAL

    @property
    def is_moving(self) -> bool:
        """Whether it goes on by itself within seconds."""
        if self.status == Status.BLOCKED:
            return self.blocked is not None and self.blocked.reason in _SOON_OVER
        return self.status in MOVING and self.held is None


def href(key: str) -> str:
    """Where the action is found at this door."""
    return f"/v1/actions/{quote(key, safe=':~')}"


def sheet_href(key: str) -> str:
    """Where a person finds everything that they would sign about the action, as JSON."""
    return f"/v1/approvals/{quote(key, safe=':~')}"


def page(key: str) -> str:
    """Where a person looks at the action and decides about it."""
    return f"/console/approve/{quote(key, safe=':~')}"


def case_href(key: str) -> str:
    """Where a person finds why the action needs one, and what would settle it, as JSON."""
    return f"/v1/reviews/{quote(key, safe=':~')}"


def case_page(key: str) -> str:
    """Where a person looks at the case of the action and settles it."""
    return f"/console/review/{quote(key, safe=':~')}"


def action_page(key: str) -> str:
    """Where a person looks at the action and everything that happened to it."""
    return f"/console/actions/{quote(key, safe=':~')}"


def undecided(key: str) -> ActionView:
    """A durable intent without a decision so far."""
    return ActionView(key=key, href=href(key), status=UNDECIDED)


def of_decision(key: str, decision: Decision, place: LedgerPlace) -> ActionView:
    """The action after a decision about it: folded where the decision began it, else its end."""
    facts = [fact for fact in decision.facts if fact.action == key]
    at = Place(offset=decision.at, decided_at=decision.decided_at)
    if facts and isinstance(facts[0], f.IntentRecorded):
        stream = Stream(decision.stream)
        for fact in facts:
            stream = evolve(stream, fact, at)
        return of_action(stream.actions[0], place)
    invariant(bool(facts), "a decision about an action has facts of it")
    return ActionView(
        key=key,
        href=href(key),
        version=facts[-1].version,
        updated_at=decision.decided_at,
        replayed=False,
        ledger=place,
        **_told(facts),
    )


def _told(facts: Sequence[f.AnyFact]) -> dict[str, Any]:
    """What the newest facts of an action say of it by themselves."""
    told: dict[str, Any] = {"status": UNDECIDED}
    for fact in facts:
        match fact:
            case f.AttemptStarted():
                told["status"] = Status.ATTEMPTING
            case f.AttemptSucceeded():
                told |= {"reference": fact.reference, "result": fact.result}
            case f.AttemptRefused() | f.AttemptNotSent():
                told["status"] = Status.READY
            case f.AttemptUnresolved():
                told["status"] = Status.UNKNOWN
            case f.TimerSet():
                told["next_check_at"] = fact.due_at
            case f.ApprovalRequested():
                told |= {"status": Status.AWAITING_APPROVAL, "approval": _requested(fact)}
            case f.ActionDenied():
                told |= {"status": Status.DENIED, "denied": _denied(fact)}
            case f.ActionBlocked():
                told |= {"status": Status.BLOCKED, "blocked": _blocked(fact.reason, fact.by)}
            case f.ReviewOpened():
                told |= {"review": fact.reason, "review_names": fact.names}
                if told["status"] not in _FINAL:
                    told["status"] = Status.NEEDS_REVIEW
            case f.ActionCompleted():
                told |= {"status": Status.COMPLETED, "proof": fact.proof}
            case f.ActionFailed():
                told |= {"status": Status.FAILED, "code": fact.code}
            case f.ActionCancelled():
                told["status"] = Status.CANCELLED
            case f.ActionExpired():
                told["status"] = Status.EXPIRED
            case f.ActionSuperseded():
                told["status"] = Status.SUPERSEDED
            case _:
                continue
    return told


def with_start(view: ActionView, started: f.AttemptStarted) -> ActionView:
    """The action with the attempt that the asking call may make."""
    start = StartView(
        attempt=started.attempt,
        fencing_token=started.fencing_token,
        provider_key=started.provider_key,
        deadline_ms=started.deadline_at - started.offered_at,
        lease_ms=started.lease_until - started.offered_at,
    )
    return view.model_copy(update={"start": start})


def of_action(action: Action, place: LedgerPlace | None) -> ActionView:
    """A folded action."""
    return ActionView(
        key=action.key,
        href=href(action.key),
        status=action.status,
        version=action.version,
        request_hash=action.request_hash,
        reference=action.reference,
        result=action.result,
        code=action.code,
        proof=action.proof,
        review=action.review,
        review_names=None if action.case is None else action.case.names,
        blocked=_blocked_of(action),
        attempts=action.counted_attempts,
        approval=_approval(action.key, action.status, action.approval),
        next_check_at=None if action.timer is None else action.timer.due_at,
        performer=action.performer,
        recorded_at=action.recorded_at,
        updated_at=action.updated_at,
        replayed=False,
        ledger=place,
    )


def of_unchanged(key: str, answer: Unchanged, place: LedgerPlace) -> ActionView:
    """The action that an input met and left as it was: a replay."""
    return ActionView(
        key=key,
        href=href(key),
        status=Status(answer.status) if answer.status is not None else UNDECIDED,
        version=answer.action_version or 0,
        reference=answer.reference,
        replayed=True,
        ledger=place,
    )


_ASKED: Final[frozenset[str]] = frozenset({Status.AWAITING_APPROVAL, Status.READY})
"""Where it matters to a caller what people were asked and said."""


def _approval(
    key: str, status: str, asked: Approval | Mapping[str, Any] | None
) -> ApprovalView | None:
    """What people are asked, from the state of an action or from its row."""
    if status not in _ASKED or (asked is None and status == Status.READY):
        return None
    known: dict[str, Any] = {"href": sheet_href(key), "page": page(key)}
    if asked is None:
        return ApprovalView(state="preparing", **known)
    if isinstance(asked, Approval):
        known |= {name: getattr(asked, name) for name in _TOLD}
        granted, ended = len(asked.grants), asked.ended
    else:
        known |= {name: asked[name] for name in _TOLD}
        granted, ended = asked["granted"], asked["ended"]
    state: Literal["waiting", "expired", "granted", "ended"] = "ended"
    if ended is None:
        state = "granted" if granted >= known["quorum"] else "waiting"
    elif ended == "expired":
        state = "expired"
    return ApprovalView(state=state, granted=granted, **known)


_TOLD: Final = ("round", "expires_at", "quorum", "groups")


def _blocked(reason: str, by: str) -> BlockedView:
    return BlockedView.model_validate({"reason": reason, "by": by, "href": href(by)})


def _blocked_of(action: Action) -> BlockedView | None:
    """What an action waits for, as it folds."""
    gates = tuple(one.gate for one in action.claims if one.status is ClaimStatus.ASKED)
    return _waits(action.status, blocking(action), gates)


def _waits(status: str, waits: Blocking | None, gates: tuple[str, ...]) -> BlockedView | None:
    if status != Status.BLOCKED:
        return None
    if waits is not None:
        return _blocked(waits.why, waits.by)
    return BlockedView(reason="gates", gates=gates)


def _blocked_by_row(row: ActionRow) -> BlockedView | None:
    """What an action waits for, as the read model has it."""
    reason, by = row.blocked_reason, row.blocked_by
    if row.status != Status.BLOCKED or reason is None or by is None:
        return None
    return (
        BlockedView(reason="gates", gates=(by,)) if reason == "unanswered" else _blocked(reason, by)
    )


def _requested(fact: f.ApprovalRequested) -> ApprovalView:
    return ApprovalView(
        state="waiting",
        href=sheet_href(fact.action),
        page=page(fact.action),
        round=fact.round,
        expires_at=fact.expires_at,
        quorum=fact.quorum,
        granted=0,
        groups=fact.groups,
    )


def _denied(fact: f.ActionDenied) -> DeniedView:
    return DeniedView(by=fact.by, person=fact.person, comment=fact.comment)


def of_progress(progress: "Progress") -> ActionView:
    """An action as the followed log says."""
    is_review = progress.status == Status.NEEDS_REVIEW
    return ActionView(
        key=progress.key,
        href=href(progress.key),
        status=Status(progress.status),
        version=progress.version,
        reference=progress.reference,
        result=None if progress.result is None else dict(progress.result),
        code=None if is_review else progress.code,
        review=progress.code if is_review else None,
        review_names=progress.names,
        blocked=_waits(progress.status, progress.blocking, progress.gates),
        proof=progress.proof,
        attempts=progress.attempts,
        approval=_approval(progress.key, progress.status, progress.approval),
        denied=None if progress.denied is None else _denied(progress.denied),
        next_check_at=progress.next_check_at,
        held=held_by(progress.held),
        performer=progress.performer,
        ledger=LedgerPlace(partition=progress.ledger_partition, offset=progress.ledger_offset),
    )


def of_row(row: ActionRow) -> ActionView:
    """An action as the read model has it."""
    return ActionView(
        key=row.action_key,
        href=href(row.action_key),
        status=Status(row.status),
        version=row.version,
        request_hash=row.request_hash,
        reference=row.provider_reference,
        result=row.result,
        code=row.code,
        proof=row.proof,
        review=row.review,
        review_names=row.review_names,
        blocked=_blocked_by_row(row),
        attempts=row.attempts,
        approval=_approval(row.action_key, row.status, row.approval),
        denied=None if row.denied is None else DeniedView.model_validate(row.denied),
        next_check_at=row.next_due_at,
        held=None if row.held is None else held_by(Hold.model_validate(row.held)),
        performer="caller" if row.performer == "caller" else None,
        recorded_at=row.created_at,
        updated_at=row.updated_at,
        ledger=LedgerPlace(partition=row.ledger_partition, offset=row.ledger_offset),
    )


_OF_A_STATUS: Final = frozenset(
    {
        "code",
        "proof",
        "review",
        "review_names",
        "blocked",
        "approval",
        "denied",
        "next_check_at",
        "held",
    }
)


def newer(a: ActionView, b: ActionView | None) -> ActionView:
    """What is known of one action from two sources: the newer status, and what never changes.

    Whether the answer is a replay is known to `a` alone, the answer itself.
    """
    if b is None:
        return a
    late, early = (b, a) if b.version >= a.version else (a, b)
    is_same = late.version == early.version
    # The models' own dictionaries: this runs for every answer that was waited for.
    known = {
        name: value
        for name, value in early.__dict__.items()
        if value is not None and (is_same or name not in _OF_A_STATUS)
    }
    known.update((name, value) for name, value in late.__dict__.items() if value is not None)
    known["replayed"] = a.replayed
    return ActionView.model_construct(**known)
