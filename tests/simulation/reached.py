"""The states that histories must come to: a simulation that never gets there proves nothing.

Each is counted once a history. `make sim` fails where one of them is reached too rarely. The cells
are those of the table of statuses and facts that can exist: `proposed` lasts no longer than the
decision that records an intent, and what has expired or was denied was never sent. Revisions,
compensations and sagas have small worlds of their own (tests/model), as a gate that is full has
unit tests.
"""

from typing import Final

REACHED_MIN: Final = 100
"""Of 200,000 histories, those that come to a state; in fewer histories as many times fewer."""


def _each(of: str, names: str) -> tuple[str, ...]:
    return tuple(f"{of}: {name}" for name in names.split())


_PROCESSES: Final = (
    "processor crashed",
    "processor crashed with its ledger folded",
    "processor crashed with its epoch opened",
    "processor crashed with a batch decided",
    "processor crashed with a batch landed",
    "processor paused",
    "owner paused past its session",
    "two owners at once",
    "executor crashed",
    "executor crashed before its offer",
    "executor crashed with its start read",
    "executor crashed before the first byte",
    "executor crashed with its answer read",
    "executor paused",
    "inquirer crashed with its question read",
    "inquirer crashed with its answer found",
    "inquirer paused",
    "matcher crashed",
    "door crashed with a webhook read",
    "door crashed with a webhook kept",
    "rebalanced",
)
_READ_MODEL: Final = (
    "projector crashed before its commit",
    "projector paused",
    "another projector was first",
    "rebuild swapped in",
    "rebuild swapped in during traffic",
    "began at genesis",
    "began at a checkpoint",
    "stream let go",
    "cold stream loaded",
    "cold stream is new",
    "input waited for its stream",
    "projection behind what is not held",
    "database away",
    "database slow",
)
_LOG: Final = (
    "append without an answer",
    "intent said again",
    "void record",
    "void: another place",
    "barrier collided",
    "continuity lost",
    "decided again after a loss",
    "tick held back",
    "ticks forgotten",
    "offers replayed",
    "quarantined",
    "topic made anew",
    "inbox made anew refused",
    "clocks ahead, then stepped back",
    "clocks far ahead",
    "clocks too far apart",
    "record from the future refused",
    "operation withdrawn",
    "held",
    "stranger reported",
)
_EXECUTORS: Final = (
    "intent read again",
    "paused before the first byte",
    "socket was closed",
    *_each("declined", "lease_over deadline_over shutting_down approval_expired volatile_changed"),
)
_PROVIDER: Final = (
    "dropped before commit",
    "5xx before commit",
    "5xx after commit",
    "5xx from its cache",
    "commit then drop",
    "committed late",
    "key in use",
    "key replayed",
    "retries stopped by the key window",
    "second effect of a careless provider",
    "second effect found out",
    "webhook lost",
    "webhook twice",
    "webhook of other money",
    "webhook of another account",
    "search was silent",
    *_each("lookup", "found absent inconclusive"),
)
_PEOPLE: Final = (
    *_each("table adopted", "one two confirm money auto never"),
    "table adopted: one, reviewed",
    "a key is revoked",
    "a person is revoked",
    "preview foreseen",
    "preview failed",
    "facts moved",
    "caller acted",
    "caller came too late",
    "caller never heard of again",
    *_each(
        "refused",
        "signature_invalid unknown_signer signer_revoked other_ledger other_action other_tenant "
        "other_environment other_request other_person not_for_tenant requester_decides "
        "approval_spent nonce_dead other_policy other_preview approval_expired "
        "expiry_beyond_request issued_in_future not_in_group nothing_to_withdraw",
    ),
    *_each("unchanged", "approved_already already_recorded not_asked_for"),
)
_DESK: Final = (
    *_each("resolved", "effect_exists no_effect try_again look_again acknowledge"),
    *_each("refused", "no_case case_moved reference_unfit move_not_safe"),
    "unchanged: resolved_already",
    "proof: person",
)
_GATES: Final = (
    *(f"message to or from a gate {what}" for what in ("lost", "late", "twice")),
    "processor crashed with messages to say",
    "the same under another key",
    *_each("refused", "run_missing accepts_unfit too_many_reporters"),
    *_each("unchanged", "granted_already not_wanted step_known"),
    *_each("review", "ceiling_reached suspected_duplicate"),
    "resolved: allow",
)
_OUTCOMES: Final = (
    *_each("ended", "completed failed denied cancelled expired needs_review"),
    *_each("proof", "report webhook lookup"),
    *_each("attempt", "succeeded refused not_sent declined unresolved absent settled"),
    *_each("retried", "charge payout ticket fee"),
    *_each(
        "refused",
        "already_final attempt_open conflicted in_review misrouted unknown_operation "
        "unknown_action foreign_account stale_token",
    ),
    *_each(
        "unchanged",
        "already_cancelled already_unresolved attempt_already_ended evidence_known nothing_due "
        "replayed",
    ),
    *_each(
        "review",
        "amount_differs attempts_exhausted declines_exhausted evidence_conflicts "
        "lookups_exhausted no_way_to_find_out one_attempt_only operation_withdrawn second_effect "
        "step_deadline_passed",
    ),
)
_FACTS: Final[dict[str, str]] = {
    "proposed": "policy.decided",
    "awaiting_approval": "policy.decided preview.started preview.failed preview.recorded "
    "approval.requested approval.escalated approval.granted approval.withdrawn approval.ended "
    "timer.set action.denied action.cancelled action.expired review.opened gate.closing",
    "blocked": "policy.decided gate.asked gate.answered gate.kept gate.closing approval.ended "
    "action.cancelled action.expired review.opened review.resolved",
    "ready": "policy.decided approval.withdrawn approval.ended attempt.started timer.set "
    "evidence.recorded action.failed action.cancelled action.expired review.opened gate.asked "
    "gate.kept",
    "attempting": "attempt.declined attempt.succeeded attempt.refused attempt.not_sent "
    "attempt.unresolved evidence.recorded action.completed review.opened gate.kept",
    "unknown": "attempt.started attempt.declined attempt.succeeded attempt.refused "
    "attempt.not_sent attempt.absent timer.set lookup.started evidence.recorded action.completed "
    "review.opened gate.kept",
    "needs_review": "attempt.declined attempt.succeeded attempt.refused attempt.not_sent "
    "attempt.unresolved attempt.absent lookup.started evidence.recorded action.completed "
    "review.opened review.resolved gate.kept gate.closing gate.closed",
    "completed": "evidence.recorded review.opened review.resolved gate.asked gate.answered "
    "gate.kept gate.closing gate.closed",
    "failed": "evidence.recorded review.opened gate.asked gate.answered gate.closing gate.closed",
    "cancelled": "evidence.recorded review.opened gate.closing",
    "expired": "gate.closing gate.closed",
}
_CELLS: Final = tuple(
    f"cell: {status} {fact}" for status, facts in _FACTS.items() for fact in facts.split()
)
REACHED: Final = (
    *_PROCESSES,
    *_READ_MODEL,
    *_LOG,
    *_EXECUTORS,
    *_PROVIDER,
    *_PEOPLE,
    *_DESK,
    *_GATES,
    *_OUTCOMES,
    *_CELLS,
)
