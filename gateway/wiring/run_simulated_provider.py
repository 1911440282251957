"""The simulated provider: the outside world, with a book of its own. For trials and tests only.

Its folder is `provider` in the state folder. With ACTIONLEDGER_WEBHOOKS_URL it tells of every
effect there, signed with the first secret of its account in ACTIONLEDGER_WEBHOOK_SECRETS_FILE.
"""

import asyncio
import logging
from typing import Final

from aiohttp import web

from gateway.settings import Settings
from gateway.wiring.installation import SIMULATED
from gateway.wiring.life import BEAT_SECONDS, Life
from gateway.wiring.places import PROVIDER_FOLDER
from reconciler.providers.simulated.server import ServerSettings, SimulatedProvider

logger = logging.getLogger("actionledger.process")

STOP_SECONDS: Final = 0.5
"""Requests that wait on purpose must not hold up a stop: an uncommitted one never happened."""


async def run(settings: Settings, life: Life) -> None:
    """Serve until asked to stop. Raises UnreadableBook, OSError."""
    folder = settings.state_dir / PROVIDER_FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    provider = SimulatedProvider(ServerSettings(folder))
    secret = _secret(settings)
    if settings.webhooks_url is not None and secret is not None:
        provider.control.send_webhooks_to(settings.webhooks_url, secret)
    runner = web.AppRunner(provider.app(), access_log=None, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.http_host, settings.http_port).start()
        logger.info("provider_ready", extra={"port": settings.http_port})
        while not life.stop.is_set():
            life.beat()
            await _wait(life.stop)
    finally:
        await runner.cleanup()


def _secret(settings: Settings) -> str | None:
    """The secret of the first account that the settings have for it."""
    for (provider, _), secrets in settings.webhook_secrets.items():
        if provider == SIMULATED:
            return secrets[0]
    return None


async def _wait(stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(BEAT_SECONDS):
            await stop.wait()
    except TimeoutError:
        return
