"""The outside world: one provider whose book is the truth, kept before anything is answered.

Honours keys for a window, references for ever, and at the account `careless` nothing. It executes a
request at once, late (never later than its settle horizon), or not at all; what it answers is
another matter, and some answer a key for ever what they answered it once. The ledger never sees
this book; the oracle does.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ledger.core.inputs import NoAnswer, Refusal, ReportedOutcome, Retry, Success
from ledger.core.money import Money
from ledger.core.wire import Json
from tests.simulation.catalogue import CARELESS, CLASSES, KEY_WINDOW_MS, LAG_MS
from tests.simulation.world import World

Answer = Callable[[ReportedOutcome], None]
HALF = 0.5
REDELIVERED_MS = 700
"""After which a webhook that nobody has received is delivered again."""
_KEPT = {"keyed", "reference"}


@dataclass(slots=True)
class Entry:
    """One request as it came, and what became of it."""

    key: str
    account: str
    action: str
    attempt: int
    request_hash: str
    money: Money | None
    sent_at: int
    arrived_at: int
    committed_at: int | None = None
    effect: str | None = None
    replayed: str | None = None
    refused: bool = False
    taken_back: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """What the provider tells of an effect, or that there is none."""

    id: str
    action: str | None
    """None in a webhook that bears no mark of ours, only the provider's own name."""
    account: str
    exists: bool
    reference: str
    money: Money | None

    def told(self) -> bytes:
        """The body of its webhook."""
        money = self.money and {"minor": self.money.minor, "currency": self.money.currency}
        body = {
            "id": self.id,
            "action": self.action,
            "account": self.account,
            "exists": self.exists,
            "reference": self.reference,
            "money": money,
        }
        return json.dumps(body).encode()


