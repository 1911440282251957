"""Jars, logs, folders and processes of the local servers, without starting a server."""

import errno
import hashlib
import json
import os
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.local import limits
from gateway.local.accounts import SYSTEM_FOLDER, Account, can_reach, folder_for, place_outside
from gateway.local.control import down
from gateway.local.errors import (
    DiskFullError,
    FolderBusyError,
    FolderNotWritableError,
    JarRefusedError,
    StateUnreadableError,
)
from gateway.local.jars import Artifact, find_missing, place, read_lock
from gateway.local.logs import open_log, rotate, rotate_all, size, tail, why_ended
from gateway.local.processes import Child, Command, Identity, identify, is_running, until
from gateway.local.servers import erase
from gateway.local.service import Service, fill
from gateway.local.state import Phase, StateFolder, read_state, require_own
from gateway.private_files import replace_private
from gateway.wiring.local import prepare_folder


def artifact_of(content: bytes) -> Artifact:
    """Lock an artifact with this content."""
    return Artifact("org.example", "thing", "1.0", hashlib.sha256(content).hexdigest())


def test_every_jar_is_locked_by_hash() -> None:
    """The lock names 45 artifacts, each once, each with a whole SHA-256."""
    artifacts = read_lock()
    assert len({artifact.file_name for artifact in artifacts}) == len(artifacts) == 45
    assert all(len(bytes.fromhex(artifact.sha256)) == 32 for artifact in artifacts)


def test_a_jar_with_another_hash_is_refused(tmp_path: Path) -> None:
    """What was fetched and is not what was locked is deleted and never reaches the class path."""
    fetched, folder = tmp_path / "fetched.jar", tmp_path / "cache"
    fetched.write_bytes(b"something else")
    folder.mkdir()
    with pytest.raises(JarRefusedError, match=r"org\.example:thing:1\.0") as caught:
        place(fetched, artifact_of(b"the jar"), folder)
    assert "try another network" in caught.value.hint
    assert not fetched.exists()
    assert list(folder.iterdir()) == []


def test_a_jar_that_changed_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    """A file that was touched is kept when it is still right and deleted when it is not."""
    artifact = artifact_of(b"the jar")
    fetched = tmp_path / "fetched.jar"
    fetched.write_bytes(b"the jar")
    place(fetched, artifact, tmp_path)
    path = tmp_path / artifact.file_name
    assert find_missing(tmp_path, [artifact]) == []
    path.touch()
    assert find_missing(tmp_path, [artifact]) == []
    path.write_bytes(b"the jaR")
    assert find_missing(tmp_path, [artifact]) == [artifact]
    assert not path.exists()


def test_a_long_log_keeps_one_older_file(tmp_path: Path) -> None:
    """Rotation moves what there is to one older file while the writer goes on in the new one."""
    path = tmp_path / "logs" / "program.log"
    with open_log(path) as log:
        log.write(b"first\n")
        log.flush()
        rotate(path, bytes_max=3)
        log.write(b"second\n")
    assert path.read_text() == "second\n"
    assert path.with_name("program.log.1").read_text() == "first\n"
    assert tail(path) == "second"
    assert path.stat().st_mode & 0o077 == 0


