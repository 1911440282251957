"""Facts: what the ledger decided, in the past tense, about one action. Never edited, folded by
`evolve`.

A fact names its action and that action's next version. Its id is derived, not stored:
`ids.event_id`. Wire names are written out here and never derived from class names. Produced by
`decide` only.
"""

from typing import Annotated, Literal

from pydantic import Field

from ledger.core.facts_of_claims import (
    ActionBlocked,
    GateAnswered,
    GateAsked,
    GateClosed,
    GateClosing,
    GateKept,
)
from ledger.core.facts_of_people import (
    ApprovalEnd,
    ApprovalEnded,
    ApprovalEscalated,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalWithdrawn,
    PreviewFailed,
    PreviewRecorded,
    PreviewStarted,
    ReviewOpened,
    ReviewReason,
    ReviewResolved,
    StartApproval,
)
from ledger.core.inputs import EvidenceKind, Meaning, Retry
from ledger.core.limits import BEHALF_MAX, DENIES_MAX
from ledger.core.money import Money
from ledger.core.policy import Asks, Gates
from ledger.core.request import RecordedRequest
from ledger.core.statement import Signed
from ledger.core.wire import Count, Json, Milliseconds, Text, Wire

__all__ = [
    "FACT_TYPES",
    "ActionBlocked",
    "ActionCancelled",
    "ActionCompleted",
    "ActionDenied",
    "ActionExpired",
    "ActionFailed",
    "ActionSuperseded",
    "AnyFact",
    "ApprovalEnd",
    "ApprovalEnded",
    "ApprovalEscalated",
    "ApprovalGranted",
    "ApprovalRequested",
    "ApprovalWithdrawn",
    "AttemptAbsent",
    "AttemptDeclined",
    "AttemptNotSent",
    "AttemptRefused",
    "AttemptStarted",
    "AttemptSucceeded",
    "AttemptUnresolved",
    "EvidenceRecorded",
    "Fact",
    "GateAnswered",
    "GateAsked",
    "GateClosed",
    "GateClosing",
    "GateKept",
    "IntentRecorded",
    "LookupStarted",
    "PolicyDecided",
    "PreviewFailed",
    "PreviewRecorded",
    "PreviewStarted",
    "ReviewOpened",
    "ReviewReason",
    "ReviewResolved",
    "SagaPlace",
    "StartApproval",
    "TimerSet",
]


class SagaPlace(Wire):
    """Which step of a saga an action is, from 1; or the planned compensation of that step. `reads`
    where the step has no effect on the world, so that there is nothing to undo.
    """

    saga: Text
    step: Count
    steps: Count
    role: Literal["step", "compensation"] = "step"
    reads: bool | None = None


