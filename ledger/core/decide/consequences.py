"""What the facts of a decision make due elsewhere in their stream, before the decision is whole.

No rule has to think of gates, revisions or plans: whatever it decided, what follows from the state
it leads to is drawn here, once, in the same decision.
"""

from typing import Final

from ledger.core.decide.asking import end
from ledger.core.decide.compensations import follow_compensations
from ledger.core.decide.draft import Draft
from ledger.core.decide.ending import review
from ledger.core.decide.gating import follow_gates
from ledger.core.decide.replans import give_way, show_what_is
from ledger.core.decide.ruling import MAY_BE_RULED_ANEW, block, rule_at_last
from ledger.core.decide.sagas import follow_sagas
from ledger.core.limits import STREAM_ACTIONS_MAX
from ledger.core.order import waits_for
from ledger.core.state import Action, Status

_ENDS_BY_ITSELF: Final = frozenset({"revised_open", "original_open"})
"""What blocks an action until another one is settled; its turn in a saga comes by the saga."""


def follow(draft: Draft) -> None:
    """Draw what follows from the state that the facts so far lead to."""
    for _ in range(STREAM_ACTIONS_MAX):
        before = len(draft.facts)
        _follow_order(draft)
        follow_sagas(draft)
        if len(draft.facts) == before:
            break
    for action in draft.stream.actions:
        follow_gates(draft, action.key)


def _follow_order(draft: Draft) -> None:
    """What follows for those that revise or compensate another action of the stream."""
    if any(one.revises or one.compensates for one in draft.stream.actions):
        give_way(draft)
        follow_compensations(draft)
        for action in draft.stream.actions:
            _keep_order(draft, action)


def _keep_order(draft: Draft, action: Action) -> None:
    """Block what has to wait for another action, and let go on what has not any more."""
    key, waits = action.key, waits_for(draft.stream, action)
    operation = draft.operation(action)
    blocked = action.blocked if action.status is Status.BLOCKED else None
    if blocked is not None and blocked.reason not in _ENDS_BY_ITSELF:
        return
    if waits is None:
        if blocked is None:
            show_what_is(draft, key)
        elif operation is None:
            review(draft, key, "operation_withdrawn")
        else:
            rule_at_last(draft, key, operation)
        return
    if operation is None or action.status not in MAY_BE_RULED_ANEW:
        return
    if blocked is None:
        end(draft, key, "volatile_changed")
    if blocked is None or blocked.by != waits.by:
        block(draft, key, operation, waits)
