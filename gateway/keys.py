"""API keys: who is asking, for which tenant, in which role, and until when.

Guarantees that the file holds no key, only what recognises one: SHA-256 of 256 random bits, which
nobody can guess back. A wrong key and an unknown one take the same time; that a key was revoked or
is over is told only to who has it. Must never log or return a key except once, to whoever made it.
Called by the HTTP door and the command line.
"""

import hashlib
import hmac
import logging
import re
import secrets
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from gateway.private_files import Watched, changing, quoted, replace_private
from ledger.core.errors import LedgerError
from ledger.core.ids import COMPONENT, MalformedId, check_identifier
from ledger.core.limits import BEHALF_MAX

logger = logging.getLogger("actionledger.keys")

KEYS_MAX: Final = 10_000
FILE_BYTES_MAX: Final = 8 * 1_024 * 1_024
NAME_CHARS_MAX: Final = 64
KEPT_AFTER_END_MS: Final = 90 * 24 * 3_600_000
"""How long an ended key is still refused by its name; then it is nobody's."""

_KEY: Final = re.compile(r"al_([0-9a-f]{16})_([A-Za-z0-9_-]{43})")
_ID: Final = re.compile(r"[0-9a-f]{16}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_SECRET_BYTES: Final = 32
_NOBODY: Final = hashlib.sha256(b"no key has this digest").hexdigest()
_TEXTS: Final = frozenset({"id", "sha256", "tenant", "principal", "role"})
_TIMES: Final = frozenset({"created_at", "valid_until", "revoked_at"})
_FOR: Final = "for"
_FIELDS: Final = _TEXTS | _TIMES | {"name", _FOR}


class Role(StrEnum):
    """What the bearer of a key may do: agents propose, operators too, analysts only read."""

    AGENT = "agent"
    OPERATOR = "operator"
    ANALYST = "analyst"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whoever the key belongs to. Tenant and principal come from here and from nowhere else.

    `behalf` names the people for whom the principal asks: none of them may decide about it.
    """

    key_id: str
    tenant: str
    principal: str
    role: Role
    behalf: tuple[str, ...] = ()


class KeyRefusal(StrEnum):
    """Why a key that was right is not taken any more."""

    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class StoredKey:
    """What is kept of a key. `name` is for people; `valid_until` is None where it has no end."""

    caller: Caller
    sha256: str
    name: str = ""
    created_at: int = 0
    valid_until: int | None = None
    revoked_at: int | None = None

    def refusal(self, now_ms: int) -> KeyRefusal | None:
        """Why the key is not taken at a time, or None."""
        if self.revoked_at is not None:
            return KeyRefusal.REVOKED
        if self.valid_until is not None and now_ms >= self.valid_until:
            return KeyRefusal.EXPIRED
        return None

    def is_kept(self, now_ms: int) -> bool:
        """Whether it is worth remembering: it is taken, or it ended not long ago."""
        ends = [end for end in (self.revoked_at, self.valid_until) if end is not None]
        return not ends or now_ms < min(ends) + KEPT_AFTER_END_MS


class KeyFileError(LedgerError):
    """The file of API keys cannot be used. `path` names it."""

    def __init__(self, path: Path, problem: str, *, hint: str) -> None:
        super().__init__(f"the API keys in {path} cannot be used: {problem}.", hint=hint)
        self.path = path


class UnknownKeyError(LedgerError):
    """No key has this id or name, or several have the name."""


class KeyRing:
    """The keys as they are in one version of the file."""

    def __init__(self, stored: Mapping[str, StoredKey]) -> None:
        self._stored = dict(stored)

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[StoredKey]:
        return iter(self._stored.values())

    def caller(self, presented: str, now_ms: int) -> Caller | KeyRefusal | None:
        """Whose key this is; or why it is not taken any more; or None.

        Every answer costs one hash and one comparison in constant time, also for a key whose id is
        unknown or which is no key at all.
        """
        match = _KEY.fullmatch(presented)
        stored = None if match is None else self._stored.get(match[1])
        expected = _NOBODY if stored is None else stored.sha256
        digest = hashlib.sha256(presented.encode("utf-8", "surrogatepass")).hexdigest()
        is_right = hmac.compare_digest(digest, expected)
        if stored is None or not is_right:
            return None
        return stored.refusal(now_ms) or stored.caller

    def named(self, id_or_name: str) -> StoredKey:
        """The key with this id, or the only one in use with this name. Raises UnknownKeyError.

        Of those in use one without an end comes before one that was rotated and is still taken.
        """
        if id_or_name in self._stored:
            return self._stored[id_or_name]
        now_ms = _now_ms()
        in_use = [key for key in self if key.name == id_or_name and key.refusal(now_ms) is None]
        found = [key for key in in_use if key.valid_until is None] or in_use
        if not id_or_name or len(found) != 1:
            raise UnknownKeyError(
                f"{len(found) or 'No'} keys in use are called {id_or_name!r}.",
                hint="Name one by its id; `actionledger keys list` has them.",
            )
        return found[0]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class KeyFile:
    """The keys of a file that may change while the process runs.

    A file that became unusable leaves the keys before it in force, with a warning in the log; at
    the start it is a KeyFileError.
    """

    def __init__(
        self,
        path: Path,
        clock_s: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], int] = _now_ms,
    ) -> None:
        self._wall_ms = wall_ms
        self._ring = Watched(
            path,
            read_keys,
            unusable=KeyFileError,
            on_change=lambda ring: logger.info("api_keys_read", extra={"keys": len(ring)}),
            on_trouble=lambda trouble: logger.warning(
                "api_keys_unusable", extra={"reason": str(trouble)}
            ),
            clock_s=clock_s,
        )

    def caller(self, presented: str) -> Caller | KeyRefusal | None:
        """Whose key this is, or why not; see KeyRing. A key is taken as soon as it stands in the
        file.
        """
        found = self._ring.content().caller(presented, self._wall_ms())
        if found is None and self._ring.has_changed():
            found = self._ring.content().caller(presented, self._wall_ms())
        return found


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
    if not isinstance(entry, dict) or not _TEXTS <= set(entry) <= _FIELDS:
        raise ValueError(f"has other fields than {', '.join(sorted(_FIELDS))}")
    if not all(isinstance(entry.get(field, ""), str) for field in (*_TEXTS, "name")):
        raise ValueError("has a field that is not a text")
    if not all(type(entry.get(field, 0)) is int for field in _TIMES):
        raise ValueError("has a time that is not in whole milliseconds")
    if _ID.fullmatch(entry["id"]) is None or _DIGEST.fullmatch(entry["sha256"]) is None:
        raise ValueError("has no id of 16 or no sha256 of 64 hexadecimal digits")
    behalf = entry.get(_FOR, [])
    if not isinstance(behalf, list) or not all(isinstance(name, str) for name in behalf):
        raise ValueError("says in `for` something else than a list of people")
    return StoredKey(
        _checked(
            entry["id"], entry["tenant"], entry["principal"], Role(entry["role"]), tuple(behalf)
        ),
        entry["sha256"],
        name=entry.get("name", ""),
        created_at=entry.get("created_at", 0),
        valid_until=entry.get("valid_until"),
        revoked_at=entry.get("revoked_at"),
    )


def _checked(
    key_id: str, tenant: str, principal: str, role: Role, behalf: tuple[str, ...] = ()
) -> Caller:
    if COMPONENT.fullmatch(tenant) is None:
        raise MalformedId(
            "tenant",
            "is not a component of a key",
            "use letters, digits, dot, underscore, hyphen",
        )
    if len(behalf) > BEHALF_MAX:
        raise MalformedId("for", "names too many", f"name at most {BEHALF_MAX} people")
    people = tuple(check_identifier(name, "for") for name in behalf)
    return Caller(key_id, tenant, check_identifier(principal, "principal"), role, people)


def create_key(
    path: Path,
    *,
    tenant: str,
    principal: str,
    role: Role,
    name: str = "",
    valid_until: int | None = None,
    behalf: Sequence[str] = (),
) -> str:
    """Add a key to the file and return it, the only time that it can be seen.

    `behalf` are the people for whom its bearer asks. Raises MalformedId for a tenant, principal or
    name that is none, KeyFileError where the file cannot be read or written.
    """
    caller = _checked(secrets.token_hex(8), tenant, principal, role, tuple(behalf))
    if name and (check_identifier(name, "name") != name or len(name) > NAME_CHARS_MAX):
        raise MalformedId("name", "is too long", f"use at most {NAME_CHARS_MAX} characters")
    key, stored = _made(caller, name, valid_until)
    with _changed(path) as keys:
        keys[caller.key_id] = stored
    return key


def rotate_key(
    path: Path, id_or_name: str, *, keep_ms: int, valid_until: int | None = None
) -> tuple[StoredKey, str]:
    """A new key for the same caller under the same name; the old one is taken `keep_ms` longer.

    The new one ends at `valid_until`, or when the old one was to end: a key for a while never
    becomes one for ever by itself. Returns what is kept of the new key, and the key. Raises
    UnknownKeyError, KeyFileError.
    """
    with _changed(path) as keys:
        old = KeyRing(keys).named(id_or_name)
        if old.refusal(_now_ms()) is not None:
            raise UnknownKeyError(
                f"The key {old.caller.key_id} is not in use any more.",
                hint="Make a new one with `actionledger keys create`.",
            )
        ends_at = _now_ms() + keep_ms
        until = old.valid_until if valid_until is None else valid_until
        if old.valid_until is not None:
            ends_at = min(ends_at, old.valid_until)
        keys[old.caller.key_id] = replace(old, valid_until=ends_at)
        key, stored = _made(replace(old.caller, key_id=secrets.token_hex(8)), old.name, until)
        keys[stored.caller.key_id] = stored
    return stored, key


def revoke_key(path: Path, id_or_name: str) -> StoredKey:
    """Take a key back, from now on; again changes nothing. Raises UnknownKeyError, KeyFileError."""
    with _changed(path) as keys:
        old = KeyRing(keys).named(id_or_name)
        revoked_at = _now_ms() if old.revoked_at is None else old.revoked_at
        keys[old.caller.key_id] = revoked = replace(old, revoked_at=revoked_at)
    return revoked


def _made(caller: Caller, name: str, valid_until: int | None) -> tuple[str, StoredKey]:
    key = f"al_{caller.key_id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    return key, StoredKey(caller, digest, name, _now_ms(), valid_until)


@contextmanager
def _changed(path: Path) -> Iterator[dict[str, StoredKey]]:
    """The keys of the file, to be changed; written when the block ends well. Raises KeyFileError.

    What is there must be usable before anything is put beside it.
    """
    try:
        with changing(path):
            keys = {key.caller.key_id: key for key in read_keys(path)}
            yield keys
            now_ms = _now_ms()
            replace_private(path, _document(key for key in keys.values() if key.is_kept(now_ms)))
    except OSError as error:
        raise KeyFileError(
            path,
            error.strerror or "it cannot be written",
            hint="Let this user write the folder, or name another file.",
        ) from error


def _document(keys: Iterable[StoredKey]) -> str:
    return "\n".join(map(_table, keys))


def _table(key: StoredKey) -> str:
    caller = key.caller
    lines = [
        "[[keys]]",
        f'id = "{caller.key_id}"',
        f'sha256 = "{key.sha256}"',
        f'tenant = "{caller.tenant}"',
        f"principal = {quoted(caller.principal)}",
        f'role = "{caller.role.value}"',
    ]
    if caller.behalf:
        lines.append(f"{_FOR} = [{', '.join(map(quoted, caller.behalf))}]")
    if key.name:
        lines.append(f"name = {quoted(key.name)}")
    for field, at in (
        ("created_at", key.created_at or None),
        ("valid_until", key.valid_until),
        ("revoked_at", key.revoked_at),
    ):
        if at is not None:
            lines.append(f"{field} = {at}")
    return "\n".join(lines) + "\n"
