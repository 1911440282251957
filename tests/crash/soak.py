"""The soak: minutes of mixed traffic on a whole installation while everything is struck at random.

    python -m tests.crash.soak [--seconds N] [--seed N] [--rate ACTIONS_A_SECOND] [--report FILE]

Two processes of each kind, real Kafka, real Postgres, a provider with a book of its own. Every 3 to
15 s a process is killed, frozen or asked to stop, a server is killed or restarted, poison or a new
configuration is written. Then all is healed, everything settles, and V1 to V5 are measured, every
law is held against the run, and the tables are rebuilt from the log and compared. Ends with 1 when
anything is broken; the report says what was tried and what was found.
"""

import argparse
import asyncio
import contextlib
import itertools
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg

from gateway import local
from projections.rebuild import rebuild
from tests.crash.checker import check
from tests.crash.evidence import Run
from tests.crash.gathering import gather
from tests.crash.load import Agents, script, wishes
from tests.crash.machine import PROCESSES, PROVIDER, Machine, machine
from tests.crash.nemesis import Nemesis
from tests.crash.quiet import Kept, quiet_time
from tests.crash.soak_report import Soaked, told

SECONDS = 600
RATE = 8
ANSWER_SECONDS_MAX = 300.0
"""How long an agent asks: its door and all behind it may be struck again and again meanwhile."""

WAVES_AT_ONCE_MAX = 60
"""Waves of one second each that may wait for their answers: more than the longest outage."""

LINES_KEPT = 20_000
REBUILD_BATCHES = (50, 500)
"""S14: the same bytes, whatever the size of a batch."""


async def agents_at_work(on: Machine, seed: int, rate: int, until: float) -> int:
    """Ask for so many actions every second, at both doors in turn; how many were asked for."""
    asked, began = 0, time.monotonic()
    async with asyncio.TaskGroup() as group:
        room = asyncio.Semaphore(WAVES_AT_ONCE_MAX)

        async def wave(number: int) -> None:
            door = on.doors[number % len(on.doors)]
            agents = Agents(door, on.keys, on.clients_file, seed + number, ANSWER_SECONDS_MAX)
            await agents.work(wishes(seed + number, rate))
            room.release()

        for number in itertools.count():
            if time.monotonic() >= until:
                break
            await room.acquire()
            await script(on.provider_url, wishes(seed + number, rate))
            group.create_task(wave(number))
            asked += rate
            await on.hold(began + number + 1 - time.monotonic())
    return asked


async def soak(
    servers: local.Servers, folder: Path, *, seconds: int, seed: int, rate: int
) -> Soaked:
    """Work, strike, heal, settle, measure, judge."""
    kafka, guarded = servers.kafka_bootstrap, servers.kafka_guarded
    async with (
        machine(kafka, servers.admin_url, folder, guarded=guarded) as on,
        kept_words(on),
    ):
        await on.start(PROVIDER, *PROCESSES)
        for process in PROCESSES:
            await on.start_twin(process)
        nemesis = Nemesis(on, servers, seed)
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            working = group.create_task(agents_at_work(on, seed, rate, began + seconds))
            group.create_task(nemesis.rage(seconds, say))
        await on.ready(*on.supervised)
        healed_at = time.monotonic()
        say("healed")
        kept, asked = await quiet_promises(on, seed, working.result(), healed_at)
        say("judging")
        run = await gather(on.sources)
        report = check(run)
        say("rebuilding")
        kept.append(await rebuilds_equal(on))
        if not report.is_right or not all(one.is_kept for one in kept):
            keep_evidence(run, on)
        return Soaked(
            seed=seed,
            seconds=seconds,
            asked=asked,
            took_seconds=round(time.monotonic() - began),
            struck=nemesis.struck,
            endings=on.endings(),
            kept=kept,
            report=report,
        )


async def quiet_promises(
    on: Machine, seed: int, asked: int, healed_at: float
) -> tuple[list[Kept], int]:
    """V1 to V5, and how many actions were asked for in all."""
    async with quiet_time(on, seed) as quiet:
        kept = [await quiet.settles(asked, healed_at)]
        epochs, since = await quiet.epochs(), time.monotonic()
        kept.append(await quiet.shows())
        kept.append(await quiet.sets_poison_aside())
        kept.append(await quiet.answers_at_every_door())
        kept.append(await quiet.is_calm(since, epochs))
        kept.append(await quiet.settles(asked + quiet.asked, time.monotonic()))
        return kept, asked + quiet.asked


async def rebuilds_equal(on: Machine) -> Kept:
    """S14: dropped and projected again from the log, the tables are the same bytes."""
    digests, records = set(), 0
    async with await asyncpg.create_pool(on.database_url, min_size=0, max_size=4) as pool:
        for batch in REBUILD_BATCHES:
            rebuilt = await rebuild(on.log, pool, batch_records=batch)
            digests |= {rebuilt.live.sha256, rebuilt.beside.sha256}
            records = rebuilt.record_count
    what = f"{records} records in batches of {' and '.join(map(str, REBUILD_BATCHES))}"
    return Kept("S14", len(digests) == 1, f"{what}: {len(digests)} digest")


@contextlib.asynccontextmanager
async def kept_words(on: Machine) -> AsyncIterator[None]:
    """Keep what the processes wrote where a soak does not come to its end."""
    try:
        yield
    except BaseException:
        folder = Path(tempfile.mkdtemp(prefix="actionledger-soak-"))
        (folder / "logs.txt").write_text(on.last_words(LINES_KEPT), encoding="utf-8")
        say(f"kept in {folder}")
        raise


def keep_evidence(run: Run, on: Machine) -> None:
    """Leave behind what is needed to find out what happened."""
    folder = Path(tempfile.mkdtemp(prefix="actionledger-soak-"))
    run.save(folder / "run.json")
    (folder / "logs.txt").write_text(on.last_words(LINES_KEPT), encoding="utf-8")
    say(f"kept in {folder}: judge it again with python -m tests.crash.checker --saved")


def commit() -> str:
    """Which commit this is, where it is one."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def say(what: str) -> None:
    """Say a line, with the time of day."""
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {what}\n")
    sys.stdout.flush()


async def run(seconds: int, seed: int, rate: int) -> Soaked:
    """Start everything, soak, and end everything."""
    with tempfile.TemporaryDirectory(prefix="actionledger-soak-") as folder:
        async with local.servers() as servers:
            return await soak(servers, Path(folder), seconds=seconds, seed=seed, rate=rate)


def main(arguments: list[str]) -> int:
    """Soak and report; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.soak", description=__doc__)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--rate", type=int, default=RATE)
    parser.add_argument("--report", type=Path, help="where the report goes beside the terminal")
    parser.add_argument("--commit", default=commit(), help="what the report is to call the code")
    given = parser.parse_args(arguments)
    say(f"seed {given.seed}, {given.seconds} s, {given.rate} actions a second")
    soaked = asyncio.run(run(given.seconds, given.seed, given.rate))
    text = told(soaked, given.commit)
    sys.stdout.write(text)
    if given.report is not None:
        given.report.parent.mkdir(parents=True, exist_ok=True)
        given.report.write_text(text, encoding="utf-8")
    return 0 if soaked.is_right else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
