"""How every process lives: one loop, a heartbeat, a graceful stop with a deadline, an honest end.

Guarantees that SIGTERM and SIGINT stop the work and that the process is gone at the deadline even
where something hangs; that a failure is one log line and an exit code that says whose it is, so
that whoever supervises it starts another; and that the heartbeat file is touched only while the
main loop moves. Called by `gateway.wiring.processes`.
"""

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import asyncpg
import uvloop

from gateway.database_trouble import database_trouble
from gateway.garbage import seek_cycles_seldom
from ledger.core.errors import LedgerError

logger = logging.getLogger("actionledger.process")

STOP_MS_MAX: Final = 8_000
"""From the signal to the end; below the supervisors' own patience, after which they kill."""

TEARDOWN_MS_MAX: Final = 5_000
"""From the end of the work to the end of the process: closing connections must not hang it."""

BEAT_SECONDS: Final = 1.0
"""The heartbeat file is touched at most this often; it counts as still after 15 s."""

EXIT_FAILED: Final = 1
"""A fault of ours: started again as it is, it would very likely end so again."""

EXIT_TROUBLE: Final = 75
"""The surroundings are in trouble (EX_TEMPFAIL of sysexits.h): started again later it may well run,
however long that takes.
"""

EXIT_STUCK: Final = 70
"""It had to be ended at a deadline (EX_SOFTWARE of sysexits.h)."""

_SURROUNDINGS: Final = (
    OSError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
"""What servers that are away or refuse lead to, where nobody has put it into our words."""

Work = Callable[["Life"], Awaitable[None]]


class Life:
    """What a process is told while it runs, and what it tells: `stop` and `beat`."""

    def __init__(self, name: str, heartbeat: Path | None) -> None:
        self.stop = asyncio.Event()
        self._name = name
        self._heartbeat = heartbeat
        self._beat_at_s = 0.0
        self._is_told = False

    def ask_to_stop(self) -> None:
        """Set `stop`, and let the time run until the process is over. Again changes nothing."""
        if not self.stop.is_set():
            logger.info("process_stopping", extra={"program": self._name})
            self.stop.set()
            # Now, not in a task: the work may never give it a turn.
            end_after(STOP_MS_MAX, self._name)

    def beat(self) -> None:
        """Say that the main loop moves. Cheap: the file is touched once a second at most. That it
        cannot be touched is no reason to end: somebody has tidied up, or there is no room.
        """
        now_s = time.monotonic()
        if self._heartbeat is None or now_s - self._beat_at_s < BEAT_SECONDS:
            return
        if not self._beat_at_s:
            seek_cycles_seldom()
        self._beat_at_s = now_s
        try:
            _touch(self._heartbeat)
        except OSError as trouble:
            if not self._is_told:
                told = {"program": self._name, "reason": str(trouble)}
                logger.warning("heartbeat_not_written", extra=told)
            self._is_told = True
        else:
            self._is_told = False


def _touch(file: Path) -> None:
    """As `Path.touch`, but for a link: as root we would make what somebody else has chosen."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        os.utime(descriptor)
    finally:
        os.close(descriptor)


def live(name: str, work: Work, *, heartbeat: Path | None) -> int:
    """Run the work until it ends or a signal asks it to; the exit code of the process.

    Does not return where the work hangs at its end: the process is over at the deadline.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_lived(name, work, heartbeat))


async def _lived(name: str, work: Work, heartbeat: Path | None) -> int:
    life = Life(name, heartbeat)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, life.ask_to_stop)
    logger.info("process_started", extra={"program": name, "pid": os.getpid()})
    try:
        await work(life)
    except Exception as failure:  # noqa: BLE001 - whatever it is, the process ends of it
        code = _tell(name, failure)
        end_after(TEARDOWN_MS_MAX, name, code)
        return code
    logger.info("process_stopped", extra={"program": name})
    end_after(TEARDOWN_MS_MAX, name, 0)
    return 0


def _tell(name: str, failure: Exception) -> int:
    """Say why, last of all: supervisors show the last line. A fault of ours has its stack first.
    The exit code: whose the failure is.
    """
    reason = first_of(failure)
    is_ours = not isinstance(reason, (LedgerError, *_SURROUNDINGS))
    if is_ours:
        logger.error("process_fault", extra={"program": name}, exc_info=failure)
    told = str(database_trouble(reason) or reason) or repr(reason)
    logger.error("process_failed", extra={"program": name, "reason": told})
    return EXIT_FAILED if is_ours else EXIT_TROUBLE


def first_of(failure: BaseException) -> BaseException:
    """The first single error in a group, however deep."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure


def end_after(deadline_ms: int, name: str, code: int = EXIT_STUCK) -> None:
    """End the process at the deadline from a thread of its own: the loop may be what hangs."""

    def end() -> None:
        logger.critical("process_did_not_end", extra={"program": name, "deadline_ms": deadline_ms})
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    timer = threading.Timer(deadline_ms / 1_000, end)
    timer.daemon = True
    timer.start()
