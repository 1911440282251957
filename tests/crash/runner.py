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
from tests.crash.machine import FREEZE_SECONDS, PROCESSES, PROVIDER, Machine, machine, twin_of
from tests.crash.matrix import Cell, Fault
from tests.crash.provoking import PROVOCATIONS, let_a_member_join, restart
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
            async with asyncio.TaskGroup() as group:
                struck = [
                    group.create_task(self._each(victim, own, told))
                    for victim, own in _by_victim(together).items()
                ]
                group.create_task(self._work(faults, struck))
            await self._machine.ready(*self._machine.supervised)
            report = await settled(self._machine, self._proposed)
        assert report is not None, "nothing to strike"
        return report

    async def _each(self, victim: str, cells: Iterable[Cell], told: Told) -> None:
        for cell in cells:
            began = time.monotonic()
            await self._suffer(victim, cell)
            told(cell, time.monotonic() - began)

    async def _suffer(self, victim: str, cell: Cell) -> None:
        """Arm a life of the victim and bring it to its point. One that was killed at the point
        before is between two lives: the next is the armed one.
        """
        on = self._machine
        is_shared = cell.fault is Fault.FREEZE and cell.process in SHARE_WORK
        if is_shared or victim != cell.process:
            await on.start_twin(cell.process)
        one = on.supervised[victim]
        one.crash_at = cell.crash_at
        if one.is_alive:
            await on.end(victim, signal.SIGTERM)
        async with asyncio.TaskGroup() as group:
            provoking = group.create_task(self._provoke(victim, cell))
            if cell.fault is Fault.KILL:
                await on.died_at(victim, cell.crash_at)
            else:
                await on.froze_at(victim, cell.crash_at)
            provoking.cancel()
        if cell.fault is Fault.FREEZE:
            async with self._replaced(cell.process):
                await on.hold(FREEZE_SECONDS)
                one.signal(signal.SIGCONT)
                # Time to do what it was about to do, as if it still were what it was.
                await on.hold(THAWED_SECONDS)

    @asynccontextmanager
    async def _replaced(self, process: str) -> AsyncIterator[None]:
        """Have a projector's work done by another while it is away, and a little longer."""
        if process != "projector":
            yield
            return
        await self._machine.start_twin(process)
        yield
        await self._machine.end_twin(process)

    async def _provoke(self, victim: str, cell: Cell) -> None:
        """Do what takes the process to its point beside traffic, until it is there."""
        provocation = PROVOCATIONS.get(cell.point.name, restart)
        if provocation is restart:
            return
        while True:
            await self._machine.ready(victim)
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


def _by_victim(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Who is struck by what, one after the other. A processor has as many points as all others
    together, so its twin takes every other one of several, but for those that the coming and going
    of the twin brings about.
    """
    found: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        first, twin = cell.process, twin_of(cell.process)
        comes_of_twin = PROVOCATIONS.get(cell.point.name) is let_a_member_join
        has_less = len(found[twin]) < len(found[first])
        is_twins = first == "processor" and has_less and not comes_of_twin
        found[twin if is_twins else first].append(cell)
    return {victim: own for victim, own in found.items() if own}


def _apart(cells: Sequence[Cell]) -> Iterator[tuple[list[Cell], Faults]]:
    """Cells that may strike at the same time, with what may befall the actions meanwhile."""
    keyed = [cell for cell in cells if (cell.point.name, cell.fault) == SENDS_WHEN_THAWED]
    rest = [cell for cell in cells if cell not in keyed]
    if keyed:
        yield keyed, KEYED_ONLY
    if rest:
        yield rest, SETTLED_SOON
