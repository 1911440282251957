"""Ports on 127.0.0.1: choosing a free one, and telling when an agreed one is taken.

A port is chosen once and kept in the state file, so that what was configured with it goes on.
Guarantees that no two who choose here get the same one, also while nothing listens there yet or
just now: whoever has a port holds a lock on a file that is named after it.
"""

import contextlib
import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterable
from pathlib import Path

import psutil

from gateway.local import limits
from gateway.local.errors import FolderNotWritableError, NoPortFreeError, PortTakenError

LOOPBACK = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: connections of an earlier run that linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True


def is_open(port: int) -> bool:
    """Whether somebody accepts connections there."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(0.2)
        return probe.connect_ex((LOOPBACK, port)) == 0


class Claims:
    """Ports that nobody else is given for as long as this is open.

    The locks are the kernel's and end with the process, or with the last of those that it was
    forked into. Several may hold the same port: the command that starts an installation and the
    supervisor that keeps it running.
    """

    def __init__(self) -> None:
        self._held: list[int] = []

    def choose(self, count: int) -> list[int]:
        """Choose different free ports, outside the range of outgoing connections: all or none.

        Raises:
            NoPortFreeError: not so many were found.

        """
        held_before = len(self._held)
        chosen: list[int] = []
        for _ in range(limits.PORT_TRIES_MAX):
            if len(chosen) == count:
                break
            port = random.randint(limits.PORT_MIN, limits.PORT_MAX)  # noqa: S311 - no secret
            if self._take(port):
                chosen.append(port)
        if len(chosen) == count:
            return chosen
        while len(self._held) > held_before:
            os.close(self._held.pop())
        raise NoPortFreeError(
            limits.PORT_MIN,
            limits.PORT_MAX,
            wanted=count,
            found=len(chosen),
            tries=limits.PORT_TRIES_MAX,
        )

    def keep(self, ports: Iterable[int]) -> None:
        """Hold ports that were agreed on before. Idempotent."""
        for port in ports:
            descriptor = _lock_file(port)
            self._held.append(descriptor)
            # Waits for whoever looks at it just now, no longer.
            fcntl.flock(descriptor, fcntl.LOCK_SH)

    def close(self) -> None:
        """Let go of all of them. Idempotent."""
        while self._held:
            os.close(self._held.pop())

    def _take(self, port: int) -> bool:
        """Hold the port if nobody does and nobody listens there."""
        descriptor = _lock_file(port)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if is_free(port):
                # Not in one step: another may take it in between, then this raises.
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                self._held.append(descriptor)
                return True
        os.close(descriptor)
        return False


def free_ports(count: int) -> list[int]:
    """Choose different free ports that nobody else is given for as long as this process lives.

    Raises:
        NoPortFreeError: not so many were found.

    """
    return _OWN.choose(count)


_OWN = Claims()


def _lock_file(port: int) -> int:
    """Open the file of a port, one for each account. It stays: to delete it would be to unlock it.

    Raises:
        FolderNotWritableError: there is no place for it.

    """
    folder = Path("/tmp")  # noqa: S108 - to be told where there is none
    try:
        folder = Path(tempfile.gettempdir()) / f"actionledger-ports-{os.geteuid()}"
        folder.mkdir(mode=0o700, exist_ok=True)
        return os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        why = f"{error.strerror or error} (TMPDIR names another folder for temporary files)"
        raise FolderNotWritableError(folder, why) from error


def holder_of(port: int) -> str | None:
    """Name the program that listens there, where the system lets us see it."""
    try:
        for each in psutil.net_connections("tcp"):
            listens = each.status == psutil.CONN_LISTEN and each.laddr and each.laddr.port == port
            if listens and each.pid is not None:
                return f"{psutil.Process(each.pid).name()} (pid {each.pid})"
    except psutil.Error:
        return None
    return None


def require_free(port: int, wanted_by: str) -> None:
    """Raise `PortTakenError` unless the port is free, naming the holder where it can be seen."""
    if not is_free(port):
        raise PortTakenError(port, wanted_by, holder_of(port))
