"""The ledger processor: reads the inboxes of its partitions, decides, appends to the ledger. The
only writer of `ledger`.

One round: read what there is, decide it partition by partition, append every partition's batch at
once, take over what landed. Trouble with the infrastructure ends the process, and its supervisor
starts another, which opens a new epoch; trouble with an input never does. It must never act on what
it sent: see `streams.owner`.
"""

import asyncio
import logging
import secrets
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ledger.core.inputs import Publish
from ledger.core.limits import BATCH_INPUTS_MAX
from ledger.log.admin import check_genesis
from ledger.log.crashpoints import crash_point, is_armed
from ledger.log.envelope import read_input
from ledger.log.kafka import KafkaLog, Start, TruncatedLogError
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.topics import INBOXES, Topic
from streams.clock import check_skew, mono_ms
from streams.deciding import is_adoptable
from streams.inbox import Inboxes
from streams.owner import Batch, LostContinuityError, Owner

logger = logging.getLogger("actionledger")

GROUP = "actionledger.processor"
IDLE_MS = 200
TICK_CHECK_SECONDS = 0.05
COMMIT_SECONDS = 5.0
CONFIG_CHECK_SECONDS = 1.0
SKEW_MS_DEFAULT = 5_000
HELD_BACK_BY = (Topic.INTENTS, Topic.APPROVALS, Topic.ATTEMPTS, Topic.EVIDENCE)
"""Inboxes that may hold the answer to a timer: a tick waits until they are read to where they ended
when it was seen.
"""


@dataclass(frozen=True, slots=True)
class _Held:
    """Ticks of one round, and where the other inboxes of their partition ended when they came."""

    ticks: tuple[Record, ...]
    ends: Mapping[str, int]


