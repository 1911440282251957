"""The credentials that a description names: each in a file of its own, never in the description.

Guarantees that what is read is one line that a header can hold, and that no message quotes it. Must
never be called by who needs no credential. Called by the registry, and by whoever checks a file.
"""

import re
from pathlib import Path
from typing import Final

from reconciler.providers.http.description import Description
from reconciler.providers.limits import CREDENTIAL_BYTES_MAX

_CREDENTIAL: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class UnreadableCredential(Exception):
    """The file of one `account` cannot be used; the words name the problem and no content."""

    def __init__(self, account: str, problem: str) -> None:
        super().__init__(problem)
        self.account = account


def read_credentials(description: Description, folder: Path) -> dict[str, str]:
    """The credential of every account; raises UnreadableCredential for the first that has none.

    Paths are relative to `folder`, the description's own.
    """
    return {
        account: read_credential(description, folder, account)
        for account in description.credentials
    }


def read_credential(description: Description, folder: Path, account: str) -> str:
    """The credential of one account that the description names; raises UnreadableCredential."""
    path = folder / description.credentials[account]
    try:
        with path.open("rb") as file:
            raw = file.read(CREDENTIAL_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no path"
        raise UnreadableCredential(account, f"its file cannot be read ({reason})") from None
    text = raw.decode("ascii", "replace").strip()
    if len(raw) > CREDENTIAL_BYTES_MAX or _CREDENTIAL.fullmatch(text) is None:
        raise UnreadableCredential(account, "its file is not one line of printable ASCII")
    return text
