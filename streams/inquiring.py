"""The inquirer of one ledger partition, without I/O: which questions to put to providers, and what
needs eyes.

Questions are lookups of what became of an effect, and previews of what one would be. Acts on
accepted facts only, and only after everything that lay in the partition when it began has been
read: a newer question replaces an older one, and an answer or the end of its action takes it away.
Records that concern neither are skipped by their marks, unless their stream holds an action that is
uncertain: then its settlement is told too. The same object runs behind Kafka and behind the
simulated log.

`position` is where another may begin and miss nothing that was not answered and told: it stays
behind the oldest question at work.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ledger.core.facts import (
    ActionCancelled,
    ActionCompleted,
    ActionDenied,
    ActionExpired,
    ActionFailed,
    AnyFact,
    ApprovalEscalated,
    ApprovalRequested,
    AttemptUnresolved,
    EvidenceRecorded,
    IntentRecorded,
    LookupStarted,
    PreviewFailed,
    PreviewRecorded,
    PreviewStarted,
    ReviewOpened,
)
from ledger.core.limits import TEXT_CHARS_MAX
from ledger.core.records import Decision
from ledger.log.attention_record import (
    AttentionKind,
    AttentionRaised,
    Notice,
    PeopleWanted,
    attention_notice,
)
from ledger.log.envelope import MARK_ATTENTION, MARK_EPOCH, MARK_LOOKUP, marks_of
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from streams.assignments import intent_among
from streams.limits import INTENTS_KEPT_MAX, LOOKUPS_WAITING_MAX, UNKNOWN_WATCHED_MAX
from streams.question_queue import QuestionQueue

MayAsk = Callable[[str], bool]
"""Whether an account may be asked now."""


def anywhere(_account: str) -> bool:
    """Any account may be asked."""
    return True


_READ: frozenset[bytes] = frozenset({MARK_EPOCH, MARK_LOOKUP, MARK_ATTENTION})


@dataclass(frozen=True, slots=True)
class Asked:
    """A question to put to a provider, with the place and the time of the decision that asked it.

    `intent` is what a preview is about; None where it has to be read at `started.intent_offset`.
    """

    started: LookupStarted | PreviewStarted
    offset: int
    epoch: int
    decided_at: int
    intent: IntentRecorded | None = None

    @property
    def number(self) -> int:
        """Which lookup, or which preview, of its action."""
        started = self.started
        return started.lookup if isinstance(started, LookupStarted) else started.preview

    @property
    def identity(self) -> tuple[str, str, int]:
        """The kind of question, its action and its number."""
        return self.started.type, self.started.action, self.number


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a ledger partition whose current epoch is known."""

    next_offset: int
    epoch: int


BEGINNING = Position(0, 0)
"""Where the epoch is known without asking anybody: before the genesis record."""


@dataclass(frozen=True, slots=True)
class _Untold:
    """A notice, with the place and the epoch of the decision that it follows from."""

    notice: Notice
    offset: int
    epoch: int


