"""What queries answer: frozen, in the product's own words, times in milliseconds of the log.

Made by `queries`, read by the doors, the inquirer and the command line.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ledger.core.holds import Hold
from ledger.core.state import Action
from ledger.log.fold import Begin

Json = dict[str, Any]


class AllTenants(Enum):
    """Said where a query is meant to cross tenants; only operators may be answered so."""

    ALL = "all tenants"


ALL = AllTenants.ALL
TenantScope = str | AllTenants
"""A tenant, or by name all of them: forgetting it is a type error."""
TenantsScope = Collection[str] | AllTenants
"""Some tenants, `*` for whoever may see all of them; or by name all, for operators."""


@dataclass(frozen=True, slots=True)
class ActionRow:
    """How an action stands. `lease_until` and `holder` are set while somebody may act; `held` is
    the hold that keeps it from starting: its scope, by whom, why, since when. While it is blocked,
    `blocked_by` is the action that it waits for, or the gate that has yet to answer
    (`blocked_reason` is then `unanswered`), since its own fact `blocked_version`. `case_version` is
    the fact that opened the case that waits for a person, if one does. `performer` is `caller`
    where whoever asked for the action carries it out, and it may still begin.
    """

    tenant_id: str
    action_key: str
    operation: str
    stream_key: str
    status: str
    version: int
    request_hash: str
    target: str | None
    amount_minor: int | None
    currency: str | None
    principal: str
    environment: str
    provider: str
    account: str
    reliability: str
    attempts: int
    holder: str | None
    lease_until: int | None
    next_due_at: int | None
    step_deadline_at: int
    provider_reference: str | None
    result: Json | None
    proof: str | None
    code: str | None
    review: str | None
    ledger_partition: int
    ledger_offset: int
    created_at: int
    updated_at: int
    held: Json | None = None
    approval: Json | None = None
    denied: Json | None = None
    run: str | None = None
    occurrence: str | None = None
    batch: str | None = None
    revises: str | None = None
    compensates: str | None = None
    saga: str | None = None
    saga_step: int | None = None
    saga_steps: int | None = None
    saga_role: str | None = None
    blocked_reason: str | None = None
    blocked_by: str | None = None
    blocked_version: int | None = None
    case_version: int | None = None
    review_names: str | None = None
    performer: str | None = None


@dataclass(frozen=True, slots=True)
class GateRow:
    """How a gate stands: what it has `used` for good and holds `reserved`, in whole numbers by
    dimension; how many reservations are granted, and how many actions wait. `holder` is the action
    that has a target. A `name` that a key cannot hold is given as its hash.
    """

    tenant_id: str
    gate_key: str
    kind: str
    name: str
    version: int
    used: Mapping[str, int]
    reserved: Mapping[str, int]
    granted: int
    queued: int
    holder: str | None
    opened_at: int
    updated_at: int
    partition: int
    ledger_offset: int

    def taken(self, dimension: str) -> int:
        """What is used or reserved of a dimension: what counts against a ceiling."""
        return self.used.get(dimension, 0) + self.reserved.get(dimension, 0)


@dataclass(frozen=True, slots=True)
class ReservationRow:
    """What a gate holds for an action, or that the action waits in its queue: then without a grant.
    `over` names what a person lets it pass; `forced`: its effect was there already.
    """

    gate_key: str
    version: int
    action_key: str
    round: int
    status: str
    grant_number: int | None
    demand: Mapping[str, int]
    over: tuple[str, ...]
    forced: bool
    asked_at: int
    granted_at: int | None


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """An action that people are asked about: what it is, what they were shown and asked last, and
    how far they are. `ended` says why that request is dead; `nonce` is None before anybody was
    asked, while the provider is to say what it foresees.
    """

    tenant_id: str
    action_key: str
    operation: str
    target: str | None
    amount_minor: int | None
    currency: str | None
    principal: str
    environment: str
    provider: str
    account: str
    version: int
    policy_row: str | None
    policy_hash: str | None
    round: int | None
    nonce: str | None
    requested_at: int | None
    expires_at: int | None
    quorum: int | None
    groups: tuple[str, ...]
    granted: int
    granted_by: tuple[str, ...]
    ended: str | None
    preview: Json | None
    preview_hash: str | None
    step_deadline_at: int
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class SignedRow:
    """What a person signed about an action, and in which round of asking."""

    version: int
    round: int
    decision: str
    person: str
    key_id: str | None
    comment: str | None
    decided_at: int


@dataclass(frozen=True, slots=True)
class CauseRow:
    """The input that a decision answers; `copied` says what an input was that lives no longer."""

    topic: str
    partition: int
    offset: int
    copied: str | None = None


@dataclass(frozen=True, slots=True)
class EventRow:
    """One fact in the life of an action."""

    version: int
    type: str
    decided_at: int
    data: Json
    event_id: str
    partition: int
    ledger_offset: int
    ordinal: int
    cause: CauseRow


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One try at a provider."""

    number: int
    status: str
    code: str | None
    provider: str
    account: str
    provider_key: str
    holder: str
    fencing_token: int
    started_at: int
    lease_until: int
    ended_at: int | None


