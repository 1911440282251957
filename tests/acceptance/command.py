"""The command `actionledger` as its users run it: its exit code, its JSON, its lines."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.commands import Said, told
from tests.patience import PATIENCE_SECONDS

SECONDS_MAX = 2 * PATIENCE_SECONDS
COMMAND = Path(sys.executable).with_name("actionledger")


@dataclass(frozen=True)
class Installation:
    """A state folder of its own, and the command on it."""

    folder: Path

    def json(self, *arguments: str, given: str = "") -> Said:
        """Run a command with --json in this process: as the command does, without its start."""
        return self.run(*arguments, "--json", given=given)

    def run(
        self, *arguments: str, given: str = "", settings: Mapping[str, str] | None = None
    ) -> Said:
        """Run a command in this process, under further settings by the names of their variables."""
        own = {"ACTIONLEDGER_STATE": str(self.folder)}
        return told(arguments, own | dict(settings or {}), given)


@contextmanager
def running(name: str) -> Iterator[Installation]:
    """An installation that runs, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix=f"actionledger-test-{name}-"))
    if os.geteuid() == 0:
        folder.chmod(0o711)  # the account of Postgres has to pass
    try:
        started = start(folder, "up", "--port", "gateway=0", "--json")
        assert started.code == 0, started.err
        yield Installation(folder)
    finally:
        start(folder, "down")
        shutil.rmtree(folder, ignore_errors=True)


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
