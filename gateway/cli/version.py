"""`version`: which release this is, and what it runs on."""

import platform

import typer

from gateway.cli.output import Json, Output

PARTS = ("faust-streaming", "aiokafka", "asyncpg", "fastapi", "pydantic")


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("version", rich_help_panel="Operating")(show_version)


def show_version(as_json: Json = False) -> None:
    """Say which release this is, with the versions of what it stands on.

    Example: actionledger version --json
    """
    from importlib.metadata import version

    out = Output("version", as_json=as_json)
    found = {
        "version": version("actionledger-server"),
        "python": platform.python_version(),
        "parts": {part: version(part) for part in PARTS},
    }
    out.answer(found, lambda console: console.print(f"actionledger {found['version']}"))
