"""The passphrase of a person's key: asked for at the terminal, or read where nobody sits.

Guarantees that it is never an argument and never shown. Called by commands that sign.
"""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from gateway.cli.output import UsageError

CHARS_MAX: Final = 1_024

PassphraseFile = Annotated[
    Path | None,
    typer.Option(
        help="Read the passphrase from the first line of a file instead of asking for it.",
        show_default=False,
    ),
]


def own_passphrase(file: Path | None) -> str:
    """The passphrase of a key that is there. Raises UsageError."""
    if file is not None:
        return _from_file(file)
    _check_terminal()
    return _within(str(typer.prompt("Passphrase of your key", hide_input=True, err=True)))


def chosen_passphrase(file: Path | None, *, chars_min: int) -> str:
    """A new passphrase, asked for twice until both are the same. Raises UsageError."""
    if file is not None:
        return _from_file(file)
    _check_terminal()
    typer.echo(f"Choose a passphrase of at least {chars_min} characters: some words.", err=True)
    said = typer.prompt(
        "Passphrase of the new key", hide_input=True, confirmation_prompt=True, err=True
    )
    return _within(str(said))


def _check_terminal() -> None:
    if not sys.stdin.isatty():
        raise UsageError(
            "There is no terminal to ask for the passphrase.",
            hint="Run it at one, or name a --passphrase-file.",
        )


def _from_file(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            line = opened.readline(CHARS_MAX + 2)
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no text"
        raise UsageError(
            f"The passphrase in {file} cannot be read: {said}.", hint="Name another file."
        ) from error
    return _within(line.rstrip("\r\n"))


def _within(passphrase: str) -> str:
    if len(passphrase) > CHARS_MAX:
        raise UsageError(
            "The passphrase is too long.", hint=f"At most {CHARS_MAX} characters are taken."
        )
    return passphrase
