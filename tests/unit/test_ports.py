"""Ports of the local servers: who has chosen one has it alone, before anything listens there."""

import subprocess
import sys
from pathlib import Path

import pytest

from gateway.local import limits, ports
from gateway.local.errors import FolderNotWritableError, NoPortFreeError
from gateway.local.ports import Claims

NARROW = 40
AT_ONCE = 4
CHOOSER = """
import sys
from gateway.local import limits
from gateway.local.ports import Claims

limits.PORT_MIN, width, count = map(int, sys.argv[1:])
limits.PORT_MAX = limits.PORT_MIN + width - 1
limits.PORT_TRIES_MAX = 10_000
sys.stdin.readline()
claims = Claims()
print(*claims.choose(count), flush=True)
sys.stdin.readline()
"""


def unused(width: int) -> int:
    """Where a range begins that nobody listens in: below the one that servers of other tests are
    given, who have any port of theirs at any time.
    """
    below = range(limits.PORT_MIN - width, 1_024, -width)
    return next(at for at in below if all(map(ports.is_free, range(at, at + width))))


@pytest.fixture
def narrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A range of two ports, and locks of our own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first = unused(2)
    monkeypatch.setattr(limits, "PORT_MIN", first)
    monkeypatch.setattr(limits, "PORT_MAX", first + 1)


def test_ports_are_told_apart_from_those_of_outgoing_connections() -> None:
    """Chosen ports differ, are free, and lie below the range the system gives to clients."""
    chosen = ports.free_ports(20)
    assert len(set(chosen)) == 20
    assert all(limits.PORT_MIN <= port <= limits.PORT_MAX < 32_768 for port in chosen)
    assert all(map(ports.is_free, chosen))


def test_processes_that_choose_at_once_get_different_ports(tmp_path: Path) -> None:
    """Out of a range that is just wide enough: by chance they would not."""
    asked = map(str, (unused(NARROW), NARROW, NARROW // AT_ONCE))
    command = [sys.executable, "-c", CHOOSER, *asked]
    choosing = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"TMPDIR": str(tmp_path)},
        )
        for _ in range(AT_ONCE)
    ]
    chosen: list[str] = []
    for process in choosing:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in choosing:
        assert process.stdout is not None
        chosen += process.stdout.readline().split()
    for process in choosing:
        process.communicate("end\n")
    assert len(set(chosen)) == len(chosen) == NARROW


@pytest.mark.usefixtures("narrow")
def test_a_port_is_nobody_elses_until_the_last_holder_lets_go() -> None:
    """Not while nothing listens there, and not while one of two holders has let go."""
    chooser, keeper, other = Claims(), Claims(), Claims()
    agreed = chooser.choose(2)
    keeper.keep(agreed)
    chooser.close()
    with pytest.raises(NoPortFreeError) as refused:
        other.choose(1)
    tried = f"{limits.PORT_MIN} to {limits.PORT_MAX} on 127.0.0.1 {limits.PORT_TRIES_MAX} were"
    assert tried in refused.value.message
    assert "0 of them were free; 1 are needed" in refused.value.message
    assert "actionledger down" in refused.value.hint
    keeper.close()
    assert sorted(other.choose(2)) == sorted(agreed)
    other.close()


@pytest.mark.usefixtures("narrow")
def test_who_does_not_get_all_ports_leaves_each_to_others() -> None:
    """All or none: what it found on its way is free again."""
    first, other = Claims(), Claims()
    with pytest.raises(NoPortFreeError, match="2 of them were free; 3 are needed"):
        first.choose(3)
    assert len(other.choose(2)) == 2
    other.close()


def test_the_last_try_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many tries as ports, where each finds one."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(limits, "PORT_MIN", unused(1))
    monkeypatch.setattr(limits, "PORT_MAX", limits.PORT_MIN)
    monkeypatch.setattr(limits, "PORT_TRIES_MAX", 1)
    claims = Claims()
    assert claims.choose(1) == [limits.PORT_MIN]
    claims.close()


def test_without_a_place_for_locks_the_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A temporary folder that is none is named, with what the system says of it."""
    (tmp_path / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "file"))
    with pytest.raises(FolderNotWritableError, match="file"):
        Claims().choose(1)


def test_a_machine_without_a_folder_for_temporary_files_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the variable that names one: as in a container whose file system is read only."""
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/nowhere"])
    with pytest.raises(FolderNotWritableError, match="TMPDIR"):
        Claims().choose(1)
