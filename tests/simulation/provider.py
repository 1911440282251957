"""The outside world: one provider whose book is the truth, kept before anything is answered.

Honours keys for a window, references for ever, and at the account `careless` nothing. It executes a
request at once, late (never later than its settle horizon), or not at all; what it answers is
another matter. The ledger never sees this book; the oracle does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ledger.core.inputs import NoAnswer, Refusal, ReportedOutcome, Retry, Success
from ledger.core.money import Money
from tests.simulation.catalogue import CARELESS, CLASSES, KEY_WINDOW_MS, LAG_MS
from tests.simulation.world import World

Answer = Callable[[ReportedOutcome], None]
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


@dataclass(frozen=True, slots=True)
class Event:
    """What the provider tells of an effect, or that there is none."""

    id: str
    action: str
    account: str
    exists: bool
    reference: str
    money: Money | None


@dataclass(slots=True)
class Provider:
    """All accounts of the one provider."""

    world: World
    book: list[Entry] = field(default_factory=list)
    _known: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    _pending: dict[tuple[str, str], int] = field(default_factory=dict)
    _effects: int = 0
    _events: int = 0
    tell: Callable[[Event], None] = lambda _event: None

    def receive(self, entry: Entry, answer: Answer) -> None:
        """A request arrives. `answer` is called at most once, or never."""
        world, weather, chance = self.world, self.world.weather, self.world.chance
        entry.arrived_at = world.time.now
        self.book.append(entry)
        world.trace("provider", f"request {entry.action} attempt {entry.attempt}")
        draw = chance.random
        if draw() < weather.drops_before:
            world.reach("dropped before commit")
            return
        if draw() < weather.fails_before:
            self._answer(answer, NoAnswer(code="http_500"))
            world.reach("5xx before commit")
            return
        if draw() < weather.commits_late:
            world.reach("committed late")
            late_ms = chance.randint(weather.late_ms // 2, weather.late_ms)
            # The horizon counts from the last byte, which left before it arrived.
            late_ms -= entry.arrived_at - entry.sent_at + 1
            self._pending[entry.account, entry.key] = (
                self._pending.get((entry.account, entry.key), 0) + 1
            )
            world.time.after(late_ms, lambda: self._decide(entry, None))
            if draw() < 0.5:
                self._answer(answer, NoAnswer(code="connection_reset"))
            return
        self._decide(entry, answer)

    def _decide(self, entry: Entry, answer: Answer | None) -> None:
        """Refuse or commit, and answer if anybody is still to hear it."""
        weather, draw = self.world.weather, self.world.chance.random
        name = (entry.account, entry.key)
        if answer is None:
            self._pending[name] -= 1
        known = self._remembered(entry)
        if known is None and draw() < weather.refuses:
            self._refuse(entry, answer, "card_declined", Retry.NEVER)
        elif known is None and draw() < weather.refuses_for_now:
            self._refuse(entry, answer, "rate_limited", Retry.LATER)
        elif known is None and answer is not None and self._is_busy(entry):
            self.world.reach("key in use")
            self._answer(answer, NoAnswer(code="key_in_use"))
        else:
            self._commit(entry, known, answer)

    def _is_busy(self, entry: Entry) -> bool:
        keeps = CLASSES[entry.action.partition(":")[0]] in _KEPT
        return keeps and self._pending.get((entry.account, entry.key), 0) > 0

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
        if answer is not None and self.world.chance.random() >= self.world.weather.drops_after:
            self._answer(answer, Refusal(code=code, retry=retry))

    def _commit(self, entry: Entry, known: str | None, answer: Answer | None) -> None:
        world, weather, chance = self.world, self.world.weather, self.world.chance
        if known is None:
            self._effects += 1
            entry.effect, entry.committed_at = f"ef_{self._effects}", world.time.now
            self._known[entry.account, entry.key] = (world.time.now, entry.effect)
            world.trace("provider", f"commits {entry.action} as {entry.effect}")
            self._announce(entry, entry.effect, exists=True)
        else:
            entry.replayed = known
            world.reach("key replayed")
        if answer is None:
            return
        if chance.random() < weather.drops_after:
            world.reach("commit then drop")
        elif chance.random() < weather.fails_after:
            world.reach("5xx after commit")
            self._answer(answer, NoAnswer(code="http_502"))
        else:
            slow = chance.random() < weather.slow
            reference = known or entry.effect
            assert reference is not None
            self._answer(answer, Success(reference=reference), slow=slow)

    def _answer(self, answer: Answer, outcome: ReportedOutcome, *, slow: bool = False) -> None:
        chance = self.world.chance
        delay_ms = chance.randint(400, 3_000) if slow else chance.randint(1, 80)
        self.world.time.after(delay_ms, lambda: answer(outcome))

    # Telling

    def _announce(self, entry: Entry, reference: str, *, exists: bool) -> None:
        """Send the webhook of an outcome: early, late, twice, or never."""
        world, weather, chance = self.world, self.world.weather, self.world.chance
        self._events += 1
        event = Event(
            f"evt_{self._events}", entry.action, entry.account, exists, reference, entry.money
        )
        if chance.random() < weather.webhook_foreign and entry.money is not None:
            self._foreign(entry)
        if chance.random() < weather.webhook_lost:
            world.reach("webhook lost")
            return
        early = chance.random() < weather.webhook_early
        delay_ms = 0 if early else chance.randint(20, weather.webhook_late_ms)
        world.time.after(delay_ms, lambda: self.tell(event))
        if chance.random() < weather.webhook_twice:
            world.reach("webhook twice")
            world.time.after(delay_ms + chance.randint(0, 500), lambda: self.tell(event))

    def _foreign(self, entry: Entry) -> None:
        """A genuine event that names our action and speaks of other money."""
        self._events += 1
        assert entry.money is not None
        other = entry.money.model_copy(update={"minor": entry.money.minor + 1})
        event = Event(
            f"evt_{self._events}",
            entry.action,
            entry.account,
            exists=True,
            reference="ef_foreign",
            money=other,
        )
        self.world.reach("webhook of other money")
        self.world.time.after(self.world.chance.randint(0, 400), lambda: self.tell(event))

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
