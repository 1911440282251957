"""Under which account Postgres runs, and where that account may keep its files.

Postgres refuses to run as root. Guarantees: as root it runs as an account without rights, with
files in a folder of its own, and the permissions of no existing folder are changed. As anybody
else nothing happens here.
"""

import hashlib
import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from gateway.local.errors import AccountMissingError

# Accounts of every Unix that own nothing. Not `postgres`: a server of the distribution trusts it.
CANDIDATES = ("nobody", "daemon")
# Reachable by every account, kept across restarts, and ours to make as root.
SYSTEM_FOLDER = Path("/var/lib/actionledger")


@dataclass(frozen=True, slots=True)
class Account:
    """A user and group by number."""

    uid: int
    gid: int


def unprivileged_account() -> Account | None:
    """Return the account to drop to: None when we are not root and need not.

    Raises:
        AccountMissingError: we are root and there is none.

    """
    if os.geteuid() != 0:
        return None
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise AccountMissingError(CANDIDATES)


def can_reach(path: Path, account: Account) -> bool:
    """Whether the account may pass every folder on the way to `path`, and enter or run that."""
    resolved = path.resolve()
    way = (resolved, *resolved.parents)
    return all(_may_enter(each.stat(), account) for each in way if each.exists())


def _may_enter(status: os.stat_result, account: Account) -> bool:
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def folder_for(folder: Path, account: Account | None, name: str) -> Path:
    """Where the account keeps what belongs to `folder`: in it, or in the system's own place.

    The second is derived from the path of `folder`, so the same one is found again.
    """
    if account is None or can_reach(folder, account):
        return folder / name
    return place_outside(folder, name)


def place_outside(folder: Path, name: str) -> Path:
    """The system's own place for what belongs to `folder`."""
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]
    return SYSTEM_FOLDER / digest / name


def make_passable(path: Path, account: Account | None) -> None:
    """Make a folder that we own and the account may pass. Idempotent.

    Folders above it that are new may be passed too; those that exist stay as they are.
    """
    for folder in (*reversed(path.parents), path):
        if not folder.exists():
            folder.mkdir(mode=0o700)
            folder.chmod(0o711 if account else 0o700)


def open_to_all(folder: Path) -> None:
    """Let every account read what is in the folder, and run what its owner may run."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if runs else 0o644)


def make_own(path: Path, account: Account | None) -> None:
    """Make a folder that belongs to the account alone. Idempotent. A link in its place is refused:
    what it leads to would be given away. Raises OSError.
    """
    path.mkdir(mode=0o700, exist_ok=True)
    if account is not None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(descriptor, account.uid, account.gid)
        finally:
            os.close(descriptor)
