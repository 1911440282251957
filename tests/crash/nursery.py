"""Where the processes of a crash test are born: a process that has loaded all of them, and forks.

A start is a second of processor time, nearly all of it imports, and a campaign starts a hundred.
Guarantees that what is born is a process of its own, in a group of its own, with the environment
that it was given and no other, armed with the crash point that stands there; that a signal to it is
a signal to nothing else; and that all end with the nursery, which ends with whoever opened it.

    python -m tests.crash.nursery    a socket on stdin: a line for each birth, a line for each end

What `actionledger run NAME` does from an empty process is tried where installations are started.
"""

import contextlib
import ctypes
import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterable, Mapping
from importlib import import_module, reload
from pathlib import Path
from typing import NoReturn

from gateway.local.launch import PR_SET_PDEATHSIG
from gateway.wiring import processes
from gateway.wiring.names import Process
from ledger.log import crashpoints

STEPS = frozenset({Process.PERMISSIONS, Process.SETUP})
ROOT = Path(__file__).parents[2]
LINE_BYTES_MAX = 65_536
PIPE_BYTES = 512


class Born:
    """One process, alive or not any more."""

    def __init__(self, nursery: "Nursery", pid: int) -> None:
        self.pid = pid
        self._nursery = nursery

    @property
    def exit_code(self) -> int | None:
        """How it ended: negative for a signal, None while it runs."""
        return self._nursery.exit_code(self.pid)

    @property
    def is_running(self) -> bool:
        """Whether it runs, or is stopped."""
        return self.exit_code is None

    def signal(self, number: int) -> None:
        """Send a signal, if it still runs."""
        if self.is_running:
            # It may have ended meanwhile; its pid is nobody else's until the nursery has said so.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


class Nursery:
    """The side of whoever has processes born. Blocks for as long as a fork takes."""

    def __init__(self) -> None:
        """Open one; it loads while the caller does something else."""
        self._socket, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, "-m", __name__]
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=theirs.fileno(), process_group=0
            )
        self._rest = b""
        self._pids: list[int] = []
        self._codes: dict[int, int] = {}

    def bear(self, process: str, log: Path, env: Mapping[str, str]) -> Born:
        """Have a process born that runs as `actionledger run` would. Raises ConnectionError."""
        given = {"process": process, "log": str(log), "env": dict(env)}
        self._socket.sendall(json.dumps(given).encode() + b"\n")
        while not self._pids:
            self._hear(0)
        return Born(self, self._pids.pop())

    def exit_code(self, pid: int) -> int | None:
        """How a process ended, or None."""
        if pid not in self._codes:
            with contextlib.suppress(BlockingIOError):
                self._hear(socket.MSG_DONTWAIT)
        return self._codes.get(pid)

    def close(self) -> None:
        """End everything that was born here, without a word."""
        self._socket.close()
        self._process.wait()

    def _hear(self, flags: int) -> None:
        heard = self._socket.recv(LINE_BYTES_MAX, flags)
        if not heard:
            raise ConnectionError(f"the nursery ended with code {self._process.wait()}")
        *lines, self._rest = (self._rest + heard).split(b"\n")
        for line in lines:
            said = json.loads(line)
            if "code" in said:
                self._codes[said["pid"]] = said["code"]
            else:
                self._codes.pop(said["pid"], None)
                self._pids.append(said["pid"])


# --- the other side ------------------------------------------------------------------------------


class _Cradle:
    """The process that forks; it never runs anything itself."""

    def __init__(self, caller: socket.socket) -> None:
        self._caller = caller

    def serve(self) -> None:
        """Fork whatever is asked for, and tell of every end, until nobody is there any more."""
        woken, wakes = socket.socketpair()
        wakes.setblocking(False)  # noqa: FBT003 - its only parameter
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wakes.fileno())
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._caller, selectors.EVENT_READ)
            selector.register(woken, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if woken in ready:
                    woken.recv(PIPE_BYTES)
                    self._tell_of_ends()
                if self._caller in ready:
                    heard = self._caller.recv(LINE_BYTES_MAX)
                    if not heard:
                        return
                    *lines, rest = (rest + heard).split(b"\n")
                    self._bear(map(json.loads, lines), (self._caller, woken, wakes))

    def _bear(self, wanted: Iterable[dict[str, object]], ours: Iterable[socket.socket]) -> None:
        parent = os.getpid()
        for given in wanted:
            pid = os.fork()
            if pid == 0:
                for one in ours:
                    one.close()
                _be(parent, **given)  # type: ignore[arg-type]
            self._say({"pid": pid})

    def _tell_of_ends(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})

    def _say(self, word: Mapping[str, int]) -> None:
        self._caller.sendall(json.dumps(word).encode() + b"\n")


def _be(parent: int, *, process: str, log: str, env: dict[str, str]) -> NoReturn:
    """Be a process from now on, as one that was started with nothing but this."""
    code = 1
    try:
        os.setpgid(0, 0)
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(code)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for place, source in enumerate((nothing, written, written)):
            os.dup2(source, place)
        os.environ.clear()
        os.environ.update(env)
        reload(crashpoints)  # what this one is armed with is read when it is loaded
        code = processes.main([process])
    except SystemExit as exiting:
        code = exiting.code if isinstance(exiting.code, int) else 1
    except BaseException:  # noqa: BLE001 - as an interpreter does with what nobody caught
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Load what is to be born, and be there."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for process in Process:
        if process not in STEPS:
            import_module(process.module)
    # Nobody looks for cycles in it, so that most of it stays one copy for all.
    gc.collect()
    gc.freeze()
    with contextlib.suppress(ConnectionError):  # nobody is there any more, in the middle of a word
        _Cradle(socket.socket(fileno=os.dup(0))).serve()


if __name__ == "__main__":
    main()
