"""A crash point ends or freezes its process at the time it is told, and is nothing otherwise."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import timeit

from ledger.log.crashpoints import POINTS, crash_point, crash_when, crash_while
from tests.patience import PATIENCE_SECONDS

PASSES = """
import asyncio
from ledger.log.crashpoints import crash_point, crash_when, crash_while
async def answered():
    print("begun", flush=True)
    await asyncio.Event().wait()
async def main():
    for number in range(1, 4):
        print(number, flush=True)
        crash_point("tick_acked")
        crash_point("decisions_acked")
    asked = iter((False, False, True))
    await crash_when("revoke_in_batch", lambda: next(asked))
    await crash_while("tick_sent", answered())
asyncio.run(main())
"""
LOOK_SECONDS = 0.02
NOTHING_SECONDS_MAX = 0.000_002
"""Far above what a point costs, far below what anybody would feel."""


def passing(crash_at: str) -> "subprocess.Popen[str]":
    """Start a process that passes points, armed like this."""
    return subprocess.Popen(
        [sys.executable, "-c", PASSES],
        env={"ACTIONLEDGER_CRASH_AT": crash_at, "PATH": os.defpath},
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(crash_at: str) -> tuple[int, list[str]]:
    """How such a process ended, and what it had said before."""
    with passing(crash_at) as process:
        said, _ = process.communicate(timeout=PATIENCE_SECONDS)
        return process.returncode, said.split()


def test_a_process_dies_at_the_point_and_time_it_is_told() -> None:
    """The nth pass is the last, and without a number the first is."""
    assert ended("tick_acked") == (-signal.SIGKILL, ["1"])
    assert ended("decisions_acked:3") == (-signal.SIGKILL, ["1", "2", "3"])


def test_a_process_dies_between_a_beginning_and_its_answer() -> None:
    """What was begun has begun, and its answer never comes."""
    assert ended("tick_sent") == (-signal.SIGKILL, ["1", "2", "3", "begun"])


def test_a_process_dies_when_its_moment_has_come() -> None:
    """A moment that another process brings is waited for."""
    assert ended("revoke_in_batch") == (-signal.SIGKILL, ["1", "2", "3"])


def test_a_frozen_process_goes_on_where_it_stood() -> None:
    """It stops there, and when somebody lets it, it goes on as if nothing had been."""
    with passing("tick_acked:2:freeze") as process:
        until = time.monotonic() + PATIENCE_SECONDS
        waited = (0, 0)
        while waited[0] == 0 and time.monotonic() < until:
            waited = os.waitpid(process.pid, os.WUNTRACED | os.WNOHANG)
            time.sleep(LOOK_SECONDS)
        assert os.WIFSTOPPED(waited[1])
        process.send_signal(signal.SIGCONT)
        assert process.stdout is not None
        assert [process.stdout.readline().strip() for _ in range(4)] == ["1", "2", "3", "begun"]
        process.kill()


async def test_nothing_happens_where_nothing_is_armed() -> None:
    """Points are passed, what is asked is asked itself, and no time goes by."""

    async def answer() -> int:
        return 7

    asking = answer()
    assert crash_while("tick_sent", asking) is asking
    assert await asking == 7
    async with asyncio.timeout(PATIENCE_SECONDS):
        await crash_when("revoke_in_batch", lambda: False)
    seconds = min(timeit.repeat(lambda: crash_point("tick_sent"), number=1_000, repeat=5)) / 1_000
    assert seconds < NOTHING_SECONDS_MAX


def test_every_point_says_what_its_moment_is() -> None:
    """Names are given once, and each has its process and one sentence."""
    names = [point.name for point in POINTS]
    assert len(set(names)) == len(names)
    assert all(point.moment.endswith(".") and point.process for point in POINTS)
