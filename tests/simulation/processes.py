"""What every simulated process has: a name, a clock of its own, a producer, crashes and pauses.

A paused process hears nothing until it goes on, and then acts as if no time had passed: that is
what makes a zombie. A crashed one is replaced by another with a new name.
"""

from collections.abc import Callable, Sequence
from functools import partial

from ledger.log.port import Appended, Outgoing
from tests.simulation.world import World

RESTART_MS = 120


class Process:
    """One life of one process."""

    def __init__(self, world: World, kind: str, number: int) -> None:
        self.world = world
        self.kind = kind
        self.name = f"{kind}-{number}"
        self.is_gone = False
        self.producer = world.log.producer()
        self._paused_until = 0
        self._hears: list[tuple[str, Callable[[int], None]]] = []
        world.inhabitants.append(self)
        self._crash, self._pause = f"{kind}_crash", f"{kind}_pause"
        self._clock_zero = world.time.now - world.chance.randint(0, 1_000_000)

    def mono_ms(self) -> int:
        """This process's own clock; it runs on while the process is paused."""
        return self.world.time.now - self._clock_zero

    def trace(self, what: str) -> None:
        """Note what this process does."""
        self.world.trace(self.name, what)

    def listen(self, topic: str, heard: Callable[[int], None]) -> None:
        """Hear of every landing on a topic, as long as this process lives."""
        self._hears.append((topic, heard))
        self.world.listen(topic, heard)

    def go_on(self, call: Callable[[], None]) -> None:
        """Make a call now, or when this process is no longer paused."""
        if self.world.time.now < self._paused_until:
            self.after(0, call)
        else:
            call()

    def after(self, delay_ms: int, call: Callable[[], None]) -> None:
        """Make a call later, if this process still lives then; when it is paused, after that."""
        self.world.time.after(delay_ms, partial(self._comes, call))

    def _comes(self, call: Callable[[], None]) -> None:
        if self.is_gone:
            return
        now = self.world.time.now
        if now < self._paused_until:
            self.after(self._paused_until - now, call)
        else:
            call()

    def send(
        self,
        topic: str,
        partition: int,
        records: Sequence[Outgoing],
        done: Callable[[list[Appended]], None],
    ) -> None:
        """Append, and go on with where it landed; without an answer the process ends."""

        def hears(appended: list[Appended] | None) -> None:
            if not self.is_gone:
                self.go_on(lambda: self._answered(appended, done))

        self.producer.send(topic, partition, records, hears)

    def _answered(
        self, appended: list[Appended] | None, done: Callable[[list[Appended]], None]
    ) -> None:
        if appended is None:
            self.world.reach("append without an answer")
            self.crash("an append was not answered")
        else:
            done(appended)

    def may_break(self, where: str) -> bool:
        """Crash or pause here, if chance says so; True if this call must not go on."""
        if self.world.happens(self._crash):
            self.world.reach(f"{self.kind} crashed {where}")
            self.crash(where)
            return True
        if self.world.happens(self._pause):
            pause_ms = self.world.chance.randint(1, max(1, self.world.weather.pause_ms))
            self._paused_until = self.world.time.now + pause_ms
            self.world.reach(f"{self.kind} paused")
            self.trace(f"paused for {pause_ms} ms")
            self.paused(pause_ms)
        return False

    def paused(self, pause_ms: int) -> None:
        """What others notice of a pause; nothing unless a kind of process says otherwise."""

    def crash(self, why: str) -> None:
        """End at once; what was sent may still land."""
        if self.is_gone:
            return
        self.trace(f"crashed: {why}")
        self.world.reach(f"{self.kind} crashed")
        self.is_gone = True
        self.producer.abandon()
        for topic, heard in self._hears:
            self.world.no_more(topic, heard)
        self.gone()

    def gone(self) -> None:
        """What others notice of the end."""


class Supervisor:
    """Keeps so many processes of a kind alive, each under a new name."""

    def __init__(self, world: World, make: Callable[[int], Process], count: int) -> None:
        self.world = world
        self._make = make
        self._made = 0
        self.alive: list[Process] = []
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        self._made += 1
        process = self._make(self._made)
        gone = process.gone

        def goes() -> None:
            gone()
            self.alive.remove(process)
            self.world.time.after(self.world.soon(RESTART_MS), self._start)

        process.gone = goes  # type: ignore[method-assign] # a supervisor watches from outside
        self.alive.append(process)
