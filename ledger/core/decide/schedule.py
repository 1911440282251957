"""What an action does next by itself: start, try again, ask the provider, or wait for a person.

Retries by class: keyed and reference try again with the same key while the provider's key window,
less a margin, is open; lookup tries once more after reliable absence where the operation opts in;
none tries once, ever. Time and attempts lead to a person, never to failed.
"""

from enum import StrEnum
from typing import Final, assert_never

from ledger.core.catalogue import Operation
from ledger.core.config import Config
from ledger.core.decide.approvals import lapse, start_approval
from ledger.core.decide.asking import ask, end, shows_what_is
from ledger.core.decide.draft import Draft
from ledger.core.decide.ending import review
from ledger.core.decide.gating import holds_its_gates
from ledger.core.decide.questions import has_lookups_left, wait_ms
from ledger.core.decide.room import has_room_to_undo
from ledger.core.decide.ruling import needs_ruling
from ledger.core.facts import (
    ActionExpired,
    ActionFailed,
    ActionSuperseded,
    AttemptStarted,
    ReviewReason,
    TimerSet,
)
from ledger.core.ids import provider_key
from ledger.core.inputs import Retry
from ledger.core.limits import DECLINES_MAX
from ledger.core.offers import Offer, is_caller
from ledger.core.order import reference_to_undo, waits_for
from ledger.core.retries import backoff_ms
from ledger.core.reversals import kept_back
from ledger.core.sagas import may_begin
from ledger.core.state import LEADING, Action, AttemptStatus, Status, Stream
from ledger.core.unchecked import writer_of

SETTLED_BY_PERSON = frozenset(LEADING)
"""Reviews that no further evidence may end: two pieces disagree, and a third does not undo that."""


_MAY_START: Final = frozenset({Status.READY, Status.UNKNOWN})
_attempt_started = writer_of(AttemptStarted)


def is_disputed(action: Action) -> bool:
    """Whether its case is one that only a person ends."""
    return action.case is not None and not action.case.reasons.isdisjoint(SETTLED_BY_PERSON)


class Bar(StrEnum):
    """Why no further attempt may start; the first that applies."""

    REVISED = "revised"
    STEP_DEADLINE = "step_deadline_passed"
    ONE_ATTEMPT = "one_attempt_only"
    ATTEMPTS = "attempts_exhausted"
    KEY_WINDOW = "key_window_closed"
    DECLINES = "declines_exhausted"
    APPROVAL = "approval_over"


class Turn(StrEnum):
    """What an action does instead of what it waits for, because a hold came or went, or because
    what it undoes is not as much as it was.
    """

    ASK = "ask"
    TRY = "try"
    TELL = "tell"


def bar(action: Action, operation: Operation, at: int, config: Config) -> Bar | None:
    """What keeps the action from starting an attempt at a time, or None. People are not asked again
    about what may not start anyway.
    """
    if action.revised_by is not None:
        return Bar.REVISED
    if at >= action.step_deadline_at:
        return Bar.STEP_DEADLINE
    if action.declines >= DECLINES_MAX:
        return Bar.DECLINES
    if action.counted_attempts:
        stopped = _bar_of_class(action, operation, at)
        if stopped is not None:
            return stopped
    if action.asks is not None and lapse(action, config, at) is not None:
        return Bar.APPROVAL
    return None


def _bar_of_class(action: Action, operation: Operation, at: int) -> Bar | None:
    """What keeps an action that has begun from another attempt, by what its provider offers."""
    counted = action.counted_attempts
    match action.reliability:
        case "none":
            return Bar.ONE_ATTEMPT
        case "lookup":
            if not operation.second_attempt_after_absence or counted > 1 or action.is_open:
                return Bar.ONE_ATTEMPT
        case "keyed" | "reference":
            if counted >= operation.retries.attempts_max:
                return Bar.ATTEMPTS
            closes_at = key_window_closes_at(action, operation)
            if closes_at is not None and at >= closes_at:
                return Bar.KEY_WINDOW
    return None


def key_window_closes_at(action: Action, operation: Operation) -> int | None:
    """The last moment at which the provider surely still knows the key, less the margin; None
    before the first start.
    """
    first = action.first_started_at
    if first is None or operation.key_window_ms is None:
        return None
    return first + operation.key_window_ms - operation.key_margin_ms


