"""Questions that wait for their turn, without I/O: a line for each tenant at each provider.

Guarantees that of those who wait at a provider each tenant is served in turn, whoever has how many;
that what is asked of one provider never stands behind what is asked of another; and that within a
line the oldest question is first. One question an action: a newer one takes the place at the end of
its line. Whoever takes questions says which accounts may be asked now.

Called by `streams.inquiring`.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ledger.core.ids import ActionKey

if TYPE_CHECKING:
    from streams.inquiring import Asked

Line = tuple[str, str]
"""An account at a provider, and the tenant whose actions are asked about there."""


class QuestionQueue:
    """All that waits in one partition, at most one question for each action."""

    def __init__(self) -> None:
        self._by_action: OrderedDict[str, Asked] = OrderedDict()
        self._rings: dict[str, OrderedDict[Line, OrderedDict[str, Asked]]] = {}

    def __len__(self) -> int:
        return len(self._by_action)

    def __iter__(self) -> "Iterator[Asked]":
        return iter(self._by_action.values())

    def of(self, action: str) -> "Asked | None":
        """The question about an action that waits."""
        return self._by_action.get(action)

    def providers(self) -> list[str]:
        """Where anybody waits."""
        return list(self._rings)

    def add(self, asked: "Asked") -> None:
        """Stand in line, in place of an older question about the same action."""
        action = asked.started.action
        self.drop(action)
        self._by_action[action] = asked
        ring = self._rings.setdefault(asked.started.provider, OrderedDict())
        ring.setdefault(_line_of(asked), OrderedDict())[action] = asked

    def add_first(self, asked: "Asked") -> None:
        """Stand at the head of the line: its turn it was already."""
        self.add(asked)
        line = self._rings[asked.started.provider][_line_of(asked)]
        line.move_to_end(asked.started.action, last=False)

    def drop(self, action: str) -> None:
        """Nobody asks about this action any more."""
        asked = self._by_action.pop(action, None)
        if asked is not None:
            self._leave(asked)

    def take(
        self, provider: str, may_ask: Callable[[str], bool] = lambda _account: True
    ) -> "Asked | None":
        """Whose turn it is at a provider, by accounts that may be asked now; None if nobody's."""
        ring = self._rings.get(provider)
        if ring is None:
            return None
        line = next((one for one in ring if may_ask(one[0])), None)
        if line is None:
            return None
        ring.move_to_end(line)
        asked = next(iter(ring[line].values()))
        self.drop(asked.started.action)
        return asked

    def _leave(self, asked: "Asked") -> None:
        provider, line = asked.started.provider, _line_of(asked)
        ring = self._rings[provider]
        del ring[line][asked.started.action]
        if not ring[line]:
            del ring[line]
        if not ring:
            del self._rings[provider]


def _line_of(asked: "Asked") -> Line:
    return asked.started.account, ActionKey.parse(asked.started.action).tenant
