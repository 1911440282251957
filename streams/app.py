"""The Faust app of the reconciler: explicit settings, the safe transport, an end that is an end.

Guarantees that a failed agent, a group that does not take the process in, a coordinator's error and
a standstill each end the process with an error, so that its supervisor starts another; and that
stopping has a deadline, after which the process ends without Faust's consent. Nothing of Faust's
own is used that keeps state: no tables, no leader, no web server, no declared topics.

Must never read the ledger topic: at Faust's cost per record it would take more than all the rest.
Built by the wiring; `streams.agents` adds the agents.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, assert_never

import faust
import mode
from faust.exceptions import ProducerSendError
from faust.types import AgentT
from faust.types.auth import CredentialsArg
from faust.types.transports import TransportT

from ledger.core.errors import LedgerError
from ledger.log.access import OPEN, KafkaAccess, Protocol
from streams import limits
from streams.faust_transport import SafeConsumer, SafeTransport
from streams.watchdog import Standstill, watch

logger = logging.getLogger("actionledger")

EXIT_STUCK = 70
"""What the process ends with when it could not stop in time (EX_SOFTWARE of sysexits.h)."""


class AppEndedError(LedgerError):
    """The app ended by itself: an agent failed, or Faust did. Nothing was committed past it."""


class StandstillError(LedgerError):
    """The app is up and does not move. Another process may."""


@dataclass(frozen=True, slots=True)
class AppSettings:
    """What one Faust process is told. `group` is the consumer group and the id of the app.

    `bootstrap` lists brokers as host:port, several with commas.
    """

    bootstrap: str
    group: str
    commit_interval_ms: int = limits.COMMIT_INTERVAL_MS
    session_timeout_ms: int = limits.SESSION_TIMEOUT_MS
    heartbeat_ms: int = limits.HEARTBEAT_MS
    rebalance_timeout_ms: int = limits.REBALANCE_TIMEOUT_MS
    ready_deadline_ms: int = limits.READY_DEADLINE_MS
    stalled_after_ms: int = limits.STALLED_AFTER_MS
    stop_deadline_ms: int = limits.STOP_DEADLINE_MS
    access: KafkaAccess = OPEN


class SafeApp(faust.App):
    """A Faust app that runs on the safe transport and poisons its consumer when an agent fails."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # noqa: ANN401 - Faust's own
        self.made_again: Callable[[], int] = int
        """How much was done so far that has to be done before events can be handled."""
        super().__init__(*arguments, **settings)

    def _new_transport(self) -> TransportT:
        return SafeTransport(self.conf.broker_consumer, self)

    def _new_producer_transport(self) -> TransportT:
        return SafeTransport(self.conf.broker_producer, self)

    async def _on_agent_error(self, agent: AgentT[object], exc: BaseException) -> None:
        self.safe_consumer.poison(f"agent {agent.name} failed: {exc!r}")
        await super()._on_agent_error(agent, exc)

    async def _producer_flush(self, logger: Any) -> None:  # noqa: ANN401 - Faust's own
        """Raising here would leave the rest of the app running when it is to stop."""
        try:
            await super()._producer_flush(logger)
        except ProducerSendError as lost:
            self.safe_consumer.poison(str(lost))

    def _on_rebalance_when_stopped(self) -> None:
        """Let the stop end the consumer. Faust closes its client here, in the loop of the wrong
        thread: what still waits there for the client then waits for ever, and the stop for that.
        """

    def _create_directories(self) -> None:
        """Keep nothing on disk: there are no tables, and the file system may be read-only."""

    @property
    def safe_consumer(self) -> SafeConsumer:
        """The app's consumer as what it is."""
        consumer = self.consumer
        if not isinstance(consumer, SafeConsumer):
            raise TypeError("the app was given another transport")
        return consumer


