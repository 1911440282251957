"""A transport for Faust that loses nothing: what is committed was handled, what was not is read
again.

Faust's own transport commits past events that raised, past events still at work, and before what
it buffered is sent. This one guarantees instead:

* no offset is committed while an earlier one that was delivered has not been acknowledged;
* once an agent has failed the consumer is poisoned, and nothing is committed any more: stopping
  acknowledges the failing event, and the commit at shutdown would pass it;
* what was acknowledged is committed before a partition is given up, within a deadline, so that a
  rebalance repeats little;
* a partition of which nothing was ever committed is read from its beginning after every change of
  hands;
* an acknowledgement of an earlier assignment counts for nothing in a later one;
* nothing is read of an assignment before it is taken over whole;
* an event that its agent can take at once is handed over at once, partitions whose agent had more
  than enough are read on as soon as it has not, and none waits for one where nothing happens;
* `flush` waits for everything that was handed over, and raises if one of it failed;
* a stop never blocks the loop of the app, so that whoever stops it can keep a deadline, and what it
  does at the broker has one of its own: a broker that is away keeps nobody from ending in order;
* the producer is idempotent and waits for all replicas.

It overrides private methods of faust-streaming 0.15.3. A test holds every signature, so that an
upgrade fails loudly. Used by `streams.app`; must never be used for the ledger topic.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar, cast

import faust
from aiokafka import AIOKafkaConsumer
from faust.exceptions import ProducerSendError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage, FutureMessage, Message
from faust.types.transports import ConsumerT, ProducerT
from mode.threads import WorkerThread

from ledger.core.errors import LedgerError
from ledger.log.clients import CLOSE_DEADLINE_SECONDS, end
from ledger.log.record_batches import read_any_header_names
from streams.limits import (
    BROKER_AT_STOP_MS,
    COMMIT_BEFORE_REVOKE_MS,
    FETCH_WAIT_MS,
    FULL_LOOK_MS,
    HANDED_OVER_AT_ONCE_MAX,
    POLL_PAUSE_MS,
    THREAD_LOOK_MS,
)

logger = logging.getLogger("actionledger")


class StopDueError(LedgerError):
    """The app is to stop, and what it waits for is away. Nothing was committed past it."""


_LOOK_SECONDS = 0.5
Given = TypeVar("Given")


async def until_stopped(
    app: faust.App, work: Coroutine[Any, Any, Given], *, further_ms: int
) -> Given:
    """What comes of the work, which goes on for so long at most once the app is told to stop.

    Raises StopDueError when it has to be given up, and whatever it raises.
    """
    working = asyncio.ensure_future(work)
    # Its public waiting leaves tasks behind where it is cut.
    told = asyncio.ensure_future(app._stopped.wait())  # noqa: SLF001 - see above
    try:
        await asyncio.wait({working, told}, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait({working}, timeout=further_ms / 1000)
        if not working.done():
            raise StopDueError(
                f"The app is told to stop, and something did not end within {further_ms} ms.",
                hint="What is away, Kafka or Postgres? What was at work is read again.",
            )
        return working.result()
    finally:
        told.cancel()
        working.cancel()
        await asyncio.wait({working, told}, timeout=_LOOK_SECONDS)


class SafeConsumer(driver.Consumer):
    """Commits the offset below which everything delivered was acknowledged, or nothing at all."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # noqa: ANN401 - Faust's own
        self.poisoned_by: str | None = None
        self.is_let_wait = False
        """Whether a stop waited for the broker in vain: then it asks it for nothing more."""
        self._delivered: defaultdict[TP, deque[int]] = defaultdict(deque)
        super().__init__(*arguments, **settings)

    def poison(self, reason: str) -> None:
        """Commit nothing from now on. There is no way back but a new process."""
        if self.poisoned_by is None:
            self.poisoned_by = reason
            logger.error("consumer_poisoned", extra={"reason": reason})

    def give_up(self, due: StopDueError) -> None:
        """Commit nothing from now on, as an ordered stop does not wait for what is at work."""
        if self.poisoned_by is None:
            self.poisoned_by = repr(due)
            logger.warning("events_left_at_stop", extra={"reason": repr(due)})

    @contextmanager
    def nothing_skipped(self) -> Iterator[None]:
        """The body handles an event; if it does not end, by an error or by being cancelled, the
        event must be read again.
        """
        try:
            yield
        except StopDueError as due:
            self.give_up(due)
            raise
        except BaseException as failure:
            self.poison(repr(failure))
            raise

    def handled(self) -> dict[TP, int]:
        """Below which offset everything is handled, for each partition that is assigned."""
        return {tp: self._committed_offset[tp] or 0 for tp in self.assignment()}

    def is_member(self) -> bool:
        """Whether the group has taken this consumer in."""
        coordinator = self._coordinator()
        return coordinator is not None and coordinator.generation > driver.DEFAULT_GENERATION_ID

    def coordinator_error(self) -> BaseException | None:
        """What aiokafka would raise from `getmany`, which Faust never calls: else an error of the
        group leaves the process up and idle.
        """
        coordinator = self._coordinator()
        if coordinator is None:
            return None
        routine = coordinator._coordination_task  # noqa: SLF001 - there is no public way
        if routine.done() and not routine.cancelled() and routine.exception() is not None:
            failure: BaseException = routine.exception()
            return failure
        pending: BaseException | None = coordinator._pending_exception  # noqa: SLF001
        return pending

    def _coordinator(self) -> Any:  # noqa: ANN401 - aiokafka has no types
        consumer = self._thread._consumer  # noqa: SLF001 - Faust keeps it there
        return None if consumer is None else consumer._coordinator  # noqa: SLF001

    def _new_consumer_thread(self) -> "SafeConsumerThread":
        return SafeConsumerThread(self, loop=self.loop, beacon=self.beacon)

    async def getmany(
        self,
        timeout: float,  # noqa: ASYNC109 - Faust's own
    ) -> AsyncIterator[tuple[TP, Message]]:
        """Hand over what agents can take without anybody waiting, and give Faust the rest: it makes
        two tasks for each event, which cost more than all that is done with it.
        """
        if self._unacked_messages:
            # An agent is at work: what comes meanwhile is asked for together.
            await asyncio.sleep(POLL_PAUSE_MS / 1000)
        if self._buffered_partitions:
            # Faust would look a second later whether there is room again.
            timeout = FULL_LOOK_MS / 1000
            while self._is_full():  # noqa: ASYNC110 - nothing tells of all that may end it
                await asyncio.sleep(timeout)
        handed_over = 0
        async for tp, message in super().getmany(timeout):
            if not self._can_be_taken(tp, message.offset):
                yield tp, message
                continue
            await self.callback(message)
            self._read_offset[tp] = message.offset
            handed_over += 1
            if handed_over % HANDED_OVER_AT_ONCE_MAX == 0:
                await asyncio.sleep(0)

    def _is_full(self) -> bool:
        """Whether no agent has room, and neither a stop nor a change of the group is under way."""
        return self.flow_active and not (self._get_active_partitions() or self.should_stop)

    def _can_be_taken(self, tp: TP, offset: int) -> bool:
        """Whether an event is the one behind the last, no commit is due before it, and its callback
        would wait for nothing: not for the flow, a change of the topics, or room in a queue. Nor
        does it for the producer, for nobody sends through Faust.
        """
        app, before = self.app, self._read_offset[tp]
        topics: Any = app.topics  # what is private to it has no types
        return (
            before is not None
            and offset == before + 1
            and (self._commit_every is None or self._n_acked < self._commit_every)
            and self.flow_active
            and app.flow_control.is_active()
            and not topics._tp_to_callback_lock.locked()  # noqa: SLF001 - there is no public way
            and not any(channel.queue.full() for channel in topics._tp_index[tp])  # noqa: SLF001
        )

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:  # noqa: ANN401 - Faust's own
        """Called for every record on its way to an agent, in offset order."""
        waiting = self._delivered[tp]
        if not waiting or record.offset > waiting[-1]:
            waiting.append(record.offset)
        return super()._to_message(tp, record)

    def ack(self, message: Message) -> bool:
        """Take an acknowledgement, unless its event was delivered under another assignment."""
        if message.generation_id != self.app.consumer_generation_id:
            self._unacked_messages.discard(message)
            return False
        return super().ack(message)

    def _new_offset(self, tp: TP) -> int | None:
        """Where the partition would be committed: behind the last of an unbroken row of
        acknowledged events, counted from the first that was delivered.
        """
        acknowledged, waiting = self._acked_index[tp], self._delivered[tp]
        offset: int | None = None
        while waiting and waiting[0] in acknowledged:
            acknowledged.discard(waiting[0])
            offset = waiting.popleft() + 1
        if offset is not None:
            self._acked[tp][:] = [later for later in self._acked[tp] if later >= offset]
        return offset

    async def _commit_offsets(
        self,
        offsets: Mapping[TP, int],
        start_new_transaction: bool = True,  # noqa: FBT001, FBT002 - Faust's own
    ) -> bool:
        if self.poisoned_by is not None or self.is_let_wait:
            return False
        commit = super()._commit_offsets(offsets, start_new_transaction)
        try:
            return await until_stopped(
                cast("faust.App", self.app), commit, further_ms=BROKER_AT_STOP_MS
            )
        except StopDueError:
            self.is_let_wait = True
            logger.warning("commit_at_stop_late", extra={"partitions": len(offsets)})
            return False

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Commit what is done, then give the partitions up."""
        try:
            async with asyncio.timeout(COMMIT_BEFORE_REVOKE_MS / 1000):
                # One that finds another commit at work waits for it and commits nothing itself.
                if not await self.commit():
                    await self.commit()
        except TimeoutError:
            logger.warning("commit_before_revoke_late", extra={"partitions": len(revoked)})
        self._forget(revoked)
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Begin the partitions anew: what came of an earlier assignment is read again.

        After an assignment of nothing Faust reads on while it takes over the next one: records
        that have no agent yet, which ends the app, and before their offset is known, so twice.
        """
        self._forget(assigned)
        self.stop_flow()
        await super().on_partitions_assigned(assigned, generation_id)

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Read on from what was committed, and from the beginning where nothing ever was: aiokafka
        leaves such a partition where it has read to, past what Faust has thrown away since.
        """
        committed = await super().seek_to_committed()
        never = [tp for tp, offset in committed.items() if not offset]
        if never:
            await self._thread.seek_to_beginning(*never)
        return committed

    def _forget(self, partitions: set[TP]) -> None:
        for tp in partitions:
            self._delivered.pop(tp, None)
            self._acked.pop(tp, None)
            self._acked_index.pop(tp, None)


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - it comes to pass in another thread
        await asyncio.sleep(THREAD_LOOK_MS / 1000)


class SafeWorkerThread(WorkerThread):
    """A thread that keeps nobody from going on, and no process from ending."""

    def __init__(self, service: Any, **settings: Any) -> None:  # noqa: ANN401 - Faust's own
        super().__init__(service, **settings)
        self.daemon = True

    def stop(self) -> None:
        """Wait for nothing: it is called on the loop of the app, which the thread may need to come
        to its end. `SafeConsumerThread.stop` waits.
        """


class SafeConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread of a consumer, which asks the broker again soon, and ends within a deadline.

    What lies there for a tenth of a second is left out of the next fetch, and there is one fetch at
    a time: it waits for partitions where nothing happens, as long as it may, and all others wait
    for it. Faust lets it wait for 1.5 s.
    """

    Worker: type[WorkerThread] = SafeWorkerThread

    async def stop(self) -> None:
        """Stop the thread and wait until it is over, for as long as whoever stops the app does.

        Faust passes by a thread that was started and has not begun: it would go on for ever.
        """
        thread = self._thread
        if thread is not None:
            await _until(lambda: self._started.is_set() or not thread.is_alive())
            await super().stop()
            await _until(lambda: not thread.is_alive())

    async def on_thread_stop(self) -> None:
        """Leave the group, or be cut off: aiokafka waits for a change of the group that it takes
        part in, however long others hold that up.
        """
        calls = super(driver.AIOKafkaConsumerThread, self).on_thread_stop()
        ending = asyncio.ensure_future(calls)
        # It waits for calls, which may wait for the broker.
        await asyncio.wait({ending}, timeout=BROKER_AT_STOP_MS / 1000)
        if self._consumer is not None:
            seconds = CLOSE_DEADLINE_SECONDS
            if isinstance(self.consumer, SafeConsumer) and self.consumer.is_let_wait:
                seconds = BROKER_AT_STOP_MS / 1000
            if not ending.done():
                # What still asks would open a connection again after the end.
                ending.cancel()
                await asyncio.wait({ending}, timeout=BROKER_AT_STOP_MS / 1000)
            await end(self._consumer, deadline_seconds=seconds)

    def _create_worker_consumer(self, transport: driver.Transport) -> AIOKafkaConsumer:
        read_any_header_names()
        consumer = super()._create_worker_consumer(transport)
        consumer._fetch_max_wait_ms = FETCH_WAIT_MS  # noqa: SLF001 - Faust has no setting for it
        return consumer


