"""The pages of a gateway, built from its parts when it starts.

Guarantees that a gateway whose pages were set up for another origin does not start. Called by the
gateway process.
"""

import logging
from collections.abc import Awaitable, Callable

import asyncpg

from gateway.console.reading import ConsoleReading, JudgePort
from gateway.console.request import Console
from gateway.console.site_file import read_site
from gateway.orphans import OrphansPort
from gateway.passkeys import PasskeyLinks
from gateway.settings import Settings
from ledger.log.published import Published
from projections.queries import Queries
from reconciler.windows import read_live

logger = logging.getLogger("actionledger.console")


def open_console(
    settings: Settings,
    pool: asyncpg.Pool,
    ledger: JudgePort,
    published: Callable[[], Published],
    *,
    ledger_id: str,
    orphans: OrphansPort,
    catch_up: Callable[[], Awaitable[bool]],
) -> Console:
    """The pages under the origin of the settings. Raises ConsoleFileError."""
    reading = ConsoleReading(
        Queries(pool),
        ledger,
        PasskeyLinks(pool),
        published,
        generation=ledger_id,
        live=lambda now_ms: read_live(pool, now_ms=now_ms),
        orphans=orphans,
        catch_up=catch_up,
    )
    in_use = {
        key.origin
        for person in published().people.people
        for key in person.keys
        if key.origin is not None and not (key.revoked or person.revoked)
    }
    site = read_site(settings.console_file, settings.console_origin, in_use=in_use)
    logger.info("console_ready", extra={"origin": site.origin})
    return Console(reading, site)
