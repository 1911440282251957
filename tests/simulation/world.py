"""One simulated world: a seed, virtual time, the log, and what everybody shares.

Nothing here decides anything. Whatever chance there is comes from the seed, in the order in which
virtual time makes calls, so a seed is a history, byte for byte. Faults are drawn apart, each from
its own stream: `only` leaves out all but those it names.
"""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from ledger.core.inputs import Publish
from ledger.log.envelope import outgoing
from ledger.log.port import Outgoing
from ledger.log.simulated import Draws, SimulatedGroup, SimulatedLog, VirtualTime
from ledger.log.topics import Topic
from tests.simulation import tables
from tests.simulation.catalogue import published
from tests.simulation.weather import (
    Weather,
    draw,
    with_damage,
    with_desk,
    with_gates,
    with_little_room,
    with_misses,
    with_others,
    with_people,
    with_silence,
)

BEGINS_AT: Final = 1_800_000_000_000
GENERATION: Final = "generation-1"
CONFIG: Final = Topic.CONFIG.value

Only = Mapping[str, frozenset[int]]
"""The faults that may happen: by name, which of the occasions for it, counted from 1."""


class Chance(random.Random):
    """A seeded source whose integers cost a third of what the library's do."""

    def randint(self, a: int, b: int) -> int:
        """An integer from a to b, both included."""
        return a + int(self.random() * (b - a + 1))


class World:
    """What a history is made of."""

    def __init__(
        self,
        seed: int,
        *,
        weather: Weather | None = None,
        only: Only | None = None,
        tracing: bool = False,
    ) -> None:
        self.seed = seed
        self.chance = Chance(seed)
        if weather is None:
            weather = with_people(draw(self.chance), random.Random(f"people {seed}"))
            weather = with_desk(weather, random.Random(f"desk {seed}"))
            weather = with_gates(weather, random.Random(f"gates {seed}"))
            weather = with_others(weather, random.Random(f"jointly {seed}"))
            weather = with_silence(weather, random.Random(f"silence {seed}"))
            weather = with_misses(weather, random.Random(f"misses {seed}"))
            weather = with_damage(weather, random.Random(f"damage {seed}"))
            weather = with_little_room(weather, random.Random(f"room {seed}"))
        self.weather = weather
        self.time = VirtualTime(BEGINS_AT - weather.before_midnight_ms)
        self.partitions = self.weather.partitions
        self.draws = Draws(seed, only)
        self.log = SimulatedLog(
            self.time,
            self.chance,
            partitions=self.partitions,
            generation=GENERATION,
            draws=self.draws,
        )
        self.group = SimulatedGroup(self.partitions)
        self.inhabitants: list[object] = []
        self.reached: Counter[str] = Counter()
        self.is_calm = False
        self.is_withdrawn = False
        self.held: list[dict[str, str]] = []
        self.is_stepped = False
        self.wants_capacity: Callable[[], bool] = lambda: True
        self.known_end: Callable[[int], tuple[int, int]] = lambda _partition: (0, 0)
        """Offset and epoch at a place in a ledger partition that somebody knows."""
        self.lines: list[str] | None = [] if tracing else None
        self._told_faults = 0
        self._group_listeners: list[Callable[[], None]] = []
        self._listeners: dict[str, list[Callable[[int], None]]] = {}
        self.log.landed = self._landed
        if weather.table is not None:
            self.publish_one(tables.table(weather.table))
            self.publish_one(tables.people(0))
        self.publish()
        self.log.faults = self.weather.log

    def publish_one(self, said: Publish) -> None:
        """An operator publishes a table, or who may decide."""
        self.log.append(CONFIG, 0, [_outgoing(said)])

    def publish(self, *, without: str | None = None) -> None:
        """An operator publishes the catalogue, whole or with one operation withdrawn."""
        performer = "either" if self.weather.performs else None
        together = self.weather.together
        self.log.append(CONFIG, 0, [_published(without, performer, together=together)])

    def hold(self, scope: dict[str, str]) -> None:
        """An operator gives a hold; healing takes it away."""
        self.held.append(scope)
        self.publish_one(tables.order("hold", scope))

    def forget(self) -> None:
        """Let go of everything that holds itself, so that nobody has to search for it."""
        self.time.clear()
        for one in (*self.inhabitants, self.log, self):
            vars(one).clear()

    # Who hears what

    def listen(self, topic: str, heard: Callable[[int], None]) -> None:
        """Hear of every landing on a topic, by partition."""
        self._listeners.setdefault(topic, []).append(heard)

    def no_more(self, topic: str, heard: Callable[[int], None]) -> None:
        """Hear no more of a topic."""
        self._listeners[topic].remove(heard)

    def _landed(self, topic: str, partition: int) -> None:
        for heard in self._listeners.get(topic, ()):
            heard(partition)

    def listen_to_group(self, heard: Callable[[], None]) -> None:
        """Hear of every change of the processors' group."""
        self._group_listeners.append(heard)

    def join(self, member: str) -> None:
        """A processor joins its group."""
        self._group_changes(self.group.join, member)

    def leave(self, member: str) -> None:
        """A processor leaves its group, or the coordinator believes so."""
        self._group_changes(self.group.leave, member)

    def _group_changes(self, change: Callable[[str], None], member: str) -> None:
        before = self.group.generation
        change(member)
        if self.group.generation != before:
            self.reach("rebalanced")
            for heard in self._group_listeners:
                heard()

    # Chance

    def happens(self, fault: str) -> bool:
        """Whether a fault happens on this occasion. Draws nothing where it never does."""
        share = self.weather.shares.get(fault)
        return share is not None and self.draws.happens(fault, share)

    def soon(self, most_ms: int = 30) -> int:
        """A short while."""
        return 1 + int(self.chance.random() * most_ms)

    # What is told of it

    def reach(self, state: str) -> None:
        """Count a state that some history must come to."""
        self.reached[state] += 1

    def trace(self, who: str, what: str) -> None:
        """Note what happens, where somebody reads it."""
        if self.lines is not None:
            struck = self.draws.struck
            for fault, occasion in struck[self._told_faults :]:
                self._note("fault", f"{fault}#{occasion}")
            self._told_faults = len(struck)
            self._note(who, what)

    def _note(self, who: str, what: str) -> None:
        assert self.lines is not None
        self.lines.append(f"{self.time.now - BEGINS_AT:>7} {who:<12} {what}")

    def heal(self) -> None:
        """The last fault is over."""
        self.weather = self.weather.calm()
        self.log.faults = self.weather.log
        if self.is_stepped:
            self.log.set_clocks(0)
        for topic in Topic:
            for partition in range(1 if topic is Topic.CONFIG else self.partitions):
                self.log.restore(topic.value, partition)
        if self.is_withdrawn:
            self.publish()
        for scope in self.held:
            self.publish_one(tables.order("release", scope))
        self.is_calm = True
        self.trace("world", "healed")


@lru_cache
def _published(without: str | None, performer: str | None, *, together: bool) -> Outgoing:
    return _outgoing(published(without=without, performer=performer, together=together))


@lru_cache
def _outgoing(said: Publish) -> Outgoing:
    return outgoing(
        said,
        stream="catalogue",
        subject=None,
        event_id="catalogue",
        source="/operator",
    )
