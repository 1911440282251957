"""The command `actionledger`: one file per group of commands, one place for answers and errors.

Guarantees stable exit codes (`gateway.cli.output.Exit`) and one JSON shape, and that known trouble
is told in two lines, never with a stack. Modules of commands import what they work with when they
are called, so that `--help` answers at once.
"""

import sys


def main() -> None:
    """Run the command line of this process and end it with the command's exit code."""
    from gateway.garbage import seek_cycles_seldom

    seek_cycles_seldom()  # before what the command needs is loaded
    from gateway.cli.app import run
    from gateway.cli.stdout import guard_stderr, guard_stdin, guard_stdout

    guard_stdin()
    guard_stderr()
    guard_stdout()
    code = run(sys.argv[1:])
    sys.stdout.flush()
    sys.exit(code)
