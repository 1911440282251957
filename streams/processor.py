"""The ledger processor: reads the inboxes of its partitions, decides, appends to the ledger. The
only writer of `ledger`.

One round: read what there is, decide it partition by partition, append every partition's batch at
once, take over what landed. Trouble with the infrastructure ends the process, and its supervisor
starts another, which opens a new epoch; trouble with an input never does. It must never act on what
it sent: see `streams.owner`.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack

from ledger.core.limits import BATCH_INPUTS_MAX
from ledger.log.admin import check_genesis
from ledger.log.crashpoints import crash_point, crash_when, crash_while
from ledger.log.kafka import KafkaLog, Start
from ledger.log.port import Appended, Outgoing, Record
from ledger.log.topics import INBOXES, Topic
from projections.cold import ColdStore
from streams.clock import SKEW_MS_DEFAULT, check_not_ahead, check_skew, mono_ms, wall_ms
from streams.cold_loading import ColdLoading
from streams.config_inbox import ConfigInbox
from streams.held_ticks import HELD_BACK_BY, HeldTicks
from streams.key_filter_filling import fill_filters
from streams.limits import STREAMS_HELD_BYTES_MAX, STREAMS_HELD_MAX
from streams.log_time import LogTimeWatch
from streams.member import GroupMember
from streams.owner import Batch, LostContinuityError, Owner
from streams.taking_over import catch_up, check_positions, nonce_of, open_epoch
from streams.topics_watch import watch_topics
from streams.waiting_inputs import Fullness, WaitingInputs

logger = logging.getLogger("actionledger")

GROUP = "actionledger.processor"
IDLE_MS = 200
ROUND_RECORDS_MAX = 2_000
TICK_CHECK_SECONDS = 0.05
COMMIT_SECONDS = 5.0
CONFIG_CHECK_SECONDS = 1.0

__all__ = ["SKEW_MS_DEFAULT", "Processor"]


class Processor:
    """One member: owns the partitions that the group gives it."""

    def __init__(
        self,
        log: KafkaLog,
        partitions: int,
        *,
        skew_ms: int = SKEW_MS_DEFAULT,
        store: ColdStore | None = None,
        streams_held_max: int = STREAMS_HELD_MAX,
    ) -> None:
        """`store` is where streams come back from that are not held; without one the ledger is
        folded from its genesis, and everything is held.
        """
        self._streams_held_max = streams_held_max
        self._log = log
        self._store = store
        self._cold = ColdLoading(store)
        self._waiting = WaitingInputs()
        self._fullness = Fullness()
        self._partitions = partitions
        self._skew_ms = skew_ms
        self._generation = ""
        self._owners: dict[int, Owner] = {}
        self._seen_generation = -1
        self._held = HeldTicks()
        self._losses: dict[int, int] = defaultdict(int)
        self._log_time = LogTimeWatch(skew_ms)
        self._offers_came = asyncio.Event()
        self._beat: Callable[[], None] = lambda: None
        self.ready = asyncio.Event()
        self.decided_count = 0

    async def run(self, stop: asyncio.Event, *, beat: Callable[[], None] = lambda: None) -> None:
        """Work until `stop` is set. Raises whatever must end the process.

        `beat` is called after every round once the group has been joined.
        """
        self._beat = beat
        genesis = await check_genesis(self._log, partitions=self._partitions)
        self._generation = genesis.generation
        async with AsyncExitStack() as opened:
            await self._open(opened)
            await self._await_config(stop)
            if not stop.is_set():
                await self._inboxes.start()
                await self._work(stop)

    @property
    def streams_held(self) -> int:
        """Streams in memory, over all partitions."""
        return sum(len(owner.memory) for owner in self._owners.values())

    async def _open(self, opened: AsyncExitStack) -> None:
        """Everything that talks to the broker, closed in reverse."""
        self._appender = await self._log.appender()
        opened.push_async_callback(self._appender.close)
        opened.push_async_callback(self._cold.close)
        # Ends are asked over a connection of their own: on one that fetches every question would
        # wait behind a fetch that waits for records.
        self._ends = await self._log.reader({})
        opened.push_async_callback(self._ends.close)
        config_reader = await self._log.reader({(Topic.CONFIG.value, 0): 0})
        opened.push_async_callback(config_reader.close)
        self._config = ConfigInbox(config_reader, self._ends)
        places = {(Topic.OFFERS.value, part): Start.END for part in range(self._partitions)}
        self._offers_reader = await self._log.reader(places)
        opened.push_async_callback(self._offers_reader.close)
        group = self._log.prefix + GROUP
        self._inboxes = GroupMember(self._log, group, INBOXES, records_max=ROUND_RECORDS_MAX)
        opened.push_async_callback(self._inboxes.close)

    async def _work(self, stop: asyncio.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            beside = [
                tasks.create_task(self._follow_offers(stop)),
                tasks.create_task(self._keep_time(stop)),
                tasks.create_task(self._show_positions(stop)),
                tasks.create_task(watch_topics(self._log, self._partitions, stop)),
                tasks.create_task(self._cold.keep_up(lambda: self._owners, stop)),
                tasks.create_task(fill_filters(self._store, lambda: self._owners, stop)),
            ]
            while not stop.is_set():
                await self._round()
                if self._inboxes.has_joined:
                    self._beat()
            for task in beside:
                task.cancel()

    # One round

    async def _round(self) -> None:
        inboxes = self._inboxes
        if self._seen_generation != inboxes.generation and not inboxes.is_changing:
            async with inboxes.round:
                await self._take_partitions()
        records = await inboxes.read(IDLE_MS)
        if records:
            crash_point("inputs_read")
        async with inboxes.round:
            if self._seen_generation != inboxes.generation:
                return
            await self._config.read()
            await self._decide(await self._decidable(records))
            for owner in self._owners.values():
                owner.memory.forget_new()
                owner.let_go()

    async def _decidable(self, records: list[Record]) -> dict[int, list[Record]]:
        """The inputs to decide now, by partition: configuration first, what is internal last. No
        input is decided before its stream is held, and no tick before an answer that may lie in
        another inbox.
        """
        inputs, internal = self._sorted(records)
        waiting = self._waiting
        await self._cold.bring(
            self._owners,
            {
                part: [*waiting.first(part), *inputs.get(part, ()), *internal.get(part, ())]
                for part in self._owners
            },
        )
        work: dict[int, list[Record]] = {}
        for partition, owner in self._owners.items():
            fresh = inputs.get(partition, [])
            work[partition] = waiting.decidable(owner, fresh)
            for record in fresh:
                self._held.read(record)
        due = await self._released(internal)
        for partition, owner in self._owners.items():
            work[partition] += waiting.decidable_internal(
                owner, due[partition], self._cold.is_out_of_reach, mono_ms()
            )
        self._hold_back(waiting.places_full() | self._held.places_full())
        # Configuration is read by itself, and needs no stream.
        for partition, owner in self._owners.items():
            fresh = self._config.since(owner.position(Topic.CONFIG))
            if fresh:
                self._check_not_ahead(owner, fresh[-1].timestamp)
                crash_point("config_read")
                work[partition] = [*fresh, *work.get(partition, ())]
        return {partition: given for partition, given in work.items() if given}

    def _sorted(
        self, records: list[Record]
    ) -> tuple[dict[int, list[Record]], dict[int, list[Record]]]:
        """What was read, by partition: the inputs of other inboxes, and what is internal, messages
        and ticks. Raises ClockSkewError where one comes from the future.
        """
        inputs: dict[int, list[Record]] = {}
        internal: dict[int, list[Record]] = {}
        newest: dict[int, int] = {}
        for record in records:
            partition = record.partition
            if partition not in self._owners:
                continue
            newest[partition] = max(newest.get(partition, 0), record.timestamp)
            kind = internal if record.topic == Topic.INTERNAL else inputs
            kind.setdefault(partition, []).append(record)
        for partition, appended_at in newest.items():
            self._check_not_ahead(self._owners[partition], appended_at)
        return inputs, internal

    def _hold_back(self, full: set[tuple[str, int]]) -> None:
        """Read nothing more from inboxes in which too much waits; say so when it begins."""
        if self._fullness.begins(full, mono_ms()):
            partitions = sorted({partition for _, partition in full})
            topics = sorted({topic for topic, _ in full})
            logger.warning(
                "waiting_inputs_full", extra={"partitions": partitions, "topics": topics}
            )
        self._inboxes.hold_back(full)

    async def _released(
        self, internal: Mapping[int, Sequence[Record]]
    ) -> Mapping[int, list[Record]]:
        """What is internal and waits for no other inbox, by partition: messages that no tick stands
        before, and ticks once the other inboxes were read to where they ended when the tick was
        seen. Where those are not read on, messages alone.
        """
        due: dict[int, list[Record]] = defaultdict(list)
        fresh: dict[int, Sequence[Record]] = {}
        for partition, owner in self._owners.items():
            came = internal.get(partition, ())
            if self._waiting.stands_still(partition):
                came = [*self._held.give_up(partition), *came]
                due[partition] += self._waiting.without_ticks(owner, came, mono_ms())
                continue
            messages, rest = self._held.messages_first(partition, came)
            due[partition] += messages
            if rest:
                fresh[partition] = rest
        if fresh:
            await self._hold(fresh)
        if self._held.is_holding():
            places = {(topic.value, part) for part in self._owners for topic in HELD_BACK_BY}
            read_to = await self._inboxes.read_to(places)
            for place, position in read_to.items():
                self._held.passed(*place, position)
        for partition, released in self._held.release().items():
            due[partition] += released
        return due

    async def _hold(self, ticks: Mapping[int, Sequence[Record]]) -> None:
        """Whatever lies in the other inboxes at this moment wins over a lapse."""
        places = [(topic.value, partition) for partition in ticks for topic in HELD_BACK_BY]
        ends = await self._ends.end_offsets(places)
        for partition, fresh in ticks.items():
            own = {topic.value: ends[topic.value, partition] for topic in HELD_BACK_BY}
            self._held.hold(partition, fresh, own)

    def _check_not_ahead(self, owner: Owner, appended_at: int) -> None:
        """Whatever a decision takes its time from must not come from the future: inputs,
        configuration, offers. Raises ClockSkewError.
        """
        # After idle weeks two clocks have drifted apart that nobody compared.
        running_at = max(owner.running_at(mono_ms()), wall_ms())
        check_not_ahead(appended_at, running_at=running_at, skew_ms=self._skew_ms)

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
                crash_point("quarantine_acked")
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
        if not batches:
            return set()
        crash_point("decisions_made")
        appends: dict[int, asyncio.Task[list[Appended]]] = {}
        sent_at = wall_ms()
        async with asyncio.TaskGroup() as tasks:
            for partition, batch in batches.items():
                appending = self._appender.append(Topic.LEDGER, partition, batch.records)
                appends[partition] = tasks.create_task(crash_while("decisions_sent", appending))
        crash_point("decisions_acked")
        if any(one.adopted for batch in batches.values() for one in batch.read[:1]):
            crash_point("config_adopted")
        await crash_when("revoke_in_batch", lambda: self._inboxes.is_changing)
        lost = {
            partition
            for partition, append in appends.items()
            if not await self._has_landed(partition, batches[partition], append.result(), sent_at)
        }
        await self._send_messages(batches[partition] for partition in batches.keys() - lost)
        return lost

    async def _send_messages(self, batches: Iterable[Batch]) -> None:
        """Send what decisions that have landed say to gates and actions. What is lost here a timer
        sends again, from state.
        """
        outbound: dict[int, list[Outgoing]] = {}
        for batch in batches:
            if batch.messages:
                owner = self._owners[batch.partition]
                for partition, messages in owner.messages(batch).items():
                    outbound.setdefault(partition, []).extend(messages)
        if not outbound:
            return
        crash_point("messages_made")
        async with asyncio.TaskGroup() as tasks:
            for partition, messages in outbound.items():
                appending = self._appender.append(Topic.INTERNAL, partition, messages)
                tasks.create_task(crash_while("messages_sent", appending))
        crash_point("messages_acked")

    async def _has_landed(
        self, partition: int, batch: Batch, appended: list[Appended], sent_at: int
    ) -> bool:
        """Take over what landed. False after the one loss of continuity that may happen: then what
        stands there was folded, and the inputs come again.
        """
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
            await self._catch_up([owner])
            if owner.fold.epoch != epoch:
                raise
            await self._resume([owner])
            return False
        check_skew(appended[-1].timestamp, sent_at=sent_at, skew_ms=self._skew_ms)
        self.decided_count += len(appended)
        crash_point("decisions_landed")
        return True

    # Partitions

    async def _take_partitions(self) -> None:
        """Become the owner of what the group gave: fold to the end, open an epoch, read on from the
        ledger's positions.
        """
        self._seen_generation = self._inboxes.generation
        assigned = self._inboxes.assigned
        for partition in set(self._owners) - assigned:
            del self._owners[partition]
        self._held.clear()
        self._waiting.clear()
        crash_point("partitions_assigned")
        owners = await self._owners_of(assigned)
        await self._catch_up(owners)
        # What others wrote while the longest of them was read, so that barriers seldom collide.
        await self._catch_up(owners)
        adopted_to = max((owner.position(Topic.CONFIG) for owner in owners), default=0)
        await self._config.read_to_end(adopted_to)
        async with asyncio.TaskGroup() as tasks:
            for owner in owners:
                tasks.create_task(open_epoch(self._appender, owner, skew_ms=self._skew_ms))
        await check_positions(self._ends, owners)
        await self._resume(owners)
        for owner in owners:
            self._owners[owner.partition] = owner
            self._losses[owner.partition] = 0
        if assigned:
            self.ready.set()

    async def _owners_of(self, assigned: Collection[int]) -> list[Owner]:
        """Those that were owned before, and new ones that begin where the projection stands."""
        held_max = self._streams_held_max // max(1, len(assigned))
        held_bytes_max = STREAMS_HELD_BYTES_MAX // max(1, len(assigned))
        new = [partition for partition in assigned if partition not in self._owners]
        begins = await self._cold.checkpoints(new, generation=self._generation)
        crash_point("checkpoint_read")
        owners: list[Owner] = []
        for partition in sorted(assigned):
            owner = self._owners.get(partition) or Owner(
                partition,
                self._partitions,
                self._generation,
                nonce_of(self._log.group_member),
                checkpoint=begins.get(partition),
            )
            owner.memory.held_max, owner.memory.held_bytes_max = held_max, held_bytes_max
            owners.append(owner)
        return owners

    async def _catch_up(self, owners: Collection[Owner]) -> None:
        await catch_up(self._log, self._ends, self._cold, owners, self._beat_while_owning)

    def _beat_while_owning(self) -> None:
        # Folding may take longer than a member may be silent.
        self._inboxes.show_that_it_reads()
        if self.ready.is_set():
            self._beat()

    async def _resume(self, owners: Collection[Owner]) -> None:
        """Read the inboxes on. `internal` forgets: a position before its beginning moves there,
        because what it held is derived from state again.
        """
        internal = Topic.INTERNAL.value
        begins = await self._ends.beginning_offsets([(internal, one.partition) for one in owners])
        for owner in owners:
            positions = {topic.value: owner.position(topic) for topic in INBOXES}
            positions[internal] = max(begins[internal, owner.partition], positions[internal])
            self._held.begin(owner.partition, positions)
            self._waiting.forget(owner.partition)
            self._inboxes.read_on(owner.partition, positions)

    # Beside the rounds

    async def _await_config(self, stop: asyncio.Event) -> None:
        """Decide nothing before a valid configuration was published; say so while waiting."""
        await self._config.read_to_end(0)
        while not stop.is_set() and not self._config.has_catalogue():
            logger.warning("waiting_for_configuration")
            await asyncio.sleep(CONFIG_CHECK_SECONDS)
            await self._config.read_to_end(0)

    async def _follow_offers(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            for record in await self._offers_reader.read(timeout_ms=IDLE_MS):
                owner = self._owners.get(record.partition)
                if owner is not None:
                    self._check_not_ahead(owner, record.timestamp)
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
                # None would be decided before there is room, and each is a record of the log.
                if self._waiting.stands_still(partition):
                    continue
                ticks: list[Outgoing] = owner.ticks(now)
                if ticks:
                    appending = self._appender.append(Topic.INTERNAL, partition, ticks)
                    await crash_while("tick_sent", appending)
                    crash_point("tick_acked")

    async def _show_positions(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await asyncio.sleep(COMMIT_SECONDS)
            for owner in self._owners.values():
                self._log_time.look(owner, mono_ms())
            positions = {
                (topic.value, partition): owner.position(topic)
                for partition, owner in self._owners.items()
                for topic in INBOXES
                if owner.position(topic)
            }
            if positions:
                await self._inboxes.commit(positions)
                crash_point("positions_shown")
