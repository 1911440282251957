"""The command `actionledger` as its users run it: its exit code, its JSON, its lines."""

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gateway.cli import app

SECONDS_MAX = 120
COMMAND = Path(sys.executable).with_name("actionledger")


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:  # noqa: ANN401 - as free as JSON is
        """Its JSON document."""
        return json.loads(self.out)

    @property
    def result(self) -> Any:  # noqa: ANN401 - as free as JSON is
        """The result in its JSON document."""
        return self.document["result"]


@dataclass(frozen=True)
class Installation:
    """A state folder of its own, and the command on it."""

    folder: Path

    def json(self, *arguments: str, given: str | None = None) -> Said:
        """Run a command with --json in this process: as the command does, without its start."""
        return self.run(*arguments, "--json", given=given)

    def run(self, *arguments: str, given: str | None = None) -> Said:
        """Run a command in this process."""
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ACTIONLEDGER_STATE", str(self.folder))
            if given is not None:
                patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode())))
            with redirect_stdout(out), redirect_stderr(err):
                code = app.run(arguments)
        return Said(code, out.getvalue(), err.getvalue())


def start(folder: Path, *arguments: str) -> Said:
    """Run the command as a process on a state folder; nothing else is configured."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ACTIONLEDGER_", "XDG_"))
    }
    ended = subprocess.run(
        [COMMAND, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
        env=environment | {"ACTIONLEDGER_STATE": str(folder)},
    )
    return Said(ended.returncode, ended.stdout, ended.stderr)
