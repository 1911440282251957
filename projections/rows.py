"""From state and facts to rows: which table has which columns, and how each value is told.

Pure, and made for speed: plain tuples in the order of the columns, times as the log's milliseconds.
Guarantees that a row follows from the log alone; nothing here knows in what batches it was read.
Called by `fold`, for live projection and for rebuilds alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import to_json

from ledger.core.decide.schedule import due_at
from ledger.core.facts import (
    ActionCompleted,
    ActionDenied,
    AnyFact,
    ApprovalEnded,
    ApprovalGranted,
    ApprovalWithdrawn,
    AttemptSucceeded,
    EvidenceRecorded,
    PreviewRecorded,
    ReviewOpened,
    ReviewResolved,
)
from ledger.core.holds import Hold, Holds
from ledger.core.inputs import Meaning
from ledger.core.invariants import invariant
from ledger.core.records import Cause, Decision
from ledger.core.snapshot import FOLD_VERSION, dump
from ledger.core.state import Action, Attempt, Stream
from ledger.log.fold import PartitionFold
from projections.relations import saga_place, what_blocks

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the projector: its columns in the order of its rows, and what its key is."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


def _table(name: str, columns: str, key: str) -> Table:
    return Table(name, tuple(columns.split()), tuple(key.split()))


OFFSETS: Final = _table(
    "projection_offsets",
    "partition next_offset epoch decided_at positions void_count generation partitions cluster "
    "adopted_kind adopted_hash adopted_offset adopted_content holds policy people",
    "partition",
)
STREAMS: Final = _table(
    "streams",
    "stream_key tenant_id partition next_offset fold_version action_keys state",
    "stream_key",
)
ACTIONS: Final = _table(
    "actions",
    "tenant_id action_id operation operation_version action_key stream_key request_hash target "
    "amount_minor currency principal environment provider account reliability status version "
    "policy_row attempts holder lease_until next_due_at step_deadline_at provider_reference "
    "result proof code review intent_offset epoch ledger_partition ledger_offset created_at "
    "updated_at run occurrence batch revises compensates saga saga_step saga_steps saga_role "
    "saga_reads blocked_reason blocked_by blocked_version case_version",
    "tenant_id action_id operation",
)
EVENTS: Final = _table(
    "action_events",
    "partition ledger_offset ordinal tenant_id action_key version type decided_at cause_topic "
    "cause_partition cause_offset data",
    "partition ledger_offset ordinal",
)
DECISIONS: Final = _table(
    "decisions",
    "partition ledger_offset decided_at tenant_id stream_key action_key outcome reason details "
    "cause_topic cause_partition cause_offset cause_copied",
    "partition ledger_offset",
)
ATTEMPTS: Final = _table(
    "attempts",
    "action_key number tenant_id provider account fencing_token holder provider_key status code "
    "started_at lease_until ended_at",
    "action_key number",
)
REFERENCES: Final = _table(
    "provider_references",
    "account reference action_key tenant_id stream_key provider seen_at partition ledger_offset",
    "account reference action_key",
)
REVIEW_CASES: Final = _table(
    "review_cases",
    "action_key version tenant_id kind reason opened_at partition ledger_offset names",
    "action_key version",
)
REVIEW_RESOLUTIONS: Final = _table(
    "review_resolutions",
    "action_key version tenant_id case_version move person key_id reference comment signed "
    "resolved_at partition ledger_offset",
    "action_key version",
)
PREVIEWS: Final = _table(
    "previews",
    "action_key version tenant_id preview_hash content recorded_at partition ledger_offset",
    "action_key version",
)
APPROVALS: Final = _table(
    "approvals",
    "action_key round tenant_id nonce requested_at expires_at policy_hash policy_row preview_hash "
    "quorum groups escalate_at granted ended ended_at partition ledger_offset",
    "action_key round",
)
APPROVAL_DECISIONS: Final = _table(
    "approval_decisions",
    "action_key version tenant_id round nonce decision person key_id comment signed decided_at "
    "partition ledger_offset",
    "action_key version",
)
GATES: Final = _table(
    "gates",
    "gate_key tenant_id kind name version used reserved granted queued holder next_due_at epoch "
    "partition ledger_offset opened_at updated_at",
    "gate_key",
)
GATE_EVENTS: Final = _table(
    "gate_events",
    "partition ledger_offset ordinal tenant_id gate_key version type action_key decided_at "
    "cause_topic cause_partition cause_offset data",
    "partition ledger_offset ordinal",
)
GATE_RESERVATIONS: Final = _table(
    "gate_reservations",
    "gate_key version tenant_id action_key round status grant_number demand over forced spent "
    "asked_at granted_at closed_at partition ledger_offset",
    "gate_key version",
)
PROJECTED: Final = (
    OFFSETS,
    STREAMS,
    ACTIONS,
    EVENTS,
    DECISIONS,
    ATTEMPTS,
    REFERENCES,
    REVIEW_CASES,
    REVIEW_RESOLUTIONS,
    PREVIEWS,
    APPROVALS,
    APPROVAL_DECISIONS,
    GATES,
    GATE_EVENTS,
    GATE_RESERVATIONS,
)
"""Every table that a rebuild makes anew and a checksum covers."""


def offsets_row(fold: PartitionFold, cluster: str | None) -> Row:
    """Where a partition stands, as its row."""
    adopted = fold.adopted
    return (
        fold.partition,
        fold.next_offset,
        fold.epoch,
        fold.decided_at,
        to_json(dict(sorted(fold.positions.items()))).decode(),
        fold.void_count,
        fold.generation,
        fold.partitions,
        cluster,
        adopted and adopted.kind,
        adopted and adopted.content_hash,
        adopted and adopted.offset,
        adopted and adopted.content,
        holds_text(fold.holds),
        fold.policy and fold.policy.model_dump_json(),
        fold.people and fold.people.model_dump_json(),
    )


_HOLDS: Final[TypeAdapter[list[Hold]]] = TypeAdapter(list[Hold])


def holds_text(holds: Holds) -> str:
    """Holds in force, as JSON."""
    return _HOLDS.dump_json(list(holds), exclude_none=True).decode()


def read_holds(text: str) -> Holds:
    """What `holds_text` wrote."""
    return tuple(_HOLDS.validate_json(text))


def stream_row(stream: Stream, partition: int, next_offset: int) -> Row:
    """A stream with the bytes of its state."""
    return (
        stream.key,
        stream.key.partition("/")[0],
        partition,
        next_offset,
        FOLD_VERSION,
        [action.key for action in stream.actions],
        dump(stream),
    )


def action_row(action: Action, stream_key: str, partition: int, offset: int, epoch: int) -> Row:
    """An action as it stands; `offset` and `epoch` are those of its newest fact's decision."""
    # Whatever stands in the log was parsed when it came in.
    operation, version, tenant, action_id = action.key.split(":")
    request, money, running = action.request, action.request.money, action.running
    return (
        tenant,
        action_id,
        operation,
        int(version[1:]),
        action.key,
        stream_key,
        action.request_hash,
        request.target,
        money and money.minor,
        money and money.currency,
        request.principal,
        request.environment,
        action.provider,
        action.account,
        action.reliability,
        action.status,
        action.version,
        action.policy_row,
        len(action.attempts),
        running and running.holder,
        running and running.lease_until,
        # Before the allowance for clocks, which is the owner's to add.
        due_at(action, action.updated_at, skew_ms=0),
        action.step_deadline_at,
        action.reference,
        None if action.result is None else to_json(action.result).decode(),
        action.proof,
        action.code,
        action.review,
        action.intent_offset,
        epoch,
        partition,
        offset,
        action.recorded_at,
        action.updated_at,
        action.run,
        action.occurrence,
        action.batch,
        action.revises,
        action.compensates,
        *saga_place(action),
        *what_blocks(action),
        action.case and action.case.opened_version,
    )