class SafeProducer(driver.Producer):
    """Idempotent, acks=all, and `flush` means that everything has arrived."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:  # noqa: ANN401 - Faust's own
        self._outstanding: set[asyncio.Future[Any]] = set()
        self._failure: BaseException | None = None
        super().__init__(*arguments, **settings)

    def send_soon(self, fut: FutureMessage) -> None:
        """Hand a message over, and remember it until it has arrived."""
        self._outstanding.add(fut)
        fut.add_done_callback(self._arrived)
        super().send_soon(fut)

    async def flush(self) -> None:
        """Wait for all that was handed over before this call. Raises ProducerSendError when one of
        it was lost, ever: an offset that follows from it must not be committed.
        """
        handed_over = set(self._outstanding)
        while handed_over:
            _, handed_over = await asyncio.wait(handed_over, timeout=_LOOK_SECONDS)
            # Faust leaves a message without an answer when its sending task ends with an error.
            if handed_over and (self.buffer.crashed or self.buffer.should_stop):
                raise ProducerSendError(f"{len(handed_over)} messages were not sent")
        if self._failure is not None:
            raise ProducerSendError(f"a message was not sent: {self._failure!r}")
        await super().flush()

    def _arrived(self, fut: "asyncio.Future[Any]") -> None:
        self._outstanding.discard(fut)
        failure = asyncio.CancelledError() if fut.cancelled() else fut.exception()
        if failure is not None and self._failure is None:
            self._failure = failure

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True}


class SafeTransport(driver.Transport):
    """Faust's Kafka transport with both of the above."""

    Consumer: ClassVar[type[ConsumerT]] = SafeConsumer
    Producer: ClassVar[type[ProducerT]] = SafeProducer
