"""The command `actionledger` in this process: what it says and how it ends, without its start.

A start is more than a second of processor time, and is the same for every command; those that are
about the process itself start one (`tests.acceptance.command.start`).
"""

import asyncio
import io
import json
import os
import threading
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest

from gateway.cli import app

_ONE_AT_A_TIME = threading.Lock()
"""What is written to is the process's own."""


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


def told(arguments: tuple[str, ...], environment: Mapping[str, str], typed: str = "") -> Said:
    """Run a command with what is typed at it. Nothing else is configured than what is given."""
    out, err = io.StringIO(), io.StringIO()
    with _ONE_AT_A_TIME, pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("ACTIONLEDGER_", "XDG_")):
                patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(typed.encode())))
        with redirect_stdout(out), redirect_stderr(err):
            code = app.run(arguments)
    return Said(code, out.getvalue(), err.getvalue())


async def told_beside(
    arguments: tuple[str, ...], environment: Mapping[str, str], typed: str = ""
) -> Said:
    """The same, while the loop of the test goes on with what the command talks to."""
    return await asyncio.to_thread(told, arguments, environment, typed)