def start(draft: Draft, key: str, operation: Operation) -> None:
    """Spend the offer at hand on the next attempt, write-ahead. Does nothing where the offer does
    not fit, an operator holds it, or a bar stands.
    """
    action, offer = draft.action(key), draft.offer
    if offer is None or offer.operation != action.request.operation:
        return
    if action.status not in _MAY_START:
        return
    if draft.config.hold_on(action) is not None:
        return
    if draft.now > offer.until_at or draft.now < offer.appended_at:
        return
    if not draft.has_ruled(key) and needs_ruling(action, draft.config):
        return
    if waits_for(draft.stream, action) is not None:
        return
    if action.running is not None or bar(action, operation, draft.now, draft.config) is not None:
        return
    is_asked = action.asks is not None and not action.is_open
    if is_asked and not shows_what_is(draft.stream, action):
        return
    if not holds_its_gates(action, draft.config, draft.now):
        return
    if _had_its_turn(action, offer):
        return
    if not may_go_now(draft.stream, action):
        return
    if not has_room_to_undo(draft.stream, action, draft.config, draft.now):
        return
    last_token = action.attempts[-1].fencing_token if action.attempts else 0
    call_ms = operation.deadlines.connect_ms + operation.deadlines.response_ms
    draft.add(
        _attempt_started(
            action=key,
            version=draft.version(key),
            attempt=len(action.attempts) + 1,
            fencing_token=last_token + 1,
            holder=offer.incarnation,
            offer_sequence=offer.sequence,
            offered_at=offer.appended_at,
            lease_until=draft.now + call_ms + draft.config.timing.lease_margin_ms,
            deadline_at=draft.now + call_ms,
            connect_ms=operation.deadlines.connect_ms,
            response_ms=operation.deadlines.response_ms,
            provider=action.provider,
            account=action.account,
            provider_key=_provider_key(action, operation),
            key_expires_at=_key_expires_at(action, operation, draft.now),
            intent_offset=action.intent_offset,
            request_hash=action.request_hash,
            approval=start_approval(action),
            original_reference=reference_to_undo(draft.stream, action),
        )
    )
    draft.offer, draft.offer_spent = None, offer


def _had_its_turn(action: Action, offer: Offer) -> bool:
    """Whether who offers gave this action back; or is a call that was named before: its offer is
    good for one start, however often its proposal comes.
    """
    if is_caller(offer.incarnation):
        return any(attempt.holder == offer.incarnation for attempt in action.attempts)
    return offer.incarnation in holders_that_declined(action)


def holders_that_declined(action: Action) -> frozenset[str]:
    """Incarnations that gave this action back: they are not asked again, unless a person has it
    tried again.
    """
    tries = action.attempts_in_turn if action.attempts else ()
    return frozenset([one.holder for one in tries if one.status is AttemptStatus.DECLINED])


def _provider_key(action: Action, operation: Operation) -> str:
    """All attempts bear the key of the first, whatever the catalogue says now."""
    if action.attempts:
        return action.attempts[0].provider_key
    return provider_key(action.key, operation.provider_key)


def _key_expires_at(action: Action, operation: Operation, now: int) -> int | None:
    if operation.key_window_ms is None:
        return None
    return key_window_closes_at(action, operation) or (
        now + operation.key_window_ms - operation.key_margin_ms
    )


def after_no_effect(
    draft: Draft, key: str, code: str, retry: Retry, retry_after_ms: int | None = None
) -> None:
    """An attempt definitely had no effect. With nothing open: fail for good, try again later, or
    ask a person.
    """
    action = draft.action(key)
    if action.status is not Status.READY:
        find_out(draft, key)
        return
    for_good = None if action.told is None else action.told.for_good
    if retry is Retry.NEVER or for_good is not None:
        draft.add(ActionFailed(action=key, version=draft.version(key), code=for_good or code))
        return
    operation = draft.operation(action)
    if operation is None:
        review(draft, key, "operation_withdrawn")
        return
    wait_ms = max(_backoff_ms(action, operation, action.counted_attempts), retry_after_ms or 0)
    try_again(draft, key, operation, wait_ms)


def after_decline(draft: Draft, key: str) -> None:
    """The start was given back: again after a wait of its own, up to a limit of its own."""
    action = draft.action(key)
    waits = action.timer is not None or action.lookup is not None
    # A late word about an earlier attempt leaves what the open ones wait for as it is.
    if action.status is not Status.READY and (action.status is not Status.UNKNOWN or waits):
        return
    if (operation := draft.operation(action)) is None:
        review(draft, key, "operation_withdrawn")
        return
    try_again(draft, key, operation, _backoff_ms(action, operation, action.declines))


def try_again(draft: Draft, key: str, operation: Operation, wait_ms: int) -> None:
    """Set the retry timer; where a bar will stand by then, go on finding out or ask a person."""
    due_at = draft.now + wait_ms
    action = draft.action(key)
    stopped = bar(action, operation, due_at, draft.config)
    # What people granted may be over by then: they are asked again when it is, not before.
    if stopped is None or (stopped is Bar.APPROVAL and not action.is_open):
        timer = TimerSet(action=key, version=draft.version(key), purpose="retry", due_at=due_at)
        draft.add(timer)
    else:
        stop(draft, key, operation, stopped)


