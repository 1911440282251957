"""The simulated provider: the outside world, with a book of its own. For trials and tests only.

Its folder is `provider` in the state folder. With ACTIONLEDGER_WEBHOOKS_URL it tells of every
effect there, signed with the first secret of its account in ACTIONLEDGER_WEBHOOK_SECRETS_FILE.
"""

import asyncio
import logging
import time
from typing import Final

from aiohttp import web

from gateway.settings import Settings
from gateway.webhook_secrets import SecretsFile
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
    signing = _Signing(settings, provider)
    signing.look()
    runner = web.AppRunner(provider.app(), access_log=None, shutdown_timeout=STOP_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, settings.http_host, settings.http_port).start()
        logger.info("provider_ready", extra={"port": settings.http_port})
        while not life.stop.is_set():
            life.beat()
            signing.look()
            await _wait(life.stop)
    finally:
        await runner.cleanup()


class _Signing:
    """Signs with the newest secret of the first account that there are some for."""

    def __init__(self, settings: Settings, provider: SimulatedProvider) -> None:
        self._url = settings.webhooks_url
        self._secrets = SecretsFile(settings.webhook_secrets_file)
        self._provider = provider
        self._secret: str | None = None

    def look(self) -> None:
        """Take up another secret once there is one."""
        accounts = self._secrets.accounts(SIMULATED)
        if self._url is None or not accounts:
            return
        live = self._secrets.live(SIMULATED, accounts[0], time.time_ns() // 1_000_000)
        if live and live[0] != self._secret:
            self._secret = live[0]
            self._provider.control.send_webhooks_to(self._url, live[0])


async def _wait(stop: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(BEAT_SECONDS):
            await stop.wait()
    except TimeoutError:
        return
