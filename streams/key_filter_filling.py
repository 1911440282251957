"""Fill the filters of owners with the keys of all streams, beside their work.

Reads the projection once from one end to the other, a page at a time with a rest between pages, and
until that is done owners ask for each new key as they do without a filter. A database that does not
answer is asked for the same page again, ever less often. Called by the processor.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from projections.cold import ColdStore, ColdStoreError
from projections.states import KeysPage
from streams.limits import (
    COLD_BACKOFF_MS_MAX,
    COLD_BACKOFF_MS_MIN,
    KEY_FILTER_BYTES,
    KEYS_PAGE_MAX,
    KEYS_PAUSE_MS,
    LET_GO_CHECK_MS,
)
from streams.owner import Owner

logger = logging.getLogger("actionledger")

Owners = Mapping[int, Owner]


async def fill_filters(
    store: ColdStore | None, owners: Callable[[], Owners], stop: asyncio.Event
) -> None:
    """Until `stop`: give every owner that does not hold everything a filter of what there is."""
    while store is not None and not stop.is_set():
        await asyncio.sleep(LET_GO_CHECK_MS / 1_000)
        wanting = {part: one for part, one in owners().items() if one.memory.wants_filter}
        if not wanting:
            continue
        size_bytes = KEY_FILTER_BYTES // len(owners())
        for owner in wanting.values():
            owner.memory.begin_filter(size_bytes)
        count = await _fill(store, wanting, owners)
        logger.info("key_filters_filled", extra={"keys": count})


async def _fill(store: ColdStore, wanting: Owners, owners: Callable[[], Owners]) -> int:
    """Add every key; how many there were. Who is no owner any more, or whose partition is projected
    less far than it must be, is left out.
    """
    behind, count = "", 0
    while wanting:
        page = await _page(store, wanting, behind)
        count += len(page.keys)
        wanting = {
            partition: owner
            for partition, owner in wanting.items()
            if owners().get(partition) is owner
            and owner.memory.fill(page.of(partition), page.projected.get(partition, 0))
        }
        if page.behind is None:
            break
        behind = page.behind
        await asyncio.sleep(KEYS_PAUSE_MS / 1_000)
    for owner in wanting.values():
        owner.memory.filled()
    return count


async def _page(store: ColdStore, wanting: Owners, behind: str) -> KeysPage:
    """One page, however often it has to be asked for."""
    backoff_ms = 0
    while True:
        try:
            return await store.keys(wanting, behind, KEYS_PAGE_MAX)
        except ColdStoreError as away:
            if not backoff_ms:
                logger.info("key_filters_wait", extra={"reason": away.message})
            backoff_ms = min(COLD_BACKOFF_MS_MAX, max(COLD_BACKOFF_MS_MIN, 2 * backoff_ms))
            await asyncio.sleep(backoff_ms / 1_000)
