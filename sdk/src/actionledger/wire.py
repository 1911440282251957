"""What crosses the wire: the intent as it is sent, and the answers as results or exceptions.

Guarantees that an answer is read once, into exactly one result or one exception, and that a field
nobody knows here changes nothing. Called by the client.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from actionledger import results as r
from actionledger.errors import (
    CallerMistake,
    LedgerTrouble,
    LedgerUnavailable,
    NotAllowed,
    Trouble,
    Unauthorized,
    UnexpectedAnswer,
    UnknownAction,
    UnstableKey,
)
from actionledger.exchange import Reply

INTEGER_MAX: Final = 2**53 - 1


class Money(BaseModel):
    """An amount in minor units (cents of EUR, yen of JPY) and its ISO 4217 code."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    minor: int = Field(ge=0, le=INTEGER_MAX)
    currency: str = Field(pattern=r"^[A-Z]{3}$")


class Intent(BaseModel):
    """One effect that you want.

    `business_event` is your own name for what the effect belongs to: an invoice, a renewal, a
    ticket. It makes the key, so it must be the same whenever the same act is meant, and must never
    be drawn at random or be a model's wording. `item` tells several acts of one operation apart.
    Numbers in `params` are integers; write others as texts. `step_ms` shortens the operation's own
    deadline.

    `run` names the run of the agent that this is a step of: ceilings of a run count by it.
    `occurrence` tells an intended repetition from a duplicate, and `batch` names what it is shown
    together with. `revises` is the key of an earlier action of the same business event whose
    changed request this is; `compensates` that of the one which it undoes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    operation: str
    business_event: str
    environment: str
    version: int = 1
    item: str | None = None
    target: str | None = None
    params: dict[str, JsonValue] = Field(default_factory=dict)
    money: Money | None = None
    step_ms: int | None = None
    run: str | None = None
    occurrence: str | None = None
    batch: str | None = None
    revises: str | None = None
    compensates: str | None = None


class Start(BaseModel):
    """The attempt that the asking call may make now, once; times count from when it asked first."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    attempt: int
    fencing_token: int
    provider_key: str
    deadline_ms: int
    lease_ms: int


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class _Approval(_Answer):
    state: str
    page: str | None = None
    expires_at: int | None = None
    quorum: int | None = None
    granted: int | None = None
    groups: tuple[str, ...] = ()


class _Denial(_Answer):
    by: str
    person: str | None = None
    comment: str | None = None


class _Blocked(_Answer):
    reason: str
    by: str | None = None
    gates: tuple[str, ...] = ()


class _Action(_Answer):
    key: str
    status: str
    version: int = 0
    reference: str | None = None
    result: dict[str, JsonValue] | None = None
    code: str | None = None
    proof: str | None = None
    review: str | None = None
    review_names: str | None = None
    blocked: _Blocked | None = None
    approval: _Approval | None = None
    denied: _Denial | None = None
    attempts: int | None = None
    next_check_at: int | None = None
    replayed: bool | None = None
    performer: str | None = None
    start: Start | None = None


class _Trouble(_Answer):
    path: str
    code: str
    message: str


class _Original(_Answer):
    key: str
    status: str | None = None
    reference: str | None = None


class _Problem(_Answer):
    title: str
    code: str
    hint: str
    detail: str | None = None
    asking_again: str | None = None
    problems: tuple[_Trouble, ...] = ()
    original: _Original | None = None


def _succeeded(a: _Action) -> r.Result:
    return r.Succeeded(
        key=a.key,
        version=a.version,
        replayed=a.replayed is True,
        reference=a.reference,
        result=a.result,
        proof=a.proof,
    )


def _failed(a: _Action) -> r.Result:
    return r.Failed(key=a.key, version=a.version, replayed=a.replayed is True, code=a.code)


def _unknown(a: _Action) -> r.Result:
    return r.Unknown(
        key=a.key,
        version=a.version,
        replayed=a.replayed is True,
        attempts=a.attempts,
        next_check_at=a.next_check_at,
    )


