"""The demonstration from an empty folder to an empty folder: set up, tell, check, clean up; or told
on an installation that runs.

Guarantees that nothing of it is left, unless it was asked to stay. Called by `actionledger demo`.
"""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.cli.output import Output
from gateway.cli.progress import progress
from gateway.demo.chapter import Chapter
from gateway.demo.claims import Told
from gateway.demo.running_installation import visited
from gateway.demo.scene import Scene
from gateway.demo.stage import Afterwards, Stage, staged
from gateway.demo.telling import Telling
from gateway.demo.witness import watching
from gateway.local import prepare
from gateway.settings import Settings
from gateway.wiring.installation import open_log
from gateway.wiring.local import PARTITIONS
from gateway.wiring.names import Process

if TYPE_CHECKING:
    from rich.console import Console


class _Clock:
    """What each phase took."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._at_s = self._begun_s = time.monotonic()

    def over(self, phase: str) -> int:
        """End a phase; its milliseconds."""
        now_s = time.monotonic()
        took_ms = round((now_s - self._at_s) * 1_000)
        self._told.took_ms[phase] = took_ms
        self._at_s = now_s
        return took_ms


def run_demo(
    out: Output, chapter: Chapter, afterwards: Afterwards, *, here: Path | None = None
) -> Told:
    """Tell a chapter, on the installation that runs in the folder `here` where one is named.

    Raises LocalError or NotHereError where it cannot begin, NotSeenError where it breaks off.
    """
    console = None if out.as_json else out.console
    return asyncio.run(_told(console, chapter, afterwards, here))


async def _told(
    console: "Console | None", chapter: Chapter, afterwards: Afterwards, here: Path | None
) -> Told:
    told = Told(chapter.name)
    clock = _Clock(told)
    telling = Telling(console)
    async with AsyncExitStack() as closing:
        if here is None:
            stage = await _started(closing, telling, clock, chapter, afterwards)
        else:
            telling.title(chapter.title)
            stage = await closing.enter_async_context(visited(here, chapter.name))
            clock.over("start")
            telling.say(f"Told in {here}, of a tenant of its own: {stage.tenant}.")
        log = open_log(stage.settings, "demo")
        async with watching(log, PARTITIONS, stage.tenant) as witness:
            await chapter.tell(Scene(stage, witness, telling, told))
            told.records = list(witness.seen)
        clock.over("story")
        telling.claims(told.claims, (told.took_ms["start"] + told.took_ms["story"]) / 1_000)
        if here is None and afterwards is Afterwards.STAY:
            told.state_dir = str(stage.folder)
            telling.say(f"Kept: ACTIONLEDGER_STATE={stage.folder} actionledger status")
    clock.over("stop")
    return told


async def _started(
    closing: AsyncExitStack,
    telling: Telling,
    clock: _Clock,
    chapter: Chapter,
    afterwards: Afterwards,
) -> Stage:
    """An installation of the chapter's own."""
    cache = Settings.from_environment().cache_dir
    with progress() as report:
        await prepare(cache, report)
        clock.over("set_up")
        telling.title(chapter.title)
        telling.say(
            f"Apache Kafka, PostgreSQL, {len(Process) - 3} processes of the ledger and a "
            "payment provider with a book of its own start in a temporary folder. Nothing is "
            "simulated but the provider."
        )
        stage = await closing.enter_async_context(staged(cache, report, afterwards))
    telling.say(f"Ready after {clock.over('start') / 1_000:.1f} s.")
    return stage
