"""Commands whose stdout takes no answer: a full disk, a reader who has left, none at all."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.cli.output import Exit

FULL = Path("/dev/full")
COMMAND = "from gateway.cli import main; main()"
COMMANDS = {
    "an answer for a person": ("version",),
    "a document": ("version", "--json"),
    "help": ("--help",),
    "trouble as a document": ("log", "tail", "--json", "--topic", "no such topic"),
}


@contextmanager
def left_pipe() -> Iterator[int]:
    """A pipe that nobody reads any more."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)


def run(arguments: tuple[str, ...], stdout: int, folder: Path) -> tuple[int, str]:
    """Run a command with this stdout: its exit code, and what it said on stderr."""
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=os.environ | {"ACTIONLEDGER_STATE": str(folder)},
        text=True,
        check=False,
    )
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_full_disk_is_named(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """Not by a stack, and not by the code of what the command did."""
    with FULL.open("wb") as full:
        code, said = run(arguments, full.fileno(), tmp_path)
    assert code == Exit.UNWRITTEN
    assert said.startswith("The answer could not be written to stdout: No space left on device.\n")
    assert "Traceback" not in said
    assert "Exception" not in said


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_a_reader_who_has_left_is_told_nothing(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """As other programs end in `| head -1`: by the code of a closed pipe, without a word."""
    with left_pipe() as pipe:
        assert run(arguments, pipe, tmp_path) == (Exit.CLOSED_PIPE, "")


def test_without_a_stdout_a_command_does_its_work(tmp_path: Path) -> None:
    """Closed by whoever began it (`>&-`), it is where nothing is wanted."""
    ended = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-c", COMMAND, "version"],
        stderr=subprocess.PIPE,
        env=os.environ | {"ACTIONLEDGER_STATE": str(tmp_path)},
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_full_disk_is_named_by_the_code_where_nobody_reads_a_word(tmp_path: Path) -> None:
    """With stderr closed too (`2>&-`) it ended as a fault of the program does."""
    with FULL.open("wb") as full:
        ended = subprocess.run(
            ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-c", COMMAND, "version"],
            stdout=full.fileno(),
            env=os.environ | {"ACTIONLEDGER_STATE": str(tmp_path)},
            check=False,
        )
    assert ended.returncode == Exit.UNWRITTEN


@pytest.mark.parametrize(("unbuffered", "came"), [("", ""), ("1", "a line\n")])
def test_a_line_leaves_at_once_where_python_was_told_so(unbuffered: str, came: str) -> None:
    """As in the image: logs of a container came with its end. This program ends without one."""
    code = (
        "import os; from gateway.cli.stdout import guard_stdout; guard_stdout(); "
        "print('a line'); os._exit(0)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        text=True,
        check=True,
    )
    assert ended.stdout == came


ALOUD = """
import sys
from gateway.cli.stdout import guard_stderr, guard_stdin
guard_stdin()
guard_stderr()
sys.stderr.write("It is undecided; waiting.\\n")
sys.stderr.flush()
print(sys.stderr.isatty(), sys.stdin.isatty(), "went on")
"""


@pytest.mark.parametrize("closed", ["2>/dev/full", "2>&-", "2>&- <&-"])
def test_a_command_goes_on_where_nobody_hears_what_it_says_beside_its_answer(closed: str) -> None:
    """It ended in a stack where it said what it waits for, with the effect on its way; and where it
    asked whether somebody looks, before it had done anything.
    """
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", ALOUD],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (0, "False False went on\n")


@pytest.mark.parametrize("closed", ["2>/dev/full", "2>&-"])
def test_a_wrong_usage_is_told_by_its_code_where_nobody_reads_a_word(
    closed: str, tmp_path: Path
) -> None:
    """By that of a wrong usage, and not of a fault of the program."""
    ended = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", COMMAND, "propose"],
        env=os.environ | {"ACTIONLEDGER_STATE": str(tmp_path)},
        check=False,
    )
    assert ended.returncode == Exit.USAGE
