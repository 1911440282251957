"""Become another program, but not before the caller has written down who we are.

Run as a script by `processes`:

    python -I -S launch.py GO_FD PARENT_PID DEATH_SIGNAL NICE UID GID PROGRAM [ARGUMENT...]

Guarantees: nothing runs that is not on record (the caller writes our pid and start time, then one
byte to GO_FD; when the caller dies before, we end here), and with a DEATH_SIGNAL other than 0 the
kernel sends it to the program when the caller dies, however it dies. Drops to UID and GID when
they are not -1. Must never import anything but the standard library: it starts in 10 ms.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
NOT_STARTED = 127


def die_with_parent(number: int, parent_pid: int) -> None:
    """Ask the kernel for `number` when the parent ends. Linux only; elsewhere nothing happens."""
    if not sys.platform.startswith("linux"):
        return
    # After any change of user, which clears it; it survives exec.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent_pid:  # it died before we asked
        sys.exit(NOT_STARTED)


def main(arguments: list[str]) -> None:
    """Wait for the word, drop rights, exec."""
    go_fd, parent_pid, death_signal, nice, uid, gid = map(int, arguments[:6])
    program = arguments[6:]
    if os.read(go_fd, 1) != b"g":
        sys.exit(NOT_STARTED)
    os.close(go_fd)
    if nice:
        os.nice(nice)
    if uid != -1:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if death_signal:
        die_with_parent(death_signal, parent_pid)
    # Python ignores these and a shell's background job ignores the first; exec would hand that on.
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - no shell is the point
    except OSError as error:
        sys.stderr.write(f"cannot start {program[0]}: {error.strerror}\n")
        sys.exit(NOT_STARTED)


if __name__ == "__main__":
    main(sys.argv[1:])
