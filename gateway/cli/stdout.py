"""Where answers go: a stdout whose reader has left, or that has no room, ends the command in order.
A stderr like that ends nothing: what is said beside the answer is left out.

Guarantees an exit code that says so (`Exit.UNWRITTEN`, `Exit.CLOSED_PIPE`), one line where somebody
has to know, and no stack: neither where the answer is written nor at the end of the process. What
the command has done by then is done. Put in place by `gateway.cli.main`.
"""

import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

from gateway.cli.output import Exit


class Stdout(TextIOWrapper):
    """The stdout of the process; a write or flush that fails ends it."""

    def write(self, text: str) -> int:
        """Write, or end the process."""
        try:
            return super().write(text)
        except OSError as failure:
            self._end(failure)

    def flush(self) -> None:
        """Flush, or end the process."""
        try:
            super().flush()
        except OSError as failure:
            self._end(failure)

    def _end(self, failure: OSError) -> NoReturn:
        # What stands in buffers is written once more at the end of the process.
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self.fileno())
        os.close(nothing)
        if isinstance(failure, BrokenPipeError):
            raise SystemExit(int(Exit.CLOSED_PIPE))
        # None where a command was started without a stderr.
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.write(
                    f"The answer could not be written to stdout: {failure.strerror}.\n"
                    "What the command did is done: look before you run it again.\n"
                )
        raise SystemExit(int(Exit.UNWRITTEN))


class Stderr(TextIOWrapper):
    """The stderr of the process; a write or flush that fails is left out, and the next tried."""

    def write(self, text: str) -> int:
        """Write what can be written."""
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be written."""
        with suppress(OSError):
            super().flush()


def guard_stdin() -> None:
    """A command that was started without any reads nothing from it, and asks nobody."""
    if sys.stdin is None:
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - kept


def guard_stderr() -> None:
    """Put it in place of the one that Python made: a command that waits ended in a stack where it
    said so, whatever it had done, and one that was started without any before it did anything.
    """
    made = sys.stderr
    if made is None:
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - kept
    elif isinstance(made, TextIOWrapper):
        encoding, errors, by_line = made.encoding, made.errors, made.line_buffering
        sys.stderr = Stderr(
            made.detach(),
            encoding=encoding,
            errors=errors,
            line_buffering=by_line,
            write_through=True,
        )


def guard_stdout() -> None:
    """Put it in place of the one that Python made, with its encoding, and with as much of a buffer.
    A command that was started without any says nothing.
    """
    made = sys.stdout
    if made is None:
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - kept
    elif isinstance(made, TextIOWrapper):
        encoding, by_line, at_once = made.encoding, made.line_buffering, made.write_through
        # At a terminal that is none of UTF-8 a mark becomes its code: without that a command ended
        # in a stack, whatever it had done.
        sys.stdout = Stdout(
            made.detach(),
            encoding=encoding,
            errors="backslashreplace",
            line_buffering=by_line,
            write_through=at_once,
        )
