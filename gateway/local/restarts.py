"""Keeps one program running: started again whenever it ends, later each time.

Guarantees to go on without an end while a program ends, or is late, because of trouble of its
surroundings, as it says by its exit code; one that ends too often in a row by a fault of its own is
given up. Called by the supervisor.
"""

import asyncio
import logging

from gateway.local import limits
from gateway.local.errors import LocalError
from gateway.local.processes import until
from gateway.local.program import Program
from gateway.local.state import Phase, StateFolder
from gateway.wiring.life import EXIT_TROUBLE

logger = logging.getLogger("actionledger.local")

_DOUBLINGS_MAX = 16


def mark_ready(program: Program, state: StateFolder) -> None:
    """Note that a program does what it is there for, or that a step is done."""
    phase = Phase.DONE if program.is_step else Phase.READY
    state.change_process(program.name, phase=phase)
    logger.info("program_ready", extra={"program": program.name, "phase": phase.value})


async def keep_running(program: Program, state: StateFolder) -> None:
    """Start it again whenever it ends; returns once it is given up."""
    tries, faults, was_late = 0, 0, False
    while True:
        while not await until(
            lambda: not program.is_running, limits.HEALTHY_MS_MIN, limits.WATCH_MS
        ):
            tries, faults = 0, 0
        code = program.exit_code
        logger.warning("program_ended", extra={"program": program.name, "exit_code": code})
        # One that is not ready in time waits for something, or has a fault: who can tell.
        if code != EXIT_TROUBLE and not was_late:
            faults += 1
        if faults > limits.FAULTS_IN_A_ROW_MAX:
            logger.error("program_given_up", extra={"program": program.name})
            await _note_failed(program, state)
            return
        was_late = await _start_again(program, state, tries)
        tries += 1


async def _note_failed(program: Program, state: StateFolder) -> None:
    """Note that a program is given up, as soon as there is room to write that down."""
    while True:
        try:
            state.change_process(program.name, phase=Phase.FAILED)
        except LocalError as trouble:
            logger.warning(
                "state_not_written", extra={"program": program.name, "reason": trouble.message}
            )
            await asyncio.sleep(limits.RESTART_MS_MAX / 1_000)
        else:
            return


async def _start_again(program: Program, state: StateFolder, tries: int) -> bool:
    """Start it again after a while; trouble is told, the next try is the caller's. Whether it had
    to be ended because it was not ready in time.
    """
    known = state.state.processes.get(program.name)
    restarts = known.restarts + 1 if known else 1
    try:
        state.change_process(program.name, phase=Phase.RESTARTING, restarts=restarts)
        delay_ms = limits.RESTART_MS_FIRST << min(tries, _DOUBLINGS_MAX)
        await asyncio.sleep(min(delay_ms, limits.RESTART_MS_MAX) / 1_000)
        await program.start()
        await program.wait_ready()
        mark_ready(program, state)
    except (LocalError, OSError) as trouble:
        logger.warning(
            "program_restart_failed", extra={"program": program.name, "reason": str(trouble)}
        )
        was_late = program.is_running
        await program.kill()
        return was_late
    return False
