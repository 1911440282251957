"""The one file of the pages: under which origin people registered their passkeys, and the secret
that seals sessions.

Guarantees that the origin never changes by itself: a passkey belongs to it, and under another one
nobody could log in any more. The file is made at the first start and shared by all gateways of an
installation. Must never show what is in it. Called when the gateway starts.
"""

import os
import secrets
import tomllib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gateway.private_files import changing, quoted, replace_private
from ledger.core.errors import LedgerError
from ledger.core.people import Person, PersonKey

SECRET_BYTES: Final = 32


class ConsoleFileError(LedgerError):
    """The file of the pages cannot be used, or was made for another origin."""

    def __init__(self, path: Path, problem: str, *, hint: str) -> None:
        super().__init__(f"{path}: {problem}", hint=hint)
        self.path = path


@dataclass(frozen=True, slots=True)
class Site:
    """Where the pages are: their origin as browsers name it, and the host that passkeys are for."""

    origin: str
    secret: bytes = field(repr=False)

    @property
    def rp_id(self) -> str:
        """The host of the origin, which a passkey is registered for."""
        return urlsplit(self.origin).hostname or ""

    @property
    def authority(self) -> str:
        """Host and port, as a browser sends them in `Host`."""
        return urlsplit(self.origin).netloc

    @property
    def is_secure(self) -> bool:
        """Whether cookies may be kept to https; a machine's own pages are without it."""
        return self.origin.startswith("https:")

    def passkeys_of(self, person: Person) -> tuple[PersonKey, ...]:
        """The passkeys of a person that are for this site and in force."""
        here = (self.rp_id, self.origin)
        return tuple(
            key for key in person.keys if (key.rp_id, key.origin) == here and not key.revoked
        )


def read_site(path: Path, origin: str, *, in_use: Collection[str] = ()) -> Site:
    """The site of an installation; made with this origin where there is none.

    Pages move to another origin by themselves only where nobody's passkey is for the old one:
    `in_use` are those that somebody has one for. Raises ConsoleFileError where they may not move,
    or where the file cannot be used.
    """
    try:
        # Without its lock first: where it is right it may lie where nobody can write.
        known = _read(path) if path.exists() else None
        if known is not None and known.origin == origin:
            return known
        with changing(path):
            known = _read(path) if path.exists() else None
            if known is not None and known.origin == origin:
                return known
            if known is not None and known.origin in in_use:
                raise _moved(path, known.origin, origin)
            site = Site(origin, secrets.token_bytes(SECRET_BYTES))
            secret = urlsafe_b64encode(site.secret).decode()
            replace_private(path, f'origin = {quoted(origin)}\nsecret = "{secret}"\n')
            return site
    except OSError as error:
        raise ConsoleFileError(
            path,
            error.strerror or "it cannot be read or written",
            hint="Let this user write the folder, or name another file in "
            "ACTIONLEDGER_CONSOLE_FILE.",
        ) from error


def _read(path: Path) -> Site:
    if path.stat().st_mode & 0o077 and os.geteuid() == path.stat().st_uid:
        raise ConsoleFileError(path, "others can read it", hint=f"Run: chmod 600 {path}")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        known, secret = content["origin"], urlsafe_b64decode(content["secret"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConsoleFileError(
            path,
            "it has no origin or no secret",
            hint="Remove it: a new one is made, and everybody logs in again.",
        ) from error
    if len(secret) != SECRET_BYTES:
        raise ConsoleFileError(path, "its secret is too short", hint="Remove it.")
    return Site(known, secret)


def _moved(path: Path, known: str, origin: str) -> ConsoleFileError:
    return ConsoleFileError(
        path,
        f"people registered their passkeys under {known}, and the pages are told to be at {origin} "
        "now; no passkey would work there",
        hint=f"Set ACTIONLEDGER_CONSOLE_ORIGIN={known}. If the pages really move, remove the file, "
        "and have everybody make another passkey: `actionledger people passkey NAME`.",
    )