def attempt_row(action: Action, attempt: Attempt, tenant: str) -> Row:
    """One try of an action, as it stands."""
    return (
        action.key,
        attempt.number,
        tenant,
        action.provider,
        action.account,
        attempt.fencing_token,
        attempt.holder,
        attempt.provider_key,
        attempt.status,
        attempt.code,
        attempt.started_at,
        attempt.lease_until,
        attempt.ended_at,
    )


def event_rows(decision: Decision, texts: Sequence[str], tenant: str, partition: int) -> list[Row]:
    """The facts of a decision, each with the text that the log has for it."""
    at, decided_at, cause = decision.at, decision.decided_at, decision.cause
    topic, part, offset = cause.topic, cause.partition, cause.offset
    return [
        (
            partition,
            at,
            ordinal,
            tenant,
            fact.action,
            fact.version,
            fact.type,
            decided_at,
            topic,
            part,
            offset,
            text,
        )
        for ordinal, (fact, text) in enumerate(zip(decision.facts, texts, strict=True))
    ]


def decision_row(decision: Decision, partition: int) -> Row:
    """A decision that led to no fact: what it answered, and to which input."""
    outcome, reason, action_key, details = _answer(decision)
    stream = decision.stream or None
    cause: Cause = decision.cause
    return (
        partition,
        decision.at,
        decision.decided_at,
        stream and stream.partition("/")[0],
        stream,
        action_key,
        outcome,
        reason,
        details,
        cause.topic,
        cause.partition,
        cause.offset,
        cause.copied,
    )


