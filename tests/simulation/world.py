"""One simulated world: a seed, virtual time, the log, and what everybody shares.

Nothing here decides anything. Whatever chance there is comes from the seed, in the order in which
virtual time makes calls, so a seed is a history, byte for byte.
"""

import random
from collections import Counter
from collections.abc import Callable
from typing import Final

from ledger.log.envelope import outgoing
from ledger.log.simulated import SimulatedGroup, SimulatedLog, VirtualTime
from ledger.log.topics import Topic
from tests.simulation.catalogue import published
from tests.simulation.weather import Weather, draw

BEGINS_AT: Final = 1_800_000_000_000
GENERATION: Final = "generation-1"


class World:
    """What a history is made of."""

    def __init__(self, seed: int, *, weather: Weather | None = None, tracing: bool = False) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.weather = draw(self.chance) if weather is None else weather
        self.time = VirtualTime(BEGINS_AT)
        self.partitions = self.weather.partitions
        self.log = SimulatedLog(
            self.time, self.chance, partitions=self.partitions, generation=GENERATION
        )
        self.group = SimulatedGroup(self.partitions)
        self.reached: Counter[str] = Counter()
        self.is_calm = False
        self.is_withdrawn = False
        self.wants_capacity: Callable[[int], bool] = lambda _partition: True
        self.lines: list[str] | None = [] if tracing else None
        self._group_listeners: list[Callable[[], None]] = []
        self._listeners: dict[str, list[Callable[[int], None]]] = {}
        self.log.landed = self._landed
        self.publish()
        self.log.faults = self.weather.log

    def publish(self, *, without: str | None = None) -> None:
        """An operator publishes the catalogue, whole or with one operation withdrawn."""
        record = outgoing(
            published(without=without),
            stream="catalogue",
            subject=None,
            event_id="catalogue",
            source="/operator",
        )
        self.log.append(Topic.CONFIG.value, 0, [record])

    def listen(self, topic: Topic, heard: Callable[[int], None]) -> None:
        """Hear of every landing on a topic, by partition."""
        self._listeners.setdefault(topic.value, []).append(heard)

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

    def happens(self, share: float) -> bool:
        """Whether something with this share happens now. Draws nothing where it never does."""
        return share > 0 and self.chance.random() < share

    def soon(self, most_ms: int = 30) -> int:
        """A short while."""
        return self.chance.randint(1, most_ms)

    def reach(self, state: str) -> None:
        """Count a state that some history must come to."""
        self.reached[state] += 1

    def trace(self, who: str, what: str) -> None:
        """Note what happens, where somebody reads it."""
        if self.lines is not None:
            self.lines.append(f"{self.time.now - BEGINS_AT:>7} {who:<12} {what}")

    def heal(self) -> None:
        """The last fault is over."""
        self.weather = self.weather.calm()
        self.log.faults = self.weather.log
        if self.is_withdrawn:
            self.publish()
        self.is_calm = True
        self.trace("world", "healed")
