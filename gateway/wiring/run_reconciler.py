"""The reconciler: the Faust app over webhooks and attention, and beside it what tells people."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

import asyncpg

from gateway.settings import Settings
from gateway.wiring.installation import begin_at, open_log, open_pool, providers
from gateway.wiring.life import Life
from ledger.core.people import People
from ledger.log.attention_record import AttentionRaised
from ledger.log.follow import genesis_of, published_catalogue
from ledger.log.kafka import KafkaLog
from ledger.log.published import read_published
from ledger.log.steady import SteadyAppender
from projections.errors import AWAY
from reconciler.lost_rows import LostRows
from reconciler.notifying.destinations import load_destinations
from reconciler.notifying.limits import PEOPLE_READ_MS
from reconciler.notifying.messages import Pages
from reconciler.notifying.notifier import Notifier
from reconciler.providers import registry
from reconciler.receiving import WebhookDesk
from reconciler.topic_identity import require_same_topic
from reconciler.windows import WebhookWindow
from streams.agents import add_attention_agent, add_webhook_agent, keep_whole
from streams.app import AppSettings, SafeApp, build_app, run_app
from streams.attention import AttentionWindow
from streams.clock import wall_ms
from streams.window_writer import WindowWriter

logger = logging.getLogger("actionledger")

GROUP = "reconciler"
PLANNED_ANEW = {"plan_cache_mode": "force_custom_plan"}
"""A plan made while the tables were empty reads them whole, and is kept until they are analysed:
in the first minute of an installation that took more of Postgres than all else.
"""


async def run(settings: Settings, life: Life) -> None:
    """Match webhooks until asked to stop. Raises what must end the process."""
    log = open_log(settings, "reconciler")
    appender = SteadyAppender(log.appender)
    app_settings = AppSettings(
        settings.kafka_bootstrap,
        f"{settings.topic_prefix}{GROUP}",
        access=log.access,
        session_timeout_ms=log.group_session_ms,
        heartbeat_ms=log.group_heartbeat_ms,
    )
    async with await open_pool(settings, session=PLANNED_ANEW, reset=_as_it_is) as pool:
        try:
            notifier = _notifier(settings, log, pool)
            app, showing, whole = await _app(settings, app_settings, log, pool, appender, notifier)
            async with asyncio.TaskGroup() as tasks:
                telling = tasks.create_task(_tell(notifier, life.stop))
                seen = tasks.create_task(showing.run(life.stop))
                kept = tasks.create_task(keep_whole(whole, app, life.stop))
                await run_app(app, app_settings, stop=life.stop, beat=life.beat)
                telling.cancel()
                seen.cancel()
                kept.cancel()
        finally:
            await appender.close()


async def _as_it_is(_connection: "asyncpg.Connection[asyncpg.Record]") -> None:
    """Give a connection back as it is: whoever uses this pool sets and locks nothing beyond a
    transaction, and asking Postgres to forget it is a question for every batch.
    """


async def _app(
    settings: Settings,
    app_settings: AppSettings,
    log: KafkaLog,
    pool: asyncpg.Pool,
    appender: SteadyAppender,
    notifier: Notifier | None,
) -> tuple[SafeApp, WindowWriter, LostRows]:
    """The app with both of its agents, what shows what they see, and what keeps its rows whole."""
    genesis = await genesis_of(log)
    await begin_at(log, pool, genesis)
    try:
        await require_same_topic(log, pool, genesis.partitions)
    except AWAY as away:
        # The desk sees it where it meets a place that has a row.
        logger.warning("webhooks_not_compared", extra={"reason": repr(away)})
    known = providers(settings, await published_catalogue(log))
    seen, window = WebhookWindow(), AttentionWindow()
    desk = WebhookDesk(
        appender,
        pool,
        registry.webhook_mappings(known),
        partitions=genesis.partitions,
        now_ms=wall_ms,
        shared_accounts=registry.shared_accounts(known),
        window=seen,
    )
    app = build_app(app_settings)
    whole = LostRows(desk, pool, log)
    add_webhook_agent(app, whole, prefix=settings.topic_prefix)

    async def notify(raised: Sequence[AttentionRaised]) -> None:
        if notifier is not None:
            await notifier.keep(raised)

    add_attention_agent(app, window, appender, prefix=settings.topic_prefix, notify=notify)
    return app, WindowWriter(pool, seen, window), whole


def _notifier(settings: Settings, log: KafkaLog, pool: asyncpg.Pool) -> Notifier | None:
    """What tells people, where the settings name anybody. Raises UnusableDestinations."""
    if settings.notify_file is None:
        return None
    known = load_destinations(settings.notify_file)
    pages = Pages(settings.console_origin)
    return Notifier(pool, known, pages, people=_people_of(log), now_ms=wall_ms)


async def _tell(notifier: Notifier | None, stop: asyncio.Event) -> None:
    if notifier is not None:
        await notifier.run(stop)


def _people_of(log: KafkaLog) -> Callable[[], Awaitable[People]]:
    """The newest document of people, read again when it is older than a few seconds."""
    known: tuple[float, People] | None = None

    async def people() -> People:
        nonlocal known
        now_s = time.monotonic()
        if known is None or now_s - known[0] > PEOPLE_READ_MS / 1_000:
            known = now_s, (await read_published(log)).people
        return known[1]

    return people
