"""Running one simulated provider, of whatever forms, until it is told to stop.

Guarantees that the port file appears whole and only when requests are taken, then one line on
standard output. Called by the `__main__` of each simulated provider, which the local servers, the
demonstration and the tests run.
"""

import argparse
import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from aiohttp import web

from ledger.core.errors import LedgerError
from reconciler.providers.simulated.control import Control

# Requests that wait on purpose must not hold up a stop: an uncommitted one never happened.
_STOP_SECONDS: Final = 0.5


class Simulated(Protocol):
    """A provider that can be run."""

    @property
    def control(self) -> Control:
        """What steers it."""
        ...

    def app(self) -> web.Application:
        """Its routes."""
        ...


Build = Callable[[Path, int, int], Simulated]
"""From the folder, the seed and the first pause before a webhook is sent again (milliseconds)."""


def _arguments(prog: str, description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--book", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="written when requests are taken")
    parser.add_argument("--seed", type=int, default=0, help="of everything left to chance")
    parser.add_argument("--webhook-url", help="where webhooks go ({account} is filled in)")
    parser.add_argument("--webhook-secret-file", type=Path, help="holds one whsec_ secret")
    parser.add_argument("--webhook-retry-ms", type=int, default=200, metavar="MS")
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace, build: Build) -> None:
    provider = build(arguments.book, arguments.seed, arguments.webhook_retry_ms)
    if arguments.webhook_url is not None and arguments.webhook_secret_file is not None:
        secret = arguments.webhook_secret_file.read_text().strip()
        provider.control.send_webhooks_to(arguments.webhook_url, secret)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    runner = web.AppRunner(provider.app(), access_log=None, shutdown_timeout=_STOP_SECONDS)
    await runner.setup()
    try:
        await web.TCPSite(runner, arguments.host, arguments.port).start()
        port = runner.addresses[0][1]
        if arguments.port_file is not None:
            fresh = arguments.port_file.with_suffix(".new")
            fresh.write_text(f"{port}\n")
            fresh.replace(arguments.port_file)
        sys.stdout.write(f"simulated_provider_ready port={port} book={arguments.book}\n")
        sys.stdout.flush()
        await stop.wait()
    finally:
        await runner.cleanup()


def main(prog: str, description: str, build: Build) -> int:
    """Run until SIGTERM or SIGINT; 1 if it cannot start."""
    try:
        asyncio.run(_serve(_arguments(prog, description), build))
    except (LedgerError, OSError) as error:
        sys.stderr.write(f"simulated_provider_stopped {error}\n")
        return 1
    return 0
