"""The process behind `actionledger up`: starts everything, keeps it running, ends it in order.

Run as `python -m gateway.local.supervisor LOCK_FD FOLDER CACHE` by `control.up`, which hands over
the lock of the folder. Guarantees: Kafka and Postgres run before the first service (unless there
are others to be used); a program that crashes is started again, later each time; on SIGTERM all
end, services first; a start that fails leaves nothing running and its reason in the state file.
What is left of a supervisor that was killed itself is ended by the next `up`. Must never write
outside the folder and the cache.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from gateway.local import limits
from gateway.local.errors import LocalError
from gateway.local.jars import ensure_jars
from gateway.local.java import Java, find_java
from gateway.local.kafka import NAME as KAFKA
from gateway.local.kafka import KafkaServer
from gateway.local.logs import rotate_all
from gateway.local.postgres import PostgresServer
from gateway.local.processes import identify
from gateway.local.restarts import keep_running, mark_ready
from gateway.local.servers import start_together
from gateway.local.service import SERVICES, Service, ServiceProgram
from gateway.local.state import Phase, ProcessRecord, StateFolder
from gateway.local.training import train
from gateway.logs import set_up_logs
from gateway.settings import LogFormat, LogLevel

if TYPE_CHECKING:
    from gateway.local.program import Program

NAME = "supervisor"
KAFKA_LOG = f"{KAFKA}.log"  # rotates itself
logger = logging.getLogger("actionledger.local")


class Supervisor:
    """All programs of a state folder."""

    def __init__(self, state: StateFolder, java: Java | None, services: Iterable[Service]) -> None:
        """Describe them; `run` is the rest. Without a Java there are no servers of ours."""
        self._state = state
        self._java = java
        # What starts side by side: the servers, then each step alone, then services up to the next.
        self._groups: list[list[Program]] = []
        if java is not None:
            self._groups.append([KafkaServer(state, java), PostgresServer(state)])
        for is_step, members in groupby(services, key=lambda service: service.is_step):
            programs: list[Program] = [ServiceProgram(service, state) for service in members]
            self._groups += [[each] for each in programs] if is_step else [programs]

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT; the exit code is 1 when the start failed."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        failure: LocalError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                work = group.create_task(self._work())
                await stop.wait()
                work.cancel()
        except* LocalError as trouble:
            failure = _first(trouble)
        finally:
            await self._stop_all()
        if failure is None:
            self._state.change(phase=Phase.STOPPED, processes={})
            return 0
        logger.error("supervisor_start_failed", extra={"reason": failure.message})
        self._state.change(
            phase=Phase.FAILED, failure=(failure.message, failure.hint), processes={}
        )
        return 1

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for group in self._groups:
                await start_together(*group)
                for program in group:
                    mark_ready(program, self._state)
                    if not program.is_step:
                        tasks.create_task(keep_running(program, self._state))
            self._state.change(phase=Phase.READY)
            logger.info("supervisor_ready")
            tasks.create_task(self._rotate_logs())
            tasks.create_task(self._train_later())

    async def _rotate_logs(self) -> None:
        told = ""
        while True:
            troubles = rotate_all(self._state.folder / "logs", but=KAFKA_LOG)
            reason = str(troubles[0]) if troubles else ""
            if reason and reason != told:
                logger.warning("logs_not_rotated", extra={"reason": reason})
            told = reason
            await asyncio.sleep(limits.ROTATE_MS / 1000)

    async def _train_later(self) -> None:
        if self._java is None or self._java.aot_cache.exists():
            return
        await asyncio.sleep(limits.TRAINING_DELAY_MS / 1000)
        try:
            await train(self._java)
        except Exception as trouble:  # noqa: BLE001 - only the next start's speed depended on it
            logger.warning("training_failed", extra={"reason": str(trouble) or repr(trouble)})

    async def _stop_all(self) -> None:
        logger.info("supervisor_stopping")
        for group in reversed(self._groups):
            await asyncio.gather(*[program.stop() for program in group])


def _first(trouble: BaseExceptionGroup[LocalError]) -> LocalError:
    """Return the first error of a group, however deep it is."""
    inner: BaseException = trouble
    while isinstance(inner, BaseExceptionGroup):
        inner = inner.exceptions[0]
    if not isinstance(inner, LocalError):  # the group holds no others
        raise inner
    return inner


def _detach() -> None:
    """Leave the terminal and the parent: whoever called `up` neither waits for us nor ends us."""
    if os.fork():
        os._exit(0)
    os.setsid()


def main(arguments: list[str]) -> int:
    """Take over the folder and run."""
    lock_descriptor, folder, cache = int(arguments[0]), Path(arguments[1]), Path(arguments[2])
    # Before the parent hears that we run: it lets go of the ports then.
    state = StateFolder(folder, lock_descriptor)
    _detach()
    # Or our children would hold it after our death.
    os.set_inheritable(lock_descriptor, False)  # noqa: FBT003 - takes no keyword
    set_up_logs(LogLevel.INFO, LogFormat.JSON)
    me = identify(os.getpid())
    if me is None:
        raise ProcessLookupError
    log = folder / "logs" / f"{NAME}.log"
    record = ProcessRecord.of(me, port=None, log=log)
    state.record(NAME, record.model_copy(update={"phase": Phase.READY}))
    logger.info("supervisor_started", extra={"folder": str(folder), "pid": me.pid})
    try:
        services = SERVICES.validate_json((folder / "services.json").read_bytes())
        java = None if state.state.external else find_java(cache, ensure_jars(cache))
    except LocalError as trouble:
        state.change(phase=Phase.FAILED, failure=(trouble.message, trouble.hint), processes={})
        return 1
    return asyncio.run(Supervisor(state, java, services).run())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
