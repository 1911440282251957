"""The gateway process: the app over the real log and the read model, from start to graceful stop.

Guarantees that it accepts nothing before it follows the log, that a stop lets open requests finish
within their time, and that it ends when it can no longer follow the log: a supervisor starts
another. Postgres may be away at any time: proposals and webhooks do not need it.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

import asyncpg
import uvicorn
from fastapi import FastAPI

from gateway.console.wiring import open_console
from gateway.http.app import create_app
from gateway.http.doors import Instance, doors_in
from gateway.http.limits import (
    CONNECTIONS_MAX,
    STOP_S_MAX,
    WEBHOOK_APPEND_MS_MAX,
)
from gateway.http.protocol import BoundedProtocol
from gateway.keys import KeyFile
from gateway.orphans import OrphanDesk
from gateway.settings import Settings
from gateway.wiring.installation import open_log, providers
from ledger.client.client import LedgerClient
from ledger.client.published import PublishedFollower
from ledger.core.errors import LedgerError
from ledger.core.records import Genesis
from ledger.log.fold import Begin
from ledger.log.follow import genesis_of
from ledger.log.gathering import GatheringAppender
from ledger.log.kafka import KafkaLog
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from projections.grants import stands_above_policies
from projections.queries import Queries
from projections.statements import LIVE_SCHEMA
from reconciler.providers.registry import webhook_schemes
from reconciler.schemes import scheme_of
from reconciler.windows import read_live
from streams.clock import wall_ms

logger = logging.getLogger("actionledger.http")

_MS_PER_S: Final = 1_000
POOL_CONNECTIONS_MAX: Final = 16
KEEP_ALIVE_S: Final = 65
"""Above the 60 seconds after which common proxies give up a connection, so that they do first."""
BEAT_S: Final = 0.1
"""Often enough that whoever started the process learns soon that it serves."""
BACKLOG: Final = 2_048


class CannotServeError(LedgerError):
    """The gateway cannot start as it is configured, or cannot go on."""


class _Server(uvicorn.Server):
    """Uvicorn without its own signal handlers, which would end the process before ours closed."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `serve`."""
        yield


async def serve(
    settings: Settings,
    stop: asyncio.Event,
    *,
    begin_at: Mapping[int, Begin] | None = None,
    beat: Callable[[], None] = lambda: None,
) -> None:
    """Serve until `stop` is set; returns after a graceful stop.

    `begin_at` gives, by partition, a ledger offset and what is known there: what the read model
    holds need not be read again. `beat` is called all the time while requests are taken. Raises
    CannotServeError, UnusableProvider, KeyFileError, and LogUnreachableError at the start.
    """
    async with gateway(settings, begin_at=begin_at) as (app, client):
        await _serve(app, client, settings, stop, beat)


@asynccontextmanager
async def gateway(
    settings: Settings, *, begin_at: Mapping[int, Begin] | None = None
) -> AsyncIterator[tuple[FastAPI, LedgerClient]]:
    """The app with everything behind it started; closed in reverse."""
    schemes = webhook_schemes(providers(settings, None))
    for (provider, account), secrets in settings.webhook_secrets.items():
        if not all(scheme_of(schemes, provider).is_usable_secret(secret) for secret in secrets):
            raise CannotServeError(
                f"A webhook secret of {provider}.{account} is none.",
                hint="Put the one that the provider shows in its place: `actionledger secrets "
                "rotate --secret-file`, or `secrets revoke` where it was replaced before.",
            )
    keys = KeyFile(settings.api_keys_file)
    log = open_log(settings, "gateway")
    # No connection is made before one is needed, so that the database may be away at the start.
    async with asyncpg.create_pool(
        settings.database_url,
        min_size=0,
        max_size=POOL_CONNECTIONS_MAX,
        init=_WarnOnce().if_unbounded,
    ) as pool:
        queries = Queries(pool)
        genesis = await _required_genesis(log, settings.partitions)
        # As principals of their own: who takes over one door cannot write to another's inbox.
        appender = _gathering(open_log(settings, "gateway-webhooks"))
        approvals = open_log(settings, "gateway-approvals")
        client = LedgerClient(log, settings.partitions, begin_at=begin_at, approvals=approvals)
        published = PublishedFollower(approvals, on_failure=client.fail)
        place = (Topic.LEDGER.value, 0)
        reader = await log.reader({place: 0})
        try:
            await client.start()
            await published.start()

            async def database_answers() -> None:
                await pool.fetchval("select 1")

            async def log_answers() -> None:
                await reader.end_offsets([place])

            checks = {"database": database_answers, "log": log_answers}
            instance = Instance(
                genesis.generation,
                published.now,
                checks,
                schemes,
                live=lambda now_ms: read_live(pool, now_ms=now_ms),
                orphans=OrphanDesk(pool, appender, partitions=genesis.partitions, now_ms=wall_ms),
                catch_up=published.catch_up,
            )
            console = open_console(
                settings,
                pool,
                client,
                published.now,
                ledger_id=genesis.generation,
                orphans=instance.orphans,
                catch_up=published.catch_up,
            )
            app = create_app(client, queries, appender, keys, settings, instance, console=console)
            yield app, client
        finally:
            await reader.close()
            await published.close()
            await client.close()
            await appender.close()


