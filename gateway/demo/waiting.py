"""Waiting for something to be so, with an end. Called by the chapters."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway.demo.witness import WAIT_SECONDS_MAX, NotSeenError

LOOK_SECONDS: Final = 0.05

_Seen = TypeVar("_Seen")


async def until(what: str, look: Callable[[], Awaitable[_Seen | None]]) -> _Seen:
    """What a look sees, as soon as it sees anything. Raises NotSeenError."""
    try:
        async with asyncio.timeout(WAIT_SECONDS_MAX):
            while True:
                seen = await look()
                if seen is not None:
                    return seen
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError:
        raise NotSeenError(
            f"Not seen within {WAIT_SECONDS_MAX:.0f} s: {what}.",
            hint="Run it again with --keep and look at the logs of the processes.",
        ) from None
