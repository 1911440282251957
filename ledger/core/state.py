"""What is known of one business event: its actions, each with its attempts and what became of every
one.

State is derived from facts by `evolve` and from nothing else. `is_open` is the question that
decides what may follow: some started attempt has neither a definite outcome nor a reliable absence.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import JsonValue

from ledger.core.gates import Claim, ClaimStatus, Gate
from ledger.core.policy import Asks, Gates
from ledger.core.preview import Preview
from ledger.core.request import RecordedRequest
from ledger.core.statement import Move, Signed


class Status(StrEnum):
    """Where an action stands. The last six are final."""

    PROPOSED = "proposed"
    AWAITING_APPROVAL = "awaiting_approval"
    BLOCKED = "blocked"
    READY = "ready"
    ATTEMPTING = "attempting"
    UNKNOWN = "unknown"
    NEEDS_REVIEW = "needs_review"
    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"
    SUPERSEDED = "superseded"


FINAL: frozenset[Status] = frozenset(
    {
        Status.COMPLETED,
        Status.FAILED,
        Status.DENIED,
        Status.EXPIRED,
        Status.CANCELLED,
        Status.SUPERSEDED,
    }
)


class AttemptStatus(StrEnum):
    """What became of one attempt. The first two leave it open."""

    RUNNING = "running"
    UNRESOLVED = "unresolved"
    SUCCEEDED = "succeeded"
    REFUSED = "refused"
    NOT_SENT = "not_sent"
    DECLINED = "declined"
    ABSENT = "absent"
    SETTLED = "settled"


OPEN: frozenset[AttemptStatus] = frozenset({AttemptStatus.RUNNING, AttemptStatus.UNRESOLVED})

# Under names of this module: to ask an enumeration for its member takes five times as long, and the
# properties below are asked for in every decision.
_RUNNING, _SUCCEEDED = AttemptStatus.RUNNING, AttemptStatus.SUCCEEDED
_DECLINED = AttemptStatus.DECLINED
_AWAITED = frozenset({ClaimStatus.ASKED, ClaimStatus.QUEUED})

DEFINITELY_WITHOUT: frozenset[AttemptStatus] = frozenset(
    {AttemptStatus.REFUSED, AttemptStatus.NOT_SENT, AttemptStatus.ABSENT}
)
"""Outcomes that say that the attempt had no effect."""

LEADING: tuple[str, ...] = (
    "second_effect",
    "returned_too_much",
    "evidence_conflicts",
    "amount_differs",
    "effect_without_attempt",
    "reversed_elsewhere",
    "partly_succeeded",
)
"""Reasons that evidence gives for a case, the one that weighs most first: a case with several is
shown under the same one in whatever order they came.
"""

EFFECT_IS_TOLD: frozenset[str] = frozenset(LEADING) - {"partly_succeeded"}
"""Cases that were opened by an effect, by two pieces that disagree about one, or by one that was
given back.
"""

OF_REVERSALS: frozenset[str] = frozenset({"reversed_elsewhere", "returned_too_much"})
"""Cases that tell a person of everything that was given back so far."""

NOBODY_ANSWERS = "lookups_exhausted"
"""The case with which the ledger stops waiting for the provider's answer."""

Reliability = Literal["keyed", "reference", "lookup", "none"]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at the provider. Its last byte can leave no later than `lease_until` plus the skew
    bound.
    """

    number: int
    fencing_token: int
    holder: str
    provider_key: str
    started_at: int
    lease_until: int
    status: AttemptStatus = AttemptStatus.RUNNING
    code: str | None = None
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Timer:
    """What the action will do by itself when `due_at` comes."""

    purpose: Literal["retry", "lookup", "preview"]
    due_at: int


@dataclass(frozen=True, slots=True)
class Lookup:
    """A question put to the provider and not answered yet; `asked_at` bounds what its absence can
    prove.
    """

    number: int
    attempts_upto: int
    asked_at: int
    answer_by: int


@dataclass(frozen=True, slots=True)
class Dry:
    """The dry run of an action: asked for until `answer_by`, failed under `code`, or there.
    `failed` counts those in a row that came to nothing.
    """

    number: int
    failed: int = 0
    answer_by: int | None = None
    code: str | None = None
    content: Preview | None = None
    content_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """One person's yes, with its proof."""

    person: str
    key_id: str
    granted_at: int
    expires_at: int
    signed: Signed


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """One person's yes taken back: what they issued up to `void_until` counts no more."""

    person: str
    void_until: int


