"""What arrives on the inbox topics: proposals, cancellations, reports of attempts, evidence, ticks,
configuration.

An input may be refused; it is never edited. Every input gets exactly one decision. Written by the
doors, executors, reconciler and the processors themselves; read by `decide` only.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from ledger.core.gates import Amounts, Identity, Reaching, RefusalReason
from ledger.core.ids import check_component, stream_key_of
from ledger.core.limits import BEHALF_MAX, CEILINGS_MAX, OBSERVED_MAX, SAGA_STEPS_MAX
from ledger.core.money import Money
from ledger.core.preview import Change, Foreseen
from ledger.core.rejections import Rejection
from ledger.core.request import Request
from ledger.core.statement import Signable, Signed, SignedByKey, SignedByPasskey
from ledger.core.wire import Count, Json, Milliseconds, Text, Wire


def _component(text: str) -> str:
    return check_component(text, "it")


Component = Annotated[str, AfterValidator(_component)]
"""A name that can stand in a key."""


class Retry(StrEnum):
    """Whether a definite "no effect" may be followed by another try."""

    NEVER = "never"
    LATER = "later"


class CallerOffer(Wire):
    """The caller performs the action itself, where the ledger starts it within `valid_ms` of the
    append.

    `nonce` was drawn for this one call; the start names it, and nobody else may act.
    """

    nonce: Text
    valid_ms: Milliseconds


class Propose(Wire):
    """An agent wants one effect on the world. `key` and the canonical form of `request` are its
    identity.

    `request_hash`, when given, must be the hash of `request`. `step_ms` shortens the operation's
    own deadline for the whole step. `caller` is an offer for this one action; the same proposal
    again with another one offers again. `behalf` names for whom the principal acts: none of them
    may decide about it. `run`: of which run of the agent it is a step. `occurrence` tells an
    intended repetition from a duplicate. `batch`: what it is shown together with. `revises` and
    `compensates` name an earlier action of the same business event.
    """

    key: Text
    request: Request
    request_hash: Text | None = None
    step_ms: Milliseconds | None = None
    revises: Text | None = None
    compensates: Text | None = None
    run: Component | None = None
    occurrence: Component | None = None
    batch: Component | None = None
    caller: CallerOffer | None = None
    behalf: Annotated[tuple[Text, ...], Field(max_length=BEHALF_MAX)] | None = None


class Cancel(Wire):
    """The caller no longer wants an action that has not begun."""

    key: Text
    principal: Text
    reason: Text | None = None


class Planned(Wire):
    """One action of a saga, as `Propose` would ask for it."""

    key: Text
    request: Request
    request_hash: Text | None = None
    occurrence: Component | None = None


class PlannedStep(Planned):
    """One step of a saga, and what undoes it; None where nothing can, or nothing has to.
    `compensates` names an earlier action that the step itself undoes.
    """

    compensation: Planned | None = None
    compensates: Text | None = None


class OpenSaga(Wire):
    """A principal wants several actions of one business event, one after the other, whole or not at
    all: where one comes to nothing, the effects before it are undone in reverse.

    `saga` names it within its `stream`, and together they are its identity. `step_ms` bounds every
    step from now on; nothing bounds what undoes them.
    """

    stream: Text
    saga: Component
    principal: Text
    steps: Annotated[tuple[PlannedStep, ...], Field(min_length=1, max_length=SAGA_STEPS_MAX)]
    run: Component | None = None
    step_ms: Milliseconds | None = None
    behalf: Annotated[tuple[Text, ...], Field(max_length=BEHALF_MAX)] | None = None


class CancelSaga(Wire):
    """The caller no longer wants a saga: what has not begun never begins, and what had its effect
    is undone.
    """

    stream: Text
    saga: Component
    principal: Text
    reason: Text | None = None


class AskAgain(Wire):
    """Somebody is to be asked once more, after the last request for approval came to nothing."""

    key: Text
    principal: Text


class Judge(Wire):
    """What a person signed about one action: a decision, or what settles its case. Who they are
    follows from the signature.
    """

    key: Text
    signed: Signed


@dataclass(frozen=True, slots=True)
class Judged:
    """What a person signed once its signature was looked at: the statement or resolution, and by
    which key it was signed; or why it counts for nothing. `appended_at` is when it was durable: its
    timeliness.
    """

    key: str
    signed: SignedByKey | SignedByPasskey
    appended_at: int
    ledger: str
    statement: Signable | None = None
    key_id: str = ""
    refusal: Rejection | None = None


class PreviewRead(Wire):
    """What the provider said of a preview that the ledger asked for, or why it said nothing."""

    key: Text
    preview: Count
    provider: Text
    account: Text
    foreseen: Foreseen | None = None
    code: Text | None = None


class Success(Wire):
    """The provider answered that the effect exists, under `reference`."""

    kind: Literal["succeeded"] = "succeeded"
    reference: Text
    result: dict[str, Json] = Field(default_factory=dict)


class PartialSuccess(Wire):
    """The provider answered that part of the effect exists, under `reference`, and part does not.

    `result` says of each part what became of it.
    """

    kind: Literal["partial"] = "partial"
    reference: Text
    result: dict[str, Json]


class Refusal(Wire):
    """The provider answered, definitely, that there is no effect."""

    kind: Literal["refused"] = "refused"
    code: Text
    retry: Retry
    retry_after_ms: Milliseconds | None = None


class NotSent(Wire):
    """No byte of the request left: definitely no effect."""

    kind: Literal["not_sent"] = "not_sent"
    code: Text
    retry: Retry


class NoAnswer(Wire):
    """Bytes left and no usable answer came: the effect may or may not exist."""

    kind: Literal["unresolved"] = "unresolved"
    code: Text


PARTLY: Final = "partly_succeeded"
"""The code of an attempt of whose effect only a part exists."""

OTHER_AMOUNT: Final = "answer_with_another_amount"
"""The code of a provider's answer that names another amount than was asked for: no proof of it."""

