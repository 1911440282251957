"""People: what they are asked, what counts as their answer, and how long it holds.

An approval binds one person's decision to one payload: nothing of it can be carried over to
another action, request, tenant, preview, policy or time. It is spent by the action's first start.
Expired is never a denial: the action waits until it is asked about again.
"""

import hashlib
from collections.abc import Iterator
from typing import Final, Literal

from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.decide.draft import Decided, Draft, replayed
from ledger.core.facts import (
    ActionDenied,
    ApprovalEnd,
    ApprovalEnded,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalWithdrawn,
    PreviewFailed,
    PreviewRecorded,
    PreviewStarted,
    StartApproval,
    TimerSet,
)
from ledger.core.ids import ActionKey
from ledger.core.inputs import AskAgain, Judged, PreviewRead
from ledger.core.limits import PREVIEW_WAIT_MS
from ledger.core.people import Person
from ledger.core.preview import Change, Check, Foreseen, Preview, preview_hash
from ledger.core.rejections import Refused, Rejection
from ledger.core.state import Action, Approval, Status
from ledger.core.statement import Say, Statement

_NONCE_DOMAIN: Final = "actionledger.nonce.v1"

# --- asking --------------------------------------------------------------------------------------


def ask(draft: Draft, key: str, operation: Operation) -> None:
    """Show people what would happen, and ask them: at once, or as soon as the provider has said
    what it foresees.
    """
    action = draft.action(key)
    if preview_is_under_way(action):
        return
    if action.dry is None or action.dry.content is None:
        if operation.preview == "provider":
            start_preview(draft, key)
            return
        _record_preview(draft, key, None)
    _request(draft, key)


def ask_under_another_row(draft: Draft, key: str, operation: Operation) -> None:
    """Ask by what another table says, and show which row it is: the preview names it."""
    dry = draft.action(key).dry
    if dry is not None and dry.content is not None:
        _record_preview(draft, key, dry.content.foreseen)
    ask(draft, key, operation)


def ask_without_provider(draft: Draft, key: str) -> None:
    """Show people what the request itself says, and ask them: nothing more is to be foreseen."""
    _record_preview(draft, key, None)
    _request(draft, key)


def preview_is_under_way(action: Action) -> bool:
    """Whether the provider is being asked what would happen, or will be again in a while."""
    dry, timer = action.dry, action.timer
    if dry is None or dry.content is not None:
        return False
    return dry.answer_by is not None or (timer is not None and timer.purpose == "preview")


def start_preview(draft: Draft, key: str) -> None:
    """Have the provider asked what would happen."""
    action = draft.action(key)
    draft.add(
        PreviewStarted(
            action=key,
            version=draft.version(key),
            preview=_next_preview(action),
            provider=action.provider,
            account=action.account,
            intent_offset=action.intent_offset,
            answer_by=draft.now + draft.config.timing.lookup_answer_ms,
        )
    )


def _next_preview(action: Action) -> int:
    return 1 if action.dry is None else action.dry.number + 1


def _record_preview(
    draft: Draft, key: str, foreseen: Foreseen | None, number: int | None = None
) -> None:
    """Draw the preview up: as the answer to the one of this number, or as the next one."""
    action = draft.action(key)
    content = Preview(
        request_hash=action.request_hash,
        provider=action.provider,
        account=action.account,
        target=action.request.target,
        money=action.request.money,
        foreseen=foreseen,
        checks=tuple(_checks(action)),
    )
    draft.add(
        PreviewRecorded(
            action=key,
            version=draft.version(key),
            preview=_next_preview(action) if number is None else number,
            content=content,
            preview_hash=preview_hash(content),
        )
    )


def _checks(action: Action) -> Iterator[Check]:
    """What the action has passed so far, for whoever is asked about it."""
    request = action.request
    name = f"{request.operation} v{request.version}"
    yield Check(name="may_ask", passed=True, detail=f"{request.principal} may ask for {name}")
    yield Check(name="declared", passed=True, detail=f"the request fits the declaration of {name}")
    yield Check(
        name="automatic", passed=False, detail=f"row {action.policy_row} asks for people to agree"
    )


