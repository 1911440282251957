"""`run NAME`: be one process of the installation, in the foreground, until told to stop."""

from collections.abc import Callable

import typer

from gateway.cli.runs import run_group
from gateway.wiring.names import Process

PANEL = "Processes of an installation"


def add_to(_app: typer.Typer) -> None:
    """Add a command for each process, beside those about runs of agents."""
    for process in Process:
        run_group.command(process.value, rich_help_panel=PANEL, help=_help(process))(_be(process))


def _help(process: Process) -> str:
    return (
        f"Be the process {process.value} of the installation until SIGTERM; log lines go to "
        "stderr.\n\nEverything comes from ACTIONLEDGER_* variables. This is what containers and "
        "supervisors call; `actionledger up` runs all of them at once.\n\nExample: "
        f"ACTIONLEDGER_KAFKA=broker:9092 actionledger run {process.value}"
    )


def _be(process: Process) -> Callable[[], None]:
    def be() -> None:
        from gateway.wiring.processes import run

        raise typer.Exit(run(process))

    return be
