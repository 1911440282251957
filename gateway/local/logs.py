"""Log files of programs that write to stdout: opened, rotated, read back.

A program keeps its file open for life, so a full file is copied to `NAME.1` and cut, not renamed.
Lines written between the copy and the cut are lost; those of Kafka are not at risk, it rotates its
own file.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gateway.local import limits

# How Postgres, Kafka, Java, Python and our own lines mark what went wrong.
_TROUBLE = re.compile(
    r"\b(?:FATAL|PANIC|CRITICAL|ERROR)\b"
    r'|"level": "(?:error|critical)"'
    r"|^\S+ (?:error|critical) "
    r"|^(?:Caused by: )?[\w.$]*(?:Error|Exception)\b"
)


def open_log(path: Path) -> BinaryIO:
    """Open for appending, readable by us only, after rotating what is too long. Raises OSError,
    also for a link: as root we would write to what somebody else has chosen.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    rotate(path)
    # Appending is what makes cutting the file safe while the program holds it.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
    return os.fdopen(os.open(path, flags, 0o600), "ab")


def rotate(path: Path, bytes_max: int = limits.LOG_FILE_BYTES_MAX) -> None:
    """Keep one older file when this one is longer than `bytes_max`. Idempotent. Raises OSError; a
    link is nothing that we have written.
    """
    if path.is_symlink() or not path.exists() or path.stat().st_size <= bytes_max:
        return
    older = path.with_name(f"{path.name}.1")
    older.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b") as log:
        made = os.open(older, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "wb") as kept:
            shutil.copyfileobj(log, kept)
        log.truncate(0)


def rotate_all(folder: Path, *, but: str) -> list[OSError]:
    """Rotate every log of a folder but the one of that name, and say what went wrong: a disk that
    is full, or somebody who tidied up. Idempotent.
    """
    troubles: list[OSError] = []
    try:
        paths = list(folder.iterdir())
    except OSError as trouble:
        return [trouble]
    for path in paths:
        if path.suffix in {".log", ".out"} and path.name != but:
            try:
                rotate(path)
            except OSError as trouble:
                troubles.append(trouble)
    return troubles


def size(path: Path) -> int:
    """Return how long the file is: where what is written from now on begins."""
    return path.stat().st_size if path.exists() else 0


def tail(path: Path) -> str:
    """Return the last line that says something, or an empty string."""
    return next(_backwards(path), "")


def why_ended(path: Path, since: int = 0) -> str:
    """Return the last line that names trouble, else the last one, of those from `since` on.

    Programs say goodbye after they have said what is wrong: "database system is shut down".
    """
    lines = list(_backwards(path, since))
    return next(filter(_TROUBLE.search, lines), lines[0] if lines else "")


def _backwards(path: Path, since: int = 0) -> Iterator[str]:
    """Read the lines that say something, the last one first."""
    end = size(path)
    begin = since if since <= end else 0  # it was cut meanwhile
    if begin == end:
        return
    with path.open("rb") as file:
        file.seek(max(begin, end - limits.LOG_TAIL_BYTES_MAX))
        lines = file.read().decode(errors="replace").split("\n")
    yield from (line.strip() for line in reversed(lines) if line.strip())
