"""What was taken and is undecided: the ledger does not know it yet, and it may come about still.

Guarantees that a client never says of something like that, which it was told of itself, that there
is no such thing: whoever heard that would ask for it under another name, and have it twice. Called
by the client. May be used by threads at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from actionledger.errors import CallerMistake
from actionledger.results import Conflict, Result
from actionledger.sagas import SagaResult

KEPT_MAX: Final = 1_000
"""The newest are remembered."""

REST_S: Final = 1.0
"""Between two looks at one."""

_NOT_KNOWN: Final = frozenset({"unknown_action", "unknown_saga"})
_Stands = TypeVar("_Stands", bound=Result | SagaResult)


class Taken:
    """What a client was told last, by the key of an action or the path of a saga."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._undecided: dict[str, Any] = {}

    def told(self, name: str, result: _Stands) -> _Stands:
        """How something stands now; the same result."""
        self._undecided.pop(name, None)
        if not isinstance(result, Conflict) and getattr(result, "status", None) == "undecided":
            self._undecided[name] = result
            for oldest in list(self._undecided)[:-KEPT_MAX]:
                self._undecided.pop(oldest, None)
        return result

    async def look(
        self, name: str, asking: Callable[[], Awaitable[_Stands]], until_s: float
    ) -> _Stands:
        """How it stands as soon as the ledger knows it; when the time is over, as it was told last.
        Of what was never told raises what asking does.
        """
        while True:
            try:
                return await asking()
            except CallerMistake as unknown:
                taken: _Stands | None = self._undecided.get(name)
                if taken is None or unknown.code not in _NOT_KNOWN:
                    raise
                left_s = until_s - self._clock()
                if left_s <= 0:
                    return taken
            await asyncio.sleep(min(left_s, REST_S))
