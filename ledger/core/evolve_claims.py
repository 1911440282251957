"""The fold of what an action asks of gates; a part of `evolve`, called by nobody else."""

from collections.abc import Sequence
from typing import assert_never

from ledger.core import facts as f
from ledger.core.gates import Claim, ClaimStatus
from ledger.core.invariants import invariant
from ledger.core.state import Action, Status, awaits_any
from ledger.core.unchecked import maker_of

_claim_of, _claim_with, _ = maker_of(Claim)

_AboutClaim = f.GateAsked | f.GateAnswered | f.GateKept | f.GateClosing | f.GateClosed


def claimed(action: Action, fact: _AboutClaim, now: int) -> dict[str, object]:
    """The claims, and with the last grant the status, that a fact leads to."""
    known = action.claim(fact.gate, fact.round)
    match fact:
        case f.GateAsked():
            return _asked(action, fact, known, now)
        case f.GateAnswered():
            return _answered(action, fact, _held(known))
        case f.GateKept():
            held = _held(known)
            granted = held.status is ClaimStatus.GRANTED and held.grant == fact.grant
            invariant(granted, "what is kept was granted")
            return {"claims": _with(action, _claim_with(held, {"kept": True}))}
        case f.GateClosing():
            claims = _given_back(action, fact, _held(known), now)
            return {"claims": claims, **_unblocked(action, claims, fact.step_deadline_at)}
        case f.GateClosed():
            held = _held(known)
            invariant(held.status is ClaimStatus.CLOSING, "what is closed was given back")
            return {"claims": tuple(one for one in action.claims if one is not held)}
        case _:
            assert_never(fact)


def _held(known: Claim | None) -> Claim:
    invariant(known is not None, "a fact names a gate that was not asked")
    assert known is not None  # noqa: S101 - for the type checker; the line above survives -O
    return known


def _given_back(action: Action, fact: f.GateClosing, held: Claim, now: int) -> tuple[Claim, ...]:
    """The claims without one that is given back. What is kept waits for the gate's answer; of the
    others only what is spent is remembered, because the gate may have to ask for it.
    """
    invariant(held.grant == fact.grant, "what is given back was granted")
    invariant(held.status is not ClaimStatus.CLOSED, "a claim is given back once")
    if held.kept:
        closing = _claim_with(
            held,
            {
                "status": ClaimStatus.CLOSING,
                "spent": fact.spent,
                "sent_at": now,
                "sends": fact.sends,
            },
        )
        return _with(action, closing)
    if not fact.spent:
        return tuple(one for one in action.claims if one is not held)
    return _with(
        action,
        _claim_of(held.gate, held.round, ClaimStatus.CLOSED, {}, grant=held.grant, spent=True),
    )


def _with(action: Action, changed: Claim) -> tuple[Claim, ...]:
    return tuple(
        changed if (one.gate, one.round) == (changed.gate, changed.round) else one
        for one in action.claims
    )


def _asked(action: Action, fact: f.GateAsked, known: Claim | None, now: int) -> dict[str, object]:
    asked = _claim_of(
        gate=fact.gate,
        round=fact.round,
        status=ClaimStatus.ASKED,
        demand=fact.demand,
        ceilings=fact.ceilings,
        identity=fact.identity,
        over=fact.over or (),
        forced=fact.forced or False,
        sent_at=now,
        sends=fact.sends,
    )
    if known is not None:
        invariant(known.is_held, "what is given back is not asked for")
        return {"claims": _with(action, asked)}
    invariant(fact.round == fact.version and fact.sends == 1, "a round is the version it began at")
    changes: dict[str, object] = {"claims": (*action.claims, asked)}
    if not asked.forced:
        invariant(not action.is_final, "what is final asks for nothing new")
        changes |= {"status": Status.BLOCKED, "wait_until": fact.wait_until}
    return changes


def _answered(action: Action, fact: f.GateAnswered, held: Claim) -> dict[str, object]:
    waits = held.status in {ClaimStatus.ASKED, ClaimStatus.QUEUED}
    invariant(waits, "a gate answers what waits for it")
    match fact.outcome:
        case "granted":
            invariant(fact.grant is not None, "a grant has a number")
            granted = {"status": ClaimStatus.GRANTED, "grant": fact.grant, "behind": None}
            answered = _claim_with(held, granted)
        case "queued":
            queued = {"status": ClaimStatus.QUEUED, "behind": fact.behind}
            answered = _claim_with(held, queued)
        case "refused":
            # Nothing is held for it, so there is nothing to give back.
            return {"claims": tuple(one for one in action.claims if one is not held)}
        case _:
            assert_never(fact.outcome)
    claims = _with(action, answered)
    return {"claims": claims, **_unblocked(action, claims, fact.step_deadline_at)}


def _unblocked(
    action: Action, claims: Sequence[Claim], step_deadline_at: int | None
) -> dict[str, object]:
    """What becomes of an action that waited for gates once it waits for none."""
    if action.status is not Status.BLOCKED or action.blocked is not None or awaits_any(claims):
        return {}
    changes: dict[str, object] = {"status": Status.READY, "wait_until": None}
    if step_deadline_at is not None:
        changes["step_deadline_at"] = step_deadline_at
    return changes
