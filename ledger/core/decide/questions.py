"""Questions to a provider about an action: how many are left, and how long each waits.

A question that nobody answers is put again, ever more slowly and not for ever: an action that
nobody can find out about comes to a person within its declared bound.
"""

from ledger.core.catalogue import Operation
from ledger.core.decide.draft import Draft
from ledger.core.facts import LookupStarted
from ledger.core.limits import LOOKUPS_UNANSWERED_MAX
from ledger.core.proof import pending_told
from ledger.core.state import Action
from ledger.core.timing import Timing


def has_lookups_left(action: Action, operation: Operation) -> bool:
    """Whether the provider is to be asked again: only answers use up the schedule, and of questions
    without one there is a limit of its own.
    """
    rungs = len(operation.lookups)
    is_left = action.lookups_in_turn < rungs + LOOKUPS_UNANSWERED_MAX
    return action.lookups_answered < rungs and is_left


def wait_ms(operation: Operation, asked: int) -> int:
    """How long to wait before the next question, after so many; the last rung repeats."""
    if not operation.lookups:
        return 0
    return operation.lookups[min(asked, len(operation.lookups) - 1)]


def ask_provider(draft: Draft, key: str) -> None:
    """Put the question now, about every attempt so far. In the place of one that nobody has
    answered it waits as long as the schedule would.
    """
    action = draft.action(key)
    answer_ms = draft.config.timing.lookup_answer_ms
    operation = draft.operation(action)
    if action.lookup is not None and operation is not None:
        answer_ms = max(answer_ms, wait_ms(operation, action.lookups_in_turn))
    draft.add(
        LookupStarted(
            action=key,
            version=draft.version(key),
            lookup=action.lookups_asked + 1,
            attempts_upto=len(action.attempts),
            provider=action.provider,
            account=action.account,
            provider_key=action.attempts[0].provider_key,
            answer_by=draft.now + answer_ms,
            first_started_at=action.first_started_at,
            last_lease_until=max(one.lease_until for one in action.attempts),
            reference=_reference_to_ask(action),
        )
    )


def _reference_to_ask(action: Action) -> str | None:
    """The provider's own name to ask by, where it has told that something of the action is moving:
    some providers find nothing by any other mark. Of several no one may be asked for as the effect.
    """
    moving = pending_told(action)
    return moving[0] if len(moving) == 1 else None


def bound_of(operation: Operation, timing: Timing) -> int:
    """How long after its first start an action that nobody can find out about is with a person at
    the latest, in milliseconds of log time; proof or a definite "no" ends it sooner.

    Every attempt begins within the step, lasts as long as its lease, and is believed over a skew
    later. Then come the questions: each waits for its rung, and then for its answer.
    """
    times = operation.deadlines
    lease_ms = times.connect_ms + times.response_ms + timing.lease_margin_ms + timing.skew_ms
    if not operation.lookups:
        return lease_ms if operation.reliability == "none" else times.step_ms + lease_ms
    asked = range(len(operation.lookups) + LOOKUPS_UNANSWERED_MAX)
    waits = [wait_ms(operation, number) for number in asked]
    answers = [max(timing.lookup_answer_ms, wait) for wait in waits]
    return times.step_ms + lease_ms + sum(waits) + sum(answers)