def _pending(a: _Action) -> r.Result:
    return r.Pending(key=a.key, version=a.version, replayed=a.replayed is True, status=a.status)


def _awaiting(a: _Action) -> r.Result:
    asked = a.approval or _Approval(state="preparing")
    known: dict[str, Any] = {"key": a.key, "version": a.version, "replayed": a.replayed is True}
    if asked.state == "expired":
        return r.ApprovalExpired(**known, page=asked.page, expired_at=asked.expires_at)
    return r.AwaitingApproval(
        **known,
        page=asked.page,
        expires_at=asked.expires_at,
        quorum=asked.quorum,
        granted=asked.granted or 0,
        groups=asked.groups,
    )


def _refused_by(a: _Action) -> r.Result:
    said = a.denied or _Denial(by="person")
    return r.Denied(
        key=a.key,
        version=a.version,
        replayed=a.replayed is True,
        by=said.by,
        person=said.person,
        comment=said.comment,
    )


def _needs_review(a: _Action) -> r.Result:
    return r.NeedsReview(
        key=a.key,
        version=a.version,
        replayed=a.replayed is True,
        reason=a.review,
        names=a.review_names,
    )


def _waits(a: _Action) -> r.Result:
    waits = a.blocked or _Blocked(reason="target")
    return r.Blocked(
        key=a.key,
        version=a.version,
        replayed=a.replayed is True,
        reason=waits.reason,
        by=waits.by,
        gates=waits.gates,
    )


def _bare(
    kind: type[r.Cancelled | r.Expired | r.Superseded],
) -> Callable[[_Action], r.Result]:
    def read(a: _Action) -> r.Result:
        return kind(key=a.key, version=a.version, replayed=a.replayed is True)

    return read


BY_STATUS: Final[Mapping[str, Callable[[_Action], r.Result]]] = {
    "undecided": _pending,
    "proposed": _pending,
    "ready": _pending,
    "attempting": _pending,
    "awaiting_approval": _awaiting,
    "blocked": _waits,
    "unknown": _unknown,
    "needs_review": _needs_review,
    "completed": _succeeded,
    "failed": _failed,
    "denied": _refused_by,
    "expired": _bare(r.Expired),
    "cancelled": _bare(r.Cancelled),
    "superseded": _bare(r.Superseded),
}
"""Every status of an action, and the result that stands for it."""

NO_JSON: Final = "Leave out NaN and Infinity; write times and numbers that are not whole as texts."

OTHER_VERSION: Final = (
    "Check the address, and that ledger and client are of the same release. The same call again is "
    "safe."
)


NOT_SAID: Final = (TypeError, ValueError, RecursionError)
"""What is raised where something has no JSON form, or one that is nested without end."""


def intent_bytes(intent: Intent, caller: Mapping[str, JsonValue] | None = None) -> bytes:
    """The intent as JSON; what JSON cannot say is the caller's mistake, found before it is sent.

    `caller` is the offer of a call that performs the action itself. Raises CallerMistake.
    """
    try:
        body = intent.model_dump(exclude_none=True, warnings=False)
        if caller is not None:
            body["caller"] = dict(caller)
        # ASCII, so that half a character reaches the ledger as what it is and is refused by name.
        return json.dumps(body, allow_nan=False).encode()
    except NOT_SAID as error:  # a parameter may be put in after it was checked
        raise CallerMistake(
            "The intent has no JSON form.",
            hint=NO_JSON,
            code="malformed_json",
            status=400,
            problems=(Trouble("/params", "not_json", str(error)),),
        ) from None


def read_reply(reply: Reply, about: Intent | str) -> r.Result:
    """The result that an answer says about what was asked for, an intent or a key; raises
    LedgerTrouble for every other one, and for an answer that is about another action.
    """
    if reply.status in {200, 201, 202}:
        result = read_result(reply.status, reply.raw, reply.origin)
    else:
        problem = read_problem(reply.status, reply.raw)
        if not isinstance(problem, r.Conflict):
            raise problem
        result = problem
    if not _is_about(result.key, about):
        raise about_another("action", reply.status)
    return result