def stop(draft: Draft, key: str, operation: Operation, stopped: Bar) -> None:
    """No further attempt: an open action goes on being looked up, any other goes to a person or
    expires unstarted.
    """
    action = draft.action(key)
    if action.is_open:
        ask_later_or_review(draft, key, operation)
    elif stopped is Bar.STEP_DEADLINE and action.counted_attempts == 0:
        draft.add(ActionExpired(action=key, version=draft.version(key)))
    elif stopped is Bar.APPROVAL:
        ask_anew(draft, key, operation)
    elif action.revised_by is not None:
        by = action.revised_by
        draft.add(ActionSuperseded(action=key, version=draft.version(key), by=by))
    else:
        reason: ReviewReason = "attempts_exhausted"
        match stopped:
            case Bar.STEP_DEADLINE:
                reason = "step_deadline_passed"
            case Bar.ONE_ATTEMPT:
                reason = "one_attempt_only"
            case Bar.DECLINES:
                reason = "declines_exhausted"
            case Bar.ATTEMPTS | Bar.KEY_WINDOW | Bar.APPROVAL | Bar.REVISED:
                reason = "attempts_exhausted"
        review(draft, key, reason)


def ask_anew(draft: Draft, key: str, operation: Operation) -> None:
    """What people granted is over before anything is open. Expired waits until somebody asks again;
    anything else is asked anew at once, because nobody else knows of it.
    """
    over = lapse(draft.action(key), draft.config, draft.now)
    if over is None or over == "not_met":
        return
    end(draft, key, over)
    if over != "expired":
        ask(draft, key, operation)


def find_out(draft: Draft, key: str) -> None:
    """An action became or stays unknown and waits for nothing: decide how its answer will be found.

    The same key again is the strongest question a keyed provider can be asked, but it can make the
    effect; so a lookup comes first, then attempt and lookup in turn; while attempts are held,
    lookups as long as there are any. What only a person may let be sent again is theirs then.
    """
    action = draft.action(key)
    if action.status is not Status.UNKNOWN or action.timer or action.lookup:
        return
    operation = draft.operation(action)
    if operation is None:
        review(draft, key, "operation_withdrawn")
        return
    if action.performer == "caller" and operation.lookups:
        # Whether the caller ever comes back is nobody's to know: the provider is asked meanwhile.
        ask_later_or_review(draft, key, operation)
        return
    is_next = _asked_since_attempt(action) or not operation.lookups
    kept = kept_back(draft.stream, action)
    is_held = kept is not None or draft.config.hold_on(action) is not None
    if is_next and not (is_held and has_lookups_left(action, operation)):
        due_at = draft.now + _backoff_ms(action, operation, action.counted_attempts)
        if bar(action, operation, due_at, draft.config) is None:
            if kept is not None:
                review(draft, key, kept.reason, kept.names)
                return
            timer = TimerSet(action=key, version=draft.version(key), purpose="retry", due_at=due_at)
            draft.add(timer)
            return
    ask_later_or_review(draft, key, operation)


def ask_later_or_review(draft: Draft, key: str, operation: Operation) -> None:
    """The next rung of the lookup schedule; after the last one a person.

    Only answers climb it. A question that proved nothing is put again, ever more slowly, and not
    for ever.
    """
    action = draft.action(key)
    if has_lookups_left(action, operation):
        due_at = draft.now + wait_ms(operation, action.lookups_in_turn)
        draft.add(TimerSet(action=key, version=draft.version(key), purpose="lookup", due_at=due_at))
    elif action.status is not Status.NEEDS_REVIEW:
        review(draft, key, "lookups_exhausted" if operation.lookups else "no_way_to_find_out")


def _asked_since_attempt(action: Action) -> bool:
    return action.lookups_asked >= action.counted_attempts


def turn(stream: Stream, action: Action, config: Config, now: int) -> Turn | None:
    """What an action that waits is to do instead, because a hold came or went, or None: lookups
    while its next attempt is held, that attempt again when nothing holds it any more. Where that
    needs a person's word they are told as soon as there is nothing to ask.
    """
    timer = action.timer
    if action.status is not Status.UNKNOWN or timer is None:
        return None
    operation = config.operation(action.request.operation, action.request.version)
    if operation is None:
        return None
    is_kept_back = kept_back(stream, action) is not None
    if is_kept_back and timer.purpose == "retry":
        return Turn.ASK if has_lookups_left(action, operation) else Turn.TELL
    if action.performer == "caller":
        return None
    is_held = is_kept_back or config.hold_on(action) is not None
    if timer.purpose == "retry":
        is_due = is_held and timer.due_at <= now
        return Turn.ASK if is_due and has_lookups_left(action, operation) else None
    if is_held or not _asked_since_attempt(action):
        return None
    due_at = now + _backoff_ms(action, operation, action.counted_attempts)
    return Turn.TRY if bar(action, operation, due_at, config) is None else None


