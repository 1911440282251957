"""Facts: what the ledger decided, in the past tense, about one action. Never edited, folded by
`evolve`.

A fact names its action and that action's next version. Its id is derived, not stored:
`ids.event_id`. Wire names are written out here and never derived from class names. Produced by
`decide` only.
"""

from typing import Annotated, Literal

from pydantic import Field

from ledger.core.inputs import EvidenceKind, Meaning, Retry
from ledger.core.money import Money
from ledger.core.request import RecordedRequest
from ledger.core.wire import Count, Json, Milliseconds, Text, Wire

ReviewReason = Literal[
    "attempts_exhausted",
    "lookups_exhausted",
    "declines_exhausted",
    "one_attempt_only",
    "step_deadline_passed",
    "no_way_to_find_out",
    "amount_differs",
    "evidence_conflicts",
    "effect_without_attempt",
    "second_effect",
    "partly_succeeded",
    "operation_withdrawn",
]


class IntentRecorded(Wire):
    """The intent is durable, with what of its operation holds for the life of the action.

    `performer` is set where no executor but the caller itself carries it out.
    """

    type: Literal["intent.recorded"] = "intent.recorded"
    action: Text
    version: Count
    request: RecordedRequest
    request_hash: Text
    provider: Text
    account: Text
    reliability: Literal["keyed", "reference", "lookup", "none"]
    step_deadline_at: Milliseconds
    performer: Literal["caller"] | None = None


class PolicyDecided(Wire):
    """The row of the decision table that applies, and what it asks for."""

    type: Literal["policy.decided"] = "policy.decided"
    action: Text
    version: Count
    policy_hash: Text
    row: Text
    outcome: Literal["automatic"]


class AttemptStarted(Wire):
    """A holder may act, until `lease_until`. Written ahead: no byte leaves before its holder has
    read this back.

    `offer_sequence` and `offered_at` name the offer it spends (the broker's append time);
    `intent_offset` is the ledger offset of the decision that recorded the intent; `deadline_at`
    ends the call.
    """

    type: Literal["attempt.started"] = "attempt.started"
    action: Text
    version: Count
    attempt: Count
    fencing_token: Count
    holder: Text
    offer_sequence: Count
    offered_at: Milliseconds
    lease_until: Milliseconds
    deadline_at: Milliseconds
    connect_ms: Milliseconds
    response_ms: Milliseconds
    provider: Text
    account: Text
    provider_key: Text
    key_expires_at: Milliseconds | None = None
    intent_offset: Count
    request_hash: Text


class AttemptDeclined(Wire):
    """The holder did not act and will not: no byte left, and the start is not counted."""

    type: Literal["attempt.declined"] = "attempt.declined"
    action: Text
    version: Count
    attempt: Count
    code: Text


class AttemptSucceeded(Wire):
    """The provider confirmed the effect to the holder."""

    type: Literal["attempt.succeeded"] = "attempt.succeeded"
    action: Text
    version: Count
    attempt: Count
    reference: Text
    result: dict[str, Json] = Field(default_factory=dict)


class AttemptRefused(Wire):
    """The provider refused: definitely no effect of this attempt."""

    type: Literal["attempt.refused"] = "attempt.refused"
    action: Text
    version: Count
    attempt: Count
    code: Text
    retry: Retry


class AttemptNotSent(Wire):
    """No byte of this attempt left."""

    type: Literal["attempt.not_sent"] = "attempt.not_sent"
    action: Text
    version: Count
    attempt: Count
    code: Text


class AttemptUnresolved(Wire):
    """The attempt may have had its effect: its answer was lost, its lease lapsed without a word
    (`lease_lapsed`), or only part of the effect exists (`partly_succeeded`): then `reference` names
    that part, and `result` says of each part what became of it.
    """

    type: Literal["attempt.unresolved"] = "attempt.unresolved"
    action: Text
    version: Count
    attempt: Count
    code: Text
    reference: Text | None = None
    result: dict[str, Json] | None = None


class AttemptAbsent(Wire):
    """A reliable absence closes the attempt: the provider, asked late enough, does not know it."""

    type: Literal["attempt.absent"] = "attempt.absent"
    action: Text
    version: Count
    attempt: Count
    source_id: Text


class TimerSet(Wire):
    """What the action waits for by itself, and until when. Replaces the timer before it."""

    type: Literal["timer.set"] = "timer.set"
    action: Text
    version: Count
    purpose: Literal["retry", "lookup"]
    due_at: Milliseconds


class LookupStarted(Wire):
    """The inquirer is to ask the provider, about attempts up to `attempts_upto`; an answer after
    `answer_by` still counts.
    """

    type: Literal["lookup.started"] = "lookup.started"
    action: Text
    version: Count
    lookup: Count
    attempts_upto: Count
    provider: Text
    account: Text
    provider_key: Text
    answer_by: Milliseconds


class EvidenceRecorded(Wire):
    """A piece of evidence, kept whatever it leads to. `attempts_upto` is the newest attempt it can
    speak for.
    """

    type: Literal["evidence.recorded"] = "evidence.recorded"
    action: Text
    version: Count
    kind: EvidenceKind
    source_id: Text
    meaning: Meaning
    attempts_upto: Count
    lookup: Count | None = None
    reference: Text | None = None
    money: Money | None = None
    code: Text | None = None
    raw_sha256: Text | None = None


class ActionCompleted(Wire):
    """The effect is proven."""

    type: Literal["action.completed"] = "action.completed"
    action: Text
    version: Count
    proof: Literal["report", "webhook", "lookup"]
    reference: Text


class ActionFailed(Wire):
    """Every started attempt definitely had no effect, and none will follow."""

    type: Literal["action.failed"] = "action.failed"
    action: Text
    version: Count
    code: Text


class ActionCancelled(Wire):
    """The caller took the action back before anything began."""

    type: Literal["action.cancelled"] = "action.cancelled"
    action: Text
    version: Count
    principal: Text
    reason: Text | None = None


class ActionExpired(Wire):
    """The intent's own deadline passed before any start."""

    type: Literal["action.expired"] = "action.expired"
    action: Text
    version: Count


class ReviewOpened(Wire):
    """A person is needed. Of a final action it is an alarm and leaves the status as it is."""

    type: Literal["review.opened"] = "review.opened"
    action: Text
    version: Count
    reason: ReviewReason


AnyFact = (
    IntentRecorded
    | PolicyDecided
    | AttemptStarted
    | AttemptDeclined
    | AttemptSucceeded
    | AttemptRefused
    | AttemptNotSent
    | AttemptUnresolved
    | AttemptAbsent
    | TimerSet
    | LookupStarted
    | EvidenceRecorded
    | ActionCompleted
    | ActionFailed
    | ActionCancelled
    | ActionExpired
    | ReviewOpened
)
Fact = Annotated[AnyFact, Field(discriminator="type")]

FACT_TYPES: tuple[str, ...] = tuple(kind.model_fields["type"].default for kind in AnyFact.__args__)
"""Every wire name of a fact, in the order of an action's life."""
