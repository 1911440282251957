"""The processes by name, and how one is started: settings, log lines, then its own module.

    python -m gateway.wiring.processes NAME

Guarantees that a process loads only what it needs: its module is imported when it is started.
Called by `actionledger run NAME`, by the local supervisor and by the containers.
"""

import os
import sys
from importlib import import_module

from gateway.garbage import seek_cycles_seldom
from gateway.logs import set_up_logs
from gateway.settings import Settings, SettingsError
from gateway.wiring.life import Life, live
from gateway.wiring.names import Process

EXIT_USAGE = 2


def run(process: Process) -> int:
    """Be this process until it ends; its exit code. Raises SettingsError."""
    settings = Settings.from_environment()
    set_up_logs(settings.log_level, settings.log_format)
    module = import_module(process.module)
    os.nice(process.niceness)

    async def work(life: Life) -> None:
        await module.run(settings, life)

    return live(process.value, work, heartbeat=settings.heartbeat)


def main(arguments: list[str]) -> int:
    """Run the named process; what is wrong with the environment goes to stderr."""
    seek_cycles_seldom()  # before what it needs is loaded
    try:
        return run(Process(arguments[0]))
    except SettingsError as error:
        sys.stderr.write(f"{error.message}\n{error.hint}\n")
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