@dataclass(slots=True)
class Provider:
    """All accounts of the one provider."""

    world: World
    book: list[Entry] = field(default_factory=list)
    _known: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    _pending: dict[tuple[str, str], int] = field(default_factory=dict)
    _balance: int = 10_000
    _effects: int = 0
    _events: int = 0
    _failed: set[tuple[str, str]] = field(default_factory=set)
    received: list[Event] = field(default_factory=list)
    """What it was told to have been received."""
    tell: Callable[[Event, Callable[[], None]], None] = lambda _event, _received: None

    def observed(self) -> dict[str, Json]:
        """What may move between a preview and an act, and does whenever somebody looks."""
        if self.world.happens("facts_move"):
            self.world.reach("facts moved")
            self._balance -= 1
        return {"balance": self._balance}

    def receive(self, entry: Entry, answer: Answer) -> None:
        """A request arrives. `answer` is called at most once, or never."""
        world, happens = self.world, self.world.happens
        entry.arrived_at = world.time.now
        self.book.append(entry)
        world.trace("provider", f"request {entry.action} attempt {entry.attempt}")
        name = (entry.account, entry.key)
        if entry.money is not None and happens("webhook_of_other_money"):
            world.reach("webhook of other money")
            other = entry.money.model_copy(update={"minor": entry.money.minor + 1})
            foreign = self._event(entry, "ef_foreign", exists=True)
            most_ms = world.chance.choice((150, 3_000, 3_000))
            self._deliver(replace(foreign, money=other), world.chance.randint(0, most_ms))
        if happens("drops_before"):
            world.reach("dropped before commit")
        elif name in self._failed:
            # It keeps what it once answered to a key, a 500 too, and so answers it for ever.
            world.reach("5xx from its cache")
            self._answer(answer, NoAnswer(code="http_500"))
        elif happens("fails_before"):
            world.reach("5xx before commit")
            self._fail(entry, answer, "http_500")
        elif happens("commits_late"):
            world.reach("committed late")
            most_ms = world.weather.late_ms
            late_ms = world.chance.randint(most_ms // 2, most_ms)
            # The horizon counts from the last byte, which left before it arrived.
            late_ms -= entry.arrived_at - entry.sent_at + 1
            self._pending[name] = self._pending.get(name, 0) + 1
            world.time.after(late_ms, lambda: self._decide(entry, None))
            if world.chance.random() < HALF:
                self._answer(answer, NoAnswer(code="connection_reset"))
        else:
            self._decide(entry, answer)

    def _fail(self, entry: Entry, answer: Answer, code: str) -> None:
        if self.world.weather.caches_errors and self._keeps(entry):
            self._failed.add((entry.account, entry.key))
        self._answer(answer, NoAnswer(code=code))

    def _decide(self, entry: Entry, answer: Answer | None) -> None:
        """Refuse or commit, and answer if anybody is still to hear it."""
        happens = self.world.happens
        if answer is None:
            self._pending[entry.account, entry.key] -= 1
        known = self._remembered(entry)
        if known is None and happens("refuses"):
            self._refuse(entry, answer, "card_declined", Retry.NEVER)
        elif known is None and happens("refuses_for_now"):
            self._refuse(entry, answer, "rate_limited", Retry.LATER)
        elif known is None and answer is not None and self._is_busy(entry):
            self.world.reach("key in use")
            self._answer(answer, NoAnswer(code="key_in_use"))
        else:
            self._commit(entry, known, answer)

    def _keeps(self, entry: Entry) -> bool:
        return CLASSES[entry.action.partition(":")[0]] in _KEPT

    def _is_busy(self, entry: Entry) -> bool:
        return self._keeps(entry) and self._pending.get((entry.account, entry.key), 0) > 0

    def _remembered(self, entry: Entry) -> str | None:
        """The effect that this key or reference stands for, as long as the provider remembers."""
        kept = CLASSES[entry.action.partition(":")[0]]
        known = self._known.get((entry.account, entry.key))
        if known is None or kept not in _KEPT or entry.account == CARELESS:
            return None
        if kept == "keyed" and self.world.time.now >= known[0] + KEY_WINDOW_MS:
            self.world.reach("key forgotten")
            return None
        return known[1]

    def _refuse(self, entry: Entry, answer: Answer | None, code: str, retry: Retry) -> None:
        entry.refused = True
        self.world.trace("provider", f"refuses {entry.action} {code}")
        if retry is Retry.NEVER:
            self._announce(entry, f"{entry.action}/{entry.attempt}", exists=False)
        if answer is not None and not self.world.happens("drops_after"):
            self._answer(answer, Refusal(code=code, retry=retry))

    def _commit(self, entry: Entry, known: str | None, answer: Answer | None) -> None:
        world = self.world
        if known is None:
            self._effects += 1
            entry.effect, entry.committed_at = f"ef_{self._effects}", world.time.now
            self._known[entry.account, entry.key] = (world.time.now, entry.effect)
            world.trace("provider", f"commits {entry.action} as {entry.effect}")
            self._announce(entry, entry.effect, exists=True)
            if world.happens("taken_back"):
                self._takes_back(entry, entry.effect)
        else:
            entry.replayed = known
            world.reach("key replayed")
        if answer is None:
            return
        if world.happens("drops_after"):
            world.reach("commit then drop")
        elif world.happens("fails_after"):
            world.reach("5xx after commit")
            self._fail(entry, answer, "http_502")
        else:
            reference = known or entry.effect
            assert reference is not None
            self._answer(answer, Success(reference=reference), slow=world.happens("slow"))

    def _takes_back(self, entry: Entry, reference: str) -> None:
        """What was done comes to nothing later, as a refund does that a bank returns."""
        self.world.reach("taken back later")
        entry.taken_back = True
        event = self._event(entry, reference, exists=False)
        self._deliver(event, self.world.chance.randint(200, 3_000))

    def _answer(self, answer: Answer, outcome: ReportedOutcome, *, slow: bool = False) -> None:
        chance = self.world.chance
        delay_ms = chance.randint(400, 3_000) if slow else chance.randint(1, 80)
        self.world.time.after(delay_ms, lambda: answer(outcome))

    # Telling

    def _announce(self, entry: Entry, reference: str, *, exists: bool) -> None:
        """Send the webhook of an outcome: early, late, twice, or never."""
        world = self.world
        event = self._event(entry, reference, exists=exists)
        if world.happens("webhook_of_other_account"):
            world.reach("webhook of another account")
            foreign = self._event(entry, "ef_foreign", exists=True)
            self._deliver(replace(foreign, account="other"), world.chance.randint(0, 400))
        if world.happens("webhook_lost"):
            world.reach("webhook lost")
            return
        early = world.happens("webhook_early")
        delay_ms = 0 if early else world.chance.randint(20, world.weather.webhook_late_ms)
        self._deliver(event, delay_ms)
        if world.happens("webhook_twice"):
            world.reach("webhook twice")
            self._deliver(event, delay_ms + world.chance.randint(0, 500))

    def _event(self, entry: Entry, reference: str, *, exists: bool) -> Event:
        self._events += 1
        action = None if self.world.happens("webhook_unmarked") else entry.action
        return Event(f"evt_{self._events}", action, entry.account, exists, reference, entry.money)

    def _deliver(self, event: Event, delay_ms: int) -> None:
        """Deliver, and again until it is received."""
        received = False

        def hears() -> None:
            nonlocal received
            received = True
            self.received.append(event)

        def delivers() -> None:
            if not received:
                self.tell(event, hears)
                self.world.time.after(REDELIVERED_MS, delivers)

        self.world.time.after(delay_ms, delivers)

    # Searching

    def find(self, account: str, key: str) -> list[Entry]:
        """Effects under a key, as far as the index reaches: it runs behind by up to the lag."""
        behind_ms = self.world.chance.randint(0, LAG_MS)
        until = self.world.time.now - behind_ms
        return [
            entry
            for entry in self.book
            if entry.account == account
            and entry.key == key
            and entry.committed_at is not None
            and entry.committed_at <= until
        ]