POSTGRES = """\
LOG: starting
FATAL: could not create any TCP/IP sockets
LOG: database system is shut down
"""
KAFKA = """\
INFO starting
ERROR Exiting (kafka.Kafka$)
java.lang.RuntimeException: no
\tat kafka.X
Caused by: java.net.BindException: Address in use
\tat kafka.Y
INFO shutting down
"""
PYTHON = """\
Traceback (most recent call last):
  File "x"
gateway.local.errors.PortTakenError: taken
bye
"""
OURS = """\
{"event": "cut", "level": "error"}
{"event": "stopping", "level": "info"}
"""
FOR_PEOPLE = """\
12:00:00.123 error   cut
12:00:00.124 info    stopping
"""


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (POSTGRES, "FATAL: could not create any TCP/IP sockets"),
        (KAFKA, "Caused by: java.net.BindException: Address in use"),
        (PYTHON, "gateway.local.errors.PortTakenError: taken"),
        (OURS, '{"event": "cut", "level": "error"}'),
        (FOR_PEOPLE, "12:00:00.123 error   cut"),
        ("one\ntwo\n\n", "two"),
        ("", ""),
    ],
)
def test_why_a_program_ended_is_the_last_line_that_names_trouble(
    tmp_path: Path, said: str, why: str
) -> None:
    """In the words of Postgres, Kafka, Python and our own logs; of this run, not an earlier one."""
    log = tmp_path / "log"
    log.write_text("FATAL: of an earlier run\n")
    since = size(log)
    with open_log(log) as opened:
        opened.write(said.encode())
    assert why_ended(log, since) == why


def test_a_log_that_was_cut_meanwhile_is_read_from_its_beginning(tmp_path: Path) -> None:
    """Where this run began in it is not known any more, and all of it is this run."""
    (tmp_path / "log").write_text("PANIC: disk\nbye\n")
    assert why_ended(tmp_path / "log", since=1_000) == "PANIC: disk"


def test_a_folder_has_one_holder_and_keeps_its_agreement(tmp_path: Path) -> None:
    """A second holder is refused until the first lets go, and then finds the same passwords."""
    first = StateFolder.hold(tmp_path / "state")
    with pytest.raises(FolderBusyError, match="state"):
        StateFolder.hold(tmp_path / "state")
    first.release()
    second = StateFolder.hold(tmp_path / "state")
    second.release()
    assert second.state == first.state == read_state(tmp_path / "state")
    assert (tmp_path / "state" / "state.json").stat().st_mode & 0o777 == 0o600
    assert first.state.password not in repr(first.state)


