"""Time: what is due in a stream when its tick comes. Time alone makes nothing failed."""

from ledger.core.catalogue import Operation
from ledger.core.decide.asking import (
    ask_without_provider,
    end,
    escalate,
    is_shown_otherwise,
    start_preview,
)
from ledger.core.decide.draft import Decided, Draft
from ledger.core.decide.ending import review
from ledger.core.decide.gates import send_grants_due
from ledger.core.decide.gating import send_due
from ledger.core.decide.judging import close_denied
from ledger.core.decide.questions import ask_provider, has_lookups_left
from ledger.core.decide.replans import show_what_is
from ledger.core.decide.ruling import MAY_BE_RULED_ANEW, needs_ruling, rule_anew
from ledger.core.decide.schedule import (
    Bar,
    awaits_offer,
    bar,
    find_out,
    start,
    stop,
    take_turn,
    turn,
)
from ledger.core.facts import AttemptUnresolved
from ledger.core.limits import LOOKUPS_UNANSWERED_MAX, PREVIEWS_MAX
from ledger.core.state import Action, Attempt, Status


def tick(draft: Draft) -> Decided:
    """Let every action of the stream do what is due: lapse, ask, try again, expire; and send again
    the messages to and from gates that nobody has answered.
    """
    for action in draft.stream.actions:
        if not action.is_final:
            _do_what_is_due(draft, action.key)
        if action.claims:
            send_due(draft, action.key)
    send_grants_due(draft)
    return draft.decided()


def _do_what_is_due(draft: Draft, key: str) -> None:
    """One step of one action; what comes first in this order is done and the rest waits.

    An attempt that runs, and a question to the provider, only end. Then a table or catalogue that
    has changed rules anew, and only then comes what the status of the action waits for.
    """
    action = draft.action(key)
    if action.running is not None:
        if action.running.lease_until + draft.config.timing.skew_ms <= draft.now:
            _lapse(draft, key, action.running)
        return
    if action.lookup is not None:
        if action.lookup.answer_by <= draft.now:
            _nobody_answered(draft, key)
        return
    operation = draft.operation(action)
    timer_due = action.timer is not None and action.timer.due_at <= draft.now
    if operation is None:
        # What another action blocks is nobody's affair before its turn.
        if timer_due or (action.status in MAY_BE_RULED_ANEW and action.blocked is None):
            review(draft, key, "operation_withdrawn")
    elif needs_ruling(action, draft.config) and not _is_over(action, draft.now):
        rule_anew(draft, key, operation)
        if awaits_offer(draft.action(key), draft.now):
            start(draft, key, operation)
    elif action.blocked is None and is_shown_otherwise(draft.stream, action):
        show_what_is(draft, key)
    elif action.status is Status.AWAITING_APPROVAL:
        _await_people(draft, key, operation)
    elif action.status is Status.BLOCKED:
        if action.wait_until is not None and action.wait_until <= draft.now:
            stop(draft, key, operation, Bar.STEP_DEADLINE)
    elif action.timer is not None and action.timer.purpose == "lookup":
        turned = turn(draft.stream, action, draft.config, draft.now)
        if timer_due:
            ask_provider(draft, key)
        elif turned is not None:
            take_turn(draft, key, operation, turned)
    elif action.status in (Status.READY, Status.UNKNOWN):
        stopped = bar(action, operation, draft.now, draft.config)
        if stopped is not None and (timer_due or action.status is Status.READY):
            stop(draft, key, operation, stopped)
        elif (turned := turn(draft.stream, action, draft.config, draft.now)) is not None:
            take_turn(draft, key, operation, turned)
        elif awaits_offer(action, draft.now):
            start(draft, key, operation)


def _lapse(draft: Draft, key: str, running: Attempt) -> None:
    """The lease of an attempt is over without a report: whether it had its effect is unknown."""
    draft.add(
        AttemptUnresolved(
            action=key,
            version=draft.version(key),
            attempt=running.number,
            code="lease_lapsed",
        )
    )
    close_denied(draft, key)
    find_out(draft, key)


def _nobody_answered(draft: Draft, key: str) -> None:
    """Ask the provider again, as often as it may be asked, and then hand the action to a person. A
    late answer still counts.
    """
    action = draft.action(key)
    operation = draft.operation(action)
    left = action.lookups_in_turn < LOOKUPS_UNANSWERED_MAX
    if operation is not None:
        left = has_lookups_left(action, operation)
    if left:
        ask_provider(draft, key)
    else:
        review(draft, key, "lookups_exhausted")


def _is_over(action: Action, now: int) -> bool:
    """Whether the time for what the action does now is over: nothing is ruled anew then.
    A compensation that waits for its turn has no such time.
    """
    if action.blocked is not None:
        return action.wait_until is not None and now >= action.wait_until
    if action.status is Status.BLOCKED and action.wait_until is not None:
        return now >= action.wait_until
    return now >= action.step_deadline_at


def _await_people(draft: Draft, key: str, operation: Operation) -> None:
    """What is due of an action that waits for people. Their silence never decides anything."""
    action, now = draft.action(key), draft.now
    dry, timer, approval = action.dry, action.timer, action.approval
    if now >= action.step_deadline_at:
        stop(draft, key, operation, Bar.STEP_DEADLINE)
        return
    lapsed = dry is not None and dry.answer_by is not None and dry.answer_by <= now
    if dry is not None and (lapsed or (timer is not None and timer.due_at <= now)):
        if operation.preview == "request":
            ask_without_provider(draft, key)
        elif dry.failed + lapsed >= PREVIEWS_MAX:
            review(draft, key, "preview_failed")
        else:
            start_preview(draft, key)
        return
    if approval is None or approval.ended is not None:
        return
    if now >= approval.expires_at:
        end(draft, key, "expired")
    elif approval.escalate_at is not None and approval.escalate_at <= now:
        escalate(draft, key, approval)
