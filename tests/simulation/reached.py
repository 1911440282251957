"""The states that histories must come to: a simulation that never gets there proves nothing.

Each is counted once a history. `make sim` fails where one of them is reached too rarely. Every
refusal is among them, and of the table of statuses and facts every cell that it accepts: but for
those of `NEVER`, which cannot exist, and of `SELDOM`, which chance does not come to often enough to
be counted on; each says why.
"""

from typing import Final

from ledger.core.rejections import Rejection
from ledger.core.transitions import ACCEPTED

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
    "matcher crashed with its evidence told",
    "webhook skipped",
    "webhooks committed before anything came of them",
    "webhook parked",
    "parked webhook swept up",
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
    "filter filled",
    "database away",
    "database slow",
    "timer or message decided beside an input that waits",
    "inbox not read on",
    "tick put off while its partition stands still",
    "message decided while its partition stands still",
    "rows of a stream lie",
    "time kept beside a damaged stream",
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
    "a provider stayed away beyond the bound",
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
_TOGETHER: Final = (
    *_each("review", "gate_full compensation_failed"),
    "ended: superseded",
    "taken back later",
)
_REFUSALS: Final = tuple(f"refused: {code.value}" for code in Rejection)


def _cells(of: str, facts: str) -> tuple[str, ...]:
    return tuple(f"cell: {of} {fact}" for fact in facts.split())


_AT_ONCE: Final = "what is proposed is ruled, or blocked, in the decision that records it"
_HAS_BEGUN: Final = "what has begun holds what it began with until it has ended, or a person has it"
NEVER: Final[dict[str, str]] = {
    **dict.fromkeys(
        _cells(
            "proposed",
            "action.cancelled action.denied action.expired action.superseded evidence.recorded "
            "gate.closed review.opened",
        ),
        _AT_ONCE,
    ),
    **dict.fromkeys(("cell: attempting gate.closing", "cell: unknown gate.closing"), _HAS_BEGUN),
}
"""Cells that cannot exist: the table accepts them, because it asks no more than the status."""
_LATE_TAKEN: Final = (
    "a gate says that it has back what it was given back before the action went on, later than that"
)
_LATE_TOLD: Final = "its provider tells of an effect after it had ended, while gates are guarded"
SELDOM: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("cell: attempting gate.closed", "cell: unknown gate.closed", "cell: ready gate.closed"),
        _LATE_TAKEN,
    ),
    **dict.fromkeys(
        _cells("awaiting_approval", "gate.asked gate.answered gate.kept"),
        "people are asked about an undo while its budgets have yet to answer",
    ),
    **dict.fromkeys(
        (
            *_cells("denied", "gate.closed gate.kept"),
            *_cells(
                "expired", "evidence.recorded gate.asked gate.answered gate.kept review.resolved"
            ),
            "cell: failed gate.kept",
        ),
        _LATE_TOLD,
    ),
}
"""Cells that histories come to now and then, or never yet; `tests/unit/core/test_transitions.py`
folds them all.
"""
_CELLS: Final = tuple(
    cell
    for cell in sorted(f"cell: {status} {fact}" for status, fact in ACCEPTED)
    if cell not in NEVER | SELDOM
)
RARE: Final = frozenset(
    {
        *_cells("awaiting_approval", "gate.closed"),
        *_cells("blocked", "gate.closed action.denied"),
        *_cells("ready", "action.denied gate.closing"),
        *_cells("denied", "gate.asked gate.answered gate.closing review.resolved"),
        *_cells("superseded", "gate.closed gate.kept gate.asked gate.answered"),
        *_cells("cancelled", "gate.kept"),
        *_cells("failed", "review.resolved"),
        *_cells("blocked", "approval.withdrawn"),
    }
)
"""States that a tenth of that is enough for."""
_NAMED: Final = frozenset((*_LOG, *_PEOPLE, *_DESK, *_GATES, *_OUTCOMES))
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
    *_TOGETHER,
    *_CELLS,
    *(refusal for refusal in _REFUSALS if refusal not in _NAMED),
)
