"""Policy: which row of the decision table applies to an action, and what follows from it.

An action that has not begun is ruled anew under every table that is adopted, and under every
catalogue that has another row apply, that takes the right to ask from who asked, or whose
declaration its request does not fit: what people were asked stays where the same is asked of them,
and ends where it is not. What has begun goes on under the row that it began with.
"""

from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.decide.approvals import no_later
from ledger.core.decide.asking import ask, end
from ledger.core.decide.draft import Draft
from ledger.core.facts import ActionBlocked, ActionDenied, PolicyDecided
from ledger.core.ids import ActionKey
from ledger.core.order import Waits, waits_for
from ledger.core.policy import Gates, Outcome, Ruling, barred
from ledger.core.request import RecordedRequest
from ledger.core.state import Action, Blocked, Status
from ledger.core.unchecked import writer_of

MAY_BE_RULED_ANEW = frozenset({Status.AWAITING_APPROVAL, Status.READY, Status.BLOCKED})
_RULED_AHEAD = frozenset({"original_open", "planned"})
"""What blocks an action for which there has to be room once its turn comes."""

_policy_decided = writer_of(PolicyDecided)


def ruling_on(action: Action, operation: Operation, config: Config) -> Ruling:
    """What applies to an action under the catalogue and the table in force."""
    denied = barred(operation, action.request)
    if denied is not None:
        return denied
    tenant = ActionKey.parse(action.key).tenant
    return config.policy.rule(operation, action.request, tenant, action.revises, action.performer)


def rule(draft: Draft, key: ActionKey, request: RecordedRequest, operation: Operation) -> Ruling:
    """Rule for the first time. Where people are asked the action may wait for them, but never
    beyond the deadline that its caller gave.
    """
    action = draft.action(str(key))
    ruling = draft.config.policy.rule(
        operation, request, key.tenant, action.revises, action.performer
    )
    _decide(draft, action.key, ruling, _people_until(draft, action.key, operation, ruling))
    if action.revises is None and action.compensates is None:
        _follow(draft, action.key, operation, ruling)
    else:
        _follow_in_order(draft, action.key, operation, ruling)
    return ruling


def _follow_in_order(draft: Draft, key: str, operation: Operation, ruling: Ruling) -> None:
    """Go on as ruled, unless another action of the stream has to be settled before."""
    waits = waits_for(draft.stream, draft.action(key))
    if waits is None or ruling.outcome is Outcome.DENY:
        _follow(draft, key, operation, ruling)
    else:
        block(draft, key, operation, waits)


def block(draft: Draft, key: str, operation: Operation, waits: Waits) -> None:
    """Have an action wait for another one of its stream. What undoes something waits as long as
    that takes; any other no longer than for people.
    """
    action = draft.action(key)
    wait_until = action.caller_deadline_at
    if waits.reason == "revised_open":
        wait_until = no_later(action, draft.now + operation.deadlines.people_ms)
    draft.add(
        ActionBlocked(
            action=key,
            version=draft.version(key),
            reason=waits.reason,
            by=waits.by,
            wait_until=wait_until,
        )
    )


def rule_ahead(draft: Draft, key: str, operation: Operation) -> Ruling:
    """Rule about what has yet to have its turn in a plan: from now on its budgets are reserved, and
    nobody is asked before it is ruled again.
    """
    ruling = ruling_on(draft.action(key), operation, draft.config)
    _decide(draft, key, ruling, None)
    return ruling


def _rule_ahead_anew(draft: Draft, key: str, operation: Operation, blocked: Blocked) -> None:
    """Rule ahead under another table, so that it reserves what that asks for, and go on waiting for
    the same: what a gate was asked about a ceiling that is gone would never be answered. Of a plan
    what is refused now is refused for good: then nobody begins what it was to undo. What waits to
    know whether there is anything to undo is refused at its turn, where a person hears of it.
    """
    wait_until = draft.action(key).wait_until
    is_denied = rule_ahead(draft, key, operation).outcome is Outcome.DENY
    if is_denied and blocked.reason == "planned":
        draft.add(ActionDenied(action=key, version=draft.version(key), by="policy"))
        return
    draft.add(
        ActionBlocked(
            action=key,
            version=draft.version(key),
            reason=blocked.reason,
            by=blocked.by,
            wait_until=wait_until,
        )
    )


