"""The reconciler: the Faust app over webhooks and attention."""

import asyncpg

from gateway.settings import Settings
from gateway.wiring.installation import begin_at, open_log, open_pool, providers
from gateway.wiring.life import Life
from ledger.log.follow import genesis_of, published_catalogue
from ledger.log.kafka import KafkaLog
from ledger.log.steady import SteadyAppender
from reconciler.providers import registry
from reconciler.receiving import WebhookDesk
from streams.agents import add_attention_agent, add_webhook_agent
from streams.app import AppSettings, SafeApp, build_app, run_app
from streams.attention import AttentionWindow
from streams.clock import wall_ms

GROUP = "reconciler"


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
    async with await open_pool(settings) as pool:
        try:
            app = await _app(settings, app_settings, log, pool, appender)
            await run_app(app, app_settings, stop=life.stop, beat=life.beat)
        finally:
            await appender.close()


async def _app(
    settings: Settings,
    app_settings: AppSettings,
    log: KafkaLog,
    pool: asyncpg.Pool,
    appender: SteadyAppender,
) -> SafeApp:
    """The app with both of its agents."""
    genesis = await genesis_of(log)
    await begin_at(log, pool, genesis)
    mappings = registry.webhook_mappings(providers(settings, await published_catalogue(log)))
    desk = WebhookDesk(appender, pool, mappings, partitions=genesis.partitions, now_ms=wall_ms)
    app = build_app(app_settings)
    add_webhook_agent(app, desk, prefix=settings.topic_prefix)
    add_attention_agent(app, AttentionWindow(), appender, prefix=settings.topic_prefix)
    return app