ReportedOutcome = Annotated[
    Success | PartialSuccess | Refusal | NotSent | NoAnswer, Field(discriminator="kind")
]


class Report(Wire):
    """What became of one attempt, from the holder that the start named."""

    key: Text
    attempt: Count
    fencing_token: Count
    holder: Text
    outcome: ReportedOutcome


class CallerReport(Wire):
    """What became of an attempt that its caller performed itself, by the nonce that the start
    named. It is the caller's word: it can prove an effect, and no effect only where the operation
    says so.
    """

    key: Text
    principal: Text
    attempt: Count
    fencing_token: Count
    nonce: Text
    outcome: ReportedOutcome


class Decline(Wire):
    """The holder will not act on a start: definitely not sent, and not counted as an attempt.

    `changes` says which volatile facts moved since a person agreed.
    """

    key: Text
    attempt: Count
    fencing_token: Count
    holder: Text
    code: Text
    changes: Annotated[tuple[Change, ...], Field(max_length=OBSERVED_MAX)] | None = None


class Meaning(StrEnum):
    """What a piece of evidence says about the effect. Reversed: it was there, and was given back in
    whole or in part.
    """

    EFFECT = "effect"
    NO_EFFECT = "no_effect"
    REVERSED = "reversed"
    PENDING = "pending"
    ABSENT = "absent"
    INCONCLUSIVE = "inconclusive"


class EvidenceKind(StrEnum):
    """Where a piece of evidence comes from."""

    REPORT = "report"
    LOOKUP = "lookup"
    WEBHOOK = "webhook"
    SETTLEMENT = "settlement"
    LISTING = "listing"


class Evidence(Wire):
    """What a lookup, a webhook, a line of a settlement file or of a provider's list says about an
    action.

    `source_id` names the source once and for ever, so that evidence counts once. `lookup` is the
    number of the lookup it answers. `occurred_at` is when it happened, by the provider's word. What
    was given back has a `reference` of its own; `reverses` is the one of the effect.
    """

    key: Text
    kind: Literal[
        EvidenceKind.LOOKUP,
        EvidenceKind.WEBHOOK,
        EvidenceKind.SETTLEMENT,
        EvidenceKind.LISTING,
    ]
    source_id: Text
    provider: Text
    account: Text
    meaning: Meaning
    lookup: Count | None = None
    reference: Text | None = None
    money: Money | None = None
    code: Text | None = None
    raw_sha256: Text | None = None
    occurred_at: Milliseconds | None = None
    reverses: Text | None = None


