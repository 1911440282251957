"""What must hold when the last fault is healed: V1 to V5, measured against their bounds.

Each promise is looked at on the running installation, through its doors and its tables, and says
what was measured and whether that is inside its bound. Used at the end of a soak.
"""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncpg

from actionledger import Intent, Money
from ledger.log.kafka import KafkaReader
from ledger.log.port import Outgoing
from ledger.log.topics import Topic, partition_of
from tests.crash.load import NORMAL, Agents, Wish
from tests.crash.machine import TENANTS, Machine
from tests.crash.settling import UNSETTLED

SETTLED_SECONDS_MAX = 60.0
"""V1. Four times what the slowest action may take: lookups, back-off, its step's deadline."""

SHOWN_SECONDS_MAX = 2.0
"""V2. From the answer to its caller to its row."""

STEADY_SECONDS = 5.0
"""V2. For so long nobody falls behind."""

ASIDE_SECONDS_MAX = 5.0
"""V3. From poison to quarantine, with the next intent of its partition taken."""

LAST_OPERATIONS = 5
"""V4. Through every door."""

EPOCHS_A_MINUTE_MAX = 3
"""V5. Of one partition."""

LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Kept:
    """One promise: whether it was kept, and what was measured."""

    law: str
    is_kept: bool
    measured: str


@dataclass
class QuietTime:
    """The installation after the last fault."""

    machine: Machine
    database: asyncpg.Connection
    ends: KafkaReader
    seed: int
    asked: int = 0
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    async def settles(self, actions: int, healed_at: float) -> Kept:
        """V1: every action ends or waits for a person."""

        async def is_at_rest() -> bool:
            known = await self.database.fetchval("select count(*) from actionledger.actions")
            unsettled = await self.database.fetchval(UNSETTLED)
            return bool(known >= actions and unsettled == 0)

        seconds = await _until(is_at_rest, SETTLED_SECONDS_MAX) - healed_at
        what = f"the last action is at rest {seconds:.1f} s after the last fault is healed"
        return Kept("V1", await is_at_rest(), what)

    async def shows(self) -> Kept:
        """V2: an accepted intent is in the tables soon; then nobody is behind, and stays so."""
        shown = [await self._shown(door) for door in self.machine.doors for _ in TENANTS]
        await _until(self._has_no_lag, SETTLED_SECONDS_MAX)
        steady_since = time.monotonic()
        has_fallen_behind = False
        while time.monotonic() < steady_since + STEADY_SECONDS and not has_fallen_behind:
            has_fallen_behind = not await self._has_no_lag()
            await asyncio.sleep(LOOK_SECONDS)
        what = f"{max(shown) * 1_000:.0f} ms at most from answer to row; then no lag"
        return Kept("V2", max(shown) <= SHOWN_SECONDS_MAX and not has_fallen_behind, what)

    async def sets_poison_aside(self) -> Kept:
        """V3: poison is quarantined soon, and what stands behind it goes on."""
        wish = self._wish()
        stream = f"{wish.tenant}/{wish.intent.business_event}"
        partition = partition_of(stream, self.machine.partitions)
        place = (Topic.QUARANTINE.value, partition)
        before = (await self.ends.end_offsets([place]))[place]

        async def is_aside() -> bool:
            return (await self.ends.end_offsets([place]))[place] > before

        appender = await self.machine.log.appender()
        try:
            await appender.append(Topic.INTENTS, partition, [Outgoing(b"acme/poison", b"\xff{")])
        finally:
            await appender.close()
        began = time.monotonic()
        await self._ask(self.machine.url, wish)
        await _until(is_aside, SETTLED_SECONDS_MAX)
        seconds = time.monotonic() - began
        what = f"set aside, with the next intent taken, in {seconds * 1_000:.0f} ms"
        return Kept("V3", seconds <= ASIDE_SECONDS_MAX, what)

    async def answers_at_every_door(self) -> Kept:
        """V4: the last operations through each door end well."""
        keys = []
        for door in self.machine.doors:
            for _ in range(LAST_OPERATIONS):
                wish = self._wish()
                await self._ask(door, wish)
                keys.append(wish.key)

        async def are_completed() -> bool:
            count = "select count(*) from actionledger.actions where action_key = any($1) "
            done = await self.database.fetchval(f"{count} and status = 'completed'", keys)
            return bool(done == len(keys))

        await _until(are_completed, SETTLED_SECONDS_MAX)
        what = f"the last {LAST_OPERATIONS} through each of {len(self.machine.doors)} doors"
        return Kept("V4", await are_completed(), f"{what} are completed")

    async def epochs(self) -> dict[int, int]:
        """The epoch of every partition, as it is projected."""
        rows = await self.database.fetch(
            "select partition, epoch from actionledger.projection_offsets"
        )
        return {row["partition"]: row["epoch"] for row in rows}

    async def is_calm(self, since: float, epochs: dict[int, int]) -> Kept:
        """V5: no storm of owners; that attempts are bounded is a law of the log."""
        minutes = (time.monotonic() - since) / 60
        new = max(epoch - epochs[part] for part, epoch in (await self.epochs()).items())
        what = f"{new} new epochs of a partition in {minutes * 60:.0f} s"
        return Kept("V5", new <= EPOCHS_A_MINUTE_MAX * minutes, what)

    async def _shown(self, door: str) -> float:
        """Seconds from the answer to an intent until its row is there."""
        wish = self._wish()
        await self._ask(door, wish)
        answered_at = time.monotonic()

        async def is_there() -> bool:
            query = "select exists (select from actionledger.actions where action_key = $1)"
            return bool(await self.database.fetchval(query, wish.key))

        return await _until(is_there, SETTLED_SECONDS_MAX) - answered_at

    async def _has_no_lag(self) -> bool:
        """Whether the tables are where the ledger ends."""
        rows = await self.database.fetch(
            "select partition, next_offset from actionledger.projection_offsets"
        )
        places = {(Topic.LEDGER.value, row["partition"]): row["next_offset"] for row in rows}
        return await self.ends.end_offsets(places) == places

    def _wish(self) -> Wish:
        """A charge that nothing befalls."""
        number = next(self._numbers)
        intent = Intent(
            operation="charge",
            business_event=f"quiet-{self.seed}-{number}",
            environment="test",
            target=f"order:quiet-{number}",
            money=Money(minor=100 + number, currency="EUR"),
        )
        return Wish(TENANTS[number % len(TENANTS)], intent, None, NORMAL)

    async def _ask(self, door: str, wish: Wish) -> None:
        self.asked += 1
        machine = self.machine
        await Agents(door, machine.keys, machine.clients_file, self.seed).work([wish])


@asynccontextmanager
async def quiet_time(machine: Machine, seed: int) -> AsyncIterator[QuietTime]:
    """Look at an installation with connections of one's own."""
    database = await asyncpg.connect(machine.database_url)
    ends = await machine.log.reader({})
    try:
        yield QuietTime(machine, database, ends, seed)
    finally:
        await ends.close()
        await database.close()


async def _until(holds: Callable[[], Awaitable[bool]], seconds_max: float) -> float:
    """When a condition held, by the monotonic clock; or when it was given up."""
    give_up_at = time.monotonic() + seconds_max
    while not await holds() and time.monotonic() < give_up_at:
        await asyncio.sleep(LOOK_SECONDS)
    return time.monotonic()
