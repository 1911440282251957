"""People: what counts as their answer, and how long it holds.

An approval binds one person's decision to one payload: nothing of it can be carried over to
another action, request, tenant, preview, policy or time. It is spent by the action's first start.
Expired is never a denial: the action waits until it is asked about again.
"""

from typing import Final, Literal, assert_never

from ledger.core.config import Config
from ledger.core.decide.draft import Decided, Draft, refused_by, replayed
from ledger.core.facts import (
    ActionDenied,
    ApprovalGranted,
    ApprovalWithdrawn,
    StartApproval,
)
from ledger.core.ids import ActionKey
from ledger.core.inputs import Judged
from ledger.core.people import Person
from ledger.core.rejections import Rejection
from ledger.core.state import Action, Approval, Status
from ledger.core.statement import Resolution, Say, Signable, Statement

BY_PERSON: Final = "person"
"""Who denied an action, as its code says."""

# --- answering -----------------------------------------------------------------------------------


def judge(draft: Draft, given: Judged) -> Decided:
    """Count a person's signed decision, or say by which rule it counts for nothing."""
    action = draft.stream.action(given.key)
    if action is None:
        return refused_by(Rejection.UNKNOWN_ACTION)
    statement = given.statement
    if statement is None or isinstance(statement, Resolution):
        return refused_by(given.refusal or Rejection.SIGNATURE_INVALID, action)
    refused = transplanted(action, statement, given.ledger)
    person = draft.config.people.signer(given.key_id, given.appended_at)
    if refused is None:
        refused = unfit(action, statement, person)
    if refused is not None or person is None:
        return refused_by(refused or Rejection.UNKNOWN_SIGNER, action)
    approval = action.approval
    if approval is None:
        return refused_by(Rejection.NOTHING_ASKED, action)
    said_before = _said_before(action, approval, statement)
    if said_before is not None:
        return replayed(action, said_before)
    if action.is_final:
        return refused_by(Rejection.ALREADY_FINAL, action)
    if action.status is Status.NEEDS_REVIEW:
        return refused_by(Rejection.IN_REVIEW, action)
    if action.has_begun and action.status is not Status.AWAITING_APPROVAL:
        return refused_by(Rejection.APPROVAL_SPENT, action)
    untimely = _untimely(draft, approval, statement, given.appended_at)
    if untimely is not None:
        return refused_by(untimely, action)
    if not person.is_in_one_of(approval.groups):
        return refused_by(Rejection.NOT_IN_GROUP, action)
    return _counted(draft, action, approval, given, statement)


def transplanted(action: Action, statement: Signable, ledger: str) -> Rejection | None:
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


def unfit(action: Action, statement: Signable, person: Person | None) -> Rejection | None:
    """Why this person may not decide or say anything about this action, or None."""
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
    """Whether this was said before its person took a yes back, or is a copy of what was said then:
    neither the yes counts again, nor, against a new one, the word that took it back.
    """
    return statement.decision is not Say.DENY and any(
        one.person == statement.approver and statement.issued_at <= one.void_until
        for one in approval.withdrawals
    )


Repeated = Literal["approved_already", "denied_already", "withdrawn_already"]


def _said_before(action: Action, approval: Approval, statement: Statement) -> Repeated | None:
    """What has been counted already of what is asked now, or None: a double click counts once, and
    whoever sends a decision again because they heard no answer is told that it holds.
    """
    if statement.nonce != approval.nonce:
        return None
    is_granted = any(grant.person == statement.approver for grant in approval.grants)
    match statement.decision:
        case Say.APPROVE:
            return "approved_already" if is_granted and approval.ended is None else None
        case Say.DENY:
            is_denied = action.status is Status.DENIED and action.code == BY_PERSON
            return "denied_already" if is_denied else None
        case Say.WITHDRAW:
            took_back = any(one.person == statement.approver for one in approval.withdrawals)
            return "withdrawn_already" if took_back and not is_granted else None
        case _:
            assert_never(statement.decision)


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
                by=BY_PERSON,
                person=person,
                key_id=given.key_id,
                signed=given.signed,
                comment=statement.comment,
            )
            draft.add(denied)
        case Say.WITHDRAW:
            if all(grant.person != person for grant in approval.grants):
                return refused_by(Rejection.NOTHING_TO_WITHDRAW, action)
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
    # Where an attempt may have had its effect the same request is only asked about again; which
    # effect it undoes stands in no request, and has to be what people saw every time.
    is_open = action.is_open
    shown = None if dry is None or (is_open and action.compensates is None) else dry.content
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
        is_open=True if is_open and shown is not None else None,
    )
