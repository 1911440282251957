"""The fold of what policy and people say: rulings, approvals, cases; a part of `evolve`, called by
nobody else.
"""

from dataclasses import replace
from typing import Final, assert_never

from ledger.core import facts as f
from ledger.core.evolve_evidence import told_of_case
from ledger.core.invariants import invariant
from ledger.core.reversals import AMOUNT_DIFFERS, AMOUNT_OF
from ledger.core.state import (
    LEADING,
    NOBODY_ANSWERS,
    Action,
    Approval,
    Case,
    Dry,
    Grant,
    Resolved,
    Status,
    Withdrawal,
)
from ledger.core.statement import Move

_RULED: Final = {
    "automatic": Status.READY,
    "confirmation": Status.AWAITING_APPROVAL,
    "people": Status.AWAITING_APPROVAL,
    # The denial is a fact of its own; until it comes the action waits, and cannot start.
    "deny": Status.AWAITING_APPROVAL,
}


def ruled(action: Action, fact: f.PolicyDecided) -> dict[str, object]:
    """What the table says, for the first time or anew. What people have granted stays where the
    same is asked of them.
    """
    invariant(not action.is_open, "policy decides about what has not begun")
    changes: dict[str, object] = {
        "status": _RULED[fact.outcome],
        "policy_row": fact.row,
        "policy_hash": fact.policy_hash,
        "asks": fact.asks,
        "gates": fact.gates,
        "blocked": None,
        "wait_until": None,
    }
    if fact.step_deadline_at is not None:
        changes["step_deadline_at"] = fact.step_deadline_at
        changes["people_until"] = None if fact.asks is None else fact.step_deadline_at
    if fact.asks is not None and action.approval is not None and action.approval.is_met:
        changes["status"] = action.status
    if changes["status"] is Status.READY and action.awaits_gates:
        changes["status"] = Status.BLOCKED
    if changes["status"] is Status.BLOCKED:
        own = action.blocked is None
        changes["wait_until"] = action.wait_until if own else fact.step_deadline_at
    if changes["status"] is not action.status:
        # What it waited for by itself belongs to what it was.
        changes["timer"] = None
    return changes


def question(fact: f.ApprovalRequested, now: int) -> Approval:
    """What people are asked, as yet without an answer."""
    return Approval(
        round=fact.round,
        nonce=fact.nonce,
        requested_at=now,
        expires_at=fact.expires_at,
        policy_hash=fact.policy_hash,
        row=fact.row,
        preview_hash=fact.preview_hash,
        quorum=fact.quorum,
        groups=fact.groups,
        escalate_at=fact.escalate_at,
        escalate_to=fact.escalate_to,
    )


def moved_on(
    action: Action,
    fact: f.ApprovalEscalated | f.ApprovalGranted | f.ApprovalWithdrawn | f.ApprovalEnded,
    now: int,
) -> dict[str, object]:
    """What was asked of people, after one more step; with enough of them the action is ready."""
    asked = action.approval
    invariant(asked is not None and asked.ended is None, "nobody is asked")
    assert asked is not None  # noqa: S101 - for the type checker; the line above survives -O
    changes: dict[str, object] = {}
    match fact:
        case f.ApprovalEscalated():
            asked = replace(asked, groups=(*asked.groups, *fact.groups), escalate_at=None)
        case f.ApprovalGranted():
            invariant(fact.nonce == asked.nonce, "a grant under another nonce")
            invariant(
                all(grant.person != fact.person for grant in asked.grants), "a person counts once"
            )
            grant = Grant(fact.person, fact.key_id, now, fact.expires_at, fact.signed)
            asked = replace(asked, grants=(*asked.grants, grant))
        case f.ApprovalWithdrawn():
            kept = tuple(grant for grant in asked.grants if grant.person != fact.person)
            invariant(len(kept) < len(asked.grants), "a person takes back what was granted")
            void = Withdrawal(fact.person, fact.void_until)
            others = (one for one in asked.withdrawals if one.person != fact.person)
            asked = replace(asked, grants=kept, withdrawals=(*others, void))
        case f.ApprovalEnded():
            invariant(fact.nonce == asked.nonce, "another nonce ends")
            asked = replace(asked, ended=fact.reason)
            if fact.reason == "volatile_changed" and action.dry is not None:
                changes["dry"] = Dry(action.dry.number, code=fact.reason)
        case _:
            assert_never(fact)
    # What it holds of gates it gives back before it waits for people, so that it asks anew.
    status = Status.AWAITING_APPROVAL
    if asked.is_met:
        is_blocked = action.status is Status.BLOCKED or action.awaits_gates
        status = Status.BLOCKED if is_blocked else Status.READY
    changes |= {"approval": asked, "status": status}
    if status is action.status:
        return changes
    # What it waited for by itself, and until when, belongs to what it was.
    changes["timer"] = None
    if isinstance(fact, f.ApprovalGranted) and fact.step_deadline_at is not None:
        changes["step_deadline_at"] = fact.step_deadline_at
    elif status is Status.AWAITING_APPROVAL and action.people_until is not None:
        changes["step_deadline_at"] = action.people_until
    return changes


