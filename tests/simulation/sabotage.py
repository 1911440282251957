"""What a seeded bug is: names in modules of the product that are replaced while it is at work, and
put back. The product has no switch for this.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Saboteur:
    """What is broken, and the first seed that notices. `itself` names the law that it breaks by
    what it switches off to do its work: that one does not count.
    """

    what: str
    seed: int
    patches: tuple[tuple[Any, str, Any], ...]
    itself: str = "none"

    def is_noticed(self, broken: str | None) -> bool:
        """Whether a law that a history broke shows this bug."""
        return broken is not None and not broken.startswith(self.itself)


def no_invariants(condition: object, why: str) -> None:
    """Asserts nothing."""


class Everything:
    """A table that accepts whatever comes."""

    def __contains__(self, pair: object) -> bool:
        return True