def take_turn(draft: Draft, key: str, operation: Operation, turned: Turn) -> None:
    """Set the timer that `turn` calls for."""
    match turned:
        case Turn.ASK:
            ask_later_or_review(draft, key, operation)
        case Turn.TRY:
            action = draft.action(key)
            wait_ms = _backoff_ms(action, operation, action.counted_attempts)
            try_again(draft, key, operation, wait_ms)
        case Turn.TELL:
            kept = kept_back(draft.stream, draft.action(key))
            if kept is not None:
                review(draft, key, kept.reason, kept.names)
        case _:
            assert_never(turned)


def _backoff_ms(action: Action, operation: Operation, tries: int) -> int:
    return backoff_ms(
        action.key,
        tries,
        base_ms=operation.retries.backoff_base_ms,
        cap_ms=operation.retries.backoff_max_ms,
    )


def due_at(action: Action, now: int, *, skew_ms: int) -> int | None:
    """When time alone next changes the action, or None: also of a final one that has yet to hear
    from a gate.
    """
    own = None if action.is_final else _due_by_itself(action, now, skew_ms=skew_ms)
    if not action.claims:
        return own
    times = [own, *(claim.due_at for claim in action.claims)]
    return min([time for time in times if time is not None], default=None)


def _due_by_itself(action: Action, now: int, *, skew_ms: int) -> int | None:
    """When time alone next changes what the action does.

    A retry that is due waits for capacity, which is not time's business: then only the step's
    deadline is.
    """
    if action.running is not None:
        return action.running.lease_until + skew_ms
    if action.lookup is not None:
        return action.lookup.answer_by
    if action.status is Status.AWAITING_APPROVAL:
        return _people_due_at(action)
    if action.status is Status.BLOCKED:
        return action.wait_until
    timer = action.timer
    if timer is not None and (timer.purpose == "lookup" or timer.due_at > now):
        may_start = action.status is Status.READY
        return min(timer.due_at, action.step_deadline_at) if may_start else timer.due_at
    if action.status is Status.READY or timer is not None:
        if action.asks is not None and action.approval is not None:
            return min(action.step_deadline_at, action.approval.valid_until)
        return action.step_deadline_at
    return None


def _people_due_at(action: Action) -> int:
    """When time next changes an action that waits for people: the end of what it waits for."""
    times = [action.step_deadline_at]
    if action.dry is not None and action.dry.answer_by is not None:
        times.append(action.dry.answer_by)
    if action.timer is not None:
        times.append(action.timer.due_at)
    approval = action.approval
    if approval is not None and approval.ended is None:
        times.append(approval.expires_at)
        if approval.escalate_at is not None:
            times.append(approval.escalate_at)
    return min(times)


def awaits_offer(action: Action, now: int) -> bool:
    """Whether only an executor's capacity is missing for the next start, and that nobody holds
    it.
    """
    if action.running is not None or action.performer == "caller":
        return False
    if action.status is Status.READY:
        return action.timer is None or action.timer.due_at <= now
    timer = action.timer
    if action.status is not Status.UNKNOWN or timer is None:
        return False
    return timer.purpose == "retry" and timer.due_at <= now


def may_go_now(stream: Stream, action: Action) -> bool:
    """Whether nothing of its own stream keeps an action from its next start: no step of its plan,
    and nothing that was told of what it undoes.
    """
    return may_begin(stream, action) and kept_back(stream, action) is None


def may_take_offer(action: Action, now: int, config: Config) -> bool:
    """Whether an executor's capacity is all that the next start waits for."""
    return awaits_offer(action, now) and config.hold_on(action) is None


def awaits_caller(action: Action, now: int) -> bool:
    """Whether the next start is its caller's to make, as soon as it offers again.

    Of an unknown action the provider has been asked since the last attempt: what it said may have
    settled it, and the same key again could make the effect.
    """
    if action.performer != "caller" or action.running is not None:
        return False
    if action.status is Status.READY:
        return action.timer is None or action.timer.due_at <= now
    if action.status is not Status.UNKNOWN or action.lookup is not None:
        return False
    if action.timer is not None and action.timer.purpose == "retry":
        return action.timer.due_at <= now
    return action.lookups_asked >= action.counted_attempts
