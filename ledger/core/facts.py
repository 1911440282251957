"""Facts: what the ledger decided, in the past tense, about one action. Never edited, folded by
`evolve`.

A fact names its action and that action's next version. Its id is derived, not stored:
`ids.event_id`. Wire names are written out here and never derived from class names. Produced by
`decide` only.
"""

from typing import Annotated, Literal

from pydantic import Field

from ledger.core.gates import Amounts, Identity, Reaching, RefusalReason
from ledger.core.inputs import EvidenceKind, Meaning, Retry
from ledger.core.limits import BEHALF_MAX, QUORUM_MAX
from ledger.core.money import Money
from ledger.core.policy import Asks, Gates
from ledger.core.preview import Change, Observed, Preview
from ledger.core.request import RecordedRequest
from ledger.core.statement import Comment, Move, Signed
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
    "preview_failed",
    "ceiling_reached",
    "suspected_duplicate",
    "gate_full",
    "compensation_failed",
]

ApprovalEnd = Literal["expired", "volatile_changed", "policy_changed", "signer_revoked"]
"""Why what a person was asked, or has granted, counts no more."""


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


class ActionBlocked(Wire):
    """The action waits for another one of its stream (`by`), until `wait_until` if that is set: for
    the end of the one that it revises or compensates while that may still have its effect, for the
    step before it, or for a saga to need it at all.
    """

    type: Literal["action.blocked"] = "action.blocked"
    action: Text
    version: Count
    reason: Literal["revised_open", "original_open", "saga_order", "planned"]
    by: Text
    wait_until: Milliseconds | None = None


class GateAsked(Wire):
    """The action asks a gate for what it needs, and waits; once more with every one of `sends`,
    under the same `round`. `over`: what a person has signed that it may pass. `forced`: its effect
    is there already.
    """

    type: Literal["gate.asked"] = "gate.asked"
    action: Text
    version: Count
    gate: Text
    round: Count
    sends: Count
    demand: Amounts
    ceilings: tuple[Text, ...] = ()
    identity: Identity | None = None
    over: tuple[Text, ...] | None = None
    forced: bool | None = None
    wait_until: Milliseconds | None = None


class GateAnswered(Wire):
    """What a gate said: granted under a number; queued behind another action; or refused, and why.

    With the last grant the action may go ahead: then `step_deadline_at` is the end of its step.
    """

    type: Literal["gate.answered"] = "gate.answered"
    action: Text
    version: Count
    gate: Text
    round: Count
    outcome: Literal["granted", "queued", "refused"]
    grant: Count | None = None
    behind: Text | None = None
    reason: RefusalReason | None = None
    reached: Reaching | None = None
    like: Text | None = None
    step_deadline_at: Milliseconds | None = None


class GateKept(Wire):
    """The action has told the gate that it has the grant; from now on it is for the action to say
    when it gives it back, until the gate has heard it.
    """

    type: Literal["gate.kept"] = "gate.kept"
    action: Text
    version: Count
    gate: Text
    round: Count
    grant: Count


class GateClosing(Wire):
    """The action gives back what it holds of a gate, or leaves its queue; `spent` where its effect
    is there. What the gate was told is kept is given back with every one of `sends` until it has
    answered; for anything else the gate asks by itself. Where nothing else blocks the action
    `step_deadline_at` is the end of its step.
    """

    type: Literal["gate.closing"] = "gate.closing"
    action: Text
    version: Count
    gate: Text
    round: Count
    sends: Count
    grant: Count | None = None
    spent: bool
    step_deadline_at: Milliseconds | None = None


class GateClosed(Wire):
    """The gate has taken back what the action held."""

    type: Literal["gate.closed"] = "gate.closed"
    action: Text
    version: Count
    gate: Text
    round: Count


class PreviewStarted(Wire):
    """The provider is to say what would happen, until `answer_by`. It is asked, and told nothing
    that could cause anything. `original_reference` is its name for the effect that would be undone.
    """

    type: Literal["preview.started"] = "preview.started"
    action: Text
    version: Count
    preview: Count
    provider: Text
    account: Text
    intent_offset: Count
    answer_by: Milliseconds
    original_reference: Text | None = None


class PreviewFailed(Wire):
    """The provider did not say what would happen; it is asked again, and not for ever."""

    type: Literal["preview.failed"] = "preview.failed"
    action: Text
    version: Count
    preview: Count
    code: Text