def build_app(settings: AppSettings) -> SafeApp:
    """An app without agents, not started. Call it inside the loop it will run on."""
    return SafeApp(
        settings.group,
        broker=[f"kafka://{server}" for server in settings.bootstrap.split(",")],
        broker_credentials=credentials_of(settings.access),
        autodiscover=False,
        datadir=Path(os.devnull),
        # Bytes in, bytes out: what cannot be decoded must reach us, not Faust's own skipping.
        key_serializer="raw",
        value_serializer="raw",
        processing_guarantee="at_least_once",
        agent_supervisor=mode.CrashingSupervisor,
        stream_wait_empty=True,
        stream_publish_on_commit=False,
        stream_buffer_maxsize=limits.STREAM_BUFFER_EVENTS_MAX,
        broker_commit_interval=settings.commit_interval_ms / 1000,
        broker_commit_every=1_000,
        broker_max_poll_records=limits.POLL_RECORDS_MAX,
        broker_max_poll_interval=limits.POLL_INTERVAL_MS_MAX / 1000,
        broker_session_timeout=settings.session_timeout_ms / 1000,
        broker_heartbeat_interval=settings.heartbeat_ms / 1000,
        broker_rebalance_timeout=settings.rebalance_timeout_ms / 1000,
        consumer_auto_offset_reset="earliest",
        consumer_metadata_max_age_ms=limits.METADATA_AGE_MS_MAX,
        producer_acks=-1,
        producer_request_timeout=30.0,
        producer_threaded=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        # Gives Faust's own assignor also without tables; the other one ignores static members.
        table_standby_replicas=1,
        store="memory://",
        cython_optimizations=False,
        web_enabled=False,
    )


def credentials_of(access: KafkaAccess) -> CredentialsArg | None:
    """The same access in Faust's words; None is a broker that lets everybody in."""
    context = access.ssl_context()
    match access.protocol:
        case Protocol.PLAINTEXT:
            return None
        case Protocol.SSL:
            return faust.SSLCredentials(context)
        case Protocol.SASL_PLAINTEXT | Protocol.SASL_SSL:
            # With a context it speaks TLS, without one it does not.
            return faust.SASLCredentials(
                username=access.username,
                password=access.password,
                ssl_context=context,
                mechanism=access.mechanism.value,
            )
        case _ as unknown:
            assert_never(unknown)


def end_process() -> NoReturn:
    """End now, whatever threads and tasks are left; only what was logged gets out."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(EXIT_STUCK)


async def run_app(
    app: SafeApp,
    settings: AppSettings,
    *,
    stop: asyncio.Event,
    beat: Callable[[], None] = lambda: None,
    when_stuck: Callable[[], None] = end_process,
) -> None:
    """Run the app until `stop` is set. Raises AppEndedError, StandstillError.

    `beat` is called for as long as the app moves. When the app does not stop within its deadline
    the process ends here, with EXIT_STUCK: nothing that has not been handled is committed.
    """
    runs = asyncio.create_task(_start_and_wait(app), name="app")
    watches = asyncio.create_task(watch(app, settings, beat), name="watchdog")
    asked = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait((runs, watches, asked), return_when=asyncio.FIRST_COMPLETED)
        why = _why(app, runs, watches)
        if why is not None:
            app.safe_consumer.poison(str(why))
    finally:
        watches.cancel()
        asked.cancel()
        await _stop(app, runs, settings.stop_deadline_ms, when_stuck)
    if why is None and app.crash_reason is not None:
        why = _ended(app)
    if why is not None:
        raise why


async def _start_and_wait(app: SafeApp) -> None:
    await app.start()
    await app.wait_until_stopped()


def _why(
    app: SafeApp, runs: "asyncio.Task[None]", watches: "asyncio.Task[Standstill]"
) -> LedgerError | None:
    """What ended the run, or None when it was asked to stop."""
    if runs.done():
        return _ended(app, None if runs.cancelled() else runs.exception())
    if watches.done():
        standstill = watches.result()
        return StandstillError(
            f"The app does not move: {standstill.why}.",
            hint="Its supervisor starts another process; see the log of this one if it repeats.",
        )
    return None


def _ended(app: SafeApp, failure: BaseException | None = None) -> AppEndedError:
    reason = app.crash_reason or failure
    ended = AppEndedError(
        f"The app ended by itself: {reason!r}.",
        hint="What was at work is read again by the next process. Start one.",
    )
    ended.__cause__ = reason
    return ended


async def _stop(
    app: SafeApp, runs: "asyncio.Task[None]", deadline_ms: int, when_stuck: Callable[[], None]
) -> None:
    """Stop within the deadline, or do what is to be done with an app that does not stop.

    The stop is not cancelled when it is late, only left behind: Faust swallows cancellation while
    it waits for its streams.
    """
    stopping = asyncio.create_task(app.stop(), name="stopping")
    await asyncio.wait((stopping,), timeout=deadline_ms / 1000)
    if not stopping.done():
        logger.critical("app_did_not_stop", extra={"deadline_ms": deadline_ms})
        when_stuck()
        return
    # An app that crashed may be cancelled in its own stop; it is over all the same.
    failure = None if stopping.cancelled() else stopping.exception()
    if failure is not None:
        logger.error("app_stop_failed", exc_info=failure)
    runs.cancel()
    await asyncio.wait((runs,), timeout=deadline_ms / 1000)
