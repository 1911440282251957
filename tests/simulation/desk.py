"""People at the review desk: they look at a case, at the provider's own book, and sign what settles
it; too early, twice, in the name of others, without what belongs to it, about a case that has moved
on.

Whoever signs says what the book holds when they look. What they cannot know is whether more will
come of it: that is the ledger's to know, which must refuse a word that was given too early.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ledger.core.blocking import blocking
from ledger.core.facts import ActionBlocked, GateAnswered, ReviewOpened
from ledger.core.ids import stream_key_of
from ledger.core.records import Decision
from ledger.core.state import Action
from ledger.core.statement import Move, Resolution
from ledger.log.fold import PartitionFold
from ledger.log.topics import Topic
from tests.simulation.catalogue import CLASSES, LAG_MS, SETTLE_MS, SKEW_MS
from tests.simulation.deciders import Deciders
from tests.simulation.observer import Observer
from tests.simulation.provider import Provider
from tests.simulation.signatures import forge, sign
from tests.simulation.world import GENERATION, Chance, World

LEDGER = Topic.LEDGER.value
LOOKS_MS = 3_000
"""How long it takes until somebody looks."""
LOOKS_MAX = 4
"""How often somebody comes back to a case that is still there."""
VALID_MS = 5_000
TRANSPLANTS: tuple[dict[str, Any], ...] = (
    {"request_hash": "sha256:of another payload"},
    {"tenant": "globex"},
    {"environment": "test"},
    {"ledger": "generation-0"},
    {"expires_at": 0},
)


@dataclass(slots=True)
class Desk:
    """Everybody who may settle a case, and some who may not."""

    world: World
    provider: Provider
    observer: Observer
    deciders: Deciders
    chance: Chance = field(init=False)
    _folds: list[PartitionFold] = field(default_factory=list)
    _hears: set[int] = field(default_factory=set)

    def begin(self) -> None:
        """Listen from now on, in a history in which people settle anything."""
        self.chance = Chance(f"desk {self.world.seed}")
        if "resolves" in self.world.weather.shares:
            self._folds = [PartitionFold(part) for part in range(self.world.partitions)]
            self.world.listen(LEDGER, self._heard)

    def _heard(self, partition: int) -> None:
        if partition not in self._hears:
            self._hears.add(partition)
            self.world.time.after(self.world.soon(60), lambda: self._read(partition))

    def _read(self, partition: int) -> None:
        self._hears.discard(partition)
        fold = self._folds[partition]
        for record in self.world.log.read(LEDGER, partition, fold.next_offset):
            read = fold.feed(record)
            if isinstance(read, Decision):
                for fact in read.facts:
                    is_asked = (
                        isinstance(fact, ReviewOpened)
                        or (isinstance(fact, GateAnswered) and fact.outcome == "queued")
                        or (isinstance(fact, ActionBlocked) and fact.reason == "revised_open")
                    )
                    if is_asked and self.world.happens("resolves"):
                        self._will_look("ada", fact.action, LOOKS_MAX)

    def _will_look(self, name: str, key: str, times: int) -> None:
        delay_ms = self.chance.randint(40, LOOKS_MS)
        self.world.time.after(delay_ms, partial(self._looks, name, key, times))

    def _looks(self, name: str, key: str, times: int) -> None:
        """Look at the case as it is, and sign; come back later should it still be there."""
        self.observer.look()
        action = self.observer.streams[stream_key_of(key)].action(key)
        if action is None or not self._needs_somebody(action):
            return
        said = self._said(name, action, *self._move(action))
        later = self.chance.randint
        self.world.time.after(later(1, 1_200), partial(self._sends, said, name))
        for fault, does in (
            ("desk_outsiders", self._outsider),
            ("desk_forgeries", self._forges),
            ("desk_transplants", self._transplants),
        ):
            if self.world.happens(fault):
                self.world.time.after(later(1, 900), partial(does, said))
        if self.world.happens("says_twice"):
            self.world.time.after(later(1, 2_400), partial(self._sends, said, name))
        if self.world.happens("desk_disagrees"):
            other = self._said("cleo", action, *self._move(action))
            self.world.time.after(later(1, 1_200), partial(self._sends, other, "cleo"))
        if times > 1:
            self._will_look("ben" if name == "ada" else "ada", key, times - 1)

    # What is so

    def _needs_somebody(self, action: Action) -> bool:
        """Whether there is a case, or an action before it that somebody might let it pass."""
        waits = blocking(action)
        may_be = waits is not None and self.chance.random() < 1 / 3
        return action.case is not None or may_be

    def _move(self, action: Action) -> tuple[Move, str | None]:
        """What somebody says who has the provider's book before them."""
        names = action.case is None or action.case.names is not None
        if names and not action.is_final and self.chance.random() < 3 / 4:
            return Move.ALLOW, None
        if action.is_final:
            return Move.ACKNOWLEDGE, None
        made = [one.effect for one in self.provider.book if one.action == action.key and one.effect]
        looks_on = action.is_open and self.chance.random() < 1 / 3
        if looks_on:
            return Move.LOOK_AGAIN, None
        if made:
            is_left_out = self.world.happens("desk_forgets")
            return Move.EFFECT_EXISTS, None if is_left_out else made[0]
        if CLASSES[action.request.operation] == "none" and not self._is_over(action):
            # Nobody declared how long such a provider takes; who is there knows that it does.
            return Move.LOOK_AGAIN, None
        if self.world.weather.gated and action.is_open:
            # What it holds of its gates goes with it into the next attempt.
            return Move.TRY_AGAIN, None
        return self.chance.choice((Move.NO_EFFECT, Move.TRY_AGAIN, Move.LOOK_AGAIN)), None

    def _is_over(self, action: Action) -> bool:
        ends = (one.lease_until + SKEW_MS + LAG_MS + SETTLE_MS for one in action.attempts)
        return self.world.time.now > max(ends, default=0)

    def _said(self, name: str, action: Action, move: Move, reference: str | None) -> Resolution:
        now, waits = self.world.time.now, blocking(action)
        if action.case is not None:
            case = action.case
            shown = (case.opened_version, case.moved_version, case.names)
        else:
            assert waits is not None
            shown = (waits.version, waits.version, waits.by)
        return Resolution(
            ledger=GENERATION,
            move=move,
            approver=name,
            tenant=action.key.split(":")[2],
            environment=action.request.environment,
            key=action.key,
            request_hash=action.request_hash,
            case=shown[0],
            moved=shown[1],
            reference=reference,
            accepts=shown[2] if move is Move.ALLOW else None,
            issued_at=now,
            expires_at=now + VALID_MS,
            comment="As the book has it.",
        )

    # Sending

    def _sends(self, said: Resolution, signer: str) -> None:
        keys = ("ada", "ada's second") if signer == "ada" else (signer,)
        name = self.chance.choice(keys)
        self.deciders.send(said.key, sign(said, name, really=self.deciders.really))

    def _outsider(self, said: Resolution) -> None:
        """Somebody signs who may not: for another tenant, who asks for it, whom nobody knows."""
        name = self.chance.choice(("dan", "eve", "zoe"))
        self._sends(said.model_copy(update={"approver": name}), name)

    def _forges(self, said: Resolution) -> None:
        word = said.model_copy(update={"approver": "ben"})
        self.deciders.send(said.key, forge(word, "ben", really=self.deciders.really))

    def _transplants(self, said: Resolution) -> None:
        """Ben signed it for something else: an earlier case, a case before it moved, another
        action, another payload.
        """
        earlier: tuple[dict[str, Any], ...] = (
            {"moved": max(0, said.moved - 1)},
            {"case": max(0, said.case - 1)},
        )
        if self.world.weather.gated:
            earlier = (*earlier, {"accepts": "another"})
        changes = self.chance.choice((*TRANSPLANTS, *earlier, *earlier))
        self._sends(said.model_copy(update={"approver": "ben", **changes}), "ben")
