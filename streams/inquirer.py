"""The inquirer: follows the ledger, puts its questions to providers, tells what needs eyes, and
matches parked webhooks when their reference becomes known.

It has no way to make an effect: its clients of providers can only look, back at what became of an
effect and ahead at what one would be. A question is answered when
its evidence is durable, and only then does the saved position move past it, so that a crash asks
again; asking twice counts once. What is lost all the same the ledger asks anew. Trouble with Kafka
ends the process; Postgres may be away for any time, then positions and the sweep wait.

Several share the partitions. Run by the wiring.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, assert_never

import asyncpg

from ledger.core.catalogue import Catalogue, Operation
from ledger.core.errors import LedgerError
from ledger.core.facts import IntentRecorded, LookupStarted, PreviewStarted
from ledger.core.ids import ActionKey
from ledger.core.preview import Foreseen
from ledger.core.timing import Timing
from ledger.log.crashpoints import crash_point, crash_while
from ledger.log.follow import genesis_of
from ledger.log.kafka import KafkaLog
from ledger.log.port import AppendUnknownError, Outgoing
from ledger.log.steady import SteadyAppender
from ledger.log.topics import Topic
from ledger.log.trouble import TruncatedLogError
from projections.changes import listening
from reconciler.absence import counted, span_of
from reconciler.evidence import (
    Placed,
    lookup_evidence,
    lookup_record,
    preview_read,
    preview_record,
    reportable,
)
from reconciler.limits import UNMATCHED_LOOK_MS
from reconciler.projection_progress import ShownUpTo
from reconciler.providers.port import (
    Finder,
    Inconclusive,
    Lookup,
    Previewer,
    Span,
    SpanFinder,
    Unforeseen,
)
from reconciler.receiving import is_trouble
from reconciler.sweeping import sweep_parked, tell_unmatched
from streams import limits
from streams.askers import Askers
from streams.assignments import intent_in
from streams.clock import mono_ms, wall_ms
from streams.inquiring import BEGINNING, Asked, Inquiring, Position
from streams.member import GroupMember
from streams.older_requests import OlderRequests
from streams.positions import load_positions, load_unknown, save_position
from streams.provider_call import previewed_request

logger = logging.getLogger("actionledger")

GROUP = "inquirer"
LEDGER = Topic.LEDGER.value


class Inquirer:
    """One member: follows the partitions that the group gives it."""

    def __init__(  # noqa: PLR0913 - what one member is made of; most of it has a default
        self,
        log: KafkaLog,
        finders: Mapping[str, Finder],
        *,
        previewers: Mapping[str, Previewer] | None = None,
        catalogue: Catalogue | None = None,
        pool: asyncpg.Pool | None = None,
        shared_accounts: frozenset[tuple[str, str]] = frozenset(),
        lookup_timeout_ms: int = limits.LOOKUP_TIMEOUT_MS,
        sweep_ms: int = limits.SWEEP_MS,
    ) -> None:
        """`finders` and `previewers` by the provider's name. `catalogue` says which volatile facts
        a preview has to have; `shared_accounts` are those that others write to, each with its
        provider's name. Without a `pool` the ledger is read from its beginning and nothing is
        swept.
        """
        self._log = log
        self._finders = finders
        self._previewers = previewers or {}
        self._catalogue = catalogue
        self._older = OlderRequests(log)
        self._pool = pool
        self._shared_accounts = shared_accounts
        self._lookup_timeout_ms = lookup_timeout_ms
        self._sweep_ms = sweep_ms
        self._shown = ShownUpTo(self._ledger_ends, now_ms=wall_ms)
        self._appender = SteadyAppender(log.appender)
        self._share = GroupMember(
            log, log.prefix + GROUP, (LEDGER,), records_max=limits.LEDGER_ROUND_RECORDS_MAX
        )
        self._partitions = 0
        self._generation = ""
        self._seen_generation = -1
        self._followed: dict[int, Inquiring] = {}
        self._ends: dict[int, int] = {}
        self._saved: dict[int, Position] = {}
        self._saved_mono_ms = 0
        self._unmatched_due_mono_ms = 0
        self._askers = Askers(self._put, mono_ms)
        self._full: set[int] = set()
        self.ready = asyncio.Event()
        self.answered_count = 0

    async def run(self, stop: asyncio.Event, beat: Callable[[], None] = lambda: None) -> None:
        """Work until `stop` is set; questions at work are left to the next, which finds them behind
        the saved position. Raises whatever must end the process.
        """
        genesis = await genesis_of(self._log)
        self._partitions, self._generation = genesis.partitions, genesis.generation
        try:
            await self._share.start()
            async with asyncio.TaskGroup() as tasks:
                sweep = tasks.create_task(self._sweep(stop))
                while not stop.is_set():
                    await self._round(tasks)
                    beat()
                sweep.cancel()
                self._askers.cancel()
            await self._save_positions()
        finally:
            await self._share.close()
            await self._older.close()
            await self._appender.close()

    # Following

    async def _round(self, tasks: asyncio.TaskGroup) -> None:
        async with self._share.round:
            if not self._share.is_changing and self._seen_generation != self._share.generation:
                await self._take_partitions()
        records = await self._share.read(limits.LEDGER_READ_MS)
        async with self._share.round:
            if self._share.is_changing or self._seen_generation != self._share.generation:
                return
            for record in records:
                self._followed[record.partition].feed(record)
            for partition, followed in self._followed.items():
                if not followed.is_current and followed.next_offset >= self._ends[partition]:
                    followed.caught_up()
                await self._tell(partition, followed)
                self._hold_back(followed)
            self._askers.begin(tasks, self._followed)
            if all(one.is_current for one in self._followed.values()):
                self.ready.set()
        if mono_ms() - self._saved_mono_ms >= limits.POSITIONS_SAVED_MS:
            await self._save_positions()

    async def _take_partitions(self) -> None:
        """Begin each partition where its epoch is known, and read to its end before acting."""
        self._seen_generation = self._share.generation
        for partition in set(self._followed) - self._share.assigned:
            del self._followed[partition]
        begins = await self._begins()
        for partition in self._share.assigned - set(self._followed):
            begin = begins.get(partition, BEGINNING)
            end = await self._share.end_offset(LEDGER, partition)
            if end < begin.next_offset:
                raise TruncatedLogError(
                    f"Ledger {partition} ends at {end}, before {begin.next_offset}.",
                    hint="Records that were acknowledged are gone. Stop all writers.",
                )
            followed = Inquiring(partition, begin)
            if self._pool is not None:
                followed.watch(await self._unknown(partition))
            self._followed[partition] = followed
            self._ends[partition] = end
        self._full.clear()
        for partition, followed in self._followed.items():
            self._share.read_on(partition, {LEDGER: followed.next_offset})

    async def _begins(self) -> Mapping[int, Position]:
        if self._pool is None:
            return {}
        try:
            return await load_positions(self._pool, generation=self._generation)
        except Exception as failure:
            if not is_trouble(failure):
                raise
            logger.warning("positions_unknown", extra={"failure": repr(failure)})
            return {}

    async def _unknown(self, partition: int) -> list[tuple[str, str]]:
        if self._pool is None:
            return []
        try:
            return await load_unknown(self._pool, partition)
        except Exception as failure:
            if not is_trouble(failure):
                raise
            logger.warning("positions_unknown", extra={"failure": repr(failure)})
            return []

    async def _tell(self, partition: int, followed: Inquiring) -> None:
        notices = followed.notices()
        if notices:
            records = [notice.record for notice in notices]
            appending = self._append(Topic.ATTENTION, partition, records)
            await crash_while("attention_sent", appending)
            followed.told(len(notices))

    async def _save_positions(self) -> None:
        """Remember how far everything is answered and told."""
        self._saved_mono_ms = mono_ms()
        if self._pool is None:
            return
        for partition, followed in self._followed.items():
            position = followed.position
            if self._saved.get(partition) == position:
                continue
            try:
                await save_position(
                    self._pool, partition, position, generation=self._generation, now_ms=wall_ms()
                )
                self._saved[partition] = position
            except Exception as failure:
                if not is_trouble(failure):
                    raise
                logger.warning("positions_not_saved", extra={"failure": repr(failure)})
                return

    # Asking

    async def _put(self, followed: Inquiring, asked: Asked) -> None:
        match asked.started:
            case LookupStarted() as lookup:
                await self._look_up(followed, asked, lookup)
            case PreviewStarted() as preview:
                await self._foresee(followed, asked, preview)
            case _:
                assert_never(asked.started)

    def _hold_back(self, followed: Inquiring) -> None:
        if followed.is_full != (followed.partition in self._full):
            self._full ^= {followed.partition}
            self._share.hold_back({(LEDGER, part) for part in self._full})

    async def _look_up(self, followed: Inquiring, asked: Asked, started: LookupStarted) -> None:
        """Ask what became of an effect, and make the answer durable."""
        crash_point("lookup_taken")
        finder = self._finders.get(started.provider)
        if finder is None:
            # Not an answer: the ledger asks again when this one is overdue.
            logger.error("lookup_without_finder", extra={"provider": started.provider})
            followed.answered(asked)
            return
        asked_at = wall_ms()
        answer = await crash_while("lookup_asked", self._find(finder, started))
        answer = self._counted(answer, asked, started, asked_at)
        if isinstance(answer, Inconclusive) and answer.retry_after_ms:
            self._pause(started, answer.code, answer.retry_after_ms)
            followed.put_back(asked)
            return
        crash_point("lookup_answered")
        # In one batch, which is there or not: whoever comes back after a crash finds the question
        # answered by the first, and would never tell of what was done twice.
        pieces = lookup_evidence(started, answer)
        await self._tell_evidence([lookup_record(piece, self._partitions) for piece in pieces])
        crash_point("evidence_acked")
        followed.answered(asked)
        self.answered_count += 1
        logger.info(
            "lookup_answered",
            extra={
                "action": started.action,
                "lookup": started.lookup,
                "answer": type(answer).__name__.lower(),
            },
        )

    def _counted(
        self, answer: Lookup, asked: Asked, started: LookupStarted, asked_at: int
    ) -> Lookup:
        """What counts of an answer, by the lag that is declared of the provider's search."""
        declared = self._declared(started)
        if declared is None:
            return answer
        operation, timing = declared
        return counted(
            answer,
            asked_at=asked_at,
            wanted_at=asked.decided_at,
            search_lag_ms=operation.search_lag_ms,
            skew_ms=timing.skew_ms,
        )

    def _span(self, started: LookupStarted) -> Span | None:
        """When the effect can have come about, where the operation's horizon is known here."""
        declared = self._declared(started)
        if declared is None:
            return None
        operation, timing = declared
        return span_of(
            started, settle_horizon_ms=operation.settle_horizon_ms, skew_ms=timing.skew_ms
        )

    def _declared(self, started: LookupStarted) -> tuple[Operation, Timing] | None:
        if self._catalogue is None:
            return None
        named = ActionKey.parse(started.action)
        operation = self._catalogue.operation(named.operation, named.version)
        return None if operation is None else (operation, self._catalogue.timing)

    def _pause(self, started: LookupStarted, code: str, wait_ms: int) -> None:
        """An account wants to hear nothing for a while. Its questions wait; where one waits longer
        than the ledger does, the ledger asks anew, and in the end a person.
        """
        self._askers.pause(started.provider, started.account, wait_ms)
        logger.warning(
            "lookups_paused",
            extra={
                "provider": started.provider,
                "account": started.account,
                "reason": code,
                "wait_ms": wait_ms,
            },
        )

    async def _tell_evidence(self, pieces: Sequence[Placed]) -> None:
        """Make pieces about one action durable, all of them or none."""
        records = [one.record for one in pieces]
        appending = self._append(Topic.EVIDENCE, pieces[0].partition, records)
        await crash_while("evidence_sent", appending)

    async def _foresee(self, followed: Inquiring, asked: Asked, started: PreviewStarted) -> None:
        """Ask what an effect would be, and make the answer durable: nobody is asked to agree to it
        before.
        """
        seen = await self._preview(followed.partition, asked, started)
        read = preview_read(started, seen)
        if read.foreseen is None:
            logger.warning("preview_not_given", extra={"action": started.action, "code": read.code})
        await self._tell_evidence([preview_record(read, self._partitions)])
        followed.answered(asked)
        self.answered_count += 1

    async def _preview(
        self, partition: int, asked: Asked, started: PreviewStarted
    ) -> Foreseen | Unforeseen:
        previewer = self._previewers.get(started.provider)
        if previewer is None:
            return Unforeseen("preview_not_offered")
        try:
            intent = asked.intent
            if intent is None:
                record = await self._older.read(partition, started.intent_offset)
                intent = intent_in(record.value, started.action)
            if intent is None:
                return Unforeseen("request_not_readable")
            async with asyncio.timeout((self._lookup_timeout_ms + limits.LOOKUP_GRACE_MS) / 1000):
                seen = await previewer.preview(
                    previewed_request(intent, started), timeout_ms=self._lookup_timeout_ms
                )
            seen = self._whole(seen, intent)
        except TimeoutError:
            return Unforeseen("previewer_timeout")
        except LedgerError:
            return Unforeseen("request_not_readable")
        except Exception:
            # A previewer promises never to raise: a fault of ours must not leave people unasked.
            logger.exception("previewer_failed", extra={"provider": started.provider})
            return Unforeseen("previewer_failed")
        return seen

    def _whole(self, seen: Foreseen | Unforeseen, intent: IntentRecorded) -> Foreseen | Unforeseen:
        """The preview, if it has every volatile fact that people are to rely on."""
        if not isinstance(seen, Foreseen) or self._catalogue is None:
            return seen
        operation = self._catalogue.operation(intent.request.operation, intent.request.version)
        if operation is None or set(operation.volatile) <= seen.observed.keys():
            return seen
        return Unforeseen("volatile_missing")

    async def _find(self, finder: Finder, started: LookupStarted) -> Lookup:
        try:
            async with asyncio.timeout((self._lookup_timeout_ms + limits.LOOKUP_GRACE_MS) / 1000):
                span = self._span(started)
                find = finder.find
                if span is not None and isinstance(finder, SpanFinder):
                    find = partial(finder.find_within, span)
                answer = await find(
                    account=started.account,
                    provider_key=started.provider_key,
                    action_key=started.action,
                    reference=started.reference,
                    timeout_ms=self._lookup_timeout_ms,
                )
        except TimeoutError:
            return Inconclusive("finder_timeout")
        except Exception:
            # A finder promises never to raise: a fault of ours must not leave the action unasked.
            logger.exception("finder_failed", extra={"provider": started.provider})
            return Inconclusive("finder_failed")
        fitting = reportable(started, answer)
        if fitting is not answer:
            logger.error("finder_unreportable", extra={"provider": started.provider})
        return fitting

    async def _append(self, topic: str, partition: int, records: list[Outgoing]) -> None:
        """Append what counts once; again with a new producer when the first one is spent."""
        try:
            await self._appender.append(topic, partition, records)
        except AppendUnknownError:
            await self._appender.append(topic, partition, records)

    # Sweeping

    async def _sweep(self, stop: asyncio.Event) -> None:
        """Match parked webhooks whenever the read model has changed, and every little while."""
        pool = self._pool
        if pool is None:
            return
        while not stop.is_set():
            await self._unless_away(self._sweep_while_listening(pool, stop))
            await asyncio.sleep(self._sweep_ms / 1000)

    async def _sweep_while_listening(self, pool: asyncpg.Pool, stop: asyncio.Event) -> None:
        async with listening(pool) as changes:
            while not stop.is_set():
                began_ms = mono_ms()
                await self._unless_away(self._sweep_once(pool))
                # With a hundred thousand parked a look takes its time; most is left to others.
                took_ms = mono_ms() - began_ms
                pause_ms = max(limits.SWEEP_PAUSE_MS, limits.SWEEP_REST * took_ms)
                await asyncio.sleep(pause_ms / 1000)
                await changes.anything(timeout_ms=self._sweep_ms)

    async def _sweep_once(self, pool: asyncpg.Pool) -> None:
        await sweep_parked(
            pool,
            self._appender,
            partitions=self._partitions,
            now_ms=wall_ms,
            shown_ms=await self._shown.look(pool),
            shared_accounts=self._shared_accounts,
        )
        if mono_ms() >= self._unmatched_due_mono_ms:
            self._unmatched_due_mono_ms = mono_ms() + UNMATCHED_LOOK_MS
            await tell_unmatched(pool, now_ms=wall_ms())

    async def _ledger_ends(self) -> dict[int, int]:
        return {
            partition: await self._share.end_offset(LEDGER, partition)
            for partition in range(self._partitions)
        }

    async def _unless_away(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that may wait for a better time."""
        try:
            await work
        except Exception as failure:
            if not is_trouble(failure):
                raise
            logger.warning("sweep_failed", extra={"failure": repr(failure)})
