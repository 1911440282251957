"""A one-time link to register a passkey, from its making to its end, for whoever hands it out.

Guarantees that a link is over when its block ends, whatever came of it. Called by the command line.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from gateway.passkeys import Enrolled, PasskeyLinks
from gateway.settings import Settings
from gateway.wiring.installation import open_pool

LOOK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Link:
    """A link that stands, and a way to wait for what is made with it."""

    url: str
    expires_at: int
    _links: PasskeyLinks
    _token: str

    async def made(self) -> Enrolled | None:
        """The passkey, as soon as a browser made one; None once the link is over."""
        while True:
            found = await self._links.link(self._token)
            if found is None or found.key is not None:
                return found
            await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def passkey_link(settings: Settings, person: str) -> AsyncIterator[Link]:
    """A link for a person, for as long as the block runs. Errors of the database are its own."""
    async with await open_pool(settings) as pool:
        links = PasskeyLinks(pool)
        token = await links.make(person)
        try:
            link = await links.link(token)
            expires_at = 0 if link is None else link.expires_at
            url = f"{settings.console_origin}/console/passkeys/{token}"
            yield Link(url, expires_at, links, token)
        finally:
            await links.end(token)