def _gathering(log: KafkaLog) -> GatheringAppender:
    """An appender for many webhooks at a time, each of which waits for so long and no longer."""
    return GatheringAppender(
        SteadyAppender(log.appender),
        patience_s=WEBHOOK_APPEND_MS_MAX / _MS_PER_S,
    )


class _WarnOnce:
    """Looks at each new connection to the database and says once what should not be."""

    def __init__(self) -> None:
        self._is_told = False

    async def if_unbounded(self, connection: asyncpg.Connection) -> None:
        """Warn where only our own statements keep tenants apart, and not the database too."""
        if not self._is_told and await stands_above_policies(connection, LIVE_SCHEMA):
            self._is_told = True
            logger.warning("database_role_unbounded")


async def _required_genesis(log: KafkaLog, partitions: int) -> Genesis:
    """How the log begins. Raises CannotServeError where it has another number of partitions: keys
    would go astray.
    """
    genesis = await genesis_of(log)
    if genesis.partitions != partitions:
        raise CannotServeError(
            f"The log has {genesis.partitions} partitions, not {partitions}.",
            hint=f"Set ACTIONLEDGER_PARTITIONS={genesis.partitions}; the number never changes.",
        )
    return genesis


async def _serve(
    app: FastAPI,
    client: LedgerClient,
    settings: Settings,
    stopping: asyncio.Event,
    beat: Callable[[], None],
) -> None:
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        # Nothing here asks where a request comes from: what a header says of it is not believed.
        proxy_headers=False,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=STOP_S_MAX,
    )
    server = _Server(config)
    doors = doors_in(app)
    with _listening(settings.http_host, settings.http_port) as listening:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(server.serve([listening]), name="http_server")
            ending = tasks.create_task(_ended(client, stopping), name="http_stop")
            beating = tasks.create_task(_beat(server, beat), name="http_beat")
            logger.info(
                "gateway_ready", extra={"host": settings.http_host, "port": settings.http_port}
            )
            await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
            doors.is_stopping = True
            server.should_exit = True
            ending.cancel()
            beating.cancel()
    if not stopping.is_set():
        failure = client.failure
        raise CannotServeError(
            "The log cannot be followed any more.", hint="See the error before; start it anew."
        ) from (failure.exception() if failure is not None and failure.done() else None)
    logger.info("gateway_stopped")


async def _beat(server: uvicorn.Server, beat: Callable[[], None]) -> None:
    """Tell of life once requests are taken; whatever stops the loop stops this too."""
    while True:
        if server.started:
            beat()
        await asyncio.sleep(BEAT_S)


async def _ended(client: LedgerClient, stopping: asyncio.Event) -> None:
    """Wait for a stop, or until the log can no longer be followed."""
    failure = client.failure
    assert failure is not None  # noqa: S101 - set by start
    stopped = asyncio.ensure_future(stopping.wait())
    either: list[asyncio.Future[Any]] = [stopped, failure]
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()


def _listening(host: str, port: int) -> socket.socket:
    """A socket that listens, closed by leaving it. Raises CannotServeError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise CannotServeError(
            f"Nothing can be served at {host} port {port}: {error.strerror or error}.",
            hint="Free the port, or set ACTIONLEDGER_HTTP_PORT.",
        ) from error