def test_trouble_with_the_folder_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No permission and no space are one sentence each, with the variable that moves the folder."""
    (tmp_path / "file").touch()
    with pytest.raises(FolderNotWritableError) as caught:
        StateFolder.hold(tmp_path / "file" / "state")
    assert "ACTIONLEDGER_STATE" in caught.value.hint
    monkeypatch.setattr(limits, "FREE_BYTES_MIN", 1 << 60)
    with pytest.raises(DiskFullError, match=r"Only \d+ MB are free") as full:
        StateFolder.hold(tmp_path / "state")
    assert "ACTIONLEDGER_STATE" in full.value.hint


def test_an_account_without_rights_gets_a_place_that_it_can_reach(tmp_path: Path) -> None:
    """Where a folder on the way is closed, data go to a place of their own, always the same."""
    stranger = Account(uid=os.getuid() + 1, gid=os.getgid() + 1)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    assert not can_reach(closed, stranger)
    place_of_data = folder_for(closed, stranger, "postgres")
    assert place_of_data.is_relative_to(SYSTEM_FOLDER)
    assert place_of_data == folder_for(closed, stranger, "postgres")
    assert folder_for(closed, None, "postgres") == closed / "postgres"
    assert closed.stat().st_mode & 0o777 == 0o700


async def test_a_program_that_could_not_be_recorded_never_runs(tmp_path: Path) -> None:
    """When writing down its identity fails the program is not executed."""
    started: list[Identity] = []

    def refuse(identity: Identity) -> None:
        started.append(identity)
        raise OSError

    proof = tmp_path / "ran"
    with pytest.raises(OSError, match=r"^$"):
        Child(Command("touch", ["touch", str(proof)], tmp_path / "log"), refuse)
    assert len(started) == 1
    assert not is_running(started[0])
    assert not proof.exists()


async def test_a_stubborn_program_is_killed_with_its_children(tmp_path: Path) -> None:
    """A program that ignores SIGTERM, and what it started, are gone after the grace period."""
    program = (
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "inner = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
        "print(inner.pid, flush=True)\n"
        "inner.wait()\n"
    )
    log = tmp_path / "log"
    child = Child(
        Command("stubborn", [sys.executable, "-c", program], log, env=dict(os.environ)),
        lambda _: None,
    )
    assert await until(lambda: bool(tail(log)), 10_000)
    inner = identify(int(tail(log)))
    assert inner is not None
    await child.stop(signal.SIGTERM, stop_ms_max=100)
    assert child.exit_code == -signal.SIGKILL
    assert not is_running(inner)


def test_placeholders_are_filled_and_other_braces_stay() -> None:
    """Only known names in braces are replaced, so that JSON can be an argument."""
    assert fill('{"a": "{port}"} {port:web} {x}', {"port": "1", "port:web": "2"}) == (
        '{"a": "1"} 2 {x}'
    )
    service = Service(name="web", argv=("serve", "{port}"), port=0)
    assert Service.model_validate_json(service.model_dump_json()) == service


def test_a_process_is_known_after_the_clock_was_set() -> None:
    """By a clock that was an hour off when it was started it is still the same: `down` finds it,
    and the next `up` takes it for no stranger. A later one with its pid is another, whatever the
    clock said. Only Linux says when a process was started but by that clock.
    """
    me = identify(os.getpid())
    assert me is not None
    says_more = sys.platform == "linux"
    assert (me.born is not None) == says_more
    assert is_running(replace(me, created_at=me.created_at - 3_600_000)) == says_more
    assert is_running(replace(me, born=f"{me.born}0")) != says_more
    of_before = replace(me, born=None)  # written by a version that knew start times alone
    assert is_running(of_before)
    assert not is_running(replace(of_before, created_at=me.created_at - 3_600_000))


@pytest.mark.parametrize(
    "content", ["", "{", '{"cluster_id": "c"}'], ids=["empty", "cut off", "of another version"]
)
def test_nobody_is_told_to_delete_what_lies_beside_a_state_file(
    tmp_path: Path, content: str
) -> None:
    """A state file that cannot be read is named, and that log and tables are still there."""
    StateFolder.hold(tmp_path).release()
    (tmp_path / "state.json").write_text(content)
    with pytest.raises(StateUnreadableError, match=r"state\.json") as caught:
        read_state(tmp_path)
    assert "never delete" in caught.value.hint
    assert "remove" not in str(caught.value)


def test_a_state_of_a_newer_version_is_refused_by_what_is_new(tmp_path: Path) -> None:
    """A version that does not know something that was agreed on starts nothing with it."""
    StateFolder.hold(tmp_path).release()
    file = tmp_path / "state.json"
    file.write_text(file.read_text().replace("{", '{"of_tomorrow": 1,', 1))
    with pytest.raises(StateUnreadableError, match="of_tomorrow"):
        read_state(tmp_path)


def test_a_log_that_cannot_be_rotated_is_told_and_keeps_no_other(tmp_path: Path) -> None:
    """Nor does a folder of logs that somebody has removed: what supervises programs goes on."""
    long = b"x" * (limits.LOG_FILE_BYTES_MAX + 1)
    for name in ("a.log", "b.log", "kafka.log"):
        (tmp_path / name).write_bytes(long)
    (tmp_path / "a.log.1").mkdir()  # in the way of the copy
    (trouble,) = rotate_all(tmp_path, but="kafka.log")
    assert "a.log.1" in str(trouble)
    assert [size(tmp_path / name) for name in ("a.log", "b.log", "kafka.log")] == [
        len(long),
        0,
        len(long),
    ]
    (gone,) = rotate_all(tmp_path / "removed", but="kafka.log")
    assert isinstance(gone, FileNotFoundError)


def test_a_copy_has_no_share_in_the_database_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root the database lies outside of the folder. A copy of the folder neither starts on it,
    nor deletes it with its own data; the folder itself keeps it under another name.
    """
    monkeypatch.setattr(sys.modules[erase.__module__], "SYSTEM_FOLDER", tmp_path / "system")
    database = tmp_path / "system" / "of-the-first" / "postgres"
    database.mkdir(parents=True)
    held = StateFolder.hold(tmp_path / "first")
    held.change(postgres_folder=database)
    held.release()
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    copy = StateFolder.hold(tmp_path / "copy")
    assert copy.state.postgres_folder is None
    erase(copy)
    copy.release()
    assert database.exists()
    (tmp_path / "first").rename(tmp_path / "moved")
    moved = StateFolder.hold(tmp_path / "moved")
    assert moved.state.postgres_folder == database
    erase(moved)
    moved.release()
    assert not database.exists()


