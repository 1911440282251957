"""Bring owners the streams that they do not hold, and tell them what is due among those.

A question to the database is waited for only briefly: while it does not answer, the inputs that
need it wait, each with its inbox behind it, and all others go on; so does what is due by time in
streams of which nothing waits. The same holds of inputs about a stream whose rows somebody has
damaged. Nothing is ever assumed of a stream that was not loaded. Called by the processor.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from weakref import WeakKeyDictionary

from ledger.log.crashpoints import crash_point, crash_while
from ledger.log.fold import PartitionFold
from ledger.log.port import Record
from ledger.log.topics import Topic
from projections.cold import ColdStore, ColdStoreError
from projections.states import ColdStreams, DamageTold
from streams.clock import mono_ms
from streams.limits import (
    COLD_BACKOFF_MS_MAX,
    COLD_BACKOFF_MS_MIN,
    COLD_PATIENCE_MS,
    COLD_STREAMS_AT_ONCE_MAX,
    DAMAGED_ASKED_MS,
    LET_GO_CHECK_MS,
)
from streams.owner import ForeignCheckpointError, Owner

logger = logging.getLogger("actionledger")

Owners = Mapping[int, Owner]


class ColdLoading:
    """The projection as the owners of one process see it. Without a store everything is held."""

    def __init__(self, store: ColdStore | None) -> None:
        self._store = store
        self._loading: asyncio.Task[dict[int, ColdStreams]] | None = None
        self._asked: dict[int, list[str]] = {}
        self._backoff_ms = 0
        self._quiet_until = 0
        self._in_vain_since: int | None = None
        """Since when inputs have been asked for in vain."""
        self._damaged: dict[str, int] = {}
        """Streams whose rows lie, and until when they are not asked for again."""
        self._told = DamageTold()
        self._owed: WeakKeyDictionary[Owner, set[str]] = WeakKeyDictionary()
        """Those of them that a page or an input named: no later one may, so they are asked for by
        name."""

    async def checkpoints(
        self, partitions: Collection[int], *, generation: str
    ) -> dict[int, PartitionFold]:
        """Where owners may begin. Raises ColdStoreError, ForeignCheckpointError."""
        if self._store is None or not partitions:
            return {}
        found = await self._store.checkpoints(partitions)
        foreign = sorted(part for part, fold in found.items() if fold.generation != generation)
        if foreign:
            raise ForeignCheckpointError(
                f"The database was filled from another log (partitions {foreign}).",
                hint="Point ACTIONLEDGER_DATABASE at the database of this log.",
            )
        return found

    async def bring_all(self, owners: Owners, records: Iterable[Record]) -> None:
        """Load what folding these ledger records needs. Streams whose rows lie are left out, and
        asked for later. Raises ColdStoreError.
        """
        missing = {
            partition: [key for key in keys if not owners[partition].memory.is_left_out(key)]
            for partition, keys in _missing(owners, _by_partition(records)).items()
        }
        missing = {partition: keys for partition, keys in missing.items() if keys}
        if not missing or self._store is None:
            return
        loaded = await self._store.load(missing)
        self._tell(loaded)
        for partition, cold in loaded.items():
            owners[partition].memory.leave_out(cold.damaged)
            self._owed.setdefault(owners[partition], set()).update(cold.damaged)
            self._leave_alone(cold.damaged)
        if not _take_in(owners, missing, loaded):
            raise ColdStoreError(
                "The database is behind where it was when it said where to begin.",
                hint="A standby took over, perhaps; the next start begins where that one stands.",
            )

    async def bring(self, owners: Owners, inputs: Mapping[int, Collection[Record]]) -> None:
        """Load what deciding these inputs needs, a part at a time, as far as it comes soon."""
        patient_until = mono_ms() + COLD_PATIENCE_MS
        while True:
            missing = self._part_of(_missing(owners, self._not_held_up(owners, inputs)))
            if not missing or self._store is None:
                return
            if self._loading is None:
                if mono_ms() < self._quiet_until:
                    return
                self._asked = missing
                loading = crash_while("cold_asked", self._store.load(missing))
                self._loading = asyncio.create_task(loading)
            patience_ms = max(0, patient_until - mono_ms())
            await asyncio.wait({self._loading}, timeout=patience_ms / 1_000)
            if not self._loading.done():
                return
            # It may be the answer to an earlier question.
            loaded, self._loading = self._loading, None
            try:
                is_of_use = self._came(owners, self._asked, loaded.result())
            except ColdStoreError as away:
                self._ask_in_vain()
                self._be_quiet(away)
                continue
            crash_point("cold_taken_in")
            if not is_of_use:
                return

    def _came(
        self,
        owners: Owners,
        asked: Mapping[int, Sequence[str]],
        loaded: Mapping[int, ColdStreams],
    ) -> bool:
        """Take in what came of streams that inputs need; False where it says nothing yet. Those
        whose rows lie are owed: what held up their timers may be gone before they come.
        """
        is_of_use = _take_in(owners, asked, loaded)
        self._backoff_ms = 0
        self._tell(loaded)
        self._leave_alone(key for cold in loaded.values() for key in cold.damaged)
        if not is_of_use:
            self._ask_in_vain()
            return False
        self._in_vain_since = None
        for partition, keys in asked.items():
            if partition in owners:
                lying = _unknown(owners[partition], keys)
                self._leave_alone(lying)
                self._owed.setdefault(owners[partition], set()).update(lying)
        return True

    def is_out_of_reach(self, key: str) -> bool:
        """Whether a stream that is not held will not come soon: its rows lie, or the database has
        been away for longer than a moment.
        """
        now, since = mono_ms(), self._in_vain_since
        is_away = since is not None and now - since >= COLD_BACKOFF_MS_MAX
        return is_away or now < self._damaged.get(key, 0)

    def _ask_in_vain(self) -> None:
        if self._in_vain_since is None:
            self._in_vain_since = mono_ms()

    def _not_held_up(
        self, owners: Owners, inputs: Mapping[int, Collection[Record]]
    ) -> Mapping[int, Collection[Record]]:
        """The inputs without what waits in its inbox behind a stream that is not to be had."""
        damaged = self._left_alone()
        if not damaged:
            return inputs
        return {
            partition: _before(owners[partition], records, damaged)
            for partition, records in inputs.items()
        }

    def _part_of(self, missing: Mapping[int, Sequence[str]]) -> dict[int, list[str]]:
        """The first of what is missing in each partition, without what is not to be had."""
        damaged = self._left_alone()
        share = max(1, COLD_STREAMS_AT_ONCE_MAX // max(1, len(missing)))
        wanted = {
            partition: [key for key in keys if key not in damaged][:share]
            for partition, keys in missing.items()
        }
        return {partition: keys for partition, keys in wanted.items() if keys}

    def _left_alone(self) -> Collection[str]:
        """Streams that are not to be had now."""
        now = mono_ms()
        self._damaged = {key: until for key, until in self._damaged.items() if now < until}
        return self._damaged.keys()

    def _leave_alone(self, damaged: Iterable[str]) -> None:
        self._damaged |= dict.fromkeys(damaged, mono_ms() + DAMAGED_ASKED_MS)

    def _tell(self, loaded: Mapping[int, ColdStreams]) -> None:
        for cold in loaded.values():
            self._told.tell(cold.damaged)
            self._told.came(cold.streams)

    def _be_quiet(self, away: ColdStoreError) -> None:
        """Ask again later, ever less often."""
        if not self._backoff_ms:
            logger.warning("cold_streams_wait", extra={"reason": away.message})
        self._backoff_ms = min(COLD_BACKOFF_MS_MAX, max(COLD_BACKOFF_MS_MIN, 2 * self._backoff_ms))
        self._quiet_until = mono_ms() + self._backoff_ms

    async def keep_up(self, owners: Callable[[], Owners], stop: asyncio.Event) -> None:
        """Until `stop`: load what is due soon or may start, and let go of what is too much."""
        while self._store is not None and not stop.is_set():
            await asyncio.sleep(LET_GO_CHECK_MS / 1_000)
            try:
                for owner in list(owners().values()):
                    await self._hold(self._store, owner, sorted(self._owed.get(owner, ())))
                    await self._load_due(self._store, owner)
                    await self._load_ready(self._store, owner)
                await self._look_at_projection(self._store, owners())
                await self._ask_again(self._store, owners())
            except ColdStoreError as away:
                self._be_quiet(away)

    async def _ask_again(self, store: ColdStore, owners: Owners) -> None:
        """Ask once more for what was asked for in vain. Ticks that were passed over ask for nothing
        more, so nobody heard that the database was back, and the first that came then was passed
        over as well.
        """
        is_over = self._in_vain_since is None or self._loading is not None
        if is_over or mono_ms() < self._quiet_until:
            return
        asked = self._part_of(
            {
                partition: _unknown(owners[partition], keys)
                for partition, keys in self._asked.items()
                if partition in owners
            }
        )
        if asked:
            self._came(owners, asked, await store.load(asked))
        else:
            self._in_vain_since = None

    async def _load_due(self, store: ColdStore, owner: Owner) -> None:
        page = owner.timetable.page_wanted(owner.running_at(mono_ms()))
        if page is None:
            return
        found = await store.due(owner.partition, page.behind, page.until, page.limit)
        if await self._hold(store, owner, [key for _, key in found]):
            owner.timetable.page_read(page, found)

    async def _load_ready(self, store: ColdStore, owner: Owner) -> None:
        """A page of each operation that is offered and of which too few are known who wait."""
        for _ in owner.offers.operations(owner.running_at(mono_ms())):
            page = owner.ready_wanted(mono_ms())
            if page is None:
                return
            found = await store.ready(owner.partition, page.operation, page.behind, page.limit)
            keys = [key for _, key in found if key not in owner.timetable.awaiting]
            if not await self._hold(store, owner, keys):
                return
            owner.timetable.ready_read(page, found)

    async def _hold(self, store: ColdStore, owner: Owner, keys: Sequence[str]) -> bool:
        """Load the streams that the owner does not hold, in this order; False where it must be
        asked again. Those whose rows lie hold up nothing: they are owed, and asked for later.
        """
        owed, damaged = self._owed.setdefault(owner, set()), self._left_alone()
        unknown = _unknown(owner, dict.fromkeys(keys))
        owed.difference_update(set(keys).difference(unknown))
        owed.update(key for key in unknown if key in damaged)
        wanted = [key for key in unknown if key not in damaged]
        for begin in range(0, len(wanted), COLD_STREAMS_AT_ONCE_MAX):
            part = wanted[begin : begin + COLD_STREAMS_AT_ONCE_MAX]
            loaded = await store.load({owner.partition: part})
            self._tell(loaded)
            cold = loaded[owner.partition]
            if not owner.take_in(part, cold):
                return False
            lying = _unknown(owner, part)
            self._leave_alone(lying)
            owed.difference_update(part)
            owed.update(lying)
        return True

    async def _look_at_projection(self, store: ColdStore, owners: Owners) -> None:
        over = {part: owner for part, owner in owners.items() if owner.memory.is_over}
        if over:
            for partition, offset in (await store.projected(over)).items():
                over[partition].memory.projected(offset)

    async def close(self) -> None:
        """Ask nothing more."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.gather(self._loading, return_exceptions=True)


