"""What commands say: for a person, or as one JSON document; and with which exit code they end.

Guarantees one shape of JSON for every command, answers on stdout and everything else on stderr, and
that no text of somebody else is more than text at a terminal. Called by every command.
"""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer

from ledger.core.errors import LedgerError
from ledger.core.excerpt import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout.", show_default=False)
]

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class Exit(IntEnum):
    """How a command ended; scripts may rely on these."""

    OK = 0
    TROUBLE = 1
    USAGE = 2
    DIFFERENCES = 3
    REFUSED = 4
    UNWRITTEN = 74
    """Stdout took the answer not whole (EX_IOERR of sysexits.h)."""
    INTERRUPTED = 130
    CLOSED_PIPE = 141
    """Whoever read stdout has left, as a shell names it."""


class UsageError(LedgerError):
    """The command was asked for something that cannot be."""


class Output:
    """The answer of one command."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        self.command = command
        self.as_json = as_json
        self._console: Console | None = None

    @property
    def console(self) -> "Console":
        """Where a person reads; honours NO_COLOR, and is plain where stdout is no terminal."""
        if self._console is None:
            self._console = safe_console(to="stdout")
        return self._console

    def answer(
        self, result: object, shown: Callable[["Console"], None], code: Exit = Exit.OK
    ) -> NoReturn:
        """Say the result, in one of both ways, and end with the code."""
        if self.as_json:
            document = {
                "command": self.command,
                "ok": code is Exit.OK,
                "exit_code": int(code),
                "result": plain(result),
            }
            write_json(document)
        else:
            shown(self.console)
        raise typer.Exit(code)


def safe_console(*, to: Literal["stdout", "stderr"]) -> "Console":
    """A console on which every text is text: agents, providers and colleagues wrote much of what is
    shown, and no byte of it commands the terminal, or turns what stands beside it around.
    """
    from rich.console import Console

    class Safe(Console):
        """Spells out what cannot be seen, before anything is made of a text."""

        def render_str(self, text: str, **options: Any) -> "Text":  # noqa: ANN401 - Rich's own
            """The text as it is shown."""
            return super().render_str("\n".join(map(visible, text.split("\n"))), **options)

    stream = sys.stdout if to == "stdout" else sys.stderr
    return Safe(stderr=to == "stderr", highlight=False, emoji=False, soft_wrap=not stream.isatty())


def plain(value: object) -> object:
    """A value as JSON has it: frozen views and models become objects, tuples become arrays."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(item) for name, item in asdict(value).items()}
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | frozenset | set) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    return value


def count_of(count: int, one: str) -> str:
    """So many of something: `1 line`, `2 lines`."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def write_json(document: object) -> None:
    """One JSON document on one line of stdout."""
    import json

    sys.stdout.write(json.dumps(document, default=str) + "\n")
    sys.stdout.flush()


def tell_trouble(command: str, trouble: LedgerError, code: Exit, *, as_json: bool) -> int:
    """Say what is wrong and what to do about it; the exit code."""
    if as_json:
        error: dict[str, Any] = {
            "code": code_of(trouble),
            "message": trouble.message,
            "hint": trouble.hint,
        }
        write_json({"command": command, "ok": False, "exit_code": int(code), "error": error})
    else:
        for text in filter(None, (trouble.message, trouble.hint)):
            # What it quotes may be a stranger's: no byte of it commands the terminal.
            lines = (visible(line) for line in text.split("\n"))
            sys.stderr.write("\n".join(lines) + "\n")
    return int(code)


def code_of(trouble: LedgerError) -> str:
    """A stable name of a kind of trouble: `PortTakenError` is `port_taken`."""
    name = type(trouble).__name__.removesuffix("Error")
    return _WORD_START.sub("_", name).lower()