@dataclass(frozen=True, slots=True)
class Approval:
    """What people were asked last, and what they said. `ended` says why its nonce is dead."""

    round: int
    nonce: str
    requested_at: int
    expires_at: int
    policy_hash: str
    row: str
    preview_hash: str
    quorum: int
    groups: tuple[str, ...] = ()
    escalate_at: int | None = None
    escalate_to: tuple[str, ...] = ()
    grants: tuple[Grant, ...] = ()
    withdrawals: tuple[Withdrawal, ...] = ()
    ended: str | None = None

    @property
    def is_met(self) -> bool:
        """Whether as many people agreed as had to, while it was asked."""
        people = {grant.person for grant in self.grants}
        return self.ended is None and len(people) >= self.quorum

    @property
    def valid_until(self) -> int:
        """When the first thing it rests on is over."""
        return min([self.expires_at, *(grant.expires_at for grant in self.grants)])


@dataclass(frozen=True, slots=True)
class Blocked:
    """For which other action of its stream an action waits, and since which version of it."""

    reason: Literal["revised_open", "original_open", "saga_order", "planned"]
    by: str
    version: int


@dataclass(frozen=True, slots=True)
class SagaRole:
    """Which step of a saga an action is, or the planned compensation of that step; `reads` where a
    step has no effect to undo.
    """

    saga: str
    step: int
    steps: int
    role: Literal["step", "compensation"]
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Reversal:
    """What was given back of an effect, counted once by its `name`: the provider's own, or that of
    the source that told it. `minor` is None where nobody has said how much. `reverses` names the
    effect; of two effects under one name each is kept. `raised` once a person was told.
    `other_currency` where an amount was told that cannot be counted.
    """

    name: str
    minor: int | None = None
    reference: str | None = None
    reverses: str | None = None
    raised: bool = False
    other_currency: bool | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What evidence has told of the effect, whatever followed from it: so the order in which pieces
    come makes no difference.
    """

    effects: tuple[str, ...] = ()
    """Names of effects beside the action's own reference; its key for one without a name."""
    nothing: tuple[str, ...] = ()
    """Names of the provider's objects that came to nothing."""
    done: tuple[int, ...] = ()
    """Attempts whose holder reported an effect, late or in part."""
    denied: tuple[int, ...] = ()
    """Attempts that were told to have had no effect."""
    for_good: str | None = None
    """The code of a "no" after which nothing is tried again."""
    reversals: tuple[Reversal, ...] = ()
    pending: tuple[str, ...] = ()
    """Names of objects that were told to be moving, whatever became of them since."""
    other_amount: bool | None = None
    """Whether an effect of another amount than was asked for was told, or of none where money was
    asked for. What was given back of it has amounts of its own.
    """
    done_again: bool | None = None
    """Whether a person was told of a second effect."""


@dataclass(frozen=True, slots=True)
class Case:
    """Why a person is needed: the fact that opened it (`opened_version`), and the newest one that
    told something about it (`moved_version`). `names` is the ceiling, the action or the amounts it
    is about. `others` are further reasons, which weigh less or are older.
    """

    opened_version: int
    reason: str
    opened_at: int
    moved_version: int
    names: str | None = None
    others: tuple[str, ...] = ()

    @property
    def reasons(self) -> frozenset[str]:
        """Every reason for which it is open."""
        return frozenset((self.reason, *self.others))

    @property
    def tells_effect(self) -> bool:
        """Whether an effect, or a contradiction about one, is among its reasons."""
        return not self.reasons.isdisjoint(EFFECT_IS_TOLD)


@dataclass(frozen=True, slots=True)
class Resolved:
    """The case that was settled last, and by whom, so that the same again is known. `resumes`
    counts how often people let the action go on. No decline counts any more among the attempts
    before it was tried again, and no question before the schedule began anew.
    """

    case: int
    move: Move
    person: str
    resumes: int = 0
    attempts_before: int = 0
    lookups_before: int = 0


def awaits_any(claims: Collection[Claim]) -> bool:
    """Whether a gate has yet to grant what was asked for and nobody forced."""
    return any(one.status in _AWAITED and not one.forced for one in claims) if claims else False


