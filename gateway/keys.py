"""API keys: who is asking, for which tenant, in which role.

Guarantees that the file holds no key, only what recognises one: SHA-256 of 256 random bits, which
nobody can guess back. A wrong key and an unknown one take the same time. Must never log or return
a key except once, to whoever made it. Called by the HTTP door and the command line.
"""

import hashlib
import hmac
import logging
import os
import re
import secrets
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from ledger.core.errors import LedgerError
from ledger.core.ids import COMPONENT, MalformedId, check_identifier

logger = logging.getLogger("actionledger.keys")

KEYS_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 8 * 1_024 * 1_024
LOOK_EVERY_S: Final = 1.0
"""How often the file is looked at for a change: a revoked key lives at most this much longer."""

_KEY: Final = re.compile(r"al_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_ID: Final = re.compile(r"[0-9a-f]{16}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SECRET_BYTES: Final = 32
_NOBODY: Final = hashlib.sha256(b"no key has this digest").hexdigest()
_FIELDS: Final = frozenset({"id", "sha256", "tenant", "principal", "role"})


class Role(StrEnum):
    """What the bearer of a key may do: agents propose, operators too, analysts only read."""

    AGENT = "agent"
    OPERATOR = "operator"
    ANALYST = "analyst"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever the key belongs to. Tenant and principal come from here and from nowhere else."""

    key_id: str
    tenant: str
    principal: str
    role: Role


@dataclass(frozen=True, slots=True)
class StoredKey:
    """What is kept of a key."""

    caller: Caller
    sha256: str


class KeyFileError(LedgerError):
    """The file of API keys cannot be used. `path` names it."""

    def __init__(self, path: Path, problem: str, *, hint: str) -> None:
        super().__init__(f"the API keys in {path} cannot be used: {problem}.", hint=hint)
        self.path = path


class KeyRing:
    """The keys as they are in one version of the file."""

    def __init__(self, stored: Mapping[str, StoredKey]) -> None:
        self._stored = dict(stored)

    def __len__(self) -> int:
        return len(self._stored)

    def caller(self, presented: str) -> Caller | None:
        """Whose key this is, or None.

        Every answer costs one hash and one comparison in constant time, also for a key whose id is
        unknown or which is no key at all.
        """
        match = _KEY.fullmatch(presented)
        stored = None if match is None else self._stored.get(match[1])
        expected = _NOBODY if stored is None else stored.sha256
        digest = hashlib.sha256(presented.encode("utf-8", "surrogatepass")).hexdigest()
        is_right = hmac.compare_digest(digest, expected)
        return stored.caller if stored is not None and is_right else None


class KeyFile:
    """The keys of a file that may change while the process runs.

    A file that became unusable leaves the keys before it in force, with a warning in the log; at
    the start it is a KeyFileError.
    """

    def __init__(self, path: Path, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock_s = clock_s
        self._looked_at_s = clock_s()
        self._seen = _stamp(path)
        self._ring = read_keys(path)

    def caller(self, presented: str) -> Caller | None:
        """Whose key this is, or None; see KeyRing."""
        now_s = self._clock_s()
        if now_s - self._looked_at_s >= LOOK_EVERY_S:
            self._looked_at_s = now_s
            self._look_again()
        return self._ring.caller(presented)

    def _look_again(self) -> None:
        stamp = _stamp(self._path)
        if stamp == self._seen:
            return
        self._seen = stamp
        try:
            self._ring = read_keys(self._path)
        except KeyFileError as unusable:
            logger.warning("api_keys_unusable", extra={"reason": str(unusable)})
        else:
            logger.info("api_keys_read", extra={"keys": len(self._ring)})


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when the file is replaced; None where there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def read_keys(path: Path) -> KeyRing:
    """The keys of a file; a file that is not there holds none. Raises KeyFileError."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return KeyRing({})
    except OSError as error:
        raise KeyFileError(
            path, error.strerror or "it cannot be read", hint="Let this process read the file."
        ) from error
    if len(raw) > FILE_BYTES_MAX:
        raise KeyFileError(path, "it is too large", hint="Remove keys that nobody uses.")
    try:
        document = tomllib.loads(raw.decode())
    except ValueError as error:
        raise KeyFileError(
            path, f"it is not TOML ({error})", hint="Restore it, or make the keys again."
        ) from error
    entries = document.get("keys", [])
    if set(document) - {"keys"} or not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise KeyFileError(
            path, "it is no list of [[keys]]", hint=f"Write at most {KEYS_MAX} tables [[keys]]."
        )
    stored: dict[str, StoredKey] = {}
    for number, entry in enumerate(entries, start=1):
        try:
            key = _stored(entry)
        except (ValueError, TypeError) as error:
            raise KeyFileError(
                path, f"key {number}: {error}", hint="Correct or remove this key."
            ) from error
        if key.caller.key_id in stored:
            raise KeyFileError(
                path, f"key {number} has the id of another", hint="Remove one of them."
            )
        stored[key.caller.key_id] = key
    return KeyRing(stored)


def _stored(entry: object) -> StoredKey:
    """One table of the file; raises ValueError with what is wrong."""
    if not isinstance(entry, dict) or set(entry) != _FIELDS:
        raise ValueError(f"has other fields than {', '.join(sorted(_FIELDS))}")
    if not all(isinstance(value, str) for value in entry.values()):
        raise ValueError("has a field that is not a text")
    if _ID.fullmatch(entry["id"]) is None or _DIGEST.fullmatch(entry["sha256"]) is None:
        raise ValueError("has no id of 16 or no sha256 of 64 hexadecimal digits")
    return StoredKey(
        _checked(entry["id"], entry["tenant"], entry["principal"], Role(entry["role"])),
        entry["sha256"],
    )


def _checked(key_id: str, tenant: str, principal: str, role: Role) -> Caller:
    if COMPONENT.fullmatch(tenant) is None:
        raise MalformedId(
            "tenant",
            "is not a component of a key",
            "use letters, digits, dot, underscore, hyphen",
        )
    return Caller(key_id, tenant, check_identifier(principal, "principal"), role)


def create_key(path: Path, *, tenant: str, principal: str, role: Role) -> str:
    """Add a key to the file and return it, the only time that it can be seen.

    Raises MalformedId for a tenant or principal that is none, KeyFileError where the file cannot be
    read or written. Two that add at the same time may lose one of the two keys, never the file.
    """
    key_id = secrets.token_hex(8)
    caller = _checked(key_id, tenant, principal, role)
    read_keys(path)  # what is there must be usable before anything is put beside it
    key = f"al_{key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    table = (
        "[[keys]]\n"
        f'id = "{key_id}"\n'
        f'sha256 = "{hashlib.sha256(key.encode()).hexdigest()}"\n'
        f'tenant = "{caller.tenant}"\n'
        f"principal = {_quoted(caller.principal)}\n"
        f'role = "{caller.role.value}"\n'
    )
    try:
        _append(path, table)
    except OSError as error:
        raise KeyFileError(
            path,
            error.strerror or "it cannot be written",
            hint="Let this user write the folder, or name another file.",
        ) from error
    return key


def _quoted(text: str) -> str:
    """A TOML basic string of an identifier, which holds no control characters."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _append(path: Path, table: str) -> None:
    """Replace the file by itself and the table, whole or not at all, readable by its owner only."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    text = f"{before.rstrip()}\n\n{table}" if before.strip() else table
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