class PreviewRecorded(Wire):
    """The dry run, as a person will see it. `preview_hash` is what they sign."""

    type: Literal["preview.recorded"] = "preview.recorded"
    action: Text
    version: Count
    preview: Count
    content: Preview
    preview_hash: Text


class ApprovalRequested(Wire):
    """People are asked, once more with every `round`. A decision has to name this `nonce`, in time.

    `groups` may decide (none named: anybody who may for the tenant), `quorum` of them must.
    """

    type: Literal["approval.requested"] = "approval.requested"
    action: Text
    version: Count
    round: Count
    nonce: Text
    expires_at: Milliseconds
    policy_hash: Text
    row: Text
    preview_hash: Text
    quorum: Count
    groups: tuple[Text, ...] = ()
    escalate_at: Milliseconds | None = None
    escalate_to: tuple[Text, ...] = ()


class ApprovalEscalated(Wire):
    """Nobody decided in time: further groups may."""

    type: Literal["approval.escalated"] = "approval.escalated"
    action: Text
    version: Count
    groups: tuple[Text, ...]


class ApprovalGranted(Wire):
    """A person agreed. `signed` is their statement with its proof, as it was given.

    With enough people the action may go ahead: then `step_deadline_at` is the end of its step.
    """

    type: Literal["approval.granted"] = "approval.granted"
    action: Text
    version: Count
    person: Text
    key_id: Text
    nonce: Text
    expires_at: Milliseconds
    signed: Signed
    comment: Text | None = None
    step_deadline_at: Milliseconds | None = None


class ApprovalWithdrawn(Wire):
    """A person took back what they had granted, before anything began. Every yes of theirs that was
    issued up to `void_until` is void with it: a copy of it cannot bring it back.
    """

    type: Literal["approval.withdrawn"] = "approval.withdrawn"
    action: Text
    version: Count
    person: Text
    signed: Signed
    void_until: Milliseconds


class ApprovalEnded(Wire):
    """The nonce is dead, whatever was granted under it. Expired is never a denial: the action waits
    to be asked about again.
    """

    type: Literal["approval.ended"] = "approval.ended"
    action: Text
    version: Count
    nonce: Text
    reason: ApprovalEnd
    changes: tuple[Change, ...] | None = None


class StartApproval(Wire):
    """What a start rests on where people had to agree: everything an executor needs to check it
    again. `preview` is what they were shown; None where an earlier attempt may have had its effect:
    then the same request is only asked about again, and nothing of it has to hold any more.
    """

    nonce: Text
    policy_hash: Text
    row: Text
    preview_hash: Text
    quorum: Count
    groups: tuple[Text, ...] = ()
    expires_at: Milliseconds
    preview: Preview | None = None
    signed: Annotated[tuple[Signed, ...], Field(max_length=QUORUM_MAX)]

    @property
    def observed(self) -> Observed | None:
        """The volatile facts that must still hold; None where nothing is read again."""
        foreseen = None if self.preview is None else self.preview.foreseen
        return foreseen.observed or None if foreseen is not None else None


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
    """The effect is proven; or a person has signed that it is there."""

    type: Literal["action.completed"] = "action.completed"
    action: Text
    version: Count
    proof: Literal["report", "webhook", "lookup", "person"]
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


class ReviewOpened(Wire):
    """A person is needed. Of a final action it is an alarm and leaves the status as it is.

    `names` is what the case is about where that is not the action itself: the ceiling that was
    reached, the action that it looks like.
    """

    type: Literal["review.opened"] = "review.opened"
    action: Text
    version: Count
    reason: ReviewReason
    names: Text | None = None


class ReviewResolved(Wire):
    """A person settled the case that the fact of version `case` opened, by their signature. What
    follows from the move are facts of their own.

    `step_deadline_at` and `people_until` are set where it is tried again: the end of the new step,
    and of waiting for people. `accepts` names the ceiling, or the action, that they let it pass.
    """

    type: Literal["review.resolved"] = "review.resolved"
    action: Text
    version: Count
    move: Literal[
        Move.EFFECT_EXISTS,
        Move.NO_EFFECT,
        Move.TRY_AGAIN,
        Move.LOOK_AGAIN,
        Move.ACKNOWLEDGE,
        Move.ALLOW,
    ]
    case: Count
    person: Text
    key_id: Text
    signed: Signed
    reference: Text | None = None
    accepts: Text | None = None
    comment: Comment
    step_deadline_at: Milliseconds | None = None
    people_until: Milliseconds | None = None


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
