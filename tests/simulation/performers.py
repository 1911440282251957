"""Callers that carry an action out themselves: they offer, wait for their start, act once, and tell
what came of it; late, twice, or never. One that is forgotten offers again as another call.

Only the call that a start names may act, and only as long as its lease lasts, counted from when it
sent its offer. The ledger's word for it is a start like any other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from ledger.core.facts import AttemptStarted
from ledger.core.ids import stream_key_of
from ledger.core.inputs import CallerOffer, CallerReport, NoAnswer, NotSent, ReportedOutcome, Retry
from ledger.core.offers import CALLER, is_caller
from ledger.core.records import Decision
from ledger.core.request import Request, request_hash
from ledger.core.wire import Wire
from ledger.log.fold import PartitionFold
from ledger.log.topics import Topic
from tests.simulation.catalogue import CONNECT_MS, IDLE_MS, RESPONSE_MS
from tests.simulation.provider import Entry, Provider
from tests.simulation.world import World

LEDGER = Topic.LEDGER.value
OFFER_MS = 1_200
AGAIN_MS = 1_400
"""After which a call that heard nothing of its action is made again."""
CALLS_MAX = 9


@dataclass(slots=True)
class Own:
    """One call: what it wants, and when it offered to do it."""

    key: str
    request: Request
    sent_at: int
    has_acted: bool = False


@dataclass(slots=True)
class Performers:
    """Every call of every caller."""

    world: World
    provider: Provider
    say: Callable[[Wire, str], None] = lambda _said, _stream: None
    _calls: dict[str, Own] = field(default_factory=dict)
    _folds: list[PartitionFold] = field(default_factory=list)
    _hears: set[int] = field(default_factory=set)
    _ended: set[str] = field(default_factory=set)

    def begin(self) -> None:
        """Listen from now on."""
        self._folds = [PartitionFold(part) for part in range(self.world.partitions)]
        self.world.listen(LEDGER, self._heard)

    def offers(self, key: str, request: Request) -> CallerOffer:
        """The offer of a new call."""
        nonce = f"call-{len(self._calls) + 1}"
        self._calls[nonce] = Own(key, request, self.world.time.now)
        return CallerOffer(nonce=nonce, valid_ms=OFFER_MS)

    def calls_again(self, key: str, call: Callable[[], None], left: int = CALLS_MAX) -> None:
        """Call again after a while, as long as the action has no end."""

        def again() -> None:
            if key not in self._ended and left:
                call()
                self.calls_again(key, call, left - 1)

        self.world.time.after(AGAIN_MS + self.world.soon(400), again)

    def _heard(self, partition: int) -> None:
        if partition not in self._hears:
            self._hears.add(partition)
            self.world.time.after(self.world.soon(60), lambda: self._read(partition))

    def _read(self, partition: int) -> None:
        self._hears.discard(partition)
        fold = self._folds[partition]
        for record in self.world.log.read(LEDGER, partition, fold.next_offset):
            read = fold.feed(record)
            for fact in read.facts if isinstance(read, Decision) else ():
                if isinstance(fact, AttemptStarted) and is_caller(fact.holder):
                    self._may_act(fact)
                elif fact.type.startswith("action."):
                    self._ended.add(fact.action)

    # Acting

    def _may_act(self, start: AttemptStarted) -> None:
        own = self._calls[start.holder.removeprefix(CALLER)]
        if own.has_acted or self.world.happens("call_forgotten"):
            return
        own.has_acted = True
        assert request_hash(own.request) == start.request_hash
        connect_ms = self.world.chance.randint(1, CONNECT_MS)
        self.world.time.after(connect_ms, partial(self._first_byte, own, start))

    def _first_byte(self, own: Own, start: AttemptStarted) -> None:
        """The last check; nothing is between it and the first byte."""
        now, ends = self.world.time.now, [start.deadline_at, start.lease_until]
        if start.key_expires_at is not None:
            ends.append(start.key_expires_at)
        if now - own.sent_at + IDLE_MS >= min(ends) - start.offered_at:
            self.world.reach("caller came too late")
            self._tells(own, start, NotSent(code="too_late", retry=Retry.LATER))
            return
        self.world.reach("caller acted")
        self.world.trace("caller", f"sends {start.action} attempt {start.attempt}")
        entry = Entry(
            key=start.provider_key,
            account=start.account,
            action=start.action,
            attempt=start.attempt,
            request_hash=start.request_hash,
            money=own.request.money,
            sent_at=now,
            arrived_at=now,
        )
        told = partial(self._tells_once, own, start, set())
        self.world.time.after(RESPONSE_MS, partial(told, NoAnswer(code="response_timeout")))
        self.provider.receive(entry, told)

    def _tells_once(
        self, own: Own, start: AttemptStarted, told: set[str], outcome: ReportedOutcome
    ) -> None:
        if told:
            return
        told.add(outcome.kind)
        world = self.world
        if world.happens("call_forgotten"):
            world.reach("caller never heard of again")
            return
        late_ms = world.chance.randint(1, 4_000) if world.happens("says_late") else 1
        for _ in range(1 + world.happens("repeats")):
            world.time.after(late_ms, partial(self._tells, own, start, outcome))

    def _tells(self, own: Own, start: AttemptStarted, outcome: ReportedOutcome) -> None:
        report = CallerReport(
            key=own.key,
            principal=own.request.principal,
            attempt=start.attempt,
            fencing_token=start.fencing_token,
            nonce=start.holder.removeprefix(CALLER),
            outcome=outcome,
        )
        self.say(report, stream_key_of(own.key))
