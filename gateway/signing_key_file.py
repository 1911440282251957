"""The file of a person's own key: made once, readable by its owner only, opened to sign.

Guarantees that a key is never written over another and never lies open: a file that others can read
is refused before its passphrase is asked for. Must never log what is in it. Called by the command
line.
"""

import os
import stat
from pathlib import Path
from typing import Final

from gateway.private_files import changing, replace_private
from ledger.core.errors import LedgerError
from ledger.signing.keys import SigningKey, new_key

FILE_BYTES_MAX: Final = 16 * 1_024
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


class SigningKeyFileError(LedgerError):
    """The file of a person's key cannot be used. `path` names it."""

    def __init__(self, path: Path, problem: str, *, hint: str) -> None:
        super().__init__(f"The key in {path} cannot be used: {problem}.", hint=hint)
        self.path = path


def create_key_file(path: Path, passphrase: str) -> SigningKey:
    """Make a key and its file, with mode 0600 in a folder of its owner.

    Raises SigningKeyFileError where there is a file already or it cannot be written,
    UnusableKeyError for a passphrase that is too short.
    """
    check_no_key_file(path)
    pem, key = new_key(passphrase)
    try:
        with changing(path):
            # Looked at again under the lock: two commands may have begun at once.
            check_no_key_file(path)
            replace_private(path, pem.decode())
    except OSError as error:
        raise SigningKeyFileError(
            path,
            error.strerror or "it cannot be written",
            hint="Let this user write the folder, or name another file.",
        ) from error
    return key


def check_no_key_file(path: Path) -> None:
    """Raise SigningKeyFileError where a new key would take the place of something."""
    if os.path.lexists(path):
        raise SigningKeyFileError(
            path,
            "there is one already",
            hint="Name another with --file. A key that is not used any more is revoked first.",
        )


def read_key_file(path: Path) -> bytes:
    """The file as it lies there, still encrypted. Raises SigningKeyFileError."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            raw = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError as error:
        raise SigningKeyFileError(
            path,
            "there is none",
            hint="Make one with `actionledger people key new`, and have an operator register it.",
        ) from error
    except OSError as error:
        raise SigningKeyFileError(
            path, error.strerror or "it cannot be read", hint="Let this user read the file."
        ) from error
    if mode & _OTHERS:
        raise SigningKeyFileError(
            path, "others may read it", hint=f"Take that away with `chmod 600 {path}`."
        )
    if len(raw) > FILE_BYTES_MAX:
        raise SigningKeyFileError(path, "it is too large to be a key", hint="Name another file.")
    return raw
