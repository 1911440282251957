"""A supervisor outlasts any outage, and gives up on what fails by its own fault. Real processes."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.cli.app import run
from gateway.cli.output import Exit
from gateway.local import limits
from gateway.local.control import status
from gateway.local.processes import identify
from gateway.local.restarts import keep_running
from gateway.local.service import Service, ServiceProgram, moved_file
from gateway.local.state import Phase, ProcessRecord, StateFolder, read_state
from gateway.wiring.life import EXIT_FAILED, EXIT_TROUBLE
from tests.patience import PATIENCE_SECONDS

LOOK_SECONDS = 0.01
FAULTS_MAX = 2


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StateFolder]:
    """A state folder of its own, and no long waits between two starts."""
    monkeypatch.setattr(limits, "RESTART_MS_FIRST", 1)
    monkeypatch.setattr(limits, "RESTART_MS_MAX", 1)
    monkeypatch.setattr(limits, "WATCH_MS", 5)
    monkeypatch.setattr(limits, "FAULTS_IN_A_ROW_MAX", FAULTS_MAX)
    held = StateFolder.hold(tmp_path / "state")
    yield held
    held.release()


def ending_with(code: int, state: StateFolder) -> ServiceProgram:
    """A service that ends at once."""
    argv = (sys.executable, "-S", "-c", f"raise SystemExit({code})")
    return ServiceProgram(Service(name="tried", argv=argv), state)


async def test_faults_in_a_row_are_given_up(state: StateFolder) -> None:
    """After its last chance it stays down and is shown as failed."""
    program = ending_with(EXIT_FAILED, state)
    await program.start()
    async with asyncio.timeout(PATIENCE_SECONDS):
        await keep_running(program, state)
    known = state.state.processes["tried"]
    assert (known.phase, known.restarts) == (Phase.FAILED, FAULTS_MAX)


async def test_trouble_of_the_surroundings_is_outlasted(state: StateFolder) -> None:
    """However often it ends with that code it is started again."""
    program = ending_with(EXIT_TROUBLE, state)
    await program.start()
    keeping = asyncio.create_task(keep_running(program, state))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while state.state.processes["tried"].restarts <= 5 * FAULTS_MAX:
            await asyncio.sleep(LOOK_SECONDS)
    assert not keeping.done()
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await program.kill()


async def test_a_disk_without_room_ends_no_supervisor(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That a program was given up is written down as soon as there is room; until then the others
    go on.
    """
    program = ending_with(EXIT_FAILED, state)
    monkeypatch.setattr(limits, "FAULTS_IN_A_ROW_MAX", 0)
    await program.start()
    # A folder in the place of the file: it cannot be written.
    in_the_way = state.folder / "state.json"
    in_the_way.unlink()
    in_the_way.mkdir()
    keeping = asyncio.create_task(keep_running(program, state))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while state.state.processes["tried"].phase is not Phase.FAILED:
            await asyncio.sleep(LOOK_SECONDS)
        assert not keeping.done()
        in_the_way.rmdir()
        await keeping
    known = read_state(state.folder)
    assert known is not None
    assert known.processes["tried"].phase is Phase.FAILED


async def test_what_runs_and_has_not_moved_is_told(
    state: StateFolder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that somebody stopped, or that hangs, is no failure that a supervisor sees: the
    status and the doctor name it, and what to do.
    """
    me = identify(os.getpid())
    assert me is not None
    log = state.folder / "logs" / "processor.log"
    for name in ("supervisor", "processor"):
        record = ProcessRecord.of(me, port=None, log=log)
        state.record(name, record.model_copy(update={"phase": Phase.READY}))
    state.change(phase=Phase.READY)
    moved = moved_file(state.folder, "processor")
    moved.parent.mkdir()
    moved.touch()
    assert not any(one.is_still for one in status(state.folder).processes)
    long_ago = time.time() - 2 * limits.STILL_MS_MAX / 1_000
    os.utime(moved, (long_ago, long_ago))
    (still,) = [one for one in status(state.folder).processes if one.is_still]
    assert still.name == "processor"
    monkeypatch.setenv("ACTIONLEDGER_STATE", str(state.folder))
    assert await asyncio.to_thread(run, ["doctor"]) == Exit.TROUBLE
    told = capsys.readouterr().out
    assert "processor runs and has not moved for 3" in told
    assert f"kill -CONT {os.getpid()}" in told
