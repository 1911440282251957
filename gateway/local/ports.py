"""Ports on 127.0.0.1: choosing a free one, and telling when an agreed one is taken.

A port is chosen once and kept in the state file, so that what was configured with it goes on.
"""

import random
import socket

import psutil

from gateway.local import limits
from gateway.local.errors import PortTakenError

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


def free_ports(count: int) -> list[int]:
    """Choose different free ports, outside the range of outgoing connections."""
    chosen: list[int] = []
    for _ in range(limits.PORT_TRIES_MAX):
        port = random.randint(limits.PORT_MIN, limits.PORT_MAX)  # noqa: S311 - spread, not a secret
        if port not in chosen and is_free(port):
            chosen.append(port)
        if len(chosen) == count:
            return chosen
    raise PortTakenError(limits.PORT_MIN, "a local server", None)


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
