"""The command `actionledger`: one file per group of commands, one place for answers and errors.

Guarantees stable exit codes (`gateway.cli.output.Exit`) and one JSON shape, and that known trouble
is told in two lines, never with a stack. Modules of commands import what they work with when they
are called, so that `--help` answers at once.
"""

import sys


def main() -> None:
    """Run the command line of this process and end it with the command's exit code."""
    from gateway.cli.app import run

    sys.exit(run(sys.argv[1:]))
