"""The credentials that a description names: each in a file of its own, never in the description.

Guarantees that what is read is one line that a header can hold, and that no message quotes it. Must
never be called by who needs no credential. Called by the kinds of adapter.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ledger.core.mistakes import Found
from reconciler.providers.adapter import ProviderSettings, UnusableProvider
from reconciler.providers.limits import CREDENTIAL_BYTES_MAX

_CREDENTIAL: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


class UnreadableCredential(Exception):
    """The file of one `account` cannot be used; the words name the problem and no content."""

    def __init__(self, account: str, problem: str) -> None:
        super().__init__(problem)
        self.account = account


def credentials_of(settings: ProviderSettings, files: Mapping[str, str]) -> dict[str, str]:
    """By account the credential from the file that `files` names, then those of the settings.

    Raises UnusableProvider for the first account that has none.
    """
    path = settings.adapter_file
    folder = Path() if path is None else path.parent
    try:
        read = {account: read_credential(account, file, folder) for account, file in files.items()}
    except UnreadableCredential as unreadable:
        problem = f"has no credential for the account {unreadable.account}: {unreadable}"
        hint = f"Write it into the file that {path} names for it."
        raise UnusableProvider(settings.name, problem, hint) from unreadable
    return {**read, **settings.api_keys}


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
