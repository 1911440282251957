"""Time: what is due in a stream when its tick comes. Time alone makes nothing failed."""

from ledger.core.decide.draft import Decided, Draft
from ledger.core.decide.schedule import (
    ask,
    awaits_offer,
    bar,
    find_out,
    review,
    start,
    stop,
    take_turn,
    turn,
)
from ledger.core.facts import AttemptUnresolved
from ledger.core.state import Status


def tick(draft: Draft) -> Decided:
    """Let every action of the stream do what is due: lapse, ask, try again, expire."""
    for action in draft.stream.actions:
        if not action.is_final:
            _one(draft, action.key)
    return draft.decided()


def _one(draft: Draft, key: str) -> None:
    action = draft.action(key)
    timing = draft.config.timing
    running = action.running
    if running is not None:
        if running.lease_until + timing.skew_ms <= draft.now:
            draft.add(
                AttemptUnresolved(
                    action=key,
                    version=draft.version(key),
                    attempt=running.number,
                    code="lease_lapsed",
                )
            )
            find_out(draft, key)
        return
    if action.lookup is not None:
        if action.lookup.answer_by <= draft.now:
            ask(draft, key)
        return
    operation = draft.operation(action)
    timer_due = action.timer is not None and action.timer.due_at <= draft.now
    if operation is None:
        if timer_due or action.status is Status.READY:
            review(draft, key, "operation_withdrawn")
    elif action.timer is not None and action.timer.purpose == "lookup":
        turned = turn(action, draft.config, draft.now)
        if timer_due:
            ask(draft, key)
        elif turned is not None:
            take_turn(draft, key, operation, turned)
    elif action.status in (Status.READY, Status.UNKNOWN):
        stopped = bar(action, operation, draft.now)
        if stopped is not None and (timer_due or action.status is Status.READY):
            stop(draft, key, operation, stopped)
        elif (turned := turn(action, draft.config, draft.now)) is not None:
            take_turn(draft, key, operation, turned)
        elif awaits_offer(action, draft.now):
            start(draft, key, operation)
