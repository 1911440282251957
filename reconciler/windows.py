"""Live windows: what a member of the reconciler saw in the last minutes, and what all of them saw.

Guarantees bounded room however much comes, and that a record that is handled again because its
batch was tried again counts again: these are figures to look at, never to decide by. A restart
begins with an empty window. Each member writes its own row; whoever reads adds those up that are
fresh. Called by the webhook agent, the process around it, and the gateway.
"""

import bisect
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Final

import asyncpg
from pydantic import Field, ValidationError

from ledger.core.wire import Milliseconds, Text, Wire
from reconciler.parking import Connection
from reconciler.sql_files import statements

WINDOW_MS: Final = 300_000
SLICE_MS: Final = 5_000
"""A window is counted in slices, and forgets one at a time."""

LATENCY_BOUNDS_MS: Final = (5, 10, 20, 30, 50, 75, 100, 150, 250, 500, 1_000, 2_500, 10_000, 60_000)
"""The last class is what took longer than all of these."""

FRESH_MS: Final = 20_000
"""A member that has not written for so long is not counted: it has ended, or hangs."""

FORGOTTEN_MS: Final = 3_600_000

_Count = Annotated[int, Field(ge=0)]


class Windows(Wire):
    """What one member saw: webhooks of the last `window_ms` by provider and by what became of them,
    how long those that matched took from the broker to their evidence, and what needed eyes in the
    last hour. `unmatched` is not this member's alone: what waited in the tables when it looked.
    """

    window_ms: Milliseconds = WINDOW_MS
    webhooks: dict[Text, dict[Text, _Count]]
    matched_within: tuple[_Count, ...]
    attention: dict[Text, _Count] = Field(default_factory=dict)
    unmatched: dict[Text, _Count] = Field(default_factory=dict)
    unmatched_at: Milliseconds = 0


@dataclass(slots=True)
class _Slice:
    begins_at: int
    webhooks: Counter[tuple[str, str]] = field(default_factory=Counter)
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS_MS) + 1))


class WebhookWindow:
    """Counts of the webhooks that this member handled lately."""

    def __init__(self) -> None:
        self._slices: deque[_Slice] = deque()

    def add(self, provider: str, became: str, *, now_ms: int, matched_after_ms: int | None) -> None:
        """Count one. `became` is one of a closed set, `matched_after_ms` None where it did not."""
        self._forget(now_ms)
        begins_at = now_ms - now_ms % SLICE_MS
        if not self._slices or self._slices[-1].begins_at < begins_at:
            self._slices.append(_Slice(begins_at))
        newest = self._slices[-1]
        newest.webhooks[provider, became] += 1
        if matched_after_ms is not None:
            newest.latencies[bisect.bisect_left(LATENCY_BOUNDS_MS, matched_after_ms)] += 1

    def webhooks(self, now_ms: int) -> dict[str, dict[str, int]]:
        """How many by provider and by what became of them."""
        self._forget(now_ms)
        found: dict[str, dict[str, int]] = {}
        total: Counter[tuple[str, str]] = Counter()
        for one in self._slices:
            total.update(one.webhooks)
        for (provider, became), count in sorted(total.items()):
            found.setdefault(provider, {})[became] = count
        return found

    def matched_within(self, now_ms: int) -> tuple[int, ...]:
        """How many matched within each of `LATENCY_BOUNDS_MS` and not the one before; at the end
        those that took longer.
        """
        self._forget(now_ms)
        return added([one.latencies for one in self._slices])

    def _forget(self, now_ms: int) -> None:
        while self._slices and self._slices[0].begins_at <= now_ms - WINDOW_MS:
            self._slices.popleft()


@dataclass(frozen=True, slots=True)
class Live:
    """What all members that are alive saw. Rates are a second over the window; a latency is the
    bound within which so many hundredths matched, in milliseconds, None where nothing did, and
    infinite beyond the last bound.
    """

    members: int
    webhooks_per_s: Mapping[str, Mapping[str, float]]
    matched_p50_ms: float | None
    matched_p99_ms: float | None
    unmatched: Mapping[str, int]
    attention: Mapping[str, int]


def added(counts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Counts by the classes of `LATENCY_BOUNDS_MS`, added up."""
    totals = [0] * (len(LATENCY_BOUNDS_MS) + 1)
    for one in counts:
        for place, count in enumerate(one[: len(totals)]):
            totals[place] += count
    return tuple(totals)


def live_of(found: Sequence[Windows]) -> Live:
    """The windows of all members as one."""
    webhooks: dict[str, Counter[str]] = {}
    attention: Counter[str] = Counter()
    for one in found:
        attention.update(one.attention)
        for provider, counts in one.webhooks.items():
            webhooks.setdefault(provider, Counter()).update(counts)
    latencies = added(one.matched_within for one in found)
    newest = max(found, key=lambda one: one.unmatched_at, default=None)
    return Live(
        members=len(found),
        webhooks_per_s={
            provider: {became: count / (WINDOW_MS / 1_000) for became, count in counts.items()}
            for provider, counts in sorted(webhooks.items())
        },
        matched_p50_ms=_within(latencies, 50),
        matched_p99_ms=_within(latencies, 99),
        unmatched={} if newest is None else newest.unmatched,
        attention=dict(attention),
    )


def _within(counts: Sequence[int], percent: int) -> float | None:
    """The bound below which so many hundredths lie."""
    total = sum(counts)
    if not total:
        return None
    rank, seen = -(-total * percent // 100), 0
    for bound, count in zip((*LATENCY_BOUNDS_MS, float("inf")), counts, strict=True):
        seen += count
        if seen >= rank:
            return float(bound)
    return None


async def write_windows(
    connection: Connection, member: str, windows: Windows, *, now_ms: int
) -> None:
    """Put a member's windows in place of those it wrote before, and forget who has ended."""
    async with connection.transaction():
        await connection.execute(
            _sql("write_windows"), member, _time(now_ms), windows.model_dump_json()
        )
        await connection.execute(_sql("forget_windows"), _time(now_ms - FORGOTTEN_MS))


async def read_live(pool: asyncpg.Pool, *, now_ms: int) -> Live:
    """What is written by all that are alive. What cannot be read, of a version that is none of
    ours, is left out.
    """
    rows = await pool.fetch(_sql("read_windows"), _time(now_ms - FRESH_MS))
    return live_of([one for row in rows if (one := _windows(row["windows"])) is not None])


def _windows(text: str) -> Windows | None:
    try:
        return Windows.model_validate_json(text)
    except ValidationError:
        return None


def _sql(name: str) -> str:
    return statements("reconciler", "windows.sql")[name]


def _time(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1_000, UTC)
