"""One-time links to register a passkey, and the keys that wait for an operator's yes.

Guarantees that a token is kept by its hash only, that a link takes one key within its time by the
database's clock, and that a key which waits here decides nothing: only what an operator publishes
as the document of people does. The command line makes and ends links, the gateway puts the key in.
"""

import hashlib
import secrets
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import asyncpg
from pydantic_core import from_json

from gateway.console.limits import LINK_MS
from ledger.core.people import PersonKey
from projections.statements import LIVE_SCHEMA, statements

TOKEN_BYTES: Final = 24
_FINGERPRINT_DIGITS: Final = 32
_GROUP_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A link that stands: for whom, until when, and the key that was made with it, if one was."""

    person: str
    expires_at: int
    key: PersonKey | None
    device: str | None


def fingerprint(key: PersonKey) -> tuple[str, ...]:
    """What two people compare of a key: half of the SHA-256 of its public half, in groups."""
    digits = hashlib.sha256(key.public.encode()).hexdigest()[:_FINGERPRINT_DIGITS]
    return tuple(
        digits[place : place + _GROUP_DIGITS] for place in range(0, len(digits), _GROUP_DIGITS)
    )


def made_here(key: PersonKey, origin: str) -> PersonKey | None:
    """The passkey that may be registered, with nothing but what makes it one; None where what was
    put into a link is none of the pages at this origin.

    Whoever took over the gateway can put anything there.
    """
    if key.kind != "passkey" or key.origin != origin or key.rp_id != urlsplit(origin).hostname:
        return None
    return PersonKey(
        id=key.id, kind="passkey", public=key.public, rp_id=key.rp_id, origin=key.origin
    )


class PasskeyLinks:
    """The links of an installation. Errors of the database are asyncpg's own."""

    def __init__(self, pool: asyncpg.Pool, schema: str = LIVE_SCHEMA) -> None:
        self._pool = pool
        self._sql = statements("passkeys.sql", schema)

    async def make(self, person: str) -> str:
        """A new link for a person; its token, the only time that it can be seen."""
        token = secrets.token_urlsafe(TOKEN_BYTES)
        await self._pool.execute(self._sql["make_link"], _kept(token), person, LINK_MS)
        return token

    async def link(self, token: str) -> Enrolled | None:
        """What a link stands for, or None where it is none or is over."""
        row = await self._pool.fetchrow(self._sql["link"], _kept(token))
        if row is None:
            return None
        key = None if row["key"] is None else PersonKey.model_validate(from_json(row["key"]))
        return Enrolled(row["person"], row["expires_at"], key, row["device"])

    async def put(self, token: str, key: PersonKey, device: str) -> bool:
        """Keep the key that was made with a link; False where it is over or has one already."""
        text = key.model_dump_json(exclude_none=True)
        put = await self._pool.fetchval(self._sql["put_key"], _kept(token), text, device)
        return put is not None

    async def end(self, token: str) -> None:
        """The link is over, whatever came of it; again changes nothing."""
        await self._pool.execute(self._sql["end_link"], _kept(token))

    async def spend(self, once: str, *, kept_ms: int) -> bool:
        """Use up a one-time value of the pages; False where somebody did before. Older ones than
        `kept_ms` are forgotten: they are over by themselves.
        """
        await self._pool.execute(self._sql["forget_spent"], kept_ms)
        return await self._pool.fetchval(self._sql["spend"], _kept(once)) is not None

    async def is_spent(self, once: str) -> bool:
        """Whether somebody used up a one-time value."""
        return bool(await self._pool.fetchval(self._sql["is_spent"], _kept(once)))


def _kept(secret: str) -> str:
    """What is kept of a secret text."""
    return hashlib.sha256(secret.encode()).hexdigest()
