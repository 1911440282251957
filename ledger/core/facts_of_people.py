"""Facts about what people are shown and asked, what they say, and what needs them.

A part of `facts`, which everybody reads them from.
"""

from typing import Annotated, Literal

from pydantic import Field

from ledger.core.limits import QUORUM_MAX
from ledger.core.preview import Change, Observed, Preview
from ledger.core.statement import Comment, Move, Signed
from ledger.core.wire import Count, Milliseconds, Text, Wire

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
    "reversed_elsewhere",
    "returned_too_much",
    "returned_already",
    "original_amount_differs",
]

ApprovalEnd = Literal["expired", "volatile_changed", "policy_changed", "signer_revoked"]
"""Why what a person was asked, or has granted, counts no more."""


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
    again. `preview` is what they were shown. Where an earlier attempt may have had its effect the
    same request is only asked about again, and nothing of it has to hold any more: then it is None;
    of what undoes another effect it says which, and `is_open` is set.
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
    is_open: bool | None = None

    @property
    def observed(self) -> Observed | None:
        """The volatile facts that must still hold; None where people saw none."""
        foreseen = None if self.preview is None or self.is_open else self.preview.foreseen
        return foreseen.observed or None if foreseen is not None else None

    @property
    def is_of_what_holds(self) -> bool:
        """Whether what people saw still has to hold: no attempt may have moved it."""
        return self.preview is not None and not self.is_open


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