class IntentRecorded(Wire):
    """The intent is durable, with what of its operation holds for the life of the action.

    `performer` is set where no executor but the caller itself carries it out. `caller_deadline_at`
    is the end that the caller gave: nothing, and nobody, may take longer. `run`: of which run of an
    agent it is a step. `occurrence`: an intended repetition, told from the others by this.
    `batch`: what it is shown together with. `revises` and `compensates` name an earlier action of
    the stream. `saga`: its place in one.
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
    caller_deadline_at: Milliseconds | None = None
    performer: Literal["caller"] | None = None
    behalf: Annotated[tuple[Text, ...], Field(max_length=BEHALF_MAX)] | None = None
    run: Text | None = None
    occurrence: Text | None = None
    batch: Text | None = None
    revises: Text | None = None
    compensates: Text | None = None
    saga: SagaPlace | None = None


class PolicyDecided(Wire):
    """The row of the decision table that applies, and what it asks for. `missing` names the facts
    for want of which it is the strictest row that could apply.

    An action that has not started is decided again under every table that is adopted later.
    `step_deadline_at` is set where a person is asked: their time is not the step's.
    """

    type: Literal["policy.decided"] = "policy.decided"
    action: Text
    version: Count
    policy_hash: Text
    row: Text
    outcome: Literal["automatic", "confirmation", "people", "deny"]
    asks: Asks | None = None
    missing: tuple[Text, ...] | None = None
    step_deadline_at: Milliseconds | None = None
    gates: Gates | None = None


class AttemptStarted(Wire):
    """A holder may act, until `lease_until`. Written ahead: no byte leaves before its holder has
    read this back.

    `offer_sequence` and `offered_at` name the offer it spends (the broker's append time);
    `intent_offset` is the ledger offset of the decision that recorded the intent; `deadline_at`
    ends the call. `original_reference` is the provider's name for the effect that it undoes.
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
    approval: StartApproval | None = None
    original_reference: Text | None = None


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
    """A reliable absence closes the attempt: the provider, asked late enough, does not know it; or
    a person has signed that there is no effect (`source_id` is `person:` and the case).
    """

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
    purpose: Literal["retry", "lookup", "preview"]
    due_at: Milliseconds


class LookupStarted(Wire):
    """The inquirer is to ask the provider, about attempts up to `attempts_upto`; an answer after
    `answer_by` still counts. The first of them that may have been seen began at `first_started_at`,
    the leases of all end by `last_lease_until`; older facts do not say so. `reference` names what
    was told to be moving and may be the effect, where just one thing was.
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
    first_started_at: Milliseconds | None = None
    last_lease_until: Milliseconds | None = None
    reference: Text | None = None


class EvidenceRecorded(Wire):
    """A piece of evidence, kept whatever it leads to. `attempts_upto` is the newest attempt it can
    speak for. What was given back has a `reference` of its own; `reverses` is the one of the
    effect.

    `denies` are the attempts of which it says for sure that they had no effect; `for_good` where
    nothing may be tried again after it.
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
    occurred_at: Milliseconds | None = None
    reverses: Text | None = None
    denies: Annotated[tuple[Count, ...], Field(max_length=DENIES_MAX)] | None = None
    for_good: bool | None = None


Proof = Literal["report", "webhook", "lookup", "settlement", "listing", "person"]
"""What showed that the effect is there."""


class ActionCompleted(Wire):
    """The effect is proven; or a person has signed that it is there."""

    type: Literal["action.completed"] = "action.completed"
    action: Text
    version: Count
    proof: Proof
    reference: Text


class ActionFailed(Wire):
    """Every started attempt definitely had no effect, and none will follow."""

    type: Literal["action.failed"] = "action.failed"
    action: Text
    version: Count
    code: Text


class ActionCancelled(Wire):
    """The caller took the action back before anything began; or a person who settled its case
    did.
    """

    type: Literal["action.cancelled"] = "action.cancelled"
    action: Text
    version: Count
    principal: Text
    reason: Text | None = None


class ActionDenied(Wire):
    """Policy, or a person by their signature, said no: it never starts."""

    type: Literal["action.denied"] = "action.denied"
    action: Text
    version: Count
    by: Literal["policy", "person"]
    person: Text | None = None
    key_id: Text | None = None
    signed: Signed | None = None
    comment: Text | None = None


class ActionExpired(Wire):
    """The intent's own deadline passed before any start."""

    type: Literal["action.expired"] = "action.expired"
    action: Text
    version: Count


class ActionSuperseded(Wire):
    """A revision took its place before it could have had an effect."""

    type: Literal["action.superseded"] = "action.superseded"
    action: Text
    version: Count
    by: Text


AnyFact = (
    IntentRecorded
    | PolicyDecided
    | ActionBlocked
    | GateAsked
    | GateAnswered
    | GateKept
    | GateClosing
    | GateClosed
    | PreviewStarted
    | PreviewFailed
    | PreviewRecorded
    | ApprovalRequested
    | ApprovalEscalated
    | ApprovalGranted
    | ApprovalWithdrawn
    | ApprovalEnded
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
    | ActionDenied
    | ActionCancelled
    | ActionExpired
    | ActionSuperseded
    | ReviewOpened
    | ReviewResolved
)
Fact = Annotated[AnyFact, Field(discriminator="type")]

FACT_TYPES: tuple[str, ...] = tuple(kind.model_fields["type"].default for kind in AnyFact.__args__)
"""Every wire name of a fact, in the order of an action's life."""