def opened(action: Action, fact: f.ReviewOpened, now: int) -> dict[str, object]:
    """A person's case; a further reason belongs to the case that is open."""
    case = _case(action.case, fact, now)
    return {
        "status": action.status if action.is_final else Status.NEEDS_REVIEW,
        "timer": None,
        "review": case.reason,
        "case": case,
        "told": told_of_case(action, fact.reason),
        # Whoever is asked instead waits for no answer; one that comes still counts.
        "lookup": None if fact.reason == NOBODY_ANSWERS else action.lookup,
    }


def _case(before: Case | None, fact: f.ReviewOpened, now: int) -> Case:
    """The case with one more reason. What evidence says leads by its weight, so that the order in
    which it came shows nowhere; else the newest reason does.
    """
    if before is None:
        return Case(fact.version, fact.reason, now, fact.version, fact.names)
    others = tuple(one for one in (before.reason, *before.others) if one != fact.reason)
    leads = not others or _weight(fact.reason) <= min(map(_weight, others))
    reason, names = (fact.reason, fact.names) if leads else (before.reason, before.names)
    rest = tuple(one for one in (fact.reason, *others) if one != reason)
    return Case(
        before.opened_version, reason, before.opened_at, fact.version, names, tuple(sorted(rest))
    )


def _weight(reason: str) -> int:
    return LEADING.index(reason) if reason in LEADING else len(LEADING)


def resolved(action: Action, fact: f.ReviewResolved) -> dict[str, object]:
    """The case is settled. An effect that is there, or what was only noted, leaves the status as it
    is: completion is a fact of its own. With any other move the action is what it would be if no
    person had been needed.
    """
    case, before = action.case, action.resolved
    is_case = case is not None and fact.case == case.opened_version
    blocked_by_it = fact.move is Move.ALLOW and case is None
    invariant(is_case or blocked_by_it, "another case is settled")
    settled = Resolved(fact.case, fact.move, fact.person)
    if before is not None:
        settled = replace(before, case=fact.case, move=fact.move, person=fact.person)
    changes: dict[str, object] = {"case": None}
    match fact.move:
        case Move.ACKNOWLEDGE:
            invariant(action.is_final, "what is not final is not only noted")
            return changes | {"resolved": settled}
        case Move.EFFECT_EXISTS:
            return changes | {"resolved": settled}
        case Move.NO_EFFECT:
            pass
        case Move.ALLOW:
            changes["allowed"] = (*action.allowed, *_let_pass(case, fact))
            if action.status is Status.BLOCKED:
                return changes | {"resolved": settled}
            settled = replace(settled, resumes=settled.resumes + 1)
            changes["step_deadline_at"] = fact.step_deadline_at or action.step_deadline_at
        case Move.LOOK_AGAIN:
            invariant(action.is_open, "what is asked about again is open")
            resumes, asked = settled.resumes + 1, action.lookups_asked
            settled = replace(settled, resumes=resumes, lookups_before=asked)
            changes["lookups_answered"] = 0
        case Move.TRY_AGAIN:
            resumes, tried = settled.resumes + 1, len(action.attempts)
            if action.told is not None:
                changes["told"] = replace(action.told, for_good=None)
            settled = replace(settled, resumes=resumes, attempts_before=tried)
            changes["step_deadline_at"] = fact.step_deadline_at or action.step_deadline_at
            changes["people_until"] = fact.people_until or action.people_until
            if action.dry is not None:
                changes["dry"] = replace(action.dry, failed=0)
        case _:
            assert_never(fact.move)
    invariant(not action.is_final, "a final status never changes")
    changes["resolved"] = settled
    is_granted = action.asks is None or (action.approval is not None and action.approval.is_met)
    if action.is_open:
        changes["status"] = Status.UNKNOWN
    elif action.blocked is not None and fact.move is not Move.NO_EFFECT:
        # A person came to it before its turn did.
        changes["status"] = Status.BLOCKED
    elif is_granted or fact.move is Move.NO_EFFECT:
        # It ends in the same decision, whoever would have had to agree to its start.
        changes["status"] = Status.READY
    else:
        changes["status"] = Status.AWAITING_APPROVAL
    if changes["status"] is Status.AWAITING_APPROVAL and fact.people_until is not None:
        changes["step_deadline_at"] = fact.people_until
    return changes


def _let_pass(case: Case | None, fact: f.ReviewResolved) -> tuple[str, ...]:
    """What a person lets the action pass. Of another one its amount is not all there is to it."""
    if fact.accepts is None:
        return ()
    is_amount = case is not None and case.reason == AMOUNT_DIFFERS
    return (f"{AMOUNT_OF}{fact.accepts}" if is_amount else fact.accepts,)
