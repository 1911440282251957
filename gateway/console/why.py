"""Why an action is where it is, in one sentence, and each of its facts in a few words.

Guarantees a sentence for every status, reason and fact that there is: a new one without a sentence
fails a test. Times in a sentence are those of the log. Pure; called by the pages.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, assert_never

from ledger.core.blocking import blocking
from ledger.core.gates import ClaimStatus
from ledger.core.holds import Hold
from ledger.core.policy import BEFORE_THE_TABLE
from ledger.core.state import Action, Approval, Attempt, Status

_MS_PER_S: Final = 1_000


def clock(at_ms: int) -> str:
    """A time of the log as people read it, to the second and in UTC."""
    return datetime.fromtimestamp(at_ms / _MS_PER_S, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def span(ms: int) -> str:
    """A length of time in its two largest parts: `2 h 5 min`."""
    seconds = max(0, ms) // _MS_PER_S
    for size, name, below, rest in (
        (86_400, "d", 3_600, "h"),
        (3_600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if seconds >= size:
            whole, left = divmod(seconds, size)
            return f"{whole} {name}" + (f" {left // below} {rest}" if left // below else "")
    return f"{seconds} s"


def why(action: Action, *, now_ms: int, hold: Hold | None = None, denied: str | None = None) -> str:
    """One sentence: why the action is where it is, and what comes next. `denied` is what the fact
    says that denied it, in words.
    """
    if hold is not None:
        reason = f": {hold.reason}" if hold.reason else ""
        return f"{hold.by} keeps new attempts from starting since {clock(hold.since)}{reason}."
    match action.status:
        case Status.PROPOSED:
            return "It is recorded, and the decision table has not been asked yet."
        case Status.AWAITING_APPROVAL:
            return _why_waiting(action, now_ms)
        case Status.BLOCKED:
            return _why_blocked(action)
        case Status.READY:
            return _why_ready(action)
        case Status.ATTEMPTING:
            return _why_attempting(action)
        case Status.UNKNOWN:
            return _why_unknown(action)
        case Status.NEEDS_REVIEW:
            return f"A person has to settle it: {_review(action)}{_named(action)}"
        case Status.COMPLETED:
            return _why_completed(action)
        case Status.FAILED:
            code = action.code or "no reason given"
            return f"No attempt had an effect and none will follow: {code}."
        case Status.DENIED:
            return _why_denied(action, denied)
        case Status.EXPIRED:
            return "Its own deadline passed before anything had begun."
        case Status.CANCELLED:
            reason = f": {action.code}" if action.code else ""
            return f"It was taken back before anything had begun{reason}."
        case Status.SUPERSEDED:
            return "Another action took its place before anything had begun."
        case _:
            assert_never(action.status)


def _why_waiting(action: Action, now_ms: int) -> str:
    approval, dry = action.approval, action.dry
    row = f"The row {action.policy_row} of the decision table"
    if approval is None:
        if dry is not None and dry.code is not None:
            return f"{row} asks people, and the provider did not say what would happen: {dry.code}."
        return f"{row} asks people, and the provider is asked first what would happen."
    if approval.ended == "expired" or (approval.ended is None and now_ms >= approval.expires_at):
        over = clock(approval.expires_at)
        return f"Nobody decided by {over}; that is no denial, and it waits to be asked about again."
    if approval.ended is not None:
        return f"What people were asked came to nothing ({approval.ended}); they are asked anew."
    return (
        f"{row} asks {_whom(approval)} to agree by {clock(approval.expires_at)}{_so_far(approval)}."
    )


def _whom(approval: Approval) -> str:
    people = "one person" if approval.quorum == 1 else f"{approval.quorum} people"
    if not approval.groups:
        return people
    return f"{people} of {' or '.join(approval.groups)}"


def _so_far(approval: Approval) -> str:
    if not approval.grants:
        return ""
    return f"; {', '.join(grant.person for grant in approval.grants)} did"


def _why_blocked(action: Action) -> str:
    waits = blocking(action)
    if waits is None:
        gates = [one.gate for one in action.claims if one.status is ClaimStatus.ASKED]
        asked = ", ".join(gates) or "a gate"
        return f"It waits for the answer of {asked}, which comes by itself."
    return f"{BLOCKED[waits.why].format(waits.by)}."


BLOCKED: Final[Mapping[str, str]] = {
    "target": "{} holds the same target and has to be settled first; then this goes on by itself",
    "revised_open": "It revises {}, which may still have its effect; once that is settled this one "
    "goes on by itself",
    "original_open": "It compensates {}, which may still have its effect and is settled first",
    "saga_order": "{} comes first in its saga: the step before it, or room for what may undo it",
    "planned": "It is the planned compensation of {}, and begins only where that has to be undone",
}
"""What an action waits for, with the action that it waits for."""


def _named(action: Action) -> str:
    """What a case is about, where that is not the action itself."""
    names = None if action.case is None else action.case.names
    return "" if names is None else f" It is {names}."


def _why_ready(action: Action) -> str:
    if action.timer is not None:
        return f"It is tried again from {clock(action.timer.due_at)} on."
    if action.performer == "caller":
        return "It may start, as soon as its caller is there to carry it out."
    return "It may start, as soon as an executor has room for it."


def _why_attempting(action: Action) -> str:
    attempt = action.running
    if attempt is None:
        return "An attempt has ended, and its outcome is being written down."
    return (
        f"Attempt {attempt.number} is under way at {action.provider}; whoever makes it has until "
        f"{clock(attempt.lease_until)}."
    )


def _why_unknown(action: Action) -> str:
    attempt = _last_open(action)
    said = "An attempt" if attempt is None else f"Attempt {attempt.number}"
    code = f" ({attempt.code})" if attempt is not None and attempt.code else ""
    after = "." if action.timer is None else f" at {clock(action.timer.due_at)}."
    if action.lookup is not None:
        return f"{said} may have had its effect{code}; {action.provider} is being asked."
    return f"{said} may have had its effect{code}; {action.provider} is asked next{after}"


def _last_open(action: Action) -> Attempt | None:
    return action.attempts[-1] if action.attempts else None


def _why_completed(action: Action) -> str:
    return f"Its effect is proven by {_PROOFS.get(action.proof or '', 'evidence')}."


def _why_denied(action: Action, denied: str | None) -> str:
    if action.code == "person":
        return (
            "A person signed that it must not happen."
            if denied is None
            else f"{denied.rstrip('.')}."
        )
    by_row = f"The row {action.policy_row} of the decision table denies it."
    return BEFORE_THE_TABLE.get(action.policy_row or "", by_row)


def _review(action: Action) -> str:
    return REVIEWS.get(action.review or "", action.review or "no reason given.")


def review_sentence(reason: str) -> str:
    """Why a person is needed, as a sentence of its own."""
    said = REVIEWS.get(reason, reason)
    return said[:1].upper() + said[1:]


_PROOFS: Final[Mapping[str, str]] = {
    "report": "the provider's answer",
    "webhook": "a webhook of the provider",
    "lookup": "what the provider said when it was asked",
    "settlement": "a line of the provider's settlement file",
    "listing": "the provider's own list",
    "person": "what a person has signed",
}

REVIEWS: Final[Mapping[str, str]] = {
    "attempts_exhausted": "it was tried as often as it may be.",
    "lookups_exhausted": "the provider was asked as often as planned, and did not tell.",
    "declines_exhausted": "executors gave it back again and again without acting.",
    "one_attempt_only": "it may be tried only once, and that attempt proves nothing.",
    "step_deadline_passed": "the time for the whole step is over.",
    "no_way_to_find_out": "the provider cannot be asked about it.",
    "amount_differs": "the provider speaks of another amount than was asked for.",
    "evidence_conflicts": "what the provider says contradicts itself.",
    "effect_without_attempt": "the provider has an effect that no attempt explains.",
    "second_effect": "the provider has a second effect.",
    "partly_succeeded": "a part of it was done, and a part was not.",
    "operation_withdrawn": "its operation is not in the catalogue any more.",
    "preview_failed": "the provider did not say what would happen, as often as it was asked.",
    "ceiling_reached": "it would pass a ceiling of the policy.",
    "suspected_duplicate": "the same was asked for before, under another key.",
    "gate_full": "as many actions as there may be hold the same budget or target, or wait for it.",
    "reversed_elsewhere": "the provider has given back of it what nobody here asked to give back.",
    "returned_too_much": "more of it was given back than was taken.",
    "returned_already": "with it more would be given back than was taken.",
    "original_amount_differs": "what it undoes, or what undoes it too, was done in another amount.",
    "compensation_failed": "what was to be undone is not undone: its compensation came to nothing.",
}


def told(kind: str, data: Mapping[str, Any]) -> str:
    """A fact in a few words, and in those of whoever signed it."""
    template = (
        _BY_PERSON if kind == "action.denied" and data.get("person") else FACTS.get(kind, kind)
    )
    said = template.format_map(_Said(data))
    for change in data.get("changes") or ():
        said += "; {name} was {was}, is {now}".format_map(_Said(change))
    if kind == "approval.escalated":
        said += f": {', '.join(data.get('groups') or ())}"
    comment = " ".join(str(data.get("comment") or "").split())
    return f"{said}: {comment}" if comment else said


_BY_PERSON: Final = "{person} signed that it must not happen"
"""Of what denied an action: the table, where no person did."""


class _Said(dict[str, Any]):
    """The members of a fact, where one that is left out is an ellipsis."""

    def __missing__(self, key: str) -> str:
        return "…"


FACTS: Final[Mapping[str, str]] = {
    "intent.recorded": "The intent was recorded",
    "policy.decided": "The decision table ruled: {outcome}, by row {row}",
    "action.blocked": "It waits for {by}",
    "gate.asked": "It asked {gate} for what it needs",
    "gate.answered": "{gate} answered: {outcome}",
    "gate.kept": "It holds what {gate} granted",
    "gate.closing": "It gives back what it holds of {gate}",
    "gate.closed": "{gate} has taken back what it held",
    "preview.started": "The provider was asked what would happen",
    "preview.failed": "The provider did not say what would happen: {code}",
    "preview.recorded": "The dry run was recorded",
    "approval.requested": "People were asked, round {round}",
    "approval.escalated": "Further groups may decide",
    "approval.granted": "{person} agreed",
    "approval.withdrawn": "{person} took back what they had agreed to",
    "approval.ended": "What was asked came to nothing: {reason}",
    "attempt.started": "Attempt {attempt} was started",
    "attempt.declined": "Attempt {attempt} was given back unsent: {code}",
    "attempt.succeeded": "Attempt {attempt} succeeded",
    "attempt.refused": "Attempt {attempt} was refused: {code}",
    "attempt.not_sent": "Attempt {attempt} was not sent: {code}",
    "attempt.unresolved": "Attempt {attempt} has no outcome: {code}",
    "attempt.absent": "Attempt {attempt} had no effect: the provider does not know it",
    "timer.set": "It waits for its time: {purpose}",
    "lookup.started": "The provider was asked, lookup {lookup}",
    "evidence.recorded": "Evidence came by {kind}: {meaning}",
    "action.completed": "It is completed, proven by {proof}",
    "action.failed": "It failed: {code}",
    "action.denied": "It was denied by {by}",
    "action.cancelled": "It was cancelled",
    "action.expired": "It expired",
    "action.superseded": "{by} took its place",
    "review.opened": "A person was asked to look: {reason}",
    "review.resolved": "{person} settled it: {move}",
}