@dataclass(frozen=True, slots=True)
class Action:
    """One intended effect, from proposal to settled outcome. Times are milliseconds of log time."""

    key: str
    version: int
    """How many facts it has."""
    status: Status
    request: RecordedRequest
    request_hash: str
    provider: str
    account: str
    reliability: Reliability
    intent_offset: int
    recorded_at: int
    updated_at: int
    step_deadline_at: int
    """The end of what it does now."""
    people_until: int | None = None
    """How long it waits for people."""
    caller_deadline_at: int | None = None
    policy_row: str | None = None
    policy_hash: str | None = None
    asks: Asks | None = None
    dry: Dry | None = None
    approval: Approval | None = None
    behalf: tuple[str, ...] | None = None
    attempts: tuple[Attempt, ...] = ()
    timer: Timer | None = None
    lookup: Lookup | None = None
    """What the provider was asked, while the action waits for the answer."""
    question: Lookup | None = None
    """What the provider was asked last and has not answered, whether or not the action waits."""
    lookups_asked: int = 0
    lookups_answered: int = 0
    reference: str | None = None
    result: dict[str, JsonValue] | None = None
    proof: str | None = None
    code: str | None = None
    review: str | None = None
    """Why a person was needed last."""
    sources: tuple[str, ...] = ()
    told: Told | None = None
    performer: Literal["caller"] | None = None
    """None where an executor carries it out."""
    case: Case | None = None
    """What waits for a person now."""
    resolved: Resolved | None = None
    """What a person said of the last case."""
    gates: Gates | None = None
    """What its row of the table has it pass."""
    claims: tuple[Claim, ...] = ()
    """What it holds of gates, or asks of them."""
    allowed: tuple[str, ...] = ()
    """The ceilings and actions that a person lets it pass."""
    wait_until: int | None = None
    """How long it waits while it is blocked."""
    blocked: Blocked | None = None
    run: str | None = None
    occurrence: str | None = None
    batch: str | None = None
    revises: str | None = None
    compensates: str | None = None
    saga: SagaRole | None = None
    revised_by: str | None = None
    """The action that revises it: once there is one, it starts no more."""

    @property
    def is_final(self) -> bool:
        """A final status never changes."""
        return self.status in FINAL

    @property
    def is_of_its_own(self) -> bool:
        """Whether it has to do with no gate and no other action."""
        return (
            self.gates is None
            and not self.claims
            and self.revises is None
            and self.revised_by is None
            and self.compensates is None
            and self.saga is None
            and self.blocked is None
        )

    @property
    def is_open(self) -> bool:
        """Some attempt may have had its effect and nothing has settled it."""
        for attempt in self.attempts:  # noqa: SIM110 - asked everywhere, and a generator costs more
            if attempt.status in OPEN:
                return True
        return False

    @property
    def has_effect(self) -> bool:
        """Whether an effect is there, or may be: then it gives nothing back."""
        confirmed = any(one.status is _SUCCEEDED for one in self.attempts)
        return confirmed or self.is_open or self.status is Status.COMPLETED

    @property
    def is_unsettled(self) -> bool:
        """Whether nobody knows yet if there is an effect: an attempt is open, or evidence of one
        waits for a person. Then nothing may follow that counts on either.
        """
        return self.is_open or (self.case is not None and self.case.tells_effect)

    @property
    def awaits_gates(self) -> bool:
        """Whether a gate has yet to grant what it asked for."""
        return awaits_any(self.claims)

    def claim(self, gate: str, round_: int) -> Claim | None:
        """What it asked of a gate in a round, or None."""
        for one in self.claims:
            if one.gate == gate and one.round == round_:
                return one
        return None

    @property
    def running(self) -> Attempt | None:
        """The attempt whose lease lives, if there is one; it is always the newest."""
        if self.attempts and self.attempts[-1].status is _RUNNING:
            return self.attempts[-1]
        return None

    @property
    def counted_attempts(self) -> int:
        """Attempts that count against the maximum: all but those declined."""
        return sum([attempt.status is not _DECLINED for attempt in self.attempts])

    @property
    def declines(self) -> int:
        """Starts that their holders gave back, since a person had it tried again if one did."""
        return sum([one.status is _DECLINED for one in self.attempts_in_turn])

    @property
    def attempts_in_turn(self) -> tuple[Attempt, ...]:
        """Attempts since a person had it tried again; all of them where nobody did."""
        if self.resolved is None:
            return self.attempts
        return self.attempts[self.resolved.attempts_before :]

    @property
    def lookups_in_turn(self) -> int:
        """Questions put to the provider since its schedule began, the last time it did."""
        if self.resolved is None:
            return self.lookups_asked
        return self.lookups_asked - self.resolved.lookups_before

    @property
    def resumes(self) -> int:
        """How often people let it go on after it had come to them."""
        return 0 if self.resolved is None else self.resolved.resumes

    @property
    def has_begun(self) -> bool:
        """Whether some start was acted on, so that what was granted is spent."""
        return self.running is not None or self.counted_attempts > 0

    @property
    def first_started_at(self) -> int | None:
        """When the provider may first have seen the key; declined starts never showed it."""
        for attempt in self.attempts:
            if attempt.status is not _DECLINED:
                return attempt.started_at
        return None


@dataclass(frozen=True, slots=True)
class Stream:
    """All actions of one business event, in the order they were recorded; or one gate."""

    key: str
    actions: tuple[Action, ...] = ()
    gate: Gate | None = None

    def action(self, key: str) -> Action | None:
        """The action under a key, or None."""
        for action in self.actions:
            if action.key == key:
                return action
        return None
