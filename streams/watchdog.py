"""Is a Faust app moving? Faust itself does not notice when its group's coordinator has an error, or
when a rebalance leaves its fetcher stuck: the process stays up and idle.

Guarantees that such a process is told apart from an idle one: there is work in the log that nobody
handles, or there never was a place in the group. A broker that is away is no standstill; work that
lies there when it is back is. Called by `streams.app`, which ends the process.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from aiokafka.errors import KafkaError
from faust.types import TP

from streams.clock import mono_ms

if TYPE_CHECKING:
    from streams.app import SafeApp

_LOOK_SECONDS: Final = 1.0
_ASK_SECONDS: Final = 5.0


class Bounds(Protocol):
    """How long an app may take to become ready, and to handle anything while there is work."""

    @property
    def ready_deadline_ms(self) -> int:
        """From the start to membership of the group."""
        ...

    @property
    def stalled_after_ms(self) -> int:
        """Without one event handled, while there are some."""
        ...


@dataclass(frozen=True, slots=True)
class Standstill:
    """Why the app counts as stuck."""

    why: str


@dataclass(slots=True)
class Progress:
    """What has been handled, and since when there is work without any of it being handled.

    `made_again` counts what is done before events can be handled; that it grows is progress too.
    """

    handled: dict[TP, int]
    made_again: int = 0
    idle_since_ms: int | None = None

    def see(
        self, handled: dict[TP, int], ends: dict[TP, int], now_ms: int, *, made_again: int = 0
    ) -> int:
        """For how long nothing was handled although something lies there, in milliseconds."""
        behind = any(handled.get(tp, 0) < end for tp, end in ends.items())
        if not behind or handled != self.handled or made_again != self.made_again:
            self.idle_since_ms = None
        elif self.idle_since_ms is None:
            self.idle_since_ms = now_ms
        self.handled, self.made_again = handled, made_again
        return 0 if self.idle_since_ms is None else now_ms - self.idle_since_ms


async def watch(app: "SafeApp", bounds: Bounds, beat: Callable[[], None]) -> Standstill:
    """Look every second until the app stands still; call `beat` while it does not."""
    started_ms = mono_ms()
    is_ready = was_poisoned = False
    progress = Progress({})
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if was_poisoned:
            # A failed agent ends the app by itself; one that was only cancelled does not.
            return Standstill(f"its consumer was poisoned: {app.safe_consumer.poisoned_by}")
        was_poisoned = app.safe_consumer.poisoned_by is not None
        error = app.safe_consumer.coordinator_error()
        if error is not None:
            return Standstill(f"the group's coordinator reports {error!r}")
        is_ready = is_ready or app.safe_consumer.is_member()
        if not is_ready:
            if mono_ms() - started_ms > bounds.ready_deadline_ms:
                return Standstill(f"no place in the group after {bounds.ready_deadline_ms} ms")
            beat()
            continue
        ends = await _ends(app)
        if ends is not None:
            handled, made_again = app.safe_consumer.handled(), app.made_again()
            idle_ms = progress.see(handled, ends, mono_ms(), made_again=made_again)
            if idle_ms > bounds.stalled_after_ms:
                return Standstill(f"events wait and none was handled for {idle_ms} ms")
        beat()


async def _ends(app: "SafeApp") -> dict[TP, int] | None:
    """Where the assigned partitions end, by asking the broker; None when it does not answer."""
    assigned = app.safe_consumer.assignment()
    if not assigned or app.rebalancing:
        return {}
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            return dict(await app.safe_consumer.highwaters(*assigned))
    except (KafkaError, TimeoutError):
        return None