def _answer(decision: Decision) -> tuple[str, str, str | None, str]:
    """Outcome, reason, action and the whole answer as JSON, without a catalogue's text."""
    if (refused := decision.refused) is not None:
        details = refused.model_dump_json(exclude_none=True)
        return "refused", refused.code.value, refused.action, details
    if (unchanged := decision.unchanged) is not None:
        details = unchanged.model_dump_json(exclude_none=True)
        return "unchanged", unchanged.reason, unchanged.action, details
    if (quarantined := decision.quarantined) is not None:
        details = quarantined.model_dump_json(exclude_none=True)
        return "quarantined", quarantined.reason, None, details
    if (adopted := decision.adopted) is not None:
        unsaid = None if adopted.kind in {"hold", "release"} else {"content"}
        details = adopted.model_dump_json(exclude=unsaid)
        return "adopted", adopted.kind, None, details
    return "unchanged", "nothing", None, "{}"


def review_row(decision: Decision, fact: ReviewOpened, after: Action, partition: int) -> Row:
    """A person was asked for: about an action that waits, or, an alarm, about a final one."""
    return (
        fact.action,
        fact.version,
        decision.stream.partition("/")[0],
        "alarm" if after.is_final else "review",
        fact.reason,
        decision.decided_at,
        partition,
        decision.at,
        fact.names,
    )


def resolution_row(decision: Decision, fact: ReviewResolved, partition: int) -> Row:
    """What a person has signed that settled a case."""
    return (
        fact.action,
        fact.version,
        decision.stream.partition("/")[0],
        fact.case,
        fact.move.value,
        fact.person,
        fact.key_id,
        fact.reference,
        fact.comment,
        fact.signed.model_dump_json(),
        decision.decided_at,
        partition,
        decision.at,
    )


_NAMING: Final = (AttemptSucceeded, EvidenceRecorded, ActionCompleted)


def reference_row(decision: Decision, fact: AnyFact, after: Stream, partition: int) -> Row | None:
    """A provider's name for an action that this fact brought to light, or None."""
    if not isinstance(fact, _NAMING):
        return None
    reference = fact.reference
    # Proof without a name of the provider's is completed under the action's own key.
    if reference is None or reference == fact.action:
        return None
    if isinstance(fact, EvidenceRecorded) and fact.meaning is Meaning.REVERSED:
        # What was given back has a name of its own, or that of another action.
        return None
    action = after.action(fact.action)
    invariant(action is not None, "a fact names an action that was never recorded")
    assert action is not None  # noqa: S101 - for the type checker; the line above survives -O
    return (
        action.account,
        reference,
        action.key,
        decision.stream.partition("/")[0],
        decision.stream,
        action.provider,
        decision.decided_at,
        partition,
        decision.at,
    )


def preview_row(decision: Decision, fact: PreviewRecorded, partition: int) -> Row:
    """A dry run that people may be shown."""
    return (
        fact.action,
        fact.version,
        decision.stream.partition("/")[0],
        fact.preview_hash,
        fact.content.model_dump_json(exclude_none=True),
        decision.decided_at,
        partition,
        decision.at,
    )


def approval_row(decision: Decision, fact: AnyFact, after: Action, partition: int) -> Row | None:
    """How a round of asking people stands after a fact of it; None for a denial by the table."""
    asked = after.approval
    if asked is None:
        return None
    match fact:
        case ApprovalEnded(reason=reason):
            ended: str | None = reason
        case ActionDenied(by="person"):
            ended = "denied"
        case ActionDenied():
            return None
        case _:
            ended = None
    return (
        after.key,
        asked.round,
        decision.stream.partition("/")[0],
        asked.nonce,
        asked.requested_at,
        asked.expires_at,
        asked.policy_hash,
        asked.row,
        asked.preview_hash,
        asked.quorum,
        list(asked.groups),
        asked.escalate_at,
        len(asked.grants),
        ended,
        None if ended is None else decision.decided_at,
        partition,
        decision.at,
    )


def approval_decision_row(
    decision: Decision, fact: AnyFact, after: Action, partition: int
) -> Row | None:
    """What a person has signed and what counted, or None for a fact that nobody signed."""
    asked = after.approval
    key_id, comment = None, None
    match fact:
        case ApprovalGranted():
            said, key_id, comment = "approve", fact.key_id, fact.comment
        case ApprovalWithdrawn():
            said = "withdraw"
        case ActionDenied():
            said, key_id, comment = "deny", fact.key_id, fact.comment
        case _:
            return None
    if asked is None or fact.signed is None or fact.person is None:
        return None
    return (
        fact.action,
        fact.version,
        decision.stream.partition("/")[0],
        asked.round,
        asked.nonce,
        said,
        fact.person,
        key_id,
        comment,
        fact.signed.model_dump_json(),
        decision.decided_at,
        partition,
        decision.at,
    )
