"""Root works in folders of others: what was linked there is neither changed nor given away.

As somebody else only what follows a link can be seen; who owns a file afterwards is seen as root.
"""

import os
import sys
from pathlib import Path

import pytest

from gateway.cli.app import run
from gateway.cli.output import Exit
from gateway.keys import KeyFileError, Role, create_key
from gateway.local.accounts import Account, make_own
from gateway.local.errors import FolderNotWritableError
from gateway.local.logs import open_log, rotate
from gateway.local.state import StateFolder, lock, require_own, write_private
from gateway.private_files import changing, replace_private
from gateway.wiring.life import Life
from reconciler.providers.simulated.book import BOOK_NAME, Book

IS_ROOT = os.geteuid() == 0
STRANGER = 54_321 if IS_ROOT else os.geteuid()
OTHER = 54_322 if IS_ROOT else os.geteuid()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of somebody without rights."""
    made = tmp_path / "theirs"
    made.mkdir()
    os.chown(made, STRANGER, -1)
    return made


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file of whoever runs this, which nobody else may have."""
    made = tmp_path / "secret"
    made.write_text("secret")
    made.chmod(0o600)
    return made


def is_untouched(secret: Path) -> bool:
    """Whether it is whose it was, and says what it said."""
    status = secret.stat()
    known = (status.st_uid, status.st_mode & 0o777, secret.read_text())
    return known == (os.geteuid(), 0o600, "secret")


def link(place: Path, target: Path) -> None:
    """Plant a link, as the owner of the folder would."""
    place.symlink_to(target)
    os.chown(place, STRANGER, -1, follow_symlinks=False)


def test_a_lock_that_was_linked_is_refused(folder: Path, secret: Path) -> None:
    """Beside a file of keys: the command says so, and what it leads to is not given away."""
    link(folder / ".keys.toml.lock", secret)
    with pytest.raises(KeyFileError, match="symbolic links"):
        create_key(folder / "keys.toml", tenant="acme", principal="bot", role=Role.AGENT)
    assert is_untouched(secret)


def test_a_lock_that_has_another_name_stays_whose_it_is(folder: Path, secret: Path) -> None:
    """A hard link looks like the file itself, so a lock that was there is never given away. One
    that is new goes to whoever owns the file: they change it too.
    """
    (folder / ".keys.toml.lock").hardlink_to(secret)
    with changing(folder / "keys.toml"):
        pass
    assert is_untouched(secret)
    with changing(folder / "secrets.toml"):
        pass
    assert (folder / ".secrets.toml.lock").stat().st_uid == STRANGER


@pytest.mark.parametrize("hard", [False, True], ids=["symbolic", "hard"])
def test_a_state_is_written_beside_what_was_linked(
    folder: Path, secret: Path, *, hard: bool
) -> None:
    """Nobody knows beforehand under which name a file is written before it is moved."""
    for name in (".state.json.partial", "state.json"):
        if hard:
            (folder / name).hardlink_to(secret)
        else:
            link(folder / name, secret)
    write_private(folder / "state.json", "state")
    assert is_untouched(secret)
    assert (folder / "state.json").read_text() == "state"
    assert (folder / "state.json").stat().st_uid == os.geteuid()


def test_what_is_read_through_a_link_is_not_given_to_whoever_made_it(
    folder: Path, tmp_path: Path
) -> None:
    """Keys of another installation, changed under a name in a folder of somebody else's."""
    others = tmp_path / "others.toml"
    others.write_text("keys")
    os.chown(others, OTHER, -1)
    link(folder / "keys.toml", others)
    replace_private(folder / "keys.toml", "keys and one more")
    assert (folder / "keys.toml").lstat().st_uid == os.geteuid()
    (folder / "of_root").symlink_to(others)
    replace_private(folder / "of_root", "keys and one more")
    assert (folder / "of_root").stat().st_uid == OTHER


def test_a_folder_that_was_linked_is_not_locked_or_given_away(folder: Path, tmp_path: Path) -> None:
    """The lock of an installation makes no file elsewhere; a folder for Postgres is one."""
    link(folder / "lock", tmp_path / "made-elsewhere")
    with pytest.raises(FolderNotWritableError):
        lock(folder / "lock")
    assert not (tmp_path / "made-elsewhere").exists()
    ours = tmp_path / "ours"
    ours.mkdir()
    link(folder / "socket", ours)
    with pytest.raises(NotADirectoryError):
        make_own(folder / "socket", Account(OTHER, os.getegid()))
    assert ours.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("place", ["gateway.log", "gateway.log.1"])
def test_no_log_is_written_or_cut_where_it_was_linked_to(
    folder: Path, secret: Path, place: str
) -> None:
    """A log that is a link is refused, and neither rotated; one older is replaced, not followed."""
    log = folder / "gateway.log"
    if place != log.name:
        log.write_text("a long log")
    link(folder / place, secret)
    rotate(log, bytes_max=1)
    if place == log.name:
        with pytest.raises(OSError, match="symbolic links"):
            open_log(log)
    else:
        assert ((folder / place).read_text(), log.read_text()) == ("a long log", "")
    assert is_untouched(secret)


def test_a_heartbeat_makes_no_file_elsewhere(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told as one that cannot be written, and the process goes on."""
    monkeypatch.setattr(sys.modules[Life.__module__], "seek_cycles_seldom", int)  # this one does
    link(folder / "gateway.ready", tmp_path / "made-elsewhere")
    life = Life("gateway", folder / "gateway.ready")
    life.beat()
    assert not (tmp_path / "made-elsewhere").exists()


def test_a_new_provider_writes_to_no_link(folder: Path, tmp_path: Path) -> None:
    """Nor to one that leads to nothing yet: the file counts as one that is there."""
    link(folder / "acme_main.key", tmp_path / "made-elsewhere")
    assert run(["provider", "new", "acme", "--kind", "http", "--into", str(folder)]) == Exit.USAGE
    assert not (tmp_path / "made-elsewhere").exists()


def test_a_simulated_provider_writes_to_no_link(folder: Path, secret: Path) -> None:
    """Its book would be cut and written where somebody else has chosen."""
    link(folder / BOOK_NAME, secret)
    with pytest.raises(OSError, match="symbolic links"):
        Book(folder)
    assert is_untouched(secret)


def test_root_starts_in_a_folder_of_somebody_else_again_and_again(folder: Path) -> None:
    """In a container with a folder of the host: what root has begun there is root's."""
    for _ in range(2):
        require_own(folder)
        held = StateFolder.hold(folder)
        held.change(cluster_id="c")
        held.release()
    assert (folder / "state.json").stat().st_uid == os.geteuid()
