"""Inputs that wait because their stream has to be loaded first.

Within one inbox partition nothing overtakes, so behind an input that waits its whole inbox waits;
the other inboxes of the partition go on. Without I/O; called by the processor.
"""

from collections.abc import Callable, Iterable

from ledger.log.port import Record


class WaitingInputs:
    """By partition the inputs that could not be decided yet, each inbox in order."""

    def __init__(self) -> None:
        self._waiting: dict[int, list[Record]] = {}

    def clear(self) -> None:
        """Nothing is owned any more; what waited is read again."""
        self._waiting.clear()

    def forget(self, partition: int) -> None:
        """The partition is read again from other positions."""
        self._waiting.pop(partition, None)

    def partitions(self) -> Iterable[int]:
        """Partitions in which something waits."""
        return self._waiting.keys()

    def places(self) -> set[tuple[str, int]]:
        """Inboxes in which something waits."""
        return {(one.topic, part) for part, inputs in self._waiting.items() for one in inputs}

    def take(self, partition: int) -> list[Record]:
        """What waits in a partition, to be tried again before anything newer."""
        return self._waiting.pop(partition, [])

    def keep_back(
        self, partition: int, inputs: Iterable[Record], is_missing: Callable[[Record], bool]
    ) -> list[Record]:
        """Keep the inputs that have to wait; those that can be decided now, in order."""
        held_up: set[str] = set()
        go_on: list[Record] = []
        wait: list[Record] = []
        for record in inputs:
            if record.topic in held_up or is_missing(record):
                held_up.add(record.topic)
                wait.append(record)
            else:
                go_on.append(record)
        if wait:
            self._waiting[partition] = [*self._waiting.get(partition, ()), *wait]
        return go_on