def _by_partition(records: Iterable[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for record in records:
        found.setdefault(record.partition, []).append(record)
    return found


def _before(owner: Owner, records: Iterable[Record], damaged: Collection[str]) -> list[Record]:
    """Of each inbox the inputs before the first about a damaged stream. What is internal does not
    wait behind one.
    """
    held_up: set[str] = set()
    before: list[Record] = []
    for record in records:
        if record.topic in held_up:
            continue
        if not any(key in damaged for key in owner.missing([record])):
            before.append(record)
        elif record.topic != Topic.INTERNAL:
            held_up.add(record.topic)
    return before


def _missing(owners: Owners, inputs: Mapping[int, Collection[Record]]) -> dict[int, list[str]]:
    found = {partition: owners[partition].missing(records) for partition, records in inputs.items()}
    return {partition: keys for partition, keys in found.items() if keys}


def _unknown(owner: Owner, keys: Iterable[str]) -> list[str]:
    """Those that the owner neither holds nor knows to be new: their rows lie, or have not all of
    what it passed over.
    """
    return [key for key in keys if not owner.memory.knows(key)]


def _take_in(
    owners: Owners, asked: Mapping[int, Sequence[str]], cold: Mapping[int, ColdStreams]
) -> bool:
    """Whether every owner can do with what came; where not, the projection is behind it."""
    is_of_use = True
    for partition, keys in asked.items():
        owner = owners.get(partition)
        if owner is not None and not owner.take_in(keys, cold[partition]):
            is_of_use = False
            logger.warning(
                "projection_is_behind",
                extra={
                    "partition": partition,
                    "projected": cold[partition].projected_offset,
                    "needed": owner.memory.cold_floor + 1,
                },
            )
    return is_of_use
