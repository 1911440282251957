"""Log files of programs that write to stdout: opened, rotated, read back.

A program keeps its file open for life, so a full file is copied to `NAME.1` and cut, not renamed.
Lines written between the copy and the cut are lost; those of Kafka are not at risk, it rotates its
own file.
"""

import os
import shutil
from pathlib import Path
from typing import BinaryIO

from gateway.local import limits


def open_log(path: Path) -> BinaryIO:
    """Open for appending, readable by us only, after rotating what is too long."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    rotate(path)
    # Appending is what makes cutting the file safe while the program holds it.
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab")


def rotate(path: Path, bytes_max: int = limits.LOG_FILE_BYTES_MAX) -> None:
    """Keep one older file when this one is longer than `bytes_max`. Idempotent."""
    if not path.exists() or path.stat().st_size <= bytes_max:
        return
    older = path.with_name(f"{path.name}.1")
    shutil.copyfile(path, older)
    older.chmod(0o600)
    os.truncate(path, 0)


def tail(path: Path) -> str:
    """Return the last line that says something, or an empty string."""
    if not path.exists():
        return ""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - limits.LOG_TAIL_BYTES_MAX))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
