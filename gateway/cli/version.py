"""`version`: which release this is, and what it runs on."""

import platform
from typing import TYPE_CHECKING, Annotated

import typer

from gateway.cli.output import Json, Output

if TYPE_CHECKING:
    from rich.console import Console

PARTS = ("faust-streaming", "aiokafka", "asyncpg", "fastapi", "pydantic")


def add_to(app: typer.Typer) -> None:
    """Add the command, and the option of the same name that people try first."""
    app.command("version", rich_help_panel="Operating")(show_version)
    app.callback()(_say_version)


def show_version(as_json: Json = False) -> None:
    """Say which release this is, with the versions of what it stands on.

    Example: actionledger version --json
    """
    from importlib.metadata import version

    out = Output("version", as_json=as_json)
    parts = {part: version(part) for part in PARTS}
    found = {
        "version": version("actionledger-server"),
        "python": platform.python_version(),
        "parts": parts,
    }

    def show(console: "Console") -> None:
        console.print(f"actionledger {found['version']}")
        for part, release in {"python": found["python"], **parts}.items():
            console.print(f"  {part} {release}")

    out.answer(found, show)


def _version_asked(is_asked: bool) -> None:
    from importlib.metadata import version

    if is_asked:
        typer.echo(f"actionledger {version('actionledger-server')}")
        raise typer.Exit


def _say_version(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version_asked, is_eager=True, help="Say which release this is."
        ),
    ] = False,
) -> None:
    """Nothing of its own: what to do is a command."""