class ReportStep(Wire):
    """What one step of an agent's run took, in the agent's own words. `step` only grows for one
    `reporter`; the same again counts once. Whoever reports first under a name has it for the run.
    `gate` is the stream key of the run.
    """

    gate: Text
    principal: Text
    reporter: Component = "agent"
    step: Annotated[int, Field(ge=1)]
    amounts: Amounts = Field(default_factory=dict)


class GateAsk(Wire):
    """An action asks a gate for what it needs. `round` is the version at which it first asked."""

    gate: Text
    action: Text
    round: Count
    demand: Amounts
    ceilings: Annotated[tuple[Text, ...], Field(max_length=CEILINGS_MAX)] = ()
    identity: Identity | None = None
    over: tuple[Text, ...] | None = None
    forced: bool | None = None
    generation: Text = ""


class GateAnswer(Wire):
    """What a gate says to the action that asked."""

    key: Text
    gate: Text
    round: Count
    outcome: Literal["granted", "queued", "refused"]
    grant: Count | None = None
    behind: Text | None = None
    reason: RefusalReason | None = None
    reached: Reaching | None = None
    like: Text | None = None
    generation: Text = ""


class GateKeep(Wire):
    """The action has the grant: it need not be sent again."""

    gate: Text
    action: Text
    round: Count
    grant: Count
    generation: Text = ""


class GateClose(Wire):
    """The action gives a grant back, spent or not; or leaves the queue, where it has none."""

    gate: Text
    action: Text
    round: Count
    grant: Count | None = None
    spent: bool = False
    generation: Text = ""


class GateTaken(Wire):
    """The gate has taken back what the action held of it."""

    key: Text
    gate: Text
    round: Count
    generation: Text = ""


Message = GateAsk | GateAnswer | GateKeep | GateClose | GateTaken
"""What actions and gates say to each other, on `internal`."""


def stream_of_message(message: Message) -> str:
    """The stream that a message is for; raises MalformedId."""
    if isinstance(message, GateAnswer | GateTaken):
        return stream_key_of(message.key)
    return message.gate


class Tick(Wire):
    """Time has come for something in one stream; written by the owner of the partition, answered by
    the owner of the partition.
    """

    stream: Text
    generation: Text
    due_at: Milliseconds


class Publish(Wire):
    """An operator publishes a new version of a kind of configuration; each owner adopts it into its
    partition.

    `checked`: whoever published it has judged what it means, and no reader judges it again. Readers
    of several versions would not agree about what is in force.
    """

    kind: Literal["catalogue", "hold", "release", "policy", "people"]
    content: Annotated[str, Field(max_length=262_144)]
    content_hash: Text
    checked: Literal[True] | None = None


Input = (
    Propose
    | Cancel
    | OpenSaga
    | CancelSaga
    | AskAgain
    | Judge
    | PreviewRead
    | Report
    | CallerReport
    | Decline
    | Evidence
    | ReportStep
    | Message
    | Tick
)
"""The inputs that concern one stream, as they are on the wire."""

Decidable = (
    Propose
    | Cancel
    | OpenSaga
    | CancelSaga
    | AskAgain
    | Judged
    | PreviewRead
    | Report
    | CallerReport
    | Decline
    | Evidence
    | ReportStep
    | Message
    | Tick
)
"""The inputs as `decide` takes them: a signature has been looked at."""


def stream_of_input(given: "Decidable") -> str:
    """The stream that an input is for; raises MalformedId."""
    match given:
        case Tick() | OpenSaga() | CancelSaga():
            return given.stream
        case ReportStep():
            return given.gate
        case GateAsk() | GateAnswer() | GateKeep() | GateClose() | GateTaken():
            return stream_of_message(given)
        case _:
            return stream_key_of(given.key)


class Offered(Wire):
    """An executor offers capacity on one partition of the ledger, for `valid_ms` from its append.

    Never replayed. `slots` counts starts beyond those this incarnation has read up to ledger
    offset `seen_offset`.
    """

    incarnation: Text
    sequence: Count
    operations: tuple[Text, ...]
    slots: Count
    seen_offset: int
    valid_ms: Milliseconds
