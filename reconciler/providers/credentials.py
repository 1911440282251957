"""The credentials that a description names: each in a file of its own, never in the description.

Guarantees that what is read is one line that a header can hold, that no message quotes it, and that
a file which was replaced counts from the next call on. Must never be called by who needs no
credential. Called by the kinds of adapter.
"""

import logging
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ledger.core.mistakes import Found
from reconciler.providers.adapter import ProviderSettings, UnusableProvider
from reconciler.providers.limits import CREDENTIAL_BYTES_MAX

logger = logging.getLogger("actionledger")

_CREDENTIAL: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class UnreadableCredential(Exception):
    """The file of one `account` cannot be used; the words name the problem and no content."""

    def __init__(self, account: str, problem: str) -> None:
        super().__init__(problem)
        self.account = account


_Stamp = tuple[int, int, int, int] | None
"""What changes when a file is replaced; None where there is none, or no regular one: a pipe is read
once, at the start, and whoever opened it again would wait for a writer and nobody else had a turn.
"""


@dataclass(slots=True)
class _Kept:
    """The credential of one file as it was read last, and the stamp of the file then."""

    path: Path
    stamp: _Stamp
    text: str = field(repr=False)


class Credentials(Mapping[str, str]):
    """By account its credential, as its file says now. One that is replaced while calls are made is
    that of the next call; a file that cannot be used is told once, and the credential that was read
    before stays. Looking costs one look at the file's times.
    """

    def __init__(self, files: Mapping[str, Path], fixed: Mapping[str, str]) -> None:
        """`fixed` are those of the settings, which come before any file. Raises
        UnreadableCredential.
        """
        self._fixed = dict(fixed)
        self._kept = {
            account: _Kept(path, _stamp(path), read_credential(account, str(path), Path()))
            for account, path in files.items()
        }

    def __getitem__(self, account: str) -> str:
        given = self._fixed.get(account)
        if given is not None:
            return given
        kept = self._kept[account]
        stamp = _stamp(kept.path)
        if stamp != kept.stamp:
            kept.stamp = stamp
            try:
                if stamp is None:
                    raise UnreadableCredential(account, "its file is gone, or no regular one")
                kept.text = read_credential(account, str(kept.path), Path())
            except UnreadableCredential as unreadable:
                logger.warning(
                    "credential_unreadable", extra={"account": account, "reason": str(unreadable)}
                )
        return kept.text

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept | self._fixed)

    def __len__(self) -> int:
        return len(self._kept | self._fixed)


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    # The last tells also where a file was copied into with its old time, as `cp -p` does.
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns


def credentials_of(settings: ProviderSettings, files: Mapping[str, str]) -> Credentials:
    """By account the credential from the file that `files` names, then those of the settings.

    Raises UnusableProvider for the first account that has none.
    """
    path = settings.adapter_file
    folder = Path() if path is None else path.parent
    try:
        paths = {account: folder / file for account, file in files.items()}
        return Credentials(paths, settings.api_keys)
    except UnreadableCredential as unreadable:
        problem = f"has no credential for the account {unreadable.account}: {unreadable}"
        hint = f"Write it into the file that {path} names for it."
        raise UnusableProvider(settings.name, problem, hint) from unreadable


def unreadable_credentials(
    settings: ProviderSettings, table: str, files: Mapping[str, str]
) -> Iterator[Found]:
    """Which files cannot be used, each by the account's place in the description's `table`."""
    folder = Path() if settings.adapter_file is None else settings.adapter_file.parent
    for account, file in files.items():
        try:
            read_credential(account, file, folder)
        except UnreadableCredential as unreadable:
            yield (table, account), str(unreadable)


def read_credential(account: str, file: str, folder: Path) -> str:
    """The credential in one file, whose path is absolute or begins at `folder`, the description's
    own; raises UnreadableCredential.
    """
    try:
        with (folder / file).open("rb") as opened:
            raw = opened.read(CREDENTIAL_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise UnreadableCredential(account, f"its file cannot be read ({reason})") from None
    text = raw.decode("ascii", "replace").strip()
    if len(raw) > CREDENTIAL_BYTES_MAX or _CREDENTIAL.fullmatch(text) is None:
        raise UnreadableCredential(account, "its file is not one line of printable ASCII")
    return text
