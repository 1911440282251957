"""Takes processes to their crash points while agents work, lets all heal, and has the run judged.

One campaign is one installation and a list of cells. Cells of different processes may strike at the
same time, those of one process strike one after the other, each in a life of its own. A campaign is
right when every cell was really reached, everything came to rest, and no law is broken; else it
raises AssertionError with what was seen. Used by `make crash` and by the tests.
"""

import asyncio
import itertools
import signal
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.local import Servers
from tests.crash.checker import Report
from tests.crash.load import SETTLED_SOON, Agents, Faults, script, wishes
from tests.crash.machine import FREEZE_SECONDS, PROCESSES, PROVIDER, Machine, machine
from tests.crash.matrix import Cell, Fault
from tests.crash.provoking import PROVOCATIONS, restart
from tests.crash.settling import settled
from tests.servers import Addresses

WAVE = 8
WAVES_MIN = 3
THAWED_SECONDS = 1.0
SHARE_WORK = frozenset({"processor", "executor", "inquirer", "reconciler"})
"""Kinds of which a second member takes over what the first had. Agents know one door, so a second
gateway would have nothing to do; a second projector does everything, so it comes as a replacement.
"""

SENDS_WHEN_THAWED = ("before_first_byte", Fault.FREEZE)
"""Frozen between its last check and its first byte, a process sends when it is thawed: only the
provider's key makes that harmless, and nothing else is promised.
"""

KEYED_ONLY: Faults = {"charge": SETTLED_SOON["charge"]}

Told = Callable[[Cell, float], None]


def untold(_cell: Cell, _seconds: float) -> None:
    """Tell nobody."""


@asynccontextmanager
async def installation(servers: Servers | Addresses, folder: Path) -> AsyncIterator[Machine]:
    """Run an installation with every process at work."""
    kafka, guarded = servers.kafka_bootstrap, servers.kafka_guarded
    async with machine(kafka, servers.admin_url, folder, guarded=guarded) as made:
        await made.start(PROVIDER, *PROCESSES)
        yield made


class Campaign:
    """Cells to strike on one installation; `strike` may be called again and again."""

    def __init__(self, on: Machine, seed: int) -> None:
        self._machine = on
        self._seed = seed
        self._waves = itertools.count()
        self._proposed = 0

    async def strike(self, cells: Sequence[Cell], told: Told = untold) -> Report:
        """Take every cell's process to its point, heal, settle; the checker's word on everything
        so far.
        """
        report = None
        for together, faults in _apart(cells):
            by_process: defaultdict[str, list[Cell]] = defaultdict(list)
            for cell in together:
                by_process[cell.process].append(cell)
            async with asyncio.TaskGroup() as group:
                struck = [group.create_task(self._each(own, told)) for own in by_process.values()]
                group.create_task(self._work(faults, struck))
            await self._machine.ready(*self._machine.supervised)
            report = await settled(self._machine, self._proposed)
        assert report is not None, "nothing to strike"
        return report

    async def _each(self, cells: Iterable[Cell], told: Told) -> None:
        for cell in cells:
            began = time.monotonic()
            await self._suffer(cell)
            told(cell, time.monotonic() - began)

    async def _suffer(self, cell: Cell) -> None:
        """Arm a life of the process and bring it to its point. One that was killed at the point
        before is between two lives: the next is the armed one.
        """
        victim = self._machine.supervised[cell.process]
        if cell.fault is Fault.FREEZE and cell.process in SHARE_WORK:
            await self._machine.start_twin(cell.process)
        victim.crash_at = cell.crash_at
        if victim.is_alive:
            await self._machine.end(cell.process, signal.SIGTERM)
        async with asyncio.TaskGroup() as group:
            provoking = group.create_task(self._provoke(cell))
            if cell.fault is Fault.KILL:
                await self._machine.died_at(cell.process, cell.crash_at)
            else:
                await self._machine.froze_at(cell.process, cell.crash_at)
            provoking.cancel()
        if cell.fault is Fault.FREEZE:
            async with self._replaced(cell.process):
                await self._machine.hold(FREEZE_SECONDS)
                victim.signal(signal.SIGCONT)
                # Time to do what it was about to do, as if it still were what it was.
                await self._machine.hold(THAWED_SECONDS)

    @asynccontextmanager
    async def _replaced(self, process: str) -> AsyncIterator[None]:
        """Have a projector's work done by another while it is away, and a little longer."""
        if process != "projector":
            yield
            return
        await self._machine.start_twin(process)
        yield
        await self._machine.end_twin(process)

    async def _provoke(self, cell: Cell) -> None:
        """Do what takes the process to its point beside traffic, until it is there."""
        provocation = PROVOCATIONS.get(cell.point.name, restart)
        if provocation is restart:
            return
        while True:
            await self._machine.ready(cell.process)
            await provocation(self._machine)
            await self._machine.hold(1.0)

    async def _work(self, faults: Faults, struck: Sequence["asyncio.Task[None]"]) -> None:
        """Agents ask for a few actions at a time, as long as a cell is not through."""
        while self._proposed < WAVE * WAVES_MIN or not all(task.done() for task in struck):
            seed = self._seed + next(self._waves)
            wanted = wishes(seed, WAVE, faults)
            self._proposed += len(wanted)
            await script(self._machine.provider_url, wanted)
            agents = Agents(self._machine.url, self._machine.keys, self._machine.clients_file, seed)
            await agents.work(wanted)


def _apart(cells: Sequence[Cell]) -> Iterator[tuple[list[Cell], Faults]]:
    """Cells that may strike at the same time, with what may befall the actions meanwhile."""
    keyed = [cell for cell in cells if (cell.point.name, cell.fault) == SENDS_WHEN_THAWED]
    rest = [cell for cell in cells if cell not in keyed]
    if keyed:
        yield keyed, KEYED_ONLY
    if rest:
        yield rest, SETTLED_SOON
