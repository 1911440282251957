"""Files of secrets: replaced whole, readable by their owner only, read again when they change.

Guarantees that after any crash a file is the old one or the new one, that of two who change it at
once the second sees what the first wrote, and that a file which became unusable leaves what was
read before it in force. Root works in folders of others too: it follows no link that was put where
it writes, and gives away only what it has just made. Must never log what is in a file. Called by
API keys, webhook secrets and the state of a local installation.
"""

import fcntl
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Final, Generic, TypeVar

LOOK_EVERY_S: Final = 1.0
"""How often a file is looked at for a change: a revoked secret lives at most this much longer."""

_Content = TypeVar("_Content")


class New(Enum):
    """Whose a file is that root writes where there was none."""

    OF_FOLDER = "whoever owns the folder"
    OURS = "who writes it"


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
    descriptor = _open_lock(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    lock, flags = path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_NOFOLLOW
    try:
        descriptor = os.open(lock, flags | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        # Whoever put it there may have linked it to anything: it stays whose it is.
        return os.open(lock, flags)
    _give(descriptor, _heir(path))
    return descriptor


def replace_private(
    path: Path,
    text: str,
    *,
    new: New = New.OF_FOLDER,
    owner: tuple[int, int] | None = None,
) -> None:
    """Replace the file whole, with mode 0600 whatever it was before. Raises OSError.

    Where root does it, whoever owned the file owns what takes its place, and whoever owns the
    folder what is new in it: keys are changed for a service that runs as somebody else. With
    `New.OURS` root keeps what is new, with `owner` (user and group) it is theirs.
    """
    owner = owner or _heir(path, new=new)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            _give(descriptor, owner)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _heir(path: Path, *, new: New = New.OF_FOLDER) -> tuple[int, int] | None:
    """User and group that own what takes the place of a file; None for who writes it. That is so
    too where somebody linked it to what is not theirs: what was read there would be given away.
    """
    if not os.path.lexists(path):
        if new is New.OURS:
            return None
        path = path.parent
    try:
        itself, there = path.lstat(), path.stat()
    except FileNotFoundError:
        return None
    # Links of root are meant.
    return (there.st_uid, there.st_gid) if itself.st_uid in {0, there.st_uid} else None


def _give(descriptor: int, owner: tuple[int, int] | None) -> None:
    """Give away what was just made. Only root can; of others it stays what it is."""
    if owner is not None and os.geteuid() == 0:
        os.fchown(descriptor, *owner)


def quoted(text: str) -> str:
    """A TOML basic string of a text that holds no control characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
