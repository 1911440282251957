"""Files of secrets: replaced whole, readable by their owner only, read again when they change.

Guarantees that after any crash a file is the old one or the new one, that of two who change it at
once the second sees what the first wrote, and that a file which became unusable leaves what was
read before it in force. Must never log what is in a file. Called by API keys and webhook secrets.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Generic, TypeVar

LOOK_EVERY_S: Final = 1.0
"""How often a file is looked at for a change: a revoked secret lives at most this much longer."""

_Content = TypeVar("_Content")


class Watched(Generic[_Content]):
    """What a file says, while it may change. `read` raises `unusable` for a file that cannot be.

    At the start that is raised; later it goes to `on_trouble`, once for each such file.
    """

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], _Content],
        *,
        unusable: type[Exception],
        on_change: Callable[[_Content], None],
        on_trouble: Callable[[Exception], None],
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._read = read
        self._unusable = unusable
        self._on_change = on_change
        self._on_trouble = on_trouble
        self._clock_s = clock_s
        self._looked_at_s = clock_s()
        self._seen = _stamp(path)
        self._content = read(path)

    def content(self) -> _Content:
        """What is in force; looks at the file once a second at most."""
        now_s = self._clock_s()
        if now_s - self._looked_at_s >= LOOK_EVERY_S:
            self._looked_at_s = now_s
            self._look_again()
        return self._content

    def has_changed(self) -> bool:
        """Look at the file now; whether it says something else than before. Asked before somebody
        is refused by what is in force: they may come with what was written a moment ago.
        """
        before = self._content
        self._looked_at_s = self._clock_s()
        self._look_again()
        return self._content is not before

    def _look_again(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._content = self._read(self._path)
        except self._unusable as trouble:
            self._on_trouble(trouble)
        else:
            self._on_change(self._content)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file is replaced; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


@contextmanager
def changing(path: Path) -> Iterator[None]:
    """Be the only one to change the file for as long as the block runs. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Beside it: the file itself is replaced, and a lock would go with the old one.
    descriptor = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        give_to_owner(descriptor, path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_private(path: Path, text: str) -> None:
    """Replace the file whole, with mode 0600 whatever it was before. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        give_to_owner(descriptor, path)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def give_to_owner(descriptor: int, path: Path) -> None:
    """Let whoever owns a file own what takes its place, and whoever owns the folder what is new in
    it: root changes keys for a service that runs as somebody else. Others can give nothing away.
    """
    if os.geteuid() == 0:
        status = (path if path.exists() else path.parent).stat()
        os.fchown(descriptor, status.st_uid, status.st_gid)


def quoted(text: str) -> str:
    """A TOML basic string of a text that holds no control characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