@dataclass(frozen=True, slots=True)
class Became:
    """What an input became: one line a fact, or one for the whole answer.

    `outcome` is facts, refused, unchanged, quarantined or adopted; `reason` the type of the fact,
    the code of the refusal or why nothing changed.
    """

    partition: int
    ledger_offset: int
    ordinal: int
    decided_at: int
    outcome: str
    reason: str
    action_key: str | None
    details: Json
    cause: CauseRow


@dataclass(frozen=True, slots=True)
class PieceRow:
    """One piece of evidence in short: `kind` and `meaning` are the ledger's words."""

    kind: str
    meaning: str
    recorded_at: int
    reference: str | None = None
    code: str | None = None


@dataclass(frozen=True, slots=True)
class UnknownAge:
    """How many actions are uncertain at a provider for less than an age: one of `1m`, `10m`, `1h`,
    `6h`, `1d`, and `older`; each is counted once.
    """

    provider: str
    below: str
    actions: int


@dataclass(frozen=True, slots=True)
class UnknownRow:
    """An action whose effect may have happened: since when, what is known, and what happens next
    and when. `next_step` is what it does at `next_due_at` (`lookup`, `retry`), or `asked` while the
    provider has been asked and has until then to answer. From `key_used_at` to `key_until` its key
    may be used; None where there is no such end. `evidence` is the newest of `evidence_count`, the
    oldest of them first.
    """

    tenant_id: str
    action_key: str
    target: str | None
    amount_minor: int | None
    currency: str | None
    provider: str
    account: str
    attempts: int
    unknown_since: int | None
    next_due_at: int | None
    updated_at: int
    next_step: str | None = None
    key_used_at: int | None = None
    key_until: int | None = None
    evidence_count: int = 0
    evidence: tuple[PieceRow, ...] = ()


@dataclass(frozen=True, slots=True)
class ReviewRow:
    """A case that waits for a person; an alarm is about an action that is final and stays so.
    `names` is the ceiling that was reached, or the action that it looks like.
    """

    tenant_id: str
    action_key: str
    version: int
    kind: str
    reason: str
    status: str
    operation: str
    target: str | None
    amount_minor: int | None
    currency: str | None
    principal: str
    environment: str
    provider: str
    account: str
    opened_at: int
    partition: int
    ledger_offset: int
    names: str | None = None


@dataclass(frozen=True, slots=True)
class ResolutionRow:
    """How a person settled a case: what they said, as whom, and why. `case_version` is the fact
    that had opened it.
    """

    version: int
    case_version: int
    move: str
    person: str
    key_id: str
    reference: str | None
    comment: str
    resolved_at: int


@dataclass(frozen=True, slots=True)
class CaseRow:
    """An action as everything that was recorded of it makes it, with all of it, in order.
    `is_whole` is False where it has more facts than are read.
    """

    action: Action
    events: tuple[EventRow, ...]
    is_whole: bool


@dataclass(frozen=True, slots=True)
class OffsetRow:
    """How far a partition is projected: everything below `next_offset` is in the tables.

    `positions` gives by inbox the offset of the next input that the ledger answers; `holds` are
    those in force.
    """

    partition: int
    next_offset: int
    epoch: int
    decided_at: int
    void_count: int
    generation: str | None
    cluster: str | None
    adopted_hash: str | None
    positions: Json
    holds: tuple[Hold, ...]

    @property
    def begin(self) -> Begin:
        """Where a reader that knows what is projected may begin."""
        return Begin(self.next_offset, self.epoch, self.holds)


@dataclass(frozen=True, slots=True)
class DueStream:
    """A stream that time moves at `due_at`, before the allowance for clocks."""

    stream_key: str
    due_at: int
