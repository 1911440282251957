"""Which facts may follow which status, once more, written from the rules."""

from collections.abc import Mapping

from tests.crash.plain_gates import CLAIMS

FINAL = frozenset({"completed", "failed", "denied", "expired", "cancelled", "superseded"})

_PEOPLE = (
    "preview.started preview.failed preview.recorded approval.requested approval.escalated "
    "approval.granted approval.withdrawn approval.ended"
)
_ENDS = "action.denied action.cancelled action.expired action.superseded"
_AT_ANY_TIME = frozenset(
    {"evidence.recorded", "review.opened", "gate.kept", "gate.closing", "gate.closed"}
)
OUTCOMES = (
    "attempt.declined attempt.succeeded attempt.refused attempt.not_sent attempt.unresolved "
    "action.completed"
)
_FROM_UNKNOWN = (
    "attempt.started attempt.declined attempt.succeeded attempt.refused attempt.not_sent "
    "attempt.absent timer.set lookup.started action.completed"
)
MAY_FOLLOW: Mapping[str, frozenset[str]] = {
    status: frozenset(facts.split()) | _AT_ANY_TIME
    for status, facts in {
        "proposed": f"policy.decided action.blocked {_ENDS}",
        "awaiting_approval": f"{_PEOPLE} policy.decided action.blocked timer.set "
        f"gate.asked gate.answered {_ENDS}",
        "blocked": "policy.decided action.blocked gate.asked gate.answered approval.withdrawn "
        f"approval.ended review.resolved {_ENDS}",
        "ready": "policy.decided action.blocked approval.withdrawn approval.ended attempt.started "
        f"timer.set gate.asked action.failed {_ENDS}",
        "attempting": OUTCOMES,
        "unknown": _FROM_UNKNOWN,
        "needs_review": f"{OUTCOMES} attempt.absent lookup.started review.resolved "
        "action.superseded gate.asked gate.answered",
    }.items()
} | dict.fromkeys(FINAL, _AT_ANY_TIME | CLAIMS | {"review.resolved"})
"""Which facts a status allows; a status that is not here allows none."""
