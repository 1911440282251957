"""`run`: be one process of the installation, in the foreground, until told to stop."""

from typing import Annotated

import typer

from gateway.wiring.names import Process


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run", rich_help_panel="Operating")(run_process)


def run_process(
    name: Annotated[Process, typer.Argument(help="Which process to be.", show_default=False)],
) -> None:
    """Be one process of the installation until SIGTERM; log lines go to stderr.

    Everything comes from ACTIONLEDGER_* variables. This is what containers and supervisors call;
    `actionledger up` runs all of them at once.

    Example: ACTIONLEDGER_KAFKA=broker:9092 actionledger run projector
    """
    from gateway.wiring.processes import run

    raise typer.Exit(run(name))
