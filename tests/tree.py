"""The project's own tree as tests see it: what is in the repository, or is about to be."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.house_rules import Source

ROOT = Path(__file__).parent.parent
PACKAGES = ("ledger", "projections", "reconciler", "streams", "gateway")


def files(*suffixes: str) -> list[str]:
    """List tracked files and new ones that are not ignored, by path from the root."""
    # The owner of a checkout may be somebody else, as in CI; listing it is harmless.
    listed = subprocess.run(
        [
            "git",
            "-c",
            f"safe.directory={ROOT}",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    # A tracked file that was just deleted is still listed.
    return sorted(
        path for path in listed if path.endswith(suffixes or "") and (ROOT / path).is_file()
    )


def sources(*folders: str) -> Iterator[Source]:
    """Read the Python files below these folders, all of them without any. One at a time: the syntax
    trees of all of them together are large.
    """
    for path in files(".py"):
        if path.startswith(tuple(f"{folder}/" for folder in folders) or ""):
            yield Source(path, (ROOT / path).read_text(encoding="utf-8"))
