"""`python -m reconciler.providers.simulated`: one simulated provider until it is told to stop.

Guarantees that the port file appears whole and only when requests are taken, then one line on
standard output. Run by the local servers, the demonstration and the tests.
"""

import argparse
import asyncio
import signal
import sys
from pathlib import Path
from typing import Final

from aiohttp import web

from ledger.core.errors import LedgerError
from reconciler.providers.simulated.server import ServerSettings, SimulatedProvider

# Requests that wait on purpose must not hold up a stop: an uncommitted one never happened.
_STOP_SECONDS: Final = 0.5


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m reconciler.providers.simulated",
        description="A payment provider with a book on disk and faults on demand.",
    )
    parser.add_argument("--book", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--port-file", type=Path, help="written when requests are taken")
    parser.add_argument("--seed", type=int, default=0, help="of everything left to chance")
    parser.add_argument("--webhook-url", help="where webhooks go ({account} is filled in)")
    parser.add_argument("--webhook-secret-file", type=Path, help="holds one whsec_ secret")
    parser.add_argument("--webhook-retry-ms", type=int, default=200, metavar="MS")
    return parser.parse_args()


async def _serve(arguments: argparse.Namespace) -> None:
    provider = SimulatedProvider(
        ServerSettings(arguments.book, arguments.seed, arguments.webhook_retry_ms)
    )
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


def main() -> int:
    """Run until SIGTERM or SIGINT; 1 if it cannot start."""
    try:
        asyncio.run(_serve(_arguments()))
    except (LedgerError, OSError) as error:
        sys.stderr.write(f"simulated_provider_stopped {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