def rule_at_last(draft: Draft, key: str, operation: Operation) -> None:
    """Rule for the first time about what another action of its stream has kept waiting: its step
    begins now.
    """
    action = draft.action(key)
    ruling = ruling_on(action, operation, draft.config)
    deadline_at = _people_until(draft, key, operation, ruling)
    if deadline_at is None:
        deadline_at = no_later(action, draft.now + operation.deadlines.step_ms)
    _decide(draft, key, ruling, deadline_at)
    _follow_in_order(draft, key, operation, ruling)


def lacks_run(draft: Draft, gates: Gates | None, run: str | None) -> bool:
    """Whether a ceiling per run applies and the caller names none: nobody leaves a ceiling out."""
    if gates is None or run is not None:
        return False
    ceilings = (draft.config.policy.ceiling(name) for name in gates.ceilings)
    return any(one is not None and one.per == "run" for one in ceilings)


def _people_until(draft: Draft, key: str, operation: Operation, ruling: Ruling) -> int | None:
    if ruling.asks is None:
        return None
    return no_later(draft.action(key), draft.now + operation.deadlines.people_ms)


def needs_ruling(action: Action, config: Config) -> bool:
    """Whether another table, or a catalogue that makes a difference, was adopted since the action
    was ruled, and it has not begun. What another action blocks is ruled at its turn, unless room
    for it was reserved ahead.
    """
    if action.status not in MAY_BE_RULED_ANEW or action.has_begun:
        return False
    if action.blocked is not None and action.blocked.reason not in _RULED_AHEAD:
        return False
    if action.policy_hash != config.policy.content_hash:
        return True
    operation = config.operation(action.request.operation, action.request.version)
    if operation is None:
        return False
    ruling = ruling_on(action, operation, config)
    return (ruling.row, ruling.asks, ruling.gates) != (
        action.policy_row,
        action.asks,
        action.gates,
    )


def rule_anew(draft: Draft, key: str, operation: Operation) -> None:
    """Rule under the catalogue and the table in force."""
    action = draft.action(key)
    if action.blocked is not None:
        _rule_ahead_anew(draft, key, operation, action.blocked)
        return
    ruling = ruling_on(action, operation, draft.config)
    is_same = (ruling.row, ruling.asks) == (action.policy_row, action.asks)
    if is_same and ruling.outcome is not Outcome.DENY:
        _decide(draft, key, ruling, None)
        return
    end(draft, key, "policy_changed")
    deadline_at = None
    if ruling.asks is not None and action.asks is None:
        deadline_at = _people_until(draft, key, operation, ruling)
    elif ruling.outcome is Outcome.AUTOMATIC and action.asks is not None:
        deadline_at = no_later(action, draft.now + operation.deadlines.step_ms)
    _decide(draft, key, ruling, deadline_at)
    _follow(draft, key, operation, ruling)


def _decide(draft: Draft, key: str, ruling: Ruling, deadline_at: int | None) -> None:
    draft.add(
        _policy_decided(
            action=key,
            version=draft.version(key),
            policy_hash=draft.config.policy.content_hash,
            row=ruling.row,
            outcome=ruling.outcome.value,
            asks=ruling.asks,
            missing=ruling.missing or None,
            step_deadline_at=deadline_at,
            gates=ruling.gates,
        )
    )


def _follow(draft: Draft, key: str, operation: Operation, ruling: Ruling) -> None:
    if ruling.outcome is Outcome.DENY:
        draft.add(ActionDenied(action=key, version=draft.version(key), by="policy"))
    elif ruling.asks is not None:
        ask(draft, key, operation)
