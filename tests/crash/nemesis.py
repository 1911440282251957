"""What befalls an installation during a soak: one thing every few seconds, drawn from a seed.

Guarantees that what it stopped runs again when it is through, and that it has counted what it did.
It strikes processes, both servers, and what is in the log; never the provider, whose book is the
truth that everything is judged by.
"""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from gateway.local import Servers
from tests.crash.machine import PROVIDER, Machine
from tests.crash.provoking import publish_edition, write_poison

PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX = 3.0, 15.0
FROZEN_SECONDS_MIN, FROZEN_SECONDS_MAX = 1.0, 9.0
"""From a hiccup to longer than session, lease and deadlines together."""

Strike = Callable[[], Awaitable[str]]


@dataclass
class Nemesis:
    """Strikes until its time is up; the same seed draws the same strikes."""

    machine: Machine
    servers: Servers
    seed: int
    struck: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Draw nothing yet. What concerns a server, or needs it, happens one after another."""
        self._one_server = asyncio.Lock()
        self._bags: dict[str, list[str]] = {}
        self._chance = random.Random(f"nemesis|{self.seed}")
        self._strikes: list[tuple[int, Strike]] = [
            (8, self._kill),
            (6, self._freeze),
            (2, self._ask_to_stop),
            (1, self._kill_broker),
            (1, self._restart_broker),
            (1, self._kill_database),
            (1, self._restart_database),
            (1, self._poison),
            (1, self._publish),
        ]

    async def rage(self, seconds: float, tell: Callable[[str], None]) -> None:
        """Strike every few seconds; returns when everything that was stopped runs again."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        weights = [weight for weight, _ in self._strikes]
        async with asyncio.TaskGroup() as group:
            while loop.time() < until:
                await self.machine.hold(self._chance.uniform(PAUSE_SECONDS_MIN, PAUSE_SECONDS_MAX))
                ((_, strike),) = self._chance.choices(self._strikes, weights)
                group.create_task(self._count(strike, tell))

    async def _count(self, strike: Strike, tell: Callable[[str], None]) -> None:
        what = await strike()
        self.struck[what] += 1
        tell(what)

    def _victim(self, fault: str) -> str:
        """A process that this fault has not befallen for longest, about."""
        bag = self._bags.setdefault(fault, [])
        if not bag:
            bag += [name for name in self.machine.supervised if name != PROVIDER]
            self._chance.shuffle(bag)
        return bag.pop()

    async def _kill(self) -> str:
        victim = self._victim("kill")
        self.machine.supervised[victim].signal(signal.SIGKILL)
        return f"kill {victim}"

    async def _freeze(self) -> str:
        victim = self._victim("freeze")
        seconds = self._chance.uniform(FROZEN_SECONDS_MIN, FROZEN_SECONDS_MAX)
        if not self.machine.supervised[victim].is_paused:
            await self.machine.pause(victim, seconds)
        return f"freeze {victim}"

    async def _ask_to_stop(self) -> str:
        victim = self._victim("stop")
        self.machine.supervised[victim].signal(signal.SIGTERM)
        return f"stop {victim}"

    async def _kill_broker(self) -> str:
        async with self._one_server:
            await self.servers.kafka.kill()
            await self.servers.kafka.restart()
        return "kill the broker"

    async def _restart_broker(self) -> str:
        async with self._one_server:
            await self.servers.kafka.restart()
        return "restart the broker"

    async def _kill_database(self) -> str:
        async with self._one_server:
            await self.servers.postgres.kill()
            await self.servers.postgres.restart()
        return "kill the database"

    async def _restart_database(self) -> str:
        async with self._one_server:
            await self.servers.postgres.restart()
        return "restart the database"

    async def _poison(self) -> str:
        async with self._one_server:
            await write_poison(self.machine)
        return "write poison"

    async def _publish(self) -> str:
        async with self._one_server:
            await publish_edition(self.machine)
        return "publish a catalogue"