def about_another(kind: str, status: int) -> UnexpectedAnswer:
    """What an answer is that tells of another thing than was asked for: from a connection or a
    cache that somebody else asks through, and so is the next one.
    """
    return UnexpectedAnswer(
        f"The answer is about another {kind} than the one that was asked for.",
        hint="Something between this client and the ledger mixes up answers. The same call again "
        "is safe.",
        status=status,
    )


def _is_about(key: str, about: Intent | str) -> bool:
    if isinstance(about, str):
        return key == about
    name = about.business_event + ("" if about.item is None else f"#{about.item}")
    kind, _, rest = key.partition(f":v{about.version}:")
    action_id, tilde, _ = rest.partition(":")[2].partition("~")
    asked = (about.operation, name, about.revises is not None)
    return (kind, action_id, bool(tilde)) == asked


def read_start(reply: Reply) -> Start | None:
    """The attempt that an answer lets the asking call make, or None."""
    if reply.status not in {200, 201}:
        return None
    try:
        return _Action.model_validate_json(reply.raw).start
    except ValidationError:
        return None


def read_result(status: int, raw: bytes, origin: str = "") -> r.Result:
    """The result of a 2xx answer. `origin` is the address that gave it, for links. Raises
    UnexpectedAnswer.
    """
    try:
        action = _linked(_Action.model_validate_json(raw), origin)
        read = BY_STATUS[action.status]
    except (ValidationError, KeyError):
        raise UnexpectedAnswer(
            f"The answer with status {status} is no action that this client knows.",
            hint=OTHER_VERSION,
            status=status,
        ) from None
    result = read(action)
    return replace(result, by_caller=True) if action.performer == "caller" else result


def _linked(action: _Action, origin: str) -> _Action:
    """The page of people as an address that they can open."""
    asked = action.approval
    if asked is None or asked.page is None or not asked.page.startswith("/"):
        return action
    linked = asked.model_copy(update={"page": origin + asked.page})
    return action.model_copy(update={"approval": linked})


_BY_CODE: Final[Mapping[str, type[CallerMistake]]] = {
    "unknown_action": UnknownAction,
    "unstable_key": UnstableKey,
}


def read_problem(status: int, raw: bytes) -> r.Conflict | LedgerTrouble:
    """A conflict is a result; every other problem is an exception, for the caller to raise."""
    try:
        problem = _Problem.model_validate_json(raw)
    except ValidationError:
        return UnexpectedAnswer(
            f"The answer with status {status} is no problem of a ledger.",
            hint=OTHER_VERSION,
            status=status,
        )
    original = problem.original
    if problem.code == "conflicted" and original is not None:
        return r.Conflict(
            key=original.key,
            differences=tuple(r.Difference(p.path, p.message) for p in problem.problems),
            original_status=original.status,
            original_reference=original.reference,
        )
    message = problem.title if problem.detail is None else f"{problem.title} {problem.detail}"
    if status == 401:  # noqa: PLR2004 - RFC 9110
        return Unauthorized(message, hint=problem.hint)
    if problem.asking_again == "is_safe_with_the_same_request":
        return LedgerUnavailable(message, hint=problem.hint)
    if status >= 500:  # noqa: PLR2004 - RFC 9110
        return UnexpectedAnswer(message, hint=problem.hint, status=status)
    kind = NotAllowed if status == 403 else CallerMistake  # noqa: PLR2004 - RFC 9110
    kind = _BY_CODE.get(problem.code, kind)
    return kind(
        message,
        hint=problem.hint,
        code=problem.code,
        status=status,
        problems=tuple(Trouble(p.path, p.code, p.message) for p in problem.problems),
        key=None if original is None else original.key,
    )