def _request(draft: Draft, key: str) -> None:
    """Ask people: a new round, under a nonce that no earlier decision can name."""
    action = draft.action(key)
    asks, dry = action.asks, action.dry
    if asks is None or dry is None or dry.content_hash is None or action.policy_hash is None:
        return
    number = 1 if action.approval is None else action.approval.round + 1
    escalates = asks.escalate_after_ms is not None
    draft.add(
        ApprovalRequested(
            action=key,
            version=draft.version(key),
            round=number,
            nonce=_nonce(draft, key, number),
            expires_at=draft.now + asks.valid_ms,
            policy_hash=action.policy_hash,
            row=action.policy_row or "",
            preview_hash=dry.content_hash,
            quorum=asks.quorum,
            groups=asks.groups,
            escalate_at=draft.now + (asks.escalate_after_ms or 0) if escalates else None,
            escalate_to=asks.escalate_to,
        )
    )


def _nonce(draft: Draft, key: str, number: int) -> str:
    """Different for every round of every action at every place of every log."""
    place = draft.place
    text = "\n".join((_NONCE_DOMAIN, key, str(number), str(place.offset), str(place.decided_at)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def ask_again(draft: Draft, given: AskAgain) -> Decided:
    """Ask once more where the last request came to nothing; while one is alive it is that one."""
    action = draft.stream.action(given.key)
    if action is None:
        return _no(Rejection.UNKNOWN_ACTION)
    if action.is_final:
        return _no(Rejection.ALREADY_FINAL, action)
    if action.status is not Status.AWAITING_APPROVAL:
        return replayed(action, "nobody_to_ask")
    approval = action.approval
    if approval is None or preview_is_under_way(action):
        return replayed(action, "preview_under_way")
    if approval.ended is None and draft.now < approval.expires_at:
        return replayed(action, "asked_already")
    operation = draft.operation(action)
    if operation is None:
        return _no(Rejection.UNKNOWN_OPERATION, action)
    if approval.ended is None:
        end(draft, given.key, "expired")
    if operation.preview == "provider" and draft.action(given.key).dry is not None:
        # What the provider foresaw is as old as the request that came to nothing.
        start_preview(draft, given.key)
    else:
        ask(draft, given.key, operation)
    return draft.decided()


def preview_read(draft: Draft, given: PreviewRead) -> Decided:
    """Record what the provider foresees, and ask people; or wait and have it asked again."""
    action = draft.stream.action(given.key)
    if action is None:
        return _no(Rejection.UNKNOWN_ACTION)
    if (given.provider, given.account) != (action.provider, action.account):
        return _no(Rejection.FOREIGN_ACCOUNT, action)
    dry = action.dry
    if dry is None or dry.number != given.preview or action.status is not Status.AWAITING_APPROVAL:
        return replayed(action, "not_asked_for")
    if dry.answer_by is None:
        return replayed(action, "already_recorded")
    if given.foreseen is None:
        code = given.code or "no_answer"
        failed = PreviewFailed(
            action=given.key, version=draft.version(given.key), preview=dry.number, code=code
        )
        draft.add(failed)
        due_at = draft.now + PREVIEW_WAIT_MS
        version = draft.version(given.key)
        draft.add(TimerSet(action=given.key, version=version, purpose="preview", due_at=due_at))
        return draft.decided()
    _record_preview(draft, given.key, given.foreseen, dry.number)
    _request(draft, given.key)
    return draft.decided()


def end(
    draft: Draft, key: str, reason: ApprovalEnd, changes: tuple[Change, ...] | None = None
) -> None:
    """The nonce that is alive is dead from now on, and what was granted under it counts no more."""
    approval = draft.action(key).approval
    if approval is not None and approval.ended is None:
        draft.add(
            ApprovalEnded(
                action=key,
                version=draft.version(key),
                nonce=approval.nonce,
                reason=reason,
                changes=changes,
            )
        )


def escalate(draft: Draft, key: str, approval: Approval) -> None:
    """Nobody decided in time: let further groups decide too."""
    version = draft.version(key)
    draft.add(ApprovalEscalated(action=key, version=version, groups=approval.escalate_to))


# --- answering -----------------------------------------------------------------------------------


def judge(draft: Draft, given: Judged) -> Decided:
    """Count a person's signed decision, or say by which rule it counts for nothing."""
    action = draft.stream.action(given.key)
    if action is None:
        return _no(Rejection.UNKNOWN_ACTION)
    statement = given.statement
    if statement is None:
        return _no(given.refusal or Rejection.SIGNATURE_INVALID, action)
    refused = _transplanted(action, statement, given.ledger)
    person = draft.config.people.signer(given.key_id, given.appended_at)
    if refused is None:
        refused = _unfit(action, statement, person)
    if refused is not None or person is None:
        return _no(refused or Rejection.UNKNOWN_SIGNER, action)
    approval = action.approval
    if approval is None:
        return _no(Rejection.NOTHING_ASKED, action)
    if _said_before(approval, statement):
        return replayed(action, "approved_already")
    if action.is_final:
        return _no(Rejection.ALREADY_FINAL, action)
    if action.status is Status.NEEDS_REVIEW:
        return _no(Rejection.IN_REVIEW, action)
    if action.has_begun and action.status is not Status.AWAITING_APPROVAL:
        return _no(Rejection.APPROVAL_SPENT, action)
    untimely = _untimely(draft, approval, statement, given.appended_at)
    if untimely is not None:
        return _no(untimely, action)
    if not person.is_in_one_of(approval.groups):
        return _no(Rejection.NOT_IN_GROUP, action)
    return _counted(draft, action, approval, given, statement)


def _transplanted(action: Action, statement: Statement, ledger: str) -> Rejection | None:
    """Of what else the statement speaks, or None: everything in it was signed for one action."""
    if statement.ledger != ledger:
        return Rejection.OTHER_LEDGER
    if statement.key != action.key:
        return Rejection.OTHER_ACTION
    if statement.tenant != ActionKey.parse(action.key).tenant:
        return Rejection.OTHER_TENANT
    if statement.environment != action.request.environment:
        return Rejection.OTHER_ENVIRONMENT
    if statement.request_hash != action.request_hash:
        return Rejection.OTHER_REQUEST
    return None


def _unfit(action: Action, statement: Statement, person: Person | None) -> Rejection | None:
    """Why this person may not decide about this action, or None."""
    if person is None:
        return Rejection.UNKNOWN_SIGNER
    if person.name != statement.approver:
        return Rejection.OTHER_PERSON
    if not person.may_decide_for(statement.tenant):
        return Rejection.NOT_FOR_TENANT
    if _asks_itself(action, person):
        return Rejection.REQUESTER_DECIDES
    return None


def _asks_itself(action: Action, person: Person) -> bool:
    """Whether it is this person who asks for the action, or for whom it is asked."""
    return any(person.asks_as(name) for name in (action.request.principal, *(action.behalf or ())))


def _untimely(
    draft: Draft, approval: Approval, statement: Statement, appended_at: int
) -> Rejection | None:
    """Why the statement does not answer what is asked now, or None. Its time is that of its own
    append: it may be decided later.
    """
    skew_ms = draft.config.timing.skew_ms
    if statement.nonce != approval.nonce:
        return Rejection.NONCE_DEAD
    if (statement.policy_hash, statement.row) != (approval.policy_hash, approval.row):
        return Rejection.OTHER_POLICY
    if statement.preview_hash != approval.preview_hash:
        return Rejection.OTHER_PREVIEW
    if approval.ended not in {None, "expired"} or _is_taken_back(approval, statement):
        return Rejection.NONCE_DEAD
    is_over = approval.ended is not None or appended_at >= approval.expires_at
    if is_over or appended_at >= statement.expires_at:
        return Rejection.APPROVAL_EXPIRED
    if statement.expires_at > approval.expires_at:
        return Rejection.EXPIRY_BEYOND_REQUEST
    if statement.issued_at > appended_at + skew_ms:
        return Rejection.ISSUED_IN_FUTURE
    return None


def _is_taken_back(approval: Approval, statement: Statement) -> bool:
    """Whether this is a yes from before its person took it back, or a copy of it."""
    return statement.decision is Say.APPROVE and any(
        one.person == statement.approver and statement.issued_at <= one.void_until
        for one in approval.withdrawals
    )


def _said_before(approval: Approval, statement: Statement) -> bool:
    """Whether this person has said yes already: a double click is one approval."""
    if statement.decision is not Say.APPROVE or statement.nonce != approval.nonce:
        return False
    is_granted = any(grant.person == statement.approver for grant in approval.grants)
    return is_granted and approval.ended is None


def _counted(
    draft: Draft, action: Action, approval: Approval, given: Judged, statement: Statement
) -> Decided:
    """Write down a decision that counts."""
    key, person = action.key, statement.approver
    match statement.decision:
        case Say.DENY:
            denied = ActionDenied(
                action=key,
                version=draft.version(key),
                by="person",
                person=person,
                key_id=given.key_id,
                signed=given.signed,
                comment=statement.comment,
            )
            draft.add(denied)
        case Say.WITHDRAW:
            if all(grant.person != person for grant in approval.grants):
                return _no(Rejection.NOTHING_TO_WITHDRAW, action)
            withdrawn = ApprovalWithdrawn(
                action=key,
                version=draft.version(key),
                person=person,
                signed=given.signed,
                # Whatever this person signed before may have been issued as late as this.
                void_until=given.appended_at + draft.config.timing.skew_ms,
            )
            draft.add(withdrawn)
        case Say.APPROVE:
            if approval.is_met:
                return replayed(action, "approved_already")
            _grant(draft, action, approval, given, statement)
    return draft.decided()


def _grant(
    draft: Draft, action: Action, approval: Approval, given: Judged, statement: Statement
) -> None:
    is_last = len(approval.grants) + 1 >= approval.quorum
    operation = draft.operation(action)
    # The step begins when people have agreed; their time was not its own.
    deadline_at = None
    if is_last and operation is not None:
        deadline_at = no_later(action, draft.now + operation.deadlines.step_ms)
    draft.add(
        ApprovalGranted(
            action=action.key,
            version=draft.version(action.key),
            person=statement.approver,
            key_id=given.key_id,
            nonce=approval.nonce,
            expires_at=statement.expires_at,
            signed=given.signed,
            comment=statement.comment,
            step_deadline_at=deadline_at,
        )
    )


def no_later(action: Action, at: int) -> int:
    """A deadline, and never later than the one that the caller gave."""
    return at if action.caller_deadline_at is None else min(at, action.caller_deadline_at)


# --- holding -------------------------------------------------------------------------------------

Lapse = Literal["not_met", "expired", "signer_revoked"]


def lapse(action: Action, config: Config, at: int) -> Lapse | None:
    """Why what people granted does not allow a start at a time, or None where it does, and where
    nobody had to be asked.
    """
    if action.asks is None:
        return None
    approval = action.approval
    if approval is None or not approval.is_met:
        return "not_met"
    if at >= approval.valid_until:
        return "expired"
    tenant = ActionKey.parse(action.key).tenant
    for grant in approval.grants:
        person = config.people.signer(grant.key_id, at)
        if person is None or person.name != grant.person:
            return "signer_revoked"
        if not person.is_in_one_of(approval.groups) or not person.may_decide_for(tenant):
            return "signer_revoked"
        if _asks_itself(action, person):
            return "signer_revoked"
    return None


def start_approval(action: Action) -> StartApproval | None:
    """What a start of this action rests on, for its executor to check again; None where nobody had
    to be asked.
    """
    approval, dry = action.approval, action.dry
    if action.asks is None or approval is None:
        return None
    # Where an attempt may have had its effect the same request is only asked about again.
    shown = None if action.is_open or dry is None else dry.content
    return StartApproval(
        nonce=approval.nonce,
        policy_hash=approval.policy_hash,
        row=approval.row,
        preview_hash=approval.preview_hash,
        quorum=approval.quorum,
        groups=approval.groups,
        expires_at=approval.valid_until,
        preview=shown,
        signed=tuple(grant.signed for grant in approval.grants),
    )


def _no(code: Rejection, action: Action | None = None) -> Decided:
    return Decided(refused=Refused(code=code, action=None if action is None else action.key))