@pytest.mark.parametrize("is_there", [False, True], ids=["moved", "copied"])
def test_a_folder_of_before_keeps_its_database_unless_it_is_a_copy(
    tmp_path: Path, *, is_there: bool
) -> None:
    """Its state notes no folder yet. Moved, it goes on with the rows that are in no log; a copy
    does not start on the database of the first.
    """
    first, here = tmp_path / 'the "first" \\ of all', tmp_path / "here"
    held = StateFolder.hold(first)
    database = place_outside(first, "postgres")
    held.change(postgres_folder=database)
    held.release()
    of_before = json.loads((first / "state.json").read_text())
    del of_before["folder_inode"]
    (first / "state.json").write_text(json.dumps(of_before))
    (first / "logs").mkdir()
    told = {"event": "supervisor_started", "level": "info", "at": 1, "folder": str(first), "pid": 2}
    (first / "logs" / "supervisor.log").write_text(f"{json.dumps(told)}\n{{}}\n")
    if is_there:
        shutil.copytree(first, here)
    else:
        first.rename(here)
    for _ in range(2):
        held = StateFolder.hold(here)
        held.release()
        assert held.state.postgres_folder == (None if is_there else database)
    if is_there:
        held = StateFolder.hold(first)
        held.release()
        assert held.state.postgres_folder == database


async def test_what_runs_is_ended_without_room_for_what_a_new_version_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state file is one of before: `down` has nothing to write before it has ended all, and
    says so though it cannot be written. Who would start something is refused, and holds nothing.
    """
    StateFolder.hold(tmp_path).release()
    file = tmp_path / "state.json"
    of_before = json.loads(file.read_text())
    del of_before["folder_inode"]
    file.write_text(json.dumps(of_before))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space", descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        assert not await down(tmp_path)
        for _ in range(2):
            with pytest.raises(DiskFullError):
                StateFolder.hold(tmp_path)
    assert json.loads(file.read_text()) == of_before
    held = StateFolder.hold(tmp_path)
    noted = read_state(tmp_path)
    assert noted is not None
    assert noted.folder_inode is not None
    held.release()


STRANGER = 54_321


def test_what_root_writes_stays_with_whoever_owned_it(tmp_path: Path) -> None:
    """`sudo actionledger down` or `keys create` must not take a file from the user who runs the
    processes: they could not read it any more.
    """
    owner = STRANGER if os.geteuid() == 0 else os.geteuid()
    held = StateFolder.hold(tmp_path / "state")
    keys = tmp_path / "state" / "keys.toml"
    replace_private(keys, "old")
    for file in (held.folder, keys, held.folder / "state.json"):
        os.chown(file, owner, -1)
    held.change(phase=Phase.READY)
    replace_private(keys, "new")
    replace_private(tmp_path / "state" / "fresh.toml", "new")
    for name in ("state.json", "keys.toml", "fresh.toml"):
        status = (held.folder / name).stat()
        assert (status.st_uid, status.st_mode & 0o777) == (owner, 0o600)
    held.release()


def test_nobody_starts_an_installation_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root could, and whose it is could not read it afterwards."""
    StateFolder.hold(tmp_path).release()
    require_own(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(FolderNotWritableError, match="run this as that user"):
        prepare_folder(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"lock", "state.json"}