class Processor:
    """One member: owns the partitions that the group gives it."""

    def __init__(self, log: KafkaLog, partitions: int, *, skew_ms: int = SKEW_MS_DEFAULT) -> None:
        self._log = log
        self._partitions = partitions
        self._skew_ms = skew_ms
        self._generation = ""
        self._owners: dict[int, Owner] = {}
        self._seen_generation = -1
        self._held: dict[int, deque[_Held]] = defaultdict(deque)
        self._read_to: dict[tuple[str, int], int] = {}
        self._config: list[Record] = []
        self._losses: dict[int, int] = defaultdict(int)
        self._offers_came = asyncio.Event()
        self.ready = asyncio.Event()
        self.decided_count = 0

    async def run(self, stop: asyncio.Event, *, beat: Callable[[], None] = lambda: None) -> None:
        """Work until `stop` is set. Raises whatever must end the process.

        `beat` is called after every round, the first of which takes the partitions.
        """
        genesis = await check_genesis(self._log, partitions=self._partitions)
        self._generation = genesis.generation
        self._appender = await self._log.appender()
        self._config_reader = await self._log.reader({(Topic.CONFIG, 0): 0})
        places = {(Topic.OFFERS.value, part): Start.END for part in range(self._partitions)}
        self._offers_reader = await self._log.reader(places)
        self._inboxes = Inboxes(self._log, self._log.prefix + GROUP)
        try:
            await self._await_config(stop)
            await self._inboxes.start()
            async with asyncio.TaskGroup() as tasks:
                helpers = [
                    tasks.create_task(self._follow_offers(stop)),
                    tasks.create_task(self._keep_time(stop)),
                    tasks.create_task(self._show_positions(stop)),
                ]
                while not stop.is_set():
                    await self._round()
                    beat()
                for helper in helpers:
                    helper.cancel()
        finally:
            await self._inboxes.close()
            await self._appender.close()
            await self._config_reader.close()
            await self._offers_reader.close()

    # One round

    async def _round(self) -> None:
        if self._seen_generation != self._inboxes.generation:
            async with self._inboxes.round:
                await self._take_partitions()
        records = await self._inboxes.read(IDLE_MS)
        async with self._inboxes.round:
            if self._seen_generation != self._inboxes.generation:
                return
            await self._read_config()
            work = await self._sorted(records)
            await self._decide(work)

    async def _sorted(self, records: list[Record]) -> dict[int, list[Record]]:
        """The inputs to decide now, by partition: configuration first, ticks last and only when
        they may.
        """
        work: dict[int, list[Record]] = {}
        for partition, owner in self._owners.items():
            adopted = owner.position(Topic.CONFIG)
            fresh = [record for record in self._config if record.offset >= adopted]
            if fresh:
                work[partition] = fresh
        ticks: dict[int, list[Record]] = {}
        for record in records:
            if record.partition not in self._owners:
                continue
            if record.topic == Topic.INTERNAL:
                ticks.setdefault(record.partition, []).append(record)
                continue
            work.setdefault(record.partition, []).append(record)
            self._read_to[record.topic, record.partition] = record.offset + 1
        for partition, fresh in ticks.items():
            # Whatever lies in the other inboxes at this moment wins over a lapse.
            ends = await self._inboxes.end_offsets(partition, HELD_BACK_BY)
            self._held[partition].append(_Held(tuple(fresh), ends))
        for partition, waiting in self._held.items():
            while waiting and self._is_read_to(partition, waiting[0].ends):
                work.setdefault(partition, []).extend(waiting.popleft().ticks)
        return work

    def _is_read_to(self, partition: int, ends: Mapping[str, int]) -> bool:
        return all(self._read_to.get((topic, partition), 0) >= end for topic, end in ends.items())

    async def _decide(self, work: dict[int, list[Record]]) -> None:
        """Decide every partition's inputs, append all batches at once, take over what landed."""
        while work:
            batches: dict[int, Batch] = {}
            rest: dict[int, list[Record]] = {}
            now = mono_ms()
            for partition, inputs in work.items():
                if len(inputs) > BATCH_INPUTS_MAX:
                    rest[partition] = inputs[BATCH_INPUTS_MAX:]
                batch = self._owners[partition].take(inputs[:BATCH_INPUTS_MAX], now)
                if batch.records:
                    batches[partition] = batch
            await self._set_aside(batches)
            lost = await self._append(batches)
            # After a loss the partition's inputs are read again from the ledger's position.
            work = {part: inputs for part, inputs in rest.items() if part not in lost}

    async def _set_aside(self, batches: dict[int, Batch]) -> None:
        """Quarantine comes before the decision that names it, so that nothing is ever missing
        there.
        """
        for partition, batch in batches.items():
            if batch.quarantine:
                await self._appender.append(Topic.QUARANTINE, partition, batch.quarantine)
                logger.error(
                    "input_quarantined",
                    extra={
                        "partition": partition,
                        "count": len(batch.quarantine),
                        "reasons": batch.reasons,
                    },
                )

    async def _append(self, batches: dict[int, Batch]) -> set[int]:
        """Append every batch; the partitions whose batch did not land as decided."""
        appends = {
            partition: asyncio.ensure_future(
                self._appender.append(Topic.LEDGER, partition, batch.records)
            )
            for partition, batch in batches.items()
        }
        if is_armed("decisions_sent") and appends:
            await asyncio.wait(appends.values(), timeout=0.001)
            crash_point("decisions_sent")
        await asyncio.gather(*appends.values())
        return {
            partition
            for partition, append in appends.items()
            if not await self._has_landed(partition, batches[partition], append.result())
        }

    async def _has_landed(self, partition: int, batch: Batch, appended: list[Appended]) -> bool:
        """Take over what landed. False after the one loss of continuity that may happen: then what
        stands there was folded, and the inputs come again.
        """
        crash_point("decisions_acked")
        owner = self._owners[partition]
        try:
            owner.landed(batch, appended, mono_ms())
        except LostContinuityError:
            self._losses[partition] += 1
            if self._losses[partition] > 1:
                raise
            logger.warning("continuity_lost", extra={"partition": partition})
            owner.lost()
            epoch = owner.fold.epoch
            await self._catch_up(owner)
            if owner.fold.epoch != epoch:
                raise
            await self._resume(owner)
            return False
        check_skew(appended[-1].timestamp, skew_ms=self._skew_ms)
        self.decided_count += len(appended)
        return True

    # Partitions

    async def _take_partitions(self) -> None:
        """Become the owner of what the group gave: fold to the end, open an epoch, read on from the
        ledger's positions.
        """
        self._seen_generation = self._inboxes.generation
        for partition in set(self._owners) - self._inboxes.assigned:
            del self._owners[partition]
        self._held.clear()
        for partition in sorted(self._inboxes.assigned):
            owner = self._owners.get(partition) or Owner(
                partition, self._partitions, self._generation, secrets.token_hex(8)
            )
            await self._catch_up(owner)
            barrier = asyncio.ensure_future(
                self._appender.append(Topic.LEDGER, partition, [owner.barrier()])
            )
            if is_armed("barrier_sent"):
                await asyncio.wait([barrier], timeout=0.001)
                crash_point("barrier_sent")
            (appended,) = await barrier
            owner.opened(appended, mono_ms())
            check_skew(appended.timestamp, skew_ms=self._skew_ms)
            self._owners[partition] = owner
            self._losses[partition] = 0
            await self._check_positions(owner)
            await self._resume(owner)
            logger.info("epoch_opened", extra={"partition": partition, "epoch": owner.fold.epoch})
        if self._inboxes.assigned:
            self.ready.set()

    async def _catch_up(self, owner: Owner) -> None:
        """Fold the ledger partition from where the owner stands to its end."""
        place = (Topic.LEDGER.value, owner.partition)
        reader = await self._log.reader({place: owner.fold.next_offset})
        try:
            end = (await reader.end_offsets([place]))[place]
            if end < owner.fold.next_offset:
                raise TruncatedLogError(
                    f"Ledger {owner.partition} ends at {end}, before {owner.fold.next_offset}.",
                    hint="Records that were acknowledged are gone. Stop all writers.",
                )
            while owner.fold.next_offset < end:
                for record in await reader.read(timeout_ms=IDLE_MS):
                    owner.feed(record)
        finally:
            await reader.close()

    async def _check_positions(self, owner: Owner) -> None:
        """An inbox that ends before the position that the ledger answered was made anew: refuse to
        run.
        """
        ends = await self._inboxes.end_offsets(owner.partition, INBOXES)
        for topic, end in ends.items():
            if end < owner.position(topic):
                raise TruncatedLogError(
                    f"{topic} {owner.partition} ends at {end}; the ledger has answered inputs "
                    f"up to {owner.position(topic)}.",
                    hint="The topic was deleted or made anew. Restore it; never let it start over.",
                )

    async def _resume(self, owner: Owner) -> None:
        """Read the inboxes on. `internal` forgets: a position before its beginning moves there,
        because what it held is derived from state again.
        """
        positions = {topic.value: owner.position(topic) for topic in INBOXES}
        begins = await self._inboxes.beginning_offset(Topic.INTERNAL, owner.partition)
        positions[Topic.INTERNAL.value] = max(begins, positions[Topic.INTERNAL.value])
        self._held.pop(owner.partition, None)
        for topic, position in positions.items():
            self._read_to[topic, owner.partition] = position
        self._inboxes.read_from(owner.partition, positions)

    # Beside the rounds

    async def _read_config(self) -> None:
        """Keep every configuration record; before the first decision read to the topic's end."""
        place = (Topic.CONFIG.value, 0)
        end = (await self._config_reader.end_offsets([place]))[place] if not self._config else 0
        while True:
            self._config.extend(await self._config_reader.read(timeout_ms=0))
            read_to = self._config[-1].offset + 1 if self._config else 0
            if read_to >= end:
                return

    async def _await_config(self, stop: asyncio.Event) -> None:
        """Decide nothing before a valid configuration was published; say so while waiting."""
        while not stop.is_set():
            await self._read_config()
            given = [read_input(record) for record in self._config]
            if any(isinstance(one, Publish) and is_adoptable(one) for one in given):
                return
            logger.warning("waiting_for_configuration")
            await asyncio.sleep(CONFIG_CHECK_SECONDS)

    async def _follow_offers(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            for record in await self._offers_reader.read(timeout_ms=IDLE_MS):
                owner = self._owners.get(record.partition)
                if owner is not None:
                    owner.offered(record)
            self._offers_came.set()

    async def _keep_time(self, stop: asyncio.Event) -> None:
        """Append ticks for what is due and for what capacity has come for."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(TICK_CHECK_SECONDS):
                    await self._offers_came.wait()
            except TimeoutError:
                pass
            self._offers_came.clear()
            now = mono_ms()
            for partition, owner in list(self._owners.items()):
                ticks: list[Outgoing] = owner.ticks(now)
                if ticks:
                    await self._appender.append(Topic.INTERNAL, partition, ticks)

    async def _show_positions(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await asyncio.sleep(COMMIT_SECONDS)
            positions = {
                (topic.value, partition): owner.position(topic)
                for partition, owner in self._owners.items()
                for topic in INBOXES
                if owner.position(topic)
            }
            if positions:
                await self._inboxes.commit(positions)