class Inquiring:
    """The questions and notices of one partition.

    First `feed` everything that lay there, then `caught_up` once. From then on `feed` and
    `take_question` come in any order, each question ends with `answered` once its evidence is
    durable or with `put_back`, and `told` says how many notices are durable.
    """

    def __init__(self, partition: int, begin: Position = BEGINNING) -> None:
        self.partition = partition
        self.is_current = False
        self._fold = PartitionFold(partition, epoch=begin.epoch, next_offset=begin.next_offset)
        self._waiting = QuestionQueue()
        """Questions to put, in the order in which tenants are served."""
        self._running: dict[tuple[str, str, int], Asked] = {}
        """Questions that a provider is being asked now, by identity."""
        self._moot: set[tuple[str, str, int]] = set()
        """Those of them whose answer the ledger has already, or does not need any more."""
        self._untold: deque[_Untold] = deque()
        """Notices that are not durable yet, oldest first."""
        self._unknown: OrderedDict[str, str] = OrderedDict()
        """Actions whose outcome is unknown, with their streams, the longest known first."""
        self._watched: dict[bytes, int] = {}
        """How many of these each stream holds: records of such streams are not skipped."""

    def watch(self, unknown: Iterable[tuple[str, str]]) -> None:
        """Actions that were uncertain before the partition is read, each with its stream."""
        for action, stream in unknown:
            self._now_unknown(action, stream)

    @property
    def next_offset(self) -> int:
        """The next ledger offset to read."""
        return self._fold.next_offset

    @property
    def generation(self) -> str | None:
        """The generation of the log, once its genesis record has been read."""
        return self._fold.generation

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be read before questions have been answered."""
        return len(self._waiting) >= LOOKUPS_WAITING_MAX

    @property
    def position(self) -> Position:
        """From where another inquirer has to read to miss nothing that is unanswered or untold."""
        behind = [
            *self._waiting,
            *self._running.values(),
            *(self._untold and (self._untold[0],)),
        ]
        if not behind:
            return Position(self._fold.next_offset, self._fold.epoch)
        oldest = min(behind, key=lambda one: one.offset)
        return Position(oldest.offset, oldest.epoch)

    def feed(self, record: Record) -> None:
        """Read the next ledger record of the partition."""
        marks = marks_of(record)
        if (
            marks is not None
            and (not marks or _READ.isdisjoint(marks.split()))
            and record.key not in self._watched
        ):
            self._fold.next_offset = record.offset + 1
            return
        read = self._fold.feed(record)
        if isinstance(read, Decision):
            for ordinal, fact in enumerate(read.facts):
                self._take_fact(read, ordinal, fact)

    def caught_up(self) -> None:
        """Everything that lay in the partition at the beginning has been read: it may act now."""
        self.is_current = True

    def providers(self) -> list[str]:
        """The providers that may be asked now, because a question to them waits."""
        return self._waiting.providers() if self.is_current else []

    def take_question(self, provider: str, may_ask: MayAsk = anywhere) -> Asked | None:
        """The question to put to a provider now, tenant by tenant; it is at work until `answered`
        or `put_back`. `may_ask` says which of its accounts can be asked.
        """
        asked = self._waiting.take(provider, may_ask) if self.is_current else None
        if asked is not None:
            self._running[asked.identity] = asked
        return asked

    def take_questions(self, count_max: int) -> list[Asked]:
        """Questions to put now, of each provider in turn."""
        taken: list[Asked] = []
        while len(taken) < count_max and (providers := self.providers()):
            for provider in providers[: count_max - len(taken)]:
                asked = self.take_question(provider)
                if asked is not None:
                    taken.append(asked)
        return taken

    def answered(self, asked: Asked) -> None:
        """The evidence of a question is durable."""
        self._running.pop(asked.identity, None)
        self._moot.discard(asked.identity)

    def put_back(self, asked: Asked) -> None:
        """A question was not answered and is to be put again, first in its line; unless the ledger
        has its answer by now, or has asked a newer one.
        """
        is_moot = asked.identity in self._moot
        self.answered(asked)
        if not is_moot and self._waiting.of(asked.started.action) is None:
            self._waiting.add_first(asked)

    def notices(self) -> list[Notice]:
        """What has to be told, oldest first; it stays until `told`."""
        return [untold.notice for untold in self._untold]

    def told(self, count: int) -> None:
        """The first of the notices are durable."""
        for _ in range(count):
            self._untold.popleft()

    def _take_fact(self, decision: Decision, ordinal: int, fact: AnyFact) -> None:
        match fact:
            case LookupStarted():
                self._ask(Asked(fact, decision.at, decision.epoch, decision.decided_at))
                self._now_unknown(fact.action, decision.stream)
            case PreviewStarted():
                # Intents are large: of those that come behind many they are read again.
                is_soon = len(self._waiting) < INTENTS_KEPT_MAX
                intent = intent_among(decision.facts, fact.action) if is_soon else None
                self._ask(Asked(fact, decision.at, decision.epoch, decision.decided_at, intent))
            case EvidenceRecorded(lookup=int(number)):
                self._answered(LookupStarted, fact.action, number)
            case PreviewRecorded() | PreviewFailed():
                self._answered(PreviewStarted, fact.action, fact.preview)
            case ApprovalRequested():
                self._tell(decision, ordinal, fact, AttentionKind.APPROVAL_REQUESTED, fact.row)
            case ApprovalEscalated():
                self._tell(decision, ordinal, fact, AttentionKind.APPROVAL_ESCALATED, "in_time")
            case AttemptUnresolved(code=code):
                if fact.action not in self._unknown:
                    self._tell(decision, ordinal, fact, AttentionKind.BECAME_UNKNOWN, code)
                self._now_unknown(fact.action, decision.stream)
            case ReviewOpened(reason=reason):
                self._tell(decision, ordinal, fact, AttentionKind.NEEDS_REVIEW, reason)
            case ActionCompleted(proof=proof):
                self._end(decision, ordinal, fact, f"completed:{proof}")
            case ActionFailed(code=code):
                self._end(decision, ordinal, fact, f"failed:{code}")
            case ActionCancelled() | ActionExpired() | ActionDenied():
                self._end(decision, ordinal, fact, fact.type.rpartition(".")[2])
            case _:
                return

    def _ask(self, asked: Asked) -> None:
        self._waiting.drop(asked.started.action)
        if asked.identity not in self._running:
            self._waiting.add(asked)

    def _answered(self, kind: type[LookupStarted | PreviewStarted], action: str, upto: int) -> None:
        """A question of this kind has its answer, and so has each before it."""
        waiting = self._waiting.of(action)
        if waiting is not None and isinstance(waiting.started, kind) and waiting.number <= upto:
            self._waiting.drop(action)
        self._moot |= {
            one.identity
            for one in self._running.values()
            if one.started.action == action and isinstance(one.started, kind) and one.number <= upto
        }

    def _end(self, decision: Decision, ordinal: int, fact: AnyFact, code: str) -> None:
        """An action is final: no question about it is open, and its uncertainty is over."""
        self._waiting.drop(fact.action)
        self._moot |= {
            one.identity for one in self._running.values() if one.started.action == fact.action
        }
        stream = self._unknown.pop(fact.action, None)
        if stream is not None:
            self._unwatch(stream)
            self._tell(decision, ordinal, fact, AttentionKind.SETTLED, code)

    def _tell(
        self, decision: Decision, ordinal: int, fact: AnyFact, kind: AttentionKind, code: str
    ) -> None:
        raised = AttentionRaised(
            kind=kind,
            action=fact.action,
            stream=decision.stream,
            version=fact.version,
            # With what stands before it, a code that the ledger took may be too long here.
            code=code[:TEXT_CHARS_MAX],
            decided_at=decision.decided_at,
            ledger_partition=self.partition,
            ledger_offset=decision.at,
            ordinal=ordinal,
            people=_people_wanted(decision, fact),
        )
        self._untold.append(_Untold(attention_notice(raised), decision.at, decision.epoch))

    def _now_unknown(self, action: str, stream: str) -> None:
        if action in self._unknown:
            return
        self._unknown[action] = stream
        key = stream.encode()
        self._watched[key] = self._watched.get(key, 0) + 1
        while len(self._unknown) > UNKNOWN_WATCHED_MAX:
            _, forgotten = self._unknown.popitem(last=False)
            self._unwatch(forgotten)

    def _unwatch(self, stream: str) -> None:
        key = stream.encode()
        self._watched[key] -= 1
        if not self._watched[key]:
            del self._watched[key]


def _people_wanted(decision: Decision, fact: AnyFact) -> PeopleWanted | None:
    """Whom a fact asks to decide, and about what as far as this decision says it; None where it
    asks nobody.
    """
    match fact:
        case ApprovalRequested():
            shown = next(
                (
                    one.content
                    for one in decision.facts
                    if isinstance(one, PreviewRecorded) and one.action == fact.action
                ),
                None,
            )
            return PeopleWanted(
                round=fact.round,
                groups=fact.groups,
                quorum=fact.quorum,
                expires_at=fact.expires_at,
                money=None if shown is None else shown.money,
                target=None if shown is None else shown.target,
            )
        case ApprovalEscalated():
            return PeopleWanted(groups=fact.groups)
        case ReviewOpened():
            # Whom the table names to settle it is not in the ledger's facts; everybody who may
            # decide for the tenant is told, and only those whom it names can.
            return PeopleWanted(groups=(), quorum=1)
        case _:
            return None
